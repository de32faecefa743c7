"""Families of rewards: what a reward is, and how far apart two arms are.

Every public module of this package defines one family; :func:`get` finds it by name.

>>> get("gamma", shape=2.0)
Gamma(shape=2.0)
>>> get("gamma(shape=2)") == get("gamma", shape=2.0)
True
>>> get("bernoulli").hellinger_upper(0.5, 0.1)
0.885...
"""

from __future__ import annotations

import functools
import importlib
import pkgutil

from hellinger._plugins import Plugins
from hellinger._spec import parse_spec
from hellinger.errors import InputError, UnknownNameError, require
from hellinger.families._base import Family
from hellinger.families.bernoulli import Bernoulli
from hellinger.families.binomial import Binomial
from hellinger.families.custom import ExponentialFamily
from hellinger.families.exponential import Exponential
from hellinger.families.gamma import Gamma
from hellinger.families.gaussian import Gaussian
from hellinger.families.geometric import Geometric
from hellinger.families.hyperbolic_secant import HyperbolicSecant
from hellinger.families.inverse_gaussian import InverseGaussian
from hellinger.families.negative_binomial import NegativeBinomial
from hellinger.families.poisson import Poisson

__all__ = [
    "Bernoulli",
    "Binomial",
    "Exponential",
    "ExponentialFamily",
    "Family",
    "Gamma",
    "Gaussian",
    "Geometric",
    "HyperbolicSecant",
    "InverseGaussian",
    "NegativeBinomial",
    "Poisson",
    "available",
    "get",
]


@functools.cache
def _own() -> dict[str, type[Family]]:
    """The library's families, discovered from the modules of this package."""
    found: dict[str, type[Family]] = {}
    for module in pkgutil.iter_modules(__path__):
        if module.name.startswith("_"):
            continue
        for value in vars(importlib.import_module(f"{__name__}.{module.name}")).values():
            if isinstance(value, type) and issubclass(value, Family) and "name" in vars(value):
                found[value.name] = value
    return found


def _checked(name: str, found: object, package: str) -> type[Family]:
    """Return what an installed package offers, if it is a family of that name."""
    if not (isinstance(found, type) and issubclass(found, Family)):
        raise TypeError(f"a family must be a subclass of hellinger.Family, but {package} offers {found!r}")
    require(found.name == name, "a family has the name of its entry point", name=found.name, entry_point=name)
    return found


_PLUGINS = Plugins("family", "hellinger.families", _checked)


def available() -> dict[str, type[Family]]:
    """Every named family: the library's, and those of installed packages."""
    return dict(sorted((_PLUGINS.all(_own()) | _own()).items()))


def get(family: str | Family | type[Family], **parameters: object) -> Family:
    """Return the family of that name or class with these parameters; a family passes through unchanged."""
    if isinstance(family, Family):
        if parameters:
            raise InputError(f"parameters go with a family's name, but got {family} and {parameters}")
        return family
    if isinstance(family, type):
        require(issubclass(family, Family), "a family's class is a subclass of hellinger.Family", got=family)
        name, written, cls = getattr(family, "name", family.__qualname__), dict[str, object](), family
    else:
        name, written = parse_spec(family)
        name = name.replace("_", "-")
        cls = _find(name)
    try:
        return cls(**(written | parameters))
    except TypeError:
        takes = ", ".join(getattr(cls, "_fields", ())) or "none"
        got = ", ".join(f"{key}={value!r}" for key, value in (written | parameters).items()) or "none"
        raise InputError(f"{name} takes these parameters: {takes}; but got {got}") from None


def _find(name: str) -> type[Family]:
    _PLUGINS.check(name, _own())
    found: type[Family] | None = _own().get(name) or _PLUGINS.get(name)
    if found is None:
        raise UnknownNameError("family", name, list(available()))
    return found
