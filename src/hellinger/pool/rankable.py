"""Which policies a pool can rank by."""

from __future__ import annotations

from hellinger.errors import require
from hellinger.policies import Policy

__all__ = ["check_rankable"]


def check_rankable(policy: Policy) -> Policy:
    """Return the policy, or say why no pool ranks by it."""
    scores = policy.rule.by_levels or not policy.remembers
    require(scores, "a pool's policy scores counts (its own window or half_life forget)", policy=policy.spec)
    linear = not policy.rule.few
    require(linear, "the time of a pool's policy does not grow with the square of the items", policy=policy.spec)
    return policy
