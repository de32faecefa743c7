"""The command line: what it prints, and what it says when asked for nonsense."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys

import pytest

import hellinger
from hellinger import Pool, families, policies, policy
from hellinger.lab.filtering import FILTERS


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
    assert "not for pools" in text


def test_policies_say_what_they_forget_by_and_where_they_rank() -> None:
    found = json.loads(run("policies", "--json").stdout)
    by_name = {entry["policy"]: entry for entry in found["policies"]}
    assert by_name["kl-ucb"]["forgets_by"] == ["window", "discount", "detect"]
    assert by_name["thompson"]["forgets_by"] == ["window", "discount"]
    assert by_name["cold-start"]["forgets_by"] == by_name["exp3"]["forgets_by"] == []
    for name, entry in by_name.items():
        for key, value in {"window": 50, "discount": 0.9, "detect": 0.05}.items():
            if key in entry["forgets_by"]:
                assert policy(f"{name}({key}={value})").remembers
            else:
                with pytest.raises(ValueError, match=key):
                    policy(f"{name}({key}={value})")
    assert {name for name, entry in by_name.items() if not entry["pool"]} >= {"exp3", "constant-space", "ids"}
    for name in ("exp3", "ids", "kl-ucb(window=50)"):
        with pytest.raises(ValueError, match="a pool's policy"):
            Pool(name, horizon=100)
    filters = {entry["filter"] for entry in found["filters"]}
    assert filters == {"choose-model", *FILTERS}
    assert all(name in run("simulate", "--help").stdout for name in filters)


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
