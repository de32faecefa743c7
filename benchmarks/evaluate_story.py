"""From a log to a decision, as the documents tell it: three candidates, and what each would really have earned.

``python benchmarks/evaluate_story.py --results FILE``: half a minute. A site shows 4 of 12 items, a fifth of the
rankings drawn at random, ordered by what somebody once believed. Since the site is made up, the truth is known.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl

from _results import Results
from _timing import console, show
from hellinger.evaluate import FixedAnswer, evaluate_log
from hellinger.figures import EstimateBar, SupportPanel

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

ITEMS, PLACES, RANKINGS, SHARE, EVERY = 12, 4, 60_000, 0.2, 10_000
RATES = np.linspace(0.12, 0.01, ITEMS)
LOOKS = 1.0 / np.sqrt(np.arange(1, PLACES + 1))
BELIEVED = np.array([5, 2, 8, 0, 10, 1, 4, 7, 3, 11, 6, 9])
CANDIDATES = {
    "my-model.csv": RATES,  # knows the truth
    "swapped.csv": np.array([2.0, 0, 3, 0, 0, 4, 0, 0, 1, 0, 0, 0]),
    "worst-first.csv": -RATES,
}
"""Scores of items by each candidate: ``swapped`` is what was believed, with the last two places exchanged."""


def log() -> pl.DataFrame:
    """What the site has logged."""
    rng = np.random.default_rng(4)
    drawn = rng.random(RANKINGS) < SHARE
    random = np.argsort(rng.random((RANKINGS, ITEMS)), axis=1)[:, :PLACES]
    shown: Ints = np.where(drawn[:, None], random, BELIEVED[:PLACES])
    clicks = rng.random(shown.shape) < RATES[shown] * LOOKS
    chance = SHARE / ITEMS + (1.0 - SHARE) * (shown == BELIEVED[:PLACES])
    number = np.repeat(np.arange(RANKINGS), PLACES)
    columns = {
        "ranking_id": number,
        "at": 1_700_000_000_000 + EVERY * number,
        "random": np.repeat(drawn, PLACES),
        "eligible": np.full(number.size, ITEMS),
        "position": np.tile(np.arange(1, PLACES + 1), RANKINGS),
        "item": shown.ravel(),
        "propensity": chance.ravel(),
        "reward": clicks.ravel().astype(float),
    }
    return pl.DataFrame(columns).with_columns(pl.format("item-{}", "item").alias("item"))


def truth(scores: Floats) -> float:
    """What an order by these scores earns a ranking."""
    return float(RATES[np.argsort(-scores, kind="stable")[:PLACES]] @ LOOKS)


def line(answer: FixedAnswer) -> tuple[str, ...]:
    """What the log says of a candidate, and the truth."""
    best = answer.best
    assert best is not None
    return (
        f"`{answer.policy}`",
        f"{best.value:.3f}",
        f"{best.low:.3f} … {best.high:.3f}",
        f"{best.mean_weight:.2f}",
        f"{best.effective_sample:,.0f}",
        best.verdict,
        f"{truth(CANDIDATES[answer.policy]):.3f}",
    )


def main() -> None:
    """Make the log, and ask it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    Results.option(parser)
    results = Results(parser.parse_args().results)
    with tempfile.TemporaryDirectory() as folder:
        tables = [Path(folder, name) for name in CANDIDATES]
        for table, scores in zip(tables, CANDIDATES.values(), strict=True):
            table.write_text("item,score\n" + "".join(f"item-{j},{score}\n" for j, score in enumerate(scores)))
        study = evaluate_log(log(), scores=tables)
    found, logged = study.survey, study.survey.reward / study.survey.rankings
    heads = ("candidate", "value", "interval", "mean weight", "effective sample", "what the log says", "the truth")
    rows = [line(answer) for answer in study.fixed]
    show(f"{found.rankings:,} rankings, {logged:.4f} of reward each", heads, rows)
    for answer in study.fixed:
        console.print(f"{answer.policy}: {answer.advice or 'decided'}")
    results.table("candidates", heads, rows)
    results.value("rankings", float(found.rankings))
    results.value("days", found.days, "days", 1)
    results.value("logged", logged, "", 3)
    results.value("advice", next(answer.advice for answer in study.fixed if answer.advice))
    bars = [
        EstimateBar(answer.policy, each.estimator, each.value, each.low, each.high, bool(each.refusal))
        for answer in study.fixed
        for each in answer.estimates
        if each.estimator in ("ips", "snips", "dr", "position_based")
    ]
    results.picture("story_estimates", "draw_estimates", bars=bars, logged=logged)
    panels = [
        SupportPanel(
            answer.policy,
            [effective for *_, effective in answer.places],
            [weight for _, weight, _ in answer.places],
            [weight for _, weight, _ in answer.times],
            [same for *_, same in answer.times],
        )
        for answer in study.fixed
    ]
    results.picture("story_support", "draw_support", panels=panels)
    results.write()


if __name__ == "__main__":
    main()
