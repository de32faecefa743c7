"""What is known of regret: Theorem 3.1 of the paper, leading constants, Lai–Robbins, and when c is too small.

"The paper" is Yang, Wang & Mullhaupt, *Hellinger-UCB*; docs/theory.md goes through its proof. Throughout,
μ* is the largest mean, Δᵢ = μ* − μᵢ, B = −log(1 − H²) the Bhattacharyya distance, and results per arm are in
the order of ``means``.
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from hellinger import families
from hellinger.errors import UnknownNameError, require

__all__ = [
    "best_epsilon",
    "consistency_threshold",
    "dashed_bound",
    "hellinger_rates",
    "kl_rates",
    "lai_robbins",
    "pulls_bound",
    "regret_bound",
]

Floats = npt.NDArray[np.float64]
Form = Literal["appendix", "printed", "corrected"]

_FORMS = ("appendix", "printed", "corrected")


class _Problem(NamedTuple):
    family: families.Family
    means: Floats
    best: float

    @property
    def gaps(self) -> Floats:
        return self.best - self.means

    @property
    def worse(self) -> npt.NDArray[np.bool_]:
        """Which arms are suboptimal."""
        return self.means < self.best

    @property
    def bests(self) -> Floats:
        """μ*, once for each arm."""
        return np.full(self.means.size, self.best)

    def regret(self, pulls: Floats) -> float:
        """Σ Δᵢ·pullsᵢ over the suboptimal arms, whose pulls alone count (and alone are finite)."""
        return float(self.gaps[self.worse] @ pulls[self.worse])


def _problem(means: npt.ArrayLike, family: str | families.Family) -> _Problem:
    chosen = families.get(family)
    array = np.asarray(means, np.float64)
    require(array.ndim == 1 and array.size > 0, "means is a list of at least one number", means=means)
    require(bool(np.isfinite(array).all()), "means are finite", means=array.tolist())
    chosen.variance(array)  # rejects means outside the domain
    return _Problem(chosen, array, float(array.max()))


def _check(c: float, horizon: float, init: int, arms: int) -> None:
    _check_c(c)
    require(init >= 1 and init % 1 == 0, "init is a whole number and 1 <= init", init=init)
    require(init * arms <= horizon < math.inf, f"init*arms = {init * arms} <= horizon", horizon=horizon)


def _check_c(c: float) -> None:
    require(0 < c < math.inf, "0 < c", c=c)


# Leading constants -----------------------------------------------------------------------------------


def hellinger_rates(means: npt.ArrayLike, *, family: str | families.Family = "bernoulli", c: float = 0.27) -> Floats:
    """c/B(μᵢ, μ*): pulls of arm i per unit of log T, to leading order, under Hellinger-UCB.

    The limit ε → 0 of Theorem 3.1's leading term −c·log T/log(1 − H²/(1+ε)). Proved where c > ½; from
    :func:`consistency_threshold` on it does not contradict the Lai–Robbins bound; below, it cannot hold.

    Returns
    -------
    One rate per arm; infinite for the best, whose pulls grow with T itself.

    Examples
    --------
    >>> hellinger_rates([0.5, 0.4], c=0.5).round(6).tolist()
    [inf, 98.488949]
    """
    _check_c(c)
    problem = _problem(means, family)
    return _over(c, problem.family.bhattacharyya(problem.means, problem.bests))


def kl_rates(means: npt.ArrayLike, *, family: str | families.Family = "bernoulli") -> Floats:
    """1/KL(μᵢ ‖ μ*): pulls of arm i per unit of log T under KL-UCB, and the fewest any consistent policy can do.

    Upper bound for KL-UCB: Garivier & Cappé 2011, theorem 2; Cappé et al. 2013, theorem 1. Lower bound:
    Lai & Robbins 1985, theorem 2.

    Returns
    -------
    One rate per arm; infinite for the best, 0 where the KL divergence is infinite.

    Examples
    --------
    >>> kl_rates([0.5, 0.4]).round(6).tolist()
    [inf, 49.663496]
    """
    problem = _problem(means, family)
    return _over(1.0, problem.family.kl(problem.means, problem.bests))


def _over(numerator: float, distances: Floats) -> Floats:
    with np.errstate(divide="ignore"):
        return numerator / distances


def lai_robbins(means: npt.ArrayLike, *, family: str | families.Family = "bernoulli") -> float:
    """Σ Δᵢ/KL(μᵢ ‖ μ*): the least regret per unit of log T of a uniformly consistent policy.

    Lai & Robbins 1985, theorem 2: liminf R(T)/log T is at least this for every policy whose regret is
    o(Tᵅ) for all α > 0 on every problem of the family.

    Examples
    --------
    >>> lai_robbins([0.03, 0.03, 0.04, 0.04, 0.05, 0.05, 0.1], family="poisson")
    15.789459518...
    """
    problem = _problem(means, family)
    return problem.regret(kl_rates(means, family=problem.family))


def consistency_threshold(means: npt.ArrayLike, *, family: str | families.Family = "bernoulli") -> float:
    """max B(μᵢ, μ*)/KL(μᵢ ‖ μ*) over suboptimal arms: the smallest c Lai–Robbins leaves to Hellinger-UCB here.

    With a smaller c the rate c/B of some arm would fall below 1/KL, which no uniformly consistent policy
    can do: then Hellinger-UCB either pulls that arm more often than Theorem 3.1 says, or pays for it with
    more than Tᵅ regret on another problem. Never above ½, for B ≤ KL/2 (Jensen); ¼ exactly for Gaussian
    rewards and, in the limit, for means close together. 0 where there is no suboptimal arm.

    Examples
    --------
    >>> consistency_threshold([0.5, 0.45]), consistency_threshold([0.0, 0.1])
    (0.250..., 0.5)
    >>> consistency_threshold([1.0, 5.0, 9.0], family="gaussian(sigma=3)")
    0.25
    """
    problem = _problem(means, family)
    kl = problem.family.kl(problem.means, problem.bests)
    distance = problem.family.bhattacharyya(problem.means, problem.bests)
    counted = problem.worse & np.isfinite(kl)  # an arm told apart at once constrains nothing: 1/KL = 0
    return min(0.5, float((distance[counted] / kl[counted]).max(initial=0.0)))  # ½ but for rounding: Jensen


def dashed_bound(
    means: npt.ArrayLike,
    *,
    family: str | families.Family = "bernoulli",
    horizon: npt.ArrayLike,
    ball: Literal["hellinger", "kl"] = "hellinger",
    c: float = 0.25,
    init: int = 3,
) -> Floats:
    """Dashed lines of the paper's figures 1 and 4: the leading term, offset by the initial pulls.

    init·ΣΔᵢ up to t = init·K, then init·ΣΔᵢ + log(t − init·K)·Σ Δᵢ·rateᵢ, rates being c/B or 1/KL. The
    figures call these upper bounds; they are not, for the O(1) terms are left out and c = ¼ is drawn where
    c = 0.27 is run. (The authors' notebook forgets the offset in the Poisson figure; it is kept here.)

    Parameters
    ----------
    means, family
        The problem.
    horizon
        Rounds t at which to take the bound, a number or an array.
    ball
        ``"hellinger"``, with c, or ``"kl"``, without.
    c, init
        As drawn in the paper.

    Examples
    --------
    >>> dashed_bound([0.1, 0.2], horizon=[1, 6, 106, 10_006]).round(6).tolist()
    [0.3, 0.3, 11.697409, 23.094817]
    """
    problem = _problem(means, family)
    require(init >= 0 and init % 1 == 0, "init is a whole number and 0 <= init", init=init)
    t = np.asarray(horizon, np.float64)
    require(bool((t >= 1).all()), "1 <= horizon", horizon=horizon)
    if ball == "hellinger":
        rates = hellinger_rates(means, family=problem.family, c=c)
    elif ball == "kl":
        rates = kl_rates(means, family=problem.family)
    else:
        raise UnknownNameError("ball", ball, ["hellinger", "kl"])
    offset = init * float(problem.gaps.sum())
    return np.asarray(offset + problem.regret(rates) * np.log(np.maximum(1.0, t - init * problem.means.size)))


# Theorem 3.1 -----------------------------------------------------------------------------------------


def pulls_bound(
    means: npt.ArrayLike,
    *,
    family: str | families.Family = "bernoulli",
    c: float = 0.27,
    horizon: float,
    epsilon: float | None = None,
    form: Form = "appendix",
    init: int = 1,
) -> Floats:
    r"""Theorem 3.1: an upper bound on E[Nᵢ(T)], the pulls of each arm by Hellinger-UCB.

    With h = H²(μ*, μᵢ), C₁ = −c/log(1 − h/(1+ε)), C₂ = (1 − 1/√(1+ε))², K = C₁·log T, the forms are

    ``"appendix"``
        K + T^(−2C₁C₂h)/(C₂h) + e^(−2h)/(1 − e^(−2h)) + Σₜ t^(−2c): what the paper's lemmas B.1 to B.5 state.
    ``"printed"``
        The same with C₁/T^C₂ as second term: what the theorem prints. No lemma gives it. It grows with ε,
        so its best is the limit ε = 0.
    ``"corrected"``
        1 + K + e^(−K·d)/(1 − e^(−d)) + Σₜ min(1, e·⌈2c·log²t⌉·t^(−2c)), t from K·init + 1, where d = KL(μ′ ‖ μᵢ)
        and μ′ in (μᵢ, μ*) has H²(μ*, μ′) = h/(1+ε). It holds: lemma B.1 takes the optimal arm's number
        of pulls for fixed, though it is random, and peeling (Garivier & Cappé 2011, theorem 10) is what
        the repair costs; the rest is sharper than the paper's, using KL where the paper uses 2H².

    Parameters
    ----------
    means, family, c, horizon
        The problem, the policy's constant, and T.
    epsilon
        ε > 0 (for ``"printed"`` 0 too); the best for each arm if not given.
    form
        As above.
    init
        Initial pulls of each arm; beyond the first they are added.

    Returns
    -------
    One bound per arm, not cut off at T; T itself for the best arms.

    Examples
    --------
    >>> pulls_bound([0.5, 0.1], c=0.5, horizon=10_000, epsilon=0.1).round(4).tolist()
    [10000.0, 4342.9903]
    >>> pulls_bound([0.5, 0.1], c=0.5, horizon=10_000).round(4).tolist()
    [10000.0, 118.6233]
    """
    problem = _problem(means, family)
    bound = _bound(problem, c, horizon, form, init)
    if epsilon is None:
        epsilons = best_epsilon(means, family=problem.family, c=c, horizon=horizon, form=form)[problem.worse]
    else:
        lowest_fits = epsilon >= 0 if form == "printed" else epsilon > 0
        rule = "0 <= epsilon" if form == "printed" else "0 < epsilon"
        require(lowest_fits and epsilon < math.inf, rule, epsilon=epsilon)
        epsilons = np.full(int(problem.worse.sum()), float(epsilon))
    out = np.full(problem.means.size, float(horizon))
    out[problem.worse] = bound.constant + bound.varying(epsilons[:, None])[:, 0]
    return out


def best_epsilon(
    means: npt.ArrayLike,
    *,
    family: str | families.Family = "bernoulli",
    c: float = 0.27,
    horizon: float,
    form: Form = "appendix",
) -> Floats:
    """ε that makes :func:`pulls_bound` smallest, for each arm; NaN for the best arms, which have no bound.

    A small ε brings the leading term close to c·log T/B(μᵢ, μ*) and the remainder up like 1/ε²; the best ε
    therefore falls, slowly, as T grows.

    Examples
    --------
    >>> best_epsilon([0.5, 0.1], c=0.5, horizon=10_000).round(3).tolist()
    [nan, 1.194]
    """
    problem = _problem(means, family)
    bound = _bound(problem, c, horizon, form, 1)
    out = np.full(problem.means.size, math.nan)
    if form == "printed":
        out[problem.worse] = 0.0
        return out
    count = int(problem.worse.sum())
    middle, half = np.zeros((count, 1)), 25.0  # of log ε
    for _ in range(8):  # each narrows the search 32-fold around the best of 65
        grid = middle + np.linspace(-half, half, 65)
        lowest = np.argmin(bound.varying(np.exp(grid)), axis=1)
        middle = np.take_along_axis(grid, lowest[:, None], axis=1)
        half /= 32.0
    out[problem.worse] = np.exp(middle[:, 0])
    return out


def regret_bound(
    means: npt.ArrayLike,
    *,
    family: str | families.Family = "bernoulli",
    c: float = 0.27,
    horizon: float,
    epsilon: float | None = None,
    form: Form = "appendix",
    init: int = 1,
) -> float:
    """Theorem 3.2: R(T) ≤ Σ Δᵢ·(bound on E[Nᵢ(T)]), from :func:`pulls_bound` with the same arguments.

    Examples
    --------
    >>> regret_bound([0.5, 0.1], c=0.5, horizon=10_000)
    47.449315...
    >>> regret_bound([0.5, 0.1], c=0.5, horizon=10_000, form="corrected")
    314.503...
    """
    pulls = pulls_bound(means, family=family, c=c, horizon=horizon, epsilon=epsilon, form=form, init=init)
    return _problem(means, family).regret(pulls)


class _Bound(NamedTuple):
    """The suboptimal arms' bound as a function of ε, and the part of it that does not depend on ε."""

    form: str
    problem: _Problem
    h2: Floats
    c: float
    log_horizon: float
    constant: Floats

    def varying(self, epsilon: Floats) -> Floats:
        """Leading term and remainder; ``epsilon`` has one row for each suboptimal arm."""
        h2 = self.h2[:, None]
        inner = h2 / (1.0 + epsilon)
        with np.errstate(divide="ignore"):  # h = 1 at ε = 0: disjoint supports, told apart at once
            first = -self.c / np.log1p(-inner)
        leading = first * self.log_horizon
        if self.form == "corrected":
            divergence = self._divergence(inner)
            return np.asarray(leading + np.exp(-leading * divergence) / -np.expm1(-divergence))
        root = np.sqrt(1.0 + epsilon)
        second = (epsilon / (root * (1.0 + root))) ** 2
        if self.form == "printed":
            return np.asarray(leading + first * np.exp(-second * self.log_horizon))
        return np.asarray(leading + np.exp(-2.0 * leading * second * h2) / (second * h2))

    def _divergence(self, target: Floats) -> Floats:
        """KL(μ′ ‖ μᵢ) where H²(μ′, μ*) is the target, by bisection for μ′."""
        family, best = self.problem.family, self.problem.best
        arms = self.problem.means[self.problem.worse][:, None] + np.zeros(target.shape)
        bests = np.full(target.shape, best)
        low, high = arms, bests
        for _ in range(60):
            middle = 0.5 * (low + high)
            far = family.hellinger2(middle, bests) > target
            low, high = np.where(far, middle, low), np.where(far, high, middle)
        kl: Floats = family.kl(high, arms)
        return np.maximum(kl, np.finfo(float).tiny)  # ε too small to tell μ′ from μᵢ: no information


def _bound(problem: _Problem, c: float, horizon: float, form: str, init: int) -> _Bound:
    arms = problem.means.size
    _check(c, horizon, init, arms)
    require(form in _FORMS, f"form is one of {', '.join(_FORMS)}", form=form)
    last = int(horizon)
    h2 = problem.family.hellinger2(problem.means, problem.bests)[problem.worse]
    if form == "corrected":
        constant = np.full(h2.size, init + _peeled_sum(init * arms + 1, last, c))
    else:
        constant = (init - 1.0) + _power_sum(1, last, 2.0 * c) + 1.0 / np.expm1(2.0 * h2)
    return _Bound(form, problem, h2, c, math.log(horizon), constant)


def _power_sum(first: int, last: int, power: float) -> float:
    """Σ t^(−power) for t from ``first`` to ``last``: 64 terms as they are, the rest by Euler–Maclaurin."""
    split = max(first, 64)
    t = np.arange(first, min(last, split - 1) + 1, dtype=np.float64)
    total = float((t**-power).sum())
    if last < split:
        return total
    a, b = float(split), float(last)
    ends = math.pow(a, -power), math.pow(b, -power)
    log_ratio = math.log(b / a)
    exponent = 1.0 - power
    integral = log_ratio if exponent == 0.0 else a * ends[0] * math.expm1(exponent * log_ratio) / exponent
    total += integral + 0.5 * (ends[0] + ends[1])
    rising = power
    for k, weight in ((1, 1 / 12), (3, -1 / 720), (5, 1 / 30240)):
        total += weight * rising * (ends[0] * math.pow(a, -k) - ends[1] * math.pow(b, -k))
        rising *= (power + k) * (power + k + 1)
    return total


def _peeled_sum(first: int, last: int, c: float) -> float:
    """Σ min(1, e·⌈2c·log²t⌉·t^(−2c)) for t from ``first`` to ``last``, one stretch of equal ceilings at a time."""
    total, t = 0.0, first
    while t <= last:
        ceiling = max(1, math.ceil(2.0 * c * math.log(t) ** 2))
        end = max(t, min(last, _floor_exp(math.sqrt(ceiling / (2.0 * c)))))
        trivial = max(t - 1, min(end, _floor_exp((1.0 + math.log(ceiling)) / (2.0 * c))))  # where the 1 is less
        total += trivial - (t - 1)
        if trivial < end:
            total += math.e * ceiling * _power_sum(trivial + 1, end, 2.0 * c)
        t = end + 1
    return total


def _floor_exp(x: float) -> int:
    return math.floor(math.exp(min(x, 700.0)))
