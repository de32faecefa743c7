"""Exact expected regret of the deterministic policies, against figures of the reference (golden/make_regret.py)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from golden.make_regret import DRAWN, LEARNED, ORDERED, exact_regret
from hellinger import policies, policy

RECORDS: list[dict[str, Any]] = json.loads((Path(__file__).parent / "golden" / "regret.json").read_text("utf-8"))


def test_every_deterministic_policy_is_here() -> None:
    assert {record["policy"] for record in RECORDS} == set(policies.available()) - set(DRAWN + LEARNED + ORDERED)


def test_the_known_figure() -> None:
    """KL-UCB, level log t, each arm played once first, ties to the first arm."""
    known = [r["regret"] for r in RECORDS if r["policy"] == "kl-ucb" and r["initial"]]
    assert known == [pytest.approx(1.468244, abs=5e-7)]


@pytest.mark.parametrize("record", RECORDS, ids=lambda r: f"{r['policy']}-{len(r['means'])}-{r['initial']}")
def test_regret(record: dict[str, Any]) -> None:
    made = policy(record["policy"])
    if "horizon" in policies.available()[record["policy"]].parameters:
        made = made.at_horizon(record["rounds"])
    width = len(record["means"])
    sums, pulls, out = np.empty(width), np.empty(width), np.empty(width)

    def index(s: tuple[int, ...], n: tuple[int, ...], t: int) -> list[float]:
        sums[:], pulls[:] = s, n
        made.fill(sums, pulls, float(t), None, out)
        values: list[float] = out.tolist()
        return values

    regret = exact_regret(record["means"], record["rounds"], index, initial=record["initial"])
    assert regret == pytest.approx(record["regret"], rel=1e-12)
