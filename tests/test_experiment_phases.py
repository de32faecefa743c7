"""Weights that change within an experiment: variants are compared on the same days, each phase with its own check."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hellinger.experiment import Clusters, Pages, Phase, Totals, lift_bounds, order_evidence, readout, sample_ratio
from hellinger.experiment._crossing import finish
from hellinger.experiment._sides import sides
from hellinger.experiment.ratio import phased_ratio
from hellinger.experiment.sequences import evidence_steps, lift_steps

EVEN = {"new": 1.0, "old": 1.0}
RAMP = ({"new": 1.0, "old": 99.0}, {"new": 1.0, "old": 9.0}, {"new": 1.0, "old": 1.0})


def phase(weights: dict[str, float], requests: int, rate: float, lift: float = 0.0) -> Phase:
    """What one expects of so many requests of 20 slots, the first variant having the lift."""
    whole, totals = sum(weights.values()), []
    for place, (name, weight) in enumerate(weights.items()):
        own = round(requests * weight / whole)
        reward = 20 * own * rate * (1.0 + lift * (place == 0))
        totals.append(Totals(name, own, 20 * own, reward, Pages(own, reward**2 / max(own, 1) + reward, 20, 8)))
    return Phase(weights, tuple(totals))


def test_a_variant_that_had_its_traffic_on_good_days_is_not_the_better() -> None:
    # 1 % of the traffic while rates were high, half of it when they were low, and the other way round
    phases = [phase(RAMP[0], 200_000, 0.08), phase(EVEN, 200_000, 0.04)]
    pooled = []
    for first, second in zip(*(each.totals for each in phases), strict=True):
        requests, reward = first.requests + second.requests, first.reward + second.reward
        pooled.append(Totals(first.variant, requests, 20 * requests, reward))
    assert readout(pooled, weights={"new": 102_000, "old": 298_000}).verdict.kind == "order"
    result = readout(phases)
    assert result.verdict.kind == "open"
    rows = {row.variant: row for row in result.variants}
    assert rows["new"].lift == pytest.approx(0.0, abs=1e-9)
    assert rows["new"].lift_low is not None
    assert rows["new"].lift_high is not None
    assert rows["new"].lift_low < 0.0 < rows["new"].lift_high
    assert rows["new"].probability_best == pytest.approx(0.5, abs=0.01)
    # the rates are those over all phases all the same
    assert rows["new"].rate == pytest.approx(pooled[0].rate)
    assert rows["old"].rate == pytest.approx(pooled[1].rate)


def test_the_better_leads_though_its_rate_over_all_is_lower() -> None:
    phases = [phase(RAMP[0], 200_000, 0.08, 0.2), phase(EVEN, 200_000, 0.04, 0.2)]
    result = readout(phases, control="old")
    first, second = result.variants
    assert (first.variant, result.verdict.kind) == ("new", "order")
    assert first.lift == pytest.approx(0.2)
    assert first.rate is not None
    assert second.rate is not None
    assert first.rate < second.rate
    assert first.probability_best > 0.99
    assert result.sentence.startswith("New leads Old by 20 % (")


def test_phases_of_equal_weights_are_simply_added() -> None:
    parts = [phase(EVEN, 20_000, 0.05, 0.1), phase(EVEN | {"third": 1.0}, 30_000, 0.05, 0.1)]
    pairs = [sides(parts, "new", "old")]
    low, high = finish(lift_steps(pairs, 0.05))
    whole = phase(EVEN, 40_000, 0.05, 0.1).totals
    expected = lift_bounds(whole[:1], whole[1:])
    assert (low[0], high[0]) == pytest.approx((expected[0][0], expected[1][0]), rel=1e-3)
    evidence = order_evidence(whole[:1], whole[1:])
    assert finish(evidence_steps(pairs)) == pytest.approx(evidence, rel=1e-3)


def test_one_phase_of_equal_weights_is_as_without() -> None:
    only = phase(EVEN, 40_000, 0.05, 0.05)
    phased, plain = readout([only]), readout(only.totals)
    assert phased.sentence == plain.sentence
    # but for the check, which sets half aside for phases to come, and rounding of the rank
    assert [row._replace(probability_best=0.0) for row in phased.variants] == [
        row._replace(probability_best=0.0) for row in plain.variants
    ]


def test_variants_come_and_go() -> None:
    late = EVEN | {"late": 1.0}
    parts = [
        phase(EVEN, 40_000, 0.08, 0.3),
        phase(late, 30_000, 0.03, 0.3),
        phase({"late": 1.0, "old": 1.0}, 9000, 0.03),
    ]
    result = readout(parts, control="old")
    rows = {row.variant: row for row in result.variants}
    assert [*rows] == ["new", "late", "old"] or [*rows] == ["new", "old", "late"]
    # the late one ran when all was bad: it is level with the old one, and the first has the same lift in all phases
    assert rows["late"].lift == pytest.approx(0.0, abs=1e-6)
    assert rows["new"].lift == pytest.approx(0.3)
    # the first has stopped: what is said is of those between whom there is still something to decide
    assert result.verdict.kind == "open"
    assert "New" not in result.sentence
    assert "late" in result.sentence.lower()
    assert sum(row.intended for row in result.variants) == pytest.approx(1.0)


def test_variants_that_never_ran_together_are_not_compared() -> None:
    apart = [phase({"new": 1.0, "old": 0.0}, 10_000, 0.05), phase({"new": 0.0, "old": 1.0}, 10_000, 0.08)]
    result = readout(apart)
    assert result.verdict.kind == "open"
    assert result.sentence == "Too early to say: New and Old have not had impressions at the same time."
    assert [(row.lift, row.lift_low, row.lift_high) for row in result.variants] == [(None, -1.0, None), (None,) * 3]


def test_a_variant_that_was_switched_off_does_not_hold_up_those_it_never_met() -> None:
    parts = [phase({"gone": 1.0, "old": 1.0}, 9_000, 0.05), phase(EVEN, 40_000, 0.05, 0.2)]
    result = readout(parts)
    assert {row.variant for row in result.variants} == {"gone", "old", "new"}
    assert result.verdict.kind == "order"
    # whoever lost, and was switched off, is still what the winner is compared with
    rolled_out = readout([phase(EVEN, 40_000, 0.05, 0.2), phase({"new": 1.0, "old": 0.0}, 9_000, 0.05)])
    assert rolled_out.sentence.startswith("New leads Old by 20 %")


def test_no_phases_yet() -> None:
    assert readout([Phase(EVEN, ())]).verdict.kind == "empty"
    assert readout([Phase(EVEN, ()), Phase(RAMP[0], ())]).variants == ()
    nothing = tuple(Totals(name, 0, 0, 0.0) for name in EVEN)
    result = readout([Phase(EVEN, nothing), Phase(RAMP[0], nothing)])
    assert result.verdict.kind == "empty"
    assert {row.variant: row.intended for row in result.variants} == {"new": 0.01, "old": 0.99}
    assert readout([Phase(EVEN, nothing), Phase({"third": 1.0}, ())]).verdict.kind == "empty"


def test_what_is_no_phase() -> None:
    with pytest.raises(ValueError, match="phases have weights of their own"):
        readout([phase(EVEN, 10, 0.1)], weights=EVEN)
    with pytest.raises(ValueError, match="every variant has a weight"):
        readout([Phase({"new": 1.0}, (Totals("old", 1, 1, 0),))])
    with pytest.raises(ValueError, match="variants differ"):
        readout([Phase(EVEN, (Totals("old", 1, 1, 0), Totals("old", 1, 1, 0)))])


def test_lifts_may_differ_between_phases() -> None:
    # better by a quarter at first and worse by as much later: the interval is for the average over the same days
    rng = np.random.default_rng(1)
    weights, rates = (RAMP[1], EVEN), ((0.10, 0.08), (0.03, 0.04))
    pairs, truths = [], []
    for _ in range(150):
        phases, means = [], []
        for intended, each in zip(weights, rates, strict=True):
            share = intended["new"] / sum(intended.values())
            own = rng.binomial(4000, share)
            counts = [
                (name, n, rng.binomial(20, p, n)) for name, n, p in zip(EVEN, (own, 4000 - own), each, strict=True)
            ]
            phases.append(
                Phase(
                    intended,
                    tuple(
                        Totals(name, n, 20 * n, float(y.sum()), Pages(n, float(y @ y), 20, float(y.max())))
                        for name, n, y in counts
                    ),
                )
            )
            means.append([p * 20 * n for (_, n, _), p in zip(counts, each, strict=True)])
        pair = sides(phases, "new", "old")
        expected = [
            sum(mean[place] * min(1.0, its / mine) for mean, (mine, its) in zip(means, ratios, strict=True))
            / pair[place].impressions
            for place, ratios in enumerate(([(1, 9), (1, 1)], [(9, 1), (1, 1)]))
        ]
        pairs.append(pair)
        truths.append(expected[0] / expected[1] - 1.0)
    low, high = finish(lift_steps(pairs, 0.05))
    truth = np.array(truths)
    assert np.mean((low <= truth) & (truth <= high)) >= 0.95
    assert np.abs(truth + 0.1).max() < 0.1


@st.composite
def anything(draw: st.DrawFn) -> list[Phase]:
    names = ["new", "old", "third"]
    clustered, phases = draw(st.booleans()), []
    for _ in range(draw(st.integers(1, 4))):
        weights = {name: draw(st.sampled_from([0.0, 0.01, 1.0, 9.0])) for name in names} | {"old": 1.0}
        totals = []
        for name in draw(st.permutations(names)):
            requests = draw(st.integers(0, 10) | st.integers(0, 10**6)) if weights[name] else 0
            reward = float(round(10 * requests * draw(st.floats(0, 1) | st.just(0.05))))
            pages = Pages(requests, reward * 10, 10) if draw(st.booleans()) else None
            clusters = None
            if clustered:
                clusters = Clusters(np.full(200, requests / 20), np.full(200, reward / 200))
                clusters.reward[:2] = 0.0, clusters.reward[:2].sum() if reward <= 5 * requests else clusters.reward[1]
                clusters.reward[0] = max(reward - clusters.reward[1:].sum(), 0.0)
            totals.append(Totals(name, requests, 10 * requests, reward, pages, requests, clusters))
        phases.append(Phase(weights, tuple(totals)))
    return phases


@settings(max_examples=60, deadline=None)
@given(anything(), st.booleans())
def test_whatever_was_counted_something_is_said(phases: list[Phase], sticky: bool) -> None:
    result = readout(phases, sticky=sticky)
    assert result.sentence.endswith(".")
    assert "nan" not in result.sentence
    assert "inf" not in result.sentence
    assert all(math.isfinite(value) for row in result.variants for value in row if isinstance(value, float))
    assert sum(row.probability_best for row in result.variants) == pytest.approx(1.0)
    for row in result.variants:
        assert row.low <= row.high
        if row.lift is not None and row.lift_high is not None:
            assert row.lift_low is not None
            assert row.lift_low - 1e-6 <= row.lift <= row.lift_high + 1e-6 * (1.0 + row.lift)


# The check of the split --------------------------------------------------------------------------------


def test_a_ramp_is_no_fault() -> None:
    rng = np.random.default_rng(1)
    for _ in range(200):
        counts = [rng.multinomial(20_000, np.array([*w.values()]) / sum(w.values())) for w in RAMP]
        phases = [(dict(zip(w, n.tolist(), strict=True)), w) for w, n in zip(RAMP, counts, strict=True)]
        assert not phased_ratio(phases).alarm
    together = {name: sum(counts[name] for counts, _ in phases) for name in EVEN}
    assert sample_ratio(together, EVEN).alarm


@pytest.mark.parametrize("before", [0, 1, 30])
def test_a_fault_is_found_within_2000_rankings_however_many_phases_were_right(before: int) -> None:
    right = [({"new": 500_000, "old": 500_000}, EVEN)] * before
    found = phased_ratio([*right, ({"new": 800, "old": 1200}, EVEN)])
    assert found.alarm
    assert (found.phase, found.worst, found.share, found.intended) == (before, "new", 0.4, 0.5)
    assert phased_ratio([*right, ({"new": 800, "old": 1200}, EVEN), *right]).phase == before


def test_the_alarm_names_the_phase() -> None:
    right, wrong = phase(RAMP[1], 20_000, 0.05), phase(EVEN, 2_000, 0.05)
    wrong = wrong._replace(totals=(wrong.totals[0], phase(EVEN, 3_000, 0.05).totals[1]))
    result = readout([right, wrong])
    assert result.verdict.kind == "split"
    assert result.sentence.startswith("The split is off in one of the phases: New got 40.0 % of the traffic where")
    assert result.as_json()["sample_ratio"]["phase"] == 1


def test_the_check_need_not_wait_for_rewards() -> None:
    young = Phase(EVEN, (Totals("new", 0, 0, 0.0, assigned=800), Totals("old", 10, 200, 9.0, assigned=1200)))
    check = readout([young]).check
    assert check is not None
    assert check.alarm
    right = readout([each._replace(assigned=1000) for each in young.totals]).check
    assert right is not None
    assert not right.alarm
    with pytest.raises(ValueError, match="0 <= assigned"):
        readout([Totals("new", 0, 0, 0.0, assigned=-1)])


def test_a_variant_without_weight_that_got_traffic() -> None:
    found = phased_ratio([({"a": 10, "b": 10}, {"a": 1.0, "b": 1.0}), ({"a": 10, "b": 1}, {"a": 1.0, "b": 0.0})])
    assert (found.p_value, found.alarm, found.phase) == (0.0, True, 1)
