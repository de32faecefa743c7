"""A client of the service: items in, rankings out, feedback back.

Without an address it starts a service of its own on a temporary database.
"""

from __future__ import annotations

import contextlib
import random
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator

from hellinger.client import Client, Feedback, FeedbackBuffer


@contextlib.contextmanager
def service() -> Iterator[str]:
    """A service on a free port, until it is no longer needed."""
    with tempfile.TemporaryDirectory() as folder:
        command = [
            sys.executable,
            "-m",
            "hellinger",
            "serve",
            "--port",
            "0",
            "--database",
            f"sqlite:///{folder}/log.db",
        ]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
            assert process.stderr is not None
            address = next(filter(None, (re.search(r"http://[0-9.]+:[0-9]+", line) for line in process.stderr)))[0]
            try:
                yield address
            finally:
                process.terminate()


def main(url: str) -> None:
    """Show 200 pages of ten to users who click on one item in twenty."""
    rng = random.Random(0)
    with Client(url) as client:
        client.add_items([f"story-{j}" for j in range(1_000)])
        with FeedbackBuffer(client) as buffer:
            for _ in range(200):
                ranking = client.rank(k=10)
                clicked = [item for item in ranking.ids if rng.random() < 0.05]
                buffer.add(*(Feedback(ranking.ranking_id, item) for item in clicked))
        told = client.experiment().raw
        print(told["sentence"])
        for row in told["variants"]:
            print(f"{row['variant']:15} {row['impressions']:6,} impressions, {row['reward']:4.0f} clicks")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(sys.argv[1])
    else:
        with service() as address:
            main(address)
