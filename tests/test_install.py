"""The built wheel in an environment with the base alone: the library works, and what is missing is one sentence."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import typer

from hellinger import cli

ROOT = Path(__file__).parent.parent
BASE = ("llvmlite", "numba", "numpy", "scipy")
LABORATORY = {"coldstart", "families", "leaderboard", "policies", "reproduce", "show", "simulate"}


def _run(*words: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=120, check=False)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of programs of an environment with the wheel, and links to the base's packages."""
    folder = tmp_path_factory.mktemp("base")
    built = _run(
        sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", folder / "wheel", ROOT
    )
    if built.returncode:
        pytest.skip("pip cannot build the wheel here")
    made = _run(sys.executable, "-m", "venv", folder / "venv")
    assert made.returncode == 0, made.stderr
    (packages,) = (folder / "venv" / "lib").glob("python*/site-packages")
    for name in BASE:
        source = Path(str(__import__(name).__file__)).parent
        for each in (source, *source.parent.glob(f"{name}.libs"), *source.parent.glob(f"{name}-*.dist-info")):
            (packages / each.name).symlink_to(each)
    (wheel,) = (folder / "wheel").glob("*.whl")
    programs = folder / "venv" / "bin"
    done = _run(programs / "python", "-m", "pip", "install", "-q", "--no-index", wheel)
    assert done.returncode == 0, done.stderr  # pip finds every dependency of the base among the links
    return programs


def test_the_library_works(installed: Path) -> None:
    code = """
import hellinger
bandit = hellinger.Bandit("hellinger-ucb", arms=["a", "b"], seed=0)
bandit.update(bandit.select(), 1.0)
pool = hellinger.Pool(ties="oldest")
pool.add(["story", "video"])
assert [item.id for item in pool.serve(1)] == ["story"]
result = hellinger.simulate("ucb1", means=[0.1, 0.2], horizon=50, runs=2)
for extra, use in {
    "lab": [result.to_frame, result.plot_regret, lambda: result.save("nowhere")],
    "serve": [lambda: hellinger.Client, lambda: hellinger.AsyncClient],
    "cluster": [lambda: hellinger.simulate("ucb1", means=[0.1], horizon=9, runs=1, engine="dask://127.0.0.1:1")],
}.items():
    for each in use:
        try:
            each()
        except ImportError as error:
            assert f"pip install 'hellinger[{extra}]'" in str(error), error
        else:
            raise AssertionError(extra)
"""
    done = _run(installed / "python", "-c", code)
    assert (done.returncode, done.stderr) == (0, "")


def test_every_command_names_its_extra(installed: Path) -> None:
    group = typer.main.get_command(cli.app)
    for name in getattr(group, "commands"):  # noqa: B009 - typed as a plain command
        done = _run(installed / "hellinger", name)
        extra = "lab" if name in LABORATORY else "serve"
        assert (done.returncode, done.stdout) == (2, "")
        assert f"pip install 'hellinger[{extra}]'" in done.stderr
        assert done.stderr.count("\n") == 1
