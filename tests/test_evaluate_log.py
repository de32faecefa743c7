"""Logs as files, the command, and its report."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from contextlib import nullcontext
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from hellinger import cli, evaluate
from hellinger.client import UnreachableError
from hellinger.engine.draws import Draws
from hellinger.engine.exploring import Exploring, Listed
from hellinger.errors import InputError
from hellinger.evaluate.logs import LogFile
from hellinger.evaluate.positions import fit_looks
from hellinger.evaluate.study import evaluate_log
from hellinger.evaluate.survey import survey
from hellinger.experiment._mixture import UP
from hellinger.serve.export import SCHEMA
from hellinger.world.tops import ItemLists, Tops

ROOTS = Path(__file__).resolve().parents[1:]
DATA = next((root / "shared" / "data" for root in ROOTS if (root / "shared" / "data").is_dir()), Path("nowhere"))
RATES = np.array([0.5, 0.4, 0.3, 0.2, 0.1, 0.05])
LOOKS = np.array([1.0, 0.6, 0.4])
PROPENSITIES = "item_id,position,click,propensity_score\n1,1,0,{}\n2,1,1,{}\n"


def rows(rankings: int, seed: int, share: float = 0.5) -> list[dict[str, Any]]:
    """An export: items in the order of their numbers, but a share of rankings drawn at random."""
    rng = np.random.default_rng(seed)
    out = []
    for number in range(rankings):
        drawn = bool(rng.random() < share)
        order = rng.permutation(6)[:3] if drawn else np.arange(3)[::-1]
        clicks = rng.random(3) < RATES[order] * LOOKS
        for place, item in enumerate(order.tolist()):
            out.append(
                dict.fromkeys(SCHEMA)
                | {
                    "ranking_id": f"r{number}",
                    "at": 1_700_000_000_000 + number * 60_000,
                    "random": drawn,
                    "position": place + 1,
                    "item": f"item-{item}",
                    "propensity": share / 6 + (1 - share) * (item == 2 - place),
                    "reward": float(clicks[place]),
                    "feedback": [],
                }
            )
    return out


TRUTH = float(RATES[:3] @ LOOKS)
"""What the best first would earn."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("log")
    frame = pl.DataFrame(rows(4000, seed=1), schema=SCHEMA)
    frame.write_parquet(path / "log.parquet", row_group_size=1000)
    frame.write_ndjson(path / "log.jsonl")
    (path / "scores.csv").write_text("item,score\n" + "".join(f"item-{i},{rate}\n" for i, rate in enumerate(RATES)))
    return path


@pytest.mark.parametrize("name", ["log.parquet", "log.jsonl"])
def test_both_forms_are_read_alike(folder: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hellinger.evaluate.logs._ROWS", 1001)  # which cuts rankings in two
    log = LogFile(folder / name)
    parts = list(log.parts())
    assert len(parts) > 5
    assert sum(part.first.size for part in parts) == 4000
    expected = pl.read_parquet(folder / "log.parquet")
    items = np.concatenate([part.item for part in parts])
    assert [log.names[item] for item in items] == expected["item"].to_list()
    for column in ("position", "reward", "propensity"):
        found = np.concatenate([getattr(part, column) for part in parts])
        assert found.tolist() == expected[column].to_list()
    assert parts[1].cut(2, 4).at.tolist() == parts[1].at[2:4].tolist()


@pytest.mark.parametrize("lazy", [False, True])
def test_frames_are_evaluated_as_files_are(folder: Path, lazy: bool) -> None:
    frame = pl.read_parquet(folder / "log.parquet")
    given = frame.lazy() if lazy else frame
    study = evaluate_log(given, scores=[folder / "scores.csv"], policies=["uniform"])
    of_file = evaluate_log(folder / "log.parquet", scores=[folder / "scores.csv"], policies=["uniform"])
    assert study.fixed == of_file.fixed
    assert study.path == ("a LazyFrame" if lazy else "a DataFrame")
    with pytest.raises(InputError, match="'a DataFrame' lacks item"):
        LogFile(frame.drop("item"))
    with pytest.raises(InputError, match="the log must be a file"):
        LogFile("nowhere.parquet")


def test_a_survey_says_what_a_log_is_like(folder: Path) -> None:
    found = survey(LogFile(folder / "log.parquet"))
    assert (found.rankings, found.rows, found.items, found.slots) == (4000, 12_000, 6, 3)
    assert found.least == pytest.approx(0.5 / 6)
    assert found.days == pytest.approx(3999 / 1440)
    assert found.looks() == pytest.approx(LOOKS, abs=0.08)
    assert any("which items there were is not in the log" in each for each in found.lacks)


def test_an_order_by_scores_is_evaluated(folder: Path) -> None:
    study = evaluate_log(folder / "log.parquet", scores=[folder / "scores.csv"])
    (answer,) = study.fixed
    found = {each.estimator: each for each in answer.estimates}
    assert found.keys() == set(evaluate.ESTIMATORS)
    for each in found.values():
        assert each.low < TRUTH < each.high, each.estimator
        assert not each.refusal
    assert found["ips"].mean_weight == pytest.approx(1.0, abs=0.1)
    assert found["ips"].value == pytest.approx(_ips(folder))
    assert answer.disagreement == ""
    assert any(note.endswith("the least of the log, 0.0833") for note in study.notes)
    assert len(answer.places) == 3
    assert sum(count for count, *_ in answer.times) == 4000
    best = answer.best
    assert best is not None
    assert best.verdict.startswith("safe to switch: at least +")
    assert answer.advice == ""


def _ips(folder: Path) -> float:
    frame = pl.read_parquet(folder / "log.parquet")
    match = pl.col("item") == pl.format("item-{}", pl.col("position") - 1)
    return float(frame.select((pl.col("reward") * match / pl.col("propensity")).sum() / 4000).item())


def test_learning_policies_are_played(folder: Path) -> None:
    study = evaluate_log(folder / "log.jsonl", policies=["hellinger-ucb", "uniform"], seeds=2)
    (learned,) = study.learned
    assert learned.policy == "hellinger-ucb"
    assert learned.value > RATES.mean() * 0.4
    assert [answer.policy for answer in study.fixed] == ["uniform"]
    ips = study.fixed[0].estimates[0]
    assert ips.low < RATES.mean() * LOOKS.sum() < ips.high
    assert any("looks of" in note for note in study.notes)


def test_learning_policies_are_played_by_replay(folder: Path) -> None:
    """Both methods are right where rewards stand still: they agree, and replay gets less far."""
    specs = ["hellinger-ucb", "ucb1"]
    queue, replay = (
        evaluate_log(folder / "log.parquet", policies=specs, seeds=2, method=method) for method in ("queue", "replay")
    )
    for one, other in zip(queue.learned, replay.learned, strict=True):
        assert (one.method, other.method) == ("queue", "replay")
        assert other.rounds < one.rounds
        assert max(one.low, other.low) < min(one.high, other.high)
    assert any(note.startswith("replay: a row counts where") for note in replay.notes)
    assert not any(note.startswith("replay") for note in queue.notes)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--policies", "ucb1", "--method", "rows"], "method is queue or replay"),
        (["--policies", "cold-start(model=logistic)"], r"learns from features.*evaluate\.play_contexts"),
    ],
)
def test_what_cannot_be_played_is_told_in_words(folder: Path, options: list[str], message: str) -> None:
    done = CliRunner().invoke(cli.app, ["evaluate", str(folder / "log.parquet"), *options])
    assert isinstance(done.exception, InputError)
    assert re.search(message, str(done.exception))


def test_replay_without_propensities_is_refused(tmp_path: Path) -> None:
    given = [row | {"propensity": None} for row in rows(10, seed=1)]
    pl.DataFrame(given, schema=SCHEMA).write_parquet(tmp_path / "log.parquet")
    with pytest.raises(InputError, match="replay needs rows with a propensity"):
        evaluate_log(tmp_path / "log.parquet", policies=["ucb1"], method="replay")


def test_a_log_without_chance_cannot_answer(tmp_path: Path) -> None:
    path = tmp_path / "log.parquet"
    pl.DataFrame(rows(300, seed=2, share=0.0), schema=SCHEMA).write_parquet(path)
    (tmp_path / "scores.csv").write_text("item,score\nitem-0,2\nitem-1,1\nitem-2,0\nitem-9,5\n")
    study = evaluate_log(path, scores=[tmp_path / "scores.csv"])
    assert any("every propensity is 1" in note for note in study.notes)
    best = study.fixed[0].best
    assert best is not None
    assert best.refusal == "67 % of what it would show was never shown"  # both have the second in the middle
    assert study.fixed[0].advice


def test_rows_without_propensity_are_left_out(tmp_path: Path) -> None:
    given = rows(900, seed=3)
    for row in given[:900]:
        row["propensity"] = None
    pl.DataFrame(given, schema=SCHEMA).write_parquet(tmp_path / "log.parquet")
    (tmp_path / "scores.csv").write_text("item,score\nitem-0,2\nitem-1,1\nitem-2,0\n")
    study = evaluate_log(tmp_path / "log.parquet", scores=[tmp_path / "scores.csv"])
    assert study.fixed[0].estimates[0].units == 600
    assert "33 % of the rows have no propensity" in study.notes[0]


def test_items_are_there_from_first_to_last(tmp_path: Path) -> None:
    given = [row | {"position": 1, "propensity": 0.5} for row in rows(6, seed=4)[::3]]
    for row, item in zip(given, "aababb", strict=True):
        row["item"] = item
    pl.DataFrame(given, schema=SCHEMA).write_parquet(tmp_path / "log.parquet")
    (tmp_path / "scores.csv").write_text("item,score\na,1\nb,2\n")
    study = evaluate_log(tmp_path / "log.parquet", scores=[tmp_path / "scores.csv"])
    # b, the better one, is there from the third ranking on: the policy shows a a b b b b
    assert study.fixed[0].estimates[0].mean_weight == pytest.approx(5 / 6 / 0.5)


def turnover(rankings: int, seed: int, lasts: int = 400) -> list[dict[str, Any]]:
    """An export of all random rankings, where 10 of 50 items are there at a time: each for so many rankings."""
    rng = np.random.default_rng(seed)
    given = rows(rankings, seed, share=1.0)
    for number in range(rankings):
        there = number // (lasts // 10) + np.arange(10)
        for row, item in zip(given[3 * number :], rng.permutation(there)[:3].tolist(), strict=False):
            row |= {"item": f"item-{item}", "k": 3, "eligible": 10, "propensity": 0.1}
    return given


@pytest.mark.parametrize("logged", [True, False])
def test_uniform_is_among_the_items_that_could_be_shown(tmp_path: Path, logged: bool) -> None:
    """49 items come and go, ten at a time: uniform's chance is a tenth, and the log, which is uniform, supports it."""
    given = turnover(1600, seed=5)
    frame = pl.DataFrame(given, schema=SCHEMA)
    frame = frame if logged else frame.drop("k", "eligible", "filtered")
    frame.write_parquet(tmp_path / "log.parquet")
    study = evaluate_log(tmp_path / "log.parquet", policies=["uniform"])
    assert study.survey.items == 49
    (answer,) = study.fixed
    earned = sum(row["reward"] for row in given) / 1600
    for each in answer.estimates:
        if each.estimator not in ("dm", "position_based"):
            assert "never shown" not in each.refusal
            assert not (logged and each.refusal)
            assert each.mean_weight == pytest.approx(1.0, abs=1e-9 if logged else 0.1)
            assert each.unsupported == 0.0
            assert each.value == pytest.approx(earned, rel=1e-6 if logged and "ips" in each.estimator else 0.1)
    assert study.survey.eligible.mean() == pytest.approx(10, abs=1e-9 if logged else 0.5)
    assert any("how many items could have been shown is not logged of 1,600" in note for note in study.notes) != logged


def test_the_forecast_counts_what_could_be_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    frame = pl.DataFrame(turnover(600, seed=6), schema=SCHEMA)
    frame.write_parquet(tmp_path / "log.parquet")
    (tmp_path / "scores.csv").write_text("item,score\n" + "".join(f"item-{i},{i}\n" for i in range(20)))
    asked = []

    def forecast(**given: Any) -> Any:
        asked.append(given["items"])
        return evaluate.forecast(**given)

    monkeypatch.setattr("hellinger.evaluate.study.forecast", forecast)
    evaluate_log(tmp_path / "log.parquet", scores=[tmp_path / "scores.csv"])
    assert asked == [10]


def plain_tops(order: list[int], there: set[int], k: int, exclude: list[int], among: list[int] | None) -> list[int]:
    kept = [item for item in order if item in there and item not in exclude]
    return [item for item in kept if among is None or item in among][:k]


@pytest.mark.parametrize("seed", range(6))
def test_tops_are_those_of_a_search_through_all(seed: int) -> None:
    """Items come and go, some have no score, rankings have filters and are of unequal length, parts are of any size."""
    rng = np.random.default_rng(seed)
    items, rankings, slots = int(rng.integers(1, 40)), 120, 5
    born = rng.integers(0, rankings, items)
    gone = np.minimum(born + rng.integers(0, 60, items), rankings - 1)
    best = rng.permutation(items)[: max(1, items - 3)]
    tops = Tops(best, born, gone, slots)
    for _again in range(2):
        before = 0
        while before < rankings:
            count = min(int(rng.integers(1, 30)), rankings - before)
            sizes = rng.integers(1, slots + 1, count)
            first = np.concatenate([[0], np.cumsum(sizes)[:-1]])
            item = rng.integers(0, items, int(sizes.sum()))
            position = np.concatenate([np.arange(1, size + 1) for size in sizes])
            lists, given = [], []
            for chance in (0.4, 0.3):
                has = rng.random(count) < chance
                drawn = [rng.integers(0, items, rng.integers(0, 8)) if one else np.zeros(0, np.int64) for one in has]
                ends = np.concatenate([[0], np.cumsum([each.size for each in drawn])])
                lists.append(ItemLists(has, ends, np.concatenate(drawn)))
                given.append([each.tolist() if one else None for one, each in zip(has, drawn, strict=True)])
            where, there = tops.follow(before, first, item, position, *lists)
            for number in range(count):
                now = before + number
                present = {i for i in range(items) if born[i] <= now <= gone[i]}
                top = plain_tops(best.tolist(), present, slots, given[0][number] or [], given[1][number])
                for row in range(first[number], first[number] + sizes[number]):
                    place = top.index(item[row]) + 1 if item[row] in top else 0
                    assert where[row] == (place if place <= sizes[number] else 0)
                    assert there[row] == (top[position[row] - 1] if position[row] <= len(top) else -1)
            before += count


def filtered_log() -> list[dict[str, Any]]:
    """All six items are drawn, but half of the rankings leave out the best one, and others are filtered otherwise."""
    rng = np.random.default_rng(7)
    given = rows(4200, seed=7, share=1.0)
    for number in range(4200):
        some = np.arange(6)
        asked: dict[str, Any] = {"filtered": True, "cut": False}
        if number < 2000:
            asked["filtered"] = False
        elif number < 3000:
            asked["exclude"], some = ["item-0", "never shown"], np.arange(1, 6)
        elif number < 4000:
            asked["among"], some = ["item-5", "item-1", "item-2", "item-4"], np.array([1, 2, 4, 5])
        elif number < 4100:
            asked["tags"], some = ["new"], np.array([2, 3, 4])
        else:
            asked |= {"exclude": ["item-0"], "cut": True}
        order = rng.permutation(some)[:3]
        clicks = rng.random(3) < RATES[order] * LOOKS
        for place in range(3):
            row = given[3 * number + place]
            row |= {"item": f"item-{order[place]}", "propensity": 1 / some.size, "reward": float(clicks[place])}
            row |= {"filtered": asked["filtered"], "cut": asked["cut"], "k": 3} | (asked if place == 0 else {})
    return given


@pytest.mark.parametrize("form", ["parquet", "jsonl"])
def test_an_order_wants_nothing_that_a_filter_left_out(folder: Path, tmp_path: Path, form: str) -> None:
    frame = pl.DataFrame(filtered_log(), schema=SCHEMA)
    path = tmp_path / f"log.{form}"
    frame.write_parquet(path) if form == "parquet" else frame.write_ndjson(path)
    study = evaluate_log(path, scores=[folder / "scores.csv"])
    (note,) = [each for each in study.notes if "are left out" in each]
    assert note == (
        "scores.csv: 200 of 4,200 rankings are left out, for they were filtered by tags, or by lists that the log or "
        "the export does not have in full"
    )
    truth = np.average([RATES[order] @ LOOKS for order in ([0, 1, 2], [1, 2, 3], [1, 2, 4])], weights=[2, 1, 1])
    for each in study.fixed[0].estimates:
        assert each.units == 4000 or (each.estimator in ("dr", "dm", "switch_dr", "dr_os") and each.units > 3500)
        if each.estimator in ("ips", "snips", "dr", "position_based"):
            supported = 1.0 if each.estimator != "position_based" else 0.5 * 0.5 + 0.25 * 0.6 + 0.25 * 0.75
            assert each.mean_weight == pytest.approx(supported, abs=0.05)
            assert each.low < truth < each.high


def test_exports_without_lists_are_read(folder: Path, tmp_path: Path) -> None:
    """An older export says only that there were filters: these rankings are left out."""
    frame = pl.DataFrame(filtered_log(), schema=SCHEMA).drop("exclude", "tags", "among", "cut")
    frame.write_parquet(tmp_path / "log.parquet")
    study = evaluate_log(tmp_path / "log.parquet", scores=[folder / "scores.csv"], policies=["uniform"])
    assert study.fixed[0].estimates[0].units == 2000
    assert any("scores.csv: 2,200 of 4,200 rankings are left out" in note for note in study.notes)
    (note,) = [each for each in study.notes if each.startswith("uniform")]
    assert "2,200 of 4,200 rankings are left out, for they had filters, and how many" in note
    frame.drop("filtered").write_parquet(tmp_path / "older.parquet")
    study = evaluate_log(tmp_path / "older.parquet", scores=[folder / "scores.csv"])
    assert study.fixed[0].estimates[0].units == 4200


def test_late_lists_of_json_lines_are_read(tmp_path: Path) -> None:
    """What is null in ten thousand lines may be a list in the next."""
    plain = {
        "ranking_id": "",
        "item": "a",
        "position": 1,
        "reward": 0,
        "propensity": 1,
        "exclude": None,
        "context": None,
    }
    lines = [plain | {"ranking_id": f"r{j}"} for j in range(10_500)]
    lines[-1] |= {"exclude": ["a", "b"], "context": {"hour": 3}, "reward": 0.5}
    path = tmp_path / "log.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)))
    log = LogFile(path)
    parts = list(log.parts())
    assert parts[-1].filters.exclude.item.tolist() == [0]
    assert parts[-1].reward[-1] == 0.5


def tied_log(rankings: int, seed: int) -> list[dict[str, Any]]:
    """Nothing is drawn but ties: of two items at the first two places, or of three at the last two, in turn."""
    rng = np.random.default_rng(seed)
    given = rows(rankings, seed, share=0.0)
    for number in range(rankings):
        scores: list[float | None]
        if number % 2:
            order, scores, chances = [*rng.permutation(2), 2], [0.5, 0.5, 0.3], [0.5, 0.5, 1.0]
        else:
            order, scores, chances = [0, *rng.permutation([1, 2, 3])[:2]], [None, 0.4, 0.4], [1.0, 1 / 3, 1 / 3]
        clicks = rng.random(3) < RATES[order] * LOOKS
        for place in range(3):
            row = given[3 * number + place]
            row |= {"item": f"item-{order[place]}", "score": scores[place], "propensity": chances[place]}
            row |= {"reward": float(clicks[place])}
    return given


def test_looks_are_learned_from_ties(tmp_path: Path) -> None:
    """Without any random share the position-based model has its curve, and answers."""
    given = tied_log(4000, seed=9)
    pl.DataFrame(given, schema=SCHEMA).write_parquet(tmp_path / "log.parquet")
    log = LogFile(tmp_path / "log.parquet")
    found = survey(log)
    looks = found.looks()
    assert looks == pytest.approx(LOOKS, abs=0.08)
    # the last ranking is a part of its own
    tie = np.concatenate([np.where(part.tie >= 0, part.tie + 10**6 * j, -1) for j, part in enumerate(log.parts())])
    assert (tie >= 0).reshape(-1, 3).tolist() == [[bool(n % 2), True, not n % 2] for n in range(4000)]
    rows_of = np.flatnonzero(tie >= 0)
    by_rows = evaluate.examination(
        [given[row]["reward"] for row in rows_of], [given[row]["position"] for row in rows_of], group=tie[rows_of]
    )
    assert looks == pytest.approx(by_rows, abs=1e-6)
    (tmp_path / "scores.csv").write_text("item,score\nitem-1,3\nitem-0,2\nitem-2,1\n")
    study = evaluate_log(tmp_path / "log.parquet", scores=[tmp_path / "scores.csv"])
    (each,) = [each for each in study.fixed[0].estimates if each.estimator == "position_based"]
    assert not each.refusal
    assert each.low < RATES[[1, 0, 2]] @ LOOKS < each.high
    assert any("0 of reward in rankings drawn at random and" in note for note in study.notes)


def test_looks_need_ties_that_are_linked(tmp_path: Path) -> None:
    """Ties of the first two places alone say nothing of the third, nor do equal scores whose order is no chance."""
    given = [row for number, row in enumerate(tied_log(3000, seed=9)) if number // 3 % 2]
    pl.DataFrame(given, schema=SCHEMA).write_parquet(tmp_path / "log.parquet")
    assert survey(LogFile(tmp_path / "log.parquet")).looks() is None
    fixed = [row | {"score": 0.5, "propensity": 0.9} for row in tied_log(3000, seed=9)]
    pl.DataFrame(fixed, schema=SCHEMA).write_parquet(tmp_path / "fixed.parquet")
    assert survey(LogFile(tmp_path / "fixed.parquet")).looks() is None


def test_looks_of_ties_and_of_random_rankings_are_one_fit() -> None:
    rng = np.random.default_rng(3)
    reward, position, group = [], [], []
    drawn = np.zeros((2, 3))
    tied, ties = np.zeros(3), np.zeros((3, 3))
    for number in range(600):
        places = [[0, 1, 2], [0, 1], [1, 2]][number % 3]
        clicks = (rng.random(len(places)) < 0.5 * LOOKS[places]).astype(float)
        reward += clicks.tolist()
        position += [place + 1 for place in places]
        group += [0 if number % 3 == 0 else number] * len(places)
        if number % 3 == 0:
            drawn[0] += clicks
            drawn[1] += 1
        else:
            tied[places] += clicks
            ties[places[0], places[-1]] += clicks.sum()
    expected = evaluate.examination(reward, position, group=group)
    assert fit_looks(drawn[0], drawn[1], tied, ties) == pytest.approx(expected, abs=1e-6)


def test_chances_by_item_and_position(tmp_path: Path) -> None:
    lines = ["item_id,position,click,propensity_score"]
    lines += [f"{i % 4},{1 + i % 2},{int(i % 5 == 0)},0.25" for i in range(400)]
    (tmp_path / "log.csv").write_text("\n".join(lines))
    (tmp_path / "chances.csv").write_text("item,position,chance\n0,1,1.0\n1,2,0.5\n3,2,0.5\n")
    study = evaluate_log(tmp_path / "log.csv", scores=[tmp_path / "chances.csv"])
    ips = study.fixed[0].estimates[0]
    assert study.survey.kind == "Open Bandit"
    weights = [{0: 4.0, 1: 2.0, 3: 2.0}.get(i % 4, 0.0) for i in range(400)]
    assert ips.value == pytest.approx(np.mean([w * (i % 5 == 0) for i, w in enumerate(weights)]))
    assert ips.units == 400


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("log.txt", "x", r"a log's name must end in \.parquet"),
        ("log.csv", "item,reward\na,1\n", "lacks position, ranking_id"),
        ("log.parquet", "no parquet", "cannot be read"),
        ("log.csv", "ranking_id,item,position,reward\n", "the log has rankings"),
        ("log.csv", "ranking_id,item,position,reward\nr,a,1,\n", "every row has its reward` must hold, but got row=1"),
        (
            "log.csv",
            "ranking_id,item,position,reward\nr,a,1,0\nr,,2,0\n",
            "every row has its item` must hold, but got row=2",
        ),
        ("log.csv", "ranking_id,item,position,reward\nr,a,1,0\nr,b,0,0\n", "positions begin with 1.*position=0, row=2"),
        ("log.csv", PROPENSITIES.format(1.0, 0.0), r"0 < propensity <= 1.*propensity=0\.0, row=2"),
        ("log.csv", PROPENSITIES.format(1.5, 1.0), r"0 < propensity <= 1.*propensity=1\.5, row=1"),
    ],
)
def test_logs_that_are_none_are_told_in_words(tmp_path: Path, name: str, text: str, message: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(InputError, match=message):
        evaluate_log(tmp_path / name, policies=["uniform"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("item,rank\na,1\n", "scores must have the columns"),
        ("item,score\nnobody,1\n", "scores name items of the log"),
        ("item,score\nitem-0,many\n", "every score is a number"),
        ("item,position,chance\nitem-0,1,0.7\nitem-1,1,0.7\n", "add up to at most 1"),
    ],
)
def test_wrong_scores_are_told_in_words(folder: Path, tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "scores.csv").write_text(text)
    with pytest.raises(InputError, match=message):
        evaluate_log(folder / "log.parquet", scores=[tmp_path / "scores.csv"])


@pytest.mark.parametrize("rows_at_once", [2, 100])
def test_a_ranking_that_returns_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows_at_once: int) -> None:
    monkeypatch.setattr("hellinger.evaluate.logs._ROWS", rows_at_once)
    lines = [f"{name},a,1,0" for name in ("p", "q", "q", "r", "s", "q", "p")]
    (tmp_path / "log.csv").write_text("\n".join(["ranking_id,item,position,reward", *lines]))
    with pytest.raises(InputError, match=r"rows of a ranking are next to each other.*ranking_that_returns='q'"):
        evaluate_log(tmp_path / "log.csv", policies=["uniform"])


def test_errors_count_rows_over_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hellinger.evaluate.logs._ROWS", 3)
    lines = [f"r{i},a,{int(i != 17)},0" for i in range(20)]
    (tmp_path / "log.csv").write_text("\n".join(["ranking_id,item,position,reward", *lines]))
    with pytest.raises(InputError, match="position=0, row=18"):
        evaluate_log(tmp_path / "log.csv", policies=["uniform"])


# The command -----------------------------------------------------------------------------------------


def test_the_command_writes_one_page(folder: Path, tmp_path: Path) -> None:
    arguments = ["evaluate", str(folder / "log.parquet"), "--scores", str(folder / "scores.csv")]
    arguments += ["--policies", "hellinger-ucb(c=0.3)", "--seeds", "2", "--out", str(tmp_path / "out")]
    done = CliRunner().invoke(cli.app, arguments)
    assert done.exit_code == 0, done.output
    assert "safe to switch: at least" in done.output
    assert "switch_dr assumes" in done.output
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    for words in ("Policies that stand still", "Policies that learn", "mean weight", "scores.csv", "reached"):
        assert words in page
    assert page.count("data:image/svg+xml") == 2
    kept = list((tmp_path / "out" / "parts").iterdir())
    assert len(kept) == 2
    again = CliRunner().invoke(cli.app, [*arguments, "--json"])
    found = json.loads(again.stdout)
    assert found == json.loads((tmp_path / "out" / "results.json").read_text(encoding="utf-8"))
    assert found["log"]["rankings"] == 4000
    assert {each["estimator"] for each in found["fixed"][0]["estimates"]} == set(evaluate.ESTIMATORS)
    assert found["learning"][0]["how_far"].startswith("reached")


class FakeClient:
    """A service whose export is a file; it may break off in the middle."""

    def __init__(self, log: Path) -> None:
        self.log = log.read_bytes()
        self.asked: list[bool] = []
        self.whole = True

    def export_file(self, path: Path, *, retrace: bool, progress: Callable[[int], None]) -> Path:
        self.asked.append(retrace)
        path.write_bytes(self.log if self.whole else self.log[:100])
        progress(path.stat().st_size)
        if not self.whole:
            raise UnreachableError("the answer must be read to its end, but broke off")
        return path


def test_a_fetched_log_is_kept_and_gone_on_from(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    client = FakeClient(folder / "log.parquet")
    monkeypatch.setattr("hellinger.cli.evaluate.reached", lambda _url, _key: nullcontext(client))
    out = tmp_path / "out"
    arguments = ["evaluate", "--service", "http://a", "--policies", "ucb1", "--seeds", "1", "--out", str(out)]
    client.whole = False
    assert CliRunner().invoke(cli.app, arguments).exit_code != 0
    assert list(out.iterdir()) == []  # no part is taken for the whole
    client.whole = True
    first = CliRunner().invoke(cli.app, arguments)
    assert first.exit_code == 0, first.output
    assert (out / "log.parquet").read_bytes() == (folder / "log.parquet").read_bytes()
    again = CliRunner().invoke(cli.app, [*arguments, "--scores", str(folder / "scores.csv")])
    assert again.exit_code == 0, again.output
    assert len(client.asked) == 2
    assert "going on from" in again.output
    # neither another service's log, nor one without the chances of its variants, is taken for this one
    for others in (["--variants"], ["--service", "http://b"]):
        assert CliRunner().invoke(cli.app, [*arguments, *others]).exit_code == 0
    assert client.asked == [False, False, True, False]
    CliRunner().invoke(cli.app, [*arguments[:-2], "--json"])
    assert len(client.asked) == 5
    client.log = b""
    none = CliRunner().invoke(cli.app, [*arguments[:-1], str(tmp_path / "none")])
    assert "has no rankings" in str(none.exception)


def test_progress_begins_with_the_survey(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hellinger.evaluate.logs._ROWS", 2000)
    moves: list[tuple[int, int]] = []
    evaluate_log(
        folder / "log.parquet", policies=["ucb1", "uniform"], seeds=2, progress=lambda *move: moves.append(move)
    )
    done = [move[0] for move in moves]
    assert done == sorted(done)
    assert 0 < done[0] <= 2000
    assert {total for _, total in moves} == {12_000 * 4}
    assert moves[-1] == (48_000, 48_000)


class _Tables(HTMLParser):
    """How many cells each row of each table has."""

    def __init__(self) -> None:
        super().__init__()
        self.tables: list[list[int]] = []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append(0)
        elif tag in ("th", "td"):
            self.tables[-1][-1] += 1


def test_a_report_has_a_cell_under_every_head_and_what_exploring_would_cost(tmp_path: Path) -> None:
    given = rows(300, seed=2, share=0.1)
    pl.DataFrame(given, schema=SCHEMA).write_parquet(tmp_path / "log.parquet")
    (tmp_path / "scores.csv").write_text("item,score\nitem-5,2\nitem-4,1\nitem-3,0\n")
    arguments = ["evaluate", str(tmp_path / "log.parquet"), "--scores", str(tmp_path / "scores.csv")]
    arguments += ["--policies", "ucb1", "--seeds", "1", "--out", str(tmp_path / "out")]
    done = CliRunner().invoke(cli.app, arguments)
    assert done.exit_code == 0, done.output
    page = _Tables()
    text = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    page.feed(text)
    estimates, explorations, learned = page.tables
    assert len(set(estimates)) == len(set(explorations)) == len(set(learned)) == 1
    found = json.loads((tmp_path / "out" / "results.json").read_text(encoding="utf-8"))["fixed"][0]["explorations"]
    settings = {each["setting"] for each in found}
    assert 1 + len(settings) <= len(explorations) <= 1 + len(found)
    for words in ("random_share = ", "price, in reward"):
        assert words in text
        assert words in done.output


def test_weights_by_place_are_drawn() -> None:
    from hellinger import figures

    panel = figures.SupportPanel("a policy", [9.0, 8.0], [1.25, 0.75], [1.0], [0.5])
    axes: list[Any] = list(figures.draw_support([panel]).axes)

    def heights(at: Any) -> list[float]:
        return [bar.get_height() for bar in at.patches]

    drawn = {at.get_ylabel(): heights(at) for at in axes if at.get_xlabel() == "position"}
    assert drawn == {"effective sample": [9.0, 8.0], "mean weight (1 expected)": [1.25, 0.75]}


def test_the_command_says_what_is_missing(folder: Path) -> None:
    log = str(folder / "log.parquet")
    for arguments, message in (
        ([log], "says what to evaluate"),
        (["--policies", "ucb1"], "a log or --service, and not both"),
        ([log, "--policies", "ucb7"], "unknown policy"),
        (["--service", "http://127.0.0.1:9", "--policies", "ucb1"], "no service answers"),
    ):
        done = CliRunner().invoke(cli.app, ["evaluate", *arguments])
        assert done.exit_code != 0
        assert message in str(done.exception)


def test_a_forecast_is_a_share_a_time_and_a_price() -> None:
    options, sentence = evaluate.forecast(
        logged=0.05, drawn=0.02, difference=0.05, overlap=0.3, places=10, items=100, daily=1e5
    )
    assert [each.share for each in options] == sorted(each.share for each in options)
    assert all(one.days > other.days for one, other in pairwise(options))
    assert "would tell; price: about" in sentence
    _, sentence = evaluate.forecast(
        logged=0.05, drawn=0.02, difference=1e-5, overlap=0.0, places=20, items=10_000, daily=100
    )
    assert sentence.startswith("random places would hardly tell")
    assert math.isinf(
        evaluate.forecast(logged=0.1, drawn=0.1, difference=1.0, overlap=0, places=1, items=2, daily=0)[0][0].days
    )


GIVEN: dict[str, Any] = {
    "logged": 0.05,
    "drawn": 0.01,
    "difference": 0.05,
    "overlap": 0.3,
    "places": 10,
    "items": 1000,
    "daily": 1e5,
}


def test_the_forecast_has_the_items_that_follow() -> None:
    options, sentence = evaluate.forecast(**GIVEN, following=0.04)
    shares = [each for each in options if each.setting == "next_share"]
    assert {each.setting for each in options} == {"random_share", "next_share"}
    assert "; if it shows the 20 items that follow, " in sentence
    # at a share of 1: a chance of 1/(k·m) for each of the next m, instead of ε/E, and one place of k is given up
    rankings = shares[-1].rankings
    assert rankings * 5e-2 * 5e-2 / (2 * math.log(2 * UP.size / 0.05)) == pytest.approx(0.5 * (0.7 * 200 + 0.3))
    assert shares[-1].price == pytest.approx(rankings * 0.01)
    assert evaluate.forecast(**GIVEN)[0] == [each for each in options if each.setting == "random_share"]


def test_the_forecast_has_near_ties() -> None:
    rates = np.array([0.09] * 8 + [0.052, 0.050, 0.0490, 0.047, 0.03] + [0.01] * 50)
    near = evaluate.near_ties(rates, 10, looks=0.5)
    # within 1 % there is nobody else, within 2 % one more item; within 5 % a place more, and within 10 % all four
    assert [(each.share, each.places, each.items) for each in near] == [
        (0.02, 1, 2),
        (0.05, 2, 3),
        (0.1, 2, 4),
        (0.2, 2, 4),
    ]
    assert near[0].loss == pytest.approx(0.5 * (0.05 - 0.0495))
    assert near[2].loss == pytest.approx(0.5 * 2 * (0.051 - 0.0495))
    options, sentence = evaluate.forecast(**GIVEN, near=near)
    shares = [each for each in options if each.setting == "near_ties"]
    assert [each.share for each in shares] == [each.share for each in near]
    # each of four items at each of two places with chance 1/4
    rankings = shares[2].rankings
    expected = 2 * 0.05 * (0.7 * 4 + 0.3)
    assert rankings * 5e-2 * 5e-2 / (2 * math.log(2 * UP.size / 0.05)) == pytest.approx(expected)
    assert shares[2].price == pytest.approx(rankings * near[2].loss)
    words = (
        "; if it differs in the last 2 places alone, among 4 near-ties, near_ties = 0.2 for 1 day would tell; price: "
    )
    assert words in sentence
    assert evaluate.near_ties(rates[:10], 10) == []  # nobody follows


@pytest.mark.parametrize("seed", range(5))
def test_near_ties_are_the_zone_that_rankings_draw_from(seed: int) -> None:
    """Where indices are rates, the forecast's places, items and loss are those of the service's own rule."""
    rng = np.random.default_rng(seed)
    rates, places = np.round(rng.beta(2, 30, 40), 3), 5
    best = np.sort(rates)[::-1][: places + 20]
    found = {each.share: each for each in evaluate.near_ties(rates, places)}
    for share in (0.01, 0.02, 0.05, 0.1, 0.2):
        listed = Listed(best.tolist(), int((best == best[-1]).sum()), places, Exploring(near=share))
        drawn = [listed.order(Draws(seed, 0, number))[0] for number in range(2000)]
        differ = [place for place in range(places) if len({order[place] for order in drawn}) > 1]
        if share not in found:
            assert len({item for order in drawn for item in order}) == places
            continue
        assert differ[0] == places - found[share].places
        assert len({item for order in drawn for item in order[differ[0] :]}) == found[share].items
        earned = np.array([best[order].sum() for order in drawn])
        spread = 5 * earned.std() / math.sqrt(earned.size) + 1e-12
        assert best[:places].sum() - earned.mean() == pytest.approx(found[share].loss, abs=spread)


def test_what_exploring_has_cost_is_told(tmp_path: Path) -> None:
    given = rows(600, seed=8)
    for row in given:
        row["explored"] = row["position"] == 3
    pl.DataFrame(given, schema=SCHEMA).write_parquet(tmp_path / "log.parquet")
    study = evaluate_log(tmp_path / "log.parquet", policies=["uniform"])
    (note,) = [each for each in study.notes if "items that follow" in each]
    assert note.startswith("600 places were given")
    assert "price so far: about" in note


# Contexts --------------------------------------------------------------------------------------------


@pytest.mark.skipif(not (DATA / "uniform-log").is_dir(), reason="no uniform-log")
def test_replay_of_the_uniform_log() -> None:
    """With its features a model earns more than counts do; all are compared over what all reached."""
    table = np.loadtxt(DATA / "uniform-log" / "log.txt", max_rows=2500)
    items, clicks, features = table[:, 0].astype(int), table[:, 1], table[:, 2:].reshape(-1, 10, 10)
    specs = ["cold-start(model=logistic)", "hellinger-ucb", "cold-start", "linucb(alpha=0.5, model=linear)"]
    model, counts, young, linear = evaluate.play_contexts(specs, items, clicks, features, seeds=1)
    assert model.rounds == counts.rounds == young.rounds == linear.rounds > 200
    assert model.method == counts.method == linear.method == "replay"
    for each in (model, counts, young, linear):
        assert each.low < each.value < each.high
    assert model.value > max(counts.value, young.value)


def test_contexts_that_do_not_fit_are_told_in_words() -> None:
    with pytest.raises(InputError, match="features for each row and item"):
        evaluate.play_contexts(["linucb(model=linear)"], [0, 1], [0, 1], np.zeros((3, 2, 1)))
    with pytest.raises(InputError, match="items are numbers"):
        evaluate.play_contexts(["linucb(model=linear)"], [0, 2], [0, 1], np.zeros((2, 2, 1)))
