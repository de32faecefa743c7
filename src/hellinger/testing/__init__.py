"""Conformance suites: what every family, filter, model, policy and store must do, to run on your own as well.

>>> from hellinger import families, policy
>>> from hellinger.testing import check_family, check_policy
>>> check_family(families.Poisson())
>>> check_policy(policy("hellinger-ucb", family="poisson"))
"""

from __future__ import annotations

from hellinger.testing.families import check_family, family_checks
from hellinger.testing.filters import check_filter, filter_checks
from hellinger.testing.models import check_model, model_checks
from hellinger.testing.policies import check_policy, policy_checks

__all__ = [
    "check_family",
    "check_filter",
    "check_model",
    "check_policy",
    "family_checks",
    "filter_checks",
    "model_checks",
    "policy_checks",
]
