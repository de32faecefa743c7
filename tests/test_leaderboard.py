"""The leaderboard: who plays, who is left out, and what is written."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from hellinger import policies, simulate
from hellinger.cli import app
from hellinger.lab import Problem
from hellinger.lab import leaderboard as lab
from hellinger.lab.leaderboard import CONTESTS, Contest, ContestResult, leaderboard

SMALL = (
    Contest("two", "Two arms", "bernoulli", (0.5, 0.1), 200),
    Contest("counts", "Counts", "poisson", (1.0, 2.0, 3.0), 100, 4),
)
FEW = ("moss", "thompson", "ucb1")


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three policies instead of all, for compiling takes its time: one with a horizon, one that draws, one plain."""
    monkeypatch.setattr(lab, "available", lambda: {name: policies.available()[name] for name in FEW})


def test_contests_are_the_five() -> None:
    assert [contest.name for contest in CONTESTS] == ["bernoulli", "poisson", "close", "changing", "cold-start"]
    assert [
        Problem.make(contest.means, contest.family, horizon=contest.horizon).means.size for contest in CONTESTS
    ] == [10, 7, 2, 10, 10_000]


@pytest.mark.parametrize("contest", CONTESTS, ids=lambda contest: contest.name)
def test_everyone_plays_or_is_left_out_with_a_reason(contest: Contest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lab, "available", policies.available)
    problem = Problem.make(contest.means, contest.family, horizon=contest.horizon)
    playing, left_out = lab._entrants(contest, problem, everyone=False)
    beside = [policies.policy(spec).name for spec in contest.beside]
    assert sorted([each.name for each in playing] + list(left_out)) == sorted([*policies.available(), *beside])
    assert not any(each.needs_horizon for each in playing)
    if contest.name == "cold-start":
        pooled = {each.name for each in playing if lab._player(each, problem) == "pool"}
        assert pooled == {"cold-start", "greedy"}
        assert all(each.rule.rising for each in playing if each.name not in {*pooled, "constant-space"})
        assert {"thompson", "imed"} <= left_out.keys()
        assert "grows with the square of the arms" in left_out["ids"]
        assert all("every arm" in why for name, why in left_out.items() if name != "ids")
        everyone, refused = lab._entrants(contest, problem, everyone=True)
        assert refused.keys() == {"ids"}
        assert len(everyone) == len(policies.available()) - 1
    for name in left_out if contest.name != "cold-start" else ():
        with pytest.raises(ValueError, match=re.escape(left_out[name])):
            policies.policy(name, family=contest.family)


def test_a_policy_that_cannot_play_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(name: str, **arguments: Any) -> policies.Policy:
        if name == "thompson":
            raise ValueError("no posterior")
        return policies.policy(name, **arguments)

    monkeypatch.setattr(lab, "policy", refuse)
    playing, left_out = lab._entrants(SMALL[0], Problem.make((0.5, 0.1)), everyone=False)
    assert [each.name for each in playing] == ["moss", "ucb1"]
    assert left_out == {"thompson": "no posterior"}


def test_standings_are_the_simulators(tmp_path: Path) -> None:
    standings = leaderboard(tmp_path / "out", runs=8, seed=3, contests=SMALL)
    assert [standing.result.runs for standing in standings] == [8, 2]
    fresh = simulate(FEW, means=(0.5, 0.1), horizon=200, runs=8, seed=3)
    ranked = standings[0].ranked
    assert [row["rank"] for row in ranked] == [1, 2, 3]
    assert [row["mean_regret"] for row in ranked] == sorted(fresh.final.mean(axis=1))
    assert {row["policy"] for row in ranked} == {"moss(horizon=200)", "thompson", "ucb1"}
    names = {f"ranking_{contest.name}.{kind}" for contest in SMALL for kind in ("png", "svg")} | {"leaderboard.json"}
    assert {file.name for file in (tmp_path / "out").iterdir()} == names
    record = json.loads((tmp_path / "out" / "leaderboard.json").read_text(encoding="utf-8"))
    assert record["contests"] == [standing.record() for standing in standings]
    assert record["contests"][0].keys() == {
        "contest", "title", "family", "arms", "horizon", "runs", "policies", "left_out", "wall_s"
    }  # fmt: skip


def test_forms_play_where_means_change_and_a_pool_where_arms_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        lab, "available", lambda: {"greedy": policies.available()["greedy"], "ucb1": policies.available()["ucb1"]}
    )
    monkeypatch.setattr(lab, "_POOLED", 5)
    contests = (
        Contest("moving", "", "bernoulli", "piecewise(arms=3, changes=2)", 600, 1, ("ucb1(window=50)", "exp3s")),
        Contest("many", "", "bernoulli", "beta(2, 20)x40", 600),
    )
    told: list[float] = []
    moving, many = leaderboard(runs=4, contests=contests, say=lambda _, done: told.append(done or 0.0))
    assert moving.result.changes == [201, 401]
    assert {row["policy"] for row in moving.ranked} == {"greedy", "ucb1", "ucb1(window=50)", "exp3s(horizon=600)"}
    assert "exp3s" in moving.named.policies
    assert many.result.policies == ["ucb1", "greedy"]
    assert many.result.final.shape == (2, 4)
    assert many.result.pulls[:, -1].sum(axis=1).tolist() == [600, 600]
    assert told[-1] == 1.0
    alone = simulate("ucb1", means="beta(2, 20)x40", horizon=600, runs=4)
    assert many.result.final[0].tolist() == alone.final[0].tolist()


def test_tails_are_drawn_where_runs_are_enough() -> None:
    (standing,) = leaderboard(runs=100, contests=SMALL[:1])
    (axes,) = standing.plot().axes
    best = standing.ranked[0]["policy"].partition("(")[0]
    assert axes.get_yticklabels()[0].get_text() == best
    assert any(line.get_marker() == ">" for line in axes.lines)
    (fewer,) = leaderboard(runs=99, contests=SMALL[:1])
    assert not any(line.get_marker() == ">" for line in fewer.plot().axes[0].lines)


def test_progress_tells_of_each_contest() -> None:
    told: list[tuple[str, float | None]] = []
    leaderboard(runs=2, contests=SMALL, say=lambda what, done: told.append((what, done)))
    assert ("two: compiling ucb1 (first run only)", None) in told
    assert told[-1] == ("counts: 3 policies, 3 arms", 1.0)


@pytest.mark.parametrize("runs", [0, 1])
def test_runs_must_be_two_or_more(tmp_path: Path, runs: int) -> None:
    with pytest.raises(ValueError, match=rf"2 <= runs.*runs={runs}"):
        leaderboard(tmp_path / "out", runs=runs, contests=SMALL)
    assert not list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ValueError, match="can be written"):
        leaderboard(tmp_path / "file", runs=2, contests=SMALL)


def test_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def small(*arguments: Any, **named: Any) -> list[ContestResult]:
        standings = leaderboard(*arguments, **named, contests=SMALL)
        standings[0].left_out["absent"] = "a reason"
        return standings

    monkeypatch.setattr(lab, "leaderboard", small)
    arguments = ["leaderboard", "--runs", "4", "--out", str(tmp_path / "out")]
    printed = CliRunner().invoke(app, [*arguments, "--json"])
    assert printed.exit_code == 0, printed.output
    contests = json.loads(printed.stdout)["contests"]
    assert [contest["contest"] for contest in contests] == ["two", "counts"]
    assert "two: compiling" in printed.stderr
    text = CliRunner().invoke(app, arguments, env={"COLUMNS": "200"}).stdout
    for words in ("Two arms", "Counts", "thompson", "Left out: absent (a reason)."):
        assert words in text


def test_the_document_names_who_is_left_out_of_the_cold_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lab, "available", policies.available)
    contest = CONTESTS[-1]
    _, left_out = lab._entrants(contest, Problem.make(contest.means, contest.family), False)
    text = (Path(__file__).parent.parent / "docs" / "reproduction.md").read_text(encoding="utf-8")
    found = re.search(r"are left out\s+\(([^)]*)\)", text)
    assert found is not None
    assert sorted(re.findall(r"`([\w+-]+)`", found[1])) == sorted(left_out)
