"""What a variant may rank by: a policy, or an order that needs no counts, for a holdout."""

from __future__ import annotations

from typing import Literal

from hellinger import models
from hellinger._spec import format_spec, parse_spec
from hellinger.errors import require
from hellinger.ledger.modelled import split_model
from hellinger.policies import Policy, policy
from hellinger.pool.rankable import check_rankable

__all__ = ["ORDERS", "canonical", "check_new", "draws", "policy_of"]

ORDERS: dict[str, Literal["random", "oldest"]] = {"uniform": "random", "fixed": "oldest"}
"""Specs that do not look at counts, and the order in which they show items: at random, or as they were added."""

MOST_WEIGHTS = 4096
"""Weights that items may share in a variant's model: 134 MB of covariance, some milliseconds for an event."""
MOST_OWN = 16
"""Columns of people where every item has weights of its own: two kilobytes for each that was shown."""


def policy_of(spec: str) -> Policy | None:
    """The policy of a spec, without its model; None where it only orders items."""
    return None if spec in ORDERS else policy(split_model(spec)[0]).ready()


def canonical(spec: str) -> str:
    """The spec in full; raise where it is none."""
    if spec in ORDERS:
        return spec
    found, model = split_model(spec)
    ranks = check_rankable(policy(found))
    require(
        not ranks.rule.by_levels,
        "a variant's policy scores impressions and sums of rewards, which are all that the service counts of an item",
        policy=found,
    )
    if model is None:
        return found
    name, arguments = parse_spec(found)
    return format_spec(name, {**arguments, "model": model})


def check_new(spec: str) -> None:
    """Raise where a variant cannot be added by this spec: it is none, or its model may come to take too much memory.

    What folds the log must not ask for the latter: a replica with more memory would go on where another stops.
    """
    name = split_model(canonical(spec))[1] if spec not in ORDERS else None
    if name is None:
        return
    model = models.get(name)
    rule = f"(1 + columns)·(1 + item_columns) <= {MOST_WEIGHTS} in a variant's model"
    require(model.weights <= MOST_WEIGHTS, rule, weights=model.weights)
    rule = f"columns <= {MOST_OWN} in a variant's model with per_item"
    require(not model.per_item or model.columns <= MOST_OWN, rule, columns=model.columns)


def draws(spec: str) -> bool:
    """Whether a ranking by it is drawn at random."""
    found = policy_of(spec)
    return ORDERS[spec] == "random" if found is None else found.rule.random
