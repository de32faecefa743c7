"""Confidence bounds from ψ alone: a bracketed Newton iteration in the natural parameter."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from hellinger._jit import helper
from hellinger.families import _dispatch as d

if TYPE_CHECKING:
    from hellinger.families._base import Family

__all__ = ["divergence", "solve_natural", "theta_upper"]

_LEGENDRE_NODES, _LEGENDRE_WEIGHTS = np.polynomial.legendre.leggauss(16)
_NODES, _WEIGHTS = (_LEGENDRE_NODES + 1.0) / 2.0, _LEGENDRE_WEIGHTS / 2.0  # on [0, 1]
_EPS = 2.220446049250313e-16
_FAR = 1e3
"""A natural parameter at which a family with mass at its lower end has nothing else left."""


@helper
def divergence(family: Family, theta0: float, mean0: float, theta1: float, hellinger: bool) -> float:
    """KL or Bhattacharyya distance between the members θ₀ (of mean ``mean0``) and θ₁, from ψ and ψ′.

    Far apart it is the Bregman divergence, or the Jensen gap, of ψ. Close together that difference
    cancels, and the same number is taken as an integral of differences of ψ′ by Gauss–Legendre.
    """
    delta = theta1 - theta0
    psi0 = d.log_partition(family, theta0)
    psi1 = d.log_partition(family, theta1)
    if hellinger:
        half = 0.5 * delta
        psi_middle = d.log_partition(family, theta0 + half)
        value = 0.5 * (psi0 + psi1) - psi_middle
        size = abs(psi0) + abs(psi1) + abs(psi_middle)
    else:
        half = delta
        value = psi1 - psi0 - delta * mean0
        size = abs(psi0) + abs(psi1) + abs(delta * mean0)
    bottom, top = d.natural_bounds(family)
    if abs(delta) <= min(1.0, 0.25 * (theta0 - bottom), 0.25 * (top - theta0)):
        size += 1.0  # so close that the integral is exact, which a ψ with an error of one ulp of 1 needs
    if 4.0 * _EPS * size <= 1e-13 * value or not math.isfinite(value):
        return value
    total = 0.0
    for i in range(_NODES.size):
        step = half * _NODES[i]
        near = d.mean(family, theta0 + step)
        if hellinger:
            total += _WEIGHTS[i] * 0.5 * (d.mean(family, theta0 + half + step) - near)
        else:
            total += _WEIGHTS[i] * (near - mean0)
    return half * total


@helper
def _end_mass(family: Family) -> float:
    """Log-mass of the family's carrier at the lower end of its means; −inf where it has none there."""
    low = d.infimum(family)
    if low == -math.inf or d.natural_bounds(family)[0] > -math.inf:
        return -math.inf
    mass = d.log_partition(family, -_FAR) + low * _FAR
    farther = d.log_partition(family, -2.0 * _FAR) + low * 2.0 * _FAR
    return mass if abs(mass - farther) <= 1e-9 * (1.0 + abs(mass)) else -math.inf


@helper
def distance(family: Family, p: float, q: float, hellinger: bool) -> float:
    """KL or Bhattacharyya distance between means p and q, ends included."""
    if math.isnan(p) or math.isnan(q):
        return math.nan
    if p == q:
        return 0.0
    low, high = d.infimum(family), d.supremum(family)
    if q == low or p == high:
        return math.inf
    if p == low or q == high:
        mass = _end_mass(family)
        if p == low and q < high and mass > -math.inf:
            theta = d.natural(family, q)
            away = d.log_partition(family, theta) - low * theta - mass
            return 0.5 * away if hellinger else away
        return math.inf
    return divergence(family, d.natural(family, p), p, d.natural(family, q), hellinger)


@helper
def theta_upper(family: Family, m: float, x: float, hellinger: bool) -> float:
    """Largest mean within distance x of the member with mean m.

    Brackets the bound in θ by doubling steps (halving the way to a finite end of the domain), then
    Newton, with bisection whenever a step leaves the bracket. Where the ball holds every θ, the bound is
    the supremum; where m is the lower end, the distance is −log of the mass there (half of it for
    Hellinger), or infinite.
    """
    if math.isnan(m) or math.isnan(x):
        return math.nan
    top_mean = d.supremum(family)
    if x == 0.0 or m == top_mean:
        return m
    if x == math.inf:
        return top_mean
    top = d.natural_bounds(family)[1]
    at_end = m == d.infimum(family)
    if at_end:
        mass = _end_mass(family)
        if mass == -math.inf:
            return m
        theta0 = -_FAR
        if hellinger:
            x *= 2.0
    else:
        mass = 0.0
        theta0 = d.natural(family, m)

    left, right = theta0, theta0
    stride = 1e-9 * max(1.0, abs(theta0))
    previous = -1.0
    while True:
        right = top - 0.5 * (top - left) if left + stride >= top else left + stride
        if not left < right < top:
            return top_mean
        if at_end:
            value = d.log_partition(family, right) - m * right - mass
        else:
            value = divergence(family, theta0, m, right, hellinger)
        if not value < x:
            break
        if value <= previous and value > 0.0 and right > theta0 + 700.0:
            return top_mean  # the distance has stopped growing: the ball holds every member
        previous, left = value, right
        stride *= 2.0

    theta = 0.5 * (left + right)
    for _ in range(300):
        if at_end:
            excess = d.log_partition(family, theta) - m * theta - mass - x
            slope = d.mean(family, theta) - m
        else:
            excess = divergence(family, theta0, m, theta, hellinger) - x
            if hellinger:
                slope = 0.5 * (d.mean(family, theta) - d.mean(family, 0.5 * (theta0 + theta)))
            else:
                slope = d.mean(family, theta) - m
        if excess == 0.0:
            break
        if excess < 0.0:
            left = theta
        else:
            right = theta
        following = theta - excess / slope
        if not left < following < right:
            following = 0.5 * (left + right)
        if following == theta or abs(following - theta) <= _EPS * min(abs(theta), abs(top - theta)):
            theta = following
            break
        theta = following
    return d.mean(family, theta)


@helper
def solve_natural(family: Family, m: float) -> float:
    """θ with ψ′(θ) = m, by bisection over the natural domain (ψ′ increases)."""
    bottom, top = d.natural_bounds(family)
    if m <= d.infimum(family):
        return bottom
    if m >= d.supremum(family):
        return top
    if bottom > -math.inf and top < math.inf:
        start = 0.5 * (bottom + top)
    elif top < math.inf:
        start = top - 1.0
    elif bottom > -math.inf:
        start = bottom + 1.0
    else:
        start = 0.0
    rising = d.mean(family, start) < m
    near, far, stride = start, start, 1.0
    for _ in range(2100):
        edge = top if rising else bottom
        step = stride if rising else -stride
        far = near + step
        if (rising and far >= top) or (not rising and far <= bottom):
            far = 0.5 * (near + edge)
        value = d.mean(family, far)
        if (rising and not value < m) or (not rising and not value > m) or far in (near, edge):
            break
        near = far
        stride *= 2.0
    left, right = min(near, far), max(near, far)
    while True:
        middle = 0.5 * (left + right)
        if not left < middle < right:
            return middle
        if d.mean(family, middle) < m:
            left = middle
        else:
            right = middle
