"""The laboratory: policies against each other on any problem, the same numbers every time."""

from __future__ import annotations

from hellinger.lab._simulate import simulate
from hellinger.lab.changing import Changing, changing
from hellinger.lab.datasets import load_problem
from hellinger.lab.identification import Identified, identify
from hellinger.lab.problem import PAPER_BERNOULLI, PAPER_POISSON, Problem, parse_means
from hellinger.lab.recorded import read_table, replay_table
from hellinger.lab.result import Result
from hellinger.world.contextual import ContextualProblem

__all__ = [
    "PAPER_BERNOULLI",
    "PAPER_POISSON",
    "Changing",
    "ContextualProblem",
    "Identified",
    "Problem",
    "Result",
    "changing",
    "identify",
    "load_problem",
    "parse_means",
    "read_table",
    "replay_table",
    "simulate",
]
