"""Read as they are, experiments are hardly ever wrong at any look; read as if they were simple, most of them are.

``benchmarks/false_alarms.py`` plays a thousand runs of the same.
"""

from __future__ import annotations

from functools import cache

import pytest

from situations import SITUATIONS, Result, play

RUNS = 30


@cache
def played(name: str) -> list[Result]:
    return play(SITUATIONS[name], RUNS, seed=7)


@pytest.mark.parametrize("name", SITUATIONS)
def test_what_is_read_as_it_is_is_hardly_ever_wrong(name: str) -> None:
    result = played(name)[-1]
    assert max(result.verdicts, result.lifts, result.rates) <= 2 / RUNS


@pytest.mark.parametrize("name", ["delayed", "ramp", "sticky30"])
def test_what_is_read_as_if_it_were_simple_is_often_wrong(name: str) -> None:
    result = played(name)[0]
    assert min(result.verdicts, result.lifts) > 0.25


@pytest.mark.parametrize("name", ["immediate", "clumped", "delayed", "ramp", "sticky10"])
def test_a_better_variant_is_found_all_the_same(name: str) -> None:
    assert played(name)[-1].decided > 0.5
