"""The limit of counts: no adaptive policy exceeds it, and it is what the recursion says."""

from __future__ import annotations

import itertools
from functools import cache

import numpy as np
import pytest

from hellinger import theory
from hellinger.lab import coldstart
from hellinger.theory.days import _Days
from hellinger.theory.laws import laws_of
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
    stays = Site(300, 20)
    renewed = stays._replace(arrivals=30, day=30 * 20)
    kept, lost = (coldstart.limit_of("beta", site, 20) for site in (stays, renewed))
    assert lost < kept
    lives = [*range(1, 11), *range(1, 10)]
    merged = theory.limit(a=1.6, b=100, items=30, impressions=6_000, most=[30 * life for life in lives])
    first, last = [0] * 10 + [*range(1, 10)], [*range(10)] + [9] * 9
    days = {"items": [30] * 19, "first": first, "last": last, "impressions": [600] * 10, "most": 30}
    direct = theory.limit_by_day(a=1.6, b=100, known_after=300, known_rewards=144, **days)  # type: ignore[arg-type]
    assert lost == pytest.approx(direct, rel=1e-4)
    assert lost < 0.97 * merged


def test_days_that_do_not_begin_with_a_turn() -> None:
    """A day is over at the first turn after its impressions; the last turn may go beyond the last day."""
    site = Site(30, 4, arrivals=7, day=7 * 3)
    lost, kept = (coldstart.limit_of("beta", each, 3) for each in (site, Site(30, 4)))
    assert 23 * 4 * 1.6 / 101.6 < lost < kept


# Days -------------------------------------------------------------------------------------------------

DAYS = {"items": [50, 50, 50], "first": [0, 0, 1], "last": [0, 1, 1]}


def test_one_day_is_the_limit_without_days() -> None:
    one = theory.limit_by_day(a=1.6, b=100, items=[300, 200], first=0, last=0, impressions=[5_000], most=80)
    assert one == pytest.approx(theory.limit(a=1.6, b=100, items=500, impressions=5_000, most=80), rel=1e-6)
    law = {"rates": [0.01, 0.02, 0.08], "weights": [6, 3, 1]}
    one = theory.limit_by_day(items=[500], first=0, last=0, impressions=[5_000], most=80, **law)  # type: ignore[arg-type]
    assert one == pytest.approx(
        theory.limit(items=500, impressions=5_000, most=80, **law),  # type: ignore[arg-type]
        rel=1e-6,
    )


def _best_by_day(law: list[tuple[float, float]], lives: list[tuple[int, int]], turns: int) -> float:
    """What the best adaptive policy expects that shows one of the items there at each turn of each day."""
    days = 1 + max(last for _, last in lives)

    @cache
    def value(state: tuple[tuple[int, int], ...], t: int) -> float:
        if t == days * turns:
            return 0.0
        out = 0.0
        for i, (s, n) in enumerate(state):
            if lives[i][0] <= t // turns <= lives[i][1]:
                p = _mean(law, s, n)
                after = [(*state[:i], (s + won, n + 1), *state[i + 1 :]) for won in (0, 1)]
                out = max(out, p * (1.0 + value(after[1], t + 1)) + (1.0 - p) * value(after[0], t + 1))
        return out

    return value(((0, 0),) * len(lives), 0)


@pytest.mark.parametrize("rates", [(0.1, 0.6), (0.3, 0.4), (0.02, 0.5, 0.9)])
@pytest.mark.parametrize("lives", [[(0, 0), (0, 1), (1, 1)], [(0, 1), (1, 2), (2, 2)]])
def test_no_policy_exceeds_the_limit_by_day(rates: tuple[float, ...], lives: list[tuple[int, int]]) -> None:
    law, turns = [(rate, 1.0 / len(rates)) for rate in rates], 3
    days = 1 + max(last for _, last in lives)
    best = _best_by_day(law, lives, turns)
    first, last = zip(*lives, strict=True)
    bound = theory.limit_by_day(
        rates=rates, items=[1] * 3, first=first, last=last, impressions=[turns] * days, most=turns
    )
    merged = theory.limit(
        rates=rates, items=[1] * 3, impressions=turns * days, most=[turns * (b - a + 1) for a, b in lives]
    )
    assert best <= bound * (1 + 1e-9)
    assert bound <= 1.25 * best
    assert bound <= merged * (1 + 1e-6)


def test_value_and_slope_at_given_prices() -> None:
    """The compiled recursion is the one of the module's heading, and its slope is that of its values."""
    a, b, turns, prices = 2.0, 18.0, [3, 2, 4], np.array([0.12, 0.05, 0.14])
    day_of = np.repeat([0, 1, 2], turns)

    @cache
    def worth(t: int, s: int, n: int, end: int) -> float:
        if t == end:
            return 0.0
        p = (a + s) / (a + b + n)
        shown = p - prices[day_of[t]] + p * worth(t + 1, s + 1, n + 1, end) + (1 - p) * worth(t + 1, s, n + 1, end)
        return float(max(worth(t + 1, s, n, end), shown))

    begins = np.concatenate([[0], np.cumsum(turns)])
    groups = [(5.0, 0, 0), (7.0, 0, 2), (4.0, 1, 2), (2.0, 2, 2), (3.0, 1, 1)]
    expected = prices @ [20.0, 10.0, 30.0]
    expected += sum(k * worth(int(begins[i]), 0, 0, int(begins[j + 1])) for k, i, j in groups)
    days = _Days(laws_of(a, b, None, None)[0], np.array([20.0, 10.0, 30.0]), np.array(turns), 400, 40)
    count, comes, goes = (np.array(each) for each in zip(*groups, strict=True))
    value, slope = days.at(prices, count, comes, goes)
    assert value == pytest.approx(expected, rel=1e-12)
    for day in range(3):
        step = np.zeros(3)
        step[day] = 1e-6
        up, down = (days.at(prices + sign * step, count, comes, goes)[0] for sign in (1, -1))
        assert slope[day] == pytest.approx((up - down) / 2e-6, rel=1e-5)


def test_to_know_a_rate_early_can_only_raise_the_limit_by_day() -> None:
    early = [
        theory.limit_by_day(a=1.6, b=100, **DAYS, impressions=[1000, 1000], most=50, known_after=n, known_rewards=s)
        for n, s in ((3, 1), (20, 2), (100, 4), (100, 100))
    ]
    assert all(one > other for one, other in itertools.pairwise(early[:3]))
    assert early[3] == pytest.approx(early[2], rel=1e-2)
    assert early[3] <= early[2]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"impressions": []}, "one day at least"),
        ({"impressions": [10, -1]}, "0 <= impressions"),
        ({"most": 0.5}, "most=0.5"),
        ({"items": [-1, 1, 1]}, "0 <= items"),
        ({"last": [0, 2, 1]}, "last < days"),
        ({"first": [1, 0, 1]}, "first <= last"),
        ({"a": [1.0, 2.0]}, "one law"),
        ({"known_after": 0}, "known_after=0"),
    ],
)
def test_what_makes_no_sense_by_day(options: dict[str, object], says: str) -> None:
    everything = {**DAYS, "impressions": [10, 10], "most": 5, "a": 1.0, "b": 9.0} | options
    with pytest.raises(ValueError, match=says):
        theory.limit_by_day(**everything)  # type: ignore[arg-type]


def test_a_day_without_impressions() -> None:
    assert theory.limit_by_day(a=1, b=9, items=[5], first=0, last=1, impressions=[0, 0], most=5) == 0.0
    only = theory.limit_by_day(a=1, b=9, items=[5], first=0, last=1, impressions=[0, 20], most=5)
    assert only == pytest.approx(theory.limit(a=1, b=9, items=5, impressions=20, most=5), rel=1e-5)
