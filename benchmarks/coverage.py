"""Whether intervals hold through the whole chain: a policy learns, its log is exported, another is evaluated from it.

``python benchmarks/coverage.py --results FILE``: some ten minutes. The service's desk plays ``cold-start`` on a
simulated site, where clicks fall with the position and what another policy earns is known. Where
``benchmarks/evaluate.py`` has loggers that stand still and whose chances are known, here they are what rankings logged.

- B a fixed order, from the export by ``evaluate_log``, looked at after half of the rankings and after all.
- B a shadow, by what its events say, looked at five times. Its truth is what its pages would have earned on average.
"""

from __future__ import annotations

import argparse
import math
import tempfile
import time
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from _desk import START, DrivenDesk
from _results import Results
from _timing import show
from hellinger import evaluate
from hellinger.engine.allocation import Allocation
from hellinger.engine.drafts import Draft, GivenFeedback, Query
from hellinger.engine.exploring import Exploring
from hellinger.serve.export import write
from hellinger.serve.shadows import shadows
from hellinger.store import open_store

Floats = npt.NDArray[np.float64]

ITEMS, PLACES, RANKINGS, LOGS, ETA = 40, 5, 1500, 60, 0.7
LOOKS = np.arange(1.0, PLACES + 1.0) ** -ETA
WINDOW = 60_000
LATER = START + 1_000_000_000
"""When every reward is final."""


class Logger(NamedTuple):
    """A learning policy that is logged: its share of random rankings, and how else it explores."""

    name: str
    share: float
    how: Exploring


LOGGERS = (
    Logger("`near_ties = 0.05`", 0.0, Exploring(0.05)),
    Logger("`near_ties = 0.05`, `random_share = 0.2`", 0.2, Exploring(0.05)),
    Logger("`near_ties = 0.05`, `random_share = 1`", 1.0, Exploring(0.05)),
)
SHADOWS = ("cold-start", "hellinger-ucb", "uniform")


class Played:
    """``cold-start`` on a simulated site, and what became of its rankings."""

    def __init__(self, seed: int, logger: Logger, *, shadow: str | None = None) -> None:
        self.rng = np.random.default_rng([seed, 7])
        self.rates = self.rng.beta(2.0, 12.0, ITEMS)
        self.site = DrivenDesk(
            "cold-start",
            ITEMS,
            keep=True,
            positions=tuple(LOOKS.tolist()),
            random_share=logger.share,
            exploring=logger.how,
            window=WINDOW,
            seed=seed,
        )
        self.shadow = shadow
        if shadow is not None:
            policies, weights = {"a": "cold-start"}, {"a": 1.0}
            allocation = Allocation(policies, weights, window=WINDOW, shadows={"dark": shadow}).check()
            self.site.write([allocation.draft(START, after=0, by="benchmark")])
            self.site.desk.finish()

    def rankings(self, count: int) -> Iterator[Draft]:
        """Play so many rankings; each as the log has it, before anything is clicked."""
        desk, write = self.site.desk, self.site.write
        for number in range(count):
            at = START + 1000 * number
            made = desk.rank(Query(PLACES), at)
            write([made])
            yield made
            names = made.fields["items"]
            clicked = self.rng.random(PLACES) < self.rates[list(map(int, names))] * LOOKS
            given = [GivenFeedback(made.event.key, names[j], "click") for j in np.flatnonzero(clicked).tolist()]
            write(list(desk.sort(given, at).drafts))
            if number % 100 == 0:
                write(desk.learn(at))

    def page(self, made: Draft) -> float:
        """What the shadow's page would earn on average, over the random order of ties, a place."""
        pools, request = self.site.desk.pools, self.site.desk.state.find(made.event.key)
        assert request is not None
        with pools.without("dark", request) as pool:
            slots = np.array(pool.ids, np.int64)
            scores = pool.scores(slots)
        names = self.site.desk.ledger.catalogue.ids
        rates = self.rates[[int(names[slot]) for slot in slots.tolist()]]
        order = np.argsort(-scores, kind="stable")
        earned = at = 0.0
        for _, tie in groupby(order.tolist(), key=lambda j: float(scores[j])):
            members, first = list(tie), int(at)
            earned += float(rates[members].mean()) * float(LOOKS[first : first + len(members)].sum())
            at += len(members)
            if at >= PLACES:
                break
        return earned / PLACES


class Seen(NamedTuple):
    missed: bool
    refused: bool
    error: float
    width: float


def from_export(seed: int, logger: Logger, folder: Path) -> Seen:
    """A fixed order, evaluated from the log as it is exported."""
    played = Played(seed, logger)
    for _ in played.rankings(RANKINGS):
        pass
    noisy = np.log(played.rates) + played.rng.normal(0.0, 0.3, ITEMS)
    order = np.argsort(-noisy)[:PLACES]
    truth = float(played.rates[order] @ LOOKS)
    table, log, database = folder / "model.csv", folder / "log.jsonl", folder / "log.db"
    table.write_text("item,score\n" + "".join(f"{j},{float(noisy[j])!r}\n" for j in range(ITEMS)))
    database.unlink(missing_ok=True)
    store = open_store(f"sqlite:///{database}")
    assert played.site.events is not None
    store.append([event.row for event in played.site.events], 0)
    missed = False
    for last in (START + 1000 * RANKINGS // 2, None):
        with log.open("wb") as out:
            write(store, "jsonl", None, last, out)
        (answer,) = evaluate.evaluate_log(log, scores=[table]).fixed
        found = next(each for each in answer.estimates if each.estimator == "ips")
        missed |= not found.low <= truth <= found.high
    store.close()
    return Seen(missed, bool(found.refusal), found.value / truth - 1.0, (found.high - found.low) / truth)


def by_shadow(seed: int, spec: str) -> Seen:
    """A shadow, by what the log says of it."""
    played = Played(seed, LOGGERS[0], shadow=spec)
    truth, missed, row = 0.0, False, {}
    desk = played.site.desk
    for number, made in enumerate(played.rankings(RANKINGS), 1):
        truth += played.page(made)
        told = desk.shadow(Query(PLACES), made, made.event.at)
        assert told is not None
        played.site.write([told])
        if number % (RANKINGS // 5) == 0:
            row = _row(played, LATER)
            if row["rate"] is not None:
                missed |= not row["low"] <= truth / number <= row["high"]
    mean = truth / RANKINGS
    if row["rate"] is None:
        return Seen(missed, True, math.nan, math.nan)
    return Seen(missed, False, row["rate"] / mean - 1.0, (row["high"] - row["low"]) / mean)


def _row(played: Played, at: int) -> dict[str, Any]:
    ledger = played.site.desk.ledger
    return shadows(ledger, "main", Allocation.of(ledger.experiments["main"]), at)[0]


def row(name: str, target: str, seen: list[Seen]) -> list[str]:
    """A line of the table."""
    answered = [each for each in seen if not each.refused]
    missed, refused = sum(each.missed for each in seen), len(seen) - len(answered)
    if len(answered) < 0.5 * len(seen):
        return [name, target, str(missed), str(refused), "no answer", "no answer"]
    errors = np.array([each.error for each in answered])
    spread = 1.96 * errors.std(ddof=1) / math.sqrt(len(answered))
    bias = f"{100 * errors.mean():+.1f} ± {100 * spread:.1f} %".replace("-", "−")
    width = 100 * float(np.median([each.width for each in answered]))
    return [name, target, str(missed), str(refused), bias, f"{width:.0f} %"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--logs", type=int, default=LOGS, help="logs of each row")
    Results.option(parser)
    options = parser.parse_args()
    results, rows, began = Results(options.results), [], time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        for logger in LOGGERS:
            found = [from_export(seed, logger, Path(folder)) for seed in range(options.logs)]
            rows.append(row(logger.name, "a good order, from the export", found))
            print(rows[-1], f"{time.process_time() - began:.0f} s", flush=True)
    for spec in SHADOWS:
        found = [by_shadow(seed, spec) for seed in range(options.logs)]
        rows.append(row(LOGGERS[0].name, f"`{spec}`, a shadow", found))
        print(rows[-1], f"{time.process_time() - began:.0f} s", flush=True)
    columns = ("`cold-start` with", "policy", "missed", "refused", "mean error", "width")
    results.table("chain", columns, rows)
    results.value("logs", options.logs)
    results.value("rankings", RANKINGS)
    results.value("worst", max(int(each[2]) for each in rows))
    results.value("allowed", math.floor(0.05 * options.logs))
    results.write()
    show(
        f"{options.logs} logs of {RANKINGS:,} rankings of {PLACES} among {ITEMS} items",
        columns,
        [tuple(r) for r in rows],
    )


if __name__ == "__main__":
    main()
