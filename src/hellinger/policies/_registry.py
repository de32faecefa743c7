"""Policies by name: each is one function from a family and its own arguments to a rule."""

from __future__ import annotations

import functools
import importlib
import inspect
import pkgutil
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from hellinger._plugins import Plugins
from hellinger.errors import UnknownNameError, require
from hellinger.policies._function import function_rule
from hellinger.policies._names import note_name
from hellinger.policies._rule import Rule

__all__ = ["REQUIRED", "Entry", "available", "entry_of", "find", "named"]

Constructor = TypeVar("Constructor", bound=Callable[..., Rule])

REQUIRED: Any = inspect.Parameter.empty
"""The default of an argument that must be given."""


class Entry(NamedTuple):
    """A policy's name, what it is, how it is made, and whose it is."""

    name: str
    make: Callable[..., Rule]
    summary: str
    formula: str
    reference: str
    package: str = "hellinger"

    @property
    def parameters(self) -> dict[str, object]:
        """Arguments the policy takes, with their defaults."""
        _, *rest = inspect.signature(self.make).parameters.values()
        if isinstance(self.make, type):  # a rule's fields, after its family
            return {p.name: p.default for p in rest}
        return {p.name: p.default for p in rest if p.kind is p.KEYWORD_ONLY}


_BEGINS = re.compile(r"([A-Z]\w+): (.*)")
"""A line that begins a paragraph with a name."""

_MAKERS: dict[str, Callable[..., Rule]] = {}


def named(name: str) -> Callable[[Constructor], Constructor]:
    """Give a function from a family (and keyword arguments) to a rule its name in specs.

    Its docstring has a line ``Formula:`` and a line ``Reference:``, each of which may go on below. ``python -OO``
    strips docstrings: a policy then works the same, and its texts are empty.
    """

    def register(make: Constructor) -> Constructor:
        note_name("policy", _MAKERS, name, make)
        return make

    return register


def _entry(name: str, make: Callable[..., Rule], package: str = "hellinger") -> Entry:
    summary, *lines = inspect.cleandoc(make.__doc__ or "").split("\n")
    parts, key = dict[str, str](), ""
    for line in lines:
        if begins := _BEGINS.match(line):
            key = begins[1]
            parts[key] = begins[2]
        elif key and line.strip():  # it goes on
            parts[key] += f" {line.strip()}"
        else:
            key = ""
    return Entry(name, make, summary, parts.get("Formula", ""), parts.get("Reference", ""), package)


def entry_of(thing: Any, name: str = "", package: str = "") -> Entry:
    """The entry of a user's rule class, of a function from a family to a rule, or of an index function."""
    if isinstance(thing, type):
        require(issubclass(thing, Rule), "a policy's class is a subclass of hellinger.Rule", got=thing)
        make: Callable[..., Rule] = _check_class(thing)
    elif _first_parameter(thing) == "family":
        make = thing
    else:
        make = function_rule(thing)
    label = name or str(getattr(thing, "name", "") or make.__qualname__.rpartition(".")[2])
    return _entry(label, make, package or make.__module__.partition(".")[0])


def _first_parameter(function: Any) -> str:
    require(callable(function), "a policy is a spec, a Rule, its class, or a function", got=function)
    try:
        return next(iter(inspect.signature(function).parameters), "")
    except (TypeError, ValueError):
        return ""


def _check_class(cls: type[Rule]) -> type[Rule]:
    fields = getattr(cls, "_fields", ())
    require(fields[:1] == ("family",), "a rule is a NamedTuple whose first field is family", got=cls, fields=fields)
    scores, fills = cls._score is not Rule._score, cls._fill is not Rule._fill
    require(scores or fills, "a rule writes _score or _fill", got=cls)
    together = cls.random or cls.relative  # a property counts: it is the rule's own
    require(scores or bool(together), "a rule without _score declares relative = True or random = True", got=cls)
    return cls


_PLUGINS = Plugins("policy", "hellinger.policies", lambda name, found, package: entry_of(found, name, package))


@functools.cache
def _discover() -> None:
    """Import the modules of this package, which name the library's policies."""
    package = __name__.rpartition(".")[0]
    for module in pkgutil.iter_modules([str(Path(__file__).parent)]):
        if not module.name.startswith("_"):
            importlib.import_module(f"{package}.{module.name}")


def available() -> dict[str, Entry]:
    """Every named policy: the library's, those named since by :func:`named`, and those of installed packages."""
    _discover()
    own = {name: _entry(name, make) for name, make in _MAKERS.items()}
    return dict(sorted((_PLUGINS.all(_MAKERS) | own).items()))


def is_taken(name: str) -> bool:
    """Whether a policy answers to this name in specs."""
    _discover()
    return name in _MAKERS or name in _PLUGINS.offers


def find(name: str) -> Entry:
    """The policy of that name; of installed packages only the one that has it is imported."""
    _discover()
    _PLUGINS.check(name, _MAKERS)
    found = _entry(name, _MAKERS[name]) if name in _MAKERS else _PLUGINS.get(name)
    if found is None:
        raise UnknownNameError("policy", name, list(available()))
    return found
