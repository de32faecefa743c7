"""A player that keeps what every impression earned and fits a model to all of it, again and again."""

from __future__ import annotations

import inspect
import math
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from hellinger._spec import parse_spec
from hellinger.errors import UnknownNameError, require
from hellinger.models import Encoder
from hellinger.world.contextual import ContextualProblem, Features, PagePlayer

__all__ = ["FILTERS", "Filter", "Ratings", "filter_parameters", "make_filter", "require_filter"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

FILTERS: dict[str, type[Filter]] = {}
"""Every filter by its name."""

_COLUMNS = 64
_FIRST = 20
"""Impressions before the first fit; until then pages are random."""


class Ratings(NamedTuple):
    """What people gave items: sparse tables, people × items, of impressions and of summed rewards; summed squares."""

    counts: Any
    sums: Any
    squares: float

    @classmethod
    def make(
        cls, people: Sequence[int], items: Sequence[int], rewards: Sequence[float], shape: tuple[int, int]
    ) -> Self:
        """Gather single impressions."""
        from scipy.sparse import csr_array

        where, earned = (np.asarray(people), np.asarray(items)), np.asarray(rewards, np.float64)
        return cls(
            csr_array((np.ones(earned.size), where), shape=shape),
            csr_array((earned, where), shape=shape),
            float(earned @ earned),
        )


class Filter(PagePlayer):
    """Shows what its model expects most of; a subclass has the model.

    Parameters
    ----------
    problem
        What it plays.
    seed
        For ties, the pages before the first fit, and what is shown at random.
    explore
        Chance of each slot to show a random item. 0, as by default, is what the authors of these models do.
    growth
        The model is fitted anew when impressions have grown by this part.
    """

    name: ClassVar[str]

    def __init_subclass__(cls) -> None:
        """List it."""
        FILTERS[cls.name] = cls

    def __init__(self, problem: ContextualProblem, *, seed: int, explore: float = 0.0, growth: float = 0.1) -> None:
        super().__init__(problem)
        require(0 <= explore <= 1, "0 <= explore <= 1", explore=explore)
        require(0 < growth < math.inf, "0 < growth", growth=growth)
        self.people, self.things = encoded(problem.contexts), encoded(problem.features)
        self._rng = np.random.default_rng([seed, *self.name.encode()])
        self._explore, self._growth = explore, growth
        self._here = np.arange(problem.site.items)
        self._seen: tuple[list[int], list[int], list[float]] = ([], [], [])
        self._due = _FIRST
        self.fits = 0
        """How often the model has been fitted."""

    def fill(self, person: int, slots: int, free: npt.NDArray[np.bool_]) -> Ints:
        """The largest scores, ties in random order, and some places at random."""
        places = self._rng.permutation(np.flatnonzero(free))
        if not self.fits:
            return places[:slots]
        scores = -self.scores(person, self._here[places])
        best = np.argpartition(scores, slots - 1)[:slots]
        page: Ints = places[best[np.argsort(scores[best], kind="stable")]]
        drawn = int(self._rng.binomial(slots, self._explore))
        if drawn:
            page = page[: slots - drawn]
            page = np.concatenate([page, places[~np.isin(places, page)][:drawn]])
        return page

    def learn(self, places: Ints, rewards: Floats, people: Ints) -> None:
        """Keep these, and fit where enough has come since the last time."""
        who, what, earned = self._seen
        who.extend(people.tolist())
        what.extend(self._here[places].tolist())
        earned.extend(rewards.tolist())
        if len(who) >= self._due:
            self.fit(Ratings.make(who, what, earned, (len(self.people), len(self.things))))
            self.fits += 1
            self._due = math.ceil(len(who) * (1.0 + self._growth))

    def renew(self, places: Ints, items: Ints) -> None:
        """New items are at these places."""
        super().renew(places, items)
        self._here[places] = items

    def fit(self, ratings: Ratings) -> None:
        """Fit the model to everything seen."""
        raise NotImplementedError

    def scores(self, person: int, items: Ints) -> Floats:
        """What the model expects of these items."""
        raise NotImplementedError


def encoded(many: Sequence[Features]) -> Floats:
    """Features as numbers, a row for each and a column of ones first."""
    encoder = Encoder(columns=_COLUMNS)
    encoder.learn(many)
    return np.column_stack([np.ones(len(many)), encoder.matrix(many)])


def filter_parameters(kind: type[Filter]) -> dict[str, inspect.Parameter]:
    """Arguments that a filter takes in its spec, those of every filter included."""
    known: dict[str, inspect.Parameter] = {}
    for each in (kind, Filter):
        known |= {key: one for key, one in inspect.signature(each).parameters.items() if one.default is not one.empty}
    return known


def require_filter(spec: str) -> None:
    """Raise where a spec names no filter, or gives arguments that it does not take."""
    _read(spec)


def make_filter(spec: str, problem: ContextualProblem, seed: int) -> Filter:
    """Make the filter that a spec names."""
    kind, arguments = _read(spec)
    return kind(problem, seed=seed, **arguments)


def _read(spec: str) -> tuple[type[Filter], dict[str, Any]]:
    name, arguments = parse_spec(spec)
    if name not in FILTERS:
        raise UnknownNameError("filter", name, list(FILTERS))
    kind = FILTERS[name]
    known = filter_parameters(kind)
    for key, value in arguments.items():
        require(key in known, f"{name} takes {', '.join(sorted(known))}", argument=key)
        fits = int if known[key].annotation == "int" else (int, float)
        rule = f"{key} is a {'whole number' if fits is int else 'number'}"
        require(isinstance(value, fits) and not isinstance(value, bool), rule, **{key: value})
    return kind, arguments
