"""Recorded rewards: small tables by hand, the bandit on the same rows, and the authors' ten-ads demo."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

import demo
from hellinger import Bandit
from hellinger.lab import read_table, replay_table

ADS = Path(__file__).parent.parent.parent / "shared" / "data" / "ads_ctr.csv"


@pytest.fixture(scope="module")
def ads() -> npt.NDArray[np.float64]:
    if not ADS.is_file():
        pytest.skip("ads_ctr.csv, the ten-ads table, is not there")
    return read_table(ADS)


# Small tables ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("header", ["", "first,second\n", '"Ad 1","Ad 2"\n'])
def test_tables_with_and_without_names(tmp_path: Path, header: str) -> None:
    file = tmp_path / "table.csv"
    file.write_text(f"{header}1,0\n0,0.5\n1,1\n")
    assert read_table(file).tolist() == [[1, 0], [0, 0.5], [1, 1]]


def test_a_table_by_hand() -> None:
    # 1/1 has the index 1 of an untried arm, and the tie goes to the first; 1/2 has less, so the second has its turn
    table = [[1, 0], [0, 0], [1, 0], [0, 1]]
    result = replay_table("hellinger-ucb", table, ties="first", runs=2)
    assert result.checkpoints.tolist() == [1, 2, 3, 4]
    assert result.pulls[0].tolist() == [[1, 0], [2, 0], [2, 1], [3, 1]]
    assert result.reward[0].tolist() == [1, 1]
    # the better column returns 1, 1, 2, 2
    assert result.regret[0, 0].tolist() == [0, 0, 1, 1]
    assert result.means.tolist() == [0.5, 0.25]


def test_the_best_columns_in_hindsight_are_the_measure() -> None:
    table = np.array([[1.0, 0.0, 1.0], [0.0, 1.0, 1.0], [1.0, 0.0, 0.0]])
    result = replay_table("uniform", table, slots=2, runs=50, seed=1)
    best = table[:, [0, 2]].sum()
    assert (result.final[0] == best - result.reward[0]).all()
    everything = replay_table("uniform", table, slots=3, runs=2)
    assert (everything.regret == 0).all()
    assert (everything.pulls[0, -1] == 3).all()


@pytest.mark.parametrize("slots", [1, 2])
@pytest.mark.parametrize("policy", ["hellinger-ucb", "kl-ucb"])
def test_choices_are_the_bandits(slots: int, policy: str) -> None:
    table = (np.random.default_rng(3).random((150, 4)) < [0.2, 0.6, 0.5, 0.1]).astype(float)
    result = replay_table(policy, table, slots=slots, ties="first", runs=1, checkpoints=20_000)
    bandit = Bandit(policy, arms=4, ties="first")
    for i, row in enumerate(table):
        shown = [int(arm) for arm in bandit.rank(slots)]
        bandit.update_many(shown, row[shown])
        assert bandit.pulls.tolist() == result.pulls[0, i].tolist()


def test_same_seed_same_numbers_and_ties_matter() -> None:
    table = (np.random.default_rng(5).random((300, 5)) < 0.3).astype(float)
    both = replay_table(["thompson", "ucb1"], table, runs=8, seed=2)
    alone = replay_table("thompson", table, runs=4, seed=2)
    assert np.array_equal(both.regret[0, :4], alone.regret[0])
    assert len(set(both.reward[1])) > 1
    first = replay_table("ucb1", table, runs=8, seed=2, ties="first")
    assert len(set(first.reward[0])) == 1


def test_other_rewards() -> None:
    table = np.random.default_rng(1).poisson([1.0, 4.0], (200, 2))
    result = replay_table("kl-ucb", table, family="poisson", runs=2)
    assert (result.pulls[0, -1] > [0, 150]).all()
    with pytest.raises(ValueError, match="0 <= reward <= 1"):
        replay_table("kl-ucb", table, runs=2)


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ([1, 0], "table of rounds and arms"),
        ([[]], "table of rounds and arms"),
        ([[0.5, np.nan]], "every reward is a number"),
    ],
)
def test_tables_refused(table: list[object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        replay_table("ucb1", np.array(table), runs=1)


# The ten ads -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "published"), [("ucb1", 5925), ("kl", 6331), ("hellinger", 6443)])
def test_published_totals_come_back_with_a_stable_sort(ads: npt.NDArray[np.float64], name: str, published: int) -> None:
    assert demo.total(name, ads, demo.stable) == published


def test_the_order_of_ties_alone_moves_the_published_winner(ads: npt.NDArray[np.float64]) -> None:
    totals = [demo.total("hellinger", ads, demo.shuffled(np.random.default_rng(seed))) for seed in range(4)]
    assert max(totals) - min(totals) > 300


def test_ours_on_the_ten_ads(ads: npt.NDArray[np.float64]) -> None:
    result = replay_table(["ucb1", "kl-ucb", "hellinger-ucb"], ads, slots=3, runs=60)
    reward = result.reward.mean(axis=1)
    half = 1.96 * result.reward.std(axis=1, ddof=1) / np.sqrt(60)
    assert (np.abs(reward - [5942.7, 6329.6, 6344.1]) < 2 * half).all()
    assert result.reward.std(axis=1).max() < 60
    assert result.difference("ucb1", "hellinger-ucb").low > 300
    assert result.means[np.argsort(result.means)[-3:]].sum() * len(ads) == pytest.approx(6489)
