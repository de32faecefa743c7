"""Confidence bounds from ψ alone: a bracketed Newton iteration in the natural parameter."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from hellinger._jit import helper
from hellinger.families import _dispatch as d

if TYPE_CHECKING:
    from hellinger.families._base import Family

__all__ = ["distance", "divergence", "solve_natural", "theta_bound"]

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
    panels = 1 + min(63, int(0.25 * abs(half)))  # sixteen nodes are exact for a few units of θ
    width = half / panels
    total = 0.0
    for panel in range(panels):
        for i in range(_NODES.size):
            step = width * (panel + _NODES[i])
            near = d.mean(family, theta0 + step)
            if hellinger:
                total += _WEIGHTS[i] * 0.5 * (d.mean(family, theta0 + half + step) - near)
            else:
                total += _WEIGHTS[i] * (near - mean0)
    return width * total


@helper
def _end_mass(family: Family, sign: float) -> float:
    """Log-mass of the family's carrier at the lower end of its means (sign 1) or the upper (−1); −inf for none."""
    end = d.infimum(family) if sign > 0.0 else d.supremum(family)
    bottom, top = d.natural_bounds(family)
    if abs(end) == math.inf or (bottom > -math.inf if sign > 0.0 else top < math.inf):
        return -math.inf
    far = -sign * _FAR
    mass = d.log_partition(family, far) - end * far
    farther = d.log_partition(family, 2.0 * far) - end * 2.0 * far
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
        mass = _end_mass(family, 1.0)
        if p == low and q < high and mass > -math.inf:
            theta = d.natural(family, q)
            away = d.log_partition(family, theta) - low * theta - mass
            return 0.5 * away if hellinger else away
        return math.inf
    return divergence(family, d.natural(family, p), p, d.natural(family, q), hellinger)


@helper
def theta_bound(family: Family, m: float, x: float, hellinger: bool, sign: float) -> float:
    """Largest mean within distance x of the member with mean m (sign 1), or the smallest (sign −1).

    Brackets the bound in θ by doubling steps (halving the way to a finite end of the domain), then
    Newton, with bisection whenever a step leaves the bracket. Where the ball holds every θ on that side, the
    bound is the end of the means there; where m is the other end, the distance is −log of the mass there (half
    of it for Hellinger), or infinite.
    """
    if math.isnan(m) or math.isnan(x):
        return math.nan
    up = sign > 0.0
    last = d.supremum(family) if up else d.infimum(family)
    if x == 0.0 or m == last:
        return m
    if x == math.inf:
        return last
    bottom, top = d.natural_bounds(family)
    end = top if up else bottom
    at_end = m == (d.infimum(family) if up else d.supremum(family))
    if at_end:
        mass = _end_mass(family, sign)
        if mass == -math.inf:
            return m
        theta0 = -sign * _FAR
        if hellinger:
            x *= 2.0
    else:
        mass = 0.0
        theta0 = d.natural(family, m)

    near, far = theta0, theta0
    stride = 1e-9 * max(1.0, abs(theta0))
    previous = -1.0
    while True:
        far = near + sign * stride
        if not sign * far < sign * end:
            far = end - 0.5 * (end - near)
        if not sign * near < sign * far < sign * end:
            return last
        if at_end:
            value = d.log_partition(family, far) - m * far - mass
        else:
            value = divergence(family, theta0, m, far, hellinger)
        if not value < x:
            break
        if value <= previous and value > 0.0 and sign * (far - theta0) > 700.0:
            return last  # the distance has stopped growing: the ball holds every member
        previous, near = value, far
        stride *= 2.0

    theta = 0.5 * (near + far)
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
            near = theta
        else:
            far = theta
        following = theta - excess / slope
        if not sign * near < sign * following < sign * far:
            following = 0.5 * (near + far)
        if following == theta or abs(following - theta) <= _EPS * min(abs(theta), abs(end - theta)):
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
