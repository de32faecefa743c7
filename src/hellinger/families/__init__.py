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

from hellinger._spec import parse_spec
from hellinger.errors import UnknownNameError
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
def available() -> dict[str, type[Family]]:
    """Every named family, discovered from the modules of this package."""
    found: dict[str, type[Family]] = {}
    for module in pkgutil.iter_modules(__path__):
        if module.name.startswith("_"):
            continue
        for value in vars(importlib.import_module(f"{__name__}.{module.name}")).values():
            if isinstance(value, type) and issubclass(value, Family) and "name" in vars(value):
                found[value.name] = value
    return dict(sorted(found.items()))


def get(family: str | Family, **parameters: object) -> Family:
    """Return the family of that name with these parameters; a family passes through unchanged."""
    if isinstance(family, Family):
        if parameters:
            raise ValueError(f"parameters go with a family's name, but got {family} and {parameters}")
        return family
    name, written = parse_spec(family)
    name = name.replace("_", "-")
    if name not in available():
        raise UnknownNameError("family", name, list(available()))
    try:
        return available()[name](**(written | parameters))
    except TypeError:
        takes = ", ".join(getattr(available()[name], "_fields", ())) or "none"
        got = ", ".join(f"{key}={value!r}" for key, value in (written | parameters).items()) or "none"
        raise ValueError(f"{name} takes these parameters: {takes}; but got {got}") from None
