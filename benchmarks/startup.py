"""How long a service takes to be ready: a large log, a snapshot near its end, and the tail that has to be folded.

Run as ``python benchmarks/startup.py [--items 1000000] [--events 10000000] [--tail 50000] [--keep FILE]``. The log
is made by SQL, the snapshot from what the same formulas add up to; on a small log (``--check``) the fold proves that
they do. Compared with the same start without the snapshot's help for a part of the log: the rate at which it would
have to be folded otherwise.
"""

from __future__ import annotations

import argparse
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from _results import Results
from _timing import console
from hellinger.ledger import Ledger, Share, Shares, recovery
from hellinger.ledger.snapshot import decode, encode
from hellinger.store import open_store

VARIANTS = ("hellinger-ucb", "kl-ucb", "ucb1")
K = 5
LAG = 1000
"""Rankings between one and its feedback."""
AT = 1_700_000_000_000
TARGET = 15.0

_ITEMS = """
WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < :items)
INSERT INTO events (seq, key, kind, at, body)
SELECT i + 1, printf('item/%010d', i), 'item', :at,
  printf('{"id":"article-%d","tags":["section-%d"],"expires_at":null,"metadata":null}', i, i % 20) FROM n
"""
_ITEM = "printf('\"article-%d\"', (i * 7919 + {place}) % :items)"
_RANKS = f"""
WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < :groups)
INSERT INTO events (seq, key, kind, at, body)
SELECT :items + 3 * i + 1, printf('%022d', i), 'rank', :at + i,
  printf('{{"variant":"%s","policy":"%s","version":"0","chance":0.3333333333333333,"segment":null,"user":null,'
  || '"random":false,"counted":true,"through":%d,"items":[%s,%s,%s,%s,%s],"scores":[1.0,0.91,0.82,0.73,0.64],'
  || '"propensities":1.0}}', v, v, :items, {", ".join(_ITEM.format(place=place) for place in range(K))})
FROM (SELECT i, CASE i % 3 WHEN 0 THEN '{VARIANTS[0]}' WHEN 1 THEN '{VARIANTS[1]}' ELSE '{VARIANTS[2]}' END AS v FROM n)
"""
_FEEDBACK = f"""
WITH RECURSIVE n (g, i) AS
  (SELECT 0, max(0, 0 - {LAG}) UNION ALL SELECT g + 1, max(0, g + 1 - {LAG}) FROM n WHERE g + 1 < :groups)
INSERT INTO events (seq, key, kind, at, body)
SELECT :items + 3 * g + 2 + :place,
  printf('%022d/%s%s/article-%d', i, :kind, CASE WHEN g < {LAG} THEN g ELSE '' END, (i * 7919 + :place) % :items),
  'feedback', :at + g,
  printf('{{"request":"%022d","item":"article-%d","kind":"%s%s","points":%s,"late":false,"happened":null}}',
    i, (i * 7919 + :place) % :items, :kind, CASE WHEN g < {LAG} THEN g ELSE '' END,
    CASE WHEN g < {LAG} THEN '0.0' ELSE '1.0' END)
FROM n
"""


def made(path: Path, items: int, groups: int, tail: int) -> None:
    """Make the log, and its snapshot at a place so far from its end."""
    open_store(f"sqlite:///{path}").close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute("PRAGMA cache_size = -1000000")
        values = {"items": items, "groups": groups, "at": AT}
        for statement, more in (
            (_ITEMS, {}),
            (_RANKS, {}),
            (_FEEDBACK, {"place": 0, "kind": "click"}),
            (_FEEDBACK, {"place": 1, "kind": "like"}),
        ):
            with connection:
                connection.execute(statement, values | more)
    with closing(open_store(f"sqlite:///{path}")) as store:
        before = groups - tail // 3
        store.save_snapshot(items + 3 * before, encode(folded(items, before)))


def folded(items: int, groups: int) -> Ledger:
    """What all items and so many groups of events fold to."""
    ledger = Ledger()
    catalogue = ledger.catalogue
    places = np.arange(items)
    columns: dict[str, Any] = {"since": places + 1, "said": places + 1, "added_at": AT, "tags": places % 20 + 1}
    for name, array in catalogue.columns.items():
        catalogue.columns[name] = np.broadcast_to(columns.get(name, 0), items).astype(array.dtype)
    sections = [(f"section-{number}",) for number in range(20)]
    catalogue.restore([f"article-{i}" for i in range(items)], [(), *sections])
    group = np.arange(groups)
    rewarded = group[: max(0, groups - LAG)]
    for number, variant in enumerate(VARIANTS):
        n, s = np.zeros(items), np.zeros(items)
        mine, given = group[group % 3 == number], rewarded[rewarded % 3 == number]
        for place in range(K):
            n += np.bincount((mine * 7919 + place) % items, minlength=items)
        for place in range(2):
            s += np.bincount((given * 7919 + place) % items, minlength=items)
        counts = ledger.counts_in(variant)
        counts.add(places, n, s)
        counts.rounds = float(K * mine.size)
        ledger.series.add(variant, AT, mine.size, K * mine.size, 2 * given.size)
        numbers = mine.size, K * mine.size, 2.0 * given.size, mine.size, 4.0 * given.size, K
        shares = ledger.series.shares[0, variant] = Shares(None)
        shares.final = Share.of([*numbers, 2.0 if given.size else 0.0])
    ledger.seq = items + 3 * groups
    return ledger


def readiness(path: Path, port: int = 8471) -> tuple[float, float, str]:
    """Seconds from the start of the process until it says that it is ready, those it computed, and what it logged."""
    command = [sys.executable, "-m", "hellinger", "serve", "--database", f"sqlite:///{path}", "--port", str(port)]
    command += ["--variants", ", ".join(VARIANTS)]
    began = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            while True:
                try:
                    with urllib.request.urlopen(f"http://127.0.0.1:{port}/health/ready", timeout=5):
                        break
                except urllib.error.URLError:
                    if process.poll() is not None:
                        raise RuntimeError(process.stdout.read() if process.stdout else "") from None
                    time.sleep(0.02)
            seconds = time.perf_counter() - began
            ticks = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[11:13]
            busy = sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")
        finally:
            process.send_signal(signal.SIGKILL)
        output, _ = process.communicate()
    return seconds, busy, next((line for line in output.splitlines() if "ready with" in line), "")


def main() -> None:
    """Make the log unless it is there, and measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=1_000_000)
    parser.add_argument("--events", type=int, default=10_000_000)
    parser.add_argument("--tail", type=int, default=50_000)
    parser.add_argument("--keep", type=Path, help="File of the log: used if it is there, kept otherwise.")
    parser.add_argument("--check", action="store_true", help="Fold the whole log, and compare.")
    Results.option(parser)
    given = parser.parse_args()
    results = Results(given.results)
    groups = (given.events - given.items) // 3
    with tempfile.TemporaryDirectory() as folder:
        path = given.keep or Path(folder) / "log.db"
        if not path.exists():
            began = time.perf_counter()
            made(path.absolute(), given.items, groups, given.tail)
            console.print(f"log of {path.stat().st_size / 1e9:.1f} GB made in {time.perf_counter() - began:.0f} s")
        if given.check:
            with closing(open_store(f"sqlite:///{path}")) as store:
                wrong = recovery.check(store)
            console.print("\n".join(wrong) or "the snapshot is the fold of the log")
        with closing(open_store(f"sqlite:///{path}")) as store:
            saved = store.snapshot()
            assert saved is not None
            ledger = decode(saved[1])
            began = time.perf_counter()
            recovery.advance(store, ledger)
            rate = (store.last() - saved[0]) / (time.perf_counter() - began)
            whole = store.last() / rate
        readiness(path)
        seconds, busy, line = min(readiness(path) for _ in range(3))
        console.print(line)
        good = "[green]" if seconds < TARGET else "[red]"
        console.print(
            f"{given.items:,} items, {given.events:,} events, the last {given.tail:,} not in the snapshot:\n"
            f"ready after {good}{seconds:.1f} s[/], {busy:.1f} s of it computing; target {TARGET:.0f} s\n"
            f"{whole / seconds:.0f} times as fast as folding the whole log at {rate:,.0f} events/s would be\n"
            f"load of the machine {os.getloadavg()[0]:.1f}"
        )
        results.value("ready", seconds, "s", 1)
        results.write()


if __name__ == "__main__":
    main()
