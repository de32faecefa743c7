"""Variants with a model: they learn in the order of the log, whoever asks, restarts or folds it."""

from __future__ import annotations

import hashlib
import random
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import orjson
import pytest

import hellinger
from hellinger.client import Feedback, NewItem
from hellinger.engine.allocation import Allocation
from hellinger.engine.drafts import Query
from hellinger.engine.learning import due
from hellinger.engine.positions import draft
from hellinger.engine.specs import canonical, check_new, draws, policy_of
from hellinger.errors import InputError
from hellinger.events import Event
from hellinger.ledger import Ledger, placed
from hellinger.ledger.calibration import Calibration
from hellinger.ledger.errors import OutdatedError
from hellinger.ledger.looks import lacks_of
from hellinger.ledger.modelled import Modelled, Placing, ShownIn, split_model
from hellinger.ledger.recovery import SLACK, check, compact, differences, fold, recover, recover_at
from hellinger.ledger.snapshot import _blocks, decode, encode
from hellinger.models import regression
from hellinger.policies import Prior
from hellinger.serve.learned import joined, learned
from hellinger.store import open_store
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
    rng = random.Random(2)
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
    predicted, n, s = model.calibration.table.sum(axis=0)
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


def test_a_step_may_be_left_half_taken(copy: Copy) -> None:
    """A page is learned item by item, and rankings come between: the same to the bit as all at once."""
    whole, cut = Ledger(), Ledger()
    for start in range(0, len(copy.log.events), 20):
        for ledger in (whole, cut):
            with ledger.requests.pinned(()):
                ledger.apply(placed(copy.log.events[start : start + 20]))
        whole.models.learn()
        if (model := cut.models.of.get("one")) is not None:
            for _ in range(start % 7):
                if len(model):
                    model._go_on()
            if len(model.pool):
                model.pool.pick(3, context=YOUNG, count=False)
    assert len(cut.models.of["one"]) > 50
    assert differences(whole, cut) == []


def test_a_prior_reaches_many_items_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hellinger.ledger.modelled.REFRESHED", 10)
    slow, fast = Modelled("cold-start", "logistic", 1), Modelled("cold-start", "logistic", 1)
    items = [Placing(5 + j, 0.0, 0.0, (), f'{{"length":{j % 7}.5}}', False) for j in range(64)]
    for model in (slow, fast):
        model.begin(items, 0.0)
        model.set_prior(Prior(2.0, 50.0, 100.0).state())
        model.observe([9, 7], np.array([1.0, 1.0]), np.array([0.0, 1.0]), '{"age":3}')
    parts = 0
    while len(slow):
        slow._go_on()
        parts += 1
        if len(slow.pool):
            slow.pool.pick(3, context={"age": 3.0}, count=False)
    fast.catch_up()
    assert parts > 64 // 10
    assert slow.digest() == fast.digest()


def test_a_model_is_never_far_behind_the_log(copy: Copy, monkeypatch: pytest.MonkeyPatch) -> None:
    """However little time a commit has for it: the log waits instead."""
    monkeypatch.setattr("hellinger.ledger.variant_models.MOST", 30)
    ledger, furthest = Ledger(), 0
    for start in range(0, len(copy.log.events), 10):
        with ledger.requests.pinned(()):
            ledger.apply(placed(copy.log.events[start : start + 10]))
        ledger.models.learn(0.0)
        furthest = max(furthest, *(model.behind for model in ledger.models), 0)
    assert furthest == 30
    assert differences(ledger, copy.desk.ledger) == []


def test_a_difference_is_found(copy: Copy) -> None:
    other = decode(encode(copy.desk.ledger))
    model = other.models.of["one"]
    model.observe([int(other.catalogue["since"][0])], 1.0, 0.0, None)
    assert differences(other, copy.desk.ledger) == ["what the model of 'one' has learned is not the same"]


def test_shared_learning_learns_from_the_rankings_of_all() -> None:
    copy = lived(learning="shared")
    ledger = copy.desk.ledger
    n = ledger.models.of["one"].calibration.table[:, 1].sum()
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
    assert held.models.of["one"].calibration.table.any()
    assert not held.models.of["three"].calibration.table.any()
    begin(other, {"one": "cold-start(model=logistic(scale=0.5))"})
    assert list(held.models.of) == ["one"]
    assert not held.models.of["one"].calibration.table.any()
    other.check(START + 150)
    begin(other, {"one": "cold-start"})
    assert not held.models
    other.check(START + 150)


def test_while_a_model_has_much_to_take_in_counts_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    copy = Copy(Log(), variants={"one": "ucb1"}, seed=1)
    copy.add(*(f"i{number}" for number in range(9)))
    monkeypatch.setattr(Modelled, "settle", lambda self, seconds: not self.unsettled)
    monkeypatch.setattr(Modelled, "catch_up", lambda self, seconds=None, most=0: None)
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


def test_a_model_that_may_grow_too_large_is_refused_by_its_spec() -> None:
    """When a variant is added, and never by what folds the log: that must not depend on the machine."""
    check_new("cold-start(model=logistic(columns=63, item_columns=63))")
    check_new("uniform")
    for large in (
        "cold-start(model=logistic(columns=64, item_columns=128))",
        "cold-start(model=logistic(shared=false, per_item=true, columns=17))",
    ):
        with pytest.raises(InputError, match="in a variant's model"):
            check_new(large)
        assert canonical(large) == large  # a log that has it is folded
    assert "require_memory" not in Path(regression.__file__).read_text()


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


@pytest.mark.parametrize("counted", [True, False])
def test_what_is_one_users_own_is_nowhere_but_in_the_log(counted: bool) -> None:
    """However often they come, and however many impressions are confirmed; of words that many have, nothing is lost."""
    copy = Copy(Log(), variants={"one": "ucb1"}, seed=1, counted=counted)
    copy.add(*(f"a{number}" for number in range(6)), features={"topic": "x"})
    begin(copy, {"one": SPEC})
    for number in range(60):
        context = {
            "email": f"joe{number % 12}@example.org",
            f"joe{number % 12}": 7.5,
            "plan": ("free", "paid")[number % 2],
        }
        name = copy.rank(4, at=START + number, context=context, user=f"u{number % 12}").event.key
        copy.flush()
        request = copy.desk.ledger.requests.find(name)
        assert request is not None
        for item in request.items:
            if not counted:
                copy.write(copy.desk.sort_seen([(name, item)], START + number).drafts)
            copy.give(name, item, at=START + number)
            copy.flush()
    copy.check(START + 60)
    ledger = copy.desk.ledger
    (model,) = ledger.models
    assert model.pool.encoders()[0].names == ["plan=free", "plan=paid"]
    kept = b"".join(encode(ledger)) + model.encode()[1]
    assert b"joe" not in kept
    assert "joe" not in repr(model.pool._modelled.regression.state())
    assert "joe" not in repr(learned(ledger, ["one"], {}))
    again = decode(encode(ledger))
    for each in (ledger, again):
        fold(each, [], copy.log.thread)
    assert differences(again, ledger) == []


def test_without_users_rankings_are_told_apart() -> None:
    """One of twenty items is one, whether shown at once or confirmed item by item."""
    for counted in (True, False):
        copy = Copy(Log(), variants={"one": "ucb1"}, seed=1, counted=counted)
        copy.add(*(f"a{number}" for number in range(6)))
        begin(copy, {"one": SPEC})
        for number in range(5):
            (model,) = copy.desk.ledger.models
            assert not len(model.pool.encoders()[0])
            name = copy.rank(6, at=START + number, context={"plan": "free"}).event.key
            copy.flush()
            if not counted:
                for item in [f"a{number}" for number in range(6)]:
                    copy.write(copy.desk.sort_seen([(name, item)], START + number).drafts)
                    copy.flush()
        assert model.pool.encoders()[0].names == ["plan=free"]
        copy.check(START + 5)


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
            ranking = client.rank(4, context={"likes": likes, "secret": f"s{number}"}, segment="web")
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
        assert model["behind"] >= 0
        assert model["columns"] == {
            "people": {"used": 2, "most": 16, "left_out": []},
            "items": {"used": 2, "most": 32, "left_out": []},
        }
        assert 'hellinger_model_behind{variant="personal"}' in http.get("/metrics").text
        for row in model["calibration"]:
            assert row["impressions"] >= 20
            assert 0 <= row["low"] <= row["observed"] <= row["high"] <= 1
        assert http.get("/v1/experiments/nobody/models").status_code == 404
        assert all(row.index is not None for row in client.item("i3").variants.values())
        assert {row["context"]["likes"] for row in client.export()} == {"s", "a"}
        refused = http.post("/v1/experiments/main/phases", json={"variants": {"x": "ucb1(model=nothing)"}})
        assert (refused.status_code, "unknown model 'nothing'" in refused.text) == (422, True)


def test_classes_of_predictions_of_which_little_is_known_are_joined() -> None:
    """A lucky click among a few impressions, predicted to earn none, was a point of its own at the edge."""
    table = [[0.002, 100.0, 1.0], [3.0, 1000.0, 12.0], [4.0, 800.0, 6.0], [20.0, 900.0, 19.0], [0.6, 1.0, 1.0]]
    assert joined(table) == [[pytest.approx(7.002), 1900.0, 19.0], [20.6, 901.0, 20.0]]
    assert joined(table[:2]) == [[pytest.approx(3.002), 1100.0, 13.0]]
    assert joined([[0.5, 19.0, 1.0]]) == joined([]) == []


def test_learning_from_all_after_learning_from_its_own() -> None:
    """Late rewards of rankings that others made before count against impressions that the model knows."""
    life = Copy(Log(), 100, {"one": "ucb1"}, seed=3)
    for number in range(6):
        life.add(f"x-{number}", features={"topic": "art"})
    begin(life, {"one": SPEC, "two": "ucb1"})
    made = [life.rank(2, at=START + number, context=OLD) for number in range(20)]
    life.flush()
    begin(life, {"one": SPEC, "two": "ucb1"}, "shared")
    for ranking in made:
        for item in ranking.fields["items"]:
            life.give(ranking.event.key, item, at=START + 30)
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


# Predictions, and what came of them ---------------------------------------------------------------------


def test_a_prediction_is_made_before_its_impression_is_learned() -> None:
    """And what the impression earns counts where it was predicted, not where the model would put it by then."""
    model = Modelled("greedy", "logistic(strength=2, mean=0.3)", 1)
    model.begin([Placing(5, 0.0, 0.0, (), None, False)], 0.0)
    model.catch_up()
    for number in range(40):
        (predicted,), _ = model.pool.predict([5])
        before = model.calibration.table.copy()
        where = ShownIn(f"r{number}", [2], number, number + 100)
        model.observe([5], 1.0, 0.0, None, where)
        model.catch_up()
        (kind,) = np.flatnonzero((model.calibration.table != before).any(axis=1))
        np.testing.assert_allclose(model.calibration.table[kind] - before[kind], [predicted, 1.0, 0.0])
        if number % 3 == 0:
            model.observe([5], 0.0, 1.0, None, where)
            model.catch_up()
            assert model.calibration.table[kind, 2] == before[kind, 2] + 1.0
    assert model.calibration.table[:, 2].sum() == 14
    again = Modelled.decode(*model.encode())
    assert again.digest() == model.digest()
    for each in (model, again):
        each.observe([5], 0.0, 1.0, None, ShownIn("r39", [2], 39, 139))
        each.catch_up()
    assert again.digest() == model.digest()


def test_predictions_are_remembered_while_they_can_be_rewarded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hellinger.ledger.calibration.MOST", 100)
    judged = Calibration()
    for number in range(2000):
        judged.show(f"r{number}", number, number + 400, [0, 3], np.array([0.1, 0.2]))
        assert len(judged) <= 100
        judged.reward(f"r{number}", 3, 1.0)
        judged.reward(f"r{number}", 1, 1.0)  # never shown
    judged.reward("r0", 3, 1.0)  # long forgotten
    m, n, s = judged.table.sum(axis=0)
    assert 200 < n < 1000  # a sample of all times
    assert (s, m) == (n / 2, pytest.approx(0.15 * n))
    assert len(judged) > 50


# Other versions -----------------------------------------------------------------------------------------


def outdated(parts: Iterable[bytes], change: Callable[[dict[str, Any], bytes], bytes]) -> bytes:
    """A snapshot whose last part, a model's pool, is another version's."""
    blocks = list(_blocks(b"".join(parts)))
    header = orjson.loads(blocks[0])
    blocks[-1] = change(header["models"]["one"], blocks[-1])
    blocks[0] = orjson.dumps(header)
    return b"".join(len(block).to_bytes(8, "big") + block for block in blocks)


def other_edition(about: dict[str, Any], data: bytes) -> bytes:
    about["edition"] = 1
    return data


def other_format(about: dict[str, Any], data: bytes) -> bytes:
    body = re.sub(rb'"format": \d+', b'"format": 99', data[:-32], count=1)
    return body + hashlib.blake2b(body, digest_size=32).digest()


@pytest.mark.parametrize("change", [other_edition, other_format])
def test_what_another_version_has_learned_is_learned_again(
    copy: Copy, change: Callable[[dict[str, Any], bytes], bytes], tmp_path: Path
) -> None:
    ledger = copy.desk.ledger
    damaged = outdated(encode(ledger), change)
    with pytest.raises(OutdatedError):
        decode([damaged])
    with closing(open_store(f"sqlite:///{tmp_path}/log.db")) as store:
        store.append([Event(*event[1:]) for event in copy.log.events[: ledger.seq]], 0)
        store.save_snapshot(ledger.seq, [damaged])
        assert differences(recover(store), ledger) == []
        assert differences(recover_at(store, ledger.seq), ledger) == []
        assert check(store) == []
        # behind the base of compaction there is nothing to learn from: models begin there, in every replica alike
        store.save_snapshot(ledger.seq, [damaged], base=True)
        one, two = recover(store), recover(store, base=True)
        assert differences(one, two) == []
        assert check(store) == []
    model = one.models.of["one"]
    assert (len(model.pool), model.began) == (len(ledger.models.of["one"].pool), ledger.seq)
    assert model.pool.rounds == ledger.rounds(variants=["one"])
    assert not any(each.effect for each in model.pool.effects())


def test_contexts_leave_with_their_rankings(copy: Copy, tmp_path: Path) -> None:
    """After ``retention_days`` no event says who asked; what was learned of them stays, and what follows is learned."""
    ledger = copy.desk.ledger
    with closing(open_store(f"sqlite:///{tmp_path}/log.db")) as store:
        store.append([Event(*event[1:]) for event in copy.log.events[: ledger.seq]], 0)
        half = next(event.seq for event in copy.log.events if event.at >= START + 75)
        compact(store, before=START + 75 + SLACK, window=0)
        compact(store, before=START + 75, window=0)  # the same once more changes nothing
        said = [event.seq for event in store.read(0, 1 << 20) if '"context"' in event.body]
        assert said
        assert min(said) >= half
        compact(store, before=START + 75 + 2 * SLACK, window=0)
        left = store.read(0, 1 << 20)
        assert left
        assert not any("context" in event.body or "likes" in event.body for event in left)
        assert differences(recover(store), ledger) == []
        assert check(store) == []


# Where it was shown -------------------------------------------------------------------------------------


def said(copy: Copy, at: int = START) -> None:
    """Let the log have the setting ``positions``, as a service does when it starts."""
    copy.write(copy.desk.say_positions(at))
    copy.flush()


def counts_by(copy: Copy, variant: str, worth: list[float] | None) -> None:
    """A model's counts are the ledger's, with every impression worth what the curve in force says."""
    ledger, model = copy.desk.ledger, copy.desk.ledger.models.of[variant]
    model.catch_up()
    lacks = None if worth is None else lacks_of(worth)
    sources = ledger.sources(variant, shared=model.shared)
    slots = ledger.catalogue.find(np.array(sorted(model.members)))
    n, s = ledger.sums(slots, variants=sources, lacks=lacks)
    stats = [model.pool.stats(since) for since in sorted(model.members)]
    assert [[each.impressions, each.rewards] for each in stats] == np.stack([n, s], axis=1).tolist()
    assert model.pool.rounds == ledger.rounds(variants=sources, lacks=lacks)


def test_a_model_and_its_prior_count_impressions_alike() -> None:
    """By what the log says of positions, and not by a replica's own setting: all have the same model."""
    life = Copy(Log(), variants={"one": "cold-start"}, seed=1, positions=[1.0, 0.5, 0.25])
    life.add(*(f"i{number}" for number in range(20)))
    begin(life, {"one": SPEC, "two": "cold-start"})
    for number in range(200):
        life.rank(3, at=START + number)
        if number == 100:
            life.flush()
            counts_by(life, "one", None)
            said(life)
    life.flush()
    counts_by(life, "one", [1.0, 0.5, 0.25])
    fits = {wanted.variant: wanted for wanted in due(life.desk.state)}
    for fit in fits.values():
        assert fit.lacks is not None
        assert fit.lacks.tolist() == lacks_of([1.0, 0.5, 0.25]).tolist()
    life.check(START + 200)


def test_the_log_has_the_setting_once_and_the_last_to_start_has_its_way() -> None:
    log = Log()
    one, two = (Copy(log, seed=seed, positions=how) for seed, how in enumerate(["none", (1.0, 0.5)]))
    for copy, setting in ((one, "none"), (two, [1.0, 0.5]), (one, [1.0, 0.5]), (two, [1.0, 0.5])):
        copy.flush()
        said(copy)
        assert copy.desk.ledger.curve[1]["setting"] == setting
    assert [event.kind for event in log.events] == ["positions", "positions"]
    # another curve leaves the setting as it is
    two.write([draft({(0, 4): [90.0, 30.0, 20.0, 10.0]}, two.desk.ledger.curve, START)])
    two.flush()
    assert two.desk.ledger.curve[1]["setting"] == [1.0, 0.5]
    assert two.desk.ledger.worth.of(3).tolist() == [1.0, 0.5, 0.5]
    two.check()
    usual = Copy(Log())
    said(usual)
    assert usual.log.events == []


def test_another_curve_counts_what_a_model_has_learned_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """All at once or some items at a time; what items were shown counts by it, what people like stays."""
    monkeypatch.setattr("hellinger.ledger.modelled.REFRESHED", 5)
    copy = lived()
    copy.check(START + 150)
    model, ledger = copy.desk.ledger.models.of["one"], copy.desk.ledger
    items = sorted(model.members)
    means, effects = model.pool.predict(items)[0], model.pool.effects()
    counts_by(copy, "one", None)
    copy.write([draft({(0, 3): [900.0, 90.0, 30.0]}, ledger.curve, START + 150)])
    copy.flush()
    counts_by(copy, "one", ledger.curve[1]["worth"])
    assert model.pool.effects() == effects
    n, _ = ledger.sums(ledger.catalogue.find(np.array(items)), variants=["one"])
    shown = n > 0
    ratio = np.array([model.pool.stats(since).impressions for since in items])[shown] / n[shown]
    rise = (model.pool.predict(items)[0] / means)[shown]
    assert ratio.min() < 0.5  # one that was always at the head has 1
    assert np.median(rise[ratio < 1]) > 1.1
    copy.check(START + 150)
    whole = Ledger()
    fold(whole, copy.log.events, copy.log.thread)
    assert differences(whole, ledger) == []


def test_positions_of_a_life_are_learned_by_their_worth() -> None:
    """What a model predicts at a position is less where it is looked at less, and so it was observed."""
    copy = Copy(Log(), variants={"one": "ucb1"}, seed=1, positions=(1.0, 0.1))
    copy.add(*"ab")
    begin(copy, {"one": SPEC})
    said(copy)
    rng = random.Random(3)
    for number in range(400):
        ranking = copy.rank(2, at=START + number, context=rng.choice([YOUNG, OLD]))
        copy.flush()
        for item, looks in zip(ranking.fields["items"], (0.5, 0.05), strict=True):
            if rng.random() < looks:
                copy.give(ranking.event.key, item, at=START + number)
    copy.flush()
    copy.check(START + 400)
    counts_by(copy, "one", [1.0, 0.1])
    model = copy.desk.ledger.models.of["one"]
    for context in (YOUNG, OLD):
        means, _ = model.pool.predict(sorted(model.members), context=context)
        assert means == pytest.approx([0.5, 0.5], abs=0.15)
    predicted, n, s = model.calibration.table.sum(axis=0)
    assert n == 800
    assert s / 1.3 < predicted < 1.3 * s


# Compilation --------------------------------------------------------------------------------------------

LIFE = """
import gc, numpy as np
from numba.core.dispatcher import Dispatcher
from hellinger.engine.warming import warm_policies
from hellinger.ledger.modelled import Modelled, Placing, ShownIn, split_model
from hellinger.policies import Prior
from hellinger._jit import entry

def compiled():
    return {d.py_func.__qualname__: len(d.overloads) for d in gc.get_objects() if isinstance(d, Dispatcher)}

spec = %r
warm_policies([spec])
before = compiled()
model = Modelled(*split_model(spec), 3)
model.begin([Placing(4, 5.0, 1.0, (), None, False)], 5.0)
model.catch_up()
for number in range(300):
    features = '{"topic":"t%%d","length":%%d.5,"words":["a","b"],"text":"one of many"}' %% (number %% 5, number)
    about = features if number %% 4 else None
    model.place([Placing(10 + number, float(number %% 2), 0.0, ("t",), about, number %% 50 == 7)])
    model.catch_up()
contexts = [None, '{"age":3}', '{"age":30,"city":"Rome"}', '{"city":"Oslo","likes":["a","c"]}', '{"text":"a b c"}']
for number in range(300):
    shown = [10 + (number * 7 + j) %% 300 for j in range(5)]
    where = ShownIn("r%%d" %% number, range(5), number, number + 50)
    about = contexts[number %% 5]
    model.observe(shown, 1.0, 0.0, about, where)
    model.observe(shown[:1], 0.0, 1.0, about, where._replace(positions=[0]))
    model.observe(shown, np.full(5, 3.0), np.zeros(5), None)
    model.observe(shown, np.full(5, 0.3), 0.0, about, where._replace(name="s%%d" %% number))
    model.catch_up()
    model.pool.pick(5, context={"age": 3.0, "new": "x"} if number %% 2 else None, count=False, seed=number)
    if number %% 60 == 20:
        model.remove(10 + number)
        model.hide(11 + number, True)
        model.set_prior(Prior(2.0, 50.0, 100.0).state())
        model.recount(np.array(sorted(model.members)), np.full(len(model.members), 2.5), 900.0)
    model.catch_up()
model.pool.pick(5, context={}, tags=["t"], exclude=[40], among=[41, 43, 44, 40], count=False)
model.pool.pick(500, context={"age": 1}, count=False)
model.pool.predict([41], context={"age": 2})
model.pool.scores([41, 43])
model.pool.explain(41, context={"city": "Rome"})
model.pool.effects()
Modelled.decode(*model.encode())
after = compiled()
print({name: (before.get(name, 0), count) for name, count in after.items() if before.get(name, 0) != count})
"""


@pytest.mark.parametrize("spec", [SPEC, "linucb(alpha=1.0, model=linear(per_item=true))"])
def test_all_that_a_model_computes_is_compiled_beforehand(spec: str) -> None:
    """Nothing is compiled, or read from disk, on the loop in all its life: rankings waited seconds for it."""
    done = subprocess.run([sys.executable, "-c", LIFE % spec], capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("{}\n", 0), done.stderr
