"""Hellinger-UCB and its rivals: exact confidence bounds for multi-armed bandits.

>>> import hellinger
>>> hellinger.policy("hellinger-ucb").index(sums=[0, 3, 30], pulls=[0, 10, 100], t=111)
array([1.        , 0.772..., 0.453...])
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from hellinger import families, models, policies, theory
from hellinger.bandit import Bandit
from hellinger.errors import HellingerError, HellingerWarning
from hellinger.families import Family
from hellinger.identification import Identification
from hellinger.policies import Ball, Level, Policy, Rule, policy
from hellinger.pool import Pool

if TYPE_CHECKING:
    from hellinger import evaluate
    from hellinger.client import AsyncClient, Client
    from hellinger.lab import Result, simulate

__all__ = [
    "AsyncClient",
    "Ball",
    "Bandit",
    "Client",
    "Family",
    "HellingerError",
    "HellingerWarning",
    "Identification",
    "Level",
    "Policy",
    "Pool",
    "Result",
    "Rule",
    "__version__",
    "evaluate",
    "families",
    "models",
    "policies",
    "policy",
    "simulate",
    "theory",
]

__version__ = version("hellinger")


def __getattr__(name: str) -> Any:
    """Import the laboratory and Polars, the clients and httpx, and evaluation, only when they are asked for."""
    if name in ("Result", "simulate"):
        from hellinger import lab

        return getattr(lab, name)
    if name in ("AsyncClient", "Client"):
        from hellinger import client

        return getattr(client, name)
    if name == "evaluate":
        return import_module("hellinger.evaluate")
    raise AttributeError(f"module 'hellinger' has no attribute {name!r}")


def __dir__() -> list[str]:
    """The public names, those that are imported late included."""
    return sorted(__all__)
