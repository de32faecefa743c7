"""The laboratory: policies against each other on any problem, the same numbers every time."""

from __future__ import annotations

from hellinger.lab._simulate import simulate
from hellinger.lab.problem import PAPER_BERNOULLI, PAPER_POISSON, Problem, parse_means
from hellinger.lab.recorded import read_table, replay_table
from hellinger.lab.result import Result

__all__ = [
    "PAPER_BERNOULLI",
    "PAPER_POISSON",
    "Problem",
    "Result",
    "parse_means",
    "read_table",
    "replay_table",
    "simulate",
]
