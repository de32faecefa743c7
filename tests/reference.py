"""Every policy's index straight from the literature: slow, in 30-digit arithmetic, and obviously right.

Nothing of the package is used but the families' and policies' names and parameters. Divergences are the
textbook ones between densities; a bound is found by bisection.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import scipy.optimize
import scipy.stats
from mpmath import inf, mp, mpf

from hellinger.families import Family

mp.dps = 30

Distance = Callable[[Any, Any], Any]


def _xlog(a: Any, ratio: Any) -> Any:
    return mpf(0) if a == 0 else a * mp.log(ratio)


def _parameter(family: Family) -> Any:
    values: tuple[float, ...] = tuple(family)  # type: ignore[arg-type]
    return mpf(values[0]) if values else mpf(1)


def kullback_leibler(family: Family) -> Distance:
    """KL(p ‖ q) between the members with means p and q."""
    a = _parameter(family)

    def binomial(p: Any, q: Any) -> Any:
        if (q == 0 and p > 0) or (q == a and p < a):
            return inf
        return (_xlog(p, p / q) if p else 0) + (_xlog(a - p, (a - p) / (a - q)) if p < a else 0)

    def poisson(p: Any, q: Any) -> Any:
        return inf if q == 0 else q - p + (_xlog(p, p / q) if p else 0)

    def gaussian(p: Any, q: Any) -> Any:
        return (p - q) ** 2 / (2 * a * a)

    def gamma(p: Any, q: Any) -> Any:
        return inf if p == 0 or q == 0 else a * (p / q - 1 - mp.log(p / q))

    def negative_binomial(p: Any, q: Any) -> Any:
        if q == 0:
            return inf
        return (_xlog(p, p / q) if p else 0) - (p + a) * mp.log((p + a) / (q + a))

    def inverse_gaussian(p: Any, q: Any) -> Any:
        return inf if p == 0 or q == 0 else a * (q - p) ** 2 / (2 * p * q * q)

    def hyperbolic_secant(p: Any, q: Any) -> Any:
        return mp.log((1 + q * q) / (1 + p * p)) / 2 - p * (mp.atan(q) - mp.atan(p))

    return _by_name(family, locals())


def bhattacharyya(family: Family) -> Distance:
    """−log ∫√(dP dQ) between the members with means p and q."""
    a = _parameter(family)

    def binomial(p: Any, q: Any) -> Any:
        overlap = (mp.sqrt(p * q) + mp.sqrt((a - p) * (a - q))) / a
        return inf if overlap == 0 else -a * mp.log(overlap)

    def poisson(p: Any, q: Any) -> Any:
        return (mp.sqrt(p) - mp.sqrt(q)) ** 2 / 2

    def gaussian(p: Any, q: Any) -> Any:
        return (p - q) ** 2 / (8 * a * a)

    def gamma(p: Any, q: Any) -> Any:
        return inf if p == 0 or q == 0 else a * mp.log((p + q) / (2 * mp.sqrt(p * q)))

    def negative_binomial(p: Any, q: Any) -> Any:
        return a * mp.log((mp.sqrt((a + p) * (a + q)) - mp.sqrt(p * q)) / a)

    def inverse_gaussian(p: Any, q: Any) -> Any:
        return inf if p == 0 or q == 0 else a * (mp.sqrt((1 / p**2 + 1 / q**2) / 2) - (1 / p + 1 / q) / 2)

    def hyperbolic_secant(p: Any, q: Any) -> Any:
        middle = (mp.atan(p) + mp.atan(q)) / 2
        return mp.log(mp.cos(middle)) + mp.log(1 + p * p) / 4 + mp.log(1 + q * q) / 4

    return _by_name(family, locals())


def _by_name(family: Family, found: dict[str, Any]) -> Distance:
    name = {"bernoulli": "binomial", "exponential": "gamma", "geometric": "negative-binomial"}.get(
        family.name, family.name
    )
    distance: Distance = found[name.replace("-", "_")]
    return distance


def largest(family: Family, distance: Distance, m: Any, x: Any) -> Any:
    """The largest q ≥ m with distance(m, q) ≤ x."""
    high = mpf(family.mean_bounds[1])
    if m == high:
        return m
    if high < inf:
        left, right = m, high
        if distance(m, high) <= x:
            return high
    else:
        left, stride = m, abs(m) + 1
        while distance(m, m + stride) <= x:
            left, stride = m + stride, 2 * stride
            if stride > mpf(10) ** 40:  # no bound of these histories is finite and so large
                return inf
        right = m + stride
    while right - left > mpf(10) ** -17 * max(abs(left), abs(right)):
        middle = (left + right) / 2
        if distance(m, middle) <= x:
            left = middle
        else:
            right = middle
    return left


def _plus(x: Any) -> Any:
    return max(mpf(0), mp.log(x)) if x > 0 else mpf(0)


def levels(name: str, extra: Any, sums: Sequence[Any], pulls: Sequence[Any], i: int, t: Any, horizon: Any) -> Any:
    """The level of arm i: its radius times its pulls."""
    n, arms = pulls[i], len(pulls)
    if name == "constant":
        return mpf(1)
    if name == "ellipsoid":
        return (mp.sqrt(extra * mp.log(20 * (1 + t))) + 1) ** 2 / 2
    if name == "log":
        return mp.log(t)
    if name == "loglog":
        return mp.log(t) + (extra * max(mpf(0), mp.log(mp.log(t))) if t > 1 else 0)
    if name == "plus":
        return _plus(t / n)
    if name == "remaining":
        return mp.log(1 + t / n)
    y = horizon / (arms * n)
    if name == "moss":
        return _plus(y)
    if name == "sparse":
        return mp.log(mp.e**2 + horizon / (arms * n))
    if name == "plusplus":
        return _plus(y * (1 + _plus(y) ** 2))
    if name == "ada":
        crowd = sum(min(n, mp.sqrt(n * other)) for other in pulls)
        z = horizon / crowd + mp.e
        return mp.log(z * mp.sqrt(mp.log(z)))
    raise KeyError(name)


def bound(family: Family, ball: str, variance: Any, m: Any, x: Any) -> Any:
    """The largest q in a ball."""
    if ball == "gaussian":
        return m + mp.sqrt(2 * variance * x)
    return _largest(family, ball, m, x)


@functools.cache
def _largest(family: Family, ball: str, m: Any, x: Any) -> Any:
    return largest(family, bhattacharyya(family) if ball == "hellinger" else kullback_leibler(family), m, x)


def beta_prior(sums: Sequence[float], pulls: Sequence[float]) -> tuple[Any, Any]:
    """The most likely a and b within [e⁻⁷, e¹⁴]: SciPy finds about where, the slopes' zero is solved for exactly."""
    arms = [(mpf(s), mpf(n)) for s, n in zip(sums, pulls, strict=True) if n]

    def density(u: Any, v: Any) -> Any:
        a, b = mp.exp(u), mp.exp(v)
        fits = (mp.log(mp.beta(a + s, b + n - s) / mp.beta(a, b)) for s, n in arms)
        return sum(fits) - (mp.log(a + b) - mp.log(50)) ** 2 / 2

    def slopes(u: Any, v: Any) -> list[Any]:
        a, b = mp.exp(u), mp.exp(v)
        common = sum(mp.psi(0, a + b) - mp.psi(0, a + b + n) for _, n in arms) - mp.log((a + b) / 50) / (a + b)
        by_a = sum(mp.psi(0, a + s) - mp.psi(0, a) for s, _ in arms)
        by_b = sum(mp.psi(0, b + n - s) - mp.psi(0, b) for s, n in arms)
        return [a * (by_a + common), b * (by_b + common)]

    found = scipy.optimize.minimize(
        lambda x: -float(density(*x)),
        [0.0, 3.9],
        jac=lambda x: [-float(slope) for slope in slopes(*x)],
        bounds=[(-7, 14)] * 2,
        options={"ftol": 1e-13, "gtol": 1e-9},
    )
    point = [mpf(float(x)) for x in found.x]
    free = [i for i in range(2) if -7 < point[i] < 14]

    def at(*values: Any) -> list[Any]:
        for i, value in zip(free, values, strict=True):
            point[i] = value
        both = slopes(*point)
        return [both[i] for i in free]

    if free:
        root = mp.findroot(at, [point[i] for i in free], tol=1e-40)
        at(*root)
    return mp.exp(point[0]), mp.exp(point[1])


def learned(sums: Sequence[float], pulls: Sequence[float]) -> tuple[Any, Any, Any]:
    """Pseudo-counts a and a + b, no stronger than the best arms allow, and the focus ∛(K/M)."""
    if not any(pulls):
        return mpf(1), mpf(51), mpf(1)
    a, b = beta_prior(sums, pulls)
    m, arms = a + b, len(pulls)
    rotating = sum(map(mpf, pulls)) ** 2 / sum(mpf(n) ** 2 for n in pulls)
    rank = max(1, round(float(rotating / 5)))
    if 2 * rank <= arms:
        best = sorted(((s + a) / (n + m) for s, n in zip(sums, pulls, strict=True)), reverse=True)[rank - 1]
        far = -mp.log(mp.sqrt(a / m * best) + mp.sqrt(b / m * (1 - best)))
        most = mpf(0.27) * mp.log(mpf(arms) / rank)
        if m * far > most:
            a, m = a / m * most / far, most / far
    return a, m, (arms / rotating) ** (mpf(1) / 3)


def cold_start(family: Family, sums: Sequence[Any], pulls: Sequence[Any], prior: tuple[Any, Any, Any]) -> list[Any]:
    """Index of every arm under a prior (a, a + b, focus)."""
    a, m, focus = prior
    t = sum(map(mpf, pulls)) * focus + 1
    out = []
    for s, n in zip(sums, pulls, strict=True):
        x = mpf(0.27) * mp.log(mp.e**2 + t / (len(pulls) * (n + m))) / (n + m)
        out.append(bound(family, "hellinger", mpf(1), (s + a) / (n + m), x))
    return out


# name: (ball, level)
GRID = {
    "hellinger-ucb": ("hellinger", "log"),
    "hellinger-ucb+": ("hellinger", "plus"),
    "hellinger-ucb++": ("hellinger", "plusplus"),
    "ucb1": ("gaussian", "log"),
    "agrawal": ("gaussian", "loglog"),
    "kl-ucb": ("kl", "loglog"),
    "kl-ucb+": ("kl", "plus"),
    "kl-ucb++": ("kl", "plusplus"),
    "moss": ("gaussian", "moss"),
    "moss-anytime": ("gaussian", "moss"),
    "ada-ucb": ("gaussian", "ada"),
    "linucb": ("gaussian", "constant"),
    "c2ucb": ("gaussian", "ellipsoid"),
}


def index(
    name: str,
    arguments: dict[str, Any],
    family: Family,
    sums: Sequence[float],
    pulls: Sequence[float],
    t: float,
) -> list[Any]:
    """Index of every arm; ``arguments`` are the policy's own, ``horizon`` among them where it is needed."""
    s, n, now = [mpf(v) for v in sums], [mpf(v) for v in pulls], mpf(t)
    horizon = now if arguments.get("anytime") or name == "moss-anytime" else mpf(arguments.get("horizon") or 0)
    if name == "cold-start":
        return cold_start(family, s, n, learned(sums, pulls))
    if name == "greedy":
        return [a / b if b else inf for a, b in zip(s, n, strict=True)]
    if name in ("imed", "hellinger-imed"):
        return _imed(family, s, n, hellinger=name == "hellinger-imed")
    if name == "bayes-ucb":
        scale = mp.log(horizon) ** mpf(arguments.get("c", 0)) if arguments.get("c") else mpf(1)
        tail = float(min(mpf(1), 1 / (now * scale)))
        top = mpf(family.mean_bounds[1])
        return [top if not b else mpf(quantile(family, a, b, tail)) for a, b in zip(sums, pulls, strict=True)]
    if name == "kl-ucb-switch":
        return _switch(family, arguments, s, n, now, horizon)
    ball, level = GRID.get(name) or (arguments.get("ball", "hellinger"), arguments.get("level", "log"))
    scale, extra, variance = mpf(1), mpf(arguments.get("extra", 0)), mpf(arguments.get("variance", 1))
    if name.startswith("hellinger"):
        scale = mpf(arguments.get("c", 0.27))
    elif name == "kl-ucb":
        extra = mpf(arguments.get("c", 0))
    elif name == "ucb":
        scale = mpf(arguments.get("scale", 1))
    elif name == "linucb":
        scale = mpf(arguments.get("alpha", 1)) ** 2 / 2
    elif name == "c2ucb":
        extra = mpf(arguments.get("dimension", 1))
    elif name == "agrawal":
        extra, variance = mpf(1), mpf(arguments.get("variance", 0.25))
    elif name == "moss":
        variance = mpf(arguments.get("variance", 0.5))
    elif name == "moss-anytime":
        variance, scale = mpf(0.5), (1 + mpf(arguments.get("alpha", 1.35))) / 2
    out = []
    for i in range(len(s)):
        if n[i] == 0:
            out.append(inf if ball == "gaussian" else mpf(family.mean_bounds[1]))
        else:
            x = scale * levels(level, extra, s, n, i, now, horizon) / n[i]
            out.append(bound(family, ball, variance, s[i] / n[i], x))
    return out


def _imed(family: Family, s: list[Any], n: list[Any], *, hellinger: bool) -> list[Any]:
    played = [a / b for a, b in zip(s, n, strict=True) if b]
    best = max(played) if played else mpf(0)
    distance = bhattacharyya(family) if hellinger else kullback_leibler(family)
    scale = 4 if hellinger else 1
    out = []
    for a, b in zip(s, n, strict=True):
        if b == 0:
            out.append(inf)
        else:
            away = mpf(0) if a / b == best else distance(a / b, best)
            out.append(-(b * scale * away + mp.log(b)))
    return out


def _switch(family: Family, arguments: dict[str, Any], s: list[Any], n: list[Any], now: Any, horizon: Any) -> list[Any]:
    level = "plusplus" if arguments.get("anytime") else "moss"
    variance = mpf(arguments.get("variance", 0.25))
    out = []
    for i in range(len(s)):
        if n[i] == 0:
            out.append(inf)
            continue
        x = levels(level, mpf(0), s, n, i, now, horizon) / n[i]
        young = n[i] <= mp.floor((horizon / len(s)) ** (mpf(1) / 5))
        out.append(bound(family, "kl" if young else "gaussian", variance, s[i] / n[i], x))
    return out


def quantile(family: Family, s: float, n: float, tail: float) -> float:
    """The mean exceeded with posterior probability ``tail``, by SciPy's distributions."""
    a = float(_parameter(family))
    stats = scipy.stats
    match family.name:
        case "bernoulli" | "binomial":
            return float(a * stats.beta.isf(tail, 1 + s, 1 + a * n - s))
        case "poisson":
            return float(stats.gamma.isf(tail, s + 0.5, scale=1 / n))
        case "gaussian":
            return float(stats.norm.isf(tail, s / n, a / n**0.5))
        case "exponential" | "gamma":
            return float(stats.invgamma.isf(tail, a * n, scale=a * s))
        case "geometric" | "negative-binomial":
            return float(a * stats.betaprime.isf(tail, s + 0.5, a * n))
        case "inverse-gaussian":
            centre, width = n / s, 1 / (a * s) ** 0.5
            return float(1 / stats.truncnorm.ppf(tail, -centre / width, float("inf"), loc=centre, scale=width))
    raise KeyError(family.name)
