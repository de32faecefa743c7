"""The logistic model: a click or none."""

from __future__ import annotations

from hellinger.families import Bernoulli
from hellinger.models._base import Model

__all__ = ["LogisticModel"]


class LogisticModel(Model):
    """mean = 1/(1 + e^−η).

    >>> from hellinger import models
    >>> models.get("logistic(shared=false, per_item=true)")
    model('logistic(shared=false, per_item=true)')
    """

    name = "logistic"
    reference = "West, Harrison & Migon 1985 (the step); Filippi, Cappé, Garivier & Szepesvári 2010 (GLM-UCB)"
    family = Bernoulli()
    low, high, peak = 1e-9, 1.0 - 1e-9, 0.5
