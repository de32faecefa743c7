"""What ``hellinger evaluate`` takes on a whole file: processor time and memory, for a million rankings of 20.

``python benchmarks/evaluate_file.py --results FILE``: some minutes. The file is an export as the service writes it, in
Parquet: a tenth of the rankings are drawn at random from 10,000 items, one of which comes and one goes every hundred
rankings. The command is a process of its own, and its memory the most that this process had. A second run has the
first's policy on a log in which every ranking excludes 20 items.

The floor: reading the columns that are used twice, as the command does, by Polars alone.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl
from polars.io.plugins import register_io_source

from _results import Results
from _timing import show
from hellinger.serve.export import ROW_GROUP, SCHEMA

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

THERE, PLACES, SHARE, LASTING, SEEN = 10_000, 20, 0.1, 100, 20
"""Items at a time, places, random share, rankings between two births, items that a ranking excludes."""
USED = ["ranking_id", "at", "item", "position", "reward", "propensity", "score", "random", "explored", "eligible"]
CHUNK = 200
"""Births in a part of the file."""


class Run(NamedTuple):
    """What a process took."""

    cpu: float
    """Seconds of the processor, of all threads."""
    megabytes: float


def parts(rankings: int, quality: Floats, exclude: bool) -> Iterator[pl.DataFrame]:
    """The rows of the log, some at a time."""
    rng = np.random.default_rng(1)
    looks = 1.0 / np.sqrt(np.arange(1, PLACES + 1))
    for begin in range(0, rankings // LASTING, CHUNK):
        born = np.arange(begin, min(begin + CHUNK, rankings // LASTING))
        pages = np.stack([_page(quality, birth) for birth in born.tolist()])
        first = np.repeat(born, LASTING)
        greedy = np.repeat(pages, LASTING, axis=0)
        drawn = rng.random(first.size) < SHARE
        # an odd step through all that are there draws each at each place with the same chance, and none twice
        start, step = rng.integers(THERE, size=(first.size, 1)), 2 * rng.integers(THERE // 2, size=(first.size, 1)) + 1
        step[step % 5 == 0] += 2
        random = first[:, None] + (start + step * np.arange(PLACES)) % THERE
        shown = np.where(drawn[:, None], random, greedy)
        chance = SHARE / THERE + (1.0 - SHARE) * (shown == greedy)
        clicks = rng.random(shown.shape) < quality[shown] * looks
        yield _frame(begin * LASTING, shown, quality[shown], chance, clicks, drawn, rng if exclude else None)


def _page(quality: Floats, birth: int) -> Ints:
    """The best of those that are there, as the logger has it."""
    there = quality[birth : birth + THERE]
    best = np.argpartition(-there, PLACES)[:PLACES]
    return birth + best[np.argsort(-there[best])]


def _frame(
    before: int,
    shown: Ints,
    score: Floats,
    chance: Floats,
    clicks: npt.NDArray[np.bool_],
    drawn: npt.NDArray[np.bool_],
    rng: np.random.Generator | None,
) -> pl.DataFrame:
    count = shown.shape[0]
    number = np.repeat(np.arange(before, before + count), PLACES)
    columns: dict[str, Any] = {
        "number": number,
        "at": 1_700_000_000_000 + 500 * number,
        "random": np.repeat(drawn, PLACES),
        "position": np.tile(np.arange(1, PLACES + 1, dtype=np.int32), count),
        "item": shown.ravel(),
        "score": score.ravel(),
        "propensity": chance.ravel(),
        "reward": clicks.ravel().astype(float),
    }
    frame = pl.DataFrame(columns).with_columns(
        ranking_id=pl.col("number").cast(pl.String).str.zfill(16),
        item=pl.format("item-{}", "item"),
        variant=pl.lit("ours"),
        policy=pl.lit("cold-start"),
        k=pl.lit(PLACES),
        eligible=pl.lit(THERE),
        filtered=pl.lit(rng is not None),
        cut=pl.lit(False),
        explored=pl.lit(False),
        seen=pl.lit(True),
    )
    if rng is not None:  # in the first row of a ranking alone
        heads = number[::PLACES]
        seen = heads[:, None] // LASTING + rng.integers(THERE, size=(count, SEEN))
        listed = pl.DataFrame({"number": np.repeat(heads, SEEN), "exclude": seen.ravel()})
        listed = listed.with_columns(pl.format("item-{}", "exclude")).group_by("number", maintain_order=True).all()
        listed = listed.with_columns(position=pl.lit(1, pl.Int32))
        frame = frame.join(listed, on=["number", "position"], how="left", maintain_order="left")
    chosen = [
        (pl.col(name) if name in frame.columns else pl.lit(None)).cast(dtype).alias(name)
        for name, dtype in SCHEMA.items()
    ]
    return frame.select(chosen)


def write(path: Path, rankings: int, quality: Floats, *, exclude: bool) -> None:
    """Write the log as the service does: some rows are in memory at a time."""
    source = register_io_source(lambda *_: parts(rankings, quality, exclude), schema=SCHEMA)
    source.sink_parquet(path, row_group_size=ROW_GROUP, engine="streaming")


def measured(*words: str) -> Run:
    """A process: its time, and the most memory it had."""
    process = subprocess.Popen([sys.executable, *words], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
    assert process.stdout is not None
    output = process.stdout.read()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, output[-500:]
    return Run(used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)


FLOOR = """
import sys, polars as pl
for _ in range(2):
    frame = pl.scan_parquet(sys.argv[1]).select(sys.argv[2].split(","))
    print(sum(part["reward"].sum() for part in frame.collect_batches(chunk_size=200_000)))
"""


def main() -> None:
    """Write the files, and evaluate them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rankings", type=int, default=1_000_000)
    Results.option(parser)
    options = parser.parse_args()
    results, rng = Results(options.results), np.random.default_rng(0)
    quality = rng.beta(2.0, 60.0, THERE + options.rankings // LASTING)
    table = []
    with tempfile.TemporaryDirectory() as folder:
        log, scores = Path(folder, "log.parquet"), Path(folder, "my-model.csv")
        noisy = quality * np.exp(rng.normal(0.0, 0.2, quality.size))
        scores.write_text("item,score\n" + "".join(f"item-{j},{value}\n" for j, value in enumerate(noisy)))
        command = ["-m", "hellinger", "evaluate", str(log), "--scores", str(scores), "--json"]
        write(log, options.rankings, quality, exclude=False)
        results.value("size", log.stat().st_size / 1e6, "MB", 0)
        floor = measured("-c", FLOOR, str(log), ",".join(USED))
        table.append(("reading alone", floor))
        table.append(("a table of scores", measured(*command)))
        table.append(("the same and uniform", measured(*command, "--policies", "uniform")))
        write(log, options.rankings, quality, exclude=True)
        table.append(("scores, with filters", measured(*command)))
    scores_alone = table[1][1]
    results.value("cpu", scores_alone.cpu, "s", 0)
    results.value("memory", scores_alone.megabytes, "MB", 0)
    rows = [(what, f"{run.cpu:.0f}", f"{run.megabytes:,.0f}", f"{run.cpu / floor.cpu:.1f}") for what, run in table]
    heads = ("what", "processor seconds", "peak memory, MB", "× reading alone")
    show(f"{options.rankings:,} rankings of {PLACES}", heads, rows)
    results.value("rankings", float(options.rankings))
    results.table("file", heads, rows)
    results.write()


if __name__ == "__main__":
    main()
