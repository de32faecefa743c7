"""What is known of regret, the most that can be earned, and the fewest samples that tell the best arms.

>>> from hellinger import theory
>>> paper = [0.01] * 3 + [0.02] * 3 + [0.05] * 3 + [0.1]
>>> theory.lai_robbins(paper)
17.445174131...
>>> theory.consistency_threshold(paper)
0.34701640...
"""

from hellinger.theory.bounds import (
    best_epsilon,
    consistency_threshold,
    dashed_bound,
    hellinger_rates,
    kl_rates,
    lai_robbins,
    pulls_bound,
    regret_bound,
)
from hellinger.theory.days import limit_by_day
from hellinger.theory.empirical import empirical_upper, k_inf
from hellinger.theory.limit import limit
from hellinger.theory.samples import least_samples

__all__ = [
    "best_epsilon",
    "consistency_threshold",
    "dashed_bound",
    "empirical_upper",
    "hellinger_rates",
    "k_inf",
    "kl_rates",
    "lai_robbins",
    "least_samples",
    "limit",
    "limit_by_day",
    "pulls_bound",
    "regret_bound",
]
