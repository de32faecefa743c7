"""The examples run as they stand, and say what they should."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parent.parent / "examples").glob("*.py"))
SAYS = {"library.py": "best of the pool", "lab.py": "hellinger-ucb"}


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_example_runs(example: Path, tmp_path: Path) -> None:
    command = [sys.executable, str(example), *([str(tmp_path)] if example.name == "lab.py" else [])]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("\n") >= 2
    if example.name != "service.py":
        assert SAYS[example.name] in done.stdout
    else:
        shown = sum(int(line.split()[1].replace(",", "")) for line in done.stdout.splitlines()[1:])
        assert shown == 2_000
    if example.name == "lab.py":
        assert (tmp_path / "regret.png").stat().st_size > 10_000
