"""Traffic falls to variants as the weights say, and users stay where they are unless they must move."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from hellinger.experiment import Split

USERS = [f"user-{i}" for i in range(9_000)]
WEIGHTS = {"a": 5.0, "b": 1.0, "c": 0.25, "d": 3.0}


def _chosen(split: Split, users: list[str] = USERS) -> dict[str, str]:
    return {user: split.choose_for(user)[0] for user in users}


def _agrees(counts: Counter[str], probabilities: dict[str, float]) -> float:
    total = counts.total()
    return float(
        chisquare([counts[name] for name in probabilities], [total * p for p in probabilities.values()]).pvalue
    )


@pytest.mark.parametrize("weights", [["a", "b", "c"], ["a", "b", "c", "d", "e", "f", "g"], WEIGHTS], ids=str)
@pytest.mark.parametrize("salt", ["", "spring", b"\xff\x00"])
def test_users_fall_as_the_weights_say(weights: dict[str, float] | list[str], salt: str | bytes) -> None:
    split = Split(weights, salt=salt)
    assert _agrees(Counter(_chosen(split).values()), split.probabilities) > 1e-3


@pytest.mark.parametrize("rng", [random.Random(1), np.random.default_rng(1)], ids=["random", "numpy"])
def test_requests_fall_as_the_weights_say(rng: random.Random) -> None:
    split = Split(WEIGHTS)
    chosen = [split.choose(rng) for _ in range(9_000)]
    assert _agrees(Counter(name for name, _ in chosen), split.probabilities) > 1e-3
    assert all(split.probabilities[name] == chance for name, chance in chosen)


def test_another_salt_is_another_split_independent_of_the_first() -> None:
    one, other = _chosen(Split("abc", salt="1")), _chosen(Split("abc", salt="2"))
    pairs = Counter(one[user] + other[user] for user in USERS)
    assert _agrees(pairs, {x + y: 1 / 9 for x in "abc" for y in "abc"}) > 1e-3


def test_users_that_look_alike_do_not_fall_alike() -> None:
    chosen = _chosen(Split("abc"))
    pairs = Counter(chosen[one] + chosen[other] for one, other in zip(USERS[::2], USERS[1::2], strict=True))
    assert _agrees(pairs, {x + y: 1 / 9 for x in "abc" for y in "abc"}) > 1e-3


@pytest.mark.parametrize("factor", [0.3, 0.9, 1.2, 10.0])
def test_only_the_variant_whose_weight_changes_gains_or_loses_users(factor: float) -> None:
    before, after = _chosen(Split(WEIGHTS)), _chosen(Split(WEIGHTS | {"b": WEIGHTS["b"] * factor}))
    moves = {(before[user], after[user]) for user in USERS if before[user] != after[user]}
    assert moves
    assert all((old if factor < 1 else new) == "b" for old, new in moves)


def test_a_new_variant_takes_users_from_all_and_gives_none() -> None:
    before, after = _chosen(Split(WEIGHTS)), _chosen(Split(WEIGHTS | {"e": 1.0}))
    moved = [user for user in USERS if before[user] != after[user]]
    assert {after[user] for user in moved} == {"e"}
    assert {before[user] for user in moved} == set(WEIGHTS)
    assert abs(len(moved) / len(USERS) - 1.0 / (sum(WEIGHTS.values()) + 1.0)) < 0.015


def test_neither_order_nor_scale_of_weights_matters() -> None:
    backwards = {name: 7.0 * weight for name, weight in reversed(WEIGHTS.items())}
    assert _chosen(Split(WEIGHTS)) == _chosen(Split(backwards))


def test_the_same_users_in_every_process() -> None:
    split = Split(["hellinger-ucb", "kl-ucb", "ucb1"], salt="golden")
    assert [split.choose_for(f"u{i}")[0][0] for i in range(12)] == list("khuhkhkkkhuh")
    assert split.choose_for("\ud800 ü 漢")[1] == 1 / 3


def test_a_variant_without_weight_gets_nothing() -> None:
    split = Split({"a": 0.0, "b": 1.0})
    assert split.variants == ("a", "b")
    assert split.probabilities == {"a": 0.0, "b": 1.0}
    assert set(_chosen(split).values()) == {"b"}
    assert split.choose(random.Random(0)) == ("b", 1.0)


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(st.text(), st.floats(1e-300, 1e300), min_size=1, max_size=9), st.text())
def test_any_weights_will_do(weights: dict[str, float], user: str) -> None:
    split = Split(weights)
    name, chance = split.choose_for(user)
    assert chance == split.probabilities[name]
    assert sum(split.probabilities.values()) == pytest.approx(1.0)
    assert split.choose(random.Random(0))[0] in weights


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        ([], "there is a variant"),
        (["a", "a"], "variants differ"),
        ({"a": -1.0}, "0 <= weight of 'a'"),
        ({"a": 0.0}, "0 < sum"),
    ],
)
def test_what_is_no_split(weights: dict[str, float] | list[str], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Split(weights)
