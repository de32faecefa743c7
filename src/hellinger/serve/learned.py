"""What variants with a model have learned: effects of features with their certainty, and how true predictions were."""

from __future__ import annotations

from typing import Any

from hellinger.ledger import Ledger
from hellinger.ledger.modelled import Modelled
from hellinger.serve.listing import intervals

__all__ = ["EFFECTS", "learned"]

EFFECTS = 40
"""Effects that are listed, the surest first."""
FEW = 20
"""Impressions below which a class of predictions is not listed: a reward counts in the class of its own moment."""
_SURE = 1.96
"""Standard deviations to either end of a 95 % interval."""


def learned(ledger: Ledger, variants: list[str]) -> list[dict[str, Any]]:
    """What the models of these variants have learned; those without a model are not among them."""
    found = [(name, ledger.models.of.get(name)) for name in variants]
    return [_one(name, model) for name, model in found if model is not None]


def _one(name: str, model: Modelled) -> dict[str, Any]:
    effects = sorted(model.pool.effects(), key=lambda each: -abs(each.effect) / (each.error or 1.0))
    return {
        "variant": name,
        "policy": model.spec,
        "model": model.model,
        "items": len(model.pool),
        "impressions": float(model.calibration[:, 1].sum()),
        "effects": [
            {
                "name": each.name,
                "effect": each.effect,
                "low": each.effect - _SURE * each.error,
                "high": each.effect + _SURE * each.error,
            }
            for each in effects[:EFFECTS]
        ],
        "calibration": _calibration(model),
    }


def _calibration(model: Modelled) -> list[dict[str, float]]:
    """Predictions and what came of them, by classes of predictions, the smallest first."""
    rows = [(m, n, min(s, n)) for m, n, s in model.calibration.tolist() if n >= FEW]
    ends = intervals([(n, s) for _, n, s in rows])
    return [
        {"predicted": m / n, "observed": s / n, "low": low, "high": high, "impressions": n}
        for (m, n, s), (low, high) in zip(rows, ends, strict=True)
    ]
