"""The command line: what it prints, and what it says when asked for nonsense."""

from __future__ import annotations

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
