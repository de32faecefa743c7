"""Variants with a model: they learn in the order of the log, whoever asks, restarts or folds it."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import numpy as np
import pytest

import hellinger
from hellinger.client import Feedback, NewItem
from hellinger.engine.allocation import Allocation
from hellinger.engine.drafts import Query
from hellinger.engine.specs import canonical, draws, policy_of
from hellinger.errors import InputError
from hellinger.ledger import Ledger, placed
from hellinger.ledger.modelled import Modelled, Placing, split_model, warm
from hellinger.ledger.recovery import differences, fold
from hellinger.ledger.snapshot import decode, encode
from hellinger.models.regression import Regression
from ledger_model import START, Log
from lives import Copy, next_ranking
from served import Served, serving

SPEC = "cold-start(model=logistic)"
YOUNG: dict[str, Any] = {"age": 20.0, "likes": ["sport"]}
OLD: dict[str, Any] = {"age": 60.0, "likes": ["art"]}


def begin(copy: Copy, variants: dict[str, str], learning: str = "isolated") -> None:
    """Begin a phase with these variants."""
    allocation = Allocation(variants, dict.fromkeys(variants, 1.0), learning=learning, window=60_000).check()
    copy.write([allocation.draft(START, after=copy.desk.ledger.phase_place, by="test")])
    copy.flush()


def lived(cache: int = 100_000, learning: str = "isolated", **options: Any) -> Copy:
    """A copy whose young readers click on sport, and whose old ones on art."""
    copy = Copy(Log(), cache, {"one": "ucb1"}, seed=1, **options)
    for number in range(12):
        topic = ("sport", "art", "news")[number % 3]
        copy.add(f"{topic}-{number}", features={"topic": topic, "length": float(number)}, group=[topic])
    begin(copy, {"one": SPEC, "two": "ucb1"}, learning)
    rng = random.Random(7)
    for number in range(150):
        context, liked = rng.choice([(YOUNG, "sport"), (OLD, "art")])
        draft = copy.rank(3, at=START + number, context=context)
        copy.flush()
        for item in draft.fields["items"]:
            if rng.random() < (0.9 if item.startswith(liked) else 0.1):
                copy.give(draft.event.key, item, at=START + number)
        copy.flush()
        if number == 60:
            copy.turn("news-2", "hidden")
            copy.turn("news-5", "deleted")
            copy.add("art-1", features={"topic": "art", "length": 3.0}, expires_at=START + 100)
        copy.chores(START + number)
    return copy


@pytest.fixture(scope="module")
def copy() -> Copy:
    return lived()


def test_who_asks_decides(copy: Copy) -> None:
    model = copy.desk.ledger.models.of["one"]
    since = copy.desk.ledger.catalogue["since"]
    slots = [copy.desk.ledger.catalogue.slots[name] for name in ("sport-0", "art-4")]
    for context, better in ((YOUNG, 0), (OLD, 1)):
        means, pulls = model.pool.predict(since[slots], context=context)
        assert means[better] > 2 * means[1 - better]
        assert (pulls > 1).all()
    effects = {each.name: each for each in model.pool.effects()}
    assert effects["likes=sport × topic=sport"].effect > 2 * effects["likes=sport × topic=sport"].error
    predicted, n, s = model.calibration.sum(axis=0)
    assert n == copy.desk.ledger.rounds(variants=["one"])
    assert s == copy.desk.ledger.series.totals["one"][2]
    assert s / 2 < predicted < 2 * s


def test_a_copy_is_one_that_is_made_from_its_log(copy: Copy) -> None:
    copy.check(START + 150)


@pytest.mark.parametrize(("batch", "cache"), [(1, 0), (7, 3), (10_000, 100_000)])
def test_whatever_is_folded_at_once_or_remembered(copy: Copy, batch: int, cache: int) -> None:
    """With no ranking in memory, late feedback joins the context that the log has."""
    events = copy.log.events
    ledger = Ledger(cache=cache)
    for start in range(0, len(events), batch):
        fold(ledger, events[start : start + batch], copy.log.thread)
        if batch == 7 and start % 70 == 0:
            ledger = decode(encode(ledger), cache=cache)
    assert differences(ledger, copy.desk.ledger) == []


def test_steps_may_be_taken_at_any_time(copy: Copy) -> None:
    whole = Ledger()
    with whole.requests.pinned(()):
        for start in range(0, len(copy.log.events), 50):
            some = copy.log.events[start : start + 50]
            whole.apply(placed(some))
            whole.models.learn(0.0)
    assert len(whole.models.of["one"]) > 100
    assert differences(whole, copy.desk.ledger) == []


def test_a_difference_is_found(copy: Copy) -> None:
    other = decode(encode(copy.desk.ledger))
    model = other.models.of["one"]
    model.observe([int(other.catalogue["since"][0])], 1.0, 0.0, None)
    assert differences(other, copy.desk.ledger) == ["what the model of 'one' has learned is not the same"]


def test_shared_learning_learns_from_the_rankings_of_all() -> None:
    copy = lived(learning="shared")
    ledger = copy.desk.ledger
    n = ledger.models.of["one"].calibration[:, 1].sum()
    assert n == ledger.rounds(variants=["one", "two"]) > ledger.rounds(variants=["one"])
    copy.check(START + 150)


def test_a_model_begins_with_what_items_have_earned() -> None:
    copy = Copy(Log(), variants={"one": "cold-start"}, seed=1)
    copy.add("a", "b", "c")
    copy.bring([("a", 100, 40.0), ("b", 100, 1.0)])
    first = copy.rank(2, context=YOUNG)
    copy.flush()
    begin(copy, {"one": SPEC})
    model = copy.desk.ledger.models.of["one"]
    slots = copy.desk.ledger.catalogue.slots
    before = {name: model.pool.stats(int(copy.desk.ledger.catalogue["since"][slots[name]])) for name in "abc"}
    assert before["a"].impressions + before["b"].impressions + before["c"].impressions == 202
    # feedback to a ranking from before is learned, of nobody in particular
    copy.give(first.event.key, first.fields["items"][0])
    copy.flush()
    copy.desk.ledger.models.learn()
    after = model.pool.stats(int(copy.desk.ledger.catalogue["since"][slots[first.fields["items"][0]]]))
    assert after.rewards == before[first.fields["items"][0]].rewards + 1
    assert model.pool.effects() == []
    copy.bring([("c", 50, 50.0)])
    copy.desk.ledger.models.learn()
    assert model.pool.stats(int(copy.desk.ledger.catalogue["since"][slots["c"]])).rewards >= 50
    copy.check()


def test_another_model_begins_anew_and_one_that_stops_is_let_go(copy: Copy) -> None:
    other = Copy(copy.log, variants=copy.variants, seed=1)
    held = other.desk.ledger
    begin(other, {"one": SPEC, "three": "ucb1(model=logistic(per_item=true))"})
    assert held.models.of["one"].calibration.any()
    assert not held.models.of["three"].calibration.any()
    begin(other, {"one": "cold-start(model=logistic(scale=0.5))"})
    assert list(held.models.of) == ["one"]
    assert not held.models.of["one"].calibration.any()
    other.check(START + 150)
    begin(other, {"one": "cold-start"})
    assert not held.models
    other.check(START + 150)


def test_while_a_model_has_much_to_take_in_counts_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    copy = Copy(Log(), variants={"one": "ucb1"}, seed=1)
    copy.add(*(f"i{number}" for number in range(9)))
    monkeypatch.setattr(Modelled, "settle", lambda self, seconds: not self.unsettled)
    monkeypatch.setattr(Modelled, "catch_up", lambda self, seconds=None: None)
    begin(copy, {"one": SPEC})
    assert copy.desk.pools.model("one") is None
    assert len(copy.rank(5, context=YOUNG).fields["items"]) == 5
    monkeypatch.undo()
    copy.flush()
    assert copy.desk.pools.model("one") is not None
    copy.check()


def test_filters_and_items_that_leave(copy: Copy) -> None:
    desk = copy.desk
    assert desk.pools.model("one") is not None
    found = desk.rank(Query(20, context=YOUNG), START + 200, "all").fields["items"]
    assert {"news-2", "news-5", "art-1"}.isdisjoint(found)
    only = Query(20, context=YOUNG, among=["sport-0", "art-4", "nobody"], exclude=["art-4"])
    some = desk.rank(only, START + 200, "few")
    assert some.fields["items"] == ["sport-0"]
    for name in ("all", "few"):
        del desk.named[name]
    assert next_ranking(desk, Query(3, context=None), START + 200)["items"]


def test_specs_of_variants() -> None:
    assert split_model("hellinger-ucb(c=0.3, model=logistic(scale=0.5, per_item=true))") == (
        "hellinger-ucb(c=0.3)",
        "logistic(per_item=true, scale=0.5)",
    )
    assert canonical("cold-start( model = logistic() )") == SPEC
    assert canonical(canonical("ucb1(model=linear(strength=5))")) == "ucb1(model=linear(strength=5.0))"
    assert not draws(SPEC)
    found = policy_of(SPEC)
    assert found is not None
    assert found.spec == "cold-start"
    for wrong in ("cold-start(model=logstic)", "cold-start(model=3)", "cold-strt(model=logistic)"):
        with pytest.raises(InputError):
            canonical(wrong)


def test_an_item_is_placed_once_and_removed_once() -> None:
    model = Modelled("ucb1", "logistic", 1)
    model.begin([Placing(5, 3.0, 1.0, (), '{"x":1.0}', False), Placing(9, 0.0, 0.0, ("t",), None, True)], 10.0)
    model.place([Placing(5, 4.0, 1.0, (), '{"x":2.0}', True)])
    model.remove(7)
    model.remove(9)
    model.remove(9)
    assert len(model) == 4
    model.observe([5, 9], np.array([1.0, 1.0]), 0.0, None)
    model.catch_up()
    assert (model.members, model.pool.ids, model.pool.rounds, model.pool.eligible) == ({5}, [5], 11, 0)
    again = Modelled.decode(*model.encode())
    assert again.digest() == model.digest()
    assert again.members == model.members


def test_what_no_model_can_take_says_nothing() -> None:
    """It cannot come in, but a log may have it: folding it must not fail."""
    copy = Copy(Log(), variants={"one": "ucb1"}, seed=1)
    begin(copy, {"one": SPEC})
    copy.add("a", "b", features={"word": "x" * 1000, "list": ["y"] * 1000})
    draft = copy.rank(2)
    body = draft.event.body[:-1] + ',"context":{"word":"' + 1000 * "x" + '"}}'
    copy.drafts[-1] = draft.event._replace(body=body), draft.fields
    copy.flush()
    copy.check()
    assert copy.desk.ledger.models.of["one"].pool.effects() == []


# Over HTTP ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("models")
    with serving(folder, variants={"plain": "cold-start", "personal": SPEC}, segment_enough=0) as running:
        yield running


def test_a_variant_with_a_model_over_http(served: Served) -> None:
    with hellinger.Client(served.url) as client, httpx.Client(base_url=served.url) as http:
        client.add_items(NewItem(f"i{j}", features={"topic": ("sport", "art")[j % 2]}) for j in range(20))
        rng = random.Random(2)
        for number in range(120):
            likes, topic = rng.choice([("s", 0), ("a", 1)])
            ranking = client.rank(4, context={"likes": likes, "secret": f"s{number % 3}"}, segment="web")
            good = [name for name in ranking.ids if int(name[1:]) % 2 == topic]
            if good:
                client.feedback(Feedback(ranking.ranking_id, name) for name in good)
        answer = http.get("/v1/experiments/main/models")
        (model,) = answer.json()["models"]
        assert (model["variant"], model["policy"], model["model"], model["items"]) == (
            "personal",
            "cold-start",
            "logistic",
            20,
        )
        effects = {each["name"]: each for each in model["effects"]}
        assert effects["likes=s × topic=sport"]["low"] < effects["likes=s × topic=sport"]["effect"]
        assert effects["likes=s × topic=sport"]["effect"] > 0 > effects["likes=s × topic=art"]["effect"]
        for row in model["calibration"]:
            assert row["impressions"] >= 20
            assert 0 <= row["low"] <= row["observed"] <= row["high"] <= 1
        assert http.get("/v1/experiments/nobody/models").status_code == 404
        assert all(row.index is not None for row in client.item("i3").variants.values())
        assert {row["context"]["likes"] for row in client.export()} == {"s", "a"}
        refused = http.post("/v1/experiments/main/phases", json={"variants": {"x": "ucb1(model=nothing)"}})
        assert (refused.status_code, "unknown model 'nothing'" in refused.text) == (422, True)


def test_learning_from_all_after_learning_from_its_own() -> None:
    """Late rewards of rankings that others made before count against impressions that the model knows."""
    life = Copy(Log(), 100, {"one": "ucb1"}, seed=3)
    for number in range(6):
        life.add(f"x-{number}", features={"topic": "art"})
    begin(life, {"one": SPEC, "two": "ucb1"})
    made = [life.rank(2, at=START + number, context=OLD) for number in range(20)]
    life.flush()
    begin(life, {"one": SPEC, "two": "ucb1"}, "shared")
    for draft in made:
        for item in draft.fields["items"]:
            life.give(draft.event.key, item, at=START + 30)
    life.flush()
    life.check(START + 40)
    assert life.desk.ledger.models.of["one"].pool.rounds == life.desk.ledger.rounds(variants=["one", "two"])


def test_a_step_that_fails_is_a_failure() -> None:
    """Neither a ranking nor the background goes on with a model that lacks a step."""
    ways: list[Callable[[Copy], object]] = [
        lambda life: life.desk.pools.model("one"),
        lambda life: life.desk.pools.finish(),
    ]
    for reach in ways:
        life = Copy(Log(), 100, {"one": "ucb1"}, seed=3)
        life.add("a", features={"topic": "art"})
        begin(life, {"one": SPEC})
        life.desk.pools.finish()

        def broken(*_: Any) -> None:
            raise MemoryError

        life.desk.ledger.models.of["one"]._change(broken)
        with pytest.raises(MemoryError):
            reach(life)
        assert isinstance(life.desk.pools.failure, MemoryError)


def test_all_that_a_model_computes_is_compiled_beforehand(monkeypatch: pytest.MonkeyPatch) -> None:
    """The spread of weights too, which is first learned after some events: rankings waited seconds for it."""
    learned: list[Regression] = []
    monkeypatch.setattr(Regression, "_learn_spread", lambda self: learned.append(self))
    warm(*split_model(SPEC))
    assert learned
