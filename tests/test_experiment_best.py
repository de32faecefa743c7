"""The probability of being best, against exact sums and integrals."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf
from scipy.special import betaln, logsumexp, ndtr

from hellinger.experiment import probability_best

few = settings(max_examples=60, deadline=None)


def by_sum(s1: int, f1: int, s2: int, f2: int) -> float:
    """P(first is below second) of two Beta laws with whole parameters, as a finite sum."""
    a1, b1, a2, b2 = s1 + 1, f1 + 1, s2 + 1, f2 + 1
    i = np.arange(a2)
    terms = betaln(a1 + i, b1 + b2) - np.log(b2 + i) - betaln(1 + i, b2) - betaln(a1, b1)
    return float(np.exp(logsumexp(terms)))


@pytest.mark.parametrize(
    "counts",
    [(12, 188, 10, 190), (0, 10, 5, 0), (0, 3, 0, 400), (3000, 57_000, 3100, 57_000), (1, 1, 40, 2000), (7, 0, 7, 0)],
)
def test_two_variants(counts: tuple[int, int, int, int]) -> None:
    s1, f1, s2, f2 = counts
    assert probability_best([s1, s2], [f1, f2])[1] == pytest.approx(by_sum(*counts), rel=1e-9, abs=1e-13)


@pytest.mark.parametrize(
    ("successes", "failures"),
    [([12, 10, 8], [188, 190, 192]), ([0, 1, 30], [5, 100, 500]), ([2.5, 0.4, 1.7], [40.0, 9.5, 30.0])],
)
def test_three_variants(successes: list[float], failures: list[float]) -> None:
    laws = list(zip(successes, failures, strict=True))
    with mp.workdps(20):

        def density(x: mpf, i: int) -> mpf:
            (s, f), others = laws[i], laws[:i] + laws[i + 1 :]
            below = mp.fprod(mp.betainc(a + 1, b + 1, 0, x, regularized=True) for a, b in others)
            return x**s * (1 - x) ** f / mp.beta(s + 1, f + 1) * below

        points = [0, 0.01, 0.05, 0.1, 0.2, 0.5, 1]
        exact = [float(mp.quad(lambda x, i=i: density(x, i), points, maxdegree=5)) for i in range(3)]
    assert probability_best(successes, failures) == pytest.approx(exact, rel=1e-6)


@pytest.mark.parametrize("millions", [1, 100, 10_000])
def test_as_exact_for_billions_as_for_ten(millions: int) -> None:
    n, p = millions * 10**6, 0.05
    for step in (-2.0, -0.5, 0.0, 1.0, 5.0):
        q = p + step * math.sqrt(2 * p * (1 - p) / n)
        z = (q - p) / math.sqrt((p * (1 - p) + q * (1 - q)) / n)
        got = probability_best([n * p, n * q], [n * (1 - p), n * (1 - q)])
        assert got[1] == pytest.approx(ndtr(z), rel=10.0 / math.sqrt(n))


@few
@given(st.lists(st.tuples(st.floats(0, 1e9), st.floats(0, 1e9)), min_size=1, max_size=6))
def test_probabilities(laws: list[tuple[float, float]]) -> None:
    successes, failures = (list(column) for column in zip(*laws, strict=True))
    chances = probability_best(successes, failures)
    assert np.all((chances >= 0.0) & (chances <= 1.0))
    assert chances.sum() == pytest.approx(1.0, abs=1e-12)
    backwards = probability_best(successes[::-1], failures[::-1])
    assert backwards[::-1] == pytest.approx(chances, abs=1e-9)
    twice = probability_best([*successes, successes[0]], [*failures, failures[0]])
    assert twice[0] == pytest.approx(twice[-1], abs=1e-12)


def test_what_is_out_of_the_question_is_not_less_than_that() -> None:
    assert np.all(probability_best([8_100, 10_000, 12_300], [191_900, 191_000, 186_900]) >= 0.0)


def test_before_anything_is_known_all_are_alike() -> None:
    assert probability_best([0, 0, 0, 0], [0, 0, 0, 0]) == pytest.approx([0.25] * 4)


def test_what_is_no_count() -> None:
    with pytest.raises(ValueError, match="0 <= successes"):
        probability_best([-1], [1])
    with pytest.raises(ValueError, match="as many failures"):
        probability_best([1, 2], [1])
