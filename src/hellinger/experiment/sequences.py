r"""Anytime-valid bounds on rates and lifts: right at all times at once, however often one looks and whenever one stops.

A bound is found by turning a betting martingale round (``_mixture`` says which): by Ville's inequality a non-negative
martingale that starts at 1 ever reaches 1/α with probability at most α, so the values against which the bets have not
won 1/α are a confidence sequence.

**What is covered.** With μ the mean of a request's reward given everything before it, A = Σμ over a variant's requests
and n its impressions, a rate is A/n: the average of what the variant's requests were worth when they were made. It may
drift, as it does while an algorithm learns or the public changes; the interval at any time is for the average up to
that time. A lift is the ratio of two such averages less 1.

**What is assumed.** Rewards of an impression within [0, 1]; a request's slots known before its rewards; with ``Pages``
nothing about how the clicks of one request depend on each other. Without ``Pages`` every impression is a unit of its
own, and what is covered is the average of means given also the earlier slots of the same request: the same thing if the
slots of a request are independent given what came before it, and if they are not, too narrow. Rewards are final
(``Totals``). With ``Clusters`` users are independent, and the bounds are asymptotic (``_clusters``).

References
----------
H. Robbins (1970), Statistical methods related to the law of the iterated logarithm. Annals of Math. Statistics 41.
S. Howard, A. Ramdas, J. McAuliffe, J. Sekhon (2021), Time-uniform, nonparametric, nonasymptotic confidence sequences.
Annals of Statistics 49. (Mixtures over λ; sub-Bernoulli.)
I. Waudby-Smith, A. Ramdas (2024), Estimating means of bounded random variables by betting. JRSS B 86.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from hellinger.errors import require
from hellinger.experiment._clusters import clustered_evidence, clustered_lift, clustered_rate
from hellinger.experiment._crossing import Steps, crossing, crossing_steps, finish, one_step
from hellinger.experiment._mixture import Floats, Wealth, mixed, paired
from hellinger.experiment._sides import Side
from hellinger.experiment.totals import Totals

__all__ = ["lift_bounds", "order_evidence", "rate_bounds"]

_GUESS = 4.0
"""Standard deviations from which the search for a bound starts."""
_FINE, _COARSE = 1e-7, 1e-5
"""Relative tolerance of bounds, and of the place of a minimum, whose value hardly depends on it."""
_FAR = 60.0
"""A logarithm of ratios beyond which none is sought."""


def rate_bounds(totals: Sequence[Totals], *, alpha: float = 0.05) -> tuple[Floats, Floats]:
    """Both ends of each variant's rate; with probability 1 − α it is between them at all times.

    The lower end is the least A/n against which the mixture of bets upward has not won 2/α, the upper one the greatest
    against which that of bets downward has not.

    >>> low, high = rate_bounds([Totals("a", 1000, 20_000, 1000), Totals("b", 0, 0, 0), Totals("c", 1, 20, 20)])
    >>> low.round(4), high.round(4)
    (array([0.0446, 0.    , 0.721 ]), array([0.0558, 1.    , 1.    ]))
    """
    checked = _checked(totals, alpha)
    low, high = _rates(Wealth.of(checked), alpha)
    for place, side in enumerate(checked):
        if side.clusters is not None:
            low[place], high[place] = clustered_rate(side.clusters, alpha)
    return low, high


def _checked(totals: Sequence[Totals], alpha: float) -> list[Side]:
    require(0.0 < alpha < 1.0, "0 < alpha < 1", alpha=alpha)
    for each in totals:
        each.check()
    return [Side.of(each) for each in totals]


def _rates(wealth: Wealth, alpha: float) -> tuple[Floats, Floats]:
    level = math.log(2.0 / alpha)
    reward, impressions = wealth.reward, wealth.impressions
    around = _GUESS * np.sqrt(reward + 1.0)

    def falling(means: Floats) -> tuple[Floats, Floats]:
        value, slope = mixed(wealth.up(-means))
        return value, -slope

    def rising(means: Floats) -> tuple[Floats, Floats]:
        return mixed(wealth.down(means))

    fine = _FINE * (reward + 1.0)
    low = -crossing(falling, -reward, np.zeros_like(reward), start=around - reward, tolerance=fine, level=level)
    high = crossing(rising, reward, impressions, start=reward + around, tolerance=fine, level=level)
    some = impressions > 0.0
    shown = np.maximum(impressions, 1.0)
    return np.where(some, low / shown, 0.0) + 0.0, np.where(some, high / shown, 1.0)  # + 0.0: never −0


def lift_bounds(totals: Sequence[Totals], controls: Sequence[Totals], *, alpha: float = 0.05) -> tuple[Floats, Floats]:
    """Both ends of the lift of each variant over the control beside it; between −1 and ∞.

    The bets are pairs, one upward on one of the two and one downward on the other, and their wealth is a function of
    both sums of means. A ratio is ruled out when every pair of rates that has it is: this asks for the least wealth
    along a ray, where it is convex. Two bounds set against each other would give an interval wider by almost √2.

    >>> low, high = lift_bounds([Totals("a", 1000, 20_000, 1230)], [Totals("b", 1000, 20_000, 1000)])
    >>> low.round(3), high.round(3)
    (array([0.054]), array([0.439]))
    """
    require(len(totals) == len(controls), "as many controls as variants", totals=len(totals), controls=len(controls))
    return finish(lift_steps([*zip(_checked(totals, alpha), _checked(controls, alpha), strict=True)], alpha))


def lift_steps(pairs: Sequence[tuple[Side, Side]], alpha: float) -> Steps[tuple[Floats, Floats]]:
    """:func:`lift_bounds` in steps."""
    one, other = Wealth.of([one for one, _ in pairs]), Wealth.of([other for _, other in pairs])
    # both ends in one search: the lower end is the upper one of the inverse ratio
    ends = np.exp((yield from _log_ratio(one.beside(other), other.beside(one), alpha)))
    low, high = 1.0 / ends[len(pairs) :] - 1.0, ends[: len(pairs)] - 1.0
    for place, (mine, its) in enumerate(pairs):
        if mine.clusters is not None and its.clusters is not None:
            low[place], high[place] = clustered_lift(mine.clusters, its.clusters, alpha)
    return low, high


def order_evidence(totals: Sequence[Totals], others: Sequence[Totals]) -> Floats:
    """Logarithm of the evidence that each variant's rate is above that of the one beside it.

    With probability at least 1 − α it never reaches log(1/α) while it is not.

    >>> order_evidence([Totals("a", 1000, 20_000, 1230)], [Totals("b", 1000, 20_000, 1000)]).round(2)
    array([8.73])
    """
    require(len(totals) == len(others), "as many others as variants", totals=len(totals), others=len(others))
    return finish(evidence_steps([*zip(_checked(totals, 0.5), _checked(others, 0.5), strict=True)]))


def evidence_steps(pairs: Sequence[tuple[Side, Side]]) -> Steps[Floats]:
    """:func:`order_evidence` in steps."""
    one, other = Wealth.of([one for one, _ in pairs]), Wealth.of([other for _, other in pairs])
    least, *_ = yield from _least(other, one, np.zeros_like(one.reward), _pooled(other, one))
    for place, (mine, its) in enumerate(pairs):
        if mine.clusters is not None and its.clusters is not None:
            least[place] = clustered_evidence(mine.clusters, its.clusters, growth=mine.growth)
    return least


def _pooled(down: Wealth, up: Wealth) -> Floats:
    return (down.reward + up.reward + 1.0) / (down.impressions + up.impressions + 2.0)


def _least(down: Wealth, up: Wealth, log_ratio: Floats, start: Floats) -> Steps[tuple[Floats, Floats, Floats]]:
    """Least log wealth among rates of a given ratio, its slope in the ratio's logarithm, and the second rate there."""
    ratio = np.exp(log_ratio)
    n1, n2 = ratio * down.impressions, up.impressions

    def slope(rate: Floats) -> tuple[Floats, Floats]:
        _, f1, f2, f11, f12, f22 = paired(down, up, rate * n1, rate * n2)
        return n1 * f1 + n2 * f2, n1 * n1 * f11 + 2.0 * n1 * n2 * f12 + n2 * n2 * f22

    most, tolerance = np.minimum(1.0, 1.0 / ratio), _COARSE * start
    rate = yield from crossing_steps(one_step(slope), np.zeros_like(ratio), most, start=start, tolerance=tolerance)
    least, f1, f2, *_ = paired(down, up, rate * n1, rate * n2)
    # both are the same at a minimum within; where one of the rates is 1 the other moves with the ratio
    return least, np.where(ratio > 1.0, -rate * n2 * f2, rate * n1 * f1), rate


def _log_ratio(down: Wealth, up: Wealth, alpha: float) -> Steps[Floats]:
    """The greatest log ratio of the first's rate to the second's that bets have not ruled out; ∞ where none is."""
    level = math.log(2.0 / alpha)
    nothing = np.zeros_like(down.reward)
    finite = (paired(down, up, nothing, nothing)[0] > level) & (down.impressions > 0.0)
    found = np.full(nothing.shape, np.inf)
    if not finite.any():
        return found
    rows = np.flatnonzero(finite)
    down, up = down[rows], up[rows]
    rate = up.reward / up.impressions
    at = np.log(np.maximum(down.reward, 1e-9) / down.impressions / rate)
    around = _GUESS * np.sqrt(1.0 / (down.reward + 1.0) + 1.0 / up.reward)
    guess = np.log((down.reward + 1.0) / down.impressions / rate) + around
    memory = [rate]

    def least(log_ratio: Floats) -> Steps[tuple[Floats, Floats]]:
        value, slope, memory[0] = yield from _least(down, up, log_ratio, memory[0])
        return value, slope

    tolerance = np.full(at.shape, _FINE)
    found[rows] = yield from crossing_steps(least, at, at + _FAR, start=guess, tolerance=tolerance, level=level)
    return found
