"""Random lives with fresh seeds, for so many minutes: ``python tests/fuzz.py --minutes 20``; ``make fuzz`` calls it.

Each seed is printed before it is lived; ``--seed N`` lives one again. What is found becomes a seed of the tests.
"""

from __future__ import annotations

import argparse
import os
import secrets
import subprocess
import sys
import tempfile
import time
import traceback
from contextlib import nullcontext
from pathlib import Path

from http_life import HttpLife
from live import Launcher
from lives import Life, in_slices, small_crowds
from sliced_pools import SlicedLife
from throwaway import Server

__all__: list[str] = []

PROPERTIES = ["test_ledger.py", "test_pool_exact.py", "test_bandit.py", "test_experiment_split.py", "test_outage.py"]


def in_process(seed: int) -> None:
    """A hundred short lives, a few of them with changes that take effect in slices."""
    for number in range(100):
        slices, crowds = (
            (in_slices() if number % 4 == 0 else nullcontext()),
            (small_crowds() if number % 3 else nullcontext()),
        )
        with slices, crowds:
            Life(seed + number).live()


def sliced(seed: int) -> None:
    """A hundred pools that settle in slices."""
    for number in range(100):
        SlicedLife(seed + number).live()


def over_http(seed: int, launcher: Launcher, server: Server | None) -> None:
    """One life on SQLite, or of two replicas on PostgreSQL."""
    with tempfile.TemporaryDirectory() as folder:
        if server is not None and seed % 2:
            life = HttpLife(seed, launcher, Path(folder), server.fresh(), replicas=2)
        else:
            life = HttpLife(seed, launcher, Path(folder), f"sqlite:///{folder}/log.db")
        done = life.live(rounds=4, seconds=3.0)
        print("   ", ", ".join(f"{count} {what}" for what, count in sorted(done.items())), flush=True)


def properties(seed: int) -> None:
    """Hypothesis' tests, with examples that were never tried."""
    command = [sys.executable, "-m", "pytest", "-q", "-n", "2", f"--hypothesis-seed={seed}"]
    command += [str(Path(__file__).parent / name) for name in PROPERTIES]
    subprocess.run(command, env=os.environ | {"HYPOTHESIS_PROFILE": "fuzz"}, check=True)


def main() -> int:
    """Live until the time is up; how many lives went wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--kind", choices=["process", "http", "properties", "sliced"])
    parser.add_argument("--seed", type=int)
    given = parser.parse_args()
    until, wrong, lived = time.monotonic() + 60 * given.minutes, 0, 0
    try:
        server: Server | None = Server()
    except ImportError:
        server = None
    with Launcher() as launcher:
        kinds = {
            "process": in_process,
            "http": lambda seed: over_http(seed, launcher, server),
            "properties": properties,
            "sliced": sliced,
        }
        while time.monotonic() < until and (given.seed is None or not lived):
            for kind in [given.kind] if given.kind else ["process", "sliced", "http", "http", "http", "properties"]:
                seed = secrets.randbits(32) if given.seed is None else given.seed
                print(f"{kind} --seed {seed}", flush=True)
                lived += 1
                try:
                    kinds[kind](seed)
                except Exception:
                    wrong += 1
                    traceback.print_exc()
                if time.monotonic() > until:
                    break
    if server is not None:
        server.close()
    print(f"{lived} runs, {wrong} went wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
