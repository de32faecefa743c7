"""``python -OO`` strips docstrings and assertions: nothing but descriptions may be missing then."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from hellinger import families, policies

EVERYTHING = """
import importlib, json, pkgutil
import hellinger
from hellinger import families, policies

for module in pkgutil.walk_packages(hellinger.__path__, "hellinger."):
    if module.name != "hellinger.__main__":
        importlib.import_module(module.name)
specs = [hellinger.policy(name).spec for name in policies.available()]
print(json.dumps([__debug__, specs, [str(families.get(name)) for name in families.available()]]))
"""


def stripped(*arguments: str) -> str:
    done = subprocess.run([sys.executable, "-OO", *arguments], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_module_policy_and_family_is_there() -> None:
    debug, specs, found = json.loads(stripped("-c", EVERYTHING))
    assert not debug
    assert specs == [policies.policy(name).spec for name in policies.available()]
    assert found == [str(families.get(name)) for name in families.available()]


@pytest.mark.parametrize(
    "arguments", [["--help"], ["policies"], ["families"], ["serve", "--help"]], ids=lambda arguments: arguments[0]
)
def test_commands_print(arguments: list[str]) -> None:
    assert stripped("-m", "hellinger", *arguments)


@pytest.mark.parametrize(("command", "key"), [("policies", "policy"), ("families", "family")])
def test_lists_name_everything(command: str, key: str) -> None:
    rows = json.loads(stripped("-m", "hellinger", command, "--json"))[command]
    expected = policies.available() if key == "policy" else families.available()
    assert [row[key] for row in rows] == list(expected)
