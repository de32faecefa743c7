"""Empirical likelihood against a convex solver, 40-digit arithmetic, and KL where rewards are 0 and 1."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from mpmath import mp, mpf
from scipy.optimize import minimize

from hellinger import families
from hellinger._empirical import divergence, least_gap
from hellinger.testing._suite import refused
from hellinger.theory import empirical_upper, k_inf

COIN = families.Bernoulli()
Floats = np.ndarray[Any, np.dtype[np.float64]]


def cases() -> Iterator[tuple[Floats, Floats, float]]:
    """Levels, counts and a mean above the empirical one: from close to it to close to the top."""
    rng = np.random.default_rng(0)
    for size in (1, 2, 3, 5, 5, 8):
        for with_top in (False, True):
            levels = np.round(rng.random(size), 2)
            levels[0] = 1.0 if with_top and size > 1 else levels[0]
            counts = rng.integers(1, 30, size).astype(float)
            mean = float(levels @ counts / counts.sum())
            for share in (1e-3, 0.05, 0.5, 0.9):
                yield levels, counts, mean + share * (1.0 - mean)


def hard_cases() -> Iterator[tuple[Floats, Floats, float]]:
    """Many levels, means close to the empirical one and to the top, and levels of which there is next to nothing."""
    rng = np.random.default_rng(1)
    for size, tiny in ((127, 1.0), (400, 1.0), (5, 1e-12), (40, 1e-9)):
        for with_top in (False, True):
            levels, counts = rng.random(size), rng.random(size) + 0.01
            counts[:: max(2, size // 3)] *= tiny
            levels[0] = 1.0 if with_top else levels[0]
            mean = float(levels @ counts / counts.sum())
            for share in (1e-7, 0.3, 0.999, 1.0 - 1e-6, 1.0 - 1e-9):
                yield levels, counts, mean + share * (1.0 - mean)


def certificate(levels: Floats, counts: Floats, q: float) -> tuple[float, float, float]:
    """How far the law G that the dual's λ gives is from being one, from mean q, and from KL(F ‖ G) = K_inf.

    G has F(x)/(1 − λ(x − q)/(1 − q)) below the top and what is left of 1 at the top: the conditions of Karush, Kuhn and
    Tucker. A law of mean q bounds the minimum from above, the dual's value bounds it from below; equal, both are it.
    """
    weights = counts / counts.sum()
    value, share = divergence(1.0 - levels, weights, 1.0, 1.0 - q)
    law = weights / ((1.0 - share) + share * ((1.0 - levels) / (1.0 - q)))
    top = levels == 1.0
    rest = 1.0 - float(law[~top].sum())
    law[top] = rest  # of one level at most; where F has none there, it costs nothing
    mean = float(law @ (1.0 - levels)) / (1.0 - q) - 1.0  # in distances from the top, so that nothing cancels
    return -min(rest, 0.0), abs(mean), abs(float(weights @ np.log(weights / law)) - value)


def exact(levels: Floats, counts: Floats, q: float) -> Any:
    """The dual's maximum by bisection in 40 digits."""
    with mp.workdps(40):
        x, w, q = [mpf(v) for v in levels.tolist()], [mpf(c) / mpf(counts.sum()) for c in counts.tolist()], mpf(q)
        u = [(q - v) / (1 - q) for v in x]
        low, high = mpf(0), mpf(1)
        if max(x) == 1 or sum(a * b / (1 + b) for a, b in zip(w, u, strict=True)) < 0:
            for _ in range(140):
                middle = (low + high) / 2
                rising = sum(a * b / (1 + middle * b) for a, b in zip(w, u, strict=True)) > 0
                low, high = (middle, high) if rising else (low, middle)
        return sum(a * mp.log(1 + high * b) for a, b in zip(w, u, strict=True))


def test_k_inf_is_the_maximum_of_its_dual() -> None:
    for levels, counts, q in [*cases(), *hard_cases()]:
        assert k_inf(levels, q, counts=counts) == pytest.approx(float(exact(levels, counts, q)), abs=1e-12, rel=0)


def test_the_law_that_attains_k_inf() -> None:
    """The primal, exactly: mass, mean and divergence of the law that the dual's λ gives."""
    for levels, counts, q in [*cases(), *hard_cases()]:
        assert certificate(levels, counts, q) == pytest.approx((0.0, 0.0, 0.0), abs=1e-12)


def test_k_inf_is_the_least_divergence() -> None:
    """The primal by a solver that knows nothing of the dual, as exact as that one is: no law has less."""
    for levels, counts, q in list(cases())[1::4]:
        share = counts / counts.sum()
        support = np.append(levels, 1.0)
        found = minimize(
            lambda g, share=share: float(share @ np.log(share / g[:-1])),
            np.append(share * 0.5, 0.5),
            bounds=[(1e-9, 1.0)] * share.size + [(0.0, 1.0)],
            constraints=[
                {"type": "eq", "fun": lambda g: g.sum() - 1.0},
                {"type": "ineq", "fun": lambda g, support=support, q=q: g @ support - q},
            ],
            options={"ftol": 1e-14, "maxiter": 500},
        )
        assert k_inf(levels, q, counts=counts) == pytest.approx(found.fun, abs=2e-6)


def test_the_bound_solves_its_equation() -> None:
    for levels, counts, q in [*cases(), *hard_cases()]:
        radius = float(exact(levels, counts, q))
        assert empirical_upper(levels, radius, counts=counts) == pytest.approx(q, abs=1e-12, rel=0)


def test_a_bound_close_to_the_top_keeps_its_digits() -> None:
    """The distance from the top, which is all that tells two such bounds apart, against 40-digit bisection."""
    for levels, counts in (([0.0, 1.0], [1, 9]), ([0.1, 0.5, 1.0], [2, 3, 40]), ([0.3, 0.9, 0.99], [1, 1, 1])):
        for radius in (0.3, 5.0):
            low, high = mpf(-40), mpf(0)  # log(1 − q)
            with mp.workdps(40):
                for _ in range(60):
                    middle = (low + high) / 2
                    beyond = exact(np.array(levels), np.array(counts, float), 1 - mp.exp(middle)) > radius
                    low, high = (middle, high) if beyond else (low, middle)
                want = float(mp.exp(high))
            below, weights = 1.0 - np.array(levels), np.array(counts, float)
            assert least_gap(below, weights, weights.sum(), radius) == pytest.approx(want, rel=1e-12)


def test_bernoulli_rewards_give_kl() -> None:
    for mean in (0.0, 0.01, 0.3, 0.5, 0.9):
        counts = [1.0 - mean, mean]
        for q in (0.02, 0.31, 0.6, 0.95):
            want = COIN.kl(mean, q) if q > mean else 0.0
            assert k_inf([0.0, 1.0], q, counts=counts) == pytest.approx(want, rel=1e-13, abs=1e-15)
        for radius in (1e-6, 0.05, 1.0, 10.0):
            got = empirical_upper([0.0, 1.0], radius, counts=counts)
            assert got == pytest.approx(COIN.kl_upper(mean, radius), rel=1e-13, abs=1e-15)


def test_another_top_is_another_unit() -> None:
    levels, counts = np.array([-3.0, 0.0, 1.0, 4.0]), [2, 5, 3, 1]
    unit = (levels + 3.0) / 8.0
    assert k_inf(levels, 2.5, counts=counts, top=5.0) == pytest.approx(k_inf(unit, 5.5 / 8.0, counts=counts), rel=1e-12)
    got = empirical_upper(levels, 0.2, counts=counts, top=5.0)
    assert got == pytest.approx(8.0 * empirical_upper(unit, 0.2, counts=counts) - 3.0, rel=1e-12)


def test_ends() -> None:
    assert k_inf([0.2, 0.4], 0.3) == pytest.approx(0.0, abs=1e-15)
    assert k_inf([0.2, 0.4], 0.1) == 0.0
    assert k_inf([0.2, 0.4], 1.0) == math.inf
    assert k_inf([1.0], 1.0) == 0.0
    assert k_inf([1.0, 1.0], 2.0) == k_inf([0.2], 1.5) == k_inf([1.0], math.inf) == math.inf
    assert k_inf([0.3], 0.5) == pytest.approx(math.log(0.7 / 0.5), rel=1e-14)  # mass at the top alone is added
    assert empirical_upper([0.3], 0.1) == pytest.approx(1.0 - 0.7 * math.exp(-0.1), rel=1e-14)
    assert empirical_upper([0.25, 0.5], 0.0) == 0.375
    assert empirical_upper([0.25, 0.5], math.inf) == empirical_upper([1.0], 0.3) == 1.0
    assert k_inf([0.1, 0.1, 0.7], 0.5) == pytest.approx(k_inf([0.1, 0.7, 0.9], 0.5, counts=[2, 1, 0]), rel=1e-15)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: k_inf([], 0.5), ["at least one"]),
        (lambda: k_inf([1.5], 0.5), ["rewards <= 1", "1.5"]),
        (lambda: k_inf([0.5], math.nan), ["q is a number"]),
        (lambda: k_inf([0.5], 0.6, counts=[1, 2]), ["one count for each reward"]),
        (lambda: k_inf([0.5], 0.6, counts=[0]), ["not all 0"]),
        (lambda: empirical_upper([0.5], -1.0), ["0 <= radius", "-1"]),
    ],
)
def test_errors(call: Callable[[], Any], words: list[str]) -> None:
    refused(call, *words)
