"""Experiments in which nothing is to be found, looked at a thousand times, hardly ever say that something was."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import peeking
from peeking import Path

RUNS, REQUESTS = 60, 2000
Draw = Callable[[np.random.Generator], Path]
LAWS: dict[str, Draw] = {
    "steady": lambda rng: peeking.steady(rng, RUNS, REQUESTS, 0.05),
    "clumped": lambda rng: peeking.clumped(rng, RUNS, REQUESTS, 0.05, 0.25),
    "learning": lambda rng: peeking.learning(rng, RUNS, REQUESTS),
}


@pytest.mark.parametrize(
    ("law", "by_request"),
    [("steady", False), ("steady", True), ("clumped", True), ("learning", False), ("learning", True)],
)
def test_intervals_hold_at_every_peek(law: str, by_request: bool) -> None:
    rng = np.random.default_rng(1)
    one, other = LAWS[law](rng), LAWS[law](rng)
    assert peeking.missed_rates(one, by_request=by_request) <= 0.05
    assert peeking.missed_lifts(one, other, by_request=by_request) <= 0.05


def test_clicks_that_lie_together_need_the_request_for_their_unit() -> None:
    # what the docs warn of: users five times as uneven as chance, analysed as if every impression were another user
    assert peeking.missed_rates(LAWS["clumped"](np.random.default_rng(1)), by_request=False) > 0.5


def test_the_paths_tell_an_interval_that_is_too_narrow() -> None:
    path = LAWS["steady"](np.random.default_rng(1))
    n = path.requests * peeking.SLOTS
    spread = np.sqrt(path.reward * (1.0 - path.reward / n) + 1e-9)
    assert (np.abs(path.reward - path.means) > 1.96 * spread).any(axis=1).mean() > 0.4


@pytest.mark.parametrize("weights", [{"a": 1.0, "b": 1.0, "c": 1.0}, {"a": 3.0, "b": 1.0}], ids=["even", "uneven"])
def test_a_right_split_is_not_called_off(weights: dict[str, float]) -> None:
    rang, repeated = peeking.split_alarms(np.random.default_rng(3), 1000, 100_000, weights)
    assert rang <= 0.001
    assert repeated > 0.01
