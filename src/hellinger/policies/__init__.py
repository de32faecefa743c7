"""Policies: a ball and a level, and the few that are neither.

>>> from hellinger import policies
>>> rule = policies.policy("hellinger-ucb", family="bernoulli", c=0.3)
>>> rule.index(sums=[0, 1, 30], pulls=[0, 1, 100], t=1000).round(4).tolist()
[1.0, 1.0, 0.4...]
"""

from __future__ import annotations

from hellinger.policies._policy import Policy, PolicyLike, policy
from hellinger.policies._registry import Entry, available, named
from hellinger.policies._rule import Rule
from hellinger.policies.balls import Ball
from hellinger.policies.levels import Level, level
from hellinger.policies.prior import Path, Prior, fit_prior, next_fit, tag_path

__all__ = [
    "Ball",
    "Entry",
    "Level",
    "Path",
    "Policy",
    "PolicyLike",
    "Prior",
    "Rule",
    "available",
    "fit_prior",
    "level",
    "named",
    "next_fit",
    "policy",
    "tag_path",
]
