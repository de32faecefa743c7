"""How sure the best items of an experiment are, as the API and the page tell it."""

from __future__ import annotations

from typing import Any

from hellinger.engine.best import BestItems, BestQuestion, BestStanding
from hellinger.engine.desk import Desk
from hellinger.events import now
from hellinger.experiment import display_name
from hellinger.ledger.modelled import has_model
from hellinger.serve import sentences

__all__ = ["best_items"]

_POSITIONS = "An impression counts by how much its position is looked at, and that curve is taken to be right."
_MODEL = (
    "No answer: {names} shows each user what suits them by a model, so that rates of items are not those of the same "
    "users."
)
_SUITED = "Impressions of {names} are left out: its model shows each user what suits them."
_CONFIRMED = "Each impression is taken to be confirmed before it is rewarded, or not at all."
_SAME = "An item's rate is taken to be the same at all times and for all users."
_ALIKE = "An item's rate is taken to be the same at all times, at all positions and for all users."


async def best_items(desk: Desk, finder: BestItems, asked: BestQuestion) -> dict[str, Any]:
    """The best items with what is certain of them, in words too; nothing where counts cannot tell."""
    policies = {variant: spec for phase in desk.ledger.phases for variant, spec in phase["variants"].items()}
    policies |= desk.variants
    suited = [variant for variant in asked.variants if has_model(policies.get(variant, ""))]
    counted = asked._replace(variants=tuple(variant for variant in asked.variants if variant not in suited))
    names = ", ".join(map(display_name, suited))
    if not counted.variants and suited:
        return _answer(asked, sentence=_MODEL.format(names=names))
    lacks = desk.pools.lacks if desk.counted else None
    notes = [_ALIKE if lacks is None else _SAME, *([] if lacks is None else [_POSITIONS])]
    if suited:
        notes.append(_SUITED.format(names=names))
    if not desk.counted:
        notes.append(_CONFIRMED)
    found = await finder.find(counted, now(), lacks=lacks)
    return _answer(counted, found, sentence=sentences.best_items(found, counted), notes=notes)


_NOTHING = BestStanding(items=0, certain=0, contending=0, impressions=0.0, unsettled=0.0, rows=[])


def _answer(
    asked: BestQuestion, found: BestStanding | None = None, *, sentence: str, notes: list[str] | None = None
) -> dict[str, Any]:
    known = found or _NOTHING
    rows = [row._asdict() | {"rate": row.rewards / row.worth if row.impressions else None} for row in known.rows]
    return {
        "state": _state(found, asked.best),
        "sentence": sentence,
        "notes": notes or [],
        "k": asked.best,
        "delta": asked.delta,
        "epsilon": asked.epsilon,
        "variants": list(asked.variants),
        "items": known.items,
        "certain": known.certain,
        "contending": known.contending,
        "impressions": known.impressions,
        "unsettled": known.unsettled,
        "best": rows,
    }


def _state(found: BestStanding | None, wanted: int) -> str:
    if found is None:
        return "refused"
    if found.items <= wanted:
        return "few"
    return "found" if found.certain >= wanted else "open"
