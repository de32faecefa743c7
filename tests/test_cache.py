"""Machine code is kept on disk, for the next process and for no one else."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from hellinger import _jit

FIRST = """
import json, numpy as np
from hellinger import families
from hellinger.families import _kernels
f = families.get({family!r})
value = f.kl_upper(0.3, 0.1)
stats = _kernels.kl_upper.stats
print(json.dumps([value, sum(stats.cache_hits.values()), sum(stats.cache_misses.values())]))
"""
CUSTOM = """
import json, numpy as np
from hellinger import families
from hellinger.families import _kernels
f = families.ExponentialFamily(lambda t: np.exp(t), mean_bounds=(0, np.inf))
print(json.dumps([f.kl_upper(0.3, 0.1), sum(_kernels.kl_upper.stats.cache_hits.values()), 0]))
"""

APART = """
import json
from numba.core import event
from hellinger.engine.warming import compile_apart, warm_policies

class Compiled(event.Listener):
    number = 0
    def on_start(self, event): self.number += 1
    def on_end(self, event): ...

compiled = Compiled()
event.register("numba:compile", compiled)
compile_apart(frozenset(["ucb1"]))
warm_policies(["ucb1"])
print(json.dumps([compiled.number]))
"""
LOADING = """
import json, numpy as np
from hellinger import _jit, families
from hellinger.families import _kernels
own, others = families.ExponentialFamily(lambda t: np.exp(t), mean_bounds=(0, np.inf)), families.get("bernoulli")
with _jit.loading():
    value = own.kl_upper(0.3, 0.1)
    try:
        others.kl_upper(0.3, 0.1)
    except _jit.NotKeptError:
        print(json.dumps([value, len(_kernels.kl_upper.overloads)]))
"""


def run(code: str, cache: Path, *, timeout: float = 120) -> list[float]:
    """Run Python code that prints a list, with a cache folder of its own."""
    environment = os.environ | {"NUMBA_CACHE_DIR": str(cache)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=timeout, check=False
    )
    assert done.returncode == 0, done.stderr
    printed: list[float] = json.loads(done.stdout)
    return printed


def entries(cache: Path) -> list[Path]:
    return sorted(cache.rglob("*.nbc"))


def test_a_second_process_compiles_nothing(tmp_path: Path) -> None:
    code = FIRST.format(family="bernoulli")
    value, hits, misses = run(code, tmp_path)
    assert (hits, misses) == (0, 1)
    before = entries(tmp_path)
    assert len(before) == 1
    assert run(code, tmp_path) == [value, 1, 0]
    assert entries(tmp_path) == before


def test_processes_that_compile_at_once_do_not_mix_their_code(tmp_path: Path) -> None:
    names = ["bernoulli", "poisson", "exponential", "geometric"]
    with ThreadPoolExecutor() as pool:
        values = list(pool.map(lambda name: run(FIRST.format(family=name), tmp_path)[0], names))
    assert len(entries(tmp_path)) == len(names)
    for name, value in zip(names, values, strict=True):
        assert run(FIRST.format(family=name), tmp_path) == [value, 1, 0]


def test_a_custom_family_is_not_kept(tmp_path: Path) -> None:
    value, _, _ = run(CUSTOM, tmp_path)
    assert entries(tmp_path) == []
    assert run(CUSTOM, tmp_path) == [value, 0, 0]


def test_a_service_has_another_process_compile(tmp_path: Path) -> None:
    assert run(APART, tmp_path, timeout=600) == [0], "the compiler keeps megabytes for each kernel"
    assert entries(tmp_path)


def test_only_what_others_can_compile_is_left_to_them(tmp_path: Path) -> None:
    value, _, _ = run(CUSTOM, tmp_path)
    assert run(LOADING, tmp_path) == [value, 1]
    assert entries(tmp_path) == []


def test_a_damaged_entry_is_compiled_anew(tmp_path: Path) -> None:
    code = FIRST.format(family="poisson")
    value, _, _ = run(code, tmp_path)
    (entry,) = entries(tmp_path)
    entry.write_bytes(b"")
    assert run(code, tmp_path) == [value, 0, 1]
    assert run(code, tmp_path) == [value, 1, 0]


# Only code of our own is run -------------------------------------------------------------------------------


class Planted:
    """Makes a file when it is unpickled."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (self.trace,)


def mode(file: Path) -> int:
    return file.stat().st_mode & 0o777


def give_away(path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a file to another user")
    os.chown(path, 65534, -1)


@pytest.fixture
def roots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """The first and second folder that is tried."""
    (tmp_path / "temporary").mkdir()
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "first"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    return tmp_path / "first" / "hellinger", tmp_path / "temporary" / f"hellinger-{os.geteuid()}"


def test_the_folder_is_closed_to_others(roots: tuple[Path, Path]) -> None:
    before = os.umask(0)
    try:
        folder = Path(_jit._cache_dir())
    finally:
        os.umask(before)
    assert folder == roots[0] / _jit.DIGEST
    assert mode(folder) == mode(folder.parent) == 0o700


def test_an_open_folder_of_ours_is_closed(roots: tuple[Path, Path]) -> None:
    (roots[0] / _jit.DIGEST).mkdir(parents=True)
    roots[0].chmod(0o777)
    (roots[0] / _jit.DIGEST).chmod(0o775)
    folder = Path(_jit._cache_dir())
    assert folder.parent == roots[0]
    assert mode(folder) == mode(folder.parent) == 0o700


@pytest.mark.parametrize("inner", ["", _jit.DIGEST])
def test_a_folder_that_is_not_ours_is_not_used(roots: tuple[Path, Path], inner: str) -> None:
    for root in roots:
        (root / inner).mkdir(parents=True)
    give_away(roots[0] / inner)
    assert _jit._cache_dir() == str(roots[1] / _jit.DIGEST)
    give_away(roots[1] / inner)
    assert _jit._cache_dir() == ""


@pytest.mark.parametrize("inner", ["", _jit.DIGEST])
def test_a_link_is_not_used(roots: tuple[Path, Path], tmp_path: Path, inner: str) -> None:
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    for root in roots:
        (root / inner).parent.mkdir(parents=True, exist_ok=True)
        (root / inner).symlink_to(tmp_path / "elsewhere")
    assert _jit._cache_dir() == ""


def test_without_a_home_there_is_the_temporary_folder(
    roots: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "getuid", lambda: 2**31 - 9)  # a number without a name, as containers have
    assert _jit._cache_dir() == str(roots[1] / _jit.DIGEST)


@pytest.mark.parametrize("how", ["link", "owner"])
def test_a_planted_entry_is_not_unpickled(tmp_path: Path, how: str) -> None:
    code = FIRST.format(family="poisson")
    value, _, _ = run(code, tmp_path)
    (entry,) = entries(tmp_path)
    assert mode(entry) == 0o600
    if how == "link":
        entry.unlink()
        entry.symlink_to(tmp_path / "planted")
    entry.write_bytes(pickle.dumps(Planted(tmp_path / "trace")))
    if how == "owner":
        give_away(entry)
    assert run(code, tmp_path) == [value, 0, 1]
    assert not (tmp_path / "trace").exists()
    assert run(code, tmp_path) == [value, 1, 0]


def test_without_a_safe_folder_each_process_compiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    (tmp_path / f"hellinger-{os.geteuid()}").symlink_to(tmp_path)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    for _ in range(2):
        _, hits, _ = run(FIRST.format(family="poisson"), tmp_path / "file")
        assert hits == 0
    assert entries(tmp_path) == []


# Folders of sources that have gone ---------------------------------------------------------------------------


def aged(folder: Path, days: float) -> Path:
    """A cache that was last used so long ago."""
    (folder / "pool").mkdir(parents=True)
    (folder / "pool" / "entry.nbc").touch()
    then = time.time() - days * 86400
    os.utime(folder, (then, then))
    return folder


def test_folders_that_nobody_uses_are_removed(roots: tuple[Path, Path]) -> None:
    root, _ = roots
    gone = [
        aged(root / "0123456789abcdef", 31),
        aged(root / "0123456789abcdef.77", 31),
    ]  # one half removed by a process
    stay = [aged(root / "fedcba9876543210", 29), aged(root / "notes", 400), aged(root / _jit.DIGEST, 400)]
    _jit._cache_dir()
    assert not any(folder.exists() for folder in gone)
    assert sorted(root.iterdir()) == sorted(stay)
    assert all((folder / "pool" / "entry.nbc").exists() for folder in stay)
    assert (root / _jit.DIGEST).stat().st_mtime > time.time() - 3600  # used now


def test_processes_that_remove_at_once_do_not_disturb_each_other(tmp_path: Path) -> None:
    for number in range(40):
        aged(tmp_path / "hellinger" / f"{number:016x}", 31)
    folder = tmp_path / "hellinger" / _jit.DIGEST
    code = "from hellinger import _jit; print([len(_jit._CACHE_DIR)])"
    with ThreadPoolExecutor() as pool:
        assert list(pool.map(lambda _: run(code, tmp_path), range(4))) == [[len(str(folder))]] * 4
    assert list(folder.parent.iterdir()) == [folder]


def test_a_process_whose_folder_was_removed_goes_on(tmp_path: Path) -> None:
    code = FIRST.format(family="poisson")
    lost = code.replace("f = ", "import shutil; from hellinger import _jit; shutil.rmtree(_jit._CACHE_DIR)\nf = ")
    value, _, _ = run(lost, tmp_path)
    assert run(code, tmp_path) == [value, 1, 0]


def test_a_process_that_cannot_write_goes_on(tmp_path: Path) -> None:
    code = FIRST.format(family="poisson")
    full = code.replace("f = ", "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))\nf = ")
    value, _, _ = run(full, tmp_path)
    assert entries(tmp_path) == []
    assert run(code, tmp_path) == [value, 0, 1]
