"""The Poisson model: how many clicks, orders or minutes."""

from __future__ import annotations

from hellinger.families import Poisson
from hellinger.models._base import Model

__all__ = ["PoissonModel"]


class PoissonModel(Model):
    """mean = e^η.

    >>> from hellinger import models
    >>> models.get("poisson", scale=0.5)
    model('poisson(scale=0.5)')
    """

    name = "poisson"
    reference = "West, Harrison & Migon 1985"
    family = Poisson()
    low, high = 1e-9, 1e9
