"""Features of items in the service: what they tell is learned for the prior of variants without a model."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import orjson

import hellinger
from hellinger.client import CountRow, NewItem
from hellinger.engine import describing
from hellinger.engine.state import HOUR
from hellinger.experiment import Split
from hellinger.models import hashed
from hellinger.policies import Prior
from ledger_model import START, Log
from lives import Copy, same_as_rebuilt
from served import serving

RATES = {"drama": 0.08, "crime": 0.04, "news": 0.02, "sport": 0.01}


def described(**options: Any) -> Copy:
    """A copy with items whose genres differ, far more than the items of one genre do."""
    copy = Copy(Log(), variants={"one": "cold-start"}, split=Split({"one": 1.0}), seed=1, **options)
    rng, rows = np.random.default_rng(5), []
    for number in range(120):
        genre = list(RATES)[number % 4]
        expires = START + HOUR if number >= 80 else None
        copy.add(f"i{number}", features={"genre": [genre], "length": float(number % 7)}, expires_at=expires)
        rows.append((f"i{number}", 300, float(rng.binomial(300, RATES[genre]))))
    copy.bring(rows)
    copy.chores(START)
    return copy


def effects(copy: Copy) -> dict[str, float]:
    prior = Prior.from_state(copy.desk.ledger.priors["one", ""][1]["prior"])
    return {} if prior.effects is None else {str(column.name): column.weight for column in prior.effects.columns}


def index(copy: Copy, *names: str) -> list[float]:
    slots = [copy.desk.ledger.catalogue.slots[name] for name in names]
    return list(map(float, copy.desk.pools.of("one").scores(slots)))


def test_a_new_item_ranks_by_what_its_features_tell() -> None:
    copy = described()
    found = effects(copy)
    assert found["genre=drama"] > 0.5 > -0.5 > found["genre=sport"]
    copy.add("new-drama", features={"genre": ["drama"]})
    copy.add("new-sport", features={"genre": "sport"})
    copy.add("new-odd", features={"genre": "x" * 1000, "list": ["y"] * 1000})
    copy.add("new", group=["a"])
    drama, sport, odd, alone = index(copy, "new-drama", "new-sport", "new-odd", "new")
    assert drama > alone > sport
    assert odd == alone
    same_as_rebuilt(copy, START)
    copy.add("new-drama", features={"genre": ["sport"]})
    copy.add("new", group=["a"], features={"genre": "drama"})
    copy.add("new-odd")
    assert index(copy, "new-drama", "new", "new-odd") == [sport, drama, alone]
    same_as_rebuilt(copy, START)


def test_items_that_have_expired_still_tell_what_features_are_worth() -> None:
    copy = described(forget_after=2 * HOUR)
    before = effects(copy)
    copy.chores(START + HOUR)
    for number in range(80):
        copy.turn(f"i{number}", "deleted")
    for genre in RATES:
        copy.add(f"late-{genre}", at=START + HOUR, features={"genre": genre})
    copy.bring([(f"late-{genre}", 10_000, 10_000 * rate) for genre, rate in RATES.items()])
    copy.chores(START + HOUR)
    after = effects(copy)
    assert set(after) >= {"genre=drama", "genre=sport"}
    assert after["genre=drama"] > 0.3
    assert before["genre=drama"] > 0.3
    same_as_rebuilt(copy, START + HOUR)


def test_names_are_read_only_where_they_are_asked_for() -> None:
    texts = {3: '{"genre":["drama"]}', 5: '{"length":2.0}'}
    assert describing.features_of(texts, np.array([1, 3])) == [None, {"genre": ["drama"]}]
    assert describing.features_of(texts, np.array([1, 2])) is None
    assert describing.features_of({}, np.array([1])) is None
    none = np.empty(0, np.int64)
    told = describing.described(texts, np.array([3, 5, 7]), np.array([1, 2, 3]), none, (np.empty(0), np.empty(0)), [])
    rows = told.rows(np.array([0, 2, 1]))
    assert rows.start.tolist() == [0, 1, 1, 2]
    assert [str(told.named(key)) for key in rows.key.tolist()] == ["genre=drama", "length"]


def test_encoded_features_are_limited_in_bytes() -> None:
    few = [f'{{"length":{j}.0}}' for j in range(1000)]
    words = [",".join(f'"word {j} {k}"' for k in range(100)) for j in range(1000)]
    many = [f'{{"words":[{each}]}}' for each in words]
    for texts, least in ((few, 100), (many, 10)):
        known = describing.Encodings(100_000)
        for j, text in enumerate(texts):
            keys, values = known.of(text)
            expected = hashed(orjson.loads(text))
            assert (list(keys), list(values)) == expected[:2]
            assert known.of(texts[0]) is known.of(texts[0])
            assert known.of(text) is known.of(text)
            assert known.bytes <= 100_000
            assert j < least or len(known) >= least
        assert known.bytes == sum(describing._size(*entry) for entry in known._known.items())
        taken = sum(sys.getsizeof(text) + sum(map(sys.getsizeof, made)) for text, made in known._known.items())
        assert taken < known.bytes < 4 * taken
    assert list(describing.Encodings(0).of(few[0])[1]) == [0.0]


def test_what_features_tell_over_http(tmp_path: Path) -> None:
    variants = "plain = cold-start, hellinger-ucb"
    with serving(tmp_path, variants=variants) as service, hellinger.Client(service.url) as client:
        genres = list(RATES)
        client.add_items(NewItem(f"i{j}", features={"genre": genres[j % 4]}) for j in range(200))
        counts = [CountRow(f"i{j}", 500, round(500 * RATES[genres[j % 4]]) + j % 3) for j in range(200)]
        client.import_counts("then", counts, variant="plain")
        url = f"{service.url}/v1/experiments/main/models"
        while not (found := httpx.get(url).json()["models"]):
            time.sleep(0.2)
        (prior,) = found
        assert (prior["variant"], prior["policy"], prior["model"]) == ("plain", "cold-start", "prior")
        assert {each["name"] for each in prior["effects"]} == {f"genre={genre}" for genre in RATES}
        assert all(each["low"] < each["effect"] < each["high"] for each in prior["effects"])
        assert sum(row["impressions"] for row in prior["calibration"]) == 100_000
        assert all(row["low"] < row["predicted"] < row["high"] for row in prior["calibration"])
