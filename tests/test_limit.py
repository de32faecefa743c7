"""The limit of counts: no adaptive policy exceeds it, and it is what the recursion says."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from hellinger import theory
from hellinger.lab import coldstart
from hellinger.world.site import Site


@pytest.mark.parametrize(
    ("per_item", "clicks"), [(10, 3008.211505), (30, 11156.526647), (100, 45199.489389)], ids=["10", "30", "100"]
)
def test_the_cold_start_setting(per_item: int, clicks: float) -> None:
    got = theory.limit(a=1.6, b=100, items=10_000, impressions=10_000 * per_item, most=50 * per_item)
    assert got == pytest.approx(clicks, rel=2e-9)


def _best(law: list[tuple[float, float]], items: int, turns: int) -> float:
    """What the best adaptive policy expects that shows one item a turn and knows the law."""

    @cache
    def value(state: tuple[tuple[int, int], ...], left: int) -> float:
        if left == 0:
            return 0.0
        out = 0.0
        for i, (s, n) in enumerate(state):
            p = _mean(law, s, n)
            after = [tuple(sorted((*state[:i], (s + won, n + 1), *state[i + 1 :]))) for won in (0, 1)]
            out = max(out, p * (1.0 + value(after[1], left - 1)) + (1.0 - p) * value(after[0], left - 1))
        return out

    return value(((0, 0),) * items, turns)


def _mean(law: list[tuple[float, float]], s: int, n: int) -> float:
    weights = [w * r**s * (1 - r) ** (n - s) for r, w in law]
    return sum(r * w for (r, _), w in zip(law, weights, strict=True)) / sum(weights)


@pytest.mark.parametrize("items", [1, 2, 3])
@pytest.mark.parametrize("rates", [(0.1, 0.6), (0.3, 0.4), (0.02, 0.5, 0.9)])
def test_no_policy_exceeds_it(items: int, rates: tuple[float, ...]) -> None:
    law = [(rate, 1.0 / len(rates)) for rate in rates]
    best = _best(law, items, 7)
    bound = theory.limit(rates=rates, items=items, impressions=7, most=7)
    assert best <= bound * (1 + 1e-9)
    assert bound <= 1.25 * best
    if items == 1:  # nothing to choose: all impressions are its own
        assert bound == pytest.approx(7 * sum(rates) / len(rates), rel=1e-8)


def test_rates_in_place_of_a_beta_law() -> None:
    """Beta(2, 20) as many rates, their weights its density: the same limit."""
    grid = (np.arange(400) + 0.5) / 400
    weights = grid * (1 - grid) ** 19
    options = {"items": 50, "impressions": 1500, "most": 60}
    assert theory.limit(rates=grid, weights=weights, **options) == pytest.approx(
        theory.limit(a=2, b=20, **options),
        rel=1e-4,
    )


@pytest.mark.parametrize("law", [{"a": 1.6, "b": 100.0}, {"rates": [0.01, 0.02, 0.08], "weights": [6, 3, 1]}])
def test_to_know_a_rate_early_can_only_help(law: dict[str, object]) -> None:
    early = [
        theory.limit(items=1000, impressions=50_000, most=1000, known_after=after, **law)  # type: ignore[arg-type]
        for after in (0, 50, 200, 1000)
    ]
    exact = theory.limit(items=1000, impressions=50_000, most=1000, **law)  # type: ignore[arg-type]
    assert early == sorted(early, reverse=True)
    assert early[-1] == exact < early[0]


def test_enough_impressions_for_everything() -> None:
    assert theory.limit(a=1, b=9, items=[3, 2], impressions=100, most=[10, 35]) == pytest.approx(10.0)
    assert theory.limit(a=1, b=9, items=10, impressions=0, most=10) == 0.0


def test_a_limit_is_a_plain_number() -> None:
    one, half = np.float64(1.0), np.float64(0.5)
    for impressions in (0, 5, 100, np.float64(5)):
        assert type(theory.limit(a=one, b=one, items=3, impressions=impressions, most=[4])) is float
        assert type(theory.limit(rates=[half], items=[3], impressions=impressions, most=4)) is float


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"a": 0.0, "b": 1.0}, "a=0.0"),
        ({}, "a=None"),
        ({"a": 1.0, "b": 1.0, "rates": [0.5]}, "not both"),
        ({"rates": [1.5]}, "0 <= rates <= 1"),
        ({"rates": [0.5], "weights": [0.0]}, "0 < weights"),
        ({"a": 1.0, "b": 1.0, "most": 0.5}, "most=0.5"),
        ({"a": 1.0, "b": 1.0, "impressions": -1}, "impressions=-1"),
        ({"a": 1.0, "b": 1.0, "items": np.inf}, "0 <= items, finite.*inf"),
        ({"a": 1.0, "b": 1.0, "items": [1, 2], "most": [1, 2, 3]}, r"one for each group.*items=\(2,\), most=\(3,\)"),
    ],
)
def test_what_makes_no_sense(options: dict[str, object], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        theory.limit(**{"items": 10, "impressions": 100, "most": 10} | options)  # type: ignore[arg-type]


def test_the_experiments_sites() -> None:
    """Items that come and go: less can be earned from each; an item lives as long as the site says."""
    stays = Site(1000, 20)
    renewed = stays._replace(arrivals=100, day=100 * 20)
    kept, lost = (coldstart.limit_of("beta", site, 20) for site in (stays, renewed))
    assert lost < kept
    lives = [*range(1, 11), *range(1, 10)]
    direct = theory.limit(a=1.6, b=100, items=100, impressions=20_000, most=[100 * life for life in lives])
    assert lost == pytest.approx(direct, rel=1e-9)
