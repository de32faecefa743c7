"""Policies by name: each is one function from a family and its own arguments to a rule."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, TypeVar

from hellinger.policies._rule import Rule

__all__ = ["Entry", "available", "named"]

Constructor = TypeVar("Constructor", bound=Callable[..., Rule])


class Entry(NamedTuple):
    """A policy's name, what it is, and how it is made."""

    name: str
    make: Callable[..., Rule]
    summary: str
    formula: str
    reference: str

    @property
    def parameters(self) -> dict[str, object]:
        """Arguments the policy takes, with their defaults."""
        signature = inspect.signature(self.make).parameters.values()
        return {p.name: p.default for p in signature if p.kind is p.KEYWORD_ONLY}


_ENTRIES: dict[str, Entry] = {}


def named(name: str) -> Callable[[Constructor], Constructor]:
    """Give a rule's constructor its name; its docstring must hold a formula and a reference.

    ``python -OO`` strips docstrings: a policy then works the same, and its texts are empty.
    """

    def register(make: Constructor) -> Constructor:
        summary, *lines = inspect.cleandoc(make.__doc__ or "").split("\n")
        parts = dict(line.split(": ", 1) for line in lines if ": " in line)
        _ENTRIES[name] = Entry(name, make, summary, parts.get("Formula", ""), parts.get("Reference", ""))
        return make

    return register


def available() -> dict[str, Entry]:
    """Every named policy, discovered from the modules of this package."""
    package = __name__.rpartition(".")[0]
    for module in pkgutil.iter_modules([str(Path(__file__).parent)]):
        if not module.name.startswith("_"):
            importlib.import_module(f"{package}.{module.name}")
    return dict(sorted(_ENTRIES.items()))
