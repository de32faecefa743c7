r"""Each variant estimated from the others' traffic, and compared with what it earned itself.

Both are known of a log gone through again (:mod:`hellinger.evaluate.retrace`), so that the estimators prove themselves
on the log they are used on. With π the chance of a place by the variant and q that by the others, each in proportion
to its traffic, a place *is shared* where π ≤ Lq: the others show there often enough what the variant would. Of these

.. math:: \frac1{n'} \sum_{\text{others' rankings}} \sum_j \frac{π_j}{q_j} R_j
    \qquad\text{and}\qquad \frac1n \sum_{\text{its own}} \sum_j R_j

have the same mean, no weight is above L, and intervals hold at all times. The rest of its places no other traffic can
tell of.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from hellinger.evaluate.bounds import Bets
from hellinger.evaluate.estimate import FEW
from hellinger.evaluate.logs import LogFile
from hellinger.evaluate.parts import LogPart
from hellinger.evaluate.survey import survey

__all__ = ["HEAVIEST", "SelfCheck", "SelfChecks", "check_file"]

Floats = npt.NDArray[np.float64]

HEAVIEST = 20.0
"""What no weight is above: places where others show an item more seldom than this are not compared."""


class SelfCheck(NamedTuple):
    """A variant, estimated from others' traffic and measured, in reward of a shared place."""

    variant: str
    rankings: int
    """Of its own, and of the others."""
    others: int
    shared: float
    """Part of its places that the others show too."""
    estimated: float
    low: float
    """Both ends of an interval that holds at all times."""
    high: float
    measured: float
    measured_low: float
    measured_high: float
    effective_sample: float

    @property
    def refusal(self) -> str:
        """Why there is nothing to compare; empty where there is."""
        if not self.rankings or not self.others:
            return "it has no traffic, or no other has"
        if self.effective_sample < FEW:
            return f"of what it shows the others show too little: an effective sample of {self.effective_sample:.3g}"
        return ""

    @property
    def agrees(self) -> bool | None:
        """Whether the two intervals have something in common; None where there is nothing to compare."""
        if self.refusal:
            return None
        return self.low <= self.measured_high and self.measured_low <= self.high

    @property
    def sentence(self) -> str:
        """All of it in one sentence."""
        if self.refusal:
            return f"{self.variant}: no answer: {self.refusal}"
        word = "agree" if self.agrees else "do not agree: propensities, or an assumption, are wrong"
        return (
            f"{self.variant} estimated from others' traffic: {100 * self.estimated:.3g} % ({100 * self.low:.3g} … "
            f"{100 * self.high:.3g}), measured {100 * self.measured:.3g} % ({100 * self.measured_low:.3g} … "
            f"{100 * self.measured_high:.3g}), of the {100 * self.shared:.0f} % of its places that others show too: "
            f"{word}"
        )

    def as_json(self) -> dict[str, Any]:
        """Everything, as JSON can hold it: None for what there is no number of."""
        fields = {
            name: None if isinstance(each, float) and not math.isfinite(each) else each
            for name, each in self._asdict().items()
        }
        return fields | {"agrees": self.agrees, "refusal": self.refusal, "sentence": self.sentence}


class _Mean:
    """An average of numbers between 0 and ``top``, with its interval."""

    def __init__(self, top: float, scale: float) -> None:
        self._low, self._high = Bets(scale=scale), Bets(-top, scale=scale)
        self.units = 0

    def add(self, outcomes: Floats) -> None:
        self.units += outcomes.size
        self._low.add(outcomes)
        self._high.add(-outcomes)

    def ends(self, alpha: float) -> tuple[float, float, float]:
        """Value and interval."""
        return self._low.mean, self._low.lower(alpha / 2.0), -self._high.lower(alpha / 2.0)


class _Side:
    """One variant: what others earned in its stead, and what it earned itself."""

    def __init__(self, slots: int, most: float) -> None:
        self.told = _Mean(HEAVIEST * slots * most, most)
        self.own = _Mean(slots * most, most)
        self.places = self.shared = 0.0
        self.weight = self.squares = 0.0


class SelfChecks:
    """Fed with a log part by part.

    Parameters
    ----------
    variants
        Names of the variants that shared the traffic.
    slots, most
        The most rows of a ranking, and the most reward of a row.
    """

    def __init__(self, variants: Iterable[str], *, slots: int, most: float) -> None:
        self._sides = {name: _Side(slots, most) for name in variants}

    def add(self, part: LogPart) -> None:
        """Go on with these rankings; those of which a chance is not known are left out."""
        columns = part.variants
        if not columns:
            return
        known = np.ones(part.item.size, bool)
        mixed, whole = np.zeros(part.item.size), np.zeros(part.item.size)
        for each in columns.values():
            there = each.share > 0.0
            known &= ~there | np.isfinite(each.chance)
            mixed += np.where(there, each.share * each.chance, 0.0)
            whole += each.share
        usable = np.logical_and.reduceat(known, part.first)
        for name, each in columns.items():
            present = usable & (each.share[part.first] > 0.0)
            rest = whole - each.share
            # the others' chance of a place, as if all traffic were theirs
            others = np.divide(mixed - each.share * each.chance, rest, out=np.zeros_like(mixed), where=rest > 0.0)
            shared = (each.chance <= HEAVIEST * others) & (others > 0.0)
            side, mine = self._sides[name], each.own[part.first]
            earned = np.add.reduceat(np.where(shared, part.reward, 0.0), part.first)
            side.own.add(earned[present & mine])
            ours = np.repeat(present & mine, part.sizes)
            side.places += int(ours.sum())
            side.shared += int((ours & shared).sum())
            weight = np.divide(each.chance, others, out=np.zeros_like(mixed), where=shared)
            told, theirs = np.add.reduceat(weight * part.reward, part.first), present & ~mine
            side.told.add(told[theirs])
            units = (np.add.reduceat(weight, part.first) / part.sizes)[theirs]
            side.weight += float(units.sum())
            side.squares += float(units @ units)

    def found(self, alpha: float = 0.05) -> tuple[SelfCheck, ...]:
        """What there is to say of each variant so far; the two intervals together hold with probability 1 − alpha."""
        return tuple(_check(name, side, alpha) for name, side in self._sides.items())


def _check(name: str, side: _Side, alpha: float) -> SelfCheck:
    told, own = side.told.ends(alpha / 2.0), side.own.ends(alpha / 2.0)
    places = side.shared / side.own.units if side.own.units else 0.0
    scale = 1.0 / places if places else math.nan
    effective = side.weight**2 / side.squares if side.squares > 0.0 else 0.0
    shared = side.shared / side.places if side.places else 0.0
    value, low, high = (scale * each for each in told)
    measured = [scale * each for each in own]
    return SelfCheck(
        name,
        side.own.units,
        side.told.units,
        shared,
        value,
        low,
        high,
        measured[0],
        measured[1],
        measured[2],
        effective,
    )


def check_file(path: str | Path, alpha: float = 0.05) -> tuple[int, tuple[SelfCheck, ...]]:
    """Of a log that was gone through again: when it begins, in milliseconds since 1970, and each of its variants."""
    log = LogFile(path)
    found = survey(log)
    checks = SelfChecks(found.variants, slots=found.longest, most=found.most)
    for part in log.parts():
        checks.add(part)
    return found.begin, checks.found(alpha)
