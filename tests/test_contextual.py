"""Contextual problems: who may be shown what, the same people and clicks for every policy, data read or refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pytest

from hellinger.lab import Result, simulate
from hellinger.lab.contextual import play_pages
from hellinger.lab.datasets import PROBLEMS, load_problem
from hellinger.policies import policy
from hellinger.world.contextual import ContextualProblem, Memory, PagePlayer, PersonOracle, PersonPool
from hellinger.world.site import Site

DATA = Path(__file__).parent.parent.parent / "shared" / "data"
SMALL = "synthetic(items=40, people=15, slots=3, memory=9)"
POLICIES = ["cold-start", "hellinger-ucb", "thompson", "uniform"]

Ints = npt.NDArray[np.int64]


def data_of(name: str) -> ContextualProblem:
    for folder in (DATA, DATA.parent.parent.parent / "shared" / "data"):
        if (folder / name).is_dir():
            return load_problem(name, folder)
    pytest.skip(f"the data of {name} are not there")


def tiny(**changes: Any) -> ContextualProblem:
    rates = np.array([[0.0, 1.0, 0.5, 0.2, np.nan], [1.0, 0.0, 0.5, 0.2, 0.9]])
    features = tuple({"kind": f"k{i}"} for i in range(5))
    made = ContextualProblem("tiny", Site(5, 2, segments=2), ({"age": 1}, {"age": 2}), features, rates, memory=2)
    return made._replace(**changes)


class Watched(PersonPool):
    """Keeps the pages it filled."""

    def choose(self, slots: int, segments: Ints) -> Ints:
        out = super().choose(slots, segments)
        self.__dict__.setdefault("filled", []).extend(zip(segments.tolist(), out.tolist(), strict=True))
        return out


@pytest.mark.parametrize("batch", [1, 7])
@pytest.mark.parametrize("name", POLICIES)
def test_nobody_is_shown_what_they_saw_last_or_never_rated(name: str, batch: int) -> None:
    rng = np.random.default_rng(1)
    made = load_problem(SMALL)
    rates = np.where(rng.random(made.rates.shape) < 0.4, np.nan, made.rates)
    made = made._replace(rates=rates, site=made.site._replace(batch=batch, delay=3))
    player = Watched(made, policy(name), seed=5)
    play_pages(made, player, [100], seed=3)
    seen: dict[int, list[int]] = {}
    for person, page in vars(player)["filled"]:
        assert len(set(page)) == 3
        assert not np.isnan(rates[person, page]).any()
        last = seen.setdefault(person, [])
        assert not set(page) & set(last[-9:])
        last += page


def test_memory_forgets_what_came_before_and_items_that_have_left() -> None:
    memory = Memory(tiny(memory=3, site=Site(5, 1, segments=2)))
    assert memory.free(0).tolist() == [True, True, True, True, False]
    memory.show(0, np.array([2]))
    memory.show(0, np.array([0, 1]))
    assert memory.free(0).tolist() == [False, False, False, True, False]
    assert memory.free(1).all()
    memory.show(0, np.array([3]))
    assert memory.free(0).tolist() == [False, False, True, False, False]
    memory.renew(np.array([0, 3]), np.array([1, 4]))
    assert memory.free(0).tolist() == [True, False, True, False, False]
    memory.show(0, np.array([0, 2]))  # three in all: nothing is forgotten yet
    assert memory.free(0).tolist() == [False, False, False, False, False]


def test_the_oracle_knows_each_person() -> None:
    oracle = PersonOracle(tiny(memory=0))
    pages = oracle.choose(2, np.array([0, 1, 0]))
    assert pages.tolist() == [[1, 2], [0, 4], [1, 2]]
    outcome = play_pages(tiny(memory=0), oracle, [1, 50], seed=0)
    assert outcome.expected[1] == pytest.approx(50 * 1.5 + 0.4 * outcome.pulls[1, 4])
    assert outcome.pulls[1].sum() == 100


def test_rewards_that_are_certain_are_those_expected() -> None:
    made = load_problem(SMALL)
    made = made._replace(rates=(made.rates > 0.1).astype(float))
    outcome = play_pages(made, PersonPool(made, policy("cold-start")), [10, 60], seed=0)
    assert outcome.reward.tolist() == outcome.expected.tolist()


def test_items_come_and_go() -> None:
    features = tuple({"text": f"headline {i}"} for i in range(12))
    site = Site(4, 1, arrivals=2, day=10)
    rates = np.linspace(0.1, 0.9, 12)[None]
    made = ContextualProblem("news", site, ({},), features, rates).check()
    assert made.pages == 40
    outcome = play_pages(made, PersonOracle(made), [10, 20, 30, 40], seed=0)
    assert [int(np.flatnonzero(row)[-1]) for row in outcome.pulls] == [3, 5, 7, 9]
    for name in ("cold-start", "ucb1"):
        player = PersonPool(made, policy(name))
        assert play_pages(made, player, [40], seed=0).pulls[0][:4].sum() >= 10


class Stubborn(PagePlayer):
    """Shows the same whoever asks."""

    def fill(self, person: int, slots: int, free: npt.NDArray[np.bool_]) -> Ints:
        return np.arange(5 - slots, 5)


def test_a_player_that_shows_what_nobody_knows_is_found_out() -> None:
    with pytest.raises(ValueError, match="a person is shown items with a known reward"):
        play_pages(tiny(), Stubborn(tiny()), [10], seed=0)


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"contexts": ({},)}, r"site.segments == len\(contexts\)"),
        ({"features": ({},) * 4}, "there are features of each item"),
        ({"rates": np.zeros((2, 4))}, "rates are people × items"),
        ({"rates": np.full((2, 5), 1.5)}, "0 <= rate <= 1"),
        ({"rates": np.full((2, 5), np.nan)}, "some rates are known"),
        ({"rates": [[0.5] * 5, [0.5]]}, "rates are numbers, people × items"),
        ({"groups": ("a",)}, "there is a group for each item, or none"),
        ({"memory": 3}, "memory [+] slots <= items that each person may be shown"),
        ({"memory": -1}, "0 <= memory"),
    ],
)
def test_problems_without_sense_are_refused(changes: dict[str, Any], rule: str) -> None:
    with pytest.raises(ValueError, match=rule):
        tiny(**changes).check()


def test_rates_may_be_lists() -> None:
    listed = tiny(rates=tiny().rates.tolist())
    assert listed.check().digest == tiny().digest
    assert PersonOracle(listed).choose(2, np.array([0, 1])).tolist() == [[1, 2], [0, 4]]
    results = [simulate("uniform", problem=each, horizon=20, runs=1, workers=1) for each in (listed, tiny())]
    assert results[0].final.tolist() == results[1].final.tolist()


# Simulations -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def reference() -> Result:
    return simulate(POLICIES, problem=SMALL, horizon=300, runs=3, seed=1, workers=1)


def test_company_order_and_processes_do_not_matter(reference: Result) -> None:
    other = simulate(POLICIES[::-1][1:], problem=SMALL, horizon=300, runs=2, seed=1, workers=2)
    for name in other.policies:
        mine, theirs = other.position(name), reference.position(name)
        assert np.array_equal(other.regret[mine], reference.regret[theirs, :2])
        assert np.array_equal(other.reward[mine], reference.reward[theirs, :2])


def test_a_problem_of_ones_own_is_the_one_of_the_spec(reference: Result) -> None:
    again = simulate("cold-start", problem=load_problem(SMALL), horizon=300, runs=3, seed=1, workers=1)
    assert np.array_equal(again.regret[0], reference.regret[0])
    assert again.problem == SMALL


def test_learning_pays_and_nobody_beats_the_oracle(reference: Result) -> None:
    final = {row["policy"]: row["mean_regret"] for row in reference.summary()}
    assert 0 < final["cold-start"] < 0.8 * final["uniform"]
    assert (reference.final > 0).all()
    assert reference.pulls[0, -1].sum() == pytest.approx(900)


def test_results_are_kept_and_finished_runs_are_not_played_again(reference: Result, tmp_path: Path) -> None:
    moves: list[tuple[int, int]] = []
    options: dict[str, Any] = {"problem": SMALL, "horizon": 300, "runs": 3, "seed": 1, "workers": 1}
    simulate("cold-start", resume=tmp_path / "parts", **options)
    kept = simulate(
        ["cold-start", "uniform"], resume=tmp_path / "parts", progress=lambda *each: moves.append(each), **options
    )
    assert moves[0] == (1800, 2700)  # the oracle's and one policy's
    assert np.array_equal(kept.regret[0], reference.regret[0])
    kept.save(tmp_path / "result")
    loaded = Result.load(tmp_path / "result")
    assert loaded.problem == SMALL
    assert np.array_equal(loaded.regret, kept.regret)
    loaded.plot_regret(path=tmp_path / "regret.png")
    other = simulate("cold-start", resume=tmp_path / "parts", **(options | {"problem": SMALL.replace("15", "16")}))
    assert not np.array_equal(other.regret[0], reference.regret[0])


@pytest.mark.parametrize(
    ("options", "rule"),
    [
        ({"problem": SMALL, "means": [0.1]}, "either means or a problem is given"),
        ({}, "either means or a problem is given"),
        ({"means": [0.1], "data": "here"}, "data stands with a problem"),
        ({"problem": SMALL, "init": 2}, "family, rewards, init, ties and player stand without a problem"),
        ({"problem": "jestr"}, "unknown problem 'jestr': .*did you mean jester"),
        ({"problem": "synthetic(item=3)"}, "synthetic takes items, people"),
        ({"problem": "synthetic(items=3.5)"}, "items is a whole number"),
        ({"problem": "synthetic", "data": "here"}, "data stands with a problem that is read from files"),
        ({"problem": "coat", "data": "nowhere"}, "there must be the file nowhere/coat/train.ascii.*cornell"),
        ({"problem": "upworthy", "data": "nowhere"}, "there must be the file nowhere/upworthy/early.parquet"),
        ({"problem": SMALL, "slots": 35}, "memory [+] slots <= items"),
    ],
)
def test_what_has_no_meaning_is_refused(options: dict[str, Any], rule: str) -> None:
    with pytest.raises(ValueError, match=rule):
        simulate("cold-start", horizon=10, **options)


def test_who_knows_more_earns_more() -> None:
    made = "synthetic(items=60, people=100, slots=3, memory=9, cross=1, bias=0.3, taste=0)"
    names = ["cold-start(model=logistic)", "linucb(alpha=0.1, model=linear(per_item=true, shared=false))", "cold-start"]
    result = simulate(names, problem=made, horizon=400, runs=2, workers=1)
    model, _, plain = result.final.mean(axis=1)
    assert model < 0.8 * plain
    again = simulate(names[0], problem=made, horizon=400, runs=2, workers=1, batch=3, delay=2)
    assert again.final.mean() < 0.9 * plain


def test_items_are_added_with_their_groups() -> None:
    rng = np.random.default_rng(0)
    story = np.repeat(np.arange(40), 5)
    rates = np.clip(rng.beta(1, 8, 40)[story] + rng.normal(0, 0.005, 200), 0, 1)[None]
    groups = tuple(f"story-{each}" for each in story)
    features = tuple({"text": f"headline {each}"} for each in range(200))
    site = Site(50, 2, arrivals=10, day=200)
    made = ContextualProblem("news", site, ({},), features, rates, groups).check()
    result = simulate(["cold-start(groups=true)", "cold-start"], problem=made, horizon=1500, runs=2, workers=1)
    assert result.final[0].mean() < result.final[1].mean()


def test_items_are_added_with_their_features_where_there_is_no_model() -> None:
    rng = np.random.default_rng(0)
    genre = rng.integers(4, size=300)
    rates = np.clip(np.array([0.02, 0.05, 0.1, 0.3])[genre] * rng.gamma(20, 1 / 20, 300), 0, 1)[None]
    features = tuple({"genre": f"genre-{each}"} for each in genre.tolist())
    groups = tuple(f"series-{each % 60}" for each in range(300))
    made = ContextualProblem("films", Site(60, 2, arrivals=12, day=240), ({},), features, rates, groups).check()
    names = ["cold-start(features=true)", "cold-start(groups=true, features=true)", "cold-start"]
    told, both, plain = simulate(names, problem=made, horizon=1500, runs=2, workers=1).final.mean(axis=1)
    assert told < 0.9 * plain
    assert both < plain


def test_policies_that_cannot_play_are_refused() -> None:
    with pytest.raises(ValueError, match="features is true or false"):
        simulate("cold-start(features=genre)", problem=tiny(), horizon=10)
    with pytest.raises(ValueError, match="a policy that learns a prior"):
        simulate("ucb1(features=true)", problem=tiny(), horizon=10)
    with pytest.raises(ValueError, match="a model has the features already"):
        simulate("cold-start(model=logistic, features=true)", problem=tiny(), horizon=10)
    with pytest.raises(ValueError, match="the problem has groups"):
        simulate("cold-start(groups=true)", problem=tiny(), horizon=10, workers=1)
    with pytest.raises(ValueError, match="groups is true or false"):
        simulate("cold-start(groups=3)", problem=tiny(), horizon=10)
    with pytest.raises(ValueError, match="unknown model 'logistics'"):
        simulate("cold-start(model=logistics)", problem=tiny(), horizon=10)
    with pytest.raises(ValueError, match="given by their specs"):
        simulate(policy("ucb1"), problem=SMALL, horizon=10)
    with pytest.raises(ValueError, match="policies differ"):
        simulate(["ucb1", "ucb1"], problem=SMALL, horizon=10)


# Data ------------------------------------------------------------------------------------------------


def test_made_up_people_like_what_their_features_say() -> None:
    assert set(PROBLEMS) == {"synthetic", "unequal", "jester", "coat", "upworthy"}
    unequal = load_problem("unequal(items=60, people=9, slots=5)")
    assert (unequal.memory, unequal.rates.shape) == (55, (9, 60))
    plain = load_problem("synthetic(items=300, people=200, cross=0, taste=0)")
    assert (plain.rates == plain.rates[0]).all()
    crossed = load_problem("synthetic(items=300, people=200, bias=0, taste=0, cross=1)")
    same = [c for c in crossed.contexts if {**c, "interest": 0} == {**crossed.contexts[0], "interest": 0}]
    assert 1 < len(same) < 200
    odds = np.log(crossed.rates / (1 - crossed.rates))
    assert odds.std(axis=0).min() > 0.5
    topics = [str(features["topic"]) for features in crossed.features]
    assert crossed.groups == tuple(topics)
    assert not np.array_equal(load_problem("synthetic(seed=1)").rates, load_problem("synthetic").rates)


def test_jester_is_as_it_was_rated() -> None:
    made = data_of("jester")
    assert made.rates.shape == (1473, 90)
    assert set(np.unique(made.rates)) == {0.0, 1.0}
    assert made.rates.sum() == 37923  # counted by awk
    assert sorted(made.contexts[0]) == sorted(f"joke {j}" for j in (5, 7, 8, 13, 15, 16, 17, 18, 19, 20))
    assert made.contexts[0]["joke 5"] == pytest.approx(-0.44 / 5)
    assert str(made.features[0]["text"]).startswith("A man visits the doctor")


def test_coats_are_shown_to_those_who_rated_them() -> None:
    made = data_of("coat")
    known = (~np.isnan(made.rates)).sum(axis=1)
    assert made.rates.shape == (290, 300)
    assert known.sum() == 290 * 40 - 366
    assert made.contexts[0] == {"gender": "women", "age": "20-30", "location": "urban", "fashioninterest": "very"}
    assert set(made.features[0]) == {"gender", "jackettype", "color", "onfrontpage"}


def test_headlines_come_in_the_order_of_weeks() -> None:
    made = data_of("upworthy")
    assert made.rates.shape == (1, 8911)
    assert made.groups[0] == "story-40"
    assert str(made.features[0]["text"]).startswith("How To Talk To Scared")
    assert made.rates[0, 0] == pytest.approx((47 + 20 * 0.0211845) / 1042, rel=1e-4)
    assert len(set(made.groups)) == 2102


def test_files_that_are_not_the_data_are_refused(tmp_path: Path) -> None:
    (tmp_path / "jester").mkdir()
    (tmp_path / "jester" / "ratings.csv").write_text("1,2\nx,4\n", encoding="utf-8")
    with pytest.raises(ValueError, match="must hold the data"):
        load_problem("jester", tmp_path)
    (tmp_path / "upworthy").mkdir()
    pl.DataFrame({"week": [1]}).write_parquet(tmp_path / "upworthy" / "early.parquet")
    with pytest.raises(ValueError, match="must have the columns of the archive"):
        load_problem("upworthy", tmp_path)
