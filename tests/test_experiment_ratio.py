"""The check of the split: a martingale while the split is right, and soon high when it is not."""

from __future__ import annotations

import itertools
import math
from collections import Counter

import pytest
from mpmath import mp, mpf

from hellinger.experiment import sample_ratio

WEIGHTS = {"a": 1.0, "b": 2.0, "c": 5.0}


def evidence(counts: dict[str, int], weights: dict[str, float]) -> mpf:
    """By the definition, in 40 digits."""
    with mp.workdps(40):
        whole, total = sum(weights.values()), sum(counts.values())
        shares = {name: mpf(weight) / whole for name, weight in weights.items()}
        each = [
            mp.gamma(kappa)
            / mp.gamma(kappa + total)
            * mp.fprod(
                mp.gamma(kappa * p + counts[name]) / mp.gamma(kappa * p) / p ** counts[name]
                for name, p in shares.items()
            )
            for kappa in (100, 1000, 10_000, 100_000)
        ]
        return mp.fsum(each) / 4


@pytest.mark.parametrize("counts", [(10, 20, 50), (30, 20, 30), (0, 0, 9), (900, 1500, 5000), (20_000, 40_400, 98_000)])
def test_the_p_value_is_one_over_the_evidence(counts: tuple[int, int, int]) -> None:
    named = dict(zip(WEIGHTS, counts, strict=True))
    expected = min(1.0, float(1 / evidence(named, WEIGHTS)))
    assert sample_ratio(named, WEIGHTS).p_value == pytest.approx(expected, rel=1e-7)


def test_evidence_is_a_martingale() -> None:
    shares = {name: weight / 8.0 for name, weight in WEIGHTS.items()}
    mean = mpf(0)
    for path in itertools.product(WEIGHTS, repeat=4):
        counts = dict.fromkeys(WEIGHTS, 0) | Counter(path)
        mean += math.prod(shares[name] for name in path) * evidence(counts, WEIGHTS)
    assert float(mean) == pytest.approx(1.0, rel=1e-12)


@pytest.mark.parametrize(("requests", "off"), [(2_000, 0.1), (20_000, 0.03), (2_000_000, 0.003), (200_000_000, 0.0003)])
def test_a_split_that_is_off_is_found(requests: int, off: float) -> None:
    counts = {"a": round(requests * (0.5 - off)), "b": round(requests * (0.5 + off))}
    result = sample_ratio(counts, {"a": 1.0, "b": 1.0})
    assert result.alarm
    assert result.worst == "a"
    assert result.share == pytest.approx(0.5 - off)
    assert result.intended == 0.5


def test_edges() -> None:
    assert sample_ratio({}, {"a": 1.0}).p_value == 1.0
    assert sample_ratio({"a": 7}, {"a": 1.0}).p_value == 1.0
    assert sample_ratio({"a": 0, "b": 0}, {"a": 1.0, "b": 1.0}).p_value == 1.0
    assert sample_ratio({"a": 10**9, "b": 10**9}, {"a": 1.0, "b": 1.0}).p_value == 1.0
    forbidden = sample_ratio({"a": 100, "b": 1}, {"a": 1.0, "b": 0.0})
    assert forbidden.p_value == 0.0
    assert forbidden.alarm
    assert not sample_ratio({"a": 100}, {"a": 1.0, "b": 0.0}).alarm


def test_what_cannot_be_checked() -> None:
    with pytest.raises(ValueError, match="every variant has a weight"):
        sample_ratio({"a": 1}, {"b": 1.0})
    with pytest.raises(ValueError, match="weights >= 0"):
        sample_ratio({"a": 1}, {"a": 0.0})
    with pytest.raises(ValueError, match="0 <= counts"):
        sample_ratio({"a": -1}, {"a": 1.0})
