"""A problem: the arms' true means, and what rewards are."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hellinger import families
from hellinger.errors import require

__all__ = ["PAPER_BERNOULLI", "PAPER_POISSON", "Problem", "parse_means"]

Floats = npt.NDArray[np.float64]

PAPER_BERNOULLI = (0.01, 0.01, 0.01, 0.02, 0.02, 0.02, 0.05, 0.05, 0.05, 0.1)
"""Means of the paper's first setting (section 4.1)."""
PAPER_POISSON = (0.03, 0.03, 0.04, 0.04, 0.05, 0.05, 0.1)
"""Means of the paper's second setting (section 4.2)."""

_LAW = re.compile(r"\s*(\w+)\(([^)]*)\)\s*x\s*(\d+)\s*", re.IGNORECASE)
_LAWS = {"beta": 2, "uniform": 2, "gamma": 2, "normal": 2, "lognormal": 2}


class Problem(NamedTuple):
    """Means of the arms and their family."""

    family: families.Family
    means: Floats

    @classmethod
    def make(
        cls, means: str | Sequence[float] | Floats, family: str | families.Family = "bernoulli", *, seed: int = 0
    ) -> Problem:
        """Check means given as numbers, or read them as :func:`parse_means` does."""
        chosen = families.get(family)
        if not getattr(chosen, "lasting", True):
            raise ValueError(
                f"a simulated family must be one of the library's, which draw by counter, but got {chosen}"
            )
        values = parse_means(means, seed=seed) if isinstance(means, str) else np.asarray(means, np.float64)
        require(values.ndim == 1 and values.size >= 1, "means is a list of at least one number", means=means)
        require(not np.isnan(values).any(), "means are numbers", means=means)
        return cls(chosen, chosen._check_mean(values, "mean"))


def parse_means(text: str, *, seed: int = 0) -> Floats:
    """Read means: a list, a law and how many to draw from it, or a file with a number on each line.

    >>> parse_means("0.1, 0.05").tolist()
    [0.1, 0.05]
    >>> parse_means("beta(1.6,100)x10000").mean().round(3)
    np.float64(0.016)
    """
    match = _LAW.fullmatch(text)
    if match:
        law, size = match[1].lower(), int(match[3])
        require(law in _LAWS, f"the law is one of {', '.join(_LAWS)}", law=law)
        arguments = _numbers(match[2])
        require(len(arguments) == _LAWS[law], f"{law} takes {_LAWS[law]} numbers", got=match[2])
        require(size >= 1, "at least one mean is drawn", size=size)
        drawn: Floats = getattr(np.random.default_rng([seed, 0x6D65616E]), law)(*arguments, size)
        return drawn
    if re.fullmatch(r"[\s\d.,eE+\-]+", text):
        return np.array(_numbers(text))
    path = Path(text)
    if not path.is_file():
        raise ValueError(f"`means` must be numbers, a law such as beta(1.6,100)x10000, or a file, but got {text!r}")
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
        return np.array(_numbers(",".join(line.partition("#")[0] for line in lines)))
    except ValueError as error:
        raise ValueError(f"`means` must be a file of numbers, but {text!r} is not: {error}") from None


def _numbers(text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",") if part.strip()]
    except ValueError:
        raise ValueError(f"numbers separated by commas are needed, but got {text!r}") from None
