"""Collaborative filtering in the laboratory: models of all ratings, fitted again and again, and a bandit among models.

A module here is one idea. A :class:`Filter` has a name, under which :func:`hellinger.simulate` knows it.

>>> sorted(FILTERS)
['latent-factors', 'pairwise']
"""

from __future__ import annotations

from hellinger.lab.filtering._base import FILTERS, Filter, Ratings, filter_parameters, make_filter, require_filter
from hellinger.lab.filtering.choose_model import ModelChooser
from hellinger.lab.filtering.latent_factors import Factors, LatentFactors
from hellinger.lab.filtering.pairwise import Pairwise, preference_weights

__all__ = [
    "FILTERS",
    "Factors",
    "Filter",
    "LatentFactors",
    "ModelChooser",
    "Pairwise",
    "Ratings",
    "filter_parameters",
    "make_filter",
    "preference_weights",
    "require_filter",
]
