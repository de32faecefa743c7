"""A log gone through again: what every variant would have shown at each of its rankings, and with what chance."""

from __future__ import annotations

import math
import random
from collections import Counter
from typing import Any

import numpy as np
import orjson
import pytest

from hellinger.engine.allocation import Allocation
from hellinger.engine.chances import DRAWS, VariantChances, drawn_chance
from hellinger.engine.desk import Desk
from hellinger.engine.drafts import Query
from hellinger.engine.drawn_places import DrawnPlaces, beta_law
from hellinger.engine.exploring import Exploring
from hellinger.evaluate.retrace import Retrace
from hellinger.experiment import Split
from hellinger.ledger import Ledger
from ledger_model import START, Log
from lives import WINDOW, Copy

NAMES = [f"item-{j}" for j in range(12)]


# Draws from posteriors -------------------------------------------------------------------------------


def test_two_posteriors_have_the_chance_of_the_textbook() -> None:
    """P(Beta(a, b) > Beta(c, d)) as a finite sum, for whole numbers."""

    def log_beta(x: float, y: float) -> float:
        return math.lgamma(x) + math.lgamma(y) - math.lgamma(x + y)

    def first_is_larger(a: int, b: int, c: int, d: int) -> float:
        terms = (log_beta(c + i, b + d) - math.log(b + i) - log_beta(1 + i, b) - log_beta(c, d) for i in range(a))
        return sum(map(math.exp, terms))

    for one, other in (((3, 10), (1, 4)), ((40, 400), (35, 380)), ((0, 0), (2, 300)), ((900, 9000), (880, 9100))):
        (s, n), (u, m) = one, other
        expected = first_is_larger(1 + s, 1 + n - s, 1 + u, 1 + m - u)
        places = DrawnPlaces(beta_law)
        found, error = places.chances(np.array([n, m], float), np.array([s, u], float), [0])
        assert found[0] == pytest.approx(expected, rel=2e-3)
        assert error < 2e-3


def test_chances_of_drawn_places_are_a_law() -> None:
    rng = np.random.default_rng(3)
    n = rng.integers(0, 60, 9).astype(float)
    s = np.floor(n * rng.beta(2, 6, 9))
    places = DrawnPlaces(beta_law)
    table = np.zeros((9, 3))
    for i in range(9):
        for j in range(3):
            shown = [(i + 1 + q) % 9 for q in range(3)]
            shown[j] = i
            table[i, j] = places.chances(n, s, shown)[0][j]
    assert table.sum(axis=0) == pytest.approx(1.0, abs=2e-4)
    draws = rng.beta(1 + s, 1 + n - s, size=(40_000, 9))
    order = np.argsort(-draws, axis=1)[:, :3]
    for j in range(3):
        found = np.bincount(order[:, j], minlength=9) / 40_000
        assert found == pytest.approx(table[:, j], abs=4.5 * 0.5 / 200)


# Variants --------------------------------------------------------------------------------------------


def begin(copy: Copy) -> None:
    """Let the log say what is played, as a service does at its start: models are there from then on."""
    allocation = Allocation(
        copy.variants, dict.fromkeys(copy.variants, 1.0), learning=copy.options.get("learning", "isolated")
    )
    copy.write([allocation.draft(START, after=0, by="settings")])
    copy.flush()


def lived(variants: dict[str, str], *, seed: int, rankings: int = 150, **options: Any) -> Copy:
    """A log of one replica, which writes now and then: rankings in between are counted before the log has them."""
    rng = random.Random(seed)
    copy = Copy(Log(), variants=variants, seed=seed, **options)
    if "split" not in options:
        begin(copy)
    copy.add(*NAMES[:8], tags=["x"])
    at = START
    made = []
    for number in range(rankings):
        at += rng.randint(1, 400)
        query: dict[str, Any] = {"k": rng.choice([1, 3, 4]), "segment": rng.choice([None, None, "s"])}
        if rng.random() < 0.2:
            query["exclude"] = rng.sample(NAMES, 2)
        if rng.random() < 0.1:
            query["among"] = rng.sample(NAMES[:8], 5)
        made.append(copy.rank(at=at, **query))
        if rng.random() < 0.3:
            copy.flush()
            for draft in made:
                for item in draft.fields["items"]:
                    if rng.random() < 0.1 + 0.4 * (int(item[5:]) % 3 == 0):
                        copy.give(draft.event.key, item, at=at)
            made = []
        if number in (40, 80):
            copy.flush()
            copy.add(*NAMES[8 + number // 40 - 1 :], at=at)
            copy.turn(NAMES[number // 40], "hidden", at=at)
    copy.flush()
    return copy


def fresh(copy: Copy) -> Desk:
    return Desk(Ledger(), copy.variants, **copy.options | {"seed": 99})


EXPLORED = {"random_share": 0.2, "exploring": Exploring(0.2, 0.3, 3)}


@pytest.mark.parametrize(
    "options",
    [{}, {"learning": "shared"}, {"random_share": 0.3}, EXPLORED, {"positions": (1.0, 0.5)}, {"enough": 40}],
    ids=str,
)
def test_the_own_variant_has_the_chances_that_were_logged(options: dict[str, Any]) -> None:
    """To the bit, nearly: the desk at each ranking is the one that made it."""
    copy = lived({"one": "hellinger-ucb", "two": "cold-start"}, seed=4, **options)
    retrace = Retrace(fresh(copy), copy.log.thread)
    found = retrace.follow(copy.log.events)
    assert len(found) == retrace.rankings == 150
    assert retrace.same == retrace.compared > 140
    assert retrace.unlike == 0
    for each in found:
        assert set(each.shares) == set(each.chances) == {"one", "two"}
        for own, mixed, place in zip(each.propensities, each.balanced, range(9), strict=False):
            assert own is not None
            assert mixed is not None
            other = each.chances["one" if each.variant == "two" else "two"][place]
            assert other is not None
            assert mixed == pytest.approx(0.5 * own + 0.5 * other)


def test_part_by_part_is_the_same_and_times_are_kept() -> None:
    copy = lived({"one": "hellinger-ucb", "two": "ucb1"}, seed=5)
    whole = Retrace(fresh(copy), copy.log.thread).follow(copy.log.events)
    retrace, parts = Retrace(fresh(copy), copy.log.thread), []
    middle = copy.log.events[len(copy.log.events) // 2].at
    for start in range(0, len(copy.log.events), 7):
        parts += retrace.follow(copy.log.events[start : start + 7], first=middle)
    later = [each for each, event in zip(whole, _ranks(copy), strict=True) if event.at >= middle]
    assert 0 < len(parts) < len(whole)
    assert [each.chances for each in parts] == [each.chances for each in later]


def _ranks(copy: Copy) -> list[Any]:
    return [event for event in copy.log.events if event.kind == "rank"]


def test_other_rules_are_noticed() -> None:
    copy = lived({"one": "hellinger-ucb", "two": "ucb1"}, seed=6, random_share=0.3)
    desk = Desk(Ledger(), copy.variants, window=WINDOW, random_share=0.1)
    retrace = Retrace(desk, copy.log.thread)
    retrace.follow(copy.log.events)
    assert retrace.unlike == retrace.rankings
    assert retrace.same < retrace.compared


@pytest.mark.parametrize(
    "spec", ["thompson", "epsilon-greedy(epsilon=0.3)", "laplace-thompson", "thompson(model=logistic)"]
)
@pytest.mark.parametrize("share", [0.0, 0.3])
def test_a_policy_that_draws_shows_each_item_as_often_as_is_found(spec: str, share: float) -> None:
    draws = 4000
    copy = Copy(Log(), variants={"t": spec}, counted=False, random_share=share, seed=8)
    copy.add(*"abcdefg")
    rows: list[tuple[str, int, float]] = [
        ("a", 100, 50),
        ("b", 100, 45),
        ("c", 60, 25),
        ("d", 30, 12),
        ("e", 10, 4),
        ("f", 40, 5),
        ("g", 20, 8),
    ]
    copy.bring(rows)
    begin(copy)
    chances = VariantChances(copy.desk)
    query = Query(3, exclude=["d"])
    found: Counter[tuple[int, str]] = Counter()
    told: dict[tuple[int, str], float | None] = {}
    slots = copy.desk.ledger.catalogue.slots
    for _ in range(draws):
        fields = copy.desk.rank(query, START).fields
        assert fields["propensities"] is None
        keys = list(enumerate(fields["items"]))
        found.update(keys)
        if any(key not in told for key in keys):
            for key, p in zip(keys, chances.of("t", query, [slots[item] for _, item in keys]), strict=True):
                told.setdefault(key, p)
    slack = 0.1 if "model" in spec else 0.0  # by draws
    assert (chances.error == 0.0) == spec.startswith("eps")
    assert chances.error < (0.03 if slack else 1e-3)
    for key, p in told.items():
        if p is not None:
            assert found[key] / draws == pytest.approx(p, abs=4.5 * math.sqrt(p * (1 - p) / draws) + slack)
    for place in range(3):
        together = sum(p or 0.0 for (where, _), p in told.items() if where == place)
        assert together == pytest.approx(1.0, abs=0.1 if slack else 0.02)


@pytest.mark.parametrize("p", [0.0005, 0.01, 0.3, 1.0])
def test_a_drawn_chance_below_the_line_is_nearly_unbiased(p: float) -> None:
    """Over all that the draws may give: what is rare is not dropped for being rare."""
    draws = 400
    law = [math.comb(draws, seen) * p**seen * (1 - p) ** (draws - seen) for seen in range(draws + 1)]
    assert all(drawn_chance(seen, draws, made=True) > 0.0 for seen in range(draws + 1))
    weight = math.fsum(each / drawn_chance(seen, draws, made=True) for seen, each in enumerate(law))
    assert p * weight == pytest.approx(1.0 - (1.0 - p) ** (draws + 1))
    share = math.fsum(each * drawn_chance(seen, draws, made=False) for seen, each in enumerate(law))
    assert share == pytest.approx(p)


def test_what_no_draw_shows_has_a_chance_by_who_made_the_ranking() -> None:
    copy = Copy(Log(), variants={"t": "thompson(model=logistic)"}, counted=False, seed=8)
    copy.add(*"abc")
    copy.bring([("a", 4000, 2000), ("b", 4000, 1500), ("c", 4000, 10)])
    begin(copy)
    slots, chances, query = copy.desk.ledger.catalogue.slots, VariantChances(copy.desk), Query(1)
    asked = [slots["c"]]
    assert chances.of("t", query, asked) == [None]
    assert chances.of("t", query, asked, made=False) == [0.0]
    assert chances.of("t", query, asked, made=True) == [1 / (DRAWS + 1)]
    assert chances.rare == 3
    assert chances.of("t", query, [slots["a"]], made=False) == [1.0]
    assert chances.of("t", query, [-1], made=False) == [0.0]
    assert chances.rare == 3


def test_a_model_and_a_holdout_have_chances_too() -> None:
    variants = {"model": "cold-start(model=logistic)", "old": "fixed", "any": "uniform"}
    copy = lived(variants, seed=9, rankings=60)
    retrace = Retrace(fresh(copy), copy.log.thread)
    found = retrace.follow(copy.log.events)
    assert retrace.same == retrace.compared
    assert "model" in copy.desk.ledger.models.of
    for each in found:
        assert set(each.chances["old"]) <= {0.0, 1.0}
        assert each.shares == pytest.approx(dict.fromkeys(variants, 1 / 3))
        if each.variant == "old":
            assert each.chances["old"] == [1.0] * len(each.fields["items"])


def test_a_log_without_filters_says_nothing_of_others() -> None:
    """An older version did not log what was asked for."""
    copy = lived({"one": "hellinger-ucb", "two": "ucb1"}, seed=10, rankings=30)
    retrace = Retrace(fresh(copy), copy.log.thread)
    events = []
    for event in copy.log.events:
        if event.kind == "rank":
            fields = event.fields
            for name in ("k", "tie", "eligible", "exclude", "among"):
                fields.pop(name, None)
            event = event._replace(body=orjson.dumps(fields).decode())
        events.append(event)
    for each in retrace.follow(events):
        assert each.balanced == [None] * len(each.fields["items"])
        assert each.propensities == [1.0] * len(each.fields["items"])


def test_only_one_variant_is_its_own_balance() -> None:
    copy = lived({"one": "hellinger-ucb", "two": "ucb1"}, seed=11, rankings=40, split=Split({"one": 1, "two": 0}))
    for each in Retrace(fresh(copy), copy.log.thread).follow(copy.log.events):
        assert each.shares == {"one": 1.0}
        assert each.balanced == each.propensities
