"""How far an item's click rate in one segment of users is from that elsewhere: what segments tell, and when nothing.

An item with S rewards in N impressions in other segments has there, by its own prior of mean m and strength T, the
mean (mT + S)/(T + N), known as well as by k = T + N impressions. Its log-odds in a segment are those, by the
segment's *shift* (users of one segment click more on everything), and vary by σ² from item to item. In units
of impressions the prior of the item in the segment is therefore worth p = 1/(1/k + σ²·μ(1 − μ)), μ being its mean.

With σ = 0 the segment's own counts are as good as any other's, and the item has its counts of all traffic; where σ is
large, those elsewhere tell little. Shifts and σ² are found from how each item's rewards divide between a segment and
the rest, given how its impressions do, and from nothing else: whatever the law of rates, and whatever was shown because
of them, an item that nobody else has seen tells nothing. σ² is one of a lattice; 0 where none is clearly more likely.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from hellinger._jit import jit
from hellinger.errors import InputError, require
from hellinger.policies.prior import Prior
from hellinger.policies.shares import log_chance

__all__ = ["LEAST_ROUNDS", "MOST_PAIRS", "SegmentLaw", "drawn", "fit_segments"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

LATTICE = (0.0, *(2.0**j for j in range(-6, 4)))
"""Values of σ²: an item's odds in a segment are some e^σ times those elsewhere, from an eighth more to many times."""
_LEAST_GAIN = 4.0
"""Logarithm of how many times more likely the counts must be with a variance than with none."""
_KEPT = 1.0
"""One that is in force stays while another is not more likely than by this."""
_STEPS = 8
"""Mean, strength and shifts are in steps of an octave's so-manieth part, and stay while they are within one step."""
_WEIGHT = 20.0
"""Rewards, in number, by which a shift is held to be none beforehand."""
LEAST_ROUNDS = 100.0
"""Impressions of a segment below which it is ranked as all traffic is."""
MOST_PAIRS = 1 << 15
"""So many pairs of item and segment suffice for the fit; where there are more, items are drawn."""


class SegmentLaw(NamedTuple):
    """What was learned of segments; ``SegmentLaw()`` where they tell nothing.

    Attributes
    ----------
    mean, strength
        Of the prior of items of which nothing else is known, in all traffic: rounded, so that it seldom changes.
    variance
        σ² of an item's log-odds between segments; 0 where segments tell nothing.
    shifts
        By how many octaves the odds of each segment are above those of the others, the busiest first; segments
        that are not there are ranked as all traffic is.
    """

    mean: float = 0.0
    strength: float = 0.0
    variance: float = 0.0
    shifts: tuple[tuple[str, float], ...] = ()

    def check(self) -> Self:
        """Return this, or raise where it cannot be."""
        known = 0 < self.mean < 1 and 0 < self.strength < math.inf and 0 < self.variance < math.inf
        require(known or self == SegmentLaw(), "0 < mean < 1, 0 < strength, 0 < variance; or nothing", law=self)
        bounded = all(abs(shift) <= 64 for _, shift in self.shifts)
        require(bounded, "a shift is of at most 64 octaves", shifts=self.shifts)
        return self

    def state(self) -> dict[str, Any]:
        """The law as JSON can hold it exactly; :meth:`from_state` makes it again."""
        return self._asdict() | {"shifts": [list(each) for each in self.shifts]}

    @classmethod
    def from_state(cls, state: Mapping[str, Any] | None) -> Self:
        """Return the law that gave this state; an older version has none."""
        if state is None:
            return cls()
        try:
            mean, strength, variance = (float(state[name]) for name in ("mean", "strength", "variance"))
            shifts = tuple((str(segment), float(shift)) for segment, shift in state["shifts"])
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise InputError(f"a law's state must be what SegmentLaw.state() gave, but got {error!r}") from None
        return cls(mean, strength, variance, shifts).check()

    def of(self, segment: str) -> float | None:
        """The shift of a segment; None where it is ranked as all traffic is."""
        return next((shift for name, shift in self.shifts if name == segment), None)


@jit
def likelihood(s: Floats, n: Floats, other_s: Floats, other_n: Floats, odds: Floats, variance: float) -> float:
    """Log-likelihood of how the rewards of items divide, given how impressions do; ``odds``: the segments' shifts.

    Each counts by the part of its impressions that are elsewhere, for what a segment with nearly all of them has is
    what the others have told already: these parts of an item add up to one less than it has segments.
    """
    total = 0.0
    for j in range(s.size):
        x, y, power = s[j], other_s[j], 1.0
        both = n[j] + other_n[j]
        if 2.0 * (x + y) > both:  # what is rarer, rewards or their absence
            x, y, power = n[j] - x, other_n[j] - y, -1.0
        if x + y <= 0.0 or other_n[j] <= 0.0:
            continue
        rest = 1.0 - (x + y) / both
        share = odds[j] ** (power * rest) * n[j] / other_n[j]
        share /= 1.0 + share
        share = min(max(share, 1e-9), 1.0 - 1e-9)
        v = variance * rest * rest
        x, y = x / rest, y / rest  # where rewards are no rare events, they vary by less than rare ones
        if v > 0.0:
            chance = log_chance(x, x + y, share, 1.0 / (v * share * (1.0 - share)))
        else:
            chance = x * math.log(share) + y * math.log(1.0 - share)
        total += chance * other_n[j] / both
    return total


def fit_segments(
    names: Sequence[str],
    segment: npt.ArrayLike,
    rewards: npt.ArrayLike,
    impressions: npt.ArrayLike,
    elsewhere: tuple[npt.ArrayLike, npt.ArrayLike],
    prior: Prior,
    former: SegmentLaw | None = None,
) -> SegmentLaw:
    """What these counts tell of segments; what is in force stays where they do not clearly tell otherwise.

    Parameters
    ----------
    names
        The segments, the busiest first.
    segment, rewards, impressions
        Of each pair of a segment and an item that it has seen: the segment by its place in ``names``, and the counts.
    elsewhere
        Rewards and impressions of the item in all other segments, and of users in none.
    prior
        That of all traffic.
    former
        The law in force.

    Examples
    --------
    >>> rates = np.array([[0.3, 0.05], [0.05, 0.3]] * 10).T
    >>> n = np.full((2, 20), 400.0)
    >>> s = n * rates
    >>> rows = np.repeat([0, 1], 20)
    >>> other = s[::-1].ravel(), n[::-1].ravel()
    >>> law = fit_segments(["north", "south"], rows, s.ravel(), n.ravel(), other, Prior(6.0, 34.0))
    >>> law.variance, [name for name, _ in law.shifts]
    (4.0, ['north', 'south'])
    >>> fit_segments(["north", "south"], rows, s.ravel(), n.ravel(), (s.ravel(), n.ravel()), Prior(6.0, 34.0))
    SegmentLaw(mean=0.0, strength=0.0, variance=0.0, shifts=())
    """
    former = former or SegmentLaw()
    place = np.asarray(segment, np.int64)
    other_s, other_n = (np.maximum(np.asarray(part, np.float64), 0.0) for part in elsewhere)
    s, n = np.asarray(rewards, np.float64), np.asarray(impressions, np.float64)
    n, other_n = np.maximum(n, s), np.maximum(other_n, other_s)  # impressions may be worth less than what they earned
    shown = n > 0
    # sorted, so that sums do not depend on the order in which they came
    order = np.flatnonzero(shown)[np.lexsort((other_s[shown], other_n[shown], s[shown], n[shown], place[shown]))]
    place, s, n, other_s, other_n = place[order], s[order], n[order], other_s[order], other_n[order]
    both = n + other_n
    known = (s + other_s) * (both - s - other_s) * n * other_n / both**3  # of the log-odds' difference, by this item
    more, less = s * (other_n - other_s) / both, other_s * (n - s) / both

    def shifts_by(variance: float) -> list[float]:
        """How far the odds in each segment are from those elsewhere, where items vary by this."""
        weight = 1.0 / (1.0 + variance * known)
        sums = (np.bincount(place, weight * part, len(names)) + _WEIGHT for part in (more, less))
        found = []
        for name, up, down in zip(names, *(part.tolist() for part in sums), strict=True):
            before = former.of(name)
            near = before is not None and _near(up / down, 2.0**before)
            found.append(before if before is not None and near else _stepped(math.log2(up / down)))
        return found

    shifts = {v: shifts_by(v) for v in LATTICE}
    found = {v: likelihood(s, n, other_s, other_n, np.exp2(np.array(shifts[v]))[place], v) for v in LATTICE}
    best = max(found, key=found.__getitem__)
    if former.variance in found and found[best] - found[former.variance] < _KEPT:
        best = former.variance
    if found[best] - found[0.0] < _LEAST_GAIN or not best:
        return SegmentLaw()
    mean, strength = prior.a / prior.strength, prior.strength
    odds_now, odds_then = mean / (1 - mean), former.mean / (1 - former.mean)
    if not _near(odds_now, odds_then):
        x = 2.0 ** _stepped(math.log2(odds_now))
        mean = x / (1 + x)
    else:
        mean = former.mean
    if not _near(strength, former.strength):
        strength = 2.0 ** _stepped(math.log2(strength))
    else:
        strength = former.strength
    return SegmentLaw(mean, strength, best, tuple(zip(names, shifts[best], strict=True)))


def drawn(order: Ints, pairs: int) -> npt.NDArray[np.bool_]:
    """Which items a fit looks at, by their arrival numbers, where they are in so many pairs with segments."""
    bits = (pairs // MOST_PAIRS).bit_length()
    mixed = order.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) >> np.uint64(40)
    chosen: npt.NDArray[np.bool_] = (mixed & np.uint64((1 << bits) - 1)) == 0
    return chosen


def _near(value: float, former: float) -> bool:
    """Whether a positive number is within a step of the former one, 0 for none."""
    return former > 0 and abs(math.log2(value / former)) <= 1.0 / _STEPS


def _stepped(octaves: float) -> float:
    return math.floor(octaves * _STEPS + 0.5) / _STEPS
