"""How much positions are looked at, and what that changes, as the API and the page tell it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from hellinger.engine.desk import Desk
from hellinger.engine.positions import PositionCurve
from hellinger.ledger.looks import Worth

__all__ = ["positions"]


def positions(desk: Desk) -> dict[str, Any]:
    """The curve with its certainty, what impressions count by it, and a sentence."""
    ledger, fields = desk.ledger, desk.ledger.curve[1]
    curve = PositionCurve(np.array(fields.get("looked", [1.0])), np.array(fields.get("error", [0.0])))
    setting = desk.positions if isinstance(desk.positions, str) else "given"
    length = max(curve.looked.size, 1 if isinstance(desk.positions, str) else len(desk.positions))
    worth = (desk.state.overlay.worth if desk.counted else Worth()).of(length).tolist()
    known = [*zip(curve.looked.tolist(), curve.error.tolist(), strict=True)]
    rows = []
    for j in range(length):
        looked, error = known[j] if j < len(known) else (None, 0.0)
        low, high = (None if looked is None else looked * math.exp(sign * 1.96 * error) for sign in (-1, 1))
        rows.append({"position": j + 1, "looked": looked, "low": low, "high": high, "worth": worth[j]})
    shown = {
        "setting": setting,
        "known": curve.known,
        "rewards": fields.get("rewards", 0.0),
        "effect": curve.effect,
        "error": curve.uncertainty,
        "impressions": ledger.rounds(variants=ledger.variants),
        "worth": ledger.rounds(variants=ledger.variants, lacks=desk.pools.lacks),
        "positions": rows,
    }
    return shown | {"sentence": _sentence(desk, shown)}


def _sentence(desk: Desk, shown: dict[str, Any]) -> str:
    if not desk.counted:
        return "Impressions are confirmed as seen, so each counts as one, wherever it was."
    last = shown["positions"][-1]
    if any(row["worth"] != 1 for row in shown["positions"]):
        whose = "as set" if shown["setting"] == "given" else "as learned"
        together = f"all {shown['impressions']:,.0f} impressions so far count as {shown['worth']:,.0f}"
        return f"An impression at position {last['position']} counts as {last['worth']:.2f} ({whose}); {together}."
    if shown["setting"] != "learned" or shown["known"]:
        return "Every impression counts as one, wherever it is shown."
    if not shown["error"]:
        return (
            "Every impression counts as one: items in random order have not earned enough yet to tell positions apart."
        )
    error = f"{math.expm1(shown['error']):.0%}"
    return (
        f"Every impression counts as one: from {shown['rewards']:,.0f} rewards in random order, how much positions "
        f"are looked at is known within {error}, which does not tell it from all alike."
    )
