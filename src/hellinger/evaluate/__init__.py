"""What would another policy have earned? Answers from a log, with how far they can be trusted."""

from __future__ import annotations

from hellinger.evaluate.bounds import Bets
from hellinger.evaluate.estimate import Estimate, disagreement
from hellinger.evaluate.evaluator import ESTIMATORS, Evaluator
from hellinger.evaluate.fixed import (
    balanced,
    clipped_ips,
    dm,
    dr,
    dr_os,
    ips,
    snips,
    switch_dr,
)
from hellinger.evaluate.learning import Replayed, play_log
from hellinger.evaluate.positions import examination, position_based

__all__ = [
    "ESTIMATORS",
    "Bets",
    "Estimate",
    "Evaluator",
    "Replayed",
    "balanced",
    "clipped_ips",
    "disagreement",
    "dm",
    "dr",
    "dr_os",
    "examination",
    "ips",
    "play_log",
    "position_based",
    "snips",
    "switch_dr",
]
