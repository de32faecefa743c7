"""A site whose people and items are known by their features: who asks, what they may be shown, and who fills the pages.

People are the segments of :mod:`hellinger.world.site`, one each: a page is for a person drawn uniformly, and rates have
a row for each. What a person is like (the *context*) and what an item is (its *features*) are all that a player may
know.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from hellinger.errors import InputError, require
from hellinger.policies import Policy
from hellinger.pool import Pool
from hellinger.world.players import largest
from hellinger.world.site import Site

__all__ = ["ContextualProblem", "Features", "Memory", "PagePlayer", "PersonOracle", "PersonPool"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Features: TypeAlias = Mapping[str, float | str | Sequence[str]]
"""What is known of a person or an item: numbers, words or lists of words by name."""

_MASK = (1 << 62) - 1


class ContextualProblem(NamedTuple):
    """People, items, and the chance that a person who is shown an item rewards it.

    Attributes
    ----------
    name
        For reports.
    site
        Its segments are the people.
    contexts
        What is known of each person.
    features
        What is known of each item, in the order in which items come.
    rates
        A row for each person, a column for each item. NaN where nothing is known: the person is not shown the item.
    groups
        A group for each item, or nothing.
    memory
        A person is not shown again the items seen last, so many of them.
    """

    name: str
    site: Site
    contexts: tuple[Features, ...]
    features: tuple[Features, ...]
    rates: Floats
    groups: tuple[str, ...] = ()
    memory: int = 0

    def check(self) -> ContextualProblem:
        """Return this, with rates as an array, or raise where it makes no sense."""
        site = self.site.check()
        people, items = len(self.contexts), len(self.features)
        require(site.segments == people, "site.segments == len(contexts)", segments=site.segments, people=people)
        enough = items >= site.items if site.arrivals else items == site.items
        require(enough, "there are features of each item", features=items, site=site)
        try:
            rates = np.asarray(self.rates, np.float64)
        except (TypeError, ValueError) as error:
            raise InputError(f"`rates are numbers, people × items` must hold, but got {error}") from None
        require(rates.shape == (people, items), "rates are people × items", shape=rates.shape)
        known = rates[~np.isnan(rates)]
        require(known.size > 0, "some rates are known, not all NaN", known=known.size)
        require(bool(((known >= 0) & (known <= 1)).all()), "0 <= rate <= 1", least=known.min(), most=known.max())
        require(len(self.groups) in (0, items), "there is a group for each item, or none", groups=len(self.groups))
        require(self.memory >= 0, "0 <= memory", memory=self.memory)
        if not site.arrivals:
            fewest = int((~np.isnan(rates)).sum(axis=1).min())
            rule = "memory + slots <= items that each person may be shown"
            require(self.memory + site.slots <= fewest, rule, memory=self.memory, slots=site.slots, items=fewest)
        return self._replace(rates=rates)

    @property
    def pages(self) -> float:
        """Pages until no new items are left to come."""
        site = self.site
        if not site.arrivals:
            return float("inf")
        return (len(self.features) - site.items) // site.arrivals * site.day // site.slots

    @property
    def digest(self) -> str:
        """A name for all that is in it."""
        words = (self.name, self.site, self.contexts, self.features, self.groups, self.memory)
        return sha256(repr(words).encode() + self.rates.tobytes()).hexdigest()[:32]


class Memory:
    """Which places a person may be shown: not those seen last, and none whose rate is not known."""

    def __init__(self, problem: ContextualProblem) -> None:
        people, places = problem.site.segments, problem.site.items
        self._rates = problem.rates
        self._free = ~np.isnan(problem.rates[:, :places])
        self._seen: list[deque[int]] = [deque() for _ in range(people)]
        self._most = problem.memory

    def free(self, person: int) -> npt.NDArray[np.bool_]:
        """A mask over the places. It changes with what is shown."""
        free: npt.NDArray[np.bool_] = self._free[person]
        return free

    def show(self, person: int, places: Ints) -> None:
        """Remember a page, and forget what came before the last ``memory`` items."""
        if not self._most:
            return
        seen, free = self._seen[person], self._free[person]
        for place in places.tolist():
            seen.append(place)
            free[place] = False
        while len(seen) > self._most:
            free[seen.popleft()] = True

    def renew(self, places: Ints, items: Ints) -> None:
        """Nobody has seen these: they are new."""
        self._free[:, places] = ~np.isnan(self._rates[:, items])
        if self._most:
            gone = set(places.tolist())
            self._seen = [deque(place for place in seen if place not in gone) for seen in self._seen]


class PagePlayer:
    """Fills one page after another, each for its person; a subclass says how."""

    def __init__(self, problem: ContextualProblem) -> None:
        self.problem = problem.check()
        self._memory = Memory(self.problem)

    def choose(self, slots: int, segments: Ints) -> Ints:
        """A row of places for each page."""
        out = np.empty((segments.size, slots), np.int64)
        for page, person in zip(out, segments.tolist(), strict=True):
            page[:] = self.fill(person, slots, self._memory.free(person))
            self._memory.show(person, page)
        return out

    def record(self, places: Ints, impressions: int, rewards: Floats, segments: Ints) -> None:
        """Learn from impressions of places by people."""
        self.learn(places, rewards, np.broadcast_to(segments, places.shape))

    def renew(self, places: Ints, items: Ints) -> None:
        """New items are at these places."""
        self._memory.renew(places, items)

    def fill(self, person: int, slots: int, free: npt.NDArray[np.bool_]) -> Ints:
        """Places for a person's page, out of those that are free."""
        raise NotImplementedError

    def learn(self, places: Ints, rewards: Floats, people: Ints) -> None:
        """What single impressions earned."""


class PersonOracle(PagePlayer):
    """Shows each person the items that have the largest true rates for them."""

    def __init__(self, problem: ContextualProblem) -> None:
        super().__init__(problem)
        self._here = np.ascontiguousarray(self.problem.rates[:, : problem.site.items])

    def fill(self, person: int, slots: int, free: npt.NDArray[np.bool_]) -> Ints:
        """The best."""
        best = np.zeros(slots, np.int64)
        largest(np.where(free, self._here[person], -1.0), slots, best)
        return best

    def renew(self, places: Ints, items: Ints) -> None:
        """Look at the new rates."""
        super().renew(places, items)
        self._here[:, places] = self.problem.rates[:, items]


class PersonPool(PagePlayer):
    """A :class:`~hellinger.Pool` whose ids are the places.

    Parameters
    ----------
    problem
        What it plays.
    policy
        By which it ranks.
    model
        Spec of the model that people and items are known by; None for counts alone.
    groups
        Whether items are added with their groups.
    features
        Whether items are added with their features where there is no model: they tell an item's prior mean.
    seed
        For ties and draws.
    """

    def __init__(
        self,
        problem: ContextualProblem,
        policy: Policy,
        *,
        model: str | None = None,
        groups: bool = False,
        features: bool = False,
        seed: int = 0,
    ) -> None:
        super().__init__(problem)
        require(bool(problem.groups) or not groups, "the problem has groups", problem=problem.name)
        self._groups = groups
        self._pool: Pool[int] = Pool(policy, model=model)
        self._model = model is not None
        self._features = features or self._model
        self._seed = seed
        self._pages = 0
        first = np.arange(problem.site.items)
        self._add(first, first)

    def _add(self, places: Ints, items: Ints) -> None:
        features = [self.problem.features[item] for item in items.tolist()] if self._features else None
        groups = [self.problem.groups[item] for item in items.tolist()] if self._groups else None
        self._pool.add(places, features=features, group=groups)

    def _context(self, person: int) -> Features | None:
        return self.problem.contexts[person] if self._model else None

    def fill(self, person: int, slots: int, free: npt.NDArray[np.bool_]) -> Ints:
        """The pool's ranking for the person."""
        tie = (self._seed * 0x9E3779B97F4A7C15 + self._pages * 0xD1B54A32D192ED03) & _MASK
        self._pages += 1
        known = self._context(person)
        found, _ = self._pool.pick(slots, context=known, exclude=np.flatnonzero(~free), seed=tie, count=False)
        return np.array(found, np.int64)

    def learn(self, places: Ints, rewards: Floats, people: Ints) -> None:
        """Count these."""
        if not self._model:
            self._pool.record_many(places, 1, rewards)
            return
        for person in dict.fromkeys(people.tolist()):
            mine = people == person
            self._pool.record_many(places[mine], 1, rewards[mine], contexts=self._context(person))

    def renew(self, places: Ints, items: Ints) -> None:
        """Take the old items out, and the new ones in."""
        super().renew(places, items)
        self._pool.remove(places)
        self._add(places, items)
