r"""Bounds on the average of pseudo-outcomes that hold at all times at once, however heavy their weights are.

Y is the pseudo-outcome of one unit (a ranking, or a row), at least −b, and μ its mean given everything before. For
every λ in (0, 1/b)

.. math:: \prod_t \frac{1 + λ Y_t}{1 + λ μ_t}

is a non-negative martingale that starts at 1. It needs no upper bound of Y: weights may be as heavy as they like. By
Jensen Σ log(1 + λμ) ≤ n·log(1 + λμ̄), so that a lower bound of the average mean μ̄ is the least value against which a
fixed mixture over λ has not won 1/α (Ville). The mixture is that of :mod:`hellinger.experiment`. What is summed up is
one number for each λ, so that a log is read once and never kept.

References
----------
I. Waudby-Smith, L. Wu, A. Ramdas, N. Karampatziakis, P. Mineiro (2024), Anytime-valid off-policy inference for
contextual bandits. ACM/IMS Journal of Data Science 1.
I. Waudby-Smith, D. Arbour, R. Sinha, E. Kennedy, A. Ramdas (2021), Time-uniform central limit theory and asymptotic
confidence sequences. (The asymptotic bounds.)
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from hellinger.errors import require
from hellinger.experiment._mixture import UP

__all__ = ["Bets", "SummedBets", "asymptotic_width"]

Floats = npt.NDArray[np.float64]

_CHUNK = 1 << 14
_HALVINGS = 45
_ETA = 500.0
"""Units from which on asymptotic bounds are near their sharpest."""


class Bets:
    """Bets that pseudo-outcomes are above their means, added up unit by unit.

    Parameters
    ----------
    least
        What no pseudo-outcome is below; at most 0.
    scale
        The unit in which rewards are measured: the most that one can be.

    Examples
    --------
    >>> bets = Bets()
    >>> bets.add(np.array([0.0, 0.0, 12.0, 0.0, 1.5] * 100))
    >>> round(bets.lower(0.025), 3), bets.units
    (2.012, 500)
    """

    def __init__(self, least: float = 0.0, *, scale: float = 1.0) -> None:
        require(-math.inf < least <= 0.0, "-inf < least <= 0", least=least)
        self._least = least
        # what a bet of λ on Y + b comes to as a bet on Y: below 1/b, whatever λ is
        self._sizes = UP / scale / (1.0 - UP / scale * least)
        self._won = np.zeros(UP.size)
        self._sum = 0.0
        self.units = 0

    def add(self, outcomes: Floats) -> None:
        """Go on with these pseudo-outcomes."""
        self.units += outcomes.size
        some = outcomes[outcomes != 0.0]  # a bet on 0 neither wins nor loses
        require(
            not some.size or float(some.min()) >= self._least - 1e-9 * (1.0 - self._least),
            "no pseudo-outcome is below its least",
            least=self._least,
            outcome=float(some.min()) if some.size else 0.0,
        )
        self._sum += float(some.sum())
        for first in range(0, some.size, _CHUNK):
            self._won += np.log1p(some[first : first + _CHUNK, None] * self._sizes).sum(axis=0)

    @property
    def mean(self) -> float:
        """The average so far."""
        return self._sum / self.units if self.units else math.nan

    def lower(self, alpha: float) -> float:
        """What the average mean is not below, at all times at once with probability 1 − α."""
        if not self.units:
            return self._least
        level = math.log(UP.size / alpha)
        low, high = self._least, self.mean
        if self._wealth(low) < level:
            return low
        for _ in range(_HALVINGS):
            half = 0.5 * (low + high)
            if self._wealth(half) < level:
                high = half
            else:
                low = half
        return low

    def _wealth(self, mean: float) -> float:
        """Logarithm of what all bets together have come to, each having begun with 1."""
        logs = self._won - self.units * np.log1p(self._sizes * mean)
        top = float(logs.max())
        return top + math.log(float(np.exp(logs - top).sum()))


class SummedBets(Bets):
    r"""The same where only the number of pseudo-outcomes, their sum S and the sum of their squares Q are known.

    Measured from the least that they can be, Σ log(1 + λY) is least when every Y is 0 or Q/S (the lower end of
    Chebyshev's and Markov's moment problem): the bounds hold, and are a little wider.

    >>> bets = SummedBets(500, 1350.0, 14625.0)
    >>> round(bets.lower(0.025), 3), bets.units
    (2.0, 500)
    """

    def __init__(self, units: int, total: float, squares: float, least: float = 0.0) -> None:
        super().__init__(least)
        self.units, self._sum = units, total
        above = max(total - units * least, 0.0)
        square = max(squares - 2.0 * least * total + units * least * least, 0.0)
        if above > 0.0 and square > 0.0:
            won = above * above / square * np.log1p(UP * (square / above))
            self._won = np.asarray(won - units * np.log1p(-UP * least))


def asymptotic_width(variance: float, units: float, alpha: float, *, effective: float) -> float:
    r"""Half the width of an interval that holds at all times, once the central limit theorem does.

    .. math:: \frac{\hat σ}{n} \sqrt{(n + η)\,\log\frac{n + η}{η\,α^2}}

    The variance is taken to be larger by two standard deviations of its own estimate from an effective sample.

    >>> round(asymptotic_width(1.0, 10_000, 0.05, effective=10_000), 4)
    0.0312
    """
    if units < 2 or effective <= 0.0:
        return math.inf
    inflated = variance * (1.0 + 2.0 * math.sqrt(2.0 / effective))
    return math.sqrt(inflated * (units + _ETA) * (math.log1p(units / _ETA) - 2.0 * math.log(alpha))) / units
