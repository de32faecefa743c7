"""A check of what a rule of the user's declares: that its index falls with impressions and rises with rewards."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hellinger.errors import InputError
from hellinger.policies import Policy
from hellinger.pool import _scan

__all__ = ["check_monotone"]

Floats = npt.NDArray[np.float64]

_VALUES = 16


def check_monotone(policy: Policy, s: Floats, n: Floats, t: float, arms: float) -> None:
    """Compare the indices of some pairs of counts, from the least to the most that items have; raise where it fails."""
    if not n.size:
        return
    sums, pulls = np.meshgrid(_some(s), _some(n), indexing="ij")
    low, high = policy.family.mean_bounds
    with np.errstate(invalid="ignore"):
        possible = np.where(pulls == 0.0, sums == 0.0, (low * pulls <= sums) & (sums <= high * pulls))
    index = np.full(sums.shape, np.nan)
    out = np.empty(int(possible.sum()))
    _scan.score_counts(policy.rule, sums[possible], pulls[possible], t, arms, out)
    policy.check_numbers(sums[possible], pulls[possible], t, out)
    index[possible] = out
    _require_order(policy, sums, pulls, index, "fall with impressions")
    _require_order(policy, sums.T[:, ::-1], pulls.T[:, ::-1], index.T[:, ::-1], "rise with rewards")


def _some(values: Floats) -> Floats:
    """A few of the values there are, least and most among them."""
    distinct = np.unique(values)
    chosen: Floats = distinct[np.unique(np.linspace(0, distinct.size - 1, _VALUES).round().astype(int))]
    return chosen


def _require_order(policy: Policy, sums: Floats, pulls: Floats, index: Floats, what: str) -> None:
    """Raise where the index rises along a row, but for rounding."""
    finite = np.minimum(index, 1e300)
    with np.errstate(invalid="ignore"):  # NaN where counts are not possible
        wrong = np.argwhere(np.diff(finite, axis=1) > 1e-12 * np.abs(finite[:, :-1]))
    if wrong.size:
        i, j = wrong[0]
        one, other = (
            f"{index[i, k]:.6g} for {pulls[i, k]:g} impressions with rewards {sums[i, k]:g}" for k in (j, j + 1)
        )
        raise InputError(
            f"{policy.spec} declares monotone, so its index must {what}, but it is {one} and {other}: "
            "leave monotone undeclared, and every item is scored"
        )
