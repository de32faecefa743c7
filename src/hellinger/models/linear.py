"""The linear model: rewards of any size, with noise of variance 1."""

from __future__ import annotations

from hellinger.families import Gaussian
from hellinger.models._base import Model

__all__ = ["LinearModel"]


class LinearModel(Model):
    """mean = η. Exact where events come one by one: the posterior is Gaussian, and late rewards are no approximation.

    >>> from hellinger import models
    >>> models.get("linear", strength=10, mean=0.1)
    model('linear(strength=10.0, mean=0.1)')
    """

    name = "linear"
    reference = "Li, Chu, Langford & Schapire 2010 (LinUCB); Kalman 1960"
    family = Gaussian()
