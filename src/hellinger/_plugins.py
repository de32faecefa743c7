"""What installed packages add by entry points: policies and families of their own, by name."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Any, TypeVar

from hellinger.errors import InputError, warn

__all__ = ["Plugins"]

T = TypeVar("T")


class Plugins:
    """The entry points of one group, loaded when they are asked for.

    Parameters
    ----------
    kind
        What they are, for messages: "policy", "family".
    group
        The group of entry points, as ``hellinger.policies``.
    make
        From an entry point's name, what it loads and its package to what is to be found by that name; it raises where
        that cannot be.
    """

    def __init__(self, kind: str, group: str, make: Callable[[str, Any, str], T]) -> None:
        self.kind, self.group = kind, group
        self._make = make
        self._loaded: dict[str, Any] = {}

    @functools.cached_property
    def offers(self) -> dict[str, dict[str, EntryPoint]]:
        """Entry points by name and package: a name should have one."""
        found: dict[str, dict[str, EntryPoint]] = {}
        for point in entry_points(group=self.group):
            package = point.dist.name if point.dist is not None else point.value
            found.setdefault(point.name, {}).setdefault(package, point)
        return found

    def check(self, name: str, own: Mapping[str, Any]) -> None:
        """Raise where two packages, the library among them, offer this name."""
        packages = list(self.offers.get(name, {}))
        if name in own and not self._same(name, own[name]):
            packages.insert(0, own[name].__module__.partition(".")[0])
        if len(packages) > 1:
            raise InputError(
                f"the name of a {self.kind} must be one package's, but {name!r} is offered by {' and '.join(packages)}"
            )

    def _same(self, name: str, known: Any) -> bool:
        """Whether what is known by this name is what a package offers by it, having registered it itself too."""
        target = f"{known.__module__}:{known.__qualname__}"
        return any(point.value == target for point in self.offers.get(name, {}).values())

    def get(self, name: str) -> Any | None:
        """What a package offers by this name; None where none does, or where it fails, with one warning."""
        if name not in self._loaded:
            self._loaded[name] = self._load(name)
        return self._loaded[name]

    def _load(self, name: str) -> Any | None:
        for package, point in self.offers.get(name, {}).items():
            try:
                return self._make(name, point.load(), package)
            except Exception as error:  # whatever a stranger's package raises when it is imported
                warn(
                    f"the {self.kind} {name!r} of the package {package!r} is left out: loading {point.value} raised "
                    f"{type(error).__name__}: {error}"
                )
        return None

    def all(self, own: Mapping[str, Any]) -> dict[str, Any]:
        """Everything that packages offer and that loads, by name."""
        for name in self.offers:
            self.check(name, own)
        found = {name: self.get(name) for name in self.offers}
        return {name: value for name, value in found.items() if value is not None}
