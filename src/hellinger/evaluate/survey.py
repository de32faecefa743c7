"""What a log is like, and what it lacks: one reading before it is evaluated."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from hellinger.errors import require
from hellinger.evaluate.logs import LogFile
from hellinger.evaluate.parts import LogPart
from hellinger.evaluate.positions import fit_looks

__all__ = ["Survey", "survey"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


@dataclass
class Survey:
    """What a log is like, from one reading."""

    kind: str
    whole: bool = True
    """Whether propensities are over the order of ties."""
    rankings: int = 0
    rows: int = 0
    reward: float = 0.0
    names: list[str] = field(default_factory=list)
    slots: int = 1
    """The last position."""
    longest: int = 1
    """The most rows of a ranking."""
    most: float = 1.0
    """The most reward of a row."""
    begin: int = 0
    end: int = 0
    """When the first and the last ranking were made, in milliseconds since 1970."""
    unknown: int = 0
    """Rows without a propensity."""
    least: float = 1.0
    """The least propensity."""
    certain: int = 0
    """Rows whose propensity is 1: nothing else could have been there."""
    variants: dict[str, float] = field(default_factory=dict)
    """Variants that shared the traffic of a log gone through again, each with its least share."""
    explored: tuple[float, float] = (0.0, 0.0)
    """Rows and rewards of places that were given to one of the items that follow."""
    drawn_rewards: Floats = field(default_factory=lambda: np.zeros(0))
    """Rewards and rows of each position among rankings drawn at random."""
    drawn_rows: Floats = field(default_factory=lambda: np.zeros(0))
    tied_rewards: Floats = field(default_factory=lambda: np.zeros(0))
    """Rewards of each position among ties in random order, and of all ties between two positions."""
    ties: Floats = field(default_factory=lambda: np.zeros((0, 0)))
    born: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    """The ranking in which each item was first and last shown."""
    gone: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    eligible: Floats = field(default_factory=lambda: np.zeros(0))
    """How many items each ranking could have shown: as logged, else as many as are there by their impressions; NaN
    where there were filters too."""
    counted: int = 0
    """Rankings without filters of which it is not logged how many items they could have shown."""
    least_even: float = 1.0
    """The least propensity as a multiple of an even chance among the items that a ranking could have shown."""

    @property
    def items(self) -> int:
        """Different items."""
        return len(self.names)

    @property
    def days(self) -> float:
        """How long it is."""
        return max(self.end - self.begin, 0) / 86_400_000

    @property
    def lacks(self) -> list[str]:
        """What the log does not say, or not well enough, in words."""
        found = []
        if self.unknown:
            share = 100 * self.unknown / max(self.rows, 1)
            found.append(f"{share:.0f} % of the rows have no propensity: their rankings are left out of weights")
        if self.rows and self.certain == self.rows - self.unknown and self.unknown < self.rows:
            found.append(
                "every propensity is 1: nothing was drawn at random, so that weights say nothing of other policies "
                "(set random_share)"
            )
        if self.variants:
            found.append(
                f"propensities are over the split of the traffic between {', '.join(self.variants)}: every variant's "
                "rankings speak of each"
            )
        if not self.whole and self.rows:
            found.append(
                "it was made by an older version: propensities are given the order of ties, whose chance is not used"
            )
        if self.kind == "export" and self.counted:
            found.append(
                f"how many items could have been shown is not logged of {self.counted:,} rankings: those between their "
                "first and last impression are counted, a few too little"
            )
        if self.kind == "export" and self.rows:
            found.append(
                "which items there were is not in the log: an item is taken to be there from its first to its last "
                "impression, except where a request's filters left it out"
            )
        return found

    def there(self, number: Ints) -> Ints:
        """How many items are there at rankings of these numbers: between their first and their last impression."""
        begun = np.searchsorted(np.sort(self.born), number, side="right")
        return np.asarray(begun - np.searchsorted(np.sort(self.gone), number, side="left"))

    @property
    def choices(self) -> float:
        """How many items a ranking could have shown, on average."""
        known = self.eligible[np.isfinite(self.eligible)]
        return float(known.mean()) if known.size else float(self.items)

    def looks(self) -> Floats | None:
        """The chance of a look at each position relative to the first, if rows in random order suffice to tell.

        Such are rankings drawn at random, and ties. A position must have had 30 rewards among them, and so must what
        links it with the next: what was drawn at both, and ties that go from one to the other.
        """
        earned = self.drawn_rewards + self.tied_rewards
        if not earned.size or earned.min() < _ENOUGH:
            return None
        links = self.drawn_rewards[1:] + self.drawn_rewards[:-1]
        # ties that begin at or before a position, less those that end there or before
        links += np.cumsum(self.ties.sum(axis=1) - self.ties.sum(axis=0))[:-1]
        if links.size and links.min() < _ENOUGH:
            return None
        return fit_looks(self.drawn_rewards, self.drawn_rows, self.tied_rewards, self.ties)

    @property
    def looks_note(self) -> str:
        """What the looks were learned from, in words."""
        return (
            f"looks at positions are learned from {self.drawn_rewards.sum():,.0f} of reward in rankings drawn at "
            f"random and {self.tied_rewards.sum():,.0f} in ties"
        )


_ENOUGH = 30


class _RandomRows:
    """Rewards by position of rows that are in random order."""

    def __init__(self) -> None:
        self._sums = np.zeros((3, 0))
        self._ties: dict[tuple[int, int], float] = {}

    def add(self, part: LogPart) -> None:
        """Count these."""
        slots = max(int(part.position.max()), self._sums.shape[1])
        self._sums = np.pad(self._sums, ((0, 0), (0, slots - self._sums.shape[1])))
        tied = part.tie >= 0
        for row, rows, values in ((0, part.drawn, part.reward), (1, part.drawn, None), (2, tied, part.reward)):
            weights = None if values is None else values[rows]
            self._sums[row] += np.bincount(part.position[rows] - 1, weights, slots)
        if tied.any():
            self._add_ties(part.tie[tied], part.position[tied] - 1, part.reward[tied], slots)

    def _add_ties(self, tie: Ints, place: Ints, reward: Floats, slots: int) -> None:
        starts = np.flatnonzero(np.diff(tie, prepend=-1))
        ends = np.append(starts[1:], tie.size) - 1
        codes, which = np.unique(place[starts] * slots + place[ends], return_inverse=True)
        sums = np.bincount(which, np.add.reduceat(reward, starts))
        for code, earned in zip(codes.tolist(), sums.tolist(), strict=True):
            if earned > 0.0:
                span = code // slots, code % slots
                self._ties[span] = self._ties.get(span, 0.0) + earned

    def give(self, out: Survey) -> None:
        """Write down what was found."""
        pad = ((0, 0), (0, out.slots - self._sums.shape[1]))
        out.drawn_rewards, out.drawn_rows, out.tied_rewards = np.pad(self._sums, pad)
        out.ties = np.zeros((out.slots, out.slots))
        for span, earned in self._ties.items():
            out.ties[span] = earned


def survey(log: LogFile, *, progress: Callable[[int], None] | None = None) -> Survey:
    """Read a log once, to know what is in it; ``progress`` is called with the rows that were read."""
    out = Survey(log.kind, log.whole)
    most, least = 0.0, np.inf
    born: dict[int, int] = {}
    gone = np.zeros(0, np.int64)
    rows_by_position = _RandomRows()
    eligible: list[Floats] = []
    lowest: list[Floats] = []
    filtered: list[Flags] = []
    for part in log.parts(lists=False):
        if not out.rankings:
            out.begin = int(part.at[0])
        out.end = max(out.end, int(part.at[-1]))
        sizes = part.sizes
        out.longest = max(out.longest, int(sizes.max()))
        out.slots = max(out.slots, out.longest, int(part.position.max()))
        known = np.isfinite(part.propensity)
        out.unknown += int((~known).sum())
        out.certain += int((part.propensity == 1.0).sum())
        if known.any():
            least = min(least, float(part.propensity[known].min()))
        eligible.append(np.maximum(part.eligible, sizes))  # NaN stays
        filtered.append(part.filters.some)
        lowest.append(np.minimum.reduceat(np.where(known, part.propensity, np.inf), part.first))
        most = max(most, float(part.reward.max()))
        number = np.repeat(np.arange(out.rankings, out.rankings + part.first.size), sizes)
        items, where = np.unique(part.item, return_index=True)
        for item, row in zip(items.tolist(), where.tolist(), strict=True):
            born.setdefault(item, int(number[row]))
        gone = np.concatenate([gone, np.zeros(max(0, len(log.names) - gone.size), np.int64)])
        gone[part.item] = number
        for name, columns in part.variants.items():
            some = columns.share[columns.share > 0.0]
            out.variants[name] = min(out.variants.get(name, 1.0), float(some.min(initial=1.0)))
        rows, earned_there = out.explored
        out.explored = rows + int(part.explored.sum()), earned_there + float(part.reward[part.explored].sum())
        rows_by_position.add(part)
        out.rankings += part.first.size
        out.rows += part.item.size
        out.reward += float(part.reward.sum())
        if progress is not None:
            progress(out.rows)
    require(out.rankings > 0, "the log has rankings", path=log.name)
    out.names = list(log.names)
    out.most = max(1.0, most)
    out.least = least if np.isfinite(least) else 1.0
    out.born = np.array([born[item] for item in range(len(log.names))], np.int64)
    out.gone = gone
    rows_by_position.give(out)
    if log.kind == "Open Bandit":  # whose items are the same throughout
        out.born[:], out.gone[:] = 0, out.rankings - 1
    logged = np.concatenate(eligible)
    unknown = np.isnan(logged) & ~np.concatenate(filtered)
    out.counted = int(unknown.sum())
    out.eligible = np.where(unknown, out.there(np.arange(logged.size)), logged)
    even = float(np.fmin.reduce(out.eligible * np.concatenate(lowest)))
    out.least_even = even if np.isfinite(even) else 1.0
    return out
