"""How much each position is looked at: fitted from the ledger, and in force once the log has it.

The model is that of the simulated site: an impression at position j is looked at with a chance θ_j, and only then may
it earn. Where chance alone ordered some items, what they earned at each of their positions is in proportion to θ. So
the positions of the rewards of such a stretch, given how many there were, follow the multinomial law with chances
θ_j / Σθ over the stretch, whatever items it had. log θ has a Gaussian prior: a straight line in log j (θ_j = j^−η) with
a random walk around it, and 0 at the first position. The fit is the most likely curve; its covariance that of the
Gaussian law which has the same curvature there. See the theory, "Where it was shown".
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from hellinger.engine.drafts import WRITER, Draft
from hellinger.ledger import Floats, Ledger
from hellinger.ledger.looks import Setting

__all__ = ["PositionCurve", "draft", "due", "fit_curve", "looks_by", "setting_draft", "worth_of"]

_SLOPE, _WALK = 1.0, 0.5
"""Standard deviations of the prior: of η, and of the random walk from one position to one e times as far."""
_ATTEMPTS = 60
_SURE = 1.5
_LITTLE = 0.1
"""A new curve is used where some log θ differs by more than this."""


class PositionCurve(NamedTuple):
    """How much each position is looked at, relative to the first."""

    looked: Floats
    error: Floats
    """Standard error of the logarithm."""

    @property
    def effect(self) -> float:
        """How far the curve is from a flat one: root mean square of log θ over all positions but the first."""
        return _size(np.log(self.looked[1:]))

    @property
    def uncertainty(self) -> float:
        """The same of the standard errors."""
        return _size(self.error[1:])

    @property
    def known(self) -> bool:
        """Whether it is known well enough to be used: it is farther from a flat one than 1.5 standard errors."""
        return self.effect > _SURE * self.uncertainty


def _size(logs: Floats) -> float:
    return float(np.sqrt(np.mean(logs**2))) if logs.size else 0.0


def fit_curve(rewards: Mapping[tuple[int, int], Sequence[float]]) -> PositionCurve:
    """The most likely curve, given rewards by position of stretches in random order.

    Newton's method: the logarithm of the posterior is concave. A step is halved until it leads upwards.

    >>> curve = fit_curve({(0, 3): [60.0, 30.0, 20.0]})
    >>> curve.looked.round(2).tolist()
    [1.0, 0.51, 0.35]
    """
    places = max((end for _, end in rewards), default=1)
    stretches = [(first, end, np.array(rewards[first, end])) for first, end in sorted(rewards)]
    if places < 2:
        return PositionCurve(np.ones(1), np.zeros(1))
    x = np.log(np.arange(2.0, places + 1.0))
    tight = np.linalg.inv(_SLOPE**2 * np.outer(x, x) + _WALK**2 * np.minimum.outer(x, x))
    logs = np.zeros(places)
    value = _value(stretches, logs, tight)
    for _ in range(_ATTEMPTS):
        slope, bend = np.zeros(places), np.zeros((places, places))
        for first, end, earned in stretches:
            share = np.exp(logs[first:end] - logs[first:end].max())
            share /= share.sum()
            slope[first:end] += earned - earned.sum() * share
            bend[first:end, first:end] += earned.sum() * (np.diag(share) - np.outer(share, share))
        curvature = bend[1:, 1:] + tight
        step = np.linalg.solve(curvature, slope[1:] - tight @ logs[1:])
        while True:
            further = logs.copy()
            further[1:] += step
            reached = _value(stretches, further, tight)
            if reached >= value or float(np.abs(step).max()) < 1e-9:
                break
            step = step / 2.0
        logs, value = further, reached
        if float(np.abs(step).max()) < 1e-9:
            break
    error = np.concatenate([[0.0], np.sqrt(np.diag(np.linalg.inv(curvature)))])
    return PositionCurve(np.exp(logs), error)


def _value(stretches: Sequence[tuple[int, int, Floats]], logs: Floats, tight: Floats) -> float:
    """Logarithm of the posterior, but for a constant."""
    value = -0.5 * float(logs[1:] @ tight @ logs[1:])
    for first, end, earned in stretches:
        some = logs[first:end]
        value += float(earned @ some) - float(earned.sum()) * math.log(float(np.exp(some).sum()))
    return value


def looks_by(setting: Setting, ledger: Ledger, size: int) -> list[float]:
    """How much each of so many positions is looked at, relative to the first: alike where nothing else is known.

    Positions beyond those that are known are taken to be looked at as the last one.
    """
    looked: Sequence[float] = ()
    if setting == "learned":
        looked = ledger.curve[1]["looked"] if ledger.curve[1].get("worth") else ()
    elif setting != "none":
        looked = [float(each) for each in setting]
    return [looked[min(j, len(looked) - 1)] for j in range(size)] if looked else [1.0] * size


def due(ledger: Ledger) -> bool:
    """Whether the curve is to be fitted anew: rewards in random order are a tenth more, by what the log says alone."""
    total = ledger.looks.total
    return total > 0 and total >= 1.1 * ledger.curve[1].get("rewards", 0.0) + 5.0


def worth_of(curve: PositionCurve, before: Sequence[float]) -> list[float]:
    """What an impression is worth at each position by a new curve; nothing where it is not known well enough.

    While it differs little from what it was worth before, that stays: all items have to be counted anew.
    """
    if not curve.known:
        return []
    worth = [float(each) for each in curve.looked]
    if len(before) == len(worth) and all(abs(math.log(a / b)) < _LITTLE for a, b in zip(worth, before, strict=True)):
        return list(before)
    return worth


def draft(
    rewards: Mapping[tuple[int, int], Sequence[float]], in_force: tuple[int, Mapping[str, Any]], at: int
) -> Draft:
    """Fit the curve; it may take some milliseconds, and any thread may do it.

    It follows the one that is in force, given by its place in the log and its fields, and says what impressions are
    worth from now on.
    """
    after, before = in_force
    curve = fit_curve(rewards)
    fields = {
        "after": after,
        "rewards": sum(map(sum, rewards.values())),
        "looked": curve.looked.tolist(),
        "error": curve.error.tolist(),
        "worth": worth_of(curve, before.get("worth", ())),
        "writer": WRITER,
    }
    return Draft.of(f"positions/{after}", "positions", at, fields)


def setting_draft(setting: Setting, in_force: tuple[int, Mapping[str, Any]], at: int) -> Draft:
    """Let the log say by which setting models count impressions; the curve in force stays as it is."""
    after, before = in_force
    unknown = {"rewards": 0.0, "looked": [1.0], "error": [0.0], "worth": []}
    fields = {name: before.get(name, value) for name, value in unknown.items()}
    said = setting if isinstance(setting, str) else list(setting)
    fields |= {"after": after, "setting": said, "writer": WRITER}
    return Draft.of(f"positions/{after}", "positions", at, fields)
