"""Logs: one JSON object a line with the request's id in it, or text for a terminal."""

from __future__ import annotations

import logging
import sys
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import IO, Any, Literal

import orjson

__all__ = ["JsonFormatter", "TextFormatter", "configure", "trace_id"]

trace_id: ContextVar[str] = ContextVar("trace_id", default="")
"""Name of the request being answered, in logs and in errors; not the name of a ranking."""

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "color_message", "taskName"}


def _extras(record: logging.LogRecord) -> dict[str, Any]:
    """What was given as ``extra=``."""
    return {key: value for key, value in vars(record).items() if key not in _STANDARD}


class JsonFormatter(logging.Formatter):
    """``{"at": …, "level": …, "logger": …, "message": …, "trace_id": …, …}``; a trace under ``trace``."""

    def format(self, record: logging.LogRecord) -> str:
        """One line, whatever the message holds."""
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line: dict[str, Any] = {
            "at": at.replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if request := trace_id.get():
            line["trace_id"] = request
        line.update(_extras(record))
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)
        try:
            return orjson.dumps(line, default=str).decode()
        except TypeError:  # keys or text that JSON cannot hold
            return orjson.dumps({key: ascii(value) for key, value in line.items()}).decode()


class TextFormatter(logging.Formatter):
    """``12:00:00.000 warning hellinger.store: …``; one line but for a trace."""

    def format(self, record: logging.LogRecord) -> str:
        """The time of day, the level, who says it, and what."""
        at = datetime.fromtimestamp(record.created).astimezone()
        extras = "".join(f" {key}={value}" for key, value in _extras(record).items())
        request = f" [{trace_id.get()}]" if trace_id.get() else ""
        line = f"{at:%H:%M:%S}.{at.microsecond // 1000:03d} {record.levelname.lower():7} "
        line += f"{record.name}: {record.getMessage()}{extras}{request}"
        line = line.replace("\r", "\\r").replace("\n", "\\n")  # what a client sends begins no line of its own
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


def configure(
    *, level: str = "info", form: Literal["json", "text"] = "json", stream: IO[str] | None = None
) -> logging.Handler:
    """Send the logs of the service and of its server to one stream, standard error if none is given."""
    handler = logging.StreamHandler(sys.stderr if stream is None else stream)
    handler.setFormatter(JsonFormatter() if form == "json" else TextFormatter())
    for name in ("hellinger", "uvicorn", "uvicorn.error", "uvicorn.access", "asyncio"):
        logger = logging.getLogger(name)
        logger.handlers = [] if name.startswith("uvicorn.") else [handler]
        logger.propagate = name.startswith("uvicorn.")
        logger.setLevel(logging.NOTSET if name.startswith("uvicorn.") else level.upper())
    logging.getLogger("uvicorn.access").disabled = True  # ours knows routes, keys and request ids
    return handler
