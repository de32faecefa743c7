"""The service as a process: the socket, the server, and an orderly end."""

from __future__ import annotations

import errno
import gc
import logging
import os
import resource
import signal
import socket
import sys
from collections.abc import Awaitable, Callable
from types import FrameType
from typing import Any

import uvicorn

from hellinger.engine.settings import Settings
from hellinger.errors import InputError
from hellinger.serve import logs
from hellinger.serve.protocol import protocol_for
from hellinger.serve.shell import Shell
from hellinger.store import StoreError

__all__ = ["address", "bind", "prepare", "run", "serve"]

_LOG = logging.getLogger("hellinger.serve")
TURN = 0.0005
"""Seconds after which a thread gives the interpreter up to another one that waits for it: the loop waits several times
for each ranking while a prior is fitted in a thread, by default for 5 ms each time.
"""
FILES = 65_536
"""Files and connections that may be open at once, where the system allows so many."""


def run(settings: Settings, app_factory: Callable[[], Shell]) -> None:
    """Serve until SIGTERM or SIGINT; then let requests finish, let the application drain, and return.

    Parameters
    ----------
    app_factory
        Makes the application. It is called once the address is ours; what takes long belongs to its lifespan.
    """
    prepare(settings)
    serve(settings, app_factory, bind(settings.host, settings.port))


def prepare(settings: Settings) -> None:
    """Set up this process for serving."""
    logs.configure(level=settings.log_level, form=settings.log_format)
    # requests leave no cycles, and to look for them as usual takes 8 % of a ranking; never through everything, which
    # would hold up rankings for a tenth of a second and more
    gc.set_threshold(2_000, 5, 1_000_000)
    # every connection is an open file, and systems allow 1,024 of them unless one asks for more
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and (hard == resource.RLIM_INFINITY or soft < hard):
        most = FILES if hard == resource.RLIM_INFINITY else min(FILES, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, most), hard))


def serve(
    settings: Settings,
    app_factory: Callable[[], Shell],
    listener: socket.socket,
    on_ready: Callable[[], None] | None = None,
) -> None:
    """Serve on a bound socket, as :func:`run` does; ``on_ready`` is called when requests are taken."""
    sys.setswitchinterval(TURN)
    try:
        shell = app_factory()
        app = _Opened(shell)
        config = uvicorn.Config(
            app,
            loop="uvloop",
            http=protocol_for(settings),
            ws="none",
            lifespan="on",
            interface="asgi3",
            log_config=None,
            access_log=False,
            proxy_headers=False,  # whoever can reach the port could name any client
            server_header=False,
            timeout_graceful_shutdown=settings.drain_seconds,
        )
        server = _Server(config, address(listener), shell, on_ready)
        # uvicorn sends itself the signal again once all is done; by then it has been obeyed
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, _obeyed)
        try:
            server.run(sockets=[listener])
        except SystemExit:  # what uvicorn makes of an application that did not start
            if app.failure is None:
                raise
    except OSError as error:  # another process may have begun to listen since `bind`
        raise _explained(error, settings.host, settings.port) from None
    finally:
        listener.close()
    if app.failure is not None:
        raise app.failure from None
    _LOG.info("stopped; what was answered is in the log, and the next start goes on from there")


class _Opened:
    """An application whose failure to start is kept; one that says by itself what is wrong needs no traceback."""

    def __init__(self, app: Any) -> None:
        self._app = app
        self.failure: Exception | None = None

    def __call__(self, scope: Any, receive: Any, send: Any) -> Awaitable[None]:
        answered: Awaitable[None] = self._app(
            scope, receive, self._hearing(send) if scope["type"] == "lifespan" else send
        )
        return answered

    def _hearing(self, send: Callable[[Any], Awaitable[None]]) -> Callable[[Any], Awaitable[None]]:
        async def hear(message: Any) -> None:
            if message["type"] == "lifespan.startup.failed":
                error = sys.exc_info()[1]
                if isinstance(error, (StoreError, ValueError, OSError)):
                    self.failure = error
                    message = {"type": message["type"]}
                else:
                    self.failure = InputError("the service could not start; the log above says why")
            await send(message)

        return hear


class _Server(uvicorn.Server):
    """uvicorn's, which says where it can be reached, and at the end lets go of those who only listen."""

    def __init__(self, config: uvicorn.Config, where: str, shell: Shell, on_ready: Callable[[], None] | None) -> None:
        super().__init__(config)
        self._where = where
        self._shell = shell
        self._on_ready = on_ready

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if not self.started:  # nobody has had an answer, and compiling or reading the log may take long
            _LOG.info("stopped before it was ready; the log is as it was")
            os._exit(128 + sig)
        super().handle_exit(sig, frame)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            _LOG.info("listening on %s", self._where, extra={"address": self._where})
            if self._on_ready is not None:
                self._on_ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for name in ("live", "exports"):  # who listens, or reads a long log, would keep the server waiting
            under_way = getattr(self._shell.app.state, name, None)
            if under_way is not None:
                under_way.end()
        await super().shutdown(sockets)


def _obeyed(_signal: int, _frame: FrameType | None) -> None:
    pass


def bind(host: str, port: int) -> socket.socket:
    """A socket with this address, not listening yet: nobody should connect before there are answers."""
    try:
        family, kind, protocol, _, where = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
    except OSError as error:
        raise _explained(error, host, port) from None
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(where)
    except OSError as error:
        listener.close()
        raise _explained(error, host, port) from None
    return listener


def address(listener: socket.socket) -> str:
    """Where a socket is reached: ``http://127.0.0.1:8000``."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _explained(error: OSError, host: str, port: int) -> Exception:
    if error.errno == errno.EADDRINUSE:
        return InputError(f"the port must be free, but something listens on {host}:{port} already: choose with --port")
    if error.errno == errno.EACCES:
        return InputError(f"the port must be one this user may have, but got port={port}: choose another with --port")
    if error.errno == errno.EADDRNOTAVAIL or isinstance(error, socket.gaierror):
        return InputError(f"the host must be an address of this machine, but got host={host!r}")
    return error
