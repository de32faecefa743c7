"""Hyperbolic secant rewards: the last of Morris' six families with quadratic variance."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from hellinger._numerics import log_cosh_ball
from hellinger._random import log_gamma_variate
from hellinger.families import _dispatch as d
from hellinger.families._base import Family, Floats

__all__ = ["HyperbolicSecant"]


class _NoParameters(NamedTuple):
    pass


class HyperbolicSecant(Family, _NoParameters):
    """Real rewards with variance 1 + m²; the bound is sinh(arcsinh m + 2·arccosh eˣ).

    >>> HyperbolicSecant().hellinger_upper(0.0, 0.1)
    1.040...
    """

    __slots__ = ()
    name = "hyperbolic-secant"
    reference = "Morris 1982 (quadratic variance)"
    posterior = "tan θ with density ∝ cosⁿθ·e^(sθ), from the flat prior on θ"

    def typical_means(self) -> Floats:
        """Both signs."""
        return np.array([-1e6, -1e3, -1.0, -1e-6, 0.0, 1e-6, 0.3, 1.0, 40.0, 1e6])

    def _infimum(self) -> float:
        return -math.inf

    def _natural_bounds(self) -> tuple[float, float]:
        return (-0.5 * math.pi, 0.5 * math.pi)

    def _log_partition(self, theta: Any) -> Any:
        if abs(theta.real) < 0.8:  # where cos θ would round ψ, close to 0, to nothing
            return -0.5 * np.log1p(-(np.sin(theta) ** 2))
        return -np.log(np.cos(theta))

    def _mean(self, theta: float) -> float:
        return math.tan(theta)

    def _natural(self, m: float) -> float:
        return math.atan(m)

    def _variance(self, m: float) -> float:
        return 1.0 + m * m

    def _kl(self, p: float, q: float) -> float:
        # With w = (q−p)(p+i)/(1+p²), KL = Re((1+ip)·log(1+w)), whose linear term vanishes on paper.
        if p == q:
            return 0.0
        if abs(q) == math.inf:
            return math.inf
        gap = q - p
        size = 1.0 + p * p
        if gap * gap > 0.04 * size:
            growth = gap * (p + q) / size
            log = math.log1p(growth) if growth > -0.5 else math.log((1.0 + q * q) / size)
            return 0.5 * log - p * math.atan2(gap, 1.0 + p * q)
        re, im = gap * p / size, gap / size
        power_re, power_im = re, im
        total = 0.0
        for k in range(2, 40):
            term = power_im / k if k % 2 == 0 else -power_im / k
            total += term
            if abs(power_re) + abs(power_im) <= 1e-18 * abs(total):  # one term alone may vanish
                break
            power_re, power_im = power_re * re - power_im * im, power_re * im + power_im * re
        return gap * total

    def _bhattacharyya(self, p: float, q: float) -> float:
        if p == q:
            return 0.0
        if abs(q) == math.inf:
            return math.inf
        long_p, long_q = q * math.sqrt(1.0 + p * p), p * math.sqrt(1.0 + q * q)
        sinh = long_p - long_q if p * q <= 0.0 else (q - p) * (q + p) / (long_p + long_q)
        cosh_less_one = sinh * sinh / (1.0 + math.sqrt(1.0 + sinh * sinh))
        return 0.5 * math.log1p(0.5 * cosh_less_one)

    def _hellinger_upper(self, m: float, x: float) -> float:
        if x == 0.0:
            return m
        if x == math.inf and not math.isnan(m):
            return math.inf
        cosh, sinh = log_cosh_ball(x, 1.0)
        root = math.sqrt(1.0 + m * m)
        if m > -1.0:
            return m * (cosh * cosh + sinh * sinh) + root * (2.0 * cosh * sinh)
        # far below zero these terms would cancel: e^arcsinh m first
        grow = (cosh + sinh) * (cosh + sinh) / (root - m)
        return 0.5 * (grow - 1.0 / grow)

    def _kl_upper(self, m: float, x: float) -> float:
        # Bracketed Newton in a = arcsinh q, where the slope of KL is (q − m)/√(1 + q²).
        if math.isnan(m) or math.isnan(x):
            return math.nan
        if x == 0.0:
            return m
        if x == math.inf:
            return math.inf
        left = math.asinh(m)
        stride = 2.0 * math.sqrt(2.0 * x) + 2.0 * x
        right = left + stride
        while d.kl(self, m, math.sinh(right)) < x:
            left, right, stride = right, right + stride, 2.0 * stride
        a = left + 0.5 * (right - left)
        for _ in range(200):
            q = math.sinh(a)
            excess = d.kl(self, m, q) - x
            if excess < 0.0:
                left = a
            else:
                right = a
            following = a - excess * math.cosh(a) / (q - m)
            if not left <= following <= right:
                following = 0.5 * (left + right)
            if abs(following - a) <= 2.3e-16 * abs(a):
                a = following
                break
            a = following
        return math.sinh(a)

    def _hellinger_lower(self, m: float, x: float) -> float:
        return -d.hellinger_upper(self, -m, x)

    def _kl_lower(self, m: float, x: float) -> float:
        return -d.kl_upper(self, -m, x)

    def _draw(self, m: float, z: np.uint64) -> float:
        tilt = math.atan(m) / math.pi
        up, state = log_gamma_variate(0.5 + tilt, z)
        down, state = log_gamma_variate(0.5 - tilt, state)
        return (up - down) / math.pi

    def _sample(self, mean: Floats, rng: np.random.Generator, size: int | tuple[int, ...] | None) -> Any:
        # log-odds of a Beta(a, b) as a difference of log-gammas; log Gamma(a) = log Gamma(1 + a) − Exp/a
        # cannot underflow, however small a is for a mean far from 0.
        a, b = np.arctan2(1.0, -mean) / np.pi, np.arctan2(1.0, mean) / np.pi
        size = mean.shape if size is None else size
        up = np.log(rng.standard_gamma(1.0 + a, size)) - rng.standard_exponential(size) / a
        down = np.log(rng.standard_gamma(1.0 + b, size)) - rng.standard_exponential(size) / b
        return (up - down) / np.pi

    def _posterior_draw(self, rng: np.random.Generator, s: float, n: float) -> float:
        # Rejection from the mode's constant and two tangents of the log-concave density of θ.
        mode = math.atan(s / n)
        peak = n * math.log(math.cos(mode)) + s * mode
        width = math.cos(mode) / math.sqrt(n)
        end = 0.5 * math.pi
        low = max(mode - width, 0.5 * (mode - end))
        high = min(mode + width, 0.5 * (mode + end))
        slope_low = s - n * math.tan(low)
        slope_high = s - n * math.tan(high)
        # where the tangents meet the constant
        from_low = low + (peak - n * math.log(math.cos(low)) - s * low) / slope_low
        from_high = high + (peak - n * math.log(math.cos(high)) - s * high) / slope_high
        mass_low = 1.0 / slope_low
        mass_high = -1.0 / slope_high
        total = mass_low + (from_high - from_low) + mass_high
        while True:
            u = rng.random() * total
            log_height = math.log1p(-rng.random())
            if u < mass_low:
                tail = math.log1p(-rng.random())
                theta = from_low + tail * mass_low
                log_height += tail
            elif u < total - mass_high:
                theta = from_low + (u - mass_low)
            else:
                tail = math.log1p(-rng.random())
                theta = from_high - tail * mass_high
                log_height += tail
            if abs(theta) < end and log_height <= n * math.log(math.cos(theta)) + s * theta - peak:
                return math.tan(theta)
