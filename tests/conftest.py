"""What several tests need: logs in every database there is, a real PostgreSQL among them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from hellinger.store._throwaway import Server
from live import Launcher


@pytest.fixture(scope="session")
def postgresql() -> Iterator[Server]:
    """A PostgreSQL for all tests of this process; ``postgresql.fresh()`` is the URL of a new, empty database."""
    try:
        server = Server()
    except ImportError as missing:
        pytest.skip(str(missing))
    with server:
        yield server


@pytest.fixture(scope="session")
def launcher() -> Iterator[Launcher]:
    """What services are started from."""
    with Launcher() as started:
        yield started
