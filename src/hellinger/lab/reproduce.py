"""The paper's simulations again: its figures, a table of its claims, and a report anyone can read."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hellinger import figures, theory
from hellinger.errors import require
from hellinger.lab import production
from hellinger.lab._folder import whole_folder
from hellinger.lab._simulate import simulate
from hellinger.lab.claims import BALLS, HELLINGER, KL, LIMIT_MS, PAPER_C, UCB1, Claim, latency_claims, setting_claims
from hellinger.lab.latency import BASELINE, Latency, measure_latency
from hellinger.lab.problem import PAPER_BERNOULLI, PAPER_POISSON
from hellinger.lab.report import Plate, render_report
from hellinger.lab.result import Result
from hellinger.lab.sharing import Rewards, share
from hellinger.policies import policy
from hellinger.world.runs import cores

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Reproduction", "Say", "reproduce"]

Say = Callable[[str, float | None], None]
"""Called with what is being done, and the fraction done."""

HORIZON, INIT = 10_000, 3
POLICIES = (HELLINGER, KL, UCB1)
SIZES = (100, 1_000, 10_000, 100_000)
TRAFFIC = "Two months of traffic"
_FORMAT = 1


class _Setting(NamedTuple):
    name: str
    title: str
    means: tuple[float, ...]
    figures: tuple[int, int, int]
    """Numbers the paper gives to its three figures of this setting."""


SETTINGS = (
    _Setting("bernoulli", "Bernoulli rewards", PAPER_BERNOULLI, (1, 2, 3)),
    _Setting("poisson", "Poisson rewards", PAPER_POISSON, (4, 5, 6)),
)


_CAPTIONS = {
    "regret": (
        "Mean regret (solid), the middle half of the runs (band), and the leading terms that the paper calls upper "
        "bounds (dashed); UCB1 and the Lai–Robbins line are added. A straight line here is logarithmic growth. In "
        "the end no policy that is consistent on every problem can be less steep than the dotted line, whose height "
        "means nothing."
    ),
    "average": "Regret divided by the rounds played, after the initial plays.",
    "final": (
        f"Regret of each run after {HORIZON:,} rounds. Box: quartiles; line: median; diamond: mean; dots: runs. UCB1 "
        f"is "
        "added."
    ),
}
_LATENCY_CAPTION = (
    "Time to score warm arms (1 to 500 impressions each) and pick the best twenty, on one core, checks of the input "
    "included; band: 5 to 95 % of calls. The paper sets 10 ms for 10,000 arms and shows no measurement."
)


@dataclass(frozen=True)
class Reproduction:
    """What :func:`reproduce` found and wrote."""

    folder: Path
    claims: list[Claim]
    results: dict[str, Result]
    latencies: list[Latency]
    rewards: list[Rewards]
    record: dict[str, Any]


def reproduce(
    folder: str | Path,
    *,
    runs: int = 200,
    seed: int = 0,
    sites: int | None = None,
    items: int = 10_000,
    full: bool = False,
    say: Say | None = None,
) -> Reproduction:
    """Play the paper's two settings and two months of shared traffic, time the policies, write figures and a report.

    T = 10,000 rounds, 3 initial plays of each arm, c = 0.27: settings of the authors' notebook, which the
    paper leaves out. Everything but times depends on the arguments alone.

    Parameters
    ----------
    folder
        Gets ``report.html``, ``results.json`` and each figure as PNG and SVG; all of them or none.
    runs, seed
        Runs of each policy, at least 2, and what they are drawn from.
    sites, items
        Simulated sites for the two months, at least 2 (4 unless given, 10 if full), and items on each.
    full
        Scan traffic up to 3,000 impressions per item.
    say
        Called with the progress.
    """
    require(runs >= 2 and runs == math.floor(runs), "2 <= runs, a whole number", runs=runs)
    require(seed >= 0, "0 <= seed", seed=seed)
    plans = production.plans(seed=seed, sites=sites, items=items, full=full)
    for plan in plans:
        plan.check()
    tell: Say = say if say is not None else lambda _what, _done: None
    with whole_folder(folder) as partial:
        started = time.perf_counter()
        _compile(tell)
        compiled = time.perf_counter()
        results: dict[str, Result] = {}
        for setting in SETTINGS:
            with _stage(tell, f"playing the {setting.name} setting") as progress:
                results[setting.name] = simulate(
                    POLICIES,
                    means=setting.means,
                    family=setting.name,
                    horizon=HORIZON,
                    runs=runs,
                    seed=seed,
                    init=INIT,
                    progress=progress,
                )
        tell("playing the bernoulli setting with the Poisson index, as the authors' notebook does", None)
        swapped = _swapped(results["bernoulli"])
        with _stage(tell, f"playing two months of traffic on {items:,} items") as progress:
            rewards = share(plans, progress=progress)
        tell(f"timing rankings of up to {max(SIZES):,} arms", None)
        latencies = measure_latency(POLICIES, sizes=SIZES, seed=seed)
        claims = _once(
            [
                *setting_claims("bernoulli", results["bernoulli"], swapped),
                *setting_claims("poisson", results["poisson"]),
                *latency_claims(latencies),
                *production.production_claims(rewards),
            ]
        )
        drawn = time.perf_counter()
        plates = []
        for done, (group, name, caption, figure) in enumerate(_drawings(results, latencies, rewards)):
            tell("drawing the figures", done / (3 * len(SETTINGS) + 3))
            _, svg = figures.save(figure, partial / name)
            plates.append(Plate(group, name, caption, svg.read_bytes(), wide=group == TRAFFIC))
        tell("writing the report", None)
        record = _record(results, swapped, latencies, claims, [plate.name for plate in plates])
        record["production"] = production.record(rewards)
        record["sites"], record["items"], record["full"] = plans[0].sites, items, full
        record["wall_s"] = {
            "compiling": compiled - started,
            "playing_and_timing": drawn - compiled,
            "drawing": time.perf_counter() - drawn,
        }
        (partial / "results.json").write_text(
            json.dumps(record, indent=1, ensure_ascii=False, allow_nan=False), encoding="utf-8"
        )
        (partial / "report.html").write_text(render_report(record, claims, plates), encoding="utf-8")
    return Reproduction(Path(folder), claims, results, latencies, rewards, record)


def _once(claims: Sequence[Claim]) -> list[Claim]:
    """The claims, each note only where it first applies."""
    seen: set[str] = set()
    kept = []
    for claim in claims:
        kept.append(claim._replace(note="") if claim.note in seen else claim)
        seen.add(claim.note)
    return kept


@contextmanager
def _stage(tell: Say, what: str) -> Iterator[Callable[[int, int], None]]:
    """Tell of a stage, and give what :func:`simulate` reports its progress to."""
    tell(what, None)
    yield lambda done, total: tell(what, done / total)


def _compile(tell: Say) -> None:
    """Play a few rounds of everything, so that compiling has a stage of its own and is not timed as something else."""
    for setting in SETTINGS:
        for spec in POLICIES:
            tell(f"compiling {spec} for {setting.name} rewards (first run only)", None)
            simulate(spec, means=setting.means, family=setting.name, horizon=INIT * len(setting.means) + 2, runs=1)
    tell("compiling the Poisson index for Bernoulli rewards (first run only)", None)
    _swapped(simulate([HELLINGER, KL], means=PAPER_BERNOULLI, horizon=40, runs=1, init=INIT))
    tell("compiling the rankings (first run only)", None)
    measure_latency(POLICIES, sizes=[16], seconds=0.0, least=1)
    tell("compiling the simulated site (first run only)", None)
    production.compile_policies()


def _swapped(result: Result) -> Result:
    """Hellinger-UCB and KL-UCB for Poisson rewards, given the same Bernoulli rewards."""
    setting, names = result.setting, [HELLINGER, KL]
    swapped = simulate(
        [policy(spec, family="poisson") for spec in names],
        means=result.means,
        family=result.family,
        horizon=setting.horizon,
        runs=result.runs,
        seed=setting.seed,
        init=setting.init,
        checkpoints=1,
    )
    return replace(swapped, policies=names)


# Figures ---------------------------------------------------------------------------------------------


def _drawings(
    results: dict[str, Result], latencies: Sequence[Latency], rewards: Sequence[Rewards]
) -> Iterator[tuple[str, str, str, Figure]]:
    """Group, name, caption and figure, in the paper's order."""
    for setting in SETTINGS:
        result, title = results[setting.name], setting.title
        for (what, caption), number in zip(_CAPTIONS.items(), setting.figures, strict=True):
            if what == "regret":
                figure = _regret_figure(setting, result)
            elif what == "average":
                figure = result.plot_average(title=f"{title}: average regret")
            else:
                figure = result.plot_final(title=f"{title}: regret at the last round")
            yield title, f"{what}_{setting.name}", f"The paper's figure {number}. {caption}", figure
    yield "Time to rank", "latency", _LATENCY_CAPTION, _latency_figure(latencies)
    for name, caption, figure in production.drawings(rewards):
        yield TRAFFIC, name, caption, figure


def _regret_figure(setting: _Setting, result: Result) -> Figure:
    bounds = [
        figures.Line(
            f"{spec}: the paper's “bound”",
            result.checkpoints,
            theory.dashed_bound(result.means, family=result.family, horizon=result.checkpoints, ball=ball, init=INIT),
            of=spec,
        )
        for spec, ball in BALLS
    ]
    return result.plot_regret(bounds=bounds, focus=(HELLINGER, KL), title=f"{setting.title}: regret")


def _latency_figure(latencies: Sequence[Latency]) -> Figure:
    timings = []
    for method in dict.fromkeys(row.method for row in latencies):
        rows = [row for row in latencies if row.method == method]
        arms, ms, low, high = (np.array(column) for column in list(zip(*rows, strict=True))[1:5])
        timings.append(figures.Timing(method, arms, ms, low, high, baseline=method == BASELINE))
    return figures.draw_latency(timings, limit_ms=LIMIT_MS, title="Time to rank arms, one core")


# Numbers ---------------------------------------------------------------------------------------------


def _record(
    results: dict[str, Result],
    swapped: Result,
    latencies: Sequence[Latency],
    claims: Sequence[Claim],
    names: Sequence[str],
) -> dict[str, Any]:
    one = results["bernoulli"]
    return {
        "format": _FORMAT,
        "versions": {name: version(name) for name in ("hellinger", "numpy", "numba", "matplotlib")},
        "runs": one.runs,
        "seed": one.setting.seed,
        "horizon": HORIZON,
        "init": INIT,
        "c": PAPER_C,
        "cores": cores(),
        "settings": [
            {
                "setting": setting.name,
                "family": results[setting.name].family,
                "means": list(setting.means),
                "lai_robbins": theory.lai_robbins(setting.means, family=setting.name),
                "consistency_threshold": theory.consistency_threshold(setting.means, family=setting.name),
                "policies": results[setting.name].summary(),
                "play_s": results[setting.name].wall_s,
            }
            for setting in SETTINGS
        ],
        "notebook": swapped.summary(),
        "latency": [row._asdict() for row in latencies],
        "claims": [claim._asdict() for claim in claims],
        "figures": list(names),
    }
