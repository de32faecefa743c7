"""The fewest samples with which the best arms can be told from the others."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from hellinger import families
from hellinger.errors import require

__all__ = ["least_samples"]

Floats = npt.NDArray[np.float64]
_EXACT = 1e-6
"""Relative distance between the hardness found and what it can be at most."""


def least_samples(
    means: npt.ArrayLike, *, best: int = 1, delta: float = 0.05, family: str | families.Family = "bernoulli"
) -> float:
    """Samples that every method needs on average which finds the ``best`` arms with confidence 1 − δ on any problem.

    kl(δ, 1−δ)/max over w of min over a in, b out of w_a·KL(μ_a ‖ μ) + w_b·KL(μ_b ‖ μ), where w are the shares of
    samples that the arms get and μ = (w_a·μ_a + w_b·μ_b)/(w_a + w_b) (Garivier & Kaufmann 2016, theorem 1, for one
    best arm; Kaufmann, Cappé & Garivier 2016, for several). The maximum of this concave function is found by cutting
    planes, to within a millionth, from above: the result is never too large.

    Returns
    -------
    The bound; infinite where arms in and out have the same mean.

    Examples
    --------
    >>> round(least_samples([0.5, 0.45, 0.43, 0.4], delta=0.1))
    1740
    """
    chosen = families.get(family)
    array = np.asarray(means, np.float64)
    require(array.ndim == 1 and array.size >= 2, "means is a list of at least two numbers", means=means)
    require(bool(np.isfinite(array).all()), "means are finite", means=array.tolist())
    require(1 <= best < array.size and best % 1 == 0, "1 <= best < arms, a whole number", best=best)
    require(0 < delta < 1, "0 < delta < 1", delta=delta)
    if delta >= 0.5:
        return 0.0  # guessing is good enough
    order = np.argsort(-array, kind="stable")
    if array[order[best - 1]] == array[order[best]]:
        return math.inf
    most, _ = _hardness(chosen, array[order], int(best))
    return float(families.Bernoulli().kl(delta, 1.0 - delta)) / most


def _hardness(family: families.Family, means: Floats, best: int) -> tuple[float, Floats]:
    """The maximum of the function above, and shares that reach it, for means in falling order.

    It is homogeneous, so that its gradients at any shares bound it from above: a linear programme over the cuts found
    so far gives an upper bound, and the next shares lie between its solution and the best shares yet.
    """
    from scipy.optimize import linprog

    count = means.size
    inside, outside = np.arange(best), np.arange(best, count)
    shares = best_shares = np.full(count, 1.0 / count)
    reached, most = -math.inf, math.inf
    cuts: list[Floats] = []
    scale = 0.0
    for _ in range(200):
        w_in, w_out = shares[inside][:, None], shares[outside][None, :]
        middle = (w_in * means[inside][:, None] + w_out * means[outside]) / (w_in + w_out)
        slope_in = family.kl(np.broadcast_to(means[inside][:, None], middle.shape), middle)
        slope_out = family.kl(np.broadcast_to(means[outside], middle.shape), middle)
        value = w_in * slope_in + w_out * slope_out
        scale = scale or float(value.min())  # so that the programme's tolerances are relative
        if value.min() > reached:
            reached, best_shares = float(value.min()), shares
        rivals = {(a, int(value[a].argmin())) for a in range(best)}
        rivals |= {(int(value[:, b].argmin()), b) for b in range(count - best)}
        for a, b in sorted(rivals):  # the nearest rival of each arm
            cut = np.zeros(count)
            cut[a], cut[best + b] = slope_in[a, b] / scale, slope_out[a, b] / scale
            cuts.append(cut)
        # the largest z with z ≤ cut·w for every cut, w ≥ 0, Σ w = 1
        rows = np.column_stack([-np.array(cuts), np.ones(len(cuts))])
        goal = np.append(np.zeros(count), -1.0)
        total = np.append(np.ones(count), 0.0)[None, :]
        found = linprog(goal, rows, np.zeros(len(cuts)), total, [1.0], bounds=(0.0, None), method="highs")
        most = min(most, -scale * float(found.fun))
        if most - reached <= _EXACT * most:
            break
        shares = 0.5 * (found.x[:count] + best_shares)
    return most, best_shares
