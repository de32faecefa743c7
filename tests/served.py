"""A whole service on a real port, in a thread of the test's process."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import uvicorn
from fastapi import FastAPI

from hellinger.engine.service import Service
from hellinger.engine.settings import Settings
from hellinger.serve.app import create_app
from hellinger.serve.keys import Keys
from hellinger.serve.protocol import protocol_for
from hellinger.serve.shell import Shell


class Served(NamedTuple):
    url: str
    app: FastAPI

    @property
    def service(self) -> Service:
        found: Service = self.app.state.service
        return found


def application(folder: Path, **settings: Any) -> Shell:
    return create_app(settings_of(folder, **settings), Keys())


def settings_of(folder: Path, **settings: Any) -> Settings:
    given: dict[str, Any] = {"database": f"sqlite:///{folder}/log.db", "log_level": "error", "seed": 1} | settings
    return Settings(**given)


@contextmanager
def serving(folder: Path, port: int = 0, **settings: Any) -> Iterator[Served]:
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    shell = application(folder, **settings)
    protocol = protocol_for(settings_of(folder, **settings))
    server = uvicorn.Server(uvicorn.Config(shell, http=protocol, ws="none", log_config=None, lifespan="on"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive(), "the service did not start"
            time.sleep(0.01)
        yield Served(f"http://127.0.0.1:{listener.getsockname()[1]}", shell.app)
    finally:
        server.should_exit = True
        thread.join()
        listener.close()
