"""Results: what they say, what they keep, and what they refuse to read."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from hellinger.lab import Result, simulate


@pytest.fixture(scope="module")
def result() -> Result:
    return simulate(["hellinger-ucb", "ucb1", "kl-ucb(c=3)"], means=[0.3, 0.6, 0.5], horizon=300, runs=40, seed=4)


def test_summary_by_hand(result: Result) -> None:
    row = result.summary()[1]
    final = result.final[1]
    assert row["policy"] == "ucb1"
    assert row["mean_regret"] == pytest.approx(math.fsum(final) / 40)
    variance = math.fsum((x - math.fsum(final) / 40) ** 2 for x in final) / 39
    assert row["sem"] == pytest.approx(math.sqrt(variance / 40))
    assert row["median"] == pytest.approx((sorted(final)[19] + sorted(final)[20]) / 2)
    assert row["q25"] <= row["median"] <= row["q75"] <= row["q99"] <= final.max()
    assert row["mean_reward"] == pytest.approx(result.reward[1].mean())
    assert result.steps == 3 * 40 * 300


def test_regret_reward_and_pulls_tell_one_story(result: Result) -> None:
    gaps = 0.6 - result.means
    assert result.regret.mean(axis=1) == pytest.approx((result.pulls * gaps).sum(axis=-1))
    assert result.pulls.sum(axis=-1)[0] == pytest.approx(result.checkpoints)
    # rewards and pseudo-regret differ by noise alone
    noise = 300 * 0.6 - result.reward - result.final
    assert (np.abs(noise.mean(axis=1)) < 4 * math.sqrt(300 * 0.25 / 40)).all()


def test_difference_by_hand(result: Result) -> None:
    difference = result.difference("ucb1", "hellinger-ucb")
    gaps = [a - b for a, b in zip(result.final[1], result.final[0], strict=True)]
    mean = math.fsum(gaps) / 40
    half = 1.959964 * math.sqrt(math.fsum((gap - mean) ** 2 for gap in gaps) / 39 / 40)
    assert difference.mean == pytest.approx(mean)
    assert (difference.low, difference.high) == pytest.approx((mean - half, mean + half), rel=1e-6)
    assert difference.clear
    mirrored = result.difference("hellinger-ucb", "ucb1")
    assert (mirrored.low, mirrored.high) == pytest.approx((-difference.high, -difference.low))
    assert not result.difference("ucb1", "ucb1").clear


def test_policies_by_spec_or_name(result: Result) -> None:
    assert result.position("kl-ucb(c=3)") == result.position("kl-ucb") == 2
    with pytest.raises(ValueError, match="must be one of hellinger-ucb, ucb1"):
        result.position("moss")
    twice = simulate(["kl-ucb", "kl-ucb(c=3)", "kl-ucb(c=2)"], means=[0.5], horizon=2, runs=1)
    assert twice.position("kl-ucb") == 0


def test_frame(result: Result) -> None:
    frame = result.to_frame()
    assert frame.columns == ["policy", "t", "mean", "sem", "q05", "q25", "median", "q75", "q95"]
    assert frame.height == 3 * result.checkpoints.size
    last = frame.filter((pl.col("policy") == "ucb1") & (pl.col("t") == 300)).row(0, named=True)
    assert last["mean"] == pytest.approx(result.summary()[1]["mean_regret"])
    assert last["median"] == pytest.approx(result.summary()[1]["median"])


def test_one_run_has_no_standard_error() -> None:
    single = simulate("ucb1", means=[0.3, 0.6], horizon=10, runs=1)
    assert single.summary()[0]["sem"] == 0.0
    assert single.to_frame()["sem"].to_list() == [0.0] * single.checkpoints.size


# Keeping ---------------------------------------------------------------------------------------------


def test_round_trip(result: Result, tmp_path: Path) -> None:
    folder = result.save(tmp_path / "deep" / "kept")
    kept = Result.load(folder)
    for name in ("means", "checkpoints", "regret", "pulls", "reward"):
        saved, loaded = getattr(result, name), getattr(kept, name)
        assert saved.dtype == loaded.dtype
        assert np.array_equal(saved, loaded)
    for name in ("policies", "family", "setting", "runs", "wall_s"):
        assert getattr(result, name) == getattr(kept, name)
    assert sorted(file.name for file in folder.iterdir()) == [
        "pulls.parquet",
        "regret.parquet",
        "result.json",
        "reward.parquet",
    ]
    metadata = json.loads((folder / "result.json").read_text())
    assert metadata["setting"]["seed"] == 4
    assert {"hellinger", "numpy", "numba"} <= metadata["versions"].keys()


def test_saving_again_replaces(result: Result, tmp_path: Path) -> None:
    simulate("ucb1", means=[0.3, 0.6], horizon=10, runs=1).save(tmp_path)
    result.save(tmp_path)
    assert Result.load(tmp_path).policies == result.policies


def test_failing_to_save_leaves_nothing(result: Result, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr(pl.DataFrame, "write_parquet", full)
    with pytest.raises(OSError, match="No space"):
        result.save(tmp_path)
    assert list(tmp_path.iterdir()) == []


def _cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def _flip(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 0xFF
    file.write_bytes(bytes(content))


@pytest.mark.parametrize("name", ["result.json", "regret.parquet", "pulls.parquet", "reward.parquet"])
@pytest.mark.parametrize("damage", [Path.unlink, _cut, _flip, lambda file: file.write_bytes(b"")])
def test_damaged_results_are_refused(
    result: Result, tmp_path: Path, name: str, damage: Callable[[Path], object]
) -> None:
    damage(result.save(tmp_path) / name)
    with pytest.raises(ValueError, match="must hold a result that") as caught:
        Result.load(tmp_path)
    assert str(tmp_path) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["[]", "null", "{}", '{"format": 99}', '"format"'])
def test_metadata_of_another_kind_are_refused(result: Result, tmp_path: Path, text: str) -> None:
    (result.save(tmp_path) / "result.json").write_text(text)
    with pytest.raises(ValueError, match="must hold a result"):
        Result.load(tmp_path)


def test_a_mixture_of_two_results_is_refused(result: Result, tmp_path: Path) -> None:
    result.save(tmp_path / "a")
    other = simulate(result.policies, means=result.means, horizon=300, runs=40, seed=5)
    other.save(tmp_path / "b")
    (tmp_path / "b" / "regret.parquet").replace(tmp_path / "a" / "regret.parquet")
    with pytest.raises(ValueError, match="the file is the one that was saved"):
        Result.load(tmp_path / "a")
