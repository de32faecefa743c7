"""What users can rely on: names, types, documentation, and what importing costs."""

from __future__ import annotations

import importlib
import pkgutil
import subprocess
import sys
from importlib.metadata import version
from importlib.resources import files

import pytest

import hellinger
from hellinger import families, policies

MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages(hellinger.__path__, "hellinger.")
    if not any(part.startswith("_") for part in module.name.split("."))
)


@pytest.mark.parametrize("name", ["hellinger", *MODULES])
def test_all_is_exact(name: str) -> None:
    module = importlib.import_module(name)
    assert module.__doc__
    assert len(set(module.__all__)) == len(module.__all__)  # their order is the linter's
    assert all(hasattr(module, public) for public in module.__all__)
    own = {
        key
        for key, value in vars(module).items()
        if not key.startswith("_") and isinstance(value, type) and value.__module__ == name
    }
    assert own - set(module.__all__) <= {"CrowdedUcb"}


def test_the_package() -> None:
    assert hellinger.__all__ == sorted(hellinger.__all__)
    assert all(hasattr(hellinger, name) for name in hellinger.__all__)
    assert {"Bandit", "families", "policies", "policy", "simulate"} <= set(hellinger.__all__)
    assert hellinger.__version__ == version("hellinger")
    assert dir(hellinger) == hellinger.__all__  # what completion shows, those that are imported late included
    assert files("hellinger").joinpath("py.typed").is_file()


@pytest.mark.parametrize("entry", policies.available().values(), ids=policies.available())
def test_policies_are_documented(entry: policies.Entry) -> None:
    assert entry.summary
    assert entry.formula.endswith(".")
    assert entry.reference.endswith(".")
    paragraph = f"Formula: {entry.formula} Reference: {entry.reference}"
    assert paragraph in " ".join((entry.make.__doc__ or "").split()), "the whole of what the docstring says"


@pytest.mark.parametrize("family", families.available().values(), ids=families.available())
def test_families_are_documented(family: type[families.Family]) -> None:
    assert ">>>" in (family.__doc__ or "")
    assert family.reference


def test_a_warning_is_at_the_line_of_the_user() -> None:
    for made in (
        lambda: hellinger.policy("hellinger-ucb(c=0.2)"),
        lambda: hellinger.simulate(["hellinger-ucb(c=0.2)"], means=[0.1, 0.2], horizon=10, runs=2),
        lambda: hellinger.Pool("hellinger-ucb(c=0.2)"),
    ):
        with pytest.warns(hellinger.HellingerWarning, match="outside") as noted:
            made()
        assert [warning.filename for warning in noted] == [__file__]


def test_importing_is_light() -> None:
    code = "import sys, hellinger; print([m for m in ('scipy.special', 'typer', 'rich', 'mpmath') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"
