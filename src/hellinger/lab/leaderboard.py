"""Every policy on five problems: the paper's two, a hard one, one whose means change, and a cold start with 10,000."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hellinger import figures
from hellinger._spec import format_spec, parse_spec
from hellinger.errors import require
from hellinger.lab._folder import whole_folder
from hellinger.lab._simulate import simulate
from hellinger.lab.problem import PAPER_BERNOULLI, PAPER_POISSON, Problem
from hellinger.lab.result import Result
from hellinger.policies import Policy, available, policy

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["CONTESTS", "Contest", "ContestResult", "leaderboard"]

Say = Callable[[str, float | None], None]

_SCANNED = 1e9
"""Scores a run above which a rule that has to look at every arm in every round is left out."""
_POOLED = 1000
"""Arms from which on a pool plays what it ranks by groups, and the simulator would scan."""
_FEW = 100
"""Arms above which a rule is left out whose time grows with their square."""
_RUNS_FOR_TAILS = 100
_FORMAT = 1


class Contest(NamedTuple):
    """A problem policies meet on; of the runs asked for it gets one in ``share``, but at least two."""

    name: str
    title: str
    family: str
    means: str | tuple[float, ...]
    horizon: int
    share: int = 1
    beside: tuple[str, ...] = ()
    """Specs that play beside the named policies."""


FORMS = ("window=1000", "discount=0.998", "detect=0.05")
"""What policies forget by where means change."""

CONTESTS = (
    Contest("bernoulli", "The paper's Bernoulli problem", "bernoulli", PAPER_BERNOULLI, 10_000),
    Contest("poisson", "The paper's Poisson problem", "poisson", PAPER_POISSON, 10_000),
    Contest("close", "Two close arms, 0.5 and 0.45", "bernoulli", (0.5, 0.45), 10_000),
    Contest(
        "changing",
        "Ten arms whose means are drawn anew four times",
        "bernoulli",
        "piecewise(arms=10, changes=4)",
        10_000,
        2,
        (
            *(f"{name}({form})" for name in ("ucb1", "kl-ucb", "hellinger-ucb") for form in FORMS),
            "exp3s(changes=4)",
            "rexp3(variation=3)",
        ),
    ),
    Contest("cold-start", "Cold start: 10,000 new items", "bernoulli", "beta(1.6,100)x10000", 300_000, 20),
)


@dataclass(frozen=True)
class ContestResult:
    """How policies did in one contest, and who was left out, with the reason."""

    contest: Contest
    result: Result
    left_out: dict[str, str]

    @property
    def ranked(self) -> list[dict[str, Any]]:
        """Summaries, least mean regret first, with ranks."""
        rows = sorted(self.result.summary(), key=lambda row: float(row["mean_regret"]))
        return [{"rank": rank, **row} for rank, row in enumerate(rows, 1)]

    @property
    def named(self) -> Result:
        """The result with policies without the horizon they were given."""
        return replace(self.result, policies=[_without_horizon(spec) for spec in self.result.policies])

    def plot(self) -> Figure:
        """Draw the ranking: means with 95 % intervals, and the 99 % quantile where runs are enough to know it."""
        tails = self.result.runs >= _RUNS_FOR_TAILS
        places = []
        for row in self.named.summary():
            mean, half = row["mean_regret"], 1.959963984540054 * row["sem"]
            places.append(figures.Place(row["policy"], mean, mean - half, mean + half, row["q99"] if tails else None))
        return figures.draw_ranking(places, title=self.contest.title)

    def record(self) -> dict[str, Any]:
        """The standing as JSON can hold it."""
        return {
            "contest": self.contest.name,
            "title": self.contest.title,
            "family": self.result.family,
            "arms": int(self.result.means.size),
            "horizon": self.contest.horizon,
            "runs": self.result.runs,
            "policies": self.ranked,
            "left_out": [{"policy": name, "why": why} for name, why in self.left_out.items()],
            "wall_s": self.result.wall_s,
        }


def leaderboard(
    folder: str | Path | None = None,
    *,
    runs: int = 200,
    seed: int = 0,
    everyone: bool = False,
    contests: Sequence[Contest] = CONTESTS,
    say: Say | None = None,
) -> list[ContestResult]:
    """Let every policy that applies play each contest, with the same rewards for all.

    Policies have their default arguments; those that need the horizon are given it.

    Parameters
    ----------
    folder
        Gets ``leaderboard.json`` and a ranking a contest, as PNG and SVG; all of them or none.
    runs, seed
        Runs a contest, at least 2 (the cold start has one in 20 of them), and what they are drawn from.
    everyone
        Let rules play too that look at all arms in every round, where that means many minutes; not those whose time
        grows with the square of the arms.
    contests
        Other contests than the five.
    say
        Called with the progress.
    """
    require(runs >= 2 and runs == math.floor(runs), "2 <= runs, a whole number", runs=runs)
    require(seed >= 0, "0 <= seed", seed=seed)
    tell: Say = say if say is not None else lambda _what, _done: None
    if folder is None:
        return list(_standings(contests, runs, seed, everyone, tell))
    with whole_folder(folder) as partial:
        standings = []
        for standing in _standings(contests, runs, seed, everyone, tell):
            figures.save(standing.plot(), partial / f"ranking_{standing.contest.name}")
            standings.append(standing)
        record = {"format": _FORMAT, "seed": seed, "contests": [standing.record() for standing in standings]}
        text = json.dumps(record, indent=1, ensure_ascii=False, allow_nan=False)
        (partial / "leaderboard.json").write_text(text, encoding="utf-8")
    return standings


def _standings(contests: Sequence[Contest], runs: int, seed: int, everyone: bool, tell: Say) -> Iterator[ContestResult]:
    for contest in contests:
        problem = Problem.make(contest.means, contest.family, seed=seed, horizon=contest.horizon)
        playing, left_out = _entrants(contest, problem, everyone)
        for each in playing:
            # the smallest problem the same player plays, so that compiling has a stage of its own
            tell(f"{contest.name}: compiling {each.name} (first run only)", None)
            arms = min(64, problem.means.size)
            simulate(
                each,
                means=problem.means[:arms],
                family=contest.family,
                horizon=arms + 2,
                runs=1,
                player=_player(each, problem),
            )
        what = f"{contest.name}: {len(playing)} policies, {problem.means.size:,} arms"
        tell(what, 0.0)
        results, before = [], 0
        for player in ("auto", "pool"):
            chosen = [each for each in playing if _player(each, problem) == player]
            if chosen:
                results.append(
                    simulate(
                        chosen,
                        means=problem.means if problem.changes is None else problem.changes,
                        family=contest.family,
                        horizon=contest.horizon,
                        runs=max(2, runs // contest.share),
                        seed=seed,
                        player=player,
                        progress=partial(_tell_part, tell, what, before, len(chosen), len(playing)),
                    )
                )
                before += len(chosen)
        yield ContestResult(contest, _joined(results), left_out)


def _tell_part(tell: Say, what: str, before: int, part: int, whole: int, done: int, total: int) -> None:
    tell(what, (before + part * done / total) / whole)


def _joined(results: Sequence[Result]) -> Result:
    """The results of some policies and of others on one problem, as one."""
    return replace(
        results[0],
        policies=[spec for each in results for spec in each.policies],
        regret=np.concatenate([each.regret for each in results]),
        pulls=np.concatenate([each.pulls for each in results]),
        reward=np.concatenate([each.reward for each in results]),
        wall_s=sum(each.wall_s for each in results),
    )


def _player(made: Policy, problem: Problem) -> str:
    """A pool where arms are many, and it ranks by groups what the simulator would scan."""
    rule = made.rule
    grouped = rule.pooled and rule.separable and (rule.monotone or rule.learns_prior) and not rule.rising
    return "pool" if grouped and problem.means.size > _POOLED else "auto"


def _without_horizon(spec: str) -> str:
    name, arguments = parse_spec(spec)
    return format_spec(name, {key: value for key, value in arguments.items() if key != "horizon"})


def _entrants(contest: Contest, problem: Problem, everyone: bool) -> tuple[list[Policy], dict[str, str]]:
    """Policies that can play here, and why the others do not."""
    playing, left_out = [], {}
    scores = float(problem.means.size) * contest.horizon
    for name in [*available(), *contest.beside]:
        try:
            made = policy(name, family=contest.family).at_horizon(contest.horizon)
        except ValueError as error:
            left_out[name] = str(error)
            continue
        pooled = _player(made, problem) == "pool"
        if made.rule.few and problem.means.size > _FEW:
            left_out[name] = f"its time a round grows with the square of the arms: it plays on {_FEW} at most"
        elif scores > _SCANNED and not everyone and not (made.rule.rising or made.rule.sparing or pooled):
            left_out[name] = f"looks at every arm in every round: {scores:.0e} scores a run; --all lets it play"
        else:
            playing.append(made)
    return playing, left_out
