"""The simulator: the same numbers whatever plays them, common rewards, parts that are kept, input that is refused."""

from __future__ import annotations

import itertools
import math
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hellinger import families
from hellinger.errors import InputError
from hellinger.lab import PAPER_BERNOULLI, Changing, Problem, Result, _simulate, parse_means, simulate
from hellinger.lab._block import Block, BlockOutcome
from rewards import rewards_of

POLICIES = ["hellinger-ucb", "kl-ucb", "thompson", "epsilon-greedy"]
SETTING: dict[str, Any] = {"means": [0.3, 0.6, 0.5], "horizon": 200, "runs": 10, "seed": 7}


@pytest.fixture(scope="module")
def reference() -> Result:
    return simulate(POLICIES, workers=1, **SETTING)


def rows(result: Result, policy: str) -> tuple[bytes, bytes, bytes]:
    at = result.position(policy)
    return result.regret[at].tobytes(), result.pulls[at].tobytes(), result.reward[at].tobytes()


# The same numbers every time -------------------------------------------------------------------------


@pytest.mark.parametrize("workers", [2, 4])
def test_workers_do_not_matter(reference: Result, workers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_simulate, "_STEPS_A_BLOCK", 300)  # a block for each run
    result = simulate(POLICIES, workers=workers, **SETTING)
    assert all(rows(result, name) == rows(reference, name) for name in POLICIES)


@pytest.mark.parametrize("steps", [1, 400, 10_000])
def test_sizes_of_blocks_do_not_matter(reference: Result, steps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_simulate, "_STEPS_A_BLOCK", steps)
    result = simulate(POLICIES, **SETTING)
    assert all(rows(result, name) == rows(reference, name) for name in POLICIES)


@pytest.mark.parametrize("chosen", [POLICIES[::-1], POLICIES[2:3], [POLICIES[3], POLICIES[0]]])
def test_order_and_company_do_not_matter(reference: Result, chosen: list[str]) -> None:
    result = simulate(chosen, **SETTING)
    assert result.policies == chosen
    assert all(rows(result, name) == rows(reference, name) for name in chosen)


def test_fewer_runs_are_the_first_of_more(reference: Result) -> None:
    result = simulate(POLICIES, **(SETTING | {"runs": 4}))
    assert np.array_equal(result.regret, reference.regret[:, :4])
    assert np.array_equal(result.reward, reference.reward[:, :4])


def test_seeds_matter(reference: Result) -> None:
    result = simulate(POLICIES, **(SETTING | {"seed": 8}))
    assert not any(rows(result, name) == rows(reference, name) for name in POLICIES)


def test_runs_differ_and_do_not_repeat(reference: Result) -> None:
    assert len({run.tobytes() for run in reference.regret[reference.position("thompson")]}) == 10


def test_numbers_of_an_earlier_day() -> None:
    result = simulate(["hellinger-ucb", "thompson"], means=PAPER_BERNOULLI, horizon=1000, runs=5, init=3)
    assert result.final.round(2).tolist() == [
        [30.62, 31.62, 31.04, 32.78, 31.42],
        [51.85, 42.22, 40.06, 47.8, 35.51],
    ]


# Common random numbers -------------------------------------------------------------------------------


@pytest.mark.parametrize("run", [0, 3])
def test_every_policy_meets_the_same_rewards(run: int) -> None:
    means = [0.4, 1.5, 1.1]
    result = simulate(
        ["kl-ucb", "uniform", "thompson"], means=means, family="poisson", horizon=60, runs=run + 1, seed=2
    )
    before = simulate(result.policies, means=means, family="poisson", horizon=60, runs=run, seed=2) if run else None
    reward, _ = rewards_of("poisson", means, seed=2, run=run)
    for i in range(3):
        plays = (run + 1) * result.pulls[i, -1] - (0 if before is None else run * before.pulls[i, -1])
        counts = plays.round().astype(int)
        assert counts.sum() == 60
        total = sum(reward(arm, j) for arm in range(3) for j in range(counts[arm]))
        assert result.reward[i, run] == pytest.approx(total)


def test_pairing_sharpens_comparisons() -> None:
    result = simulate(["kl-ucb", "kl-ucb(c=0.1)"], means=[0.5, 0.4], horizon=2000, runs=100)
    gaps = result.final[0] - result.final[1]
    assert gaps.std() < 0.7 * np.hypot(result.final[0].std(), result.final[1].std())


# Initial plays and memory ----------------------------------------------------------------------------


@pytest.mark.parametrize("init", [0, 1, 3])
def test_initial_plays_come_first(init: int) -> None:
    result = simulate("hellinger-ucb", means=[0.9, 0.1, 0.1], horizon=12, runs=3, init=init, checkpoints=1000)
    opening = 3 * init
    if init:
        assert result.pulls[0, opening - 1].tolist() == [init] * 3
    assert (result.pulls[0, -1] >= init).all()


def test_memory_does_not_grow_with_the_horizon(monkeypatch: pytest.MonkeyPatch) -> None:
    # pulls are noted by arm at every checkpoint: were outcomes held, ten times the blocks would take ten times the room
    def peak(horizon: int) -> tuple[int, tuple[int, ...]]:
        monkeypatch.setattr(_simulate, "_STEPS_A_BLOCK", 20_000)
        tracemalloc.start()
        result = simulate(
            "hellinger-ucb", means=np.linspace(0, 1, 500), horizon=horizon, runs=40, checkpoints=30, workers=1
        )
        top = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return top, result.regret.shape[:2] + result.pulls.shape[::2]

    simulate("hellinger-ucb", means=np.linspace(0, 1, 500), horizon=600, runs=1)  # compile first
    short, shape = peak(600)
    long, same = peak(20_000)
    assert shape == same
    assert long < 3 * short  # held outcomes would be ten times as much


# Parts that are kept ---------------------------------------------------------------------------------


class Counting:
    """An engine that counts what it plays, and may give up after so many blocks."""

    def __init__(self, until: float = np.inf) -> None:
        self.until = until
        self.played: list[str] = []

    def __call__(self, blocks: Sequence[Block]) -> Iterator[tuple[Block, BlockOutcome]]:
        for block in blocks:
            if len(self.played) >= self.until:
                raise KeyboardInterrupt
            self.played.append(block.key)
            yield block, block.play()


@pytest.fixture
def eight_blocks(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    monkeypatch.setattr(_simulate, "_STEPS_A_BLOCK", 1000)  # five runs in each
    return lambda **more: simulate(POLICIES, **SETTING, **more)


def test_finished_parts_are_not_played_again(
    reference: Result, eight_blocks: Callable[..., Result], tmp_path: Path
) -> None:
    first = Counting(until=3)
    with pytest.raises(KeyboardInterrupt):
        eight_blocks(engine=first, resume=tmp_path)
    second = Counting()
    moves: list[tuple[int, int]] = []
    result = eight_blocks(engine=second, resume=tmp_path, progress=lambda *move: moves.append(move))
    assert len(first.played) == 3
    assert len(second.played) == 5
    assert not set(first.played) & set(second.played)
    assert moves == [(1000 * done, 8000) for done in range(3, 9)]
    assert all(rows(result, name) == rows(reference, name) for name in POLICIES)
    third = Counting(until=0)
    assert np.array_equal(eight_blocks(engine=third, resume=tmp_path).regret, reference.regret)


@pytest.mark.parametrize("damage", ["cut", "empty", "text", "other"])
def test_damaged_parts_are_played_again(
    reference: Result, eight_blocks: Callable[..., Result], tmp_path: Path, damage: str
) -> None:
    eight_blocks(resume=tmp_path)
    victim = sorted(tmp_path.glob("*.npz"))[2]
    if damage == "cut":
        victim.write_bytes(victim.read_bytes()[:-100])
    elif damage == "other":
        np.savez(victim, regret=np.zeros((2, 2)), pulls=np.zeros((2, 2)), reward=np.zeros(2))
    else:
        victim.write_bytes(b"" if damage == "empty" else b"not an archive")
    again = Counting()
    result = eight_blocks(engine=again, resume=tmp_path)
    assert again.played == [victim.stem]
    assert np.array_equal(result.regret, reference.regret)


@pytest.mark.parametrize("change", [{"seed": 8}, {"init": 2}, {"ties": "first"}, {"means": [0.3, 0.6, 0.51]}])
def test_parts_of_another_experiment_are_not_taken(
    eight_blocks: Callable[..., Result], tmp_path: Path, change: dict[str, Any]
) -> None:
    eight_blocks(resume=tmp_path)
    again = Counting()
    simulate(POLICIES, engine=again, resume=tmp_path, **(SETTING | change))
    assert len(again.played) == 8


def test_an_error_in_a_worker_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(block: Block) -> BlockOutcome:
        raise RuntimeError(f"run {block.first}")

    monkeypatch.setattr(Block, "play", broken)
    with pytest.raises(RuntimeError, match="run"):
        simulate("ucb1", workers=2, **SETTING)


# Problems and bad input ------------------------------------------------------------------------------


def test_means_as_text(tmp_path: Path) -> None:
    assert parse_means("0.1,0.05, 2e-2").tolist() == [0.1, 0.05, 0.02]
    drawn = parse_means("beta(1.6,100)x10000", seed=3)
    assert drawn.shape == (10_000,)
    assert abs(drawn.mean() - 1.6 / 101.6) < 4 * drawn.std() / 100
    assert np.array_equal(drawn, parse_means("Beta( 1.6, 100 ) x 10000", seed=3))
    assert not np.array_equal(drawn, parse_means("beta(1.6,100)x10000", seed=4))
    file = tmp_path / "means.txt"
    file.write_text("# rates\n0.1\n0.2\n0.3\n")
    assert parse_means(str(file)).tolist() == [0.1, 0.2, 0.3]
    file.write_text("0.1,0.2,0.3\n")
    assert Problem.make(str(file)).means.tolist() == [0.1, 0.2, 0.3]


@pytest.mark.parametrize(
    "text", ["beta(1)x10", "cauchy(1,2)x10", "beta(1,2)x0", "0.1,,x", "nowhere.txt", "", "beta(1,2)", "beta(-1,2)x5"]
)
def test_means_that_are_none(text: str) -> None:
    with pytest.raises(ValueError, match=r"\S"):
        Problem.make(text)


def test_a_file_that_holds_no_numbers(tmp_path: Path) -> None:
    file = tmp_path / "means.txt"
    for content in ("a,b\n", ""):
        file.write_text(content)
        with pytest.raises(ValueError, match="means"):
            Problem.make(str(file))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"runs": 0}, "1 <= runs"),
        ({"runs": 1.5}, "1 <= runs, a whole number"),
        ({"horizon": 0}, "1 <= horizon"),
        ({"horizon": float("inf")}, "1 <= horizon"),
        ({"horizon": 2}, "the initial plays fit in the horizon"),
        ({"init": 100}, "the initial plays fit in the horizon"),
        ({"init": -1}, "0 <= init"),
        ({"seed": -1}, "0 <= seed"),
        ({"slots": 4}, "slots <= arms"),
        ({"slots": 0}, "1 <= slots"),
        ({"batch": 0}, "1 <= batch"),
        ({"delay": -1}, "0 <= delay"),
        ({"ties": "last"}, "ties"),
        ({"player": "none"}, "player"),
        ({"engine": "spark://x:1"}, "engine is local or dask"),
        ({"workers": 0}, "1 <= workers"),
        ({"checkpoints": 0}, "1 <= checkpoints"),
        ({"means": [0.5, 1.5]}, "0 <= mean <= 1"),
        ({"means": [0.5, float("nan")]}, "means are numbers"),
        ({"means": []}, "at least one number"),
        ({"family": "cauchy"}, "unknown family"),
        ({"family": families.ExponentialFamily(lambda x: x * x / 2, mean_bounds=(-9, 9))}, "`sampler` must be given"),
    ],
)
def test_refused(change: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        simulate("ucb1", **(SETTING | change))


@pytest.mark.parametrize("policies", [[], ["ucb2"], ["ucb1", "ucb1"], "hellinger-ucb(c=2)"])
def test_policies_refused(policies: list[str]) -> None:
    with pytest.raises(ValueError, match=r"polic|0 < c"):
        simulate(policies, **SETTING)


def test_whole_numbers_may_be_floats(reference: Result) -> None:
    result = simulate(POLICIES, **(SETTING | {"horizon": 2e2, "runs": 10.0}))
    assert np.array_equal(result.regret, reference.regret)


def test_checkpoints_are_log_spaced_and_end_at_the_horizon() -> None:
    for horizon, count in itertools.product((1, 2, 17, 10_000, 10**9), (1, 2, 100)):
        marks = _simulate.log_spaced(horizon, count)
        assert marks[-1] == horizon
        assert marks.size <= count
        assert (np.diff(marks) > 0).all()


def test_a_pool_plays_as_the_simulator_does() -> None:
    """The same rewards; ties, and when a prior is fitted, are its own."""
    setting: dict[str, Any] = {"means": "beta(2, 20)x30", "horizon": 1500, "runs": 24, "seed": 1}
    both = [simulate("cold-start", **setting, player=player) for player in ("pool", "scan")]
    apart = both[0].final[0] - both[1].final[0]
    assert abs(apart.mean()) < 4 * apart.std() / math.sqrt(24)
    assert both[0].pulls.sum(axis=2)[0] == pytest.approx(both[0].checkpoints)
    again = simulate(["ucb1", "cold-start"], **setting | {"runs": 3}, player="pool", workers=1)
    assert again.final[1].tolist() == both[0].final[0, :3].tolist()
    course = Changing.make([[0.9, 0.1], [0.1, 0.9]], since=[1, 51])
    moved = simulate("greedy", means=course, horizon=100, runs=1, player="pool", checkpoints=1000)
    gaps = np.diff(moved.regret[0, 0], prepend=0.0)
    assert np.isclose(gaps, 0.8).sum() + np.isclose(gaps, 0.0).sum() == 100
    for spec, words in (("exp3", "scores counts"), ("empirical-imed", "scores counts")):
        with pytest.raises(InputError, match=words):
            simulate(spec, means=[0.1, 0.2], horizon=10, player="pool")
    with pytest.raises(InputError, match="one arm a round"):
        simulate("ucb1", means=[0.1, 0.2], horizon=10, slots=2, player="pool")
