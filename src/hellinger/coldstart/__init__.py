"""The cold-start experiment: pools of new contents, every policy on the same ones, and a report."""

from __future__ import annotations

from hellinger.coldstart.experiment import Comparison, Plan, Result, compare, run

__all__ = ["Comparison", "Plan", "Result", "compare", "run"]
