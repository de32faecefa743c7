r"""Bets against a variant's mean reward, mixed over their sizes: the martingales behind every bound.

Requests come one after another; Y is the reward of one of them, at most K (its impressions, known before anyone
clicks), and μ its mean given everything before. For every λ > 0

.. math:: \prod_r \frac{1 + λ Y_r}{1 + λ μ_r}, \qquad \prod_r \frac{1 - λ Y_r}{1 - λ μ_r} \quad (λK < 1)

are martingales that start at 1 whatever else Y does: the expectation of every factor is 1 by the definition of μ.
They are the wealth of one who bets at fair odds that rewards are above, or below, their means (Waudby-Smith & Ramdas
2024). K may differ from request to request: a bet that the next page could ruin is given up. The product of a
martingale of one variant and one of another is a martingale too, for every request belongs to one of them.

Two inequalities turn them into functions of totals, each the safe way round.

* log(1 ± λμ) is concave, so Σ log(1 ± λμ_r) ≤ R·log(1 ± λA/R) with A = Σμ and R requests (Jensen). What is bounded
  is therefore A itself, the sum of the means that the requests really had, however they drifted.
* With S = ΣY and Q = ΣY² known, Σ log(1 + λY) is least when every Y is 0 or Q/S, and Σ log(1 − λY) when every Y is
  either the most seen or one other value (the ends of Chebyshev's and Markov's moment problem; the error of
  interpolating a function by a parabola has the sign of its third derivative).

Where K = 1, or nothing is known of requests, R are the impressions and Q = S: the first product is then e^{θS}/(1 − p +
pe^θ)^n with e^θ = 1 + λ, the second the same with −θ, which Bernoulli rewards attain and any in [0, 1] obey.

The mixture over λ is fixed: θ runs down a geometric series with equal weights, which is nearly the best for every
number of rewards from a few to 10¹⁰. Fixed also means: not depending on A. The better known mixture, Beta over the rate
with the Bernoulli likelihood, bets a θ that depends on the mean it is to test; under drift its proof is gone, and it is
wider beyond some hundred rewards.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hellinger.experiment._sides import Side

__all__ = ["DOWN", "PAIRS", "UP", "Floats", "Wealth", "mixed"]

Floats = npt.NDArray[np.float64]

_TILTS = 4.0 * np.exp(-0.35 * np.arange(38))
"""θ from 4 to 10⁻⁵. A finer series is no sharper: a bet half a step off costs one per cent of the interval."""
UP: Floats = np.expm1(_TILTS)
"""λ of bets that rewards are above their means."""
DOWN: Floats = -np.expm1(-_TILTS)
"""λ of bets that rewards are below."""
_SINGLE = -math.log(_TILTS.size)


def _pairs() -> Floats:
    """Weights of pairs of bets, one down on one variant and one up on the other.

    Those that tell the ratio of two rates apart stake the same on either side, up to that ratio and that of their
    traffic: a Cauchy law of scale ½ on the logarithm of θ₁/θ₂ loses little where both are near 1, nor much elsewhere.
    """
    apart = np.log(_TILTS)[:, None] - np.log(_TILTS)[None, :]
    weights = 1.0 / (1.0 + (apart / 0.5) ** 2)
    return np.asarray(weights / weights.sum())


PAIRS = _pairs()


@dataclass(frozen=True)
class Wealth:
    """What all bets on some variants have come to, as a function of A, the sum of the means.

    Arrays have a row for each variant and a column for each bet; logarithms throughout.
    """

    units: Floats
    """Requests R, or impressions where requests are not known; at least 1."""
    impressions: Floats
    reward: Floats
    won: Floats
    """Least possible Σ log(1 + λY)."""
    lost: Floats
    """Least possible Σ log(1 − λY); −∞ for bets that the largest page can ruin."""

    @classmethod
    def of(cls, sides: Sequence[Side]) -> Wealth:
        """The bets on these variants."""
        columns = np.array([side[:6] for side in sides], dtype=float).reshape(-1, 6)
        units, impressions, reward, squares, largest, most = columns.T
        return cls.counted(np.maximum(units, 1.0), impressions, reward, squares, np.maximum(largest, 1.0), most)

    @classmethod
    def counted(
        cls, units: Floats, impressions: Floats, reward: Floats, squares: Floats, largest: Floats, most: Floats
    ) -> Wealth:
        """The same from arrays, one entry a variant."""
        some = squares > 0.0
        size = np.divide(squares, reward, out=np.ones_like(reward), where=some)
        won = np.where(some, reward / size, 0.0)[:, None] * np.log1p(UP * size[:, None])

        mean = reward / units
        variance = np.maximum(squares / units - mean * mean, 0.0)
        above = np.maximum(most - mean, 0.0)
        spread = variance + above * above
        often = np.divide(variance, spread, out=np.zeros_like(mean), where=spread > 0.0)
        other = mean - np.divide(variance, above, out=np.zeros_like(mean), where=above > 0.0)
        other = np.clip(other, 0.0, most)
        safe = DOWN * largest[:, None] < 1.0
        bets = np.where(safe, DOWN, 0.0)
        sums = (units * (1.0 - often))[:, None] * np.log1p(-bets * other[:, None])
        sums += (units * often)[:, None] * np.log1p(-bets * most[:, None])
        return cls(units, impressions, reward, won, np.where(safe, sums, -np.inf))

    def __getitem__(self, rows: npt.NDArray[np.intp] | slice) -> Wealth:
        return Wealth(self.units[rows], self.impressions[rows], self.reward[rows], self.won[rows], self.lost[rows])

    def beside(self, other: Wealth) -> Wealth:
        """The variants of both."""
        mine, its = vars(self).values(), vars(other).values()
        return Wealth(*(np.concatenate(columns) for columns in zip(mine, its, strict=True)))

    def up(self, means: Floats) -> tuple[Floats, Floats]:
        """Log wealth of each bet that rewards are above their means, and its slope in A: it falls."""
        share = UP * (means / self.units)[:, None]
        return self.won - self.units[:, None] * np.log1p(share), -UP / (1.0 + share)

    def down(self, means: Floats) -> tuple[Floats, Floats]:
        """Log wealth of each bet that rewards are below their means, and its slope in A: it rises."""
        share = np.minimum(DOWN * (means / self.units)[:, None], _ALMOST)
        return self.lost - self.units[:, None] * np.log1p(-share), DOWN / (1.0 - share)


_ALMOST = 1.0 - 2.0**-52
"""Bets that the largest page can ruin are off already; this keeps their logarithms finite."""


def mixed(bets: tuple[Floats, Floats]) -> tuple[Floats, Floats]:
    """Log wealth of the mixture, and its slope."""
    wealth, slopes = bets
    top = wealth.max(axis=1, keepdims=True)
    weights = np.exp(wealth - top)
    whole = weights.sum(axis=1)
    return top[:, 0] + np.log(whole) + _SINGLE, (weights * slopes).sum(axis=1) / whole


def paired(down: Wealth, up: Wealth, means_down: Floats, means_up: Floats) -> tuple[Floats, ...]:
    """Log wealth F of the mixture of pairs, bets down on some variants times bets up on others.

    Returns F, its slopes F₁ and F₂ in the two sums of means, and the second ones F₁₁, F₁₂, F₂₂.
    """
    first, s1 = down.down(means_down)
    second, s2 = up.up(means_up)
    top1, top2 = first.max(axis=1, keepdims=True), second.max(axis=1, keepdims=True)
    w1, w2 = np.exp(first - top1), np.exp(second - top2)
    against1, against2 = w2 @ PAIRS.T, w1 @ PAIRS
    whole = (w1 * against1).sum(axis=1)
    t1, t2 = w1 * s1, w2 * s2
    f1 = (t1 * against1).sum(axis=1) / whole
    f2 = (t2 * against2).sum(axis=1) / whole
    # a bet's own second slope is the square of its first over the number of units
    f11 = (t1 * s1 * against1).sum(axis=1) / whole * (1.0 + 1.0 / down.units) - f1 * f1
    f22 = (t2 * s2 * against2).sum(axis=1) / whole * (1.0 + 1.0 / up.units) - f2 * f2
    f12 = ((t1 @ PAIRS) * t2).sum(axis=1) / whole - f1 * f2
    return (top1 + top2)[:, 0] + np.log(whole), f1, f2, f11, f12, f22
