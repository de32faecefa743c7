"""ExponentialFamily: known families again from ψ alone, ψ that numba cannot compile, and what is refused."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.special

from hellinger import Bandit, families, policy
from hellinger.families import ExponentialFamily
from hellinger.testing._suite import refused

MEANS = np.array([1e-3, 0.2, 0.7, 0.95])
RADII = np.array([1e-9, 1e-3, 0.1, 2.0])


def agree(mine: families.Family, known: families.Family, tolerance: float) -> None:
    for name in ("hellinger_upper", "kl_upper"):
        got, want = (getattr(f, name)(MEANS[:, None], RADII) for f in (mine, known))
        np.testing.assert_allclose(got, want, rtol=tolerance, atol=0, err_msg=name)
    for name in ("kl", "bhattacharyya", "hellinger2"):
        got, want = (getattr(f, name)(MEANS[:, None], MEANS) for f in (mine, known))
        np.testing.assert_allclose(got, want, rtol=1e-10, atol=0, err_msg=name)
    np.testing.assert_allclose(
        mine.natural(MEANS) - mine.natural(0.5), known.natural(MEANS) - known.natural(0.5), rtol=1e-11
    )
    np.testing.assert_allclose(mine.variance(MEANS), known.variance(MEANS), rtol=1e-7)


def test_bernoulli_from_psi_alone() -> None:
    coin = ExponentialFamily(lambda t: np.log1p(np.exp(t)), mean_bounds=(0, 1))
    agree(coin, families.Bernoulli(), 1e-12)
    assert coin.hellinger_upper(0.0, 0.1) == pytest.approx(families.Bernoulli().hellinger_upper(0.0, 0.1), rel=1e-12)
    assert coin.hellinger_upper(0.9, 4.0) == 1.0


def test_exponential_finds_where_psi_ends() -> None:
    waiting = ExponentialFamily(lambda t: -np.log(-t), mean_bounds=(0, math.inf))
    agree(waiting, families.Exponential(), 1e-12)
    assert waiting._natural_bounds()[1] == pytest.approx(0.0, abs=1e-12)


def test_mean_and_natural_given() -> None:
    counts = ExponentialFamily(np.exp, mean=np.exp, natural=np.log, mean_bounds=(0, math.inf))
    agree(counts, families.Poisson(), 1e-12)


def test_psi_that_cannot_be_compiled() -> None:
    counts = ExponentialFamily(
        lambda t: float(scipy.special.exprel(t) * t + 1.0),
        mean=lambda t: float(scipy.special.exprel(t) * t + 1.0),
        mean_bounds=(0, math.inf),
    )
    np.testing.assert_allclose(
        counts.hellinger_upper(MEANS, 0.1), families.Poisson().hellinger_upper(MEANS, 0.1), rtol=1e-11
    )


def test_two_families_do_not_share_code() -> None:
    one, two = (
        ExponentialFamily(psi, mean_bounds=(0, math.inf)) for psi in (lambda t: np.exp(t), lambda t: 2 * np.exp(t))
    )
    assert one.kl_upper(1.0, 0.1) != two.kl_upper(1.0, 0.1)
    assert one != two


def test_in_a_bandit() -> None:
    family = ExponentialFamily(
        lambda t: np.exp(t), mean_bounds=(0, math.inf), sampler=lambda m, rng, size: rng.poisson(m, size)
    )
    bandit = Bandit(policy("kl-ucb", family=family), arms=3, ties="first")
    twin = Bandit("kl-ucb", arms=3, family="poisson", ties="first")
    rng = np.random.default_rng(0)
    for _ in range(60):
        arm = bandit.select()
        assert arm == twin.select()
        reward = family.sample([0.5, 1.0, 2.0][int(arm)], rng)
        bandit.update(arm, reward)
        twin.update(arm, reward)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: ExponentialFamily(np.exp, mean_bounds=(1, 0)), ["mean_bounds[0] < mean_bounds[1]"]),
        (lambda: ExponentialFamily(lambda t: "text", mean_bounds=(0, 1)), ["one number"]),
        (lambda: ExponentialFamily(lambda t: math.nan * t, mean_bounds=(0, 1)), ["natural_bounds"]),
        (
            lambda: ExponentialFamily(np.exp, mean_bounds=(0, math.inf)).sample(1.0, np.random.default_rng()),
            ["sampler"],
        ),
        (lambda: ExponentialFamily(np.exp, mean_bounds=(0, math.inf)).spec, ["spec", "functions"]),
        (lambda: policy("thompson", family=ExponentialFamily(np.exp, mean_bounds=(0, math.inf))), ["posterior"]),
        (lambda: ExponentialFamily(lambda t: scipy.special.expit(float(t)), mean_bounds=(0, 1)), ["complex", "mean"]),
    ],
)
def test_errors(call: Callable[[], Any], words: list[str]) -> None:
    refused(call, *words)
