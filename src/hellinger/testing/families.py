"""What every family must do. Each check takes a family and raises ``AssertionError`` where it fails.

Means are the family's own :meth:`~hellinger.families.Family.typical_means`. Tolerances follow from the
condition of the problem: an error of one unit in the last place of θ, or of a radius, is not the code's.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from hellinger import _special, families
from hellinger._jit import jit
from hellinger.families import Family
from hellinger.families import _dispatch as d
from hellinger.families._solver import theta_bound
from hellinger.testing._suite import EPS, Floats, close, found_in, refused

__all__ = ["check_family", "condition", "family_checks", "generic_bound", "posterior_draws", "posterior_upper"]

_RADII = np.array([1e-12, 1e-6, 1e-3, 0.05, 0.5, 3.0, 20.0])
_BOUNDS = ("hellinger_upper", "kl_upper", "hellinger_lower", "kl_lower")
_PAIRWISE = ("kl", "bhattacharyya", "hellinger2", *_BOUNDS)


def check_family(family: Family) -> None:
    """Run the whole suite on a family."""
    for check in family_checks().values():
        check(family)


check_family.suite = True  # type: ignore[attr-defined]


def family_checks() -> dict[str, Callable[[Family], None]]:
    """Return every check by name."""
    return found_in(globals())


# Compiled loops for what has no public method ---------------------------------------------------------


@jit
def _generic(family: Any, mean: Floats, radius: Floats, hellinger: bool, sign: float, out: Floats) -> None:
    for i in range(out.size):
        out[i] = theta_bound(family, mean[i], radius[i], hellinger, sign)


@jit
def _draws(family: Any, rng: Any, s: float, n: float, out: Floats) -> None:
    for i in range(out.size):
        out[i] = d.posterior_draw(family, rng, s, n)


@jit
def _quantile(family: Any, s: float, n: float, tail: float) -> float:
    return d.posterior_upper(family, s, n, tail)


def generic_bound(family: Family, mean: Any, radius: Any, bound: str) -> Floats:
    """Return the bound of this name found from ψ alone, whatever closed form the family has."""
    mean, radius = np.broadcast_arrays(np.asarray(mean, float), np.asarray(radius, float))
    out = np.empty(mean.shape)
    sign = 1.0 if bound.endswith("upper") else -1.0
    _generic(family, mean.ravel(), radius.ravel(), bound.startswith("hellinger"), sign, out.reshape(-1))
    return out


def posterior_draws(family: Family, s: float, n: float, *, size: int, seed: int) -> Floats:
    """Return draws of the mean from the posterior after n rewards of sum s."""
    out = np.empty(size)
    _draws(family, np.random.default_rng(seed), float(s), float(n), out)
    return out


def posterior_upper(family: Family, s: float, n: float, tail: float) -> float:
    """Return the mean exceeded with posterior probability ``tail``."""
    _special.load()
    return float(_quantile(family, float(s), float(n), float(tail)))


def condition(family: Family, mean: Any, radius: Any, bound: Any, *, hellinger: bool) -> Floats:
    """Relative error of a bound per relative error in its θ and in the distance: V(q)·(|θ| + x/slope)/q.

    Large where a double cannot hold θ well enough (|θ| → π/2 for the hyperbolic secant), and next to a
    radius at which the bound becomes infinite.
    """
    mean, radius, bound = (np.asarray(a, float) for a in (mean, radius, bound))
    low, high = family.mean_bounds
    inside = (low < bound) & (bound < high) & (low < mean) & (mean < high) & (bound != mean)
    q = np.where(inside, bound, np.nan)
    theta = family.natural(q)
    if hellinger:
        middle = family.mean(0.5 * (family.natural(np.where(inside, mean, np.nan)) + theta))
        slope = 0.5 * (q - middle)
    else:
        slope = q - mean
    with np.errstate(all="ignore"):
        ratio = family.variance(q) * (np.abs(theta) + np.abs(radius / slope)) / np.maximum(np.abs(q), np.abs(mean))
        pole = (family.bhattacharyya if hellinger else family.kl)(mean, high)
        at_pole = np.isfinite(pole) & (high == math.inf) & (np.abs(radius - pole) <= 1e-3 * pole)
    return np.where(at_pole, math.inf, np.where(inside, ratio, 1.0))


# What the checks look at ------------------------------------------------------------------------------


def _means(family: Family, *, interior: bool = False) -> Floats:
    means = np.asarray(family.typical_means(), float)
    low, high = family.mean_bounds
    keep = (low < means) & (means < high) if interior else (low <= means) & (means <= high) & np.isfinite(means)
    found: Floats = np.sort(means[keep])
    assert found.size >= 3, "typical_means() must hold three means within mean_bounds"
    return found


def _neighbours(family: Family) -> tuple[Floats, Floats]:
    """Pairs of interior means from close together to some way apart, in both directions."""
    p = _means(family, interior=True)
    theta = family.natural(p)
    bottom, top = family._natural_bounds()
    room = np.minimum(1.0, 0.5 * np.minimum(theta - bottom, top - theta))
    steps = np.array([-1.0, -1e-3, 1e-3, 1.0])
    q = family.mean((theta[:, None] + room[:, None] * steps).ravel())
    p = np.repeat(p, steps.size)
    low, high = family.mean_bounds
    keep = (p != q) & (low < q) & (q < high)
    return p[keep], q[keep]


def _everyday(family: Family) -> Floats:
    """Means at which a sample of some thousands shows its mean and variance."""
    means = _means(family, interior=True)
    spread = family.variance(means)
    size = means**2 if family.mean_bounds[0] >= 0 else np.maximum(means**2, spread)
    size = np.minimum(size, (family.mean_bounds[1] - means) ** 2)
    found: Floats = means[(spread <= 100.0 * size) & (size <= 1e8)]
    return found


# ψ and distances --------------------------------------------------------------------------------------


def check_inverse_maps(family: Family) -> None:
    """mean(natural(m)) = m."""
    m = _means(family, interior=True)
    theta = family.natural(m)
    close(family.mean(theta), m, 64 * EPS * (np.abs(m) + family.variance(m) * np.abs(theta)), "mean(natural(m))")
    assert (np.diff(theta) > 0).all(), "natural must increase"


def check_mean_is_the_derivative(family: Family) -> None:
    """ψ′ = mean and ψ″ = variance, by differences of fourth order."""
    m = _means(family, interior=True)
    theta = family.natural(m)
    bottom, top = family._natural_bounds()
    h = 1e-3 * np.minimum(np.maximum(1.0, np.abs(theta)), np.minimum(theta - bottom, top - theta))
    h = (theta + h) - theta

    def slope(function: Callable[[Any], Any]) -> tuple[Floats, Floats]:
        far_left, left, right, far_right = (function(theta + k * h) for k in (-2, -1, 1, 2))
        return (8 * (right - left) - (far_right - far_left)) / (12 * h), np.abs(far_left) + np.abs(far_right)

    derivative, size = slope(family.log_partition)
    close(derivative, m, 1e-5 * np.abs(m) + 16 * EPS * size / h, "the derivative of log_partition")
    second, size = slope(family.mean)
    close(second, family.variance(m), 1e-5 * family.variance(m) + 16 * EPS * size / h, "the derivative of mean")


def check_kl(family: Family) -> None:
    """KL is the Bregman divergence of ψ, and ∫ (s − p)/V(s) ds from p to q."""
    p, q = _neighbours(family)
    kl = family.kl(p, q)
    theta, theta1 = family.natural(p), family.natural(q)
    psi, psi1 = family.log_partition(theta), family.log_partition(theta1)
    size = np.abs(psi) + np.abs(psi1) + np.abs(theta * p) + np.abs(theta1 * p) + np.abs(theta1 * q)
    close(kl, psi1 - psi - (theta1 - theta) * p, 1e-12 * kl + 16 * EPS * size, "kl against Bregman")

    nodes, weights = np.polynomial.legendre.leggauss(60)
    s = p[:, None] + (q - p)[:, None] * (0.5 + 0.5 * nodes)
    # s − p in factors: the difference of two rounded numbers would lose what a small q − p has
    integrand = (q - p)[:, None] * (0.5 + 0.5 * nodes) / family.variance(s)
    allowed = 1e-9 + sum(np.abs(family.variance(a * (1 - 4 * EPS)) / family.variance(a) - 1) for a in (p, q))
    close(kl, (0.5 * weights * integrand).sum(axis=1) * (q - p), allowed * kl, "kl against its integral")
    assert (family.kl(_means(family), _means(family)) == 0.0).all(), "kl(p, p) must be 0"


def check_bhattacharyya(family: Family) -> None:
    """B is the Jensen gap of ψ, symmetric, at most KL/2; H² = 1 − e⁻ᴮ."""
    p, q = _neighbours(family)
    b = family.bhattacharyya(p, q)
    theta, theta1 = family.natural(p), family.natural(q)
    psi, psi1 = family.log_partition(theta), family.log_partition(theta1)
    middle = family.log_partition(0.5 * (theta + theta1))
    size = np.abs(psi) + np.abs(psi1) + np.abs(middle) + np.abs(theta * p) + np.abs(theta1 * q)
    close(b, 0.5 * (psi + psi1) - middle, 1e-12 * b + 16 * EPS * size, "bhattacharyya against the Jensen gap")
    close(b, family.bhattacharyya(q, p), 1e-12 * b, "bhattacharyya both ways")
    every = _means(family)
    p, q = (a.ravel() for a in np.meshgrid(every, every))
    b, kl = family.bhattacharyya(p, q), family.kl(p, q)
    assert (b >= 0).all(), "0 <= bhattacharyya must hold"
    assert (2 * b <= kl * (1 + 1e-12)).all(), "2·bhattacharyya <= kl must hold"
    close(family.hellinger2(p, q), -np.expm1(-b), 4 * EPS, "hellinger2 against 1 − exp(−bhattacharyya)")


# Bounds -----------------------------------------------------------------------------------------------


def check_bounds_solve_their_equation(family: Family) -> None:
    """A hair within the bound is within the radius; a hair beyond is not, unless there is nothing beyond."""
    m, x = (a.ravel() for a in np.meshgrid(_means(family), _RADII))
    low, high = family.mean_bounds
    for bound in _BOUNDS:
        distance = family.bhattacharyya if bound.startswith("hellinger") else family.kl
        q = getattr(family, bound)(m, x)
        assert (low <= q).all(), f"the infimum <= {bound} must hold"
        assert (q <= high).all(), f"{bound} <= the supremum must hold"
        hair = 1e-12 * np.maximum(np.abs(q), np.abs(m)) + np.finfo(float).tiny
        if bound.endswith("upper"):
            assert (q >= m).all(), f"mean <= {bound} must hold"
            within, beyond = np.maximum(m, np.minimum(q, np.finfo(float).max) - hair), q + hair
        else:
            assert (q <= m).all(), f"{bound} <= mean must hold"
            within, beyond = np.minimum(m, np.maximum(q, np.finfo(float).min) + hair), q - hair
        wide = distance(m, within) > x * (1 + 1e-12)
        assert not wide.any(), f"{bound} is too far at mean={m[wide][0]!r}, radius={x[wide][0]!r}"
        room = (low < beyond) & (beyond < high)
        narrow = room & (distance(m, np.where(room, beyond, m)) < x * (1 - 1e-12))
        assert not narrow.any(), f"{bound} is too near at mean={m[narrow][0]!r}, radius={x[narrow][0]!r}"


def check_closed_forms_equal_the_solver(family: Family) -> None:
    """The bounds equal those found from ψ alone, where θ is well conditioned."""
    m, x = (a.ravel() for a in np.meshgrid(_means(family), _RADII))
    for bound in _BOUNDS:
        q = getattr(family, bound)(m, x)
        sound = condition(family, m, x, q, hellinger=bound.startswith("hellinger")) <= 100.0
        assert sound.mean() > 0.3, f"{bound} is ill-conditioned almost everywhere"
        allowed = 1e-12 * np.maximum(np.abs(q), np.abs(m))
        close(generic_bound(family, m, x, bound)[sound], q[sound], allowed[sound], f"solver's {bound}")


def check_bounds_are_monotone(family: Family) -> None:
    """A larger mean never gives a smaller bound, nor a larger radius a nearer one (but for rounding)."""
    m = _means(family)
    x = np.concatenate([[0.0], np.geomspace(1e-12, 50.0, 60), [math.inf]])
    for bound in _BOUNDS:
        q = np.clip(getattr(family, bound)(m[:, None], x), -1e300, 1e300)  # so that slack can be added
        slack = 4 * EPS * np.maximum(np.abs(q), np.abs(m)[:, None])
        assert (q[1:] + slack[1:] >= q[:-1]).all(), f"{bound} must not fall with the mean"
        away = q if bound.endswith("upper") else -q
        assert (away[:, 1:] + 250 * slack[:, 1:] >= away[:, :-1]).all(), f"{bound} must not near with the radius"


def check_ends(family: Family) -> None:
    """Radius 0 gives the mean, an infinite radius the end of the means, exactly; a mean at that end stays there."""
    m = _means(family)
    low, high = family.mean_bounds
    for name in _BOUNDS:
        bound, end = getattr(family, name), high if name.endswith("upper") else low
        assert (bound(m, 0.0) == m).all(), f"{name}(m, 0) must be m"
        assert (bound(m, math.inf) == end).all(), f"{name}(m, inf) must be the end of the means"
        if abs(end) < math.inf:
            assert (bound(end, _RADII) == end).all(), f"{name} must stay at the end of the means"
    if high < math.inf and family.bhattacharyya(_means(family, interior=True)[0], high) < 1e4:
        inside = _means(family, interior=True)
        for name, end in (("hellinger_upper", high), ("hellinger_lower", low)):
            saturated = family.bhattacharyya(inside, end) * (1 + 1e-9)
            assert (getattr(family, name)(inside, saturated) == end).all(), "a saturated ball must reach the end"


# Types, shapes, errors --------------------------------------------------------------------------------


def check_compiled_equals_python(family: Family) -> None:
    """The private methods give the same numbers when Python runs them."""
    p, q = _neighbours(family)
    plain = {name: getattr(family, f"_{name}") for name in ("natural", "variance", *_PAIRWISE)}
    for name in ("natural", "variance"):
        want = [plain[name](m) for m in p.tolist()]
        close(getattr(family, name)(p), want, 1e-14 * np.abs(want), f"compiled {name}")
    theta = family.natural(p)
    for name in ("mean", "log_partition"):
        want = [float(getattr(family, f"_{name}")(t)) for t in theta.tolist()]
        close(getattr(family, name)(theta), want, 1e-14 * np.abs(want), f"compiled {name}")
    for name in _PAIRWISE:
        other = np.resize([1e-6, 0.03, 2.0], p.size) if name in _BOUNDS else q
        want = [plain[name](a, b) for a, b in zip(p.tolist(), other.tolist(), strict=True)]
        close(getattr(family, name)(p, other), want, 1e-13 * np.maximum(np.abs(want), 1e-300), f"compiled {name}")


def check_shapes(family: Family) -> None:
    """Scalars give floats; arrays of any layout broadcast and give the same numbers."""
    m = _means(family)
    m, x = m[: m.size // 2 * 2], _RADII[:3]
    for name in _PAIRWISE:
        function = getattr(family, name)
        other = x if name in _BOUNDS else m[:3]
        table = function(m[:, None], other)
        assert table.shape == (m.size, 3), f"{name} must broadcast"
        one_by_one = np.array([[function(float(a), float(b)) for b in other] for a in m])
        np.testing.assert_array_equal(table, one_by_one, err_msg=name)
        assert isinstance(function(float(m[0]), float(other[0])), float), f"{name} of scalars must be a float"
        np.testing.assert_array_equal(function(m[::2], other[0]), table[::2, 0], err_msg=f"{name}, strided")
        assert function(np.empty(0), other[0]).shape == (0,), f"{name} of nothing must be nothing"
        folded = function(m.reshape(2, -1, order="F"), other[0])
        np.testing.assert_array_equal(folded, table[:, 0].reshape(2, -1, order="F"), err_msg=f"{name}, folded")
    interior = _means(family, interior=True)
    for name in ("natural", "variance"):
        function = getattr(family, name)
        np.testing.assert_array_equal(function(interior), [function(float(a)) for a in interior], err_msg=name)
        assert isinstance(function(float(interior[0])), float), f"{name} of a scalar must be a float"


def check_nan(family: Family) -> None:
    """NaN in, NaN out, and never a warning."""
    m = float(_means(family, interior=True)[1])
    with warnings.catch_warnings(), np.errstate(all="raise"):
        warnings.simplefilter("error")
        for name in _PAIRWISE:
            for pair in ((math.nan, 0.5), (m, math.nan), (math.nan, math.nan), (math.nan, math.inf), (math.nan, 0.0)):
                if name in _BOUNDS or not (pair[1] == math.inf > family.mean_bounds[1]):
                    value = getattr(family, name)(*pair)
                    assert math.isnan(value), f"{name}{pair} must be NaN, but is {value!r}"
        for name in ("natural", "variance", "mean", "log_partition"):
            assert math.isnan(getattr(family, name)(math.nan)), f"{name}(nan) must be NaN"
        ends = _means(family)
        for name in _PAIRWISE:  # no warning at the ends, either
            other = _RADII if name in _BOUNDS else ends
            getattr(family, name)(ends[:, None], other)


def check_errors(family: Family) -> None:
    """An error states the rule and the value."""
    low, high = family.mean_bounds
    m = float(_means(family, interior=True)[0])
    for name in _PAIRWISE:
        function = getattr(family, name)
        other = 0.5 if name in _BOUNDS else m
        if low > -math.inf:
            refused(lambda f=function, o=other: f(low - 1.5, o), f"{low:g} <= ", f"{low - 1.5!r}")  # type: ignore[misc]
        if high < math.inf:
            refused(lambda f=function, o=other: f([m, high + 1.5], o), f" <= {high:g}", f"{high + 1.5!r}")  # type: ignore[misc]
        else:
            refused(lambda f=function, o=other: f(math.inf, o), "inf")  # type: ignore[misc]
        refused(lambda f=function: f([m, m, m], [abs(m)] * 2), "(3,)", "(2,)")  # type: ignore[misc]
        refused(lambda f=function, o=other: f("half", o), "number", "half")  # type: ignore[misc]
    for name in _BOUNDS:
        refused(lambda n=name: getattr(family, n)(m, [0.1, -0.25]), "0 <= radius", "-0.25")  # type: ignore[misc]
    refused(lambda: family.natural("half"), "number", "half")


def check_identity(family: Family) -> None:
    """Equal to itself made again from its spec, unlike other families; a name and a reference are given."""
    assert family, "a family must be true, parameters or none"
    assert hash(family) == hash(family)
    assert family.reference, "reference must say where the family comes from"
    if hasattr(family, "name"):
        if family.name in families.available():
            assert families.get(family.spec) == family, "families.get(family.spec) must give the family"
        assert family.__class__.__doc__, "a family must have a docstring"
        assert all(family != other() for name, other in families.available().items() if name != family.name)
    assert not family.posterior_quantile or family.posterior, "a quantile needs a posterior"


# Randomness -------------------------------------------------------------------------------------------


def check_sample(family: Family) -> None:
    """Mean and variance of a seeded sample are within six standard errors; shapes are NumPy's."""
    means = _everyday(family)
    try:
        family.sample(float(means[0]), np.random.default_rng(0))
    except ValueError as error:
        assert "sampler" in str(error), error  # noqa: PT017
        return
    size = 20_000
    for m in means:
        x = np.asarray(family.sample(float(m), np.random.default_rng(5), size))
        assert x.shape == (size,), "sample(…, size) must have that size"
        close(x.mean(), m, 6 * x.std() / math.sqrt(size) + 4 * EPS * abs(m), f"mean of a sample at {m:g}")
        squares = (x - m) ** 2
        allowed = 6 * squares.std() / math.sqrt(size) + 1e-9 * squares.mean() + (4 * EPS * m) ** 2
        close(squares.mean(), family.variance(float(m)), allowed, f"variance of a sample at {m:g}")
        low, high = family.mean_bounds
        assert ((low <= x) & (x <= high)).all(), "rewards must lie within mean_bounds"
        assert not family.integer or (x == np.floor(x)).all(), "rewards must be whole numbers"
    rng = np.random.default_rng
    assert np.shape(family.sample(means[:2], rng(0))) == means[:2].shape
    assert np.shape(family.sample(means[:2], rng(0), (3, 2))) == (3, 2)
    np.testing.assert_array_equal(family.sample(means, rng(1)), family.sample(means, rng(1)))


def check_posterior(family: Family) -> None:
    """Draws lie within the means, concentrate on the truth, and exceed a quantile as often as it says."""
    if family.posterior is None:
        return
    size = 20_000
    for m in _everyday(family)[::3]:
        for n in (1.0, 12.0):
            s = float(round(m * n)) if family.integer else float(m * n)
            x = posterior_draws(family, s, n, size=size, seed=11)
            low, high = family.mean_bounds
            assert ((low <= x) & (x <= high)).all(), "draws must be means"
            if family.posterior_quantile:
                for tail in (0.9, 0.5, 0.1, 0.01):
                    error = 6 * math.sqrt(tail * (1 - tail) / size)
                    share = (x > posterior_upper(family, s, n, tail)).mean()
                    close(share, tail, error, f"share of draws above the quantile (s={s:g}, n={n:g})")
        n = 1e6
        s = float(round(m * n)) if family.integer else float(m * n)
        x = posterior_draws(family, s, n, size=1000, seed=12)
        error = 6 * math.sqrt(family.variance(float(m)) / n / 1000)
        close(x.mean(), m, error + 20 * (1 + abs(m) + family.variance(float(m))) / n, "mean of draws, long known")
