"""Elementary functions free of cancellation, in straight-line code that LLVM turns into SIMD.

A call to the C library stops LLVM from vectorising the loop around it; these few functions are
therefore polynomials after range reduction (as in fdlibm), accurate to about an ulp, and summed in
pairs (Estrin) so that a single call does not wait for one long chain. Everything else uses :mod:`math`.
"""

from __future__ import annotations

import math

import numpy as np

from hellinger._jit import inline

__all__ = [
    "bhattacharyya_trials",
    "expm1x",
    "hellinger_lower_trials",
    "kl_pair",
    "kl_trials",
    "log_cosh_ball",
    "phi",
    "phi_at",
    "phi_inverse",
    "phi_inverse_below",
    "quotient",
    "two_product",
]

_ROUND = 6755399441055744.0  # 1.5·2⁵²: adding it rounds to an integer, kept in the low bits
_LOG2E = 1.4426950408889634
_LN2_HIGH = 6.93147180369123816490e-01
_LN2_LOW = 1.90821492927058770002e-10
_SQRT_HALF_BITS = 0x3FE6A09E667F3BCD  # bits of √½, so that mantissas fall in [√½, √2)


@inline
def expm1x(x: float) -> tuple[float, float]:
    """``(expm1(−x), expm1(−x) + x)`` for x ≥ 0, each without cancellation.

    −x = k·log 2 + r, |r| ≤ ½ log 2; expm1(r) = r + r²·P(r). For k = 0 the second is r²·P(r) itself.
    """
    y = -60.0 if x > 60.0 else -x
    shifted = y * _LOG2E + _ROUND
    k = shifted - _ROUND
    r = (y - k * _LN2_HIGH) - k * _LN2_LOW
    r2 = r * r
    r4 = r2 * r2
    low = (0.5 + 0.16666666666666666 * r) + r2 * (0.041666666666666664 + 0.008333333333333333 * r)
    middle = (0.001388888888888889 + 0.0001984126984126984 * r) + r2 * (
        2.48015873015873e-05 + 2.7557319223985893e-06 * r
    )
    high = (2.755731922398589e-07 + 2.505210838544172e-08 * r) + r2 * (
        2.08767569878681e-09 + 1.6059043836821613e-10 * r
    )
    quadratic = r2 * (low + r4 * (middle + r4 * high))
    bits = (np.float64(shifted).view(np.int64) + np.int64(1023)) << np.int64(52)
    scale = np.int64(bits).view(np.float64)
    small = (r + quadratic) * scale + (scale - 1.0)
    return small, quadratic if k == 0.0 else small + x


@inline
def phi(u: float) -> float:
    """φ(u) = u − log(1 + u) for u > −1, without cancellation: the Bregman divergence of −log."""
    return phi_at(u, 1.0 + u)


@inline
def phi_at(u: float, z: float) -> float:
    """φ(u) where z = 1 + u is known to more digits than u has left close to −1.

    z = 2ᵏ·(1 + f); with s = f/(2+f), log(1+f) = f − f·s + s³·P(s²), and f = u where k = 0.
    """
    bits = np.float64(z).view(np.int64)
    exponent = (bits - np.int64(_SQRT_HALF_BITS)) >> np.int64(52)
    mantissa = np.int64(bits - (exponent << np.int64(52))).view(np.float64)
    k = np.float64(exponent)
    f = u if exponent == 0 else mantissa - 1.0
    s = f / (2.0 + f)
    w = s * s
    w2 = w * w
    low = (0.6666666666666735 + 0.3999999999940942 * w) + w2 * (0.2857142874366239 + 0.22222198432149784 * w)
    p = low + w2 * w2 * ((0.18183572162161805 + 0.15313837699209373 * w) + w2 * 0.14798198605116586)
    return ((u - f) - k * _LN2_HIGH) + (f * s - s * w * p - k * _LN2_LOW)


@inline
def kl_trials(p: float, q: float, n: float) -> float:
    """KL between Binomial(n) means p and q: p·φ(d/p) + (n−p)·φ(−d/(n−p)), d = q − p.

    The linear terms have cancelled on paper, and both parts are ≥ 0.
    """
    if p == q:
        return 0.0
    if q == 0.0 or q == n:
        return math.inf
    d = q - p
    up = d if p == 0.0 else p * phi_at(d / p, q / p)
    down = -d if p == n else (n - p) * phi_at(-d / (n - p), (n - q) / (n - p))
    return up + down


@inline
def bhattacharyya_trials(p: float, q: float, n: float) -> float:
    """B between Binomial(n) means p and q, over n.

    e⁻ᴮ is the cosine, and sine the difference below, of the angle between (√p, √(n−p)) and q's.
    """
    cos = math.sqrt(p * q) + math.sqrt((n - p) * (n - q))
    total = math.sqrt(q * (n - p)) + math.sqrt(p * (n - q))
    sin = 0.0 if p == q else (q - p) / total
    if cos > 0.7 * n:
        return -0.5 * math.log1p(-sin * sin)
    return -math.log(cos / n)


@inline
def hellinger_lower_trials(m: float, x: float, n: float) -> float:
    """Smallest Binomial(n) mean with B ≤ x of m: the angle between (√m, √(n−m)) and it is arccos e^(−x/n)."""
    root = math.sqrt(m) * math.exp(-x / n) - math.sqrt(-(n - m) * math.expm1(-2.0 * x / n))
    q = root * root if root > 0.0 or math.isnan(root) else 0.0
    return m if x == 0.0 else q


@inline
def _kl_pair_step(p: float, inverse_p: float, r: float, total: float, x: float, v: float) -> float:
    """One Halley step for :func:`kl_pair`, with its three quotients brought to one."""
    e, ex = expm1x(v)
    d = -r * e
    excess = r * ex + p * phi(d * inverse_p) - x
    return v - excess * d * (p + d) / (total * d * d - 0.5 * excess * p * (r - d))


@inline
def kl_pair(p: float, r: float, total: float, x: float) -> float:
    r"""Solve r·(e⁻ᵛ − 1 + v) + p·φ(r(1 − e⁻ᵛ)/p) = x for v ≥ 0: the KL bound of four families.

    ``total`` is p + r. Bernoulli and Binomial have r = 1 − p and 1 − q = (1 − p)·e⁻ᵛ; Geometric and
    NegativeBinomial have q + r = (p + r)·eᵛ. In v the left side f is convex, quadratic at 0 and linear at
    infinity; with d = r(1 − e⁻ᵛ), f′ = total·d/(p + d) and f″ = total·p(r − d)/(p + d)². A start that
    matches f to third order at 0 and its slope at infinity is within 1.2 % in q for Bernoulli, 9 % in v for
    all, and two Halley steps end at rounding error. The number of operations is fixed, so the loop over arms
    vectorises.
    """
    inverse_p = 1.0 / p
    linear = x / r
    quadratic = math.sqrt(2.0 * linear * p / total)
    v = linear + quadratic / (1.0 + (2.0 * p + r) * (1.0 / 6.0) * quadratic * inverse_p)
    v = _kl_pair_step(p, inverse_p, r, total, x, v)
    v = _kl_pair_step(p, inverse_p, r, total, x, v)
    return linear if p < 1e-300 else v


@inline
def _phi_inverse_step(u: float, y: float) -> float:
    excess = phi(u) - y
    return u - excess * u * (1.0 + u) / (u * u - 0.5 * excess)


@inline
def phi_inverse(y: float) -> float:
    """Solve φ(u) = y for u ≥ 0, i.e. u = −1 − W₋₁(−e^(−1−y)): two Halley steps from a start within 1 %."""
    root = math.sqrt(2.0 * y)
    u = y + root / (1.0 + root * (1.0 / 6.0))
    u = _phi_inverse_step(u, y)
    u = _phi_inverse_step(u, y)
    return 0.0 if y == 0.0 else u


@inline
def _phi_inverse_below_step(w: float, y: float) -> float:
    e, ex = expm1x(w)
    excess = ex - y
    return w + excess * e / (e * e - 0.5 * excess * (1.0 + e))


@inline
def phi_inverse_below(y: float) -> float:
    """Solve e⁻ʷ − 1 + w = y for w ≥ 0, i.e. φ(u) = y with u = e⁻ʷ − 1 in (−1, 0]: two Halley steps."""
    root = math.sqrt(2.0 * y)
    w = y + root / (1.0 + root * (1.0 / 3.0))
    w = _phi_inverse_below_step(w, y)
    w = _phi_inverse_below_step(w, y)
    return 0.0 if y == 0.0 else w


@inline
def two_product(a: float, b: float) -> tuple[float, float]:
    """``a·b`` as an unevaluated sum of two doubles, exactly (Dekker)."""
    split = 134217729.0  # 2²⁷ + 1
    t = split * a
    a_high = t - (t - a)
    a_low = a - a_high
    t = split * b
    b_high = t - (t - b)
    b_low = b - b_high
    product = a * b
    return product, ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low


@inline
def quotient(a: float, b: float) -> tuple[float, float]:
    """``a/b`` as the rounded quotient and what rounding left out."""
    high = a / b
    product, error = two_product(high, b)
    return high, ((a - product) - error) / b


@inline
def log_cosh_ball(x: float, scale: float) -> tuple[float, float]:
    """``(eʸ, √(e²ʸ − 1))`` for y = x/scale: cosh and sinh of arccosh eʸ, to the last digits.

    The rounding error of x/scale alone would cost y ulps in eʸ, so it is put back.
    """
    if scale == 1.0:
        return math.exp(x), math.sqrt(math.expm1(2.0 * x))
    y, low = quotient(x, scale)
    if not abs(low) < 1e-10:  # infinite, overflown or NaN: nothing to put back
        low = 0.0
    cosh = math.exp(y) * (1.0 + low)
    sinh = math.sqrt(math.expm1(2.0 * y) * (1.0 + 2.0 * low) + (2.0 * low))
    return cosh, sinh
