"""Estimators, their intervals, and what is said where a log cannot answer."""

from __future__ import annotations

import csv
import math
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from scipy.optimize import brentq

from hellinger import evaluate
from hellinger.errors import InputError
from hellinger.evaluate import Bets, Estimate, Evaluator

Floats = npt.NDArray[np.float64]

ROOTS = Path(__file__).resolve().parents
FOUND = (root / "shared" / "data" / "open-bandit" for root in ROOTS)
OPEN_BANDIT = next((folder for folder in FOUND if folder.is_dir()), None)

# of the priors that the Open Bandit Pipeline publishes with its data (prior_bts.yaml, campaign men)
CLICKS = [47, 8, 62, 142, 3, 6, 100, 48, 23, 71, 61, 13, 16, 518, 30, 7, 4, 23, 8, 10, 11, 11, 18, 121, 11, 4, 32, 30]
CLICKS += [9, 22, 6, 23, 5, 54]
OTHERS = [12198, 3566, 15993, 35522, 2367, 3100, 24665, 13210, 7061, 18061, 17449, 5644, 6787, 111326, 8776, 3334, 2271]
OTHERS += [7389, 2659, 3665, 4724, 3561, 5085, 27407, 4601, 2923, 8897, 8654, 4000, 6580, 3174, 6766, 2602, 14506]


def men(logger: str) -> dict[str, Floats]:
    if OPEN_BANDIT is None:
        pytest.skip("open-bandit, the sample of the Open Bandit Dataset, is not there")
    with (OPEN_BANDIT / logger / "men.csv").open() as file:
        rows = list(csv.DictReader(file))
    names = ("item_id", "position", "click", "propensity_score")
    return {name: np.array([float(row[name]) for row in rows]) for name in names}


def published(draws: int = 100_000) -> Floats:
    """Chances of each item at each position by Thompson sampling from the published priors."""
    rng = np.random.RandomState(12345)
    first = np.argsort(rng.beta(CLICKS, OTHERS, (draws, len(CLICKS))), axis=1)[:, ::-1][:, :3]
    return np.stack([np.bincount(first[:, j], minlength=len(CLICKS)) / draws for j in range(3)], axis=1)


# Known values ----------------------------------------------------------------------------------------


def test_open_bandit_random_to_bts() -> None:
    log = men("random")
    target = published()[log["item_id"].astype(int), log["position"].astype(int) - 1]
    columns = log["click"], log["propensity_score"], target
    ips, snips = evaluate.ips(*columns, largest=34.0), evaluate.snips(*columns)
    assert round(ips.value, 6) == 0.004534
    assert round(snips.value, 6) == 0.004604
    assert round(ips.effective_sample) == 2467
    assert ips.weights_agree
    assert ips.low < 0.0069 < ips.high  # what bts earned in its own log
    assert snips.low < 0.0069 < snips.high
    assert not evaluate.disagreement([ips, snips])


def test_open_bandit_bts_to_random() -> None:
    log = men("bts")
    columns = log["click"], log["propensity_score"], np.full(log["click"].size, 1 / 34)
    ips, snips = evaluate.ips(*columns), evaluate.snips(*columns)
    assert round(ips.value, 6) == 0.003009
    assert round(snips.value, 6) == 0.003189
    assert round(ips.effective_sample) == 656
    assert ips.low < 0.0046 < ips.high
    assert snips.low < 0.0046 < snips.high


def test_estimators_are_their_formulas() -> None:
    rng = np.random.default_rng(3)
    n = 500
    reward, propensity, target = (rng.random(n) < 0.3).astype(float), rng.uniform(0.02, 1, n), rng.random(n)
    predicted, ahead = rng.random(n), rng.random(n)
    w = target / propensity
    columns: tuple[Any, ...] = (reward, propensity, target)
    model: dict[str, Any] = {"predicted": predicted, "predicted_target": ahead}
    expected = {
        evaluate.ips(*columns): np.mean(w * reward),
        evaluate.clipped_ips(*columns, clip=3.0): np.mean(np.minimum(w, 3.0) * reward),
        evaluate.snips(*columns): np.sum(w * reward) / np.sum(w),
        evaluate.dm(*columns, predicted_target=ahead): np.mean(ahead),
        evaluate.dr(*columns, **model): np.mean(ahead + w * (reward - predicted)),
        evaluate.switch_dr(*columns, **model, switch=2.0): np.mean(ahead + w * (w <= 2.0) * (reward - predicted)),
        evaluate.dr_os(*columns, **model, shrink=4.0): np.mean(ahead + 4 * w / (w * w + 4) * (reward - predicted)),
    }
    assert {found.estimator for found in expected} | {"position_based"} == set(evaluate.ESTIMATORS)
    for found, value in expected.items():
        assert found.value == pytest.approx(value, rel=1e-12)
        assert found.effective_sample == pytest.approx(w.sum() ** 2 / (w * w).sum())
        assert found.mean_weight == pytest.approx(w.mean())
        assert found.difference == pytest.approx(value - reward.mean())
        assert found.assumption


def test_rankings_are_units() -> None:
    rng = np.random.default_rng(4)
    sizes = rng.integers(1, 6, 200)
    ranking = np.repeat(np.arange(200), sizes)
    reward, propensity, target = (rng.random(ranking.size) < 0.4).astype(float), rng.uniform(0.2, 1, ranking.size), 0.5
    found = evaluate.ips(reward, propensity, np.full(ranking.size, target), ranking=ranking, largest=5.0)
    sums = [np.sum(reward[ranking == r] * target / propensity[ranking == r]) for r in range(200)]
    weights = np.array([np.mean(target / propensity[ranking == r]) for r in range(200)])
    assert found.units == 200
    assert found.value == pytest.approx(np.mean(sums))
    assert found.mean_weight == pytest.approx(weights.mean())
    assert found.effective_sample == pytest.approx(weights.sum() ** 2 / (weights**2).sum())


@pytest.mark.parametrize("estimator", list(evaluate.ESTIMATORS))
def test_parts_are_the_whole(estimator: str) -> None:
    rng = np.random.default_rng(5)
    reward, weight = (rng.random(900) < 0.3).astype(float), rng.uniform(0, 2, 900)
    columns = {"predicted": rng.random(900), "predicted_target": rng.random(900), "ranking": np.arange(900) // 3}
    whole, parts = (Evaluator(estimator, slots=3, largest=2.0) for _ in range(2))
    whole.add(reward, weight, **columns)
    for rows in (slice(0, 300), slice(300, 303), slice(303, 900), slice(900, 900)):
        parts.add(reward[rows], weight[rows], **{name: column[rows] for name, column in columns.items()})
    for one, other in zip(whole.estimate(), parts.estimate(), strict=True):
        assert one == other if isinstance(one, str) else one == pytest.approx(other, rel=1e-9)


def test_a_bound_solves_its_equation() -> None:
    # the mixture written out by itself: sizes e^θ − 1 over a geometric series of 38 tilts, equal weights
    outcomes = np.array([0.0, 3.0, 0.5, 0.0, 12.0] * 40)
    bets = Bets(-2.0)
    bets.add(outcomes - 1.0)
    sizes = np.expm1(4.0 * np.exp(-0.35 * np.arange(38)))
    shifted = outcomes + 1.0  # at least 0

    def wealth(mean: float) -> float:
        ratios = (1.0 + np.outer(sizes, shifted)) / (1.0 + sizes * (mean + 2.0))[:, None]
        return float(np.exp(np.log(ratios).sum(axis=1)).mean()) - 1.0 / 0.025

    assert bets.lower(0.025) == pytest.approx(brentq(wealth, -1.0, outcomes.mean() - 1.0), rel=1e-8)
    assert bets.mean == pytest.approx(outcomes.mean() - 1.0)


def test_looks_are_found() -> None:
    rng = np.random.default_rng(6)
    looks = np.array([1.0, 0.6, 0.3])
    group = np.repeat(np.arange(4000), 3)
    rates = np.repeat(rng.beta(2, 4, 4000), 3)
    position = np.concatenate([rng.permutation(3) + 1 for _ in range(4000)])
    reward = (rng.random(12000) < rates * looks[position - 1]).astype(float)
    for options in ({}, {"group": group}):
        assert evaluate.examination(reward, position, **options) == pytest.approx(looks, abs=0.04)
    # groups that are shown at some positions only: without them the better ones make their positions look better
    kept = (rates > 1 / 3) | (position == 1)
    grouped = evaluate.examination(reward[kept], position[kept], group=group[kept] * 0 + (rates[kept] > 1 / 3))
    plain = evaluate.examination(reward[kept], position[kept])
    assert grouped == pytest.approx(looks, abs=0.05)
    assert plain[1] > 0.7


def test_what_is_left_to_a_model_does_not_narrow_the_interval() -> None:
    """A model that is quite wrong about heavy weights: the values follow it, the intervals do not."""
    rng = np.random.default_rng(14)
    rare = rng.random(4000) < 0.02
    reward = (rng.random(4000) < np.where(rare, 0.6, 0.1)).astype(float)
    weight = np.where(rare, 30.0, 0.4 / 0.98)
    model = {"predicted": np.full(4000, 0.1), "predicted_target": np.full(4000, 0.1)}
    found = {}
    for name in ("dr", "switch_dr", "dr_os"):
        evaluator = Evaluator(name, largest=30.0)
        evaluator.add(reward, weight, **model)
        found[name] = evaluator.estimate()
    truth = 0.6 * 0.6 + 0.4 * 0.1
    for each in found.values():
        assert each.low < truth < each.high
        assert (each.low, each.high) == (found["dr"].low, found["dr"].high)
    assert found["switch_dr"].value == pytest.approx(0.1, abs=0.02)
    assert "the value of switch_dr" in evaluate.disagreement(list(found.values()))
    assert evaluate.disagreement([found["dr"]]) == ""


# Coverage --------------------------------------------------------------------------------------------

TIMES = (100, 300, 1000, 3000)


def logs(count: int, seed: int) -> Any:
    """Logs of one of 12 items by unequal chances, heavy weights, and a policy that prefers what is rarely shown."""
    rng = np.random.default_rng(seed)
    rates = rng.beta(2, 20, 12)
    logged = rng.dirichlet(np.full(12, 0.7)) * 0.94 + 0.005
    target = rng.dirichlet(np.full(12, 0.7))
    guess = np.clip(rates + rng.normal(0, 0.03, 12), 0.0, 1.0)  # a model that is a little wrong
    largest = float((target / logged).max())
    truth = float(target @ rates)
    for _ in range(count):
        item = rng.choice(12, TIMES[-1], p=logged)
        reward = (rng.random(item.size) < rates[item]).astype(float)
        weight = (target / logged)[item]
        model = {"predicted": guess[item], "predicted_target": np.full(item.size, target @ guess)}
        yield truth, max(largest, 1.0), reward, weight, model, float(logged @ rates)


def missed(estimator: str, *, bounded: bool, count: int = 40) -> tuple[int, int, float]:
    """Logs of which an interval missed the truth at some time, the same of the difference, and the mean error."""
    value = apart = 0
    errors = []
    for truth, largest, reward, weight, model, logged in logs(count, seed=11):
        evaluator = Evaluator(estimator, largest=largest if bounded else None, cut=20.0)
        wrong = other = False
        for first, last in zip((0, *TIMES), TIMES, strict=False):
            part = {name: column[first:last] for name, column in model.items()}
            evaluator.add(reward[first:last], weight[first:last], **part)
            found = evaluator.estimate()
            wrong |= not found.low <= truth <= found.high
            other |= not found.difference_low <= truth - logged <= found.difference_high
            assert found.lift_low <= found.lift_high
        value, apart = value + wrong, apart + other
        errors.append(found.value - truth)
    return value, apart, float(np.mean(errors) / (np.std(errors) / math.sqrt(count)))


@pytest.mark.parametrize("bounded", [False, True])
@pytest.mark.parametrize("estimator", ["ips", "clipped_ips", "snips", "dr"])
def test_intervals_cover_at_all_times(estimator: str, bounded: bool) -> None:
    value, apart, error = missed(estimator, bounded=bounded)
    assert value <= 4  # of 40, at 5 %: more is a chance of 3 %
    assert apart <= 4
    if estimator in ("ips", "dr"):
        assert abs(error) < 3.5


def test_what_is_clipped_belongs_to_the_upper_end() -> None:
    _, largest, reward, weight, _, _ = next(logs(1, seed=11))
    found = {}
    for name in ("ips", "clipped_ips"):
        evaluator = Evaluator(name, largest=largest, cut=0.5)
        evaluator.add(reward, weight)
        found[name] = evaluator.estimate()
    assert found["clipped_ips"].value < found["ips"].value
    assert found["clipped_ips"].high == found["ips"].high
    assert found["clipped_ips"].difference_high == found["ips"].difference_high


def test_a_bound_of_the_weights_brings_the_upper_end_closer() -> None:
    _, largest, reward, weight, _, _ = next(logs(1, seed=11))
    ends = []
    for bound in (None, largest):
        evaluator = Evaluator(largest=bound)
        evaluator.add(reward, weight)
        ends.append(evaluator.estimate().high)
    assert ends[1] < 0.7 * ends[0]


# Refusals --------------------------------------------------------------------------------------------


def test_few_heavy_weights_are_refused() -> None:
    # as Open Bandit's women, bts to random: an effective sample of 2 of 10,000 rows
    propensity = np.full(10_000, 0.5)
    propensity[:2] = 1e-6
    found = evaluate.ips(np.zeros(10_000), propensity, np.full(10_000, 0.01))
    assert "effective sample of 2.0" in found.refusal
    assert found.verdict.startswith("no answer: ")
    assert found.low == 0.0


def test_unsupported_mass_is_refused_in_words() -> None:
    rng = np.random.default_rng(7)
    reward = (rng.random(5000) < 0.1).astype(float)
    # the policy would show something else on 62 % of its pages, which the logger never does
    found = evaluate.ips(reward, np.ones(5000), np.full(5000, 0.38))
    assert found.refusal == "62 % of what it would show was never shown"
    assert found.unsupported == pytest.approx(0.62)
    assert not found.weights_agree


def test_a_little_unsupported_mass_widens_the_interval() -> None:
    rng = np.random.default_rng(8)
    reward = (rng.random(5000) < 0.1).astype(float)
    for largest in (None, 1.0):
        found = evaluate.ips(reward, np.ones(5000), np.full(5000, 0.8), largest=largest)
        assert not found.refusal
        assert found.low < 0.8 * 0.1  # what it does not show earns 0 to 1
        assert found.high > 0.8 * 0.1 + 0.2
        assert found.difference_high > 0.8 * 0.1 + 0.2 - 0.11


def test_wrong_propensities_are_noticed() -> None:
    found = evaluate.ips(np.zeros(5000), np.full(5000, 0.1), np.full(5000, 0.3))
    assert "mean weight is 3, at least" in found.refusal
    assert not found.weights_agree


def test_estimators_that_contradict_each_other_are_named() -> None:
    rng = np.random.default_rng(9)
    reward, half = (rng.random(4000) < 0.5).astype(float), np.full(4000, 0.5)
    wrong = evaluate.switch_dr(reward, half, half, predicted=half, predicted_target=half * 0 + 0.9, switch=0.5)
    right = evaluate.ips(reward, half, half, largest=1.0)
    assert "the value of switch_dr, 0.9, is outside its interval" in evaluate.disagreement([right, wrong])
    apart = right._replace(low=0.1, value=0.2, high=0.3, estimator="snips")
    assert "ips and snips disagree" in evaluate.disagreement([right, apart])
    assert evaluate.disagreement([right]) == ""


def test_nothing_is_an_answer() -> None:
    found = evaluate.ips([], [], [])
    assert found.refusal == "the log has no rankings"
    assert isinstance(found, Estimate)
    assert math.isnan(found.value)
    given: list[dict[str, Any]] = [{}, {"largest": 2.0}, {"ranking": []}]
    for options in given:
        assert evaluate.ips([], [], [], most=3.0, **options)[1:3] == (0.0, 3.0)
    for name in evaluate.ESTIMATORS:
        assert Evaluator(name, most=2.0, slots=4, largest=5.0).estimate()[1:3] == (0.0, 8.0)


@pytest.mark.parametrize(
    ("columns", "options", "rule"),
    [
        (([0.5], [0.0], [0.5]), {}, "0 < propensity <= 1"),
        (([0.5], [0.5], [1.5]), {}, "0 <= target <= 1"),
        (([2.0], [0.5], [0.5]), {}, "0 <= reward <= most"),
        (([math.nan], [0.5], [0.5]), {}, "reward is finite"),
        (([0.5], [0.1], [0.5]), {"largest": 2.0}, "weight <= largest"),
        (([0.5], [0.5, 0.5], [0.5]), {}, "propensity has as many entries as reward.*propensity=2, reward=1"),
        (([0.5, 0.5], [0.5, 0.5], [0.5]), {}, "target has as many entries as reward.*target=1, reward=2"),
        (([1] * 2000, [0.5] * 1000, [0.5] * 1000), {}, "propensity has as many.*propensity=1000, reward=2000"),
        ((0.5, 0.5, 0.5), {}, "reward has an entry for each row"),
        (([0.5], [0.5], [0.5]), {"unsupported": 1.5}, r"0 <= unsupported <= 1.*unsupported=1\.5"),
        (([0.5], [0.5], [0.5]), {"unsupported": -0.1}, "0 <= unsupported <= 1"),
        (([0.5] * 4,) * 3, {"ranking": [1, 2, 2, 1]}, "next to each other.*ranking_that_returns=1"),
        (([0.5] * 5,) * 3, {"ranking": list("abcba")}, "next to each other.*ranking_that_returns='b'"),
        (([0.5], [0.5], [0.5]), {"alpha": 0.0}, "0 < alpha < 1"),
        (([0.5, 0.5], [0.5, 0.5], [0.5, 0.5]), {"ranking": [1]}, "a ranking for each row"),
    ],
)
def test_errors_state_rule_and_value(columns: Any, options: dict[str, Any], rule: str) -> None:
    with pytest.raises(InputError, match=rule):
        evaluate.ips(*columns, **options)


@pytest.mark.parametrize(
    ("model", "rule"),
    [
        ({"predicted": [0.5] * 3}, "predicted has as many entries as reward.*predicted=3, reward=2"),
        ({"predicted_target": [0.5]}, "predicted_target has as many entries as reward.*predicted_target=1, reward=2"),
        ({"predicted": [0.5, -0.1]}, r"0 <= predicted <= most.*predicted=-0\.1, most=1"),
        ({"predicted": [0.5, 1.1]}, r"0 <= predicted <= most.*predicted=1\.1, most=1"),
        ({"predicted_target": 2.0}, r"0 <= predicted_target <= most.*predicted_target=2\.0"),
    ],
)
def test_wrong_predictions_are_named(model: dict[str, Any], rule: str) -> None:
    given: dict[str, Any] = {"predicted": 0.5, "predicted_target": 0.5} | model
    with pytest.raises(InputError, match=rule):
        evaluate.dr([1, 0], [0.5, 0.5], [0.5, 0.5], **given)
    with pytest.raises(InputError, match=rule):
        Evaluator("dr").add([1, 0], [1.0, 1.0], **given)


def test_one_prediction_is_for_all_rows() -> None:
    half = [0.5] * 40
    columns = [1, 0] * 20, half, half
    scalar = evaluate.dr(*columns, predicted=0.3, predicted_target=0.4)
    assert scalar == evaluate.dr(*columns, predicted=[0.3] * 40, predicted_target=[0.4] * 40)


def test_columns_of_an_evaluator_have_one_length() -> None:
    for options, rule in (
        ({"mass": [1.0]}, "mass has as many entries as reward.*mass=1, reward=2"),
        ({"unsupported": [0.0] * 3}, "unsupported is one share, or one for each unit.*shares=3, units=2"),
        ({"ranking": ["a"]}, "a ranking for each row"),
    ):
        with pytest.raises(InputError, match=rule):
            Evaluator().add([1, 0], [1.0, 1.0], **options)
    with pytest.raises(InputError, match=r"weight has as many entries as reward.*weight=1, reward=2"):
        Evaluator().add([1, 0], [1.0])


def test_unknown_options_are_named_with_the_function() -> None:
    columns: Any = ([1], [0.5], [0.5])
    options: Any = {"clip": 3}
    with pytest.raises(TypeError, match=r"^ips\(\) got an unexpected keyword argument 'clip'"):
        evaluate.ips(*columns, **options)
    options = {"looks": [1.0], "largest": 3}
    with pytest.raises(TypeError, match=r"^position_based\(\) got an unexpected keyword argument 'largest'"):
        evaluate.position_based([1], [1], [1], **options)


# Positions -------------------------------------------------------------------------------------------


def test_the_position_based_model_covers() -> None:
    rng = np.random.default_rng(10)
    looks = 1.0 / np.arange(1, 6)
    rates = np.array([0.1, 0.4, 0.2, 0.3, 0.05])
    order = np.array([2, 4, 1, 3, 5])  # where the policy would show each: deterministic, as the logger
    truth = float(rates @ looks[order - 1])
    misses = 0
    for _ in range(40):
        reward = (rng.random((800, 5)) < rates * looks).astype(float).ravel()
        rows = np.tile(np.arange(1, 6), 800), np.tile(order, 800)
        found = evaluate.position_based(reward, *rows, looks=looks, ranking=np.repeat(np.arange(800), 5))
        assert found.mean_weight == pytest.approx(1.0)
        misses += not found.low <= truth <= found.high
    assert misses <= 4


def test_what_the_page_did_not_have_is_unsupported() -> None:
    looks = [1.0, 0.5]
    reward = np.tile([1.0, 0.0], 500)
    found = evaluate.position_based(
        reward, np.tile([1, 2], 500), np.tile([2, 0], 500), looks=looks, ranking=np.repeat(np.arange(500), 2)
    )
    assert found.unsupported == pytest.approx(1 - 0.5 / 1.5)
    assert "67 % of what it would show was never shown" in found.refusal


def test_positions_are_checked_as_other_columns() -> None:
    looks = [1.0, 0.5]
    rows = [1, 0, 0, 1], [1, 2, 2, 1], [1, 2, 2, 1]
    for ranking, rule in (
        ([7, 8, 8, 7], "next to each other.*ranking_that_returns=7"),
        ([7, 7], "a ranking for each row"),
    ):
        with pytest.raises(InputError, match=rule):
            evaluate.position_based(*rows, looks=looks, ranking=ranking)
    with pytest.raises(InputError, match=r"position has as many entries as reward.*position=4, reward=3"):
        evaluate.position_based([1, 0, 0], *rows[1:], looks=looks)


# Learning policies -----------------------------------------------------------------------------------


def test_queues_play_as_live() -> None:
    # uniform choice earns the mean of the rates; a good policy more; both stop where the log ends
    rng = np.random.default_rng(12)
    rates = np.array([0.05, 0.1, 0.5])
    items = rng.integers(3, size=4000)
    rewards = (rng.random(4000) < rates[items]).astype(float)
    for method in ("queue", "replay"):
        found = evaluate.play_log(["hellinger-ucb", "uniform", "thompson"], items, rewards, method=method, seeds=3)
        best, equal, thompson = found
        assert equal.low < rates.mean() < equal.high
        assert best.low > rates.mean()
        assert thompson.low > rates.mean()
        assert {each.rounds for each in found} == {min(min(each.reached) for each in found)}
        assert all(each.method == method and each.rows == 4000 for each in found)
    assert min(equal.reached) > 0.25 * 4000  # replay keeps one row in three


def test_replay_corrects_for_unequal_chances() -> None:
    rng = np.random.default_rng(13)
    chances = np.array([0.7, 0.2, 0.1])
    items = rng.choice(3, 6000, p=chances)
    rewards = (rng.random(6000) < np.array([0.1, 0.2, 0.3])[items]).astype(float)
    (found,) = evaluate.play_log(
        ["uniform"], items, rewards, method="replay", propensity=chances[items], seeds=5, rounds=400
    )
    assert found.rounds == 400
    assert found.low < 0.2 < found.high


def test_pages_and_pools_are_played_too() -> None:
    rng = np.random.default_rng(14)
    rates = rng.beta(1.6, 30, 250)
    items = rng.integers(250, size=20_000)
    rewards = (rng.random(items.size) < rates[items]).astype(float)
    best, equal = evaluate.play_log(["cold-start", "uniform"], items, rewards, slots=5, seeds=2, rounds=150)
    assert best.rounds == equal.rounds
    assert best.value > equal.value
    assert equal.value == pytest.approx(rates.mean(), rel=0.3)


def test_finished_runs_are_kept(tmp_path: Path) -> None:
    rng = np.random.default_rng(15)
    columns = rng.integers(4, size=500), rng.integers(2, size=500)
    first = evaluate.play_log(["ucb1"], *columns, seeds=2, resume=tmp_path)
    kept = {file: file.stat().st_mtime_ns for file in tmp_path.iterdir()}
    assert len(kept) == 2
    assert evaluate.play_log(["ucb1"], *columns, seeds=2, resume=tmp_path) == first
    assert {file: file.stat().st_mtime_ns for file in tmp_path.iterdir()} == kept


def test_a_log_that_ends_at_once() -> None:
    (found,) = evaluate.play_log(["ucb1"], ["a", "b"], [0, 1], rounds=1)
    assert found.rounds == 1
    with pytest.raises(InputError, match="replay shows one item a round"):
        evaluate.play_log(["ucb1"], ["a", "b"], [0, 1], method="replay", slots=2)
