"""A problem: the arms' true means, and what rewards are."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from hellinger import families
from hellinger.errors import InputError, require, require_memory
from hellinger.lab.changing import Changing, changing, is_changing

__all__ = ["PAPER_BERNOULLI", "PAPER_POISSON", "Problem", "Rewards", "parse_means"]

Floats = npt.NDArray[np.float64]
Draw: TypeAlias = Callable[[np.random.Generator], float]
Rewards: TypeAlias = Callable[[np.random.Generator, int], float] | Sequence[Draw]
"""How rewards are drawn: ``f(rng, arm)`` for all arms, or ``f(rng)`` for each."""

PAPER_BERNOULLI = (0.01, 0.01, 0.01, 0.02, 0.02, 0.02, 0.05, 0.05, 0.05, 0.1)
"""Means of the paper's first setting (section 4.1)."""
PAPER_POISSON = (0.03, 0.03, 0.04, 0.04, 0.05, 0.05, 0.1)
"""Means of the paper's second setting (section 4.2)."""

_LAW = re.compile(r"\s*(\w+)\(([^)]*)\)\s*x\s*(\d+)\s*", re.IGNORECASE)
_LAWS = {"beta": 2, "uniform": 2, "gamma": 2, "normal": 2, "lognormal": 2}


class Problem(NamedTuple):
    """Means of the arms and their family; and a function that draws each arm's rewards, where the family does not.

    Where means change, ``means`` are their averages, and ``changes`` says how.
    """

    family: families.Family
    means: Floats
    draws: tuple[Draw, ...] | None = None
    changes: Changing | None = None

    @property
    def course(self) -> Changing:
        """The means and the rounds from which on they are in force; a single row where they stay."""
        return Changing(self.means[None], np.ones(1, np.int64)) if self.changes is None else self.changes

    @property
    def family_name(self) -> str:
        """The family's spec; its description where it has none."""
        return self.family.spec if hasattr(self.family, "name") else repr(self.family)

    @classmethod
    def make(
        cls,
        means: str | Sequence[float] | Floats | Changing,
        family: str | families.Family = "bernoulli",
        *,
        seed: int = 0,
        rewards: Rewards | None = None,
        horizon: int = 1,
    ) -> Problem:
        """Check means given as numbers, or read them as :func:`parse_means` and :func:`changing` do."""
        chosen = families.get(family)
        if isinstance(means, str) and is_changing(means):
            means = changing(means, horizon=horizon, seed=seed)
        if isinstance(means, Changing):
            require(rewards is None, "rewards go with means that stay", rewards=rewards)
            course = means.make(means.table, means.since.tolist()).until(horizon)
            for row in course.table:
                cls.make(row, chosen)
            return cls(chosen, course.average(horizon), None, course)
        values = parse_means(means, seed=seed) if isinstance(means, str) else np.asarray(means, np.float64)
        require(values.ndim == 1 and values.size >= 1, "means is a list of at least one number", means=means)
        require(not np.isnan(values).any(), "means are numbers", means=means)
        values = chosen._check_mean(values, "mean")
        if rewards is None and type(chosen)._draw is families.Family._draw:  # it cannot draw in compiled code
            rewards = [partial(chosen.sample, float(mean)) for mean in values]
            chosen.sample(values[:1], np.random.default_rng(0))  # says what is missing
        return cls(chosen, values, None if rewards is None else _draws(rewards, values.size))


def _draws(rewards: Rewards, arms: int) -> tuple[Draw, ...]:
    if callable(rewards):
        return tuple(partial(_of_arm, rewards, arm) for arm in range(arms))
    each: Any = tuple(rewards)
    whole = len(each) == arms and all(map(callable, each))
    require(whole, "rewards is a function f(rng, arm), or a function f(rng) for each arm", arms=arms, rewards=each)
    return tuple(each)


def _of_arm(function: Callable[[np.random.Generator, int], float], arm: int, rng: np.random.Generator) -> float:
    return function(rng, arm)


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
        require_memory(8 * size, f"a draw of {size:,} means")
        drawn: Floats = getattr(np.random.default_rng([seed, 0x6D65616E]), law)(*arguments, size)
        return drawn
    if re.fullmatch(r"[\s\d.,eE+\-]+", text):
        return np.array(_numbers(text))
    path = Path(text)
    if not path.is_file():
        if path.suffix or path.parent != Path():
            raise InputError(f"no such file: {text}")
        raise InputError(f"`means` must be numbers, a law such as beta(1.6,100)x10000, or a file, but got {text!r}")
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
        return np.array(_numbers(",".join(line.partition("#")[0] for line in lines)))
    except ValueError as error:
        raise InputError(f"`means` must be a file of numbers, but {text!r} is not: {error}") from None


def _numbers(text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",") if part.strip()]
    except ValueError:
        raise InputError(f"numbers separated by commas are needed, but got {text!r}") from None
