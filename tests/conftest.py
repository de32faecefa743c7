"""What several tests need: logs in every database there is, a real PostgreSQL among them."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from hellinger.testing.stores import Fresh
from live import Launcher
from throwaway import Server

# the same examples at every run of the tests; fresh ones, many more of them, in `make fuzz`
settings.register_profile("test", derandomize=True, deadline=None, database=None)
settings.register_profile("fuzz", derandomize=False, deadline=None, database=None, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "test"))


@pytest.fixture(scope="session")
def postgresql() -> Iterator[Server]:
    """A PostgreSQL for all tests of this process; ``postgresql.fresh()`` is the URL of a new, empty database."""
    try:
        server = Server()
    except ImportError as missing:
        pytest.skip(str(missing))
    with server:
        yield server


@pytest.fixture
def fresh(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[str], Fresh]:
    """What gives URLs of new, empty logs, by scheme: a store on a server has a fixture of its scheme's name."""
    numbers = itertools.count()

    def make(scheme: str) -> Fresh:
        if scheme == "sqlite":
            return lambda: f"sqlite:///{tmp_path}/fresh-{next(numbers)}.db"
        server: Server = request.getfixturevalue(scheme)
        return server.fresh

    return make


@pytest.fixture(scope="session")
def launcher() -> Iterator[Launcher]:
    """What services are started from."""
    with Launcher() as started:
        yield started
