"""Write families.json: distances and bounds of every family, from its definition, in 120-digit arithmetic.

Nothing here uses a closed form of the package: a family is ψ, ψ′ and its inverse; KL is the Bregman
divergence of ψ, B its Jensen gap; a bound is the root of its equation in the natural parameter, bracketed and
found by Newton's method with bisection.
Where the mean is the lower end of the domain, θ = −∞, and the distance is the limit: −log of the atom's mass
(half of it for B), or infinite where there is no atom.

Run: ``python tests/golden/make_families.py`` (about a minute).
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from mpmath import inf, mp, mpf

from hellinger import families

mp.dps = 120
TARGET = Path(__file__).with_name("families.json")
RADII = [1e-12, 1e-9, 1e-6, 1e-3, 0.03, 0.3, 2.0, 10.0, 50.0]


class Definition(NamedTuple):
    """A family as its log-partition function, with the derivative and its inverse."""

    psi: Callable[[Any], Any]
    mean: Callable[[Any], Any]
    natural: Callable[[Any], Any]
    top: Any = inf
    psi_top: Any = inf
    atom: bool = False
    """Whether the carrier has mass 1 at 0, the lower end of the means."""
    top_atom: bool = False
    """Whether it has mass 1 at the upper end."""


def mirrored(f: Definition, bottom: Any) -> Definition:
    """The law of −X, whose upper bounds are the lower bounds of X; ``bottom`` is the lower end of θ."""
    return Definition(
        lambda t: f.psi(-t),
        lambda t: -f.mean(-t),
        lambda m: -f.natural(-m),
        top=-bottom,
        atom=f.top_atom,
        top_atom=f.atom,
    )


def definition(family: families.Family) -> Definition:
    """The textbook ψ of each family by name."""
    a = _parameter(family)
    table = {
        "bernoulli": lambda: _trials(mpf(1)),
        "binomial": lambda: _trials(a),
        "poisson": lambda: Definition(mp.exp, mp.exp, mp.log, atom=True),
        "gaussian": lambda: Definition(lambda t: a * a * t * t / 2, lambda t: a * a * t, lambda m: m / (a * a)),
        "exponential": lambda: _gamma(mpf(1)),
        "gamma": lambda: _gamma(a),
        "geometric": lambda: _failures(mpf(1)),
        "negative-binomial": lambda: _failures(a),
        "inverse-gaussian": lambda: Definition(
            lambda t: -mp.sqrt(-2 * a * t),
            lambda t: mp.sqrt(-a / (2 * t)),
            lambda m: -a / (2 * m * m),
            top=mpf(0),
            psi_top=mpf(0),
        ),
        "hyperbolic-secant": lambda: Definition(lambda t: -mp.log(mp.cos(t)), mp.tan, mp.atan, top=mp.pi / 2),
    }
    return table[family.name]()


def _parameter(family: families.Family) -> Any:
    values: tuple[float, ...] = tuple(family)  # type: ignore[arg-type]
    return mpf(values[0]) if values else mpf(1)


def _trials(n: Any) -> Definition:
    return Definition(
        lambda t: n * mp.log1p(mp.exp(t)),
        lambda t: n / (1 + mp.exp(-t)),
        lambda m: mp.log(m) - mp.log(n - m),
        atom=True,
        top_atom=True,
    )


def _gamma(k: Any) -> Definition:
    return Definition(lambda t: -k * mp.log(-t), lambda t: -k / t, lambda m: -k / m, top=mpf(0))


def _failures(r: Any) -> Definition:
    return Definition(
        lambda t: -r * mp.log(-mp.expm1(t)),
        lambda t: r / mp.expm1(-t),
        lambda m: -mp.log1p(r / m),
        top=mpf(0),
        atom=True,
    )


def distance(f: Definition, theta0: Any, p: Any, theta1: Any, hellinger: bool) -> Any:
    """KL or B between θ₀, of mean p, and θ₁."""
    if hellinger:
        return (f.psi(theta0) + f.psi(theta1)) / 2 - f.psi((theta0 + theta1) / 2)
    return f.psi(theta1) - f.psi(theta0) - (theta1 - theta0) * p


def between(family: families.Family, f: Definition, p: float, q: float, hellinger: bool) -> Any:
    """KL or B between means p and q, ends included."""
    low, high = family.mean_bounds
    if p == q:
        return mpf(0)
    if q in (low, high) and p not in (low, high) and f.atom and hellinger:
        # an atom at the end: B = −log √P(end), where KL is infinite
        theta = f.natural(mpf(p))
        return (f.psi(theta) - (theta * mpf(q) if q == high else 0)) / 2 if q < math.inf else inf
    if q == high and f.psi_top < inf and p > low:  # the limit in θ: the inverse Gaussian's is finite
        theta = f.natural(mpf(p))
        if hellinger:
            return (f.psi(theta) + f.psi_top) / 2 - f.psi((theta + f.top) / 2)
        return f.psi_top - f.psi(theta) - (f.top - theta) * mpf(p)
    if q in (low, high):
        return inf
    if p in (low, high):
        if not f.atom:
            return inf
        theta = f.natural(mpf(q))
        away = f.psi(theta) - (theta * mpf(p) if p == high else 0)
        return away / 2 if hellinger else away
    return distance(f, f.natural(mpf(p)), mpf(p), f.natural(mpf(q)), hellinger)


def lower(family: families.Family, f: Definition, m: float, x: float, hellinger: bool) -> Any:
    """Smallest mean within distance x of m."""
    low, high = family.mean_bounds
    bottom = -mp.pi / 2 if family.name == "hyperbolic-secant" else -inf
    return -upper((-high, -low), mirrored(f, bottom), -m, x, hellinger)


def upper(bounds: tuple[float, float], f: Definition, m: float, x: float, hellinger: bool) -> Any:
    """Largest mean within distance x of m, where means lie within these bounds."""
    low, high = bounds
    radius = mpf(x)
    if m == high or (m == low and not f.atom):
        return mpf(m)
    if m == low:
        limit, scale = inf, 2 if hellinger else 1

        def excess(theta: Any) -> Any:
            return f.psi(theta) - mpf(low) * theta - scale * radius

        def slope(theta: Any) -> Any:
            return f.mean(theta) - mpf(low)

        theta0 = mpf(-200)  # e⁻²⁰⁰ is less than the smallest radius
    else:
        theta0, p = f.natural(mpf(m)), mpf(m)

        def excess(theta: Any) -> Any:
            return distance(f, theta0, p, theta, hellinger) - radius

        def slope(theta: Any) -> Any:
            if hellinger:
                return (f.mean(theta) - f.mean((theta0 + theta) / 2)) / 2
            return f.mean(theta) - p

        if hellinger and f.top < inf and f.psi_top < inf:
            limit = (f.psi(theta0) + f.psi_top) / 2 - f.psi((theta0 + f.top) / 2)
        elif hellinger and f.top_atom:
            limit = (f.psi(theta0) - theta0 * mpf(high)) / 2  # −log √P(high)
        elif f.top < inf and f.psi_top < inf:
            limit = f.psi_top - f.psi(theta0) - (f.top - theta0) * p
        else:
            limit = inf
    if limit <= radius:
        return mpf(high)

    stride = mpf(10) ** -40 * max(1, abs(theta0)) if f.top == inf else mpf(10) ** -40 * (f.top - theta0)
    left = right = theta0
    while True:
        left, right = right, right + stride if right + stride < f.top else f.top - (f.top - right) / 2
        stride *= 2
        if excess(right) >= 0:
            break
    theta = right
    for _ in range(2000):
        over = excess(theta)
        if over < 0:
            left = theta
        else:
            right = theta
        following = theta - over / slope(theta)
        if not left <= following <= right:
            following = (left + right) / 2
        if abs(following - theta) <= mpf(10) ** -60 * min(abs(theta), abs(f.top - theta)):
            return f.mean(following)
        theta = following
    raise ArithmeticError(f"no convergence within {bounds} at m={m}, x={x}")


def poles(family: families.Family, f: Definition) -> Iterator[tuple[float, float]]:
    """Means and radii just inside the radius at which a bound of the inverse Gaussian becomes infinite."""
    if not (f.top < inf and f.psi_top < inf):
        return
    for m in (1e-3, 0.7, 40.0):
        theta = f.natural(mpf(m))
        for limit in (
            (f.psi(theta) + f.psi_top) / 2 - f.psi((theta + f.top) / 2),
            f.psi_top - f.psi(theta) - (f.top - theta) * mpf(m),
        ):
            for epsilon in (1e-3, 1e-9, 1e-13):
                yield m, float(limit * (1 - mpf(epsilon)))
            yield m, float(np.nextafter(float(limit), 0.0))
            yield m, float(np.nextafter(float(limit), math.inf))


def record(family: families.Family) -> dict[str, Any]:
    """Every number about one family."""
    f = definition(family)
    means = [float(m) for m in family.typical_means()]
    grid = [(m, x) for m in means for x in RADII] + list(poles(family, f))
    high = family.mean_bounds[1]
    others = means[::2] + ([high] if high not in means[::2] else [])
    pairs = [(p, q) for p in means for q in others]
    pairs += [(p, p * (1 + e)) for p in means[1:-1] for e in (1e-9, 1e-4) if p * (1 + e) < high]
    pairs += [(p, p + e) for p in means for e in (1e-4, 0.01) if family.mean_bounds[0] < 0]
    return {
        "family": family.spec,
        "mean": [m for m, _ in grid],
        "radius": [x for _, x in grid],
        "hellinger_upper": [float(upper(family.mean_bounds, f, m, x, True)) for m, x in grid],
        "kl_upper": [float(upper(family.mean_bounds, f, m, x, False)) for m, x in grid],
        "hellinger_lower": [float(lower(family, f, m, x, True)) for m, x in grid],
        "kl_lower": [float(lower(family, f, m, x, False)) for m, x in grid],
        "p": [p for p, _ in pairs],
        "q": [q for _, q in pairs],
        "bhattacharyya": [float(between(family, f, p, q, True)) for p, q in pairs],
        "kl": [float(between(family, f, p, q, False)) for p, q in pairs],
    }


if __name__ == "__main__":
    every = [case for family in families.available().values() for case in family.cases()]
    lines = ",\n".join(json.dumps(record(case)) for case in every)
    TARGET.write_text(f"[\n{lines}\n]\n", encoding="utf-8")
