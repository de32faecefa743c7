"""What variants have learned of features, by a model or for a prior: effects, and how true predictions were."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hellinger.ledger import Ledger
from hellinger.ledger.modelled import Modelled
from hellinger.models import Encoder
from hellinger.policies import Prior
from hellinger.serve.listing import intervals

__all__ = ["EFFECTS", "joined", "learned"]

EFFECTS = 40
"""Effects that are listed, the surest first."""
FEW = 20
"""Impressions below which a class of predictions is not listed."""
_EXPECTED = 5.0
"""Rewards that are predicted of a class, at least: of fewer no rate can be told, and classes are joined until then."""
_SURE = 1.96
"""Standard deviations to either end of a 95 % interval."""


def learned(ledger: Ledger, variants: list[str], policies: Mapping[str, str]) -> list[dict[str, Any]]:
    """What models and priors of these variants have learned of features; those to whom they tell nothing are left out.

    ``policies`` are those of the variants that rank.
    """
    found = []
    for name in variants:
        model, prior = ledger.models.of.get(name), ledger.priors.get((name, ""))
        if model is not None:
            found.append(_one(name, model))
        elif prior is not None and prior[1]["prior"].get("effects") is not None:
            found.append(_of_prior(name, policies.get(name, ""), ledger, Prior.from_state(prior[1]["prior"])))
    return found


def _of_prior(name: str, policy: str, ledger: Ledger, prior: Prior) -> dict[str, Any]:
    """What features tell a variant's prior; predictions are of items that the weights were fitted without."""
    columns, calibration = (prior.effects.columns, prior.effects.calibration) if prior.effects else ((), ())
    surest = sorted(columns, key=lambda each: -abs(each.weight) / (each.error or 1.0))
    return {
        "variant": name,
        "policy": policy,
        "model": "prior",
        "items": ledger.catalogue.live,
        "impressions": prior.plays,
        "behind": 0,
        "columns": None,
        "effects": [_effect(str(each.name), each.weight, each.error) for each in surest[:EFFECTS]],
        "calibration": [
            {
                "predicted": row.predicted,
                "observed": row.observed,
                "low": max(row.observed - _SURE * row.deviation, 0.0),
                "high": row.observed + _SURE * row.deviation,
                "impressions": row.impressions,
            }
            for row in calibration
        ],
    }


def _effect(name: str, effect: float, error: float) -> dict[str, Any]:
    return {"name": name, "effect": effect, "low": effect - _SURE * error, "high": effect + _SURE * error}


def _one(name: str, model: Modelled) -> dict[str, Any]:
    people, things = model.pool.encoders()
    effects = sorted(model.pool.effects(), key=lambda each: -abs(each.effect) / (each.error or 1.0))
    return {
        "variant": name,
        "policy": model.spec,
        "model": model.model,
        "items": len(model.pool),
        "impressions": float(model.calibration.table[:, 1].sum()),
        "behind": model.behind,
        "columns": {"people": _columns(people), "items": _columns(things)},
        "effects": [_effect(each.name, each.effect, each.error) for each in effects[:EFFECTS]],
        "calibration": _calibration(model),
    }


def _columns(encoder: Encoder) -> dict[str, Any]:
    """How many columns are in use, and what found none."""
    return {"used": len(encoder), "most": encoder.columns, "left_out": list(encoder.left_out)}


def _calibration(model: Modelled) -> list[dict[str, float]]:
    """Predictions and what came of them, by classes of predictions, the smallest first."""
    rows = [(m, n, min(s, n)) for m, n, s in joined(model.calibration.table.tolist())]
    ends = intervals([(n, s) for _, n, s in rows])
    return [
        {"predicted": m / n, "observed": s / n, "low": low, "high": high, "impressions": n}
        for (m, n, s), (low, high) in zip(rows, ends, strict=True)
    ]


def joined(table: list[list[float]]) -> list[list[float]]:
    """Classes of (sum of predictions, impressions, rewards), of which small ones are one with the next.

    What is left over at the end goes to the class before; nothing is listed where there are few impressions in all.
    """
    rows: list[list[float]] = []
    rest = [0.0, 0.0, 0.0]
    for each in table:
        rest = [a + b for a, b in zip(rest, each, strict=True)]
        if rest[0] >= _EXPECTED and rest[1] >= FEW:
            rows.append(rest)
            rest = [0.0, 0.0, 0.0]
    if rows:
        rows[-1] = [a + b for a, b in zip(rows[-1], rest, strict=True)]
    elif rest[1] >= FEW:
        rows.append(rest)
    return rows
