r"""Estimators of what a fixed policy would have earned: weights of what was logged, a model, or both.

With w = target/propensity of what was shown, R its reward, q the model's prediction for it and q_π the prediction for
what the policy would have shown, a row's pseudo-outcome is

========== ======================================== =====================================================
estimator  pseudo-outcome                           what it rests on, beside right propensities
========== ======================================== =====================================================
ips        wR                                       nothing
clipped    min(w, clip)·R                           nothing: what is cut off makes it too low
snips      wR, divided by the mean of w             nothing: biased a little where units are few
dm         q_π                                      the model is right
dr         q_π + w(R − q)                           nothing: a model that is wrong makes it noisy, not biased
switch     q_π + w(R − q) where w ≤ switch          the model is right where the weight is larger; the interval is dr's
os         q_π + λw/(w² + λ)·(R − q)                the model is right where weights are shrunk; the interval is dr's
position   θ(its position)/θ(position logged)·R     a look depends on the position alone (:mod:`.positions`)
========== ======================================== =====================================================

Rows of one ranking are added up: the ranking is the unit, and the value is a ranking's. That is right where the reward
of a place depends on its item and the place alone (item-position weights).

**The interval of ips needs no bound of the weights.** Below it is that of wR ≥ 0. Above, w(1 − R) ≥ 0 has a mean of at
most 1 − value, whatever part of the policy has no support, so the value is at most one less a lower bound of that. Such
an upper end is off by about the spread of the weights. Where no weight can be above ``largest``, as with a logger that
gives everything a least chance, bets on −wR give a much closer one.

References
----------
D. Horvitz, D. Thompson (1952); A. Swaminathan, T. Joachims (2015, SNIPS); M. Dudík, J. Langford, L. Li (2011, DR);
Y.-X. Wang, A. Agarwal, M. Dudík (2017, SWITCH); Y. Su, M. Dimakopoulou, A. Krishnamurthy, M. Dudík (2020, DRos);
S. Li, Y. Abbasi-Yadkori, B. Kveton et al. (2018, item-position); A. Agarwal, S. Basu, T. Schnabel, T. Joachims (2017,
balanced).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from hellinger.errors import UnknownNameError, require
from hellinger.evaluate.bounds import Bets, SummedBets, asymptotic_width
from hellinger.evaluate.estimate import Estimate, refusal

__all__ = ["ESTIMATORS", "SLACK", "Evaluator", "as_column", "first_of", "first_rows", "require_length"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Rows = npt.ArrayLike

SLACK = 1e-9
"""Rounding that is allowed to chances and rewards, relative."""

ESTIMATORS: dict[str, str] = {
    "ips": "none",
    "clipped_ips": "none; too low by what is clipped",
    "snips": "none; a little biased where units are few",
    "dm": "the model is right; the interval is all that is possible",
    "dr": "none",
    "switch_dr": "its value: the model is right where the weight is above {cut:g}; its interval, which is dr's: none",
    "dr_os": "its value: the model is right where weights are shrunk (those above about {cut:g}); its interval, which "
    "is dr's: none",
    "position_based": "a click needs a look, whose chance depends on the position alone, as given",
}
"""Each estimator, and what it assumes beside right propensities."""
_MODELLED = ("dm", "dr", "switch_dr", "dr_os")
_SHRUNK = ("switch_dr", "dr_os")


class _Units(NamedTuple):
    """Sums over the rows of each unit."""

    outcome: Floats
    weight: Floats
    """Mean weight of the unit's rows."""
    reward: Floats
    reflected: Floats
    """Σ w(most − R)."""
    places: Floats


class Evaluator:
    """One estimator, fed with a log part by part; nothing of the log is kept.

    Parameters
    ----------
    estimator
        One of ``ESTIMATORS``.
    most
        The most reward that a row can have.
    slots
        The most rows that a unit can have.
    largest
        What no weight can be above, known from how the log was made; None where nothing is known.
    cut
        Where weights are clipped, where ``switch_dr`` leaves it to the model, or about where ``dr_os`` begins to
        shrink. To be chosen before the log is looked at.
    alpha
        One less the level of the interval.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> evaluator = Evaluator("ips", largest=2.0)
    >>> for part in range(10):
    ...     shown = rng.random(1000) < 0.5
    ...     clicks = (rng.random(1000) < np.where(shown, 0.2, 0.1)).astype(float)
    ...     evaluator.add(clicks, np.where(shown, 1.8, 0.2))
    >>> found = evaluator.estimate()
    >>> found.low < 0.19 < found.high, found.verdict
    (True, 'safe to switch: at least +20.7 %')
    """

    def __init__(
        self,
        estimator: str = "ips",
        *,
        most: float = 1.0,
        slots: int = 1,
        largest: float | None = None,
        cut: float = 10.0,
        alpha: float = 0.05,
    ) -> None:
        if estimator not in ESTIMATORS:
            raise UnknownNameError("estimator", estimator, list(ESTIMATORS))
        require(0.0 < most < math.inf, "0 < most < inf", most=most)
        require(slots >= 1, "1 <= slots", slots=slots)
        require(largest is None or 1.0 <= largest < math.inf, "1 <= largest < inf", largest=largest)
        require(0.0 < cut < math.inf, "0 < cut < inf", cut=cut)
        require(0.0 < alpha < 1.0, "0 < alpha < 1", alpha=alpha)
        bounded = largest is not None or estimator != "position_based"
        require(bounded, "position_based has the largest ratio of looks as `largest`", largest=largest)
        self.estimator = estimator
        self._most, self._slots, self._largest, self._cut, self._alpha = most, slots, largest, cut, alpha
        unit = most * slots
        self._reflects = largest is None
        """Whether bets are on wR and w(most − R), which need no bound of the weights."""
        least, top = 0.0, unit * (largest or 0.0)
        if largest is not None and estimator in _MODELLED:
            least, top = -top, top + unit
        elif largest is not None and estimator == "snips":
            least, top = -unit, top + unit
        self._low, self._difference_low = Bets(least, scale=most), Bets(least - unit, scale=most)
        self._high = Bets(0.0 if self._reflects else -top, scale=most)
        self._difference_high = Bets(0.0 if self._reflects else -top, scale=most)
        self._logged_low, self._logged_high = Bets(scale=most), Bets(-unit, scale=most)
        self._weight_low = Bets()
        self._weight_high = None if largest is None else Bets(-largest)
        self._sums, self._squares = np.zeros(3), 0.0
        """Of outcomes, weights and rewards; and of squared weights."""
        self._places = self._unsupported = 0.0
        self.units = 0

    @classmethod
    def summed(
        cls,
        estimator: str,
        units: int,
        sums: Sequence[float],
        products: Sequence[float],
        *,
        largest: float | None = None,
        alpha: float = 0.05,
    ) -> Evaluator:
        """The same of units that were added up elsewhere, as a running service does; each reward is at most 1.

        With y a unit's outcome, r its reward and w its weight: ``sums`` are Σy, Σr, Σw, and ``products`` Σyy, Σyr, Σyw,
        Σrr, Σrw, Σww. For ``ips`` and ``position_based``; intervals are a little wider than those of single units.
        """
        known = (estimator == "ips" and largest is None) or estimator == "position_based"
        require(known, "sums are known for ips without `largest`, and for position_based", estimator=estimator)
        made = cls(estimator, largest=largest, alpha=alpha)
        yy, yr, yw, rr, rw, ww = products

        def bets(a: float, b: float, c: float, least: float = 0.0) -> SummedBets:
            square = a * a * yy + b * b * rr + c * c * ww + 2.0 * (a * b * yr + a * c * yw + b * c * rw)
            return SummedBets(units, a * sums[0] + b * sums[1] + c * sums[2], square, least)

        reflected, bottom = (1.0, 0.0) if largest is None else (0.0, -largest)
        made._low, made._difference_low = bets(1, 0, 0), bets(1, -1, 0, -1.0)
        made._high = bets(-1, 0, reflected, bottom)
        made._difference_high = bets(-1, 1, reflected, bottom)
        made._logged_low, made._logged_high = bets(0, 1, 0), bets(0, -1, 0, -1.0)
        made._weight_low = bets(0, 0, 1)
        made._weight_high = None if largest is None else bets(0, 0, -1, bottom)
        made._sums, made._squares = np.array([sums[0], sums[2], sums[1]]), ww
        made.units, made._places = units, float(units)
        if largest is not None:  # the weight is what was seen of the policy's looks: nothing is left to chance
            made._unsupported = max(units - sums[2], 0.0)
        return made

    def add(
        self,
        reward: Rows,
        weight: Rows,
        *,
        ranking: Rows | None = None,
        predicted: Rows | None = None,
        predicted_target: Rows | None = None,
        unsupported: Rows = 0.0,
        mass: Rows | None = None,
    ) -> None:
        """Go on with these rows; those of one ranking are next to each other, and in one part.

        ``unsupported`` is the share of what the policy would show on each unit that the logger could not have;
        ``mass`` is what has the mean 1 under full support, where that is not the weight.
        """
        rewards, weights = as_column(reward, "reward"), as_column(weight, "weight")
        require_length(weights, "weight", rewards)
        if not rewards.size:
            return
        inside = float(rewards.min()) >= 0.0 and float(rewards.max()) <= self._most * (1.0 + SLACK)
        require(inside, "0 <= reward <= most", reward=(float(rewards.min()), float(rewards.max())), most=self._most)
        require(float(weights.min()) >= 0.0, "0 <= weight", weight=float(weights.min()))
        if self._largest is not None:
            heaviest = float(weights.max())
            require(
                heaviest <= self._largest * (1.0 + SLACK), "weight <= largest", weight=heaviest, largest=self._largest
            )
        outcomes = self._outcomes(rewards, weights, predicted, predicted_target)
        checked = weights if mass is None else as_column(mass, "mass")
        require_length(checked, "mass", rewards)
        starts = first_rows(ranking, rewards.size)
        units = self._grouped(outcomes, weights, checked, rewards, starts)
        missing = as_column(unsupported, "unsupported")
        one_each = missing.shape in ((), units.places.shape)
        require(
            one_each, "unsupported is one share, or one for each unit", shares=missing.size, units=units.places.size
        )
        right = (missing >= 0.0) & (missing <= 1.0 + SLACK)
        require(bool(right.all()), "0 <= unsupported <= 1", unsupported=first_of(missing, ~right))
        self.units += units.places.size
        self._places += float(units.places.sum())
        self._unsupported += float(np.broadcast_to(missing, units.places.shape).sum())
        staked = units.outcome
        if self._reflects and self.estimator in _MODELLED:
            staked = _added(weights * rewards, starts)
        elif self.estimator in _SHRUNK:  # what is left to the model is no part of what the log can answer for
            staked = _added(self._corrected(rewards, weights, predicted, predicted_target), starts)
        elif self.estimator == "snips" and not self._reflects:
            staked = self._centred(units)
        most = staked
        if self.estimator == "clipped_ips" and not self._reflects:  # what is cut off belongs to the upper end
            most = _added(weights * rewards, starts)
        self._bet(units, staked, most)
        self._sums += units.outcome.sum(), units.weight.sum(), units.reward.sum()
        self._squares += float(units.weight @ units.weight)

    def _outcomes(
        self, rewards: Floats, weights: Floats, predicted: Rows | None, predicted_target: Rows | None
    ) -> Floats:
        if self.estimator == "clipped_ips":
            return np.minimum(weights, self._cut) * rewards
        if self.estimator not in _MODELLED:
            return weights * rewards
        given = predicted is not None or self.estimator == "dm"
        require(
            given and predicted_target is not None, f"{self.estimator} has a model's predictions", predicted=predicted
        )
        if self.estimator == "dm":
            return self._predictions(predicted_target, "predicted_target", rewards)
        cut = self._cut
        if self.estimator == "switch_dr":
            weights = np.where(weights <= cut, weights, 0.0)
        elif self.estimator == "dr_os":
            weights = cut * cut * weights / (weights * weights + cut * cut)
        return self._corrected(rewards, weights, predicted, predicted_target)

    def _corrected(
        self, rewards: Floats, weights: Floats, predicted: Rows | None, predicted_target: Rows | None
    ) -> Floats:
        """The model's predictions, corrected by weighted residuals."""
        ahead = self._predictions(predicted_target, "predicted_target", rewards)
        return np.asarray(ahead + weights * (rewards - self._predictions(predicted, "predicted", rewards)))

    def _predictions(self, values: Rows | None, name: str, rewards: Floats) -> Floats:
        column = as_column(values, name)
        if column.ndim:
            require_length(column, name, rewards)
        right = (column >= 0.0) & (column <= self._most * (1.0 + SLACK))
        require(bool(right.all()), f"0 <= {name} <= most", **{name: first_of(column, ~right)}, most=self._most)
        return np.broadcast_to(column, rewards.shape)

    def _grouped(
        self, outcomes: Floats, weights: Floats, checked: Floats, rewards: Floats, starts: Ints | None
    ) -> _Units:
        reflected = weights * (self._most - rewards) if self._reflects else np.zeros(1)
        if starts is None:
            return _Units(outcomes, checked, rewards, reflected, np.ones(rewards.size))
        places = np.diff(starts, append=rewards.size).astype(float)
        longest = int(places.max())
        require(longest <= self._slots, "a ranking has at most so many rows as slots", rows=longest, slots=self._slots)
        return _Units(
            _added(outcomes, starts),
            _added(checked, starts) / places,
            _added(rewards, starts),
            _added(reflected, starts) if self._reflects else reflected,
            places,
        )

    def _centred(self, units: _Units) -> Floats:
        """W(R − m) + m, with m the quotient of all units before, kept so low that no weight makes it below −most."""
        earned = self._sums[0] + np.cumsum(units.outcome) - units.outcome
        weight = self._sums[1] + np.cumsum(units.weight) - units.weight
        before = np.divide(earned, weight, out=np.zeros_like(earned), where=weight > 0.0)
        before = np.minimum(before, self._most * self._slots / (self._largest or 1.0))
        return np.asarray(units.outcome + (1.0 - units.weight) * before)

    def _bet(self, units: _Units, staked: Floats, most: Floats) -> None:
        self._logged_low.add(units.reward)
        self._logged_high.add(-units.reward)
        self._weight_low.add(units.weight)
        if self._weight_high is not None:
            self._weight_high.add(-units.weight)
        self._low.add(staked)
        self._difference_low.add(staked - units.reward)
        against = units.reflected if self._reflects else -most
        self._high.add(against)
        self._difference_high.add(against + units.reward)

    def estimate(self) -> Estimate:
        """What there is to say so far."""
        n = self.units
        mean, weight, logged = (self._sums / max(n, 1)).tolist() if n else (math.nan,) * 3
        effective = float(self._sums[1]) ** 2 / self._squares if self._squares > 0.0 else 0.0
        weight_low, weight_high = self._weights(weight, effective)
        declared = self._unsupported / max(n, 1)
        missing, worst = declared, declared
        if weight_high < 1.0:
            missing, worst = max(declared, 1.0 - weight), max(declared, 1.0 - weight_low)
        room = self._most * (self._places / n if n else self._slots)
        value = mean
        if self.estimator == "snips":
            value = mean / weight if weight > 0.0 else math.nan
        # bets on w(most − R) already allow for whatever has no support; a model or a quotient fills it with its own
        above = 0.0 if self._reflects else worst * room
        below = above if self.estimator not in ("ips", "clipped_ips", "position_based") else 0.0
        ends = self._ends(self._low, self._high, self._alpha / 2.0, room)
        apart, wide = (
            self._ends(self._difference_low, self._difference_high, self._alpha * part, room) for part in (0.5, 0.25)
        )
        low, high = max(ends[0] - below, 0.0), min(ends[1] + above, room)
        if self.estimator == "dm":
            low, high, apart, wide, above, below = 0.0, room, *((-logged, room - logged),) * 2, 0.0, 0.0
        lift = self._lift(wide[0] - below, wide[1] + above)
        return Estimate(
            value,
            low,
            high,
            effective,
            missing,
            ESTIMATORS[self.estimator].format(cut=self._cut),
            self.estimator,
            n,
            weight,
            weight_low,
            weight_high,
            logged,
            value - logged,
            apart[0] - below,
            apart[1] + above,
            *lift,
            refusal(effective, n, missing, weight, weight_low),
        )

    def _ends(self, low: Bets, high: Bets, alpha: float, room: float) -> tuple[float, float]:
        return low.lower(alpha), (room if self._reflects else 0.0) - high.lower(alpha)

    def _weights(self, weight: float, effective: float) -> tuple[float, float]:
        """Both ends of the mean weight; the upper one is asymptotic where nothing bounds the weights."""
        low, n = self._weight_low.lower(self._alpha / 2.0), max(self.units, 1)
        if self._weight_high is not None:
            return low, -self._weight_high.lower(self._alpha / 2.0)
        variance = max(self._squares / n - weight * weight, 0.0) if self.units else 0.0
        return low, weight + asymptotic_width(variance, self.units, self._alpha, effective=effective)

    def _lift(self, low: float, high: float) -> tuple[float, float]:
        """Bounds of the relative difference, from bounds of the difference and of what was logged."""
        level = self._alpha / 4.0
        least, most = self._logged_low.lower(level), -self._logged_high.lower(level)

        def ratio(apart: float, helping: float, harming: float) -> float:
            base = helping if apart >= 0.0 else harming
            return apart / base if base > 0.0 else math.copysign(math.inf, apart)

        return max(-1.0, ratio(low, most, least)), ratio(high, least, most)


def as_column(values: Rows | None, name: str) -> Floats:
    """A column of numbers, none of them missing."""
    column = np.asarray(values, dtype=np.float64)
    require(column.ndim <= 1, f"{name} has one dimension", shape=column.shape)
    finite = np.isfinite(column)
    if not finite.all():
        require(False, f"{name} is finite", **{name: first_of(column, ~finite)})
    return column


def first_of(values: Floats, wrong: npt.NDArray[np.bool_]) -> float:
    """The first value that is wrong; NaN where none is."""
    found = np.atleast_1d(values)[np.atleast_1d(wrong)]
    return float(found[0]) if found.size else math.nan


def require_length(column: npt.NDArray[Any], name: str, rewards: Floats) -> None:
    """A column has an entry for each reward."""
    right = column.shape == rewards.shape
    require(right, f"{name} has as many entries as reward", **{name: column.size}, reward=rewards.size)


def first_rows(ranking: Rows | None, rows: int) -> Ints | None:
    """The first row of each ranking; None where every row is a unit."""
    if ranking is None:
        return None
    names = np.asarray(ranking)
    require(names.shape == (rows,), "a ranking for each row", rankings=names.shape, rows=rows)
    if not rows:
        return None
    starts = np.concatenate([[0], np.flatnonzero(names[1:] != names[:-1]) + 1])
    heads = names[starts]
    if bool((heads[1:] > heads[:-1]).all()):  # as numbers mostly are, and quickly seen
        return starts
    known, first = np.unique(heads, return_index=True)
    if known.size < heads.size:
        back = heads[np.setdiff1d(np.arange(heads.size), first)[0]]
        require(False, "rows of a ranking are next to each other", ranking_that_returns=back.item())
    return starts


def _added(rows: Floats, starts: Ints | None) -> Floats:
    """Sums over the rows of each unit."""
    return rows if starts is None else np.add.reduceat(rows, starts)
