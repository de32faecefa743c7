"""Sticky splits: the unit is the user, by sums of buckets of users."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import pytest

from hellinger.experiment import Clusters, Pages, Phase, Totals, lift_bounds, order_evidence, rate_bounds, readout
from hellinger.experiment._clusters import half_width, log_evidence, measured

Floats = npt.NDArray[np.float64]
EVEN = {"a": 1.0, "b": 1.0}


def users(rng: np.random.Generator, number: int, rankings: int, rate: float, spread: float = 10.0) -> Clusters:
    """Users of rates of their own, who see ten slots a ranking."""
    bucket = rng.integers(0, 1024, number)
    own = rng.beta(spread * rate, spread * (1.0 - rate), number)
    impressions = np.bincount(bucket, np.full(number, 10.0 * rankings), 1024).astype(float)
    return Clusters(impressions, np.bincount(bucket, rng.binomial(10 * rankings, own), 1024).astype(float))


def totals(name: str, clusters: Clusters, number: int | None = None) -> Totals:
    impressions, reward = int(clusters.impressions.sum()), float(clusters.reward.sum())
    pages = Pages(impressions // 10, max(reward, reward * reward / (impressions // 10)) * 1.4, 10, 10)
    return Totals(name, impressions // 10, impressions, reward, pages, number, clusters)


def test_users_who_come_again_make_intervals_wider() -> None:
    rng = np.random.default_rng(1)
    one, other = (totals(name, users(rng, 2000, 30, 0.05), 2000) for name in "ab")
    loose, tight = readout([one, other], sticky=True), readout([t._replace(clusters=None) for t in (one, other)])
    for wide, narrow in zip(loose.variants, tight.variants, strict=True):
        assert wide.high - wide.low > 3.0 * (narrow.high - narrow.low)
        # 300 impressions a user, of correlation 1/11
        assert wide.design_effect == pytest.approx(1.0 + 299.0 / 11.0, rel=0.2)
        assert narrow.design_effect < 2.0
    assert loose.check is not None
    assert not loose.check.alarm


def test_independent_users_cost_little() -> None:
    rng = np.random.default_rng(2)
    one, other = (totals(name, users(rng, 20_000, 1, rate, 1e9)) for name, rate in (("a", 0.055), ("b", 0.05)))
    wide, narrow = (
        lift_bounds([x], [y]) for x, y in ((one, other), (one._replace(clusters=None), other._replace(clusters=None)))
    )
    assert wide[1] - wide[0] < narrow[1] - narrow[0]
    assert one.design_effect == pytest.approx(1.0, abs=0.15)
    assert order_evidence([one], [other])[0] > math.log(40.0)
    assert order_evidence([other], [one])[0] < 0.0


def test_the_boundary_is_that_of_the_mixture() -> None:
    # a value is left out when the evidence against it, from either side, reaches 2/α
    information = np.array([3.0, 100.0, 1e4, 1e8])
    ends = half_width(information, 0.05)
    assert log_evidence(ends, information) == pytest.approx(math.log(2 / 0.05), abs=0.01)
    # one-sided evidence is a mixture over values above 0 of likelihood ratios
    tilts = np.linspace(0.0, 1.0, 200_001)[1:]
    law = 2.0 * np.sqrt(100.0 / (2.0 * np.pi)) * np.exp(-50.0 * tilts**2)
    for score, known in ((5.0, 30.0), (-20.0, 500.0)):
        mixture = np.trapezoid(law * np.exp(tilts * score - 0.5 * tilts**2 * known), tilts)
        assert log_evidence(np.array(score / known), np.array(known)) == pytest.approx(math.log(mixture), abs=1e-3)


def test_nothing_is_said_while_buckets_are_few() -> None:
    few = users(np.random.default_rng(3), 60, 1000, 0.05)
    one = totals("a", few)
    assert [end[0] for end in rate_bounds([one])] == [0.0, 1.0]
    assert [end[0] for end in lift_bounds([one], [one])] == [-1.0, math.inf]
    assert order_evidence([one], [one])[0] == pytest.approx(0.0)
    nothing = Totals("b", 0, 0, 0.0, clusters=Clusters(np.zeros(1024), np.zeros(1024)))
    assert [end[0] for end in rate_bounds([nothing])] == [0.0, 1.0]
    assert readout([one, nothing], sticky=True).verdict.kind == "early"
    assert readout([nothing, nothing._replace(variant="c")], sticky=True).verdict.kind == "empty"


def test_a_user_who_moves_stays_in_their_bucket() -> None:
    # the same users under both, one phase each with more: what is theirs drops out of the comparison
    clusters = users(np.random.default_rng(4), 5000, 10, 0.05)
    _, alone = measured(clusters)
    estimate, known = measured(clusters, Clusters(clusters.impressions, 1.1 * clusters.reward))
    assert estimate == pytest.approx(-math.log(1.1))
    assert known > 1e6 * alone or known == 0.0


def test_phases_add_up_by_bucket() -> None:
    rng = np.random.default_rng(5)
    parts = [[totals(name, users(rng, 3000, 5, 0.05), 3000) for name in "ab"] for _ in range(2)]
    result = readout([Phase(EVEN, tuple(part)) for part in parts], sticky=True)
    whole = [
        totals(name, Clusters(*(x + y for x, y in zip(first.clusters, second.clusters, strict=True))), 6000)
        for name, first, second in zip("ab", *parts, strict=True)
        if first.clusters is not None and second.clusters is not None
    ]
    plain = readout(whole, sticky=True)
    for one, other in zip(result.variants, plain.variants, strict=True):
        assert (one.low, one.high, one.design_effect) == pytest.approx((other.low, other.high, other.design_effect))
        assert one.lift_low == pytest.approx(other.lift_low)


def test_the_leader_and_the_forecast_count_users() -> None:
    rng = np.random.default_rng(6)
    better, worse = (totals(name, users(rng, 20_000, 5, rate), 20_000) for name, rate in (("a", 0.06), ("b", 0.05)))
    assert readout([better, worse], sticky=True).verdict.kind == "order"
    little = totals("a", users(rng, 600, 30, 0.06), 600)
    open_yet = readout([little, totals("b", users(rng, 600, 30, 0.05), 600)], sticky=True)
    assert open_yet.verdict.kind == "open"
    assert "more requests would tell" in open_yet.sentence


@pytest.mark.parametrize(
    ("clusters", "words"),
    [
        (Clusters(np.array([5.0, 5.0]), np.array([1.0])), "one sum a bucket"),
        (Clusters(np.array([5.0, 5.0]), np.array([6.0, -5.0])), "0 <= reward <= impressions in every bucket"),
        (Clusters(np.array([5.0, 6.0]), np.array([1.0, 0.0])), "buckets add up to the impressions"),
        (Clusters(np.array([5.0, 5.0]), np.array([1.0, 1.0])), "buckets add up to the reward"),
    ],
)
def test_what_cannot_have_been_counted(clusters: Clusters, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        rate_bounds([Totals("a", 10, 10, 1.0, clusters=clusters)])


def test_all_variants_have_the_same_buckets() -> None:
    one, other = (Totals("a", 10, n, 0.0, clusters=Clusters(np.ones(n), np.zeros(n))) for n in (10, 12))
    with pytest.raises(ValueError, match="as many buckets"):
        lift_bounds([one], [other])
