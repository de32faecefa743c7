"""A leaderboard, and a sentence that says no more than is certain."""

from __future__ import annotations

import math

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hellinger.experiment import Pages, Readout, Totals, display_name, lift_bounds, rate_bounds, readout


def variant(name: str, reward: float, requests: int = 10_000) -> Totals:
    return Totals(name, requests, 20 * requests, reward)


def kind(*totals: Totals) -> str:
    return readout(totals).verdict.kind


def test_rows_are_what_was_counted_and_what_it_says() -> None:
    totals = [variant("ucb1", 8_000), variant("hellinger-ucb", 12_300, 10_100), variant("kl-ucb", 10_000)]
    result = readout(totals, control="ucb1")
    assert [row.variant for row in result.variants] == ["hellinger-ucb", "kl-ucb", "ucb1"]
    first, second, last = result.variants
    assert first[:5] == ("hellinger-ucb", 10_100, 202_000, 12_300, 12_300 / 202_000)
    low, high = rate_bounds(totals)
    assert (first.low, first.high) == pytest.approx((low[1], high[1]))
    low, high = lift_bounds(totals[2:], totals[:1])
    assert (second.lift, second.lift_low, second.lift_high) == pytest.approx((0.25, low[0], high[0]))
    assert (last.lift, last.lift_low, last.lift_high) == (None, None, None)
    assert sum(row.probability_best for row in result.variants) == pytest.approx(1.0)
    assert (first.share, first.intended) == (10_100 / 30_100, 1 / 3)
    assert result.control == "ucb1"
    assert result.check is not None
    assert not result.check.alarm
    assert readout(totals).control == "kl-ucb"


def test_json_holds_everything() -> None:
    result = readout([variant("ucb1", 0), variant("kl-ucb", 300), Totals("cold-start", 0, 0, 0)], control="ucb1")
    back = orjson.loads(orjson.dumps(result.as_json()))
    assert back == result.as_json()
    assert back.keys() == {"variants", "control", "confidence", "sample_ratio", "verdict", "sentence"}
    assert back["confidence"] == pytest.approx(0.95)
    rows = {row["variant"]: row for row in back["variants"]}
    assert rows["kl-ucb"]["lift"] is rows["kl-ucb"]["lift_high"] is rows["cold-start"]["rate"] is None
    assert (rows["cold-start"]["low"], rows["cold-start"]["high"]) == (0.0, 1.0)


@pytest.mark.parametrize(
    ("totals", "kind", "sentence"),
    [
        ([], "empty", "Nothing to compare yet: there are no impressions."),
        ([Totals("a", 0, 0, 0), Totals("b", 0, 0, 0)], "empty", "Nothing to compare yet: there are no impressions."),
        ([Totals("cold-start", 0, 0, 0)], "empty", "Cold-start ranks all traffic; no impressions yet."),
        (
            [Totals("cold-start", 10_000, 200_000, 12_300)],
            "single",
            "Cold-start ranks all traffic; its reward rate is 6.2 % (6.0–6.3 %).",
        ),
        (
            [Totals("kl-ucb", 10_000, 200_000, 6)],
            "single",
            "KL-UCB ranks all traffic; its reward rate is 0.003 % (0.000–0.010 %).",
        ),
        ([Totals("kl-ucb", 1, 20, 0)], "single", "KL-UCB ranks all traffic; its reward rate is 0 % (0–28 %)."),
        (
            [variant("ucb1", 9, 99), variant("kl-ucb", 20, 100)],
            "early",
            "Too early to say: UCB1 has had 99 requests, and 100 are wanted.",
        ),
        (
            [variant("ucb1", 9, 200), variant("kl-ucb", 20, 200)],
            "early",
            "Too early to say: KL-UCB and UCB1 have a reward of 29 between them, and 30 is wanted.",
        ),
        (
            [variant("ucb1", 10_000), variant("kl-ucb", 10_400)],
            "open",
            (
                "Too early to say: KL-UCB is ahead of UCB1 by 4 % (−1 to 9 %), which may be chance; "
                "at these rates about 20,000 more requests would tell."
            ),
        ),
        (
            [variant("ucb1", 10_000), variant("kl-ucb", 10_010)],
            "open",
            (
                "Too early to say: KL-UCB is ahead of UCB1 by 0.10 % (−4.92 to 5.39 %), which may be chance; "
                "telling would take far more data."
            ),
        ),
        (
            [variant("ucb1", 400), variant("kl-ucb", 400)],
            "open",
            "Too early to say: UCB1 and KL-UCB are level so far.",
        ),
        (
            [variant("kl-ucb", 100_000, 100_000), variant("hellinger-ucb", 123_000, 100_000)],
            "order",
            (
                "Hellinger-UCB leads KL-UCB by 23 % (21–25 %) so far; chance does not explain it. "
                "A slower learner may still close in."
            ),
        ),
        (
            [variant("ucb1", 9_990), variant("kl-ucb", 10_000), variant("hellinger-ucb", 13_000)],
            "leader",
            (
                "Hellinger-UCB leads KL-UCB by 30 % (24–36 %) so far; chance does not explain it. "
                "The order of the others is open, and a slower learner may still close in."
            ),
        ),
        (
            [variant("ucb1", 0), variant("cold-start", 900)],
            "order",
            "Cold-start leads UCB1 so far; chance does not explain it. A slower learner may still close in.",
        ),
        (
            [variant("ucb1", 10_000), variant("kl-ucb", 13_000, 11_000)],
            "split",
            (
                "The split is off: UCB1 got 47.6 % of the traffic where 50.0 % was intended (p < 0.001); "
                "find out why before trusting any figure."
            ),
        ),
    ],
)
def test_sentences(totals: list[Totals], kind: str, sentence: str) -> None:
    verdict = readout(totals).verdict
    assert verdict.sentence == sentence
    assert verdict.kind == kind


def test_of_many_variants_one_may_look_better_by_chance() -> None:
    several = [variant(f"v{i}", 10_000) for i in range(5)]
    two = readout([variant("new", 10_540), several[0]])
    all_of_them = readout([variant("new", 10_540), *several])
    assert two.verdict.kind == "order"
    assert all_of_them.verdict.kind == "open"
    assert all_of_them.sentence.endswith("but one of 6 variants may look so by chance.")


def test_the_leader_must_beat_all_others() -> None:
    # the second is known so badly that it may be the best
    assert kind(variant("a", 13_000), variant("b", 12_900), variant("c", 9_000)) == "open"
    assert kind(variant("a", 13_000), variant("b", 9_100), variant("c", 9_000)) == "leader"
    assert kind(variant("a", 13_000), variant("b", 11_000), variant("c", 9_000)) == "order"


def test_clumped_rewards_make_it_careful() -> None:
    def clumped(name: str, reward: float, squares: float) -> Totals:
        return Totals(name, 10_000, 200_000, reward, Pages(10_000, squares, 20))

    assert kind(clumped("a", 10_700, 22_000.0), clumped("b", 10_000, 20_000.0)) == "order"
    assert kind(clumped("a", 10_700, 70_000.0), clumped("b", 10_000, 65_000.0)) == "open"
    loose = readout([clumped("a", 10_700, 70_000.0), clumped("b", 10_000, 65_000.0)]).variants
    tight = readout([clumped("a", 10_700, 22_000.0), clumped("b", 10_000, 20_000.0)]).variants
    assert loose[0].probability_best < tight[0].probability_best
    assert loose[0].design_effect == pytest.approx((70_000 - 10_700**2 / 10_000) / (10_700 * (1 - 10_700 / 200_000)))


def test_a_sticky_split_is_checked_by_users() -> None:
    requests = [Totals("a", 1_000, 20_000, 900, users=500), Totals("b", 2_000, 40_000, 1_900, users=505)]
    assert kind(*requests) == "split"
    by_user = readout(requests, sticky=True)
    assert by_user.check is not None
    assert not by_user.check.alarm
    unknown = readout([each._replace(users=None) for each in requests], sticky=True)
    assert unknown.check is None
    assert unknown.as_json()["sample_ratio"] is None


def test_intended_shares() -> None:
    totals = [variant("a", 9_000), variant("b", 3_000, 3_333)]
    assert kind(*totals) == "split"
    weighted = readout(totals, weights={"a": 3, "b": 1})
    assert weighted.verdict.kind != "split"
    assert {row.variant: row.intended for row in weighted.variants} == {"a": 0.75, "b": 0.25}


def test_a_variant_that_was_switched_off_does_not_hold_up_the_others() -> None:
    totals = [variant("a", 9_000), variant("b", 6_000), Totals("off", 0, 0, 0)]
    result = readout(totals, weights={"a": 1, "b": 1, "off": 0})
    assert result.verdict.kind == "order"
    assert [row.variant for row in result.variants] == ["a", "b", "off"]


@st.composite
def anything(draw: st.DrawFn) -> list[Totals]:
    names = ["hellinger-ucb", "kl-ucb", "ucb1", "cold-start", "uniform"][: draw(st.integers(1, 5))]
    result = []
    for name in names:
        requests = draw(st.integers(0, 10) | st.integers(0, 10**7))
        slots = draw(st.integers(1, 20))
        share = draw(st.floats(0, 1) | st.just(0.05))
        reward = float(round(requests * slots * share))
        pages = None
        if draw(st.booleans()):
            least, most = reward**2 / max(requests, 1), slots * reward
            pages = Pages(requests, least + (most - least) * draw(st.floats(0, 1)), slots)
        result.append(Totals(name, requests, requests * slots, reward, pages))
    return result


@settings(max_examples=40, deadline=None)
@given(anything())
def test_whatever_was_counted_something_is_said(totals: list[Totals]) -> None:
    result: Readout = readout(totals)
    assert result.sentence.endswith(".")
    assert "nan" not in result.sentence
    assert "inf" not in result.sentence
    numbers = [value for row in result.variants for value in row if isinstance(value, float)]
    assert all(math.isfinite(value) for value in numbers)
    rates = [row.rate for row in result.variants if row.rate is not None]
    assert rates == sorted(rates, reverse=True)
    assert sum(row.probability_best for row in result.variants) == pytest.approx(1.0)


def test_what_cannot_be_read() -> None:
    with pytest.raises(ValueError, match="variants differ"):
        readout([variant("a", 1), variant("a", 1)])
    with pytest.raises(ValueError, match="the control is one of the variants"):
        readout([variant("a", 1)], control="b")
    with pytest.raises(ValueError, match="every variant has a weight"):
        readout([variant("a", 1)], weights={"b": 1.0})
    with pytest.raises(ValueError, match="0 < alpha < 1"):
        readout([variant("a", 1), variant("b", 1)], alpha=0.0)


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("epsilon-greedy", "Epsilon-greedy"),
        ("hellinger-imed", "Hellinger-IMED"),
        ("kl-ucb-switch", "KL-UCB-switch"),
        ("moss-anytime", "MOSS-anytime"),
        ("my_rule", "my_rule"),
        ("", ""),
    ],
)
def test_names(name: str, written: str) -> None:
    assert display_name(name) == written
