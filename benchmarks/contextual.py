"""Clicks and times where people and items have features, beside bayesianbandits, mabwiser and VowpalWabbit, in one run.

``python benchmarks/contextual.py [--data FOLDER] [--runs 5] --results FILE``: over an hour of processor time at first,
nearly all of it the other libraries'. Runs are kept in ``--out``; begun again there, it goes on where it ended. With
``--times`` times alone, which want a machine that does nothing else. All meet the same people, items and clicks: the
other libraries live in a process and an environment of their own, and the one site of this project asks them to fill
its pages. Each has the settings of its documents, and one that suits such problems:

- mabwiser, LinUCB: a ridge regression an item on the person's features; α = 1 as by default, and 0.1.
- bayesianbandits: Thompson sampling with a learner an item, as in its first example; and one logistic learner for all,
  of person, item and their crosses (with a weight of its own for each item, up to 100 items).
- VowpalWabbit: conditional contextual bandits (its method for pages of slots), ``-q UA``, each item's name a feature;
  its ε-greedy default, and ``--squarecb``.

Clicks are expected ones, by the true rates of what was shown: less noise, and the same where rewards are certain, as in
jester and coat. Each run has its items in an order of its own: some of the libraries show the first ones while they
know nothing, and by the file's order the first of the headlines are twice as good as the others. Times are of the
library's own calls, processor time on one thread, the median of some pages.
"""

from __future__ import annotations

import argparse
import os
import pickle
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from _results import Results
from _timing import console, show, verdict
from hellinger import figures
from hellinger.lab._block import Setting
from hellinger.lab._ratio import paired_ratio
from hellinger.lab.contextual import Contender, ContextRun, play_pages, run_seed
from hellinger.lab.datasets import load_problem
from hellinger.world.contextual import ContextualProblem, PagePlayer
from hellinger.world.runs import local, run

HERE = Path(__file__).parent
PEERS = HERE.parent / ".venv-contextual"
PYTHON = str(PEERS / "bin" / "python")
RUNS = 5
MARKS = (100, 200, 500)
"""Pages at which clicks are counted."""
LONGER = (100, 200, 500, 1000, 2000)
"""Those of headlines, which are clicked once in fifty times."""
ITEMS = (100, 1000, 10_000)
EDITION = 1
"""Of contextual_peers.py: to be raised where its players change, so that their kept runs are not taken."""
TIMED = 12
"""Pages timed; the first third warms up."""

PEER_KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "mabwiser, LinUCB, α = 1": ("MabwiserLinUCB", {"alpha": 1.0}),
    "mabwiser, LinUCB, α = 0.1": ("MabwiserLinUCB", {"alpha": 0.1}),
    "bayesianbandits, a learner an item": ("BayesianThompson", {}),
    "bayesianbandits, shared": ("BayesianHybrid", {"own": 100}),
    "VowpalWabbit, ε-greedy": ("VowpalWabbit", {"options": "-q UA"}),
    "VowpalWabbit, SquareCB": ("VowpalWabbit", {"options": "-q UA --squarecb"}),
}
MODEL, GROUPS = "cold-start(model=logistic)", "cold-start(groups=true)"
LARGE, LARGEST = "synthetic(items=1000)", "synthetic(items=10000)"
LEFT_OUT = {LARGEST: ("bayesianbandits, a learner an item",)}
"""Other libraries that are not asked: two thirds of a second a page, for clicks near chance's with 1,000 items."""
OURS = {
    "jester": MODEL,
    "coat": MODEL,
    "upworthy(items=100, arrivals=20, impressions=20)": GROUPS,
    "synthetic(items=300)": MODEL,
    LARGE: MODEL,
    LARGEST: MODEL,
}
"""Problems, and what a user would be told to take there: groups where the people are unknown."""
BESIDE = (MODEL, "cold-start(model=logistic(learn=false))", "greedy(model=logistic)", "cold-start", "thompson")


def marks(spec: str) -> tuple[int, ...]:
    """Checkpoints of a problem."""
    return LONGER if spec.startswith("upworthy") else MARKS


def numbers(spec: str, runs: int) -> range:
    """The runs of a problem: one of the two largest, where others take long; more of headlines' few clicks."""
    return range(1 if spec in (LARGE, LARGEST) else 4 * runs if spec.startswith("upworthy") else runs)


def dealt(spec: str, data: str | None, number: int) -> ContextualProblem:
    """A run's problem: its items in an order of its own, those that come together among themselves."""
    made = load_problem(spec, data)
    rng, count = np.random.default_rng([number, 0x6465616C]), len(made.features)
    ends = [made.site.items, *range(made.site.items + made.site.arrivals, count + 1, made.site.arrivals or count)]
    starts = [0, *ends[:-1]]
    order = np.concatenate([first + rng.permutation(end - first) for first, end in zip(starts, ends, strict=True)])
    features, groups = (tuple(each[j] for j in order) if each else () for each in (made.features, made.groups))
    return made._replace(features=features, groups=groups, rates=made.rates[:, order])


def title(spec: str) -> str:
    """What a problem's table is named."""
    return spec.partition("(")[0] + {LARGE: "_large", LARGEST: "_largest"}.get(spec, "")


class PeerPlayer(PagePlayer):
    """A player in another process."""

    def __init__(self, problem: ContextualProblem, kind: str, settings: dict[str, Any]) -> None:
        super().__init__(problem)
        alone = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        command = [PYTHON, str(HERE / "contextual_peers.py")]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=alone)
        site = problem.site
        days = LONGER[-1] * site.slots // site.day + 1 if site.arrivals else 0
        items = [dict(each) for each in problem.features[: site.items + site.arrivals * days]]
        for features, group in zip(items, problem.groups, strict=False):
            if group not in features.values():
                features["group"] = group
        self._send(kind, [dict(each) for each in problem.contexts], items, site.items, settings)

    def _send(self, *words: Any) -> None:
        assert self._process.stdin is not None
        pickle.dump(words, self._process.stdin)
        self._process.stdin.flush()

    def _get(self) -> Any:
        assert self._process.stdout is not None
        return pickle.load(self._process.stdout)

    def fill(self, person: int, slots: int, free: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
        self._send("fill", person, slots, np.flatnonzero(free))
        places: npt.NDArray[np.int64] = self._get()
        return places

    def learn(
        self, places: npt.NDArray[np.int64], rewards: npt.NDArray[np.float64], people: npt.NDArray[np.int64]
    ) -> None:
        self._send("learn", int(people[0]), places, rewards)

    def renew(self, places: npt.NDArray[np.int64], items: npt.NDArray[np.int64]) -> None:
        super().renew(places, items)
        self._send("renew", places, items)

    def end(self) -> dict[str, list[float]]:
        """Seconds of each page filled and of each page learned from."""
        self._send("end")
        took: dict[str, list[float]] = self._get()
        self._process.wait()
        return took


class PeerOutcome(NamedTuple):
    expected: npt.NDArray[np.float64]


@dataclass(frozen=True)
class PeerRun:
    """A run of another library; it does not depend on this one's sources, so its key does not either."""

    name: str
    problem: str
    data: str | None
    digest: str
    number: int

    lasting: ClassVar[bool] = True

    @property
    def checkpoints(self) -> tuple[int, ...]:
        return marks(self.problem)

    @property
    def steps(self) -> int:
        return self.checkpoints[-1]

    @property
    def key(self) -> str:
        words = (EDITION, PEER_KINDS[self.name], self.digest, self.number, self.checkpoints)
        return sha256(repr(words).encode()).hexdigest()[:32]

    def empty(self) -> PeerOutcome:
        return PeerOutcome(np.zeros(len(self.checkpoints)))

    def play(self) -> PeerOutcome:
        problem = dealt(self.problem, self.data, self.number)
        player = PeerPlayer(problem, *PEER_KINDS[self.name])
        outcome = play_pages(problem, player, self.checkpoints, seed=run_seed(0, self.number))
        player.end()
        return PeerOutcome(outcome.expected)


def install() -> None:
    """Build the other libraries' environment, once."""
    if not (PEERS / "ready").exists():
        console.print("Installing bayesianbandits, mabwiser and VowpalWabbit for comparison …")
        subprocess.run([sys.executable, "-m", "venv", str(PEERS)], check=True)
        words = ["-m", "pip", "install", "--quiet", "--requirement", str(HERE / "contextual_peers.txt")]
        subprocess.run([PYTHON, *words], check=True)
        (PEERS / "ready").touch()


Floats = npt.NDArray[np.float64]
Clicks = dict[tuple[str, str], Floats]
"""By problem and contender: a row a run, a column a mark."""


def clicks(data: str, runs: int, jobs: int, kept: Path) -> Clicks:
    """Everybody on every problem."""
    tasks: list[PeerRun | ContextRun] = []
    for spec in OURS:
        where = None if spec.startswith("synthetic") else data
        for number in numbers(spec, runs):
            made = dealt(spec, where, number)
            setting = Setting(marks(spec)[-1], 0, 0, "random", made.site.slots)
            ours = [Contender("oracle", ""), *(Contender.read(each) for each in dict.fromkeys((*BESIDE, OURS[spec])))]
            tasks += [
                ContextRun(each, made, None, made.digest, setting, marks(spec), len(made.features), number)
                for each in ours
            ]
            asked = [name for name in PEER_KINDS if name not in LEFT_OUT.get(spec, ())]
            tasks += [PeerRun(name, spec, where, made.digest, number) for name in asked]
    found: Clicks = {}
    began, told = time.monotonic(), 0.0

    def tell(done: int, total: int) -> None:
        nonlocal told
        if time.monotonic() - told > 30:
            told = time.monotonic()
            console.print(f"[dim]{done / total:.0%} of the pages, {(told - began) / 60:.0f} minutes[/]")

    for task, outcome in run(tasks, local(jobs, processes=True), resume=kept, progress=tell):
        name = task.name if isinstance(task, PeerRun) else task.contender.spec
        spec = task.problem if isinstance(task.problem, str) else task.problem.name
        rows = found.setdefault((spec, name), np.zeros((len(numbers(spec, runs)), len(task.checkpoints))))
        rows[task.number] = outcome.expected
    return found


class Times(NamedTuple):
    """Milliseconds: a page filled, the slowest of a hundred, and an impression learned from."""

    decision: float
    slow: float
    update: float


def times(name: str, items: int) -> Times:
    """A few pages of a made-up problem."""
    problem = load_problem(f"synthetic(items={items}, people=200)")
    if name in PEER_KINDS:
        peer = PeerPlayer(problem, *PEER_KINDS[name])
        play_pages(problem, peer, [TIMED], seed=0)
        took = peer.end()
    else:
        player = Contender.read(name).player(problem, 0)
        took = watched(player)
        play_pages(problem, player, [20 * TIMED], seed=0)
    fill, learn = (np.array(took[what][len(took[what]) // 3 :]) * 1e3 for what in ("fill", "learn"))
    return Times(float(np.median(fill)), float(np.quantile(fill, 0.99)), float(np.median(learn)) / problem.site.slots)


def watched(player: PagePlayer) -> dict[str, list[float]]:
    """Note how long each call of a player takes."""
    took: dict[str, list[float]] = {"fill": [], "learn": []}

    def timed(what: str, function: Any) -> Any:
        def call(*arguments: Any) -> Any:
            started = time.thread_time()
            answer = function(*arguments)
            took[what].append(time.thread_time() - started)
            return answer

        return call

    for what in took:
        setattr(player, what, timed(what, getattr(player, what)))
    return took


def spelled(milliseconds: float) -> str:
    """Three digits, as µs, ms or s."""
    if milliseconds < 1:
        return f"{milliseconds * 1e3:.3g} µs"
    return f"{milliseconds:.3g} ms" if milliseconds < 1e3 else f"{milliseconds / 1e3:.3g} s"


class Lead(NamedTuple):
    """Our clicks over somebody's, with an interval; of one run there is none."""

    ratio: float
    low: float = -np.inf
    high: float = np.inf

    @classmethod
    def of(cls, ours: Floats, theirs: Floats) -> Lead:
        """Of paired runs."""
        if ours.size == 1:
            return cls(float(ours[0] / theirs[0]))
        return cls(*paired_ratio(ours.tolist(), theirs.tolist()))

    def __str__(self) -> str:
        return f"{self.ratio:.2f}" + (f" ({self.low:.2f} … {self.high:.2f})" if np.isfinite(self.low) else "")


def report_clicks(found: Clicks, results: Results) -> None:
    """A table for each problem, and the least lead over another library at every checkpoint: the first is page 100."""
    leads: dict[tuple[str, int, str], Lead] = {}
    pairs = ahead = 0
    panels: list[figures.SharePanel] = []
    for spec in OURS:
        ours = found[spec, OURS[spec]]
        rows: list[tuple[str, ...]] = []
        means = {name: clicked.mean(axis=0) for (where, name), clicked in found.items() if where == spec}
        for name, _ in sorted(means.items(), key=lambda each: -float(each[1][-1])):
            theirs = found[spec, name]
            cells = [f"{value:,.0f}" for value in theirs.mean(axis=0)]
            ratio = ""
            if name not in (OURS[spec], "oracle"):
                ratio = str(Lead.of(ours[:, -1], theirs[:, -1]))
            if name in PEER_KINDS:
                each = {mark: Lead.of(ours[:, j], theirs[:, j]) for j, mark in enumerate(marks(spec))}
                pairs, ahead = pairs + 1, ahead + all(lead.ratio > 1 for lead in each.values())
                leads |= {(spec, mark, name): lead for mark, lead in each.items()}
            shown = f"`{name}`" if name not in PEER_KINDS and name != "oracle" else name
            rows.append((f"**{shown}**" if name == OURS[spec] else shown, *cells, ratio))
        lines = {
            name: np.column_stack([marks(spec), means[name] / means["oracle"]])
            for name in (MODEL, GROUPS, *BESIDE, *PEER_KINDS)
            if name in means
        }
        panels.append(figures.SharePanel(title(spec), lines))
        columns = ("", *(f"{mark:,} pages" for mark in marks(spec)), f"ours ÷ this, at {marks(spec)[-1]:,}")
        show(f"Clicks, {spec}", columns, rows)
        results.table(title(spec), columns, rows)
    drawn = {"of": "the oracle's", "first": MODEL, "columns": 2, "traffic": "pages"}
    results.picture("contextual", "draw_shares", panels=panels, **drawn)
    rows = []
    for spec in OURS:
        for mark in marks(spec):
            lead, name = min((lead, name) for (*place, name), lead in leads.items() if place == [spec, mark])
            rows.append((title(spec).replace("_", ", "), f"{mark:,}", name, str(lead)))
    columns = ("", "pages", "the closest other library", "ours ÷ its clicks")
    show("At every checkpoint", columns, rows)
    results.table("closest", columns, rows)
    results.value("pairs", pairs)
    results.value("ahead", ahead)
    results.value("checkpoints", len(leads))
    results.value("checkpoints_ahead", sum(lead.ratio > 1 for lead in leads.values()))
    results.value("checkpoints_certain", sum(lead.low > 1 for lead in leads.values()))
    lost = sorted((lead, name, spec, mark) for (spec, mark, name), lead in leads.items() if lead.high < 1)
    results.value("checkpoints_lost", len(lost))
    said = "; ".join(f"{name} on {title(spec)} at {mark:,} pages ({lead.ratio:.2f})" for lead, name, spec, mark in lost)
    results.value("lost", said or "none")
    console.print(
        f"Ahead at every checkpoint: {ahead} of {pairs} (data set × peer); certainly behind at: {said or 'none'}"
    )


def report_times(results: Results, ours: Sequence[str]) -> None:
    """Decisions and updates at each number of items."""
    found = {(name, items): times(name, items) for items in ITEMS for name in (*ours, *PEER_KINDS)}
    rows = []
    for name in (*ours, *PEER_KINDS):
        cells = [spelled(found[name, items].decision) for items in ITEMS]
        cells += [spelled(found[name, items].update) for items in ITEMS]
        rows.append((f"`{name}`" if name in ours else name, *cells))
    columns = ("", *(f"a page of {n:,}" for n in ITEMS), *(f"an update, {n:,}" for n in ITEMS))
    show("Processor time on one thread, pages of ten slots", columns, rows)
    results.table("times", columns, rows)
    ratios = []
    for items in ITEMS:
        (theirs, fastest), mine = min((found[name, items].decision, name) for name in PEER_KINDS), found[ours[0], items]
        console.print(f"{ours[0]} at {items:,} against {fastest}: ", verdict(theirs / mine.decision, 20))
        cells = [spelled(each) for each in (theirs, mine.decision, mine.slow)]
        ratios.append((f"{items:,}", fastest, *cells, f"{theirs / mine.decision:.1f}"))
    columns = ("items", "fastest other library", "its page", "ours", "ours, slowest of a hundred", "times as fast")
    show("Beside the fastest", columns, ratios)
    results.table("ratios", columns, ratios)
    results.value("fastest", fastest)
    results.value("speed", theirs / mine.decision, "times", 1)


def _command(runs: int, times: bool) -> str:
    """The command, wherever the data are."""
    if times:
        return "python benchmarks/contextual.py --times"
    return "python benchmarks/contextual.py --data data" + (f" --runs {runs}" if runs != RUNS else "")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="data", help="folder with the folders jester, coat and upworthy")
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--out", type=Path, default=Path("build/contextual"), help="folder of finished runs")
    parser.add_argument("--times", action="store_true", help="times alone")
    Results.option(parser)
    options = parser.parse_args()
    install()
    results = Results(options.results, _command(options.runs, options.times))
    if options.times:
        report_times(results, (MODEL, "cold-start"))
    else:
        results.value("runs", options.runs)
        report_clicks(clicks(options.data, options.runs, options.jobs, options.out), results)
    results.write()


if __name__ == "__main__":
    main()
