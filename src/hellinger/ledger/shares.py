"""What each variant had in each phase of an experiment: the sums that its statistics are computed from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, Generic, Protocol, Self, TypeVar

import numpy as np
import numpy.typing as npt

__all__ = ["BUCKETS", "Share", "Shares", "Steps", "Users"]

Floats = npt.NDArray[np.float64]

BUCKETS = 1024
"""Users of a sticky split are added up in so many buckets: see ``hellinger.experiment.Clusters``."""
STEPS = 24
"""A window has so many steps: rankings made in one step become final together."""
SECOND = 1_000

_NUMBERS = (
    "requests",
    "impressions",
    "reward",
    "units",
    "squares",
    "largest",
    "most",
    "guarded",
    "guarded_squares",
    "guarded_most",
)
_WHOLE = ("requests", "units", "largest")
_GREATEST = ("largest", "most", "guarded_most")


class Share:
    """Sums over rankings of one variant in one phase, and how rewards lie together in each ranking.

    Attributes
    ----------
    units, squares, largest, most
        See ``hellinger.experiment.Pages``.
    guarded, guarded_squares, guarded_most
        The same of the guardrail: impressions with feedback of its kind, the sum over rankings of their squared number,
        and the most that a ranking has had.
    buckets
        Impressions, reward and the guardrail's count by bucket of users, where users keep their variant; else None.
    into
        The share that this one was added to, where it is no longer counted by itself.
    """

    __slots__ = (*_NUMBERS, "buckets", "into")

    requests: int
    impressions: float
    reward: float
    units: int
    squares: float
    largest: int
    most: float
    guarded: float
    guarded_squares: float
    guarded_most: float

    def __init__(self, *, bucketed: bool = False) -> None:
        for name in _NUMBERS:
            setattr(self, name, 0 if name in _WHOLE else 0.0)
        self.buckets: Floats | None = np.zeros((3, BUCKETS)) if bucketed else None
        self.into: Share | None = None

    @property
    def current(self) -> Share:
        """Where this is counted now."""
        return self if self.into is None else self.into

    def opened(self, size: int, shown: int, unit: int) -> None:
        """A ranking showed so many items, of which so many count at once, to a user with this number."""
        self.opened_many(1, size, shown)
        if self.buckets is not None:
            self.buckets[0, unit % BUCKETS] += shown

    def opened_many(self, requests: int, largest: int, shown: int) -> None:
        """So many rankings showed so many items at most; so many impressions count at once."""
        self.requests += requests
        self.units += requests
        self.impressions += shown
        self.largest = max(self.largest, largest)

    def rewarded(self, shown: Floats, rise: Floats, reward: Floats, units: Iterable[int]) -> None:
        """One after another, items were seen (1, or 0), and rankings' rewards rose by so much, to these."""
        # one after another, so that the sum does not depend on how many came at once
        self.squares = float(np.cumsum(np.append(self.squares, rise * (2.0 * reward - rise)))[-1])
        self.most = max(self.most, float(reward.max()))
        self.reward += float(rise.sum())
        self.impressions += float(shown.sum())
        if self.buckets is not None:
            buckets = np.array(list(units), np.int64) % BUCKETS
            np.add.at(self.buckets[0], buckets, shown)
            np.add.at(self.buckets[1], buckets, rise)

    def guard(self, number: int, unit: int) -> None:
        """A ranking for this user has one more impression with feedback of the guardrail's kind: so many now."""
        self.guarded += 1.0
        self.guarded_squares += 2.0 * number - 1.0
        self.guarded_most = max(self.guarded_most, float(number))
        if self.buckets is not None:
            self.buckets[2, unit % BUCKETS] += 1.0

    def imported(self, impressions: float, reward: float) -> None:
        """Impressions came without their rankings: each is taken for one."""
        self.impressions += impressions
        self.reward += reward
        self.units += int(impressions)
        self.squares += reward
        self.largest = max(self.largest, 1 if impressions else 0)
        self.most = max(self.most, 1.0 if reward else 0.0)  # which impressions the reward was for is not known

    def add(self, other: Share) -> None:
        """Add another's sums."""
        for name in _NUMBERS:
            mine, its = getattr(self, name), getattr(other, name)
            setattr(self, name, max(mine, its) if name in _GREATEST else mine + its)
        if self.buckets is not None and other.buckets is not None:
            self.buckets += other.buckets

    def as_json(self) -> list[Any]:
        """Everything, for :meth:`of`."""
        return [*(getattr(self, name) for name in _NUMBERS), None if self.buckets is None else self.buckets.tolist()]

    @classmethod
    def of(cls, numbers: list[Any]) -> Share:
        """What :meth:`as_json` wrote."""
        share = cls()
        *sums, buckets = numbers if len(numbers) > len(_NUMBERS) else [*numbers, *(0.0, 0.0, 0.0), None]
        for name, value in zip(_NUMBERS, sums, strict=True):
            setattr(share, name, int(value) if name in _WHOLE else value)
        if buckets is not None:
            share.buckets = np.array(buckets, np.float64)
        return share


class _Sums(Protocol):
    """Sums over rankings of one step."""

    requests: int
    into: Self | None

    def add(self, other: Self) -> None:
        """Add another's sums."""

    def as_json(self) -> list[Any]:
        """Everything."""


_S = TypeVar("_S", bound=_Sums)


class Steps(ABC, Generic[_S]):
    """Sums over rankings by when they were made, while their reward may still rise.

    Rankings of a step are together in one sum. Those that are two windows old, and more, are added to ``final``: no
    feedback for them is learned any more, on whatever replica, unless clocks are wrong by more than that.

    Parameters
    ----------
    window
        Milliseconds in which feedback is learned; None where all is final at once: imported counts, and rankings from
        before there were phases.
    """

    __slots__ = ("final", "newest", "open", "step", "window")

    def __init__(self, window: int | None) -> None:
        self.window = window
        self.step = SECOND if window is None else max(SECOND, window // STEPS)
        self.final = self._share()
        self.open: dict[int, _S] = {}
        """By step."""
        self.newest = 0
        """The newest step that anything was ranked in, by whatever variant, as long as a step was open."""

    @abstractmethod
    def _share(self) -> _S:
        """Sums over nothing yet."""

    def find(self, at: int) -> _S:
        """Where a ranking made at this time was counted."""
        return self.open.get(at // self.step, self.final)

    def opens(self, at: int) -> bool:
        """Whether a ranking made at this time begins a step."""
        step = at // self.step
        return self.window is not None and step not in self.open and step > self._last_final

    @property
    def _last_final(self) -> int:
        """The last step whose rankings are final for certain."""
        window = 0 if self.window is None else self.window
        return self.newest - 2 * (window // self.step + 1) - 60 * SECOND // self.step

    def begin(self, at: int) -> None:
        """Begin the step of this time."""
        self.open[at // self.step] = self._share()

    def close(self, at: int) -> None:
        """Close the steps whose rankings are final for certain when something is ranked at this time."""
        self.newest = max(self.newest, at // self.step)
        for step in sorted(step for step in self.open if step <= self._last_final):
            share = self.open.pop(step)
            self.final.add(share)
            share.into = self.final

    def settled(self, now: int) -> _S:
        """Sums over rankings whose reward is final at this time."""
        before = now if self.window is None else now - self.window
        return self._summed(share for step, share in self.open.items() if (step + 1) * self.step <= before)

    @property
    def requests(self) -> int:
        """How many rankings there are, final or not."""
        return self.final.requests + sum(share.requests for share in self.open.values())

    def whole(self) -> _S:
        """Sums over all rankings."""
        return self._summed(self.open.values())

    def _summed(self, some: Iterable[_S]) -> _S:
        total = self._share()
        for share in (self.final, *some):
            total.add(share)
        return total


class Shares(Steps[Share]):
    """What one variant had in one phase: rankings by when they were made, while their reward may still rise.

    Parameters
    ----------
    window
        See :class:`Steps`.
    bucketed
        Whether users keep their variant, so that sums by bucket of users are needed.
    """

    __slots__ = ("bucketed",)

    def __init__(self, window: int | None, *, bucketed: bool = False) -> None:
        self.bucketed = bucketed
        super().__init__(window)

    def _share(self) -> Share:
        return Share(bucketed=self.bucketed)

    def as_json(self) -> list[Any]:
        """Everything, for :meth:`of`."""
        steps = [[step, share.as_json()] for step, share in sorted(self.open.items())]
        return [self.window, self.bucketed, self.newest, self.final.as_json(), steps]

    @classmethod
    def of(cls, fields: list[Any]) -> Shares:
        """What :meth:`as_json` wrote."""
        window, bucketed, newest, final, steps = fields
        shares = cls(window, bucketed=bucketed)
        shares.newest = newest
        shares.final = Share.of(final)
        shares.open = {step: Share.of(numbers) for step, numbers in steps}
        return shares


class Users:
    """Users of an experiment who keep their variant, each counted where first seen: a sample that stays small.

    A user who comes again is no new draw, so that the check of the split has to know who was there before. Users are
    known by 53-bit hashes. The first 16,384 are all counted, of those that come then every second by hash until there
    are as many again, then every fourth, and so on: which user is counted does not depend on the variant drawn.
    """

    BLOCK = 1 << 14

    __slots__ = ("counts", "seen")

    def __init__(self) -> None:
        self.seen: set[int] = set()
        self.counts: dict[tuple[int, str], int] = {}
        """By phase and variant."""

    def see(self, unit: int, phase: int, variant: str) -> None:
        """A user was given a variant."""
        if (unit >> 10) & ((1 << len(self.seen) // self.BLOCK) - 1) == 0 and unit not in self.seen:
            self.seen.add(unit)
            self.counts[phase, variant] = self.counts.get((phase, variant), 0) + 1

    def as_json(self) -> list[Any]:
        """Everything, for :meth:`of`."""
        return [sorted(self.seen), [[*key, count] for key, count in sorted(self.counts.items())]]

    @classmethod
    def of(cls, fields: list[Any]) -> Users:
        """What :meth:`as_json` wrote."""
        users = cls()
        users.seen = set(fields[0])
        users.counts = {(phase, variant): count for phase, variant, count in fields[1]}
        return users
