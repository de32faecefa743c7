"""The ratio of two policies' clicks over paired runs."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

__all__ = ["paired_ratio"]


def paired_ratio(mine: Sequence[float], theirs: Sequence[float]) -> tuple[float, float, float]:
    """The ratio of the means and its 95 % interval: Student's, by linearisation, mineᵢ − ratio·theirsᵢ, run by run."""
    from scipy.stats import t as student

    mean, size = float(np.mean(theirs)), len(mine)
    ratio = float(np.mean(mine)) / mean
    rest = np.asarray(mine) - ratio * np.asarray(theirs)
    half = float(student.ppf(0.975, size - 1)) * float(rest.std(ddof=1)) / math.sqrt(size) / mean
    return ratio, ratio - half, ratio + half
