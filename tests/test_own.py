"""Rules, functions, balls, levels and rewards that are not the library's own."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import pytest

import hellinger
from hellinger import families, policies
from hellinger._random import stream, word
from hellinger._spec import expand_spec
from hellinger.families import _dispatch as d
from hellinger.lab import _play, simulate
from hellinger.lab._block import Setting, play_drawn
from hellinger.testing import check_policy


class _Family(NamedTuple):
    family: hellinger.Family
    c: float = 1.0


class Worst(_Family, hellinger.Rule):
    """The least mean first: it rises with n and falls with s, and declares nothing."""

    __slots__ = ()

    def _score(self, s: float, n: float, t: float, arms: float) -> float:
        return -self.c * s / n if n > 0.0 else 0.0


class Liar(Worst):
    """The same, declared to be what it is not."""

    __slots__ = ()
    monotone = True


class Honest(_Family, hellinger.Rule):
    __slots__ = ()
    monotone = True

    def _score(self, s: float, n: float, t: float, arms: float) -> float:
        return (s + self.c) / n if n > 0.0 else math.inf


def _counts() -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    n = rng.integers(1, 400, 2000)
    return n, rng.binomial(n, 0.3)


def _filled(policy: Any) -> hellinger.Pool:
    n, s = _counts()
    pool = hellinger.Pool(policy)
    pool.add(range(2000), n, s)
    return pool


def test_a_rule_that_declares_nothing_is_ranked_exactly() -> None:
    n, s = _counts()
    assert _filled(Worst).rank(1)[0].score == max(-s / n) == 0.0
    assert "not known to fall" in _filled(Worst).explain()
    assert _filled(lambda s, n, t: -s / n).rank(1)[0].score == 0.0


def test_a_false_declaration_is_refused_with_the_counts() -> None:
    pool = _filled(Liar)
    wanted = r"must fall with impressions, but it is -0\.\d+ for \d+ impressions with rewards \d+ and -0\.\d+ for \d+"
    with pytest.raises(ValueError, match=wanted):
        pool.rank(1)


def test_a_true_declaration_gives_groups_with_the_same_ranking() -> None:
    n, s = _counts()
    pool = _filled(Honest)
    assert [row.score for row in pool.rank(50)] == sorted((s + 1.0) / n, reverse=True)[:50]
    assert "grouped" in pool.explain()


def test_a_false_declaration_is_found_when_counts_come_later() -> None:
    pool = hellinger.Pool(Liar)
    pool.add(range(10))
    assert len(pool.rank(3)) == 3  # nothing to compare yet
    pool.record_many(range(10), np.arange(1, 11), np.ones(10))
    with pytest.raises(ValueError, match="declares monotone"):
        pool.rank(3)


def test_what_a_policy_may_be_made_of() -> None:
    made = [
        hellinger.policy(Worst, c=2.0),
        hellinger.policy(Worst(families.Poisson(), 2.0)),
        hellinger.policy(lambda s, n, t: -2.0 * s / n),
        hellinger.policy(lambda s, n, t, arms: -2.0 * s / n + 0.0 * arms),
        hellinger.policy(lambda family, *, c=2.0: Worst(family, c)),
    ]
    assert [each.index([1.0], [4.0]).tolist() for each in made] == [[-0.5]] * 5
    assert made[0].spec == "Worst(c=2.0)"
    assert made[1].family == families.Poisson()
    assert made[0] == hellinger.policy(Worst(families.Bernoulli(), 2.0)) != hellinger.policy(Worst)
    assert hellinger.policy(made[0], c=3.0).index([1.0], [4.0]).tolist() == [-0.75]
    assert hellinger.families.get(families.Poisson) == families.Poisson()
    bandit = hellinger.Bandit(Worst, arms=2, seed=0)
    bandit.update(0, 1)
    again = hellinger.Bandit.from_state(bandit.state(), policy=Worst)
    assert again.index().tolist() == bandit.index().tolist() == [-1.0, 0.0]


def test_a_class_defined_again_is_another_rule() -> None:
    # numba tells NamedTuples apart by their class's name
    def make(k: float) -> type[hellinger.Rule]:
        class Again(_Family, hellinger.Rule):
            __slots__ = ()

            def _score(self, s: float, n: float, t: float, arms: float) -> float:
                return k * s

        return Again

    assert [hellinger.policy(make(k)).index([1.0], [4.0]).tolist() for k in (1.0, 2.0, 3.0)] == [[1.0], [2.0], [3.0]]
    assert repr(make(1.0)(families.Bernoulli())) == "Again(family=Bernoulli(), c=1.0)"  # type: ignore[call-arg]


def test_a_function_that_numba_cannot_compile_is_called_as_python() -> None:
    table = {1.0: "a"}

    def looked_up(s: float, n: float, t: float) -> float:
        return s / n + len(table.get(s, ""))

    with pytest.warns(hellinger.HellingerWarning, match="numba cannot compile looked_up") as told:
        made = hellinger.policy(looked_up)
    assert len(told) == 1
    assert made.index([1.0, 3.0, 0.0], [4.0, 4.0, 0.0]).tolist() == [1.25, 0.75, math.inf]
    assert hellinger.policy(looked_up) == made  # said once


class Uncompiled(_Family, hellinger.Rule):
    __slots__ = ()

    def _score(self, s: float, n: float, t: float, arms: float) -> float:
        return float(len(open("nothing").read()))  # noqa: PTH123


class Empty(_Family, hellinger.Rule):
    __slots__ = ()


def uniform(s: float, n: float, t: float) -> float:
    return s


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (Uncompiled, "must be code that numba can compile, but it is not: Untyped global name 'open'"),
        (Empty, "a rule writes _score or _fill"),
        (uniform, "'uniform' is already a policy's"),
        (lambda s: s, r"must take \(s, n, t\) or \(s, n, t, arms\), but lambda takes \(s\)"),
        (lambda s, n, t: "x", "must return a number"),
        (3, "a policy is a spec, a Rule, its class, or a function"),
        (dict, "subclass of hellinger.Rule"),
    ],
)
def test_what_is_no_policy_is_refused_in_one_sentence(given: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message) as raised:
        hellinger.policy(given)
    assert "\n" not in str(raised.value)


def test_an_index_that_is_no_number_is_refused() -> None:
    with pytest.raises(ValueError, match="gives NaN"):
        hellinger.policy(lambda s, n, t: math.sqrt(n - 8.0)).index([1.0], [4.0])


def test_own_functions_and_rules_conform() -> None:
    check_policy(lambda s, n, t: s / n + math.sqrt(math.log(t) / n))
    check_policy(Honest)


# Simulation -------------------------------------------------------------------------------------------


def test_simulating_one_s_own_index_gives_the_library_s_choices() -> None:
    setting: dict[str, Any] = {"means": [0.1, 0.3, 0.2], "horizon": 400, "runs": 5}
    own = simulate(lambda s, n, t: s / n + math.sqrt(2.0 * math.log(t) / n), **setting)
    ours = simulate("ucb1", **setting)
    np.testing.assert_allclose(own.regret, ours.regret)


@pytest.mark.parametrize(("slots", "batch", "delay"), [(1, 1, 0), (2, 3, 2)])
def test_drawn_rewards_are_played_as_compiled_ones(slots: int, batch: int, delay: int) -> None:
    means, order = np.array([0.2, 0.5, 0.4, 0.45]), np.arange(4)
    marks = np.array([10, 200])
    policy = hellinger.policy("hellinger-ucb")
    streams = np.array([stream(np.uint64(7), np.uint64(arm)) for arm in range(4)], np.uint64)
    family = families.Bernoulli()

    def drawn(arm: int) -> Any:
        plays = iter(range(10**6))
        return lambda: d.draw(family, means[arm], np.uint64(word(streams[arm], np.uint64(next(plays)))))

    ours, own = np.zeros((2, 2)), np.zeros((2, 2, 4), np.int64)
    setting = Setting(200, 1, 0, "first", slots, batch, delay)
    one = play_drawn(policy, [drawn(arm) for arm in range(4)], means, order, setting, None, marks, ours[0], own[0])
    other = _play.pages(
        policy.rule,
        family,
        means[None],
        np.ones(1, np.int64),
        order,
        streams,
        1,
        None,
        False,
        slots,
        batch,
        delay,
        marks,
        ours[1],
        own[1],
    )
    assert one == other
    np.testing.assert_allclose(ours[0], ours[1])
    np.testing.assert_array_equal(own[0], own[1])


def test_rewards_of_one_s_own() -> None:
    means = [0.1, 0.5]
    options: dict[str, Any] = {"means": means, "horizon": 300, "runs": 4}
    with pytest.warns(hellinger.HellingerWarning, match="drawn by Python functions") as told:
        one = simulate(
            ["hellinger-ucb", "thompson"], rewards=lambda rng, arm: rng.beta(1, 1 / means[arm] - 1), **options
        )
    assert len(told) == 1
    each = [lambda rng: rng.beta(1, 9), lambda rng: rng.beta(1, 1)]
    with pytest.warns(hellinger.HellingerWarning):
        same = simulate(["thompson", "hellinger-ucb"], rewards=each, **options)
    np.testing.assert_array_equal(one.regret, same.regret[::-1])
    with (
        pytest.warns(hellinger.HellingerWarning),
        pytest.raises(ValueError, match=r"must hold for Bernoulli.*gave 3\.0"),
    ):
        simulate("hellinger-ucb", rewards=lambda rng, arm: 3.0, **options)
    with pytest.raises(ValueError, match="for each arm"):
        simulate("hellinger-ucb", rewards=each[:1], **options)


# Sweeps -----------------------------------------------------------------------------------------------


def test_a_sweep_is_written_out() -> None:
    wanted = [f"hellinger-ucb(c={c:g})" for c in (0.3, 0.35, 0.4, 0.45, 0.5)]
    assert expand_spec("hellinger-ucb(c=0.3..0.5/5)") == wanted
    assert len(expand_spec("ucb(scale=1..2/3, extra=0..1/2)")) == 6
    assert simulate("hellinger-ucb(c=0.3..0.5/5)", means=[0.1, 0.2], horizon=20, runs=2).policies == wanted


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("ucb(scale=1..2)", "how many values"),
        ("ucb(scale=1..x/3)", "first..last/count, all numbers"),
        ("ucb(scale=1..1/3)", "different numbers"),
        ("ucb(scale=1..2/1)", "2 <= count"),
        ("ucb(scale=1..2/100, extra=1..2/100)", "at most 1000 policies"),
    ],
)
def test_a_sweep_that_is_none_is_refused(spec: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        expand_spec(spec)


def test_one_policy_is_no_sweep() -> None:
    with pytest.raises(ValueError, match="where several policies are taken"):
        policies.policy("hellinger-ucb(c=0.3..0.5/5)")
