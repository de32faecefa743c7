"""The conformance suite over every family there is, and what only some families have."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from hellinger import families
from hellinger.testing._suite import refused
from hellinger.testing.families import family_checks, posterior_draws

CASES = [case for family in families.available().values() for case in family.cases()]


@pytest.mark.parametrize("check", family_checks().values(), ids=family_checks())
@pytest.mark.parametrize("family", CASES, ids=lambda family: family.spec)
def test_conformance(family: families.Family, check: Callable[[families.Family], None]) -> None:
    check(family)


def test_posterior_of_the_hyperbolic_secant() -> None:
    """It has no quantile function to compare with: the density of θ, cosⁿθ·e^(sθ), is integrated instead."""
    theta, step = np.linspace(-math.pi / 2, math.pi / 2, 200_001, retstep=True)
    for s, n in ((0.0, 1.0), (-3.0, 2.0), (40.0, 12.0)):
        density = np.exp(n * np.log(np.maximum(np.cos(theta), 1e-300)) + s * theta - abs(s) * math.pi / 2)
        mass = np.cumsum(density) * step
        draws = np.arctan(posterior_draws(families.HyperbolicSecant(), s, n, size=20_000, seed=3))
        for share in (0.05, 0.5, 0.95):
            quantile = theta[np.searchsorted(mass, share * mass[-1])]
            assert abs((draws <= quantile).mean() - share) < 6 * math.sqrt(share * (1 - share) / 20_000)


def test_a_click_on_the_first_impression_gives_one() -> None:
    """The larger root of the published quadratic falls again once the ball holds 1 (it gives 0.001 here)."""
    assert families.Bernoulli().hellinger_upper(1.0, 0.25 * math.log(1e6)) == 1.0
    assert families.Bernoulli().hellinger_upper(0.9, 0.25 * math.log(1e6)) == 1.0


def test_names() -> None:
    assert families.get("negative_binomial(r=3)") == families.NegativeBinomial(3.0)
    assert families.get(families.Poisson()) == families.Poisson()
    assert families.Gamma(1.0) != families.Exponential()
    assert len({families.Bernoulli(), families.Poisson(), families.Bernoulli()}) == 2


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: families.get("cauchy"), ["cauchy", "bernoulli"]),
        (lambda: families.get("gamma", scale=2.0), ["shape", "scale=2.0"]),
        (lambda: families.get("poisson(rate=2)"), ["none", "rate=2"]),
        (lambda: families.get(families.Poisson(), r=2), ["Poisson()", "r"]),
        (lambda: families.get("gamma(shape)"), ["key=value", "shape"]),
        (lambda: families.Gamma(-1.0), ["0 < shape", "-1.0"]),
        (lambda: families.Gaussian(0.0), ["0 < sigma", "0.0"]),
        (lambda: families.Gaussian(math.nan), ["0 < sigma", "nan"]),
        (lambda: families.Binomial(2.5), ["whole number", "2.5"]),
        (lambda: families.Binomial(0), ["1 <= n", "0"]),
        (lambda: families.NegativeBinomial(math.inf), ["0 < r", "inf"]),
        (lambda: families.InverseGaussian(-3), ["0 < lam", "-3"]),
    ],
)
def test_errors(call: Callable[[], object], words: list[str]) -> None:
    refused(call, *words)
