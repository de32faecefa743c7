"""Bounds against an independent evaluation in 40 digits, their limits, and what they must never do."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal

import mpmath as mp
import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from hellinger import families, theory
from hellinger.theory import bounds

PAPER_BERNOULLI = [0.01] * 3 + [0.02] * 3 + [0.05] * 3 + [0.1]
PAPER_POISSON = [0.03, 0.03, 0.04, 0.04, 0.05, 0.05, 0.1]
FORMS: tuple[bounds.Form, ...] = ("appendix", "printed", "corrected")

Pair = Callable[[Any, Any], Any]


def _bernoulli_kl(p: Any, q: Any) -> Any:
    return p * mp.log(p / q) + (1 - p) * mp.log((1 - p) / (1 - q))


def _bernoulli_b(p: Any, q: Any) -> Any:
    return -mp.log(mp.sqrt(p * q) + mp.sqrt((1 - p) * (1 - q)))


KL: dict[str, Pair] = {
    "bernoulli": _bernoulli_kl,
    "poisson": lambda p, q: q - p + p * mp.log(p / q),
    "gaussian(sigma=2)": lambda p, q: (q - p) ** 2 / 8,
    "exponential": lambda p, q: p / q - 1 - mp.log(p / q),
}
B: dict[str, Pair] = {
    "bernoulli": _bernoulli_b,
    "poisson": lambda p, q: (mp.sqrt(p) - mp.sqrt(q)) ** 2 / 2,
    "gaussian(sigma=2)": lambda p, q: (q - p) ** 2 / 32,
    "exponential": lambda p, q: mp.log((p + q) / (2 * mp.sqrt(p * q))),
}
PROBLEMS = {
    "bernoulli": [0.1, 0.5, 0.45],
    "poisson": [0.1, 0.5, 0.45],
    "gaussian(sigma=2)": [-1.0, 3.0, 2.5],
    "exponential": [0.1, 0.5, 0.45],
}


def _exact_bound(name: str, low: float, best: float, c: float, horizon: int, epsilon: float, form: str) -> float:
    """E[N] ≤ … term by term as docs/theory.md writes it, for two arms, by plain sums."""
    with mp.workdps(40):
        a, b, cc, eps, log_t = mp.mpf(low), mp.mpf(best), mp.mpf(c), mp.mpf(epsilon), mp.log(horizon)
        h2 = 1 - mp.exp(-B[name](a, b))
        c1 = -cc / mp.log(1 - h2 / (1 + eps))
        c2 = (mp.sqrt(1 + eps) - 1) ** 2 / (1 + eps)
        if form == "corrected":
            target = -mp.log(1 - h2 / (1 + eps))
            middle = mp.findroot(lambda m: B[name](m, b) - target, (a, b), solver="anderson", tol=1e-60)
            d = KL[name](middle, a)
            total = 1 + c1 * log_t + mp.exp(-c1 * log_t * d) / (1 - mp.exp(-d))
            for t in range(3, horizon + 1):
                total += min(1, mp.e * mp.ceil(2 * cc * mp.log(t) ** 2) * mp.mpf(t) ** (-2 * cc))
            return float(total)
        rest = mp.exp(-2 * h2) / (1 - mp.exp(-2 * h2)) + mp.fsum(mp.mpf(t) ** (-2 * cc) for t in range(1, horizon + 1))
        if form == "printed":
            return float(c1 * log_t + c1 / mp.mpf(horizon) ** c2 + rest)
        return float(c1 * log_t + 1 / (c2 * h2) / mp.mpf(horizon) ** (2 * c1 * c2 * h2) + rest)


@pytest.mark.parametrize("name", PROBLEMS)
def test_rates_and_lai_robbins(name: str) -> None:
    means = PROBLEMS[name]
    best = max(means)
    kl = [float(1 / KL[name](mp.mpf(m), mp.mpf(best))) if m < best else math.inf for m in means]
    hellinger = [float(0.3 / B[name](mp.mpf(m), mp.mpf(best))) if m < best else math.inf for m in means]
    np.testing.assert_allclose(theory.kl_rates(means, family=name), kl, rtol=1e-13)
    np.testing.assert_allclose(theory.hellinger_rates(means, family=name, c=0.3), hellinger, rtol=1e-13)
    expected = sum((best - m) * rate for m, rate in zip(means, kl, strict=True) if m < best)
    assert theory.lai_robbins(means, family=name) == pytest.approx(expected, rel=1e-13)


def test_lai_robbins_of_the_papers_problems() -> None:
    # made with mpmath at 40 digits from the formulas above
    assert theory.lai_robbins(PAPER_BERNOULLI) == pytest.approx(17.445174131189447, rel=1e-13)
    assert theory.lai_robbins(PAPER_POISSON, family="poisson") == pytest.approx(15.789459518477845, rel=1e-13)
    for means, name in ((PAPER_BERNOULLI, "bernoulli"), (PAPER_POISSON, "poisson")):
        exact = sum((0.1 - m) / KL[name](mp.mpf(m), mp.mpf(0.1)) for m in means[:-1])
        assert theory.lai_robbins(means, family=name) == pytest.approx(float(exact), rel=1e-13)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize(("c", "epsilon"), [(0.27, 0.05), (0.5, 1.0), (0.8, 30.0)])
def test_theorem(name: str, form: bounds.Form, c: float, epsilon: float) -> None:
    low, best = PROBLEMS[name][0], PROBLEMS[name][1]
    bound = theory.pulls_bound([low, best], family=name, c=c, horizon=700, epsilon=epsilon, form=form)
    assert bound[1] == 700.0
    assert bound[0] == pytest.approx(_exact_bound(name, low, best, c, 700, epsilon, form), rel=1e-10)


@pytest.mark.parametrize("form", ["appendix", "corrected"])
@pytest.mark.parametrize(("c", "horizon"), [(0.27, 1_000), (0.5, 10_000), (0.5, 10**9)])
def test_best_epsilon_is_the_minimum(form: bounds.Form, c: float, horizon: int) -> None:
    means = [0.1, 0.5]

    def value(log_epsilon: float) -> float:
        epsilon = math.exp(log_epsilon)
        return float(theory.pulls_bound(means, c=c, horizon=horizon, epsilon=epsilon, form=form)[0])

    best = float(theory.best_epsilon(means, c=c, horizon=horizon, form=form)[0])
    found = theory.pulls_bound(means, c=c, horizon=horizon, form=form)[0]
    assert found == value(math.log(best))
    reference = minimize_scalar(value, bounds=(math.log(best) - 3, math.log(best) + 3), method="bounded")
    assert found <= reference.fun * (1 + 1e-9)
    assert all(found <= value(x) for x in np.linspace(-12, 12, 97))


def test_printed_form_grows_with_epsilon() -> None:
    bounds = [
        theory.pulls_bound([0.1, 0.5], horizon=1_000, epsilon=e, form="printed")[0]
        for e in (0.0, 1e-6, 0.01, 1.0, 50.0)
    ]
    assert bounds == sorted(bounds)
    assert theory.pulls_bound([0.1, 0.5], horizon=1_000, form="printed")[0] == bounds[0]


@pytest.mark.parametrize("power", [0.5, 0.54, 1.0, 1.0 + 1e-9, 1.5, 2.0])
@pytest.mark.parametrize(("first", "last"), [(1, 1), (1, 63), (1, 64), (1, 65), (7, 10**4), (1, 10**12), (500, 499)])
def test_power_sum(power: float, first: int, last: int) -> None:
    with mp.workdps(40):
        exact = (
            mp.zeta(power, first) - mp.zeta(power, last + 1)
            if power != 1
            else mp.harmonic(last) - mp.harmonic(first - 1)
        )
    assert bounds._power_sum(first, last, power) == pytest.approx(float(exact), rel=2e-14, abs=1e-15)


@pytest.mark.parametrize("c", [0.27, 0.5, 0.8])
@pytest.mark.parametrize("first", [1, 3, 31])
def test_peeled_sum(c: float, first: int) -> None:
    t = np.arange(first, 50_001, dtype=float)
    terms = np.minimum(1.0, math.e * np.maximum(1.0, np.ceil(2 * c * np.log(t) ** 2)) * t ** (-2 * c))
    assert bounds._peeled_sum(first, 50_000, c) == pytest.approx(float(terms.sum()), rel=1e-12)


@pytest.mark.parametrize("form", FORMS)
def test_bounds_grow_with_the_horizon(form: bounds.Form) -> None:
    horizons = [2, 3, 10, 100, 1_000, 10**5, 10**8]
    bounds = [theory.pulls_bound([0.1, 0.5], c=0.5, horizon=t, form=form)[0] for t in horizons]
    assert bounds == sorted(bounds)
    assert len(set(bounds)) == len(bounds)


def test_bound_tends_to_the_leading_constant() -> None:
    rate = theory.hellinger_rates([0.1, 0.5], c=0.75)[0]
    ratios = [theory.pulls_bound([0.1, 0.5], c=0.75, horizon=t)[0] / math.log(t) / rate for t in (1e4, 1e30, 1e300)]
    assert ratios == sorted(ratios, reverse=True)
    assert 1.0 < ratios[-1] < 1.2
    epsilons = [theory.best_epsilon([0.1, 0.5], c=0.75, horizon=t)[0] for t in (1e4, 1e30, 1e300)]
    assert epsilons == sorted(epsilons, reverse=True)


def test_corrected_bound_is_the_dearer_where_both_are_claimed() -> None:
    # peeling costs a factor e·⌈2c·log²t⌉, far more than the sharper Chernoff terms give back
    for means in ([0.1, 0.5], PAPER_BERNOULLI):
        assert theory.regret_bound(means, c=0.5, horizon=10_000, form="corrected") > theory.regret_bound(
            means, c=0.5, horizon=10_000
        )


def test_regret_bound_sums_gaps_times_pulls() -> None:
    pulls = theory.pulls_bound(PAPER_BERNOULLI, horizon=10_000)
    expected = sum((0.1 - m) * n for m, n in zip(PAPER_BERNOULLI, pulls, strict=True))
    assert theory.regret_bound(PAPER_BERNOULLI, horizon=10_000) == pytest.approx(expected, rel=1e-13)


@pytest.mark.parametrize("form", ["appendix", "printed"])
def test_further_initial_pulls_are_added(form: bounds.Form) -> None:
    one, three = (theory.pulls_bound([0.1, 0.5], horizon=500, form=form, init=i)[0] for i in (1, 3))
    assert three == pytest.approx(one + 2, rel=1e-14)


def test_order_of_arms_and_equal_arms() -> None:
    means = np.array([0.3, 0.5, 0.1, 0.5])
    order = np.array([2, 3, 0, 1])
    for function in (theory.hellinger_rates, theory.kl_rates):
        np.testing.assert_array_equal(function(means)[order], function(means[order]))
    bound = theory.pulls_bound(means, horizon=1_000)
    np.testing.assert_array_equal(bound[order], theory.pulls_bound(means[order], horizon=1_000))
    assert bound[1] == bound[3] == 1_000
    assert np.isnan(theory.best_epsilon(means, horizon=1_000)[[1, 3]]).all()


def test_problems_without_a_suboptimal_arm() -> None:
    for means in ([0.3], [0.3, 0.3]):
        assert theory.lai_robbins(means) == 0.0
        assert theory.consistency_threshold(means) == 0.0
        assert theory.regret_bound(means, horizon=100) == 0.0
        assert theory.dashed_bound(means, horizon=100) == 0.0


def test_family_given_by_name_or_itself() -> None:
    means = [1.0, 2.0]
    assert theory.lai_robbins(means, family="gamma(shape=2)") == theory.lai_robbins(means, family=families.Gamma(2.0))
    assert theory.regret_bound([0.1, 0.5], family="binomial(n=1)", horizon=99) == theory.regret_bound(
        [0.1, 0.5], horizon=99
    )


# The threshold of c ----------------------------------------------------------------------------------


@pytest.mark.parametrize("family", [f for cls in families.available().values() for f in cls.cases()], ids=repr)
def test_threshold_is_at_most_one_half_and_about_one_quarter_nearby(family: families.Family) -> None:
    low, high = family.mean_bounds
    centre = 0.3 * high if high < math.inf else 1.3
    spread = math.sqrt(family.variance(centre))
    assert theory.consistency_threshold([centre, centre + 1e-4 * spread], family=family) == pytest.approx(
        0.25, rel=1e-3
    )
    for step in (0.1, 0.5, 0.999):
        lower = centre - step * (centre - low if low > -math.inf else 5.0)
        assert 0 < theory.consistency_threshold([lower, centre], family=family) <= 0.5


def test_threshold_separates_the_rates() -> None:
    threshold = theory.consistency_threshold(PAPER_BERNOULLI)
    kl = theory.kl_rates(PAPER_BERNOULLI)[:-1]
    assert (theory.hellinger_rates(PAPER_BERNOULLI, c=threshold * (1 + 1e-12))[:-1] >= kl).all()
    assert (theory.hellinger_rates(PAPER_BERNOULLI, c=threshold * (1 - 1e-12))[:-1] < kl).any()
    exact = _bernoulli_b(mp.mpf(0.01), mp.mpf(0.1)) / _bernoulli_kl(mp.mpf(0.01), mp.mpf(0.1))
    assert threshold == pytest.approx(float(exact), rel=1e-13)


def test_threshold_at_the_ends() -> None:
    assert theory.consistency_threshold([0.0, 0.1]) == 0.5  # B(0, q) = −½·log(1 − q), half of KL
    assert theory.consistency_threshold([0.0, 3.0], family="poisson") == 0.5
    assert theory.consistency_threshold([0.2, 1.0]) == 0.0  # KL is infinite: one failure tells
    assert theory.consistency_threshold([0.0, 1.0]) == 0.0


# The paper's figures ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "means"), [("bernoulli", PAPER_BERNOULLI), ("poisson", PAPER_POISSON)])
@pytest.mark.parametrize("ball", ["hellinger", "kl"])
def test_dashed_lines(name: str, means: list[float], ball: Literal["hellinger", "kl"]) -> None:
    arms = len(means)
    rate = sum(
        (0.1 - m)
        * float(
            (0.25 / B[name](mp.mpf(m), mp.mpf(0.1))) if ball == "hellinger" else 1 / KL[name](mp.mpf(m), mp.mpf(0.1))
        )
        for m in means[:-1]
    )
    offset = 3 * sum(0.1 - m for m in means)
    t = np.array([1, 3 * arms, 3 * arms + 1, 3 * arms + 2, 10_000])
    expected = offset + rate * np.array([0.0, 0.0, 0.0, math.log(2), math.log(10_000 - 3 * arms)])
    np.testing.assert_allclose(theory.dashed_bound(means, family=name, horizon=t, ball=ball), expected, rtol=1e-12)


def test_dashed_line_of_a_number_is_a_number() -> None:
    assert float(theory.dashed_bound([0.1, 0.2], horizon=50)) > 0
    assert theory.dashed_bound([0.1, 0.2], horizon=50, init=0) == pytest.approx(
        0.1 * theory.hellinger_rates([0.1, 0.2], c=0.25)[0] * math.log(50)
    )


# Bad input -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: theory.lai_robbins([]), "means is a list of at least one number"),
        (lambda: theory.lai_robbins([[0.1, 0.2]]), "means is a list of at least one number"),
        (lambda: theory.lai_robbins([0.1, math.nan]), "means are finite"),
        (lambda: theory.lai_robbins([0.1, 1.2]), r"0 <= mean <= 1.*1\.2"),
        (lambda: theory.lai_robbins([0.1], family="cauchy"), "unknown family 'cauchy'"),
        (lambda: theory.hellinger_rates([0.1], c=0), r"`0 < c` must hold, but got c=0"),
        (lambda: theory.pulls_bound([0.1, 0.2], horizon=1), r"init\*arms = 2 <= horizon.*horizon=1"),
        (lambda: theory.pulls_bound([0.1, 0.2], horizon=5, init=3), r"init\*arms = 6 <= horizon.*horizon=5"),
        (lambda: theory.pulls_bound([0.1, 0.2], horizon=math.inf), "horizon=inf"),
        (lambda: theory.pulls_bound([0.1, 0.2], horizon=9, init=0), "1 <= init.*init=0"),
        (lambda: theory.pulls_bound([0.1, 0.2], horizon=9, c=-1), "0 < c.*c=-1"),
        (lambda: theory.pulls_bound([0.1, 0.2], horizon=9, epsilon=0), "`0 < epsilon`.*epsilon=0"),
        (lambda: theory.pulls_bound([0.1, 0.2], horizon=9, epsilon=-1, form="printed"), "`0 <= epsilon`.*epsilon=-1"),
        (lambda: theory.pulls_bound([0.1, 0.2], horizon=9, form="best"), "form is one of.*form='best'"),  # type: ignore[arg-type]
        (lambda: theory.dashed_bound([0.1], horizon=0), "1 <= horizon"),
        (lambda: theory.dashed_bound([0.1], horizon=9, init=-1), "0 <= init"),
        (lambda: theory.dashed_bound([0.1], horizon=9, ball="tv"), "unknown ball 'tv'"),  # type: ignore[arg-type]
    ],
)
def test_errors_state_the_rule_and_the_value(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()
