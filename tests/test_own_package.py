"""The example package, installed for real: its entry points are found, its tests pass, and what is broken is said."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "examples" / "package"
SOURCES = str(Path(__file__).parent.parent / "src")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    source = tmp_path_factory.mktemp("source") / "package"
    shutil.copytree(PACKAGE, source)
    install = ["install", "--quiet", "--no-deps", "--no-index", "--no-build-isolation", "--target", str(folder)]
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", *install, str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    return folder


def _run(*arguments: str, path: tuple[Path, ...]) -> subprocess.CompletedProcess[str]:
    environ = os.environ | {"PYTHONPATH": os.pathsep.join([SOURCES, *map(str, path)])}
    return subprocess.run(
        [sys.executable, *arguments], env=environ, capture_output=True, text=True, check=False, timeout=300
    )


def _offer(folder: Path, package: str, line: str, code: str) -> Path:
    """A package with one entry point, as an installer would leave it."""
    module = package.replace("-", "_")
    info = folder / f"{module}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[hellinger.policies]\n{line}\n")
    (folder / f"{module}.py").write_text(code)
    return folder


def test_the_package_s_own_tests_pass(site: Path) -> None:
    tests = str(PACKAGE / "tests")
    done = _run(
        "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", tests, "-c", os.devnull, tests, path=(site,)
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_command_line_finds_both(site: Path) -> None:
    for listing, name in (("policies", "optimist"), ("families", "rate")):
        done = _run("-m", "hellinger", listing, path=(site,))
        assert done.returncode == 0, done.stderr
        assert name in done.stdout


INDEX = "def index(s, n, t):\n    return s / n\n"


def test_a_clash_names_both_packages(tmp_path: Path) -> None:
    one = _offer(tmp_path / "one", "first-package", "mine = first_package:index", INDEX)
    two = _offer(tmp_path / "two", "second-package", "mine = second_package:index", INDEX)
    done = _run("-c", "import hellinger; hellinger.policy('mine')", path=(one, two))
    assert "'mine' is offered by first-package and second-package" in done.stderr
    ours = _offer(tmp_path / "three", "third-package", "ucb1 = third_package:index", INDEX)
    done = _run("-c", "import hellinger; hellinger.policy('ucb1')", path=(ours,))
    assert "'ucb1' is offered by hellinger and third-package" in done.stderr


def test_a_package_that_fails_to_import_is_left_out_with_one_warning(tmp_path: Path) -> None:
    broken = _offer(tmp_path, "broken-package", "mine = broken_package:index", "import nowhere_to_be_found\n")
    code = "from hellinger.policies import available; print(*('mine' in available() for _ in range(3)))"
    done = _run("-c", code, path=(broken,))
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["False"] * 3
    assert done.stderr.count("HellingerWarning") == 1
    assert "'mine' of the package 'broken-package' is left out" in done.stderr
    assert "ModuleNotFoundError: No module named 'nowhere_to_be_found'" in done.stderr
