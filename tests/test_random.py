"""Random numbers by counter: known words, independent streams, and every family's rewards against their exact law."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import numpy.typing as npt
import pytest
from scipy import stats

from hellinger import _random, families
from hellinger.families import _dispatch

Floats = npt.NDArray[np.float64]
Words = npt.NDArray[np.uint64]
SIZE = 20_000


@numba.njit  # type: ignore[untyped-decorator]
def words(state: np.uint64, out: Words) -> None:
    for j in range(out.size):
        out[j] = _random.word(state, np.uint64(j))


@numba.njit  # type: ignore[untyped-decorator]
def streams(state: np.uint64, out: Words) -> None:
    for name in range(out.size):
        out[name] = _random.stream(state, np.uint64(name))


@numba.njit  # type: ignore[untyped-decorator]
def draws(family: Any, mean: float, state: np.uint64, out: Floats) -> None:
    for j in range(out.size):
        out[j] = _dispatch.draw(family, mean, _random.word(state, np.uint64(j)))


def drawn(spec: str, mean: float, *, seed: int = 1, size: int = SIZE) -> Floats:
    out = np.empty(size)
    draws(families.get(spec), float(mean), np.uint64(seed), out)
    return out


# Words -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seed", "known"),
    [
        (0, [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F, 0xF88BB8A8724C81EC]),
        (1234567, [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431]),
    ],
)
def test_words_are_splitmix64(seed: int, known: list[int]) -> None:
    out = np.empty(5, np.uint64)
    words(np.uint64(seed), out)
    assert out[1:].tolist() == known


def test_a_word_needs_no_word_before_it() -> None:
    out = np.empty(1000, np.uint64)
    words(np.uint64(9), out)
    assert all(int(_random.word(np.uint64(9), np.uint64(j))) == int(out[j]) for j in (999, 0, 500, 17))


@pytest.mark.parametrize("parent", [0, 1, 2**63])
def test_streams_are_independent(parent: int) -> None:
    roots = np.empty(2**16, np.uint64)
    streams(np.uint64(parent), roots)
    assert np.unique(roots).size == roots.size
    for shift in range(0, 64, 8):  # every byte of the streams' states is uniform
        counts = np.bincount((roots >> np.uint64(shift)).astype(np.uint8), minlength=256)
        assert stats.chisquare(counts).pvalue > 1e-4
    flipped = np.bitwise_count(roots[1:] ^ roots[:-1]).astype(float)
    assert abs(flipped.mean() - 32) < 4 * 4 / np.sqrt(flipped.size)
    table = np.empty((64, 1024), np.uint64)
    for row, root in zip(table, roots[:64], strict=True):
        words(root, row)
    assert np.unique(table).size == table.size
    correlation = np.corrcoef((table >> np.uint64(11)) * 2.0**-53)
    off = correlation[np.triu_indices(64, 1)] * np.sqrt(1024)
    assert np.abs(off).max() < 5
    assert stats.kstest(off, "norm").pvalue > 1e-4


def test_uniform_numbers_stay_within_their_ends() -> None:
    last = np.uint64(2**64 - 1)
    assert _random.uniform(np.uint64(0)) == 0.0
    assert 1 - 2**-52 < _random.uniform(last) < 1.0
    assert 0.0 < _random.positive(np.uint64(0)) < 2**-52
    assert _random.positive(last) == 1.0


# Laws ------------------------------------------------------------------------------------------------


def secant(mean: float) -> Any:
    """Distribution function of the hyperbolic secant law, by integration of its density cos θ·e^(θx)/(2 cosh(πx/2))."""
    theta = np.arctan(mean)
    x = np.linspace(-300, 300, 600_001)
    density = np.cos(theta) * np.exp(theta * x - np.pi / 2 * np.abs(x)) / (1 + np.exp(-np.pi * np.abs(x)))
    heights = np.concatenate([[0.0], np.cumsum((density[1:] + density[:-1]) / 2 * (x[1] - x[0]))])
    assert heights[-1] == pytest.approx(1, abs=1e-6)
    return lambda at: np.interp(at, x, heights)


CONTINUOUS = [
    ("gaussian(sigma=2)", -1.0, stats.norm(-1, 2).cdf),
    ("exponential", 3.0, stats.expon(scale=3).cdf),
    ("gamma(shape=0.3)", 2.0, stats.gamma(0.3, scale=2 / 0.3).cdf),
    ("gamma(shape=2)", 0.01, stats.gamma(2, scale=0.005).cdf),
    ("gamma(shape=50)", 2.0, stats.gamma(50, scale=0.04).cdf),
    ("inverse-gaussian(lam=2)", 0.5, stats.invgauss(0.25, scale=2).cdf),
    ("inverse-gaussian(lam=2)", 40.0, stats.invgauss(20, scale=2).cdf),
    ("hyperbolic-secant", 0.0, secant(0)),
    ("hyperbolic-secant", 3.0, secant(3)),
    ("hyperbolic-secant", -8.0, secant(-8)),
]

COUNTS = [
    ("bernoulli", 0.003, stats.bernoulli(0.003)),
    ("bernoulli", 0.5, stats.bernoulli(0.5)),
    ("binomial(n=20)", 3.0, stats.binom(20, 0.15)),
    ("binomial(n=1000)", 2.0, stats.binom(1000, 0.002)),
    ("binomial(n=1000)", 430.0, stats.binom(1000, 0.43)),
    ("binomial(n=1000)", 999.0, stats.binom(1000, 0.999)),
    ("poisson", 0.03, stats.poisson(0.03)),
    ("poisson", 5.0, stats.poisson(5)),
    ("poisson", 12.5, stats.poisson(12.5)),
    ("poisson", 500.0, stats.poisson(500)),
    ("poisson", 1e6, stats.poisson(1e6)),
    ("geometric", 0.2, stats.geom(1 / 1.2, loc=-1)),
    ("geometric", 50.0, stats.geom(1 / 51, loc=-1)),
    ("negative-binomial(r=0.5)", 3.0, stats.nbinom(0.5, 0.5 / 3.5)),
    ("negative-binomial(r=4)", 1000.0, stats.nbinom(4, 4 / 1004)),
]


@pytest.mark.parametrize(("spec", "mean", "cdf"), CONTINUOUS, ids=lambda value: str(value)[:24])
def test_rewards_follow_their_law(spec: str, mean: float, cdf: Any) -> None:
    values = drawn(spec, mean)
    assert stats.kstest(values, cdf).pvalue > 1e-3
    if abs(mean) < 5:  # elsewhere the tail decides the mean
        assert abs(values.mean() - mean) < 4 * values.std() / np.sqrt(SIZE)


@pytest.mark.parametrize(("spec", "mean", "law"), COUNTS, ids=lambda value: str(value)[:24])
def test_counts_follow_their_law(spec: str, mean: float, law: Any) -> None:
    values = drawn(spec, mean)
    assert np.array_equal(values, np.floor(values))
    assert law.mean() == pytest.approx(mean)
    edges = np.unique(law.ppf(np.linspace(0, 1, 41)[1:-1]))
    observed = np.bincount(np.searchsorted(edges, values), minlength=edges.size + 1)
    expected = SIZE * np.diff(np.concatenate([[0.0], law.cdf(edges), [1.0]]))
    keep = expected > 0
    assert observed[~keep].sum() == 0
    assert stats.chisquare(observed[keep], expected[keep]).pvalue > 1e-3
    assert abs(values.mean() - mean) < 4 * law.std() / np.sqrt(SIZE)
    assert abs(values.var() / law.var() - 1) < 0.1 or law.var() < 0.1


@pytest.mark.parametrize("spec", [spec for spec, *_ in CONTINUOUS[::3] + COUNTS[::3]])
def test_successive_rewards_and_neighbouring_arms_are_independent(spec: str) -> None:
    mean = 0.7
    values = stats.rankdata(drawn(spec, mean))
    limit = 4 / np.sqrt(SIZE)
    assert abs(np.corrcoef(values[1:], values[:-1])[0, 1]) < limit
    roots = np.empty(2, np.uint64)
    streams(np.uint64(3), roots)
    other = stats.rankdata(drawn(spec, mean, seed=int(roots[1])))
    assert abs(np.corrcoef(stats.rankdata(drawn(spec, mean, seed=int(roots[0]))), other)[0, 1]) < limit


@pytest.mark.parametrize("name", families.available())
def test_every_family_has_a_law_here(name: str) -> None:
    assert any(spec.partition("(")[0] == name for spec, *_ in CONTINUOUS + COUNTS)


@pytest.mark.parametrize(
    ("spec", "mean", "always"),
    [
        ("bernoulli", 0, 0),
        ("bernoulli", 1, 1),
        ("binomial(n=1000)", 0, 0),
        ("binomial(n=1000)", 1000, 1000),
        ("poisson", 0, 0),
        ("geometric", 0, 0),
        ("negative-binomial(r=4)", 0, 0),
        ("exponential", 0, 0),
        ("gamma(shape=2)", 0, 0),
        ("inverse-gaussian(lam=2)", 0, 0),
    ],
)
def test_rewards_at_the_ends_of_the_means(spec: str, mean: float, always: float) -> None:
    assert set(drawn(spec, mean, size=200)) == {always}


def test_a_reward_is_a_function_of_its_word() -> None:
    whole = drawn("poisson", 500.0, size=100)
    family = families.get("poisson")
    state = np.uint64(1)
    for j in (99, 3, 50):
        assert family._draw(500.0, np.uint64(_random.word(state, np.uint64(j)))) == whole[j]
