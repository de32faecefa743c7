"""The paper's last figure: what is simulated, at which traffic a claim is reached, and what is then said of it."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from hellinger import figures
from hellinger.lab import production
from hellinger.lab.claims import HELLINGER, KL, UCB1, Claim
from hellinger.lab.sharing import Ratio, Rewards, Traffic, _own, share

THREE = (HELLINGER, KL, UCB1)
SMALL = Traffic(THREE, (20, 60), days=6, stay=6, sites=2, items=300, slots=5, pages=2)


@pytest.fixture(scope="module")
def small() -> Rewards:
    return share([SMALL])[0]


# The simulated site ----------------------------------------------------------------------------------


def test_clicks_only_grow_and_depend_on_the_seed_alone(small: Rewards) -> None:
    assert small.clicks.shape == (2, 3, 2, 6)
    assert (np.diff(small.clicks, axis=-1) >= 0).all()
    assert (small.clicks[..., -1] > 0).all()
    np.testing.assert_array_equal(share([SMALL])[0].clicks, small.clicks)
    assert not np.array_equal(share([SMALL._replace(seed=1)])[0].clicks, small.clicks)
    assert not np.array_equal(small.clicks[0], small.clicks[1])


def test_processes_and_other_plans_change_nothing(small: Rewards) -> None:
    renewed = SMALL._replace(stay=1, days=2)
    told: list[tuple[int, int]] = []
    first, second = share([SMALL, renewed], workers=2, progress=lambda done, total: told.append((done, total)))
    np.testing.assert_array_equal(first.clicks, small.clicks)
    np.testing.assert_array_equal(second.clicks, share([renewed])[0].clicks)
    assert told == [(done, 6 + 12) for done in range(19)]


def test_every_page_goes_to_one_algorithm_drawn_uniformly() -> None:
    plan = SMALL._replace(items=3_000, levels=(10, 40))
    own = _own(plan, plan.levels, np.random.default_rng(3))
    assert own.shape == (3, 2, 6)
    assert (own % plan.slots == 0).all()
    total = own.sum(axis=0)
    np.testing.assert_array_equal(total[:, -1], [3 * 3_000 * level for level in plan.levels])
    assert total[0, 2] == total[0, -1] / 2
    pages = own[:, -1, -1] / plan.slots
    assert len(set(pages.tolist())) == 3
    assert np.abs(pages - 24_000).max() < 4 * math.sqrt(72_000 * 2 / 9)
    assert (own[:, 1, 2] >= own[:, 0, -1]).all()  # two of four parts of the longer experiment are the shorter's four


def test_more_traffic_is_the_same_run_going_on() -> None:
    """A policy does not see the end coming: the first days of much traffic are all days of little."""
    alone = SMALL._replace(policies=(KL,))
    both = share([alone])[0]
    np.testing.assert_array_equal(both.of(KL, 60)[:, 1], both.of(KL, 20)[:, -1])
    np.testing.assert_array_equal(share([alone._replace(levels=(60,))])[0].of(KL, 60), both.of(KL, 60))


def test_new_items_keep_the_pool_unknown() -> None:
    """Where all items are new every day nothing can be learned for good: clicks per impression stay lower."""
    plan = SMALL._replace(policies=(HELLINGER,), levels=(200,), law="bimodal", days=4, stay=4, items=240)
    stays, renewed = share([plan, plan._replace(stay=1, levels=(50,))])
    assert renewed.plan.arrivals == 10
    assert stays.of(HELLINGER, 200)[:, -1].mean() > 1.2 * renewed.of(HELLINGER, 50)[:, -1].mean()


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"sites": 1}, "sites=1"),
        ({"items": 4}, "items=4"),
        ({"law": "normal"}, "normal"),
        ({"levels": (0, 3)}, "levels"),
        ({"stay": 7}, "stay=7"),
        ({"seed": -1}, "seed=-1"),
        ({"policies": ()}, "policies"),
        ({"stay": 1, "items": 20}, "one item comes every hour"),
        ({"stay": 1, "levels": (1,), "pages": 4}, "impressions_an_hour=12"),
    ],
)
def test_plans_that_make_no_sense(changes: dict[str, object], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        share([SMALL._replace(**changes)])  # type: ignore[arg-type]


# Levels ----------------------------------------------------------------------------------------------


def ratios(*pairs: tuple[int, float]) -> list[Ratio]:
    """Ratios whose intervals end there."""
    return [Ratio(level, high - 0.1, high - 0.2, high) for level, high in pairs]


@pytest.mark.parametrize(
    ("found", "ranges"),
    [
        (ratios((10, 1.0), (100, 1.2)), []),
        (ratios((10, 1.0), (1_000, 2.0)), [(100.0, 1_000.0)]),
        (ratios((10, 1.0), (1_000, 2.0), (100_000, 1.0)), [(100.0, 10_000.0)]),
        (ratios((10, 1.6), (100, 1.5), (1_000, 1.0)), [(10.0, 100.0)]),
        (ratios((10, 2.0), (100, 1.0), (1_000, 2.0)), [(10.0, 10**1.5), (10**2.5, 1_000.0)]),
    ],
)
def test_a_claim_is_reached_between_levels(found: list[Ratio], ranges: list[tuple[float, float]]) -> None:
    got = production.reached(found, 1.5)
    assert len(got) == len(ranges)
    for one, other in zip(got, ranges, strict=True):
        assert one == pytest.approx(other)


def test_ranges_overlap() -> None:
    assert production.together([(10, 60), (100, 300)], [(50, 200)]) == [(50, 60), (100, 200)]
    assert production.together([(10, 20)], [(30, 40)]) == []


# Claims ----------------------------------------------------------------------------------------------


def played(*, kl: list[float], ucb1: list[float], law: str = "beta") -> Rewards:
    """Rewards in which Hellinger-UCB has these ratios at 10, 100 and 1,000 impressions per item."""
    plan = Traffic(THREE, (10, 100, 1_000), law=law, days=60, sites=2)
    over = np.stack([np.ones(3), 1 / np.array(kl), 1 / np.array(ucb1)])
    days = np.linspace(1 / 60, 1, 60)
    clicks = 1e3 * np.array(plan.levels) * over
    return Rewards(plan, np.array([1.0, 1.1])[:, None, None, None] * clicks[None, :, :, None] * days)


def claims(*found: Rewards) -> dict[str, Claim]:
    return {claim.key: claim for claim in production.production_claims(found)}


def test_claims_are_told_with_the_levels_that_have_them() -> None:
    made = claims(played(kl=[1.1, 1.4, 1.1], ucb1=[1.2, 2.1, 3.0]))
    assert {key: claim.verdict for key, claim in made.items()} == {
        "production-order": "agrees",
        "production-kl-ucb": "partly",
        "production-ucb1": "partly",
        "production": "partly",
        "production-early": "agrees",
    }
    assert "nearest at 100 impressions per item: +40 % and +110 %; both reached from 77 to 171" in (
        made["production"].ours
    )
    assert made["production-kl-ucb"].ours.startswith("at most +40 % (+40 % to +40 %), at 100 impressions")
    assert made["production-ucb1"].ours.endswith("+100 % is reached from 77 on")
    assert made["production-early"].ours.startswith("+5,000 clicks over KL-UCB after 10 days and +30,000 after 60")


def test_claims_hold_where_every_level_has_them() -> None:
    made = claims(played(kl=[1.4, 1.5, 1.4], ucb1=[2.2, 2.1, 3.0]))
    assert {claim.verdict for claim in made.values()} == {"agrees"}


def test_a_lead_that_is_smaller_is_told_with_where_it_is_not() -> None:
    main = played(kl=[1.1, 1.2, 1.1], ucb1=[1.2, 1.5, 3.0])
    made = claims(main, played(kl=[1.5, 1.4, 1.1], ucb1=[2.5, 3.0, 3.0], law="bimodal"))
    assert made["production-kl-ucb"].verdict == "differs"
    assert "+33 % is reached nowhere up to 1,000" in made["production-kl-ucb"].ours
    assert "one item in ten near 10 %: from 10 to 171" in made["production-kl-ucb"].note
    assert made["production-ucb1"].verdict == "partly"
    assert made["production"].verdict == "differs"
    assert "one item in ten near 10 %, from 10 to 171" in made["production"].note
    assert "also" not in claims(main)["production"].note


def test_a_lead_of_the_others_contradicts() -> None:
    made = claims(played(kl=[0.9, 0.8, 0.9], ucb1=[0.9, 0.7, 0.8]))
    assert {claim.verdict for claim in made.values()} == {"differs"}
    assert "at most −10 % (−10 % to −10 %)" in made["production-kl-ucb"].ours


def test_each_rival_and_setting_is_in_the_record() -> None:
    found = [played(kl=[1.1, 1.4, 1.1], ucb1=[1.2, 2.0, 3.0]), played(kl=[1.0] * 3, ucb1=[1.0] * 3, law="bimodal")]
    kept = json.loads(json.dumps(production.record(found), allow_nan=False))
    assert kept["nearest_level"] == 100
    assert [setting["plan"]["law"] for setting in kept["settings"]] == ["beta", "bimodal"]
    assert [row["ratio"] for row in kept["settings"][0]["hellinger_over"][UCB1]] == pytest.approx([1.2, 2.0, 3.0])
    assert kept["settings"][0]["reached"][UCB1] == [pytest.approx([100.0, 1_000.0])]
    assert len(kept["days"][KL]) == 60


def test_plans_judge_claims_where_the_pool_stays_and_all_five_play() -> None:
    main, *others = production.plans(seed=3, sites=2, items=600)
    assert (main.law, main.renewed, main.policies, main.seed) == ("beta", False, production.POLICIES, 3)
    assert [(plan.law, plan.renewed) for plan in others] == [
        ("heavy-tailed", False), ("bimodal", False), ("beta", True)
    ]  # fmt: skip
    full = production.plans(full=True)
    assert (full[0].sites, full[0].levels[0], full[0].levels[-1]) == (10, 3, 3_000)
    assert all(production.OURS in plan.policies for plan in full)


# Figures ---------------------------------------------------------------------------------------------


def test_rewards_are_the_paper_s_colours_and_begin_at_nothing() -> None:
    days = np.linspace(1, 60, 60)
    three = [
        figures.Reward(name, k * days, k * days, k * days) for name, k in ((HELLINGER, 3.0), (KL, 2.0), (UCB1, 1.9))
    ]
    figure = figures.draw_rewards([("three", three), ("four", [*three, three[0]._replace(label="cold-start")])])
    left, right = figure.axes
    assert [line.get_label() for line in left.lines] == list(THREE)
    assert [line.get_label() for line in right.lines] == [*THREE, "cold-start"]
    chosen = figures.colours([*THREE, "cold-start"])
    assert [line.get_color() for line in right.lines] == list(chosen.values())
    assert len(set(chosen.values())) == 4
    np.testing.assert_array_equal(left.lines[0].get_ydata(), np.concatenate([[0.0], 3.0 * days]))
    assert {text.get_text() for text in left.texts} == {"hellinger-ucb 180", "kl-ucb 120", "ucb1 114"}
    heights = sorted(text.xy[1] for text in left.texts)  # type: ignore[attr-defined]
    assert min(np.diff(heights)) >= 0.07 * 180


def test_leads_draw_curves_and_claims_and_name_what_leaves_the_scale() -> None:
    levels = np.array([10.0, 100.0, 1_000.0])
    ratio = np.array([1.0, 1.3, 1.1])
    leads = [
        figures.Lead("kl-ucb", levels, ratio, ratio - 0.05, ratio + 0.05, 1.33),
        figures.Lead("ucb1", levels, 10 * ratio, 9 * ratio, 11 * ratio, 2.0),
        figures.Lead("kl-ucb(c=3)", levels, ratio, ratio, ratio, aside=True),
    ]
    figure = figures.draw_leads([figures.LeadPanel("first", leads), figures.LeadPanel("second", leads[:1])])
    first, second = figure.axes
    lines = {str(line.get_label()): line for line in first.lines}
    np.testing.assert_allclose(np.asarray(lines["over kl-ucb"].get_ydata()), [0.0, 30.0, 10.0])
    np.testing.assert_allclose(np.asarray(lines["claimed over kl-ucb"].get_ydata()), 33.0)
    assert lines["over kl-ucb(c=3)"].get_color() == lines["over kl-ucb"].get_color()
    assert lines["over kl-ucb(c=3)"].get_linestyle() == "--"
    assert first.get_ylim()[1] == second.get_ylim()[1] == pytest.approx(220.0)
    assert [text.get_text() for text in first.texts] == ["ucb1: +1,200 %\nat 100"]
    assert not second.texts
    assert first.get_xscale() == "log"
    assert [text.get_text() for text in figure.legends[0].get_texts()] == list(lines)[:5]


@pytest.mark.parametrize("draw", [figures.draw_rewards, figures.draw_leads])
def test_nothing_is_not_drawn(draw: object) -> None:
    with pytest.raises(ValueError, match="at least one panel"):
        draw([])  # type: ignore[operator]
