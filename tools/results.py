"""``make results``: run every command that documents take numbers from, each into ``docs/results/NAME.json``.

``make results ONLY="pool service"`` runs some. What takes an hour is run only where it is named: ``soak``,
``coldstart``; so are ``evaluate_file``, which writes twenty million rows twice, and ``ads``, ``contextual``,
``filtering``, ``groups`` and ``replay``, which need data that are not part of this repository (``ADS=ads_ctr.csv``,
``DATA=data``). Times are worth publishing from a machine that does nothing else meanwhile. Then ``make figures``.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

__all__ = ["COMMANDS", "Command"]

ROOT = Path(__file__).parent.parent


class Command(NamedTuple):
    """A command, about how many minutes it takes, and whether it runs only where it is named."""

    words: str
    minutes: float
    named: bool = False


COMMANDS = {
    "index": Command("index.py", 0.5),
    "lab": Command("lab.py", 2),
    "lab_others": Command("lab.py --others", 1),
    "pool": Command("pool.py", 4),
    "models": Command("models.py", 2),
    "features": Command("features.py --parts made-up --seeds 3", 5),
    "service": Command("service.py --sizes 10000 --batches 300", 4),
    "service_million": Command("service.py --flat", 4),
    "workers": Command("workers.py", 2),
    "startup": Command("startup.py", 4),
    "catchup": Command("catchup.py", 3),
    "catchup_million": Command("catchup.py --items 1000000", 5),
    "waits": Command("waits.py --segments 20", 15),
    "waits_million": Command("waits.py --items 1000000 --segments 50 --repeat 1", 20),
    "updates": Command("updates.py", 0.1),
    "constant": Command("constant.py", 1),
    "bounded": Command("bounded.py", 2),
    "positions": Command("positions.py", 4),
    "positions_model": Command("positions.py --model", 15),
    "segments": Command("segments.py --seeds 12", 8),
    "leaderboard": Command("leaderboard.py", 2),
    "reproduction": Command("reproduction.py", 6),
    "demo": Command("showcase.py --seeds 1", 2),
    "months": Command("months.py", 15),
    "widths": Command("widths.py", 0.1),
    "power": Command("power.py 10 30", 5),
    "evaluate": Command("evaluate.py", 12),
    "shadows": Command("shadows.py", 4),
    "ranking_log": Command("ranking_log.py", 2),
    "exploration": Command("exploration.py", 2),
    "coverage": Command("coverage.py", 6),
    "evaluate_file": Command("evaluate_file.py", 8, named=True),
    "evaluate_story": Command("evaluate_story.py", 0.5),
    "false_alarms": Command("false_alarms.py", 20),
    "ads": Command(f"ads.py {os.environ.get('ADS', 'ads_ctr.csv')}", 5, named=True),
    "limit": Command("limit.py --seeds 3", 12),
    "lifetimes": Command("lifetimes.py", 4),
    "dates": Command("dates.py", 15),
    "identify": Command("identify.py", 2),
    "identify_published": Command("identify.py --published --runs 100", 1),
    "changing": Command("changing.py --runs 40", 3),
    "coldstart": Command("coldstart.py --seeds 3", 15, named=True),
    "contextual_times": Command("contextual.py --times", 5, named=True),
    "contextual": Command(f"contextual.py --data {os.environ.get('DATA', 'data')} --runs 3", 60, named=True),
    "groups": Command(f"groups.py --seeds 32 --items 0 --data {os.environ.get('DATA', 'data')}", 4, named=True),
    "groups_speed": Command("groups.py --impressions --items 1000000", 2),
    "filtering": Command(f"filtering.py --data {os.environ.get('DATA', 'data')}", 5, named=True),
    "replay": Command(f"replay.py --data {os.environ.get('DATA', 'data')}", 2, named=True),
    "soak": Command("soak.py --minutes 60", 62, named=True),
}


def main() -> None:
    """Run the commands one after the other; go on where one fails, and say so at the end."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help=f"of {', '.join(COMMANDS)}; all that take minutes, unless given")
    names = parser.parse_args().names or [name for name, command in COMMANDS.items() if not command.named]
    if unknown := set(names) - COMMANDS.keys():
        parser.error(f"there is no {', '.join(sorted(unknown))}")
    print(f"about {sum(COMMANDS[name].minutes for name in names):.0f} minutes: {', '.join(names)}", flush=True)
    failed = []
    for name in names:
        script, *words = COMMANDS[name].words.split()
        print(f"\n== {name}: {script}, about {COMMANDS[name].minutes:g} minutes", flush=True)
        command = [sys.executable, f"benchmarks/{script}", *words, "--results", f"docs/results/{name}.json"]
        began = time.monotonic()
        if subprocess.run(command, cwd=ROOT, check=False).returncode:
            failed.append(name)
        print(f"== {name} took {(time.monotonic() - began) / 60:.1f} minutes", flush=True)
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
