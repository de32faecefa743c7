"""A real service on a real socket, over a database with a past."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from hellinger.engine.allocation import Allocation
from hellinger.engine.drafts import DraftRow, GivenFeedback, Query
from hellinger.engine.service import make_desk
from hellinger.engine.settings import Settings
from hellinger.engine.state import HOUR
from hellinger.events import now
from hellinger.ledger import MAIN, Ledger
from hellinger.store import open_store

__all__ = ["VARIANTS", "Begun", "Running", "fill", "serving"]

VARIANTS = {name: name for name in ("hellinger-ucb", "kl-ucb", "ucb1")}
"""For tests of an experiment."""


class Running(NamedTuple):
    """A service, and where it listens."""

    process: subprocess.Popen[str]
    url: str


class Begun(NamedTuple):
    """A phase of an experiment that began so many days after the start."""

    day: float
    allocation: Allocation
    by: str
    why: str = ""
    name: str = MAIN


def fill(
    settings: Settings,
    *,
    requests: int,
    items: int,
    days: float,
    k: int = 10,
    seed: int = 1,
    phases: Sequence[Begun] = (),
    hides: Mapping[str, float] | None = None,
) -> None:
    """Play rankings and clicks up to this moment into a new database: the item ``item-0007`` is added seventh.

    Shadows of a phase rank every ranking.
    ``hides``: how often an impression of a variant has feedback of the kind ``hide``.
    """
    rng = random.Random(seed)
    store = open_store(settings.database)
    desk = make_desk(settings, Ledger(), store.secret())
    end = now()
    start = end - round(days * 24 * HOUR)

    def log(drafts: Sequence[DraftRow]) -> None:
        places = store.append([event for event, _ in drafts], desk.ledger.seq).seqs
        pairs = zip(places, drafts, strict=True)
        desk.commit_own((seq, draft) for seq, draft in pairs if seq is not None)

    fields = [
        {"id": f"item-{n:04d}", "tags": ["sport" if n % 3 else "news"], "expires_at": None, "metadata": {"number": n}}
        for n in range(items)
    ]
    log(desk.describe(fields, start))
    rates = {f"item-{n:04d}": 0.4 * rng.random() ** 3 for n in range(items)}
    waiting: list[DraftRow] = []
    coming = list(phases)
    for number in range(requests):
        at = start + (end - start) * number // requests
        while coming and start + coming[0].day * 24 * HOUR <= at:
            day, allocation, by, why, name = coming.pop(0)
            log([*waiting, *desk.chores(at)])
            begun = start + round(day * 24 * HOUR)
            log([allocation.draft(begun, after=desk.ledger.phase_place, by=by, name=name, why=why)])
            waiting = []
        draft = desk.rank(Query(k), at)
        shadow = desk.shadow(Query(k), draft, at)
        clicks = [
            GivenFeedback(draft.event.key, item, "click")
            for item in draft.fields["items"]
            if rng.random() < rates[item]
        ]
        hidden = (hides or {}).get(draft.fields["variant"], 0.0)
        if hidden:
            clicks += [
                GivenFeedback(draft.event.key, i, "hide") for i in draft.fields["items"] if rng.random() < hidden
            ]
        waiting += [draft, *([] if shadow is None else [shadow]), *desk.sort(clicks, at).drafts]
        if len(waiting) > 100:
            log([*waiting, *desk.chores(at)])
            waiting = []
    log([*waiting, *desk.chores(end)])
    store.close()


@contextmanager
def serving(folder: Path, *flags: str) -> Iterator[Running]:
    """``hellinger serve`` with these flags, in a folder of its own."""
    errors = folder / "serve.log"
    environ = {name: value for name, value in os.environ.items() if not name.startswith("HELLINGER_")}
    with errors.open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "hellinger", "serve", "--port", "0", *flags],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=log,
            text=True,
            cwd=folder,
            env=environ,
        )
    try:
        yield Running(process, _address(process, errors))
    finally:
        process.kill()
        process.wait()


def _address(process: subprocess.Popen[str], errors: Path) -> str:
    """Where it says that it listens."""
    for _ in range(3000):
        for line in errors.read_text().splitlines():
            if '"address"' in line:
                return str(json.loads(line)["address"])
        if process.poll() is not None:
            break
        try:
            process.wait(0.1)
        except subprocess.TimeoutExpired:
            continue
    raise AssertionError(f"it never listened: {errors.read_text()[-2000:]}")
