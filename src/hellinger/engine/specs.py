"""What a variant may rank by: a policy, or an order that needs no counts, for a holdout."""

from __future__ import annotations

from typing import Literal

from hellinger._spec import format_spec, parse_spec
from hellinger.errors import require
from hellinger.ledger.modelled import split_model
from hellinger.policies import Policy, policy
from hellinger.pool.rankable import check_rankable

__all__ = ["ORDERS", "canonical", "draws", "policy_of"]

ORDERS: dict[str, Literal["random", "oldest"]] = {"uniform": "random", "fixed": "oldest"}
"""Specs that do not look at counts, and the order in which they show items: at random, or as they were added."""


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


def draws(spec: str) -> bool:
    """Whether a ranking by it is drawn at random."""
    found = policy_of(spec)
    return ORDERS[spec] == "random" if found is None else found.rule.random
