"""Bounds on rates and lifts: what they are by definition, and what they must be like."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp

from hellinger.experiment import Pages, Totals, lift_bounds, order_evidence, rate_bounds

TILTS = [4.0 * math.exp(-0.35 * k) for k in range(38)]
LEVEL = math.log(2 / 0.05)
few = settings(max_examples=40, deadline=None)


def counted(rewards: list[float], slots: int) -> Totals:
    """Requests of equal pages, one by one."""
    pages = Pages(len(rewards), sum(y * y for y in rewards), slots, max(rewards))
    return Totals("x", len(rewards), slots * len(rewards), sum(rewards), pages)


def plain(impressions: int, reward: float) -> Totals:
    return Totals("x", impressions, impressions, reward)


def rates(totals: Totals, alpha: float = 0.05) -> tuple[float, float]:
    low, high = rate_bounds([totals], alpha=alpha)
    return float(low[0]), float(high[0])


def lifts(one: Totals, other: Totals, alpha: float = 0.05) -> tuple[float, float]:
    low, high = lift_bounds([one], [other], alpha=alpha)
    return float(low[0]), float(high[0])


# By definition ---------------------------------------------------------------------------------------


def log_wealth(rewards: list[float], slots: int, rate: float, sign: int) -> float:
    """The mixture of bets, multiplied out request by request in 30 digits, all means being the same."""
    with mp.workdps(30):
        total = mpf(0)
        for tilt in TILTS:
            bet = sign * mp.expm1(sign * mpf(tilt))
            if sign > 0 or bet * slots < 1:
                factors = {y: (1 + sign * bet * y) / (1 + sign * bet * rate * slots) for y in set(rewards)}
                total += mp.fprod(factors[y] for y in rewards)
        return float(mp.log(total / len(TILTS)))


# rewards of two values only, one of them 0 for the lower end, the most for the upper: totals tell all of these
@pytest.mark.parametrize(
    ("rewards", "slots"),
    [
        ([0.0] * 30 + [1.0] * 4, 1),
        ([0.0] * 40 + [1.0] * 15, 1),
        ([0.0] * 60 + [3.0] * 12, 5),
        ([0.0] * 200 + [1.0] * 30, 4),
        ([0.0] * 90 + [0.5] * 40, 1),
    ],
)
def test_rates_are_what_the_bets_say(rewards: list[float], slots: int) -> None:
    low, high = rates(counted(rewards, slots))
    assert 0.0 < low < high < 1.0
    assert log_wealth(rewards, slots, low, +1) == pytest.approx(LEVEL, abs=1e-6)
    assert log_wealth(rewards, slots, high, -1) == pytest.approx(LEVEL, abs=1e-6)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (plain(2000, 120), plain(2000, 90)),
        (plain(300, 40), plain(2500, 200)),
        (plain(200_000, 11_000), plain(190_000, 9_000)),
        (plain(500, 0), plain(900, 80)),
    ],
    ids=["even", "uneven", "many", "none"],
)
def test_lifts_are_what_pairs_of_bets_say(one: Totals, other: Totals) -> None:
    tilts = np.array(TILTS)
    weights = 1.0 / (1.0 + (2.0 * np.log(tilts[:, None] / tilts)) ** 2)
    weights /= weights.sum()

    def bets(totals: Totals, rate: float, sign: int) -> npt.NDArray[np.float64]:
        log_odds = np.log1p(rate * np.expm1(sign * tilts))
        return np.asarray(sign * tilts * totals.reward - totals.impressions * log_odds)

    def least(down: Totals, up: Totals, ratio: float) -> float:
        top = min(1.0, 1.0 / ratio)
        found = minimize_scalar(
            lambda rate: float(logsumexp(bets(down, ratio * rate, -1)[:, None] + bets(up, rate, +1), b=weights)),
            bounds=(min(0.1 * up.rate, 0.5 * top), top),
            method="bounded",
            options={"xatol": 1e-9},
        )
        return float(found.fun)

    low, high = lifts(one, other)
    assert least(one, other, 1.0 + high) == pytest.approx(LEVEL, abs=1e-4)
    assert low == -1.0 if one.reward == 0 else least(other, one, 1.0 / (1.0 + low)) == pytest.approx(LEVEL, abs=1e-4)
    assert order_evidence([one], [other])[0] == pytest.approx(least(other, one, 1.0), abs=1e-4)


# Exactly, over all that can happen -------------------------------------------------------------------


def futures(depth: int) -> Iterator[tuple[float, list[float], list[float]]]:
    """Every history of requests of two slots, with its probability and its means; all depend on what was before.

    Slots of a request are clicked together or not at all half of the time, and graded when the last request failed.
    """
    for outcomes in itertools.product(range(4), repeat=depth):
        chance, rewards, means = 1.0, [0.0], []
        for outcome in outcomes:
            rate = 0.1 + 0.15 * min(sum(rewards), 4.0)
            values = (0.0, 1.0, 2.0, 0.3 if rewards[-1] == 0.0 else 2.0)
            chances = (1.0 - rate, 0.2 * rate, 0.5 * rate, 0.3 * rate)
            means.append(sum(v * c for v, c in zip(values, chances, strict=True)))
            chance *= chances[outcome]
            rewards.append(values[outcome])
        yield chance, rewards[1:], means


@pytest.mark.parametrize("alpha", [0.05, 0.4, 0.8])
def test_ever_missing_is_rare_over_all_histories(alpha: float) -> None:
    histories, depth = list(futures(5)), 5
    ever = np.zeros(len(histories), dtype=bool)
    for n in range(1, depth + 1):
        low, high = rate_bounds([counted(rewards[:n], 2) for _, rewards, _ in histories], alpha=alpha)
        rate = np.array([sum(means[:n]) / (2 * n) for _, _, means in histories])
        ever |= (rate < low) | (high < rate)
    missed = sum(chance for (chance, _, _), out in zip(histories, ever, strict=True) if out)
    assert sum(chance for chance, _, _ in histories) == pytest.approx(1.0)
    assert missed <= alpha
    assert missed > 0.0 or alpha < 0.5


# What they must be like ------------------------------------------------------------------------------


@st.composite
def counts(draw: st.DrawFn, most: int = 10**8) -> Totals:
    impressions = draw(st.integers(1, most))
    return plain(impressions, draw(st.integers(0, impressions) | st.floats(0.0, impressions)))


@st.composite
def paged(draw: st.DrawFn) -> Totals:
    slots = draw(st.integers(1, 30))
    rewards = draw(st.lists(st.floats(0.0, slots) | st.integers(0, slots).map(float), min_size=1, max_size=60))
    times = draw(st.sampled_from([1, 1, 50, 10_000]))
    one = counted(rewards, slots)
    assert one.pages is not None
    pages = one.pages._replace(units=one.pages.units * times, squares=one.pages.squares * times)
    return Totals("x", one.requests * times, one.impressions * times, one.reward * times, pages)


@few
@given(counts() | paged())
def test_the_rate_is_within(totals: Totals) -> None:
    low, high = rates(totals)
    slack = 1e-9 * totals.rate
    assert 0.0 <= low <= totals.rate + slack
    assert totals.rate - slack <= high <= 1.0
    assert totals.reward > 0 or low == 0.0


@few
@given(counts() | paged())
def test_more_of_the_same_narrows(totals: Totals) -> None:
    pages = totals.pages and totals.pages._replace(units=3 * totals.pages.units, squares=3 * totals.pages.squares)
    more = Totals("x", 3 * totals.requests, 3 * totals.impressions, 3 * totals.reward, pages)
    (low, high), (closer, lower) = rates(totals), rates(more)
    assert low - 1e-9 <= closer
    assert lower <= high + 1e-9


@few
@given(counts(10**6), st.integers(1, 1000))
def test_more_reward_raises_both_ends(totals: Totals, more: int) -> None:
    richer = plain(totals.impressions, min(totals.reward + more, totals.impressions))
    (low, high), (raised, up) = rates(totals), rates(richer)
    assert low <= raised + 1e-9
    assert high <= up + 1e-9


@few
@given(counts())
def test_failures_are_successes_the_other_way_round(totals: Totals) -> None:
    low, high = rates(plain(totals.impressions, totals.impressions - totals.reward))
    assert rates(totals) == pytest.approx((1.0 - high, 1.0 - low), abs=1e-7)


@few
@given(counts() | paged())
def test_more_certainty_is_wider(totals: Totals) -> None:
    (low, high), (lower, higher) = rates(totals, 0.05), rates(totals, 0.001)
    assert lower <= low + 1e-12
    assert high <= higher + 1e-12


def test_rewards_that_lie_together_tell_less() -> None:
    widths = []
    for squares in (20_000.0, 30_000.0, 60_000.0, 150_000.0):
        low, high = rates(Totals("x", 10_000, 200_000, 10_000, Pages(10_000, squares, 20)))
        widths.append(high - low)
    assert widths == sorted(widths)
    assert widths[-1] > 2.5 * widths[0]


def test_pages_of_one_are_impressions() -> None:
    alone = Totals("x", 500, 500, 60, Pages(500, 60.0, 1))
    assert rates(alone) == pytest.approx(rates(plain(500, 60)), rel=1e-12)
    assert lifts(alone, alone) == pytest.approx(lifts(plain(500, 60), plain(500, 60)), rel=1e-9)


def test_independent_slots_cost_little_to_analyse_by_request() -> None:
    n, p, slots = 10**7, 0.05, 20
    requests = n // slots
    squares = requests * (slots * p * (1 - p) + (slots * p) ** 2)
    low, high = rates(Totals("x", requests, n, n * p, Pages(requests, squares, slots, 8)))
    narrow, up = rates(plain(n, n * p))
    assert (high - low) / (up - narrow) < 1.02


@few
@given(counts() | paged(), counts() | paged())
def test_lifts(one: Totals, other: Totals) -> None:
    low, high = lifts(one, other)
    inverse = lifts(other, one)
    assert -1.0 <= low <= high
    if other.reward:
        lift = one.rate / other.rate - 1.0
        assert low <= lift + 1e-6 * (1.0 + lift)
        assert lift <= high + 1e-6 * (1.0 + lift)
    assert inverse[1] == pytest.approx(1.0 / (1.0 + low) - 1.0 if low > -1.0 else math.inf, rel=1e-9)
    evidence = order_evidence([one], [other])[0]
    if abs(low) > 1e-5:
        assert (low > 0.0) == (evidence > LEVEL)


def test_a_lift_is_narrower_than_two_rates_apart() -> None:
    one, other = plain(200_000, 12_000), plain(200_000, 10_000)
    low, high = lifts(one, other)
    (l1, h1), (l2, h2) = rates(one, 0.025), rates(other, 0.025)
    assert 1.3 * (high - low) < h1 / l2 - l1 / h2


def test_edges() -> None:
    nothing, none, all_of_them = plain(0, 0), plain(1000, 0), plain(1000, 1000)
    assert rates(nothing) == (0.0, 1.0)
    assert rates(none)[0] == 0.0
    assert 0.0 < rates(none)[1] < 0.01
    assert rates(all_of_them)[1] == 1.0
    assert 0.99 < rates(all_of_them)[0] < 1.0
    for one, other in itertools.product((nothing, none), repeat=2):
        assert lifts(one, other) == (-1.0, math.inf)
    assert lifts(all_of_them, nothing) == lifts(nothing, all_of_them) == (-1.0, math.inf)
    low, high = lifts(all_of_them, none)
    assert low > 90.0
    assert high == math.inf
    assert lifts(none, all_of_them)[0] == -1.0
    assert lifts(none, all_of_them)[1] < -0.99


def test_nothing_at_all() -> None:
    assert [ends.shape for ends in (*rate_bounds([]), *lift_bounds([], []), order_evidence([], []))] == [(0,)] * 5


def test_many_at_once_are_as_each_alone() -> None:
    several = [plain(0, 0), plain(20, 20), plain(10**8, 10**6), plain(5, 0), counted([3.0, 0.0, 1.0] * 100, 4)]
    low, high = rate_bounds(several)
    up, down = lift_bounds(several, several[::-1])
    for place, (one, other) in enumerate(zip(several, several[::-1], strict=True)):
        assert (low[place], high[place]) == pytest.approx(rates(one), rel=1e-6)
        assert (up[place], down[place]) == pytest.approx(lifts(one, other), rel=1e-6)


@pytest.mark.parametrize(
    ("totals", "words"),
    [
        (plain(10, 11), "0 <= reward <= impressions"),
        (Totals("x", 0, -1, 0), "0 <= impressions"),
        (Totals("x", -1, 0, 0), "0 <= requests"),
        (Totals("x", 10, 200, 9, Pages(10, 500.0, 20)), "squares <= most"),
        (Totals("x", 10, 200, 100, Pages(10, 500.0, 20)), "reward²/units <= squares"),
        (Totals("x", 10, 200, 9, Pages(10, 20.0, 19)), "impressions <= units"),
        (Totals("x", 10, 200, 9, Pages(10, 20.0, 20, 21)), "0 <= most <= largest"),
        (Totals("x", 10, 200, 9, Pages(0, 20.0, 20)), "0 < units"),
        (Totals("x", 10, 200, 9, users=-1), "0 <= users"),
    ],
)
def test_what_cannot_have_been_counted(totals: Totals, words: str) -> None:
    with pytest.raises(ValueError, match=words.replace("*", r"\*")):
        rate_bounds([totals])


def test_what_is_no_level() -> None:
    with pytest.raises(ValueError, match="0 < alpha < 1"):
        rate_bounds([plain(1, 1)], alpha=1.0)
    with pytest.raises(ValueError, match="as many controls"):
        lift_bounds([plain(1, 1)], [])


def test_no_bound_is_minus_zero() -> None:
    low, _ = rate_bounds([Totals("a", 1, 3, 1.0), Totals("b", 1, 3, 0.0)])
    assert not np.signbit(low).any()
