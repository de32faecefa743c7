"""Identification: which m of K arms are the best, with a given confidence or a given budget."""

from __future__ import annotations

from hellinger.identification.arriving import Certainty, arriving_bounds, certainty
from hellinger.identification.finder import Identification
from hellinger.identification.rates import Rate

__all__ = ["Certainty", "Identification", "Rate", "arriving_bounds", "certainty"]
