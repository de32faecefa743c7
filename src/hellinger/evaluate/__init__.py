"""What would another policy have earned? Answers from a log, with how far they can be trusted."""

from __future__ import annotations

from hellinger.evaluate.bounds import Bets
from hellinger.evaluate.contextual import play_contexts
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
from hellinger.evaluate.forecast import Exploration, NearTies, forecast, near_ties
from hellinger.evaluate.learning import Replayed, play_log
from hellinger.evaluate.logs import LogFile
from hellinger.evaluate.positions import examination, position_based
from hellinger.evaluate.selfcheck import SelfCheck
from hellinger.evaluate.study import FixedAnswer, Study, evaluate_log

__all__ = [
    "ESTIMATORS",
    "Bets",
    "Estimate",
    "Evaluator",
    "Exploration",
    "FixedAnswer",
    "LogFile",
    "NearTies",
    "Replayed",
    "SelfCheck",
    "Study",
    "balanced",
    "clipped_ips",
    "disagreement",
    "dm",
    "dr",
    "dr_os",
    "evaluate_log",
    "examination",
    "forecast",
    "ips",
    "near_ties",
    "play_contexts",
    "play_log",
    "position_based",
    "snips",
    "switch_dr",
]
