"""Near-ties, and one place for one of those that follow: chances by enumeration, and as often as announced."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from itertools import permutations, product
from typing import Any

import numpy as np
import pytest

from hellinger.engine.drafts import Query
from hellinger.engine.draws import Draws
from hellinger.engine.exploring import Exploring, Listed
from hellinger.experiment import Split
from ledger_model import START, Log
from lives import Copy

ONE = Split({"one": 1, "two": 0})


def enumerate_pages(scores: list[float], k: int, how: Exploring) -> dict[tuple[int, int], Fraction]:
    """The chance of each item at each place, over every order of ties, every order of the zone, every one given."""
    chance: dict[tuple[int, int], Fraction] = {}
    ranks = sorted(set(scores), reverse=True)
    ties = [list(permutations([i for i, score in enumerate(scores) if score == value])) for value in ranks]
    orders = [sum(each, ()) for each in product(*ties)]
    for order in orders:
        listed = order[: k + how.more]
        places = min(k, len(listed))
        level = scores[listed[places - 1]]
        width = how.near * abs(level) if math.isfinite(level) else 0.0
        zone = [j for j, i in enumerate(listed) if scores[i] == level or (width and abs(scores[i] - level) <= width)]
        mixed = list(permutations(zone)) if how.near else [tuple(zone)]
        for mix in mixed:
            page = list(listed)
            for j, source in zip(zone, mix, strict=True):
                page[j] = listed[source]
            rest = page[places:]
            share = Fraction(how.share) if rest else Fraction(0)
            weight = Fraction(1, len(orders) * len(mixed))
            outcomes = [(page[:places], weight * (1 - share))]
            for place, given in product(range(places), rest) if share else ():
                other = page[:places]
                other[place] = given
                outcomes.append((other, weight * share / (places * len(rest))))
            for shown, part in outcomes:
                for j, i in enumerate(shown):
                    chance[i, j] = chance.get((i, j), Fraction(0)) + part
    return chance


@pytest.mark.parametrize(
    ("scores", "k"),
    [
        ([0.9, 0.5, 0.48, 0.47, 0.2, 0.1], 2),
        ([0.5, 0.5, 0.49, 0.49, 0.3, 0.3], 3),
        ([0.5, 0.5, 0.5, 0.5, 0.5, 0.49], 2),
        ([1.0, 0.9, 0.9, 0.9, 0.2, 0.2], 1),
        ([math.inf, math.inf, math.inf, 0.5, 0.5, 0.1], 2),
        ([-2.0, -2.1, -2.1, -3.0, -4.0], 2),
        ([0.4, 0.3], 3),
        ([0.4], 1),
    ],
)
@pytest.mark.parametrize(
    "how",
    [Exploring(0.05, 0.0, 2), Exploring(0.0, 0.25, 2), Exploring(0.1, 0.5, 3), Exploring(1.0, 1.0, 1), Exploring()],
)
def test_chances_are_those_of_the_enumeration(scores: list[float], k: int, how: Exploring) -> None:
    expected = enumerate_pages(scores, k, how)
    best = sorted(scores, reverse=True)[: k + how.more]
    listed = Listed(best, scores.count(best[-1]), k, how)
    for i, score in enumerate(scores):
        for j, found in enumerate(listed.chances([score] * listed.places)):
            assert found == pytest.approx(float(expected.get((i, j), 0)), abs=1e-12), (i, j)


def test_a_tie_of_unknown_size_has_no_chance() -> None:
    assert Listed([0.5, 0.4, 0.3], 0, 2, Exploring(0.0, 0.5, 1)).chances([0.5, 0.3]) == [0.75, None]


def test_the_draws_do_as_the_chances_say() -> None:
    listed = Listed([0.9, 0.5, 0.48, 0.47, 0.2, 0.1], 1, 3, Exploring(0.06, 0.4, 3))
    found: Counter[tuple[int, int]] = Counter()
    given = 0
    for number in range(20_000):
        order, place = listed.order(Draws(7, 3, number))
        assert len(set(order)) == 3
        given += place >= 0
        found.update(enumerate(order))
    assert given / 20_000 == pytest.approx(0.4, abs=0.015)
    scores = [0.9, 0.5, 0.48, 0.47, 0.2, 0.1]
    for i, score in enumerate(scores):
        for j, p in enumerate(listed.chances([score] * 3)):
            assert p is not None
            assert found[j, i] / 20_000 == pytest.approx(p, abs=4.5 * math.sqrt(p * (1 - p) / 20_000) + 1e-9)


@pytest.mark.parametrize("share", [0.0, 0.3])
def test_a_desk_shows_each_item_as_often_as_it_says(share: float) -> None:
    draws = 6000
    how = Exploring(0.03, 0.5, 3)
    copy = Copy(Log(), counted=False, random_share=share, exploring=how, seed=5, split=ONE)
    copy.add(*"abcdefg")
    rates = {"a": 50, "b": 40, "c": 40, "d": 39, "e": 30, "f": 20, "g": 20}
    copy.bring([(name, 1000, 10 * rate) for name, rate in rates.items()])
    told: dict[tuple[int, str], float] = {}
    found: Counter[tuple[int, str]] = Counter()
    given = 0
    for _ in range(draws):
        fields = copy.desk.rank(Query(3), START).fields
        given += "explored" in fields
        for place, (item, p) in enumerate(zip(fields["items"], fields["propensities"], strict=True)):
            assert told.setdefault((place, item), p) == pytest.approx(p, rel=1e-12)
            found[place, item] += 1
    assert given / draws == pytest.approx(0.5 * (1 - share), abs=0.03)
    for key, p in told.items():
        assert found[key] / draws == pytest.approx(p, abs=4.5 * math.sqrt(p * (1 - p) / draws)), key
    for place in range(3):
        assert sum(p for (where, _), p in told.items() if where == place) == pytest.approx(1.0)
    assert {item for _, item in told} == set("abcdefg" if share else "abcdef") | {"g"}


def test_orders_and_policies_that_draw_do_not_explore() -> None:
    how = Exploring(0.5, 1.0, 5)
    options: dict[str, Any] = {"counted": False, "exploring": how, "seed": 3}
    variants = {"t": "thompson", "f": "fixed", "u": "uniform"}
    copy = Copy(Log(), variants=variants, **options)
    copy.add(*"abcdef")
    seen: Counter[str] = Counter()
    for _ in range(60):
        fields = copy.rank(2).fields
        assert "explored" not in fields
        seen[fields["variant"]] += 1
        if fields["variant"] == "f":
            assert fields["items"] == ["a", "b"]
    assert len(seen) == 3


def test_a_fixed_order_has_the_chance_of_its_own_places() -> None:
    """All its indices are equal, and yet nothing but the random share is drawn."""
    copy = Copy(Log(), variants={"f": "fixed"}, counted=False, random_share=0.4, seed=3)
    copy.add(*"abcd")
    for _ in range(100):
        fields = copy.rank(2).fields
        for place, (item, p) in enumerate(zip(fields["items"], fields["propensities"], strict=True)):
            assert p == pytest.approx(0.1 + 0.6 * (item == "ab"[place]))


def test_what_explored_places_show_counts_and_survives() -> None:
    copy = Copy(Log(), exploring=Exploring(0.5, 0.7, 4), seed=9)
    copy.add(*"abcdefgh")
    rng = np.random.default_rng(1)
    for _ in range(60):
        draft = copy.rank(3)
        copy.flush()
        for item in draft.fields["items"]:
            if rng.random() < 0.3:
                copy.give(draft.event.key, item)
        copy.flush()
    copy.check()
