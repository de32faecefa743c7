"""The command line: what it prints, and what it says when asked for nonsense."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys

import pytest

import hellinger
from hellinger import families, policies


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "hellinger", *arguments], capture_output=True, text=True, timeout=60, check=False
    )


def test_version() -> None:
    assert run("--version").stdout.strip() == f"hellinger {hellinger.__version__}"
    assert json.loads(run("--version", "--json").stdout) == {"version": hellinger.__version__}


def test_policies() -> None:
    listed = json.loads(run("policies", "--json").stdout)["policies"]
    assert [entry["policy"] for entry in listed] == list(policies.available())
    assert all(entry["formula"] and entry["reference"] and entry["summary"] for entry in listed)
    text = run("policies").stdout
    assert all(name in text for name in policies.available())


def test_families() -> None:
    listed = json.loads(run("families", "--json").stdout)["families"]
    assert [entry["family"] for entry in listed] == list(families.available())
    for entry in listed:
        assert families.get(entry["family"], **entry["parameters"])
    text = run("families").stdout
    assert all(name in text for name in families.available())


@pytest.mark.parametrize("arguments", [["nonsense"], ["policies", "--nonsense"]])
def test_errors_have_status_two(arguments: list[str]) -> None:
    done = run(*arguments)
    assert done.returncode == 2
    assert "nonsense" in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize("width", ["70", "100"])
def test_help_fills_the_width(monkeypatch: pytest.MonkeyPatch, width: str) -> None:
    monkeypatch.setenv("COLUMNS", width)
    monkeypatch.setenv("TERM", "dumb")
    prose = [line.strip() for line in run("traffic", "--help").stdout.partition("╭")[0].splitlines()]
    for line, following in itertools.pairwise(prose):
        if line and following:  # else a paragraph ends
            assert len(f"{line} {following.split()[0]}") > int(width) - 3
    assert "  hellinger simulate --rewards table.csv --slots 3" in run("simulate", "--help").stdout
