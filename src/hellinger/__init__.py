"""Hellinger-UCB and its rivals: exact confidence bounds for multi-armed bandits.

>>> import hellinger
>>> hellinger.policy("hellinger-ucb").index(sums=[0, 3, 30], pulls=[0, 10, 100], t=111)
array([1.        , 0.77..., 0.45...])
"""

from __future__ import annotations

from importlib.metadata import version

from hellinger import families, policies
from hellinger.bandit import Bandit
from hellinger.errors import HellingerWarning
from hellinger.policies import Policy, policy

__all__ = ["Bandit", "HellingerWarning", "Policy", "__version__", "families", "policies", "policy"]

__version__ = version("hellinger")
