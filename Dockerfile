# docker build -t hellinger .
# docker run -p 8000:8000 -v hellinger:/data -e HELLINGER_KEYS="$(hellinger keys list --variable | cut -d= -f2)" hellinger
FROM python:3.12-slim AS build
WORKDIR /src
COPY pyproject.toml README.md LICENSE requirements.txt ./
COPY src ./src
# the versions that were tested, but of them only those that the service asks for
RUN sed -n 's/^\([A-Za-z0-9_.-]*==[^ ;\\]*\).*/\1/p' requirements.txt > versions.txt \
 && python -m venv /opt/hellinger \
 && /opt/hellinger/bin/pip install --no-cache-dir --constraint versions.txt ".[serve]"

FROM python:3.12-slim
RUN useradd --system --uid 10001 --home-dir /data --create-home hellinger
COPY --from=build /opt/hellinger /opt/hellinger
# compiled code is kept beside the data, so that the next start need not compile again
ENV PATH=/opt/hellinger/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    NUMBA_CACHE_DIR=/data/cache \
    HELLINGER_HOST=0.0.0.0 \
    HELLINGER_PORT=8000 \
    HELLINGER_DATABASE=sqlite:////data/hellinger.db
USER 10001
WORKDIR /data
VOLUME /data
EXPOSE 8000
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=3s --start-period=60s --retries=3 \
    CMD ["python", "-c", "from urllib.request import urlopen; urlopen('http://127.0.0.1:8000/health/live', timeout=2)"]
ENTRYPOINT ["hellinger"]
CMD ["serve"]
