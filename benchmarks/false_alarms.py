"""How often an experiment that is looked at all the time says something wrong, and what being right costs.

    python benchmarks/false_alarms.py [runs] [situation ...]

``tests/situations.py`` has the situations. Prints the table of docs/experiment.md.
"""

from __future__ import annotations

import math
import os
import sys
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

sys.path.append(str(Path(__file__).parent.parent / "tests"))
from situations import LIFT, SITUATIONS, play

RUNS = 1000


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else RUNS
    print(
        f"| situation | read | verdict wrong | lift wrong | rate wrong | +{100 * LIFT:.0f} % found | after rankings |"
    )
    print("|---|---|---|---|---|---|---|")
    for name in sys.argv[2:] or SITUATIONS:
        for reading, result in zip(SITUATIONS[name].readings, play(SITUATIONS[name], runs, seed=1), strict=True):
            wrong = " | ".join(
                f"**{100 * share:.1f} %**" if share > 0.05 else f"{100 * share:.1f} %" for share in result[:3]
            )
            after = f"{result.rankings:,.0f}" if math.isfinite(result.rankings) else "not by the end"
            words = f"{SITUATIONS[name].words} | {reading.words}"
            print(f"| {words} | {wrong} | {100 * result.decided:.0f} % | {after} |", flush=True)


if __name__ == "__main__":
    main()
