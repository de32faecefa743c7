"""The service's answers over HTTP, field by field, and what becomes of them when it is started anew."""

from __future__ import annotations

import asyncio
import io
import itertools
import json
import math
import threading
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import polars as pl
import pytest
from fastapi.exceptions import RequestValidationError
from prometheus_client.parser import text_string_to_metric_families
from pydantic import ValidationError

from hellinger.engine import service as service_module
from hellinger.engine.drafts import Query
from hellinger.engine.settings import Settings
from hellinger.events import now as really_now
from hellinger.ledger.modelled import read_features
from hellinger.models.encoder import MOST_KEYS
from hellinger.serve import listing
from hellinger.serve.answers import ApiError
from hellinger.serve.export import SCHEMA
from hellinger.serve.models import NewItemBody
from hellinger.serve.routes._common import described
from serving_app import Api, item_path, running

LIMITS = {"max_batch": 60, "max_exclude": 5, "max_tags": 4, "max_k": 100, "max_id_length": 40, "max_body_bytes": 20_000}
LIMITS |= {"max_group_levels": 2, "max_features": 3, "max_features_bytes": 100}
VARIANTS = ["hellinger-ucb", "kl-ucb", "ucb1"]


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """One service for all tests that do not mind each other; each has items with a tag of its own."""
    with running(tmp_path_factory.mktemp("api"), variants=VARIANTS, **LIMITS) as started:
        yield started


_numbers = itertools.count()


@pytest.fixture
def tag(api: Api) -> str:
    """A tag that no other test uses."""
    return f"tag-{next(_numbers)}"


def refused(response: httpx.Response, status: int, code: str, *words: str) -> None:
    """The answer is an error in the one shape, which says these words."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/json"
    error = response.json()
    assert list(error) == ["error"]
    assert set(error["error"]) == {"code", "message", "trace_id"}
    assert error["error"]["code"] == code
    assert error["error"]["trace_id"] == response.headers["x-request-id"]
    for word in words:
        assert word in error["error"]["message"], error


# Items ----------------------------------------------------------------------------------------------------


def test_contents_are_added_and_changed(api: Api, tag: str) -> None:
    assert api.add("n1", "n2", tags=[tag]) == {"added": 2, "updated": 0, "unchanged": 0}
    assert api.add("n2", "n3", "n3", tags=[tag, tag, "zz"], metadata={"x": [1, None, {"y": "ü"}]}) == {
        "added": 1,
        "updated": 1,
        "unchanged": 0,
    }
    assert api.add("n1", tags=[tag]) == {"added": 0, "updated": 0, "unchanged": 1}
    found = api.item("n3")
    assert set(found) == {
        "id",
        "state",
        "tags",
        "group",
        "features",
        "added_at",
        "expires_at",
        "metadata",
        "impressions",
        "rewards",
        "variants",
    }
    assert (found["id"], found["state"], found["tags"]) == ("n3", "shown", sorted([tag, "zz"]))
    assert (found["impressions"], found["rewards"], found["expires_at"]) == (0, 0, None)
    assert found["metadata"] == {"x": [1, None, {"y": "ü"}]}
    assert list(found["variants"]) == VARIANTS
    for standing in found["variants"].values():
        assert set(standing) == {"impressions", "rewards", "estimate", "low", "high", "index", "left", "rankings_left"}
        assert (standing["estimate"], standing["low"], standing["high"], standing["left"]) == (None, 0, 1, None)
    assert found["variants"]["ucb1"]["index"] is None
    assert found["variants"]["kl-ucb"]["index"] == 1
    assert api.item("n1")["metadata"] is None


def test_contents_have_a_group_and_features(api: Api, tag: str) -> None:
    given = {"genre": ["drama", "crime"], "length": 4, "live": True, "author": None}
    kept = {"genre": ["drama", "crime"], "length": 4.0, "live": True}
    assert api.add("g1", tags=[tag], group=["sport", "story-1"], features=given)["added"] == 1
    assert api.add("g1", tags=[tag], group=["sport", "story-1"], features=kept)["unchanged"] == 1
    found = api.item("g1")
    assert (found["group"], found["features"]) == (["sport", "story-1"], kept)
    assert [row["group"] for row in api.get("/v1/items", tag=tag)["items"]] == [["sport", "story-1"]]
    assert api.add("g1", tags=[tag], group="story-1", features={"headline": "So\nit ends\u0000"})["updated"] == 1
    assert (api.item("g1")["group"], api.item("g1")["features"]) == (["story-1"], {"headline": "So\nit ends\u0000"})
    assert api.add("g1", tags=[tag], group=None, features={"author": None})["updated"] == 1
    assert api.add("g1", tags=[tag], group=[], features={})["unchanged"] == 1
    assert (api.item("g1")["group"], api.item("g1")["features"]) == ([], None)


WRONG_FEATURES: list[tuple[Any, int, list[str]]] = [
    (["a"], 422, ["object"]),
    ({"": 1}, 422, ["at least 1"]),
    ({"a": {"b": 1}}, 422, ["'a' must be a finite number, true or false, text, or a list of texts"]),
    ({"a": ["x", 1]}, 422, ["'a' must be"]),
    ({"a": 10**400}, 422, ["'a' must be"]),
    ({"a": "x" * 201}, 422, ["a category has at most 200 characters"]),
    ({"a" * 101: 1}, 422, ["a feature's key must be"]),
    ({f"f{n}": 1 for n in range(4)}, 413, ["at most 3 fields (max_features), but got 4"]),
    ({f"f{n}": 1 for n in range(65)}, 413, ["at most 3 fields (max_features), but got 65"]),
    ({f"f{n}": 1 for n in range(1001)}, 413, ["at most 3 fields (max_features), but got 1001"]),
    ({"a": "x" * 100}, 413, ["at most 100 bytes of JSON (max_features_bytes), but got 108"]),
]


@pytest.mark.parametrize(("features", "status", "words"), WRONG_FEATURES)
def test_features_and_contexts_say_what_is_wrong(api: Api, features: Any, status: int, words: list[str]) -> None:
    code = {422: "invalid", 413: "too_large"}[status]
    item = {"id": "wrong", "features": features}
    refused(api.send("POST", "/v1/items", json={"items": [item]}), status, code, "features", *words)
    refused(api.send("POST", "/v1/rank", json={"context": features}), status, code, "context", *words)


def test_a_raised_limit_of_features_is_in_force() -> None:
    many = {f"f{number}": 1.0 for number in range(101)}
    features = NewItemBody.model_validate({"id": "a", "features": many}).features
    assert described("features", Settings(max_features=101), features) == many == read_features(json.dumps(many))
    with pytest.raises(ApiError, match=r"at most 100 fields \(max_features\), but got 101"):
        described("features", Settings(max_features=100), features)
    Settings(max_features=MOST_KEYS)
    with pytest.raises(ValidationError, match="max_features"):
        Settings(max_features=MOST_KEYS + 1)


@pytest.mark.parametrize(
    ("group", "status", "words"),
    [
        (["a", "b", "c"], 413, ["`group` must have at most 2 entries, but got 3"]),
        ("x" * 41, 422, ["`group` must have at most 40 characters, but got 41"]),
        ("", 422, ['`items[0].group` must have at least 1 characters, but got ""']),
        ([""], 422, ['`items[0].group[0]` must have at least 1 characters, but got ""']),
        (["a", None], 422, ["`items[0].group[1]` must be text, but got null"]),
        (5, 422, ["`items[0].group` must be text, or a list, but got 5"]),
        ({"a": 1}, 422, ['`items[0].group` must be text, or a list, but got {"a":1}']),
    ],
)
def test_groups_say_what_is_wrong(api: Api, group: Any, status: int, words: list[str]) -> None:
    code = {422: "invalid", 413: "too_large"}[status]
    response = api.send("POST", "/v1/items", json={"items": [{"id": "wrong", "group": group}]})
    refused(response, status, code)
    assert [response.json()["error"]["message"]] == words


def test_what_is_wrong_beside_a_group_is_said_too(api: Api) -> None:
    """Of other fields in their order, and of none by another name than the client's."""
    items = [{"id": 1, "group": 3}, {"group": "g", "features": {"": 1}, "str": 2}]
    response = api.send("POST", "/v1/items", json={"items": items[:1]})
    assert response.json()["error"]["message"] == (
        "`items[0].id` must be text, but got 1; `items[0].group` must be text, or a list, but got 3"
    )
    response = api.send("POST", "/v1/items", json={"items": items[1:]})
    assert response.json()["error"]["message"] == (
        '`items[0].id` must be given; a key of `items[0].features` must have at least 1 characters, but got ""; '
        "`items[0].str` is not known here"
    )


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("2030-01-31T12:00:00Z", "2030-01-31T12:00:00.000Z"),
        ("2030-01-31T12:00:00", "2030-01-31T12:00:00.000Z"),
        ("2030-01-31T12:00:00.123456+02:00", "2030-01-31T10:00:00.123Z"),
        ("2030-01-31", "2030-01-31T00:00:00.000Z"),
        (None, None),
    ],
)
def test_times_without_a_zone_are_utc(api: Api, tag: str, given: str | None, kept: str | None) -> None:
    api.add(tag, expires_at=given)
    assert api.item(tag)["expires_at"] == kept


def test_states_and_deletion(api: Api, tag: str) -> None:
    api.add("s1", tags=[tag])
    for action, state, ranked in (("/hide", "hidden", []), ("/unhide", "shown", ["s1"]), ("/hide", "hidden", [])):
        assert api.post(item_path("s1", action)) == {"id": "s1", "state": state}
        assert [item["id"] for item in api.rank(tags=[tag])["items"]] == ranked
        assert api.item("s1")["state"] == state
    response = api.send("DELETE", item_path("s1"))
    assert response.json() == {"id": "s1", "state": "deleted"}
    for method, action in (("GET", ""), ("DELETE", ""), ("POST", "/hide"), ("POST", "/unhide")):
        refused(api.send(method, item_path("s1", action)), 404, "not_found", "'s1'")
    api.add("s1", tags=[tag])
    assert api.item("s1")["impressions"] == 0


ODD = ["a/b", "ä ö", "100%", "a%2Fb", "x/hide", "what?=1#f", "日本語", " lead", "a+b&c", "a//b", "/", "'\"\\", "𝔘"]


@pytest.mark.parametrize("name", ODD)
def test_ids_of_any_kind(api: Api, tag: str, name: str) -> None:
    api.add(name, tags=[tag])
    assert api.item(name)["id"] == name
    assert api.post(item_path(name, "/hide"))["state"] == "hidden"
    assert api.post(item_path(name, "/unhide"))["state"] == "shown"
    answer = api.rank(among=[name], tags=[tag], user=name, segment="odd")
    assert [item["id"] for item in answer["items"]] == [name]
    assert api.feedback((answer["ranking_id"], name))["accepted"] == 1
    assert api.item(name)["rewards"] == 1
    assert [row["id"] for row in api.get("/v1/items", tag=tag, search=name)["items"]] == [name]
    assert api.post("/v1/counts", {"batch": name, "rows": [{"item": name, "impressions": 1, "rewards": 0}]})["accepted"]
    assert api.send("DELETE", item_path(name)).json() == {"id": name, "state": "deleted"}


def test_lists_paged_filtered_and_sorted(api: Api, tag: str) -> None:
    names = [f"{tag}-{n:02d}" for n in range(25)]
    api.add(*names, tags=[tag])
    rows: list[dict[str, Any]] = [
        {"item": name, "impressions": 100 + 7 * n % 50, "rewards": 3 * n % 20} for n, name in enumerate(names)
    ]
    api.post("/v1/counts", {"batch": tag, "rows": rows})
    api.post(item_path(names[3], "/hide"))

    def listed(**params: Any) -> list[str]:
        found, cursor, sizes = [], None, []
        while True:
            page = api.get("/v1/items", tag=tag, limit=10, **params, **({"cursor": cursor} if cursor else {}))
            assert set(page) == {"items", "total", "next", "since"}
            found += [row["id"] for row in page["items"]]
            sizes.append(len(page["items"]))
            cursor = page["next"]
            if cursor is None:
                assert page["total"] == len(found)
                assert all(size == 10 for size in sizes[:-1])
                return found

    assert listed() == names[::-1]
    assert listed(sort="oldest") == names
    assert listed(sort="oldest", reverse=True) == names[::-1]
    by = {row["item"]: row for row in rows}
    for row in rows:
        row["estimate"] = row["rewards"] / row["impressions"]
    for sort in ("impressions", "rewards", "estimate"):
        found = listed(sort=sort)
        assert sorted(found) == names
        figures = [by[name][sort] for name in found]
        assert figures == sorted(figures, reverse=True)
    assert listed(state="hidden") == [names[3]]
    assert len(listed(state="shown")) == 24
    assert listed(state="graduated") == listed(state="expired") == listed(state="outclassed") == []
    assert listed(search=f"{tag}-1") == names[19:9:-1]
    assert api.get("/v1/items", tag="no such tag") == {"items": [], "total": 0, "next": None, "since": None}
    row = api.get("/v1/items", tag=tag, sort="oldest", limit=1)["items"][0]
    assert set(row) == {
        "id",
        "state",
        "tags",
        "group",
        "added_at",
        "expires_at",
        "impressions",
        "rewards",
        "estimate",
        "low",
        "high",
        "recent",
        "variants",
    }
    assert (row["impressions"], row["rewards"], row["estimate"]) == (100, 0, 0)
    assert set(row["variants"]["ucb1"]) == {"impressions", "rewards", "score", "left"}


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"limit": 0}, ["`limit`", ">= 1", "0"]),
        ({"limit": 1001}, ["`limit`", "<= 1000", "1001"]),
        ({"limit": "x"}, ["`limit`", '"x"']),
        ({"cursor": "?!"}, ["`cursor`", "'?!'"]),
        ({"cursor": "ü"}, ["`cursor`"]),
        ({"cursor": "LTE"}, ["`cursor`"]),
        ({"sort": "best"}, ["`sort`", '"best"']),
        ({"state": "gone"}, ["`state`", '"gone"']),
        ({"search": "x" * 1025}, ["`search`", "1024"]),
    ],
)
def test_lists_say_what_is_wrong(api: Api, params: dict[str, Any], words: list[str]) -> None:
    refused(api.send("GET", "/v1/items", params=params), 422, "invalid", *words)


# Rankings ---------------------------------------------------------------------------------------------------


def test_a_ranking(api: Api, tag: str) -> None:
    api.add(*(f"{tag}-{n}" for n in range(30)), tags=[tag])
    answer = api.post("/v1/rank", {"tags": [tag]})
    assert set(answer) == {"ranking_id", "variant", "items"}
    assert answer["variant"] in VARIANTS
    assert len(answer["items"]) == len({item["id"] for item in answer["items"]}) == 20
    for item in answer["items"]:
        assert set(item) == {"id", "score"}
        assert item["score"] is None or item["score"] == 1.0
    assert len(api.rank(100, tags=[tag])["items"]) == 30
    some = [f"{tag}-{n}" for n in (1, 2, 3)]
    got = api.rank(20, among=[*some, "nobody"], exclude=[some[0], "nobody"])
    assert sorted(item["id"] for item in got["items"]) == some[1:]
    assert api.rank(tags=[])["items"] == []


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ({"k": 0}, 422, ["`k`", ">= 1", "0"]),
        ({"k": 101}, 422, ["`k`", "<= 100", "101"]),
        ({"k": "many"}, 422, ["`k`", '"many"']),
        ({"k": 1.5}, 422, ["`k`", "1.5"]),
        ({"k": None}, 422, ["`k`"]),
        ({"k": 10**30}, 422, ["`k`"]),
        ({"k": True}, 422, ["`k`", "true"]),
        ({"K": 1}, 422, ["`K` is not known here"]),
        ({"user": "u" * 41}, 422, ["`user`", "40", "41"]),
        ({"segment": "s" * 41}, 422, ["`segment`", "40", "41"]),
        ({"user": ""}, 422, ["`user`"]),
        ({"user": "a\nb"}, 422, ["`user`"]),
        ({"user": 7}, 422, ["`user`", "7"]),
        ({"exclude": list("abcdef")}, 413, ["`exclude`", "5", "6"]),
        ({"among": list("abcdef")}, 413, ["`among`", "5", "6"]),
        ({"tags": list("abcde")}, 413, ["`tags`", "4", "5"]),
        ({"tags": "x"}, 422, ["`tags`", '"x"']),
        ([], 422, ["object"]),
    ],
)
def test_rankings_say_what_is_wrong(api: Api, body: Any, status: int, words: list[str]) -> None:
    code = {422: "invalid", 413: "too_large"}[status]
    refused(api.send("POST", "/v1/rank", json=body), status, code, *words)


def test_an_idempotency_key_gives_one_ranking(api: Api, tag: str) -> None:
    api.add(*(f"{tag}-{n}" for n in range(9)), tags=[tag])

    def requests() -> int:
        return sum(row["requests"] for row in api.get("/v1/experiments/main")["variants"])

    before = requests()
    first = api.rank(2, {"Idempotency-Key": tag}, tags=[tag])
    assert api.rank(2, {"Idempotency-Key": tag}, tags=[tag]) == first
    assert api.rank(7, {"Idempotency-Key": tag}) == first
    assert requests() == before + 1
    again = {"json": {"k": 3, "tags": [tag]}, "headers": {"Idempotency-Key": f"{tag} once more"}}
    answers = api.together([("POST", "/v1/rank", again)] * 20)
    assert {answer.status_code for answer in answers} == {200}
    assert len({answer.text for answer in answers}) == 1
    assert requests() == before + 2
    assert answers[0].json()["ranking_id"] != first["ranking_id"]
    shown = {item["id"] for item in [*answers[0].json()["items"], *first["items"]]}
    counts = {row["id"]: row["impressions"] for row in api.get("/v1/items", tag=tag)["items"]}
    assert sum(counts.values()) == 5
    assert {name for name, n in counts.items() if n} == shown
    assert api.feedback((first["ranking_id"], first["items"][0]["id"]))["accepted"] == 1
    for key in ("", "x" * 257):
        answer = api.send("POST", "/v1/rank", json={}, headers={"Idempotency-Key": key})
        refused(answer, 422, "invalid", "idempotency-key")


def test_rankings_at_once_show_different_contents(api: Api, tag: str) -> None:
    api.add(*(f"{tag}-{n}" for n in range(40)), tags=[tag])
    answers = api.together([("POST", "/v1/rank", {"json": {"k": 2, "tags": [tag]}})] * 20)
    shown: dict[str, list[str]] = {}
    for answer in answers:
        found = answer.json()
        shown.setdefault(found["variant"], []).extend(item["id"] for item in found["items"])
    assert sum(map(len, shown.values())) == 40
    for items in shown.values():
        assert len(items) == len(set(items))
    assert len({answer.json()["ranking_id"] for answer in answers}) == 20


# Feedback ---------------------------------------------------------------------------------------------------


def test_feedback_is_sorted_into_five(api: Api, tag: str) -> None:
    api.add(f"{tag}-a", f"{tag}-b", tags=[tag])
    answer = api.rank(2, tags=[tag])
    rid = answer["ranking_id"]
    events = [
        {"ranking_id": rid, "item": f"{tag}-a"},
        {"ranking_id": rid, "item": f"{tag}-a", "kind": "click"},
        {"ranking_id": rid, "item": f"{tag}-a", "kind": "like", "value": 0.5, "at": "2026-01-31T12:00:00Z"},
        {"ranking_id": rid, "item": f"{tag}-b", "kind": "comment", "value": 0.25, "at": "2026-01-31T12:00:00+02:00"},
        {"ranking_id": rid, "item": "not ranked"},
        {"ranking_id": "A" * 22, "item": f"{tag}-a"},
    ]
    outcome = api.post("/v1/feedback", {"events": events})
    rejected = outcome.pop("rejected")
    assert outcome == {"accepted": 3, "duplicate": 1, "late": 0, "unknown": 1}
    assert [(each["index"], "'not ranked'" in each["reason"]) for each in rejected] == [(4, True)]
    assert [api.item(f"{tag}-{x}")["rewards"] for x in "ab"] == [1, 0.25]
    again = api.post("/v1/feedback", {"events": events})
    assert (again["accepted"], again["duplicate"], again["unknown"], len(again["rejected"])) == (0, 4, 1, 1)
    assert [api.item(f"{tag}-{x}")["rewards"] for x in "ab"] == [1, 0.25]


def test_the_next_ranking_knows_of_the_last_feedback(api: Api, tag: str) -> None:
    names = [f"{tag}-{n}" for n in range(3)]
    api.add(*names, tags=[tag])
    api.post("/v1/counts", {"batch": tag, "rows": [{"item": name, "impressions": 50, "rewards": 5} for name in names]})
    for _ in range(10):
        answer = api.rank(3, tags=[tag])
        best = answer["items"][-1]["id"]
        before = api.item(best)["variants"][answer["variant"]]["index"]
        assert api.feedback((answer["ranking_id"], best))["accepted"] == 1
        standing = api.item(best)["variants"][answer["variant"]]
        assert standing["index"] > before
        n, s = standing["impressions"], standing["rewards"]
        assert standing["estimate"] == s / n
        assert 0 <= standing["low"] <= standing["estimate"] <= standing["high"] <= 1


@pytest.mark.parametrize("name", ["item", "state", "import", "leave/x", "A" * 21, "A" * 23, "..", "a" * 64])
def test_forged_requests_are_unknown_and_cost_nothing(api: Api, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(_: object) -> Any:
        raise AssertionError("the log was asked")

    monkeypatch.setattr(api.service.store, "thread", never)
    assert api.feedback((name, "x"))["unknown"] == 1
    assert api.post("/v1/impressions", {"events": [{"ranking_id": name, "item": "x"}]})["unknown"] == 1


@pytest.mark.parametrize(
    ("event", "words"),
    [
        ({"item": "x"}, ["`events[0].ranking_id` must be given"]),
        ({"ranking_id": "r"}, ["`events[0].item` must be given"]),
        ({"ranking_id": "r", "item": "x", "value": 1.5}, ["`events[0].value`", "<= 1", "1.5"]),
        ({"ranking_id": "r", "item": "x", "value": -1}, ["`events[0].value`", ">= 0", "-1"]),
        ({"ranking_id": "r", "item": "x", "value": "1"}, ["`events[0].value`"]),
        ({"ranking_id": "r", "item": "x", "kind": "seen!"}, ["`events[0].kind`"]),
        ({"ranking_id": "r", "item": "x", "kind": "a/b"}, ["`events[0].kind`"]),
        ({"ranking_id": "r", "item": "x", "kind": "k" * 33}, ["`events[0].kind`"]),
        ({"ranking_id": "r r", "item": "x"}, ["`events[0].ranking_id`"]),
        ({"ranking_id": "r" * 65, "item": "x"}, ["`events[0].ranking_id`", "64"]),
        ({"ranking_id": "r", "item": "x", "at": 5}, ["`events[0].at`"]),
        ({"ranking_id": "r", "item": "x", "at": "yesterday"}, ["`events[0].at`"]),
        ({"ranking_id": "r", "item": "x", "what": 1}, ["`events[0].what` is not known here"]),
    ],
)
def test_feedback_says_what_is_wrong(api: Api, event: dict[str, Any], words: list[str]) -> None:
    refused(api.send("POST", "/v1/feedback", json={"events": [event]}), 422, "invalid", *words)


BATCHES = {
    "/v1/items": ("items", {"id": "x"}),
    "/v1/feedback": ("events", {"ranking_id": "r", "item": "x"}),
    "/v1/impressions": ("events", {"ranking_id": "r", "item": "x"}),
    "/v1/counts": ("rows", {"item": "x", "impressions": 1, "rewards": 0}),
}


@pytest.mark.parametrize("path", BATCHES)
def test_batches_have_limits(api: Api, path: str) -> None:
    name, entry = BATCHES[path]
    extra = {"batch": "many"} if path == "/v1/counts" else {}
    refused(api.send("POST", path, json={name: [entry] * 61} | extra), 413, "too_large", f"`{name}`", "60", "61")
    refused(api.send("POST", path, json={name: []} | extra), 422, "invalid", f"`{name}`")
    refused(api.send("POST", path, json=extra), 422, "invalid", f"`{name}` must be given")


@pytest.mark.parametrize("path", [*BATCHES, "/v1/rank"])
def test_bodies_have_limits_and_must_be_json(api: Api, path: str) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(30):
            yield b" " * 1000

    json_type = {"content-type": "application/json"}
    refused(api.send("POST", path, content=b" " * 20_001, headers=json_type), 413, "too_large", "20000", "20001")
    refused(api.send("POST", path, content=pieces(), headers=json_type), 413, "too_large", "20000")
    refused(api.send("POST", path, content=b"{", headers=json_type), 400, "bad_json")
    refused(api.send("POST", path, content=b"{}"), 415, "unsupported_media_type", "application/json")
    refused(
        api.send("POST", path, content=b"{}", headers={"content-type": "application/jsonp"}),
        415,
        "unsupported_media_type",
    )
    refused(api.send("PUT", path, json={}), 405, "method_not_allowed", "POST")


@pytest.mark.parametrize(
    ("item", "words"),
    [
        ({"id": ""}, ["`items[0].id`"]),
        ({"id": "x" * 41}, ["`id`", "40", "41"]),
        ({"id": "x\x00"}, ["`items[0].id`"]),
        ({"id": 5}, ["`items[0].id`", "5"]),
        ({"id": "x", "tags": [""]}, ["`items[0].tags[0]`"]),
        ({"id": "x", "expires_at": "soon"}, ["`items[0].expires_at`", '"soon"']),
        ({"id": "x", "expires_at": 1e9}, ["`items[0].expires_at`"]),
        ({"id": "x", "expires_at": "9999-01-01T00:00:00Z"}, ["`items[0].expires_at`"]),
        ({"id": "x", "metadata": [1]}, ["`items[0].metadata`"]),
        ({"id": "x", "metadata": {"n": 2**64}}, ["`items[0].metadata`", "64"]),
        ({"id": "x", "title": "t"}, ["`items[0].title` is not known here"]),
    ],
)
def test_contents_say_what_is_wrong(api: Api, item: dict[str, Any], words: list[str]) -> None:
    refused(api.send("POST", "/v1/items", json={"items": [{"id": "good"}, item][::-1]}), 422, "invalid", *words)
    refused(api.send("GET", "/v1/items/good"), 404, "not_found")


def test_an_item_has_so_many_tags(api: Api, tag: str) -> None:
    many = {"id": f"{tag}-many", "tags": [f"t{n}" for n in range(5)]}
    given = {"items": [{"id": f"{tag}-few", "tags": [f"t{n}" for n in range(4)]}, many]}
    refused(api.send("POST", "/v1/items", json=given), 413, "too_large", "`tags`", "4", "5")
    refused(api.send("GET", f"/v1/items/{tag}-few"), 404, "not_found")
    assert api.post("/v1/items", {"items": given["items"][:1]})["added"] == 1


WRONG_LISTS: dict[str, dict[str, Any]] = {
    "/v1/rank": {"exclude": [0] * 1500, "tags": [0] * 1500, "among": [0] * 1500},
    "/v1/items": {"items": [{"id": 0, "tags": [0] * 1000}] * 5},
    "/v1/feedback": {"events": [{}] * 1500},
    "/v1/impressions": {"events": [{}] * 1500},
    "/v1/counts": {"batch": "b", "rows": [{}] * 1500},
}


@pytest.mark.parametrize("path", WRONG_LISTS)
def test_a_wrong_list_is_not_told_of_entry_by_entry(api: Api, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two million mistakes in four megabytes would take ten seconds and three gigabytes."""
    counts: list[int] = []
    errors_of = RequestValidationError.errors

    def counted(error: RequestValidationError) -> Any:
        found = errors_of(error)
        counts.append(len(found))
        return found

    monkeypatch.setattr(RequestValidationError, "errors", counted)
    refused(api.send("POST", path, json=WRONG_LISTS[path]), 422, "invalid", "[0]")
    assert counts
    assert max(counts) <= 6
    many = {f"x{n}": 0 for n in range(1500)}
    refused(api.send("POST", path, json=many), 422, "invalid", "rules", "1000")
    assert max(counts) <= 6
    few = api.send("POST", path, json={f"x{n}": 0 for n in range(20)})
    refused(few, 422, "invalid", "is not known here", "more")


@pytest.mark.parametrize(
    "text", ['{"a": "\\ud800"}', '{"a": NaN}', '{"a": 1e999}', '{"\\udfff": 1}', '{"a":' * 300 + "1" + "}" * 300]
)
def test_metadata_that_no_log_could_hold(api: Api, text: str) -> None:
    body = f'{{"items": [{{"id": "odd", "metadata": {text}}}]}}'
    answer = api.send("POST", "/v1/items", content=body.encode(), headers={"content-type": "application/json"})
    refused(answer, 422, "invalid", "`items[0].metadata`")


def test_nowhere(api: Api) -> None:
    refused(api.send("GET", "/v1/nothing"), 404, "not_found", "/docs")
    refused(api.send("PATCH", "/v1/items"), 405, "method_not_allowed", "GET, POST")


# Counts from elsewhere --------------------------------------------------------------------------------------


def test_a_batch_counts_once(api: Api, tag: str) -> None:
    api.add(f"{tag}-a", f"{tag}-b", tags=[tag])
    rows = [
        {"item": f"{tag}-a", "impressions": 10, "rewards": 2.5, "from": "2026-01-01T00:00Z", "to": "2026-01-01T01:00Z"},
        {"item": "nobody", "impressions": 1, "rewards": 0},
        {"item": f"{tag}-b", "impressions": 1, "rewards": 2},
        {"item": f"{tag}-b", "impressions": 1, "rewards": 0, "from": "2026-01-02T00:00Z", "to": "2026-01-01T00:00Z"},
    ]  # fmt: skip
    answer = api.post("/v1/counts", {"batch": tag, "rows": rows})
    rejected = answer.pop("rejected")
    assert answer == {"accepted": 1, "duplicate": False, "unknown": 1}
    assert [each["index"] for each in rejected] == [2, 3]
    assert "rewards=2.0 for impressions=1" in rejected[0]["reason"]
    again = api.post("/v1/counts", {"batch": tag, "rows": rows})
    assert (again["accepted"], again["duplicate"]) == (0, True)
    found = api.item(f"{tag}-a")
    assert (found["impressions"], found["rewards"]) == (10, 2.5)
    assert all(standing["impressions"] == 0 for standing in found["variants"].values())
    for variant, standing in found["variants"].items():  # everybody has learned it
        assert standing["index"] is not None, variant

    before = {row["variant"]: row for row in api.get("/v1/experiments/main")["variants"]}
    body = {"batch": f"{tag} 2", "variant": "kl-ucb", "rows": [{"item": f"{tag}-b", "impressions": 4, "rewards": 0.3}]}
    assert api.post("/v1/counts", body)["accepted"] == 1
    after = {row["variant"]: row for row in api.get("/v1/experiments/main")["variants"]}
    assert after["kl-ucb"]["impressions"] == before["kl-ucb"]["impressions"] + 4
    assert after["kl-ucb"]["reward"] == pytest.approx(before["kl-ucb"]["reward"] + 0.3, abs=1e-6)
    assert after["ucb1"] == before["ucb1"] | {
        k: after["ucb1"][k] for k in after["ucb1"] if k not in ("impressions", "reward")
    }
    found = api.item(f"{tag}-b")["variants"]
    assert (found["kl-ucb"]["impressions"], found["ucb1"]["impressions"]) == (4, 0)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"rows": [{"item": "x", "impressions": 1, "rewards": 0}]}, ["`batch` must be given"]),
        ({"batch": "b" * 41, "rows": [{"item": "x", "impressions": 1, "rewards": 0}]}, ["`batch`", "40", "41"]),
        ({"batch": "b", "variant": "no", "rows": [{"item": "x", "impressions": 1, "rewards": 0}]}, ["'no'", "kl-ucb"]),
        ({"batch": "b", "variant": "v" * 65, "rows": [{"item": "x", "impressions": 1, "rewards": 0}]}, ["64"]),
        ({"batch": "b", "rows": [{"item": "x", "impressions": 1.5, "rewards": 0}]}, ["`rows[0].impressions`", "1.5"]),
        ({"batch": "b", "rows": [{"item": "x", "impressions": -1, "rewards": 0}]}, ["`rows[0].impressions`", "-1"]),
        ({"batch": "b", "rows": [{"item": "x", "impressions": 1}]}, ["`rows[0].rewards` must be given"]),
    ],
)  # fmt: skip
def test_imports_say_what_is_wrong(api: Api, body: dict[str, Any], words: list[str]) -> None:
    refused(api.send("POST", "/v1/counts", json=body), 422, "invalid", *words)


# The experiment ---------------------------------------------------------------------------------------------


def totals(api: Api) -> dict[str, list[float]]:
    rows = api.get("/v1/experiments/main")["variants"]
    return {row["variant"]: [row["requests"], row["impressions"], row["reward"]] for row in rows}


def test_the_experiment_and_its_series_agree(api: Api, tag: str, monkeypatch: pytest.MonkeyPatch) -> None:
    api.add(*(f"{tag}-{n}" for n in range(5)), tags=[tag])
    for _ in range(30):
        answer = api.rank(3, tags=[tag])
        api.feedback((answer["ranking_id"], answer["items"][0]["id"]))
    told = api.get("/v1/experiments/main")
    assert told["open_requests"] >= 30
    assert all(row["settled_requests"] < row["requests"] for row in told["variants"])
    day = 24 * 3_600_000
    monkeypatch.setattr("hellinger.serve.standing.now", lambda: really_now() + day + day // 24)
    told = api.get("/v1/experiments/main")
    assert told["open_requests"] == 0
    assert {row["variant"] for row in told["variants"]} == set(VARIANTS)
    for row in told["variants"]:
        assert [row[f"settled_{what}"] for what in ("requests", "reward")] == [row["requests"], row["reward"]]
        assert row["rate"] == row["reward"] / row["impressions"]
        assert 0 <= row["low"] <= row["rate"] <= row["high"] <= 1
        assert row["policy"].startswith(row["variant"])
    assert math.isclose(sum(row["share"] for row in told["variants"]), 1)
    assert (told["split"], told["learning"], told["counting"]) == ("random", "isolated", "served")
    assert told["sentence"]
    assert api.get("/v1/experiments/main", control="kl-ucb")["control"] == "kl-ucb"
    refused(api.send("GET", "/v1/experiments/main", params={"control": "no"}), 422, "invalid", "'no'", "kl-ucb")

    expected = totals(api)
    for resolution in ("minute", "hour", "day"):
        series = api.get("/v1/experiments/main/series", resolution=resolution)
        assert (series["resolution"], set(series["variants"])) == (resolution, set(VARIANTS))
        assert series["steps"] == sorted(series["steps"])
        for variant, column in series["variants"].items():
            assert {len(values) for values in column.values()} == {len(series["steps"])}
            sums = [sum(column[what]) for what in ("requests", "impressions", "reward")]
            assert sums == pytest.approx(expected[variant])
            assert column["cumulative"][-1] == pytest.approx(expected[variant][2])
        last = series["steps"][-1]
        tail = api.get("/v1/experiments/main/series", resolution=resolution, since=last)
        assert tail["steps"] == [last]
        for variant, column in tail["variants"].items():
            assert column["cumulative"] == [pytest.approx(expected[variant][2])]
        empty = api.get("/v1/experiments/main/series", resolution=resolution, until="2001-01-01T00:00:00Z")
        assert empty["steps"] == []
    refused(api.send("GET", "/v1/experiments/main/series", params={"resolution": "week"}), 422, "invalid", '"week"')
    refused(api.send("GET", "/v1/experiments/main/series", params={"since": "then"}), 422, "invalid", "`since`")


def test_health(api: Api) -> None:
    assert api.get("/health/live") == {"status": "live"}
    ready = api.get("/health/ready")
    assert (ready["status"], set(ready)) == ("ready", {"status", "items", "waiting", "reason"})


def test_a_content_that_goes_while_it_is_looked_at(api: Api, tag: str, monkeypatch: pytest.MonkeyPatch) -> None:
    api.add(tag)
    metadata = api.service.metadata

    async def slow(slots: Any) -> Any:
        await api.service.set_state(tag, "deleted")
        return await metadata(slots)

    monkeypatch.setattr(api.service, "metadata", slow)
    refused(api.send("GET", item_path(tag)), 404, "not_found", tag)


def test_when_too_much_waits_nothing_is_counted(api: Api, tag: str, monkeypatch: pytest.MonkeyPatch) -> None:
    api.add(tag, tags=[tag])
    before = totals(api)
    monkeypatch.setattr(api.service.journal, "limit", -1)
    for headers in ({}, {"Idempotency-Key": tag}):
        answer = api.send("POST", "/v1/rank", json={"tags": [tag]}, headers=headers)
        refused(answer, 503, "unavailable")
        assert answer.headers["retry-after"] == "1"
    refused(api.send("POST", "/v1/items", json={"items": [{"id": "never"}]}), 503, "unavailable")
    monkeypatch.undo()
    assert totals(api) == before
    assert api.item(tag)["impressions"] == 0


def test_a_failure_in_a_fast_lane_is_logged_and_told_as_any_other(
    api: Api, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(*_: object) -> None:
        raise RuntimeError("SELECT secret")

    monkeypatch.setattr(api.service.desk, "rank", fails)
    answer = api.send("POST", "/v1/rank", json={})
    refused(answer, 500, "internal")
    assert "SELECT" not in answer.text
    assert any(record.exc_info and "SELECT secret" in str(record.exc_info[1]) for record in caplog.records)


# Figures and the document -----------------------------------------------------------------------------------


def figures(api: Api) -> dict[tuple[str, ...], float]:
    text = api.send("GET", "/metrics").text
    return {
        (sample.name, *itertools.chain.from_iterable(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_metrics_are_right(tmp_path: Path) -> None:
    with running(tmp_path, variants=VARIANTS, attribution_hours=1e-9) as api:
        api.add("a", "b")
        answers = [api.rank(2) for _ in range(3)]
        api.send("POST", "/v1/rank", json={"k": 0})
        rid = answers[0]["ranking_id"]
        api.feedback((rid, "a"), (rid, "a"), (rid, "z"), ("A" * 22, "a"))
        api.post(item_path("b", "/hide"))
        found = figures(api)
        route = ("method", "POST", "route", "/v1/rank", "status")
        assert found["hellinger_requests_total", *route, "200"] == 3
        assert found["hellinger_requests_total", *route, "422"] == 1
        assert (
            found["hellinger_requests_total", "method", "POST", "route", "/v1/items/{item}/hide", "status", "200"] == 1
        )
        for edge in ("0.001", "0.002", "0.005", "0.01", "0.02"):
            assert ("hellinger_rank_seconds_bucket", "le", edge) in found
        assert found["hellinger_rank_seconds_bucket", "le", "+Inf"] == found[("hellinger_rank_seconds_count",)] == 4
        feedback = {
            name: found[(f"hellinger_feedback_{name}_total",)]
            for name in ("accepted", "duplicate", "late", "unknown", "rejected")
        }
        assert sum(feedback.values()) == 4
        assert (feedback["late"], feedback["duplicate"]) == (1, 1)
        assert (feedback["unknown"], feedback["rejected"]) == (1, 1)
        assert {found["hellinger_pool_size", "variant", variant] for variant in VARIANTS} == {2}
        assert found[("hellinger_pending",)] == found[("hellinger_degraded",)] == 0
        assert found[("hellinger_store_lag_seconds",)] == 0
        assert found[("hellinger_commit_events_count",)] >= 5


def test_the_document_has_every_route_with_its_answers(api: Api) -> None:
    document = api.get("/openapi.json")
    assert document["openapi"].startswith("3.1")
    found = {(method, path) for path, operations in document["paths"].items() for method in operations}
    assert found >= {
        ("post", "/v1/items"),
        ("get", "/v1/items"),
        ("get", "/v1/items/{item}"),
        ("delete", "/v1/items/{item}"),
        ("post", "/v1/items/{item}/hide"),
        ("post", "/v1/items/{item}/unhide"),
        ("post", "/v1/rank"),
        ("post", "/v1/feedback"),
        ("post", "/v1/impressions"),
        ("post", "/v1/counts"),
        ("get", "/v1/experiments"),
        ("post", "/v1/experiments"),
        ("get", "/v1/experiments/{name}"),
        ("get", "/v1/experiments/{name}/phases"),
        ("post", "/v1/experiments/{name}/phases"),
        ("post", "/v1/experiments/{name}/end"),
        ("get", "/v1/experiments/{name}/series"),
        ("get", "/v1/export"),
        ("get", "/metrics"),
        ("get", "/health/live"),
        ("get", "/health/ready"),
    }
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            where = f"{method} {path}"
            assert operation.get("summary"), where
            assert operation.get("description") or path == "/metrics", where
            good = operation["responses"]["200"]
            assert good["description"], where
            schemas = [content.get("schema") for content in good["content"].values()]
            assert path == "/v1/stream" or all(schemas), where
            for status, response in operation["responses"].items():
                if status != "200":
                    assert "application/json" in response["content"], (where, status)
            for parameter in operation.get("parameters", ()):
                assert "schema" in parameter, where
    assert api.send("GET", "/docs").status_code == 200


# Starting anew ----------------------------------------------------------------------------------------------


def test_what_was_answered_is_there_after_a_restart(tmp_path: Path) -> None:
    with running(tmp_path, variants=VARIANTS, seed=3) as api:
        api.add("a", "b", "c", tags=["t"], metadata={"m": 1})
        api.add("d", expires_at="2100-01-01T00:00:00Z")
        api.post(item_path("b", "/hide"))
        api.send("DELETE", item_path("c"))
        answers = [api.rank(5) for _ in range(10)]
        keyed = api.rank(5, {"Idempotency-Key": "k"})
        first = answers[0]
        assert api.feedback((first["ranking_id"], "a"))["accepted"] == 1
        api.post("/v1/counts", {"batch": "x", "rows": [{"item": "a", "impressions": 5, "rewards": 1}]})
        before = [api.item(name) for name in ("a", "b", "d")], totals(api), api.get("/v1/experiments/main/series")
        exported = api.send("GET", "/v1/export").text
    with running(tmp_path, variants=VARIANTS, seed=4) as api:
        assert (
            [api.item(name) for name in ("a", "b", "d")],
            totals(api),
            api.get("/v1/experiments/main/series"),
        ) == before
        assert api.send("GET", "/v1/export").text == exported
        assert api.item("b")["metadata"] == {"m": 1}
        refused(api.send("GET", item_path("c")), 404, "not_found")
        assert api.feedback((first["ranking_id"], "a"))["duplicate"] == 1
        assert api.feedback((first["ranking_id"], "a", "like"), (answers[1]["ranking_id"], "a"))["accepted"] == 2
        assert api.item("a")["rewards"] == 3  # two impressions and the import: the like adds nothing to the click
        assert api.rank(5, {"Idempotency-Key": "k"}) == keyed
        assert api.post("/v1/counts", {"batch": "x", "rows": [{"item": "a", "impressions": 5, "rewards": 1}]})[
            "duplicate"
        ]
        after = totals(api)
    with running(tmp_path, variants=VARIANTS) as api:
        assert totals(api) == after
        assert sum(after[variant][0] for variant in after) == 11


def test_a_service_that_remembers_no_ranking(tmp_path: Path) -> None:
    with running(tmp_path, request_cache=0) as api:
        api.add("a", "b")
        answers = [api.rank(2) for _ in range(4)]
        pairs = [(answer["ranking_id"], item) for answer in answers for item in "ab"]
        assert api.feedback(*pairs)["accepted"] == 8
        assert api.feedback(*pairs)["duplicate"] == 8
        assert [api.item(item)["rewards"] for item in "ab"] == [4, 4]
        assert len(api.service.desk.ledger.requests) <= 8
    with running(tmp_path, request_cache=1) as api:
        assert [api.item(item)["rewards"] for item in "ab"] == [4, 4]


def test_feedback_recalls_its_ranking_while_many_list_items(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    go, sizes = threading.Event(), itertools.count(1)
    under_way, most = [0], [0]
    ordered = listing._ordered

    def held(*arguments: Any) -> Any:
        under_way[0] += 1
        most[0] = max(most[0], under_way[0])
        assert go.wait(60)
        under_way[0] -= 1
        next(sizes)
        return ordered(*arguments)

    monkeypatch.setattr(listing, "_ordered", held)
    with running(tmp_path, request_cache=0) as api:
        api.add("a", "b")
        made = [api.rank(2)["ranking_id"] for _ in range(3)]

        async def crowd() -> list[int]:
            lists = [asyncio.create_task(api.client.get("/v1/items")) for _ in range(100)]
            while not under_way[0]:
                await asyncio.sleep(0.001)
            try:
                for name in made:
                    assert name not in api.service.desk.ledger.requests
                    events = {"events": [{"ranking_id": name, "item": "a"}]}
                    answer = await api.client.post("/v1/feedback", json=events)
                    assert (answer.status_code, answer.json()["accepted"]) == (200, 1)
                assert not any(each.done() for each in lists)
            finally:
                go.set()
            return [answer.status_code for answer in await asyncio.gather(*lists)]

        assert api.run(crowd()) == [200] * 100
    assert (most[0], next(sizes)) == (1, 101)


def test_feedback_recalls_its_ranking_while_all_threads_are_busy(tmp_path: Path) -> None:
    """Those that others wait in: for a process to end, a prior, or what somebody looks at."""
    go = threading.Event()
    with running(tmp_path, request_cache=0) as api:
        api.add("a", "b")
        name = api.rank(2, {"Idempotency-Key": "k"})["ranking_id"]

        async def occupy() -> list[Any]:
            return [asyncio.get_running_loop().run_in_executor(None, go.wait, 60) for _ in range(100)]

        busy = api.run(occupy())
        try:
            assert api.feedback((name, "a"))["accepted"] == 1
            assert api.rank(2, {"Idempotency-Key": "k"})["ranking_id"] == name
            assert not any(each.done() for each in busy)
        finally:
            go.set()


class Clock:
    """The service's clock, to be set."""

    def __init__(self) -> None:
        self.at = really_now()

    def __call__(self) -> int:
        return self.at


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(service_module, "now", made)
    return made


def test_late_feedback_is_stored_and_not_learned(tmp_path: Path, clock: Clock) -> None:
    with running(tmp_path, variants=VARIANTS, attribution_hours=24) as api:
        api.add("a")
        answer = api.rank(1)
        rid = answer["ranking_id"]
        clock.at += 24 * 3_600_000
        assert api.feedback((rid, "a"))["accepted"] == 1
        clock.at += 1
        outcome = api.feedback((rid, "a", "like"), (rid, "a", "like"), (rid, "a", "click"))
        assert outcome == {"accepted": 0, "duplicate": 2, "late": 1, "unknown": 0, "rejected": []}
        assert api.item("a")["rewards"] == 1
        count = api.service.store.count()
    with running(tmp_path, variants=VARIANTS) as api:
        assert api.service.store.count() == count
        assert api.feedback((rid, "a", "like"))["duplicate"] == 1
        (row,) = [json.loads(line) for line in api.send("GET", "/v1/export").text.splitlines()]
        assert (row["feedback"], row["reward"]) == (["click"], 1)


def test_a_clock_set_back(tmp_path: Path, clock: Clock) -> None:
    with running(tmp_path) as api:
        api.add("a")
        first = api.rank(1)
        clock.at -= 5 * 86_400_000
        second = api.rank(1)
        outcome = api.feedback((first["ranking_id"], "a"), (second["ranking_id"], "a"))
        assert outcome["accepted"] == 2
        expected = totals(api)
        assert sum(figures[0] for figures in expected.values()) == 2
        for resolution in ("minute", "hour", "day"):
            series = api.get("/v1/experiments/main/series", resolution=resolution)
            assert len(series["steps"]) == 2
            assert series["steps"] == sorted(series["steps"])
            for variant, column in series["variants"].items():
                assert sum(column["reward"]) == expected[variant][2]
                assert column["cumulative"][-1] == expected[variant][2]
    clock.at -= 86_400_000
    with running(tmp_path) as api:
        assert totals(api) == expected
        assert api.feedback((first["ranking_id"], "a", "like"))["accepted"] == 1


def test_contents_expire(tmp_path: Path, clock: Clock) -> None:
    start = clock.at
    date = "2100-01-01T00:00:00Z"
    with running(tmp_path, max_age_hours=1) as api:
        api.add("a", "b")
        assert len(api.rank()["items"]) == 2
        clock.at = start + 3_600_000
        assert api.rank()["items"] == []
        api.wait_for(lambda: list(api.service.desk.ledger.catalogue["state"][:2]) == [2, 2])
        assert [row["id"] for row in api.get("/v1/items", state="expired", sort="oldest")["items"]] == ["a", "b"]
        api.add("c", expires_at=date)
        assert [item["id"] for item in api.rank()["items"]] == ["c"]
    with running(tmp_path) as api:
        assert [item["id"] for item in api.rank()["items"]] == ["c"]
        assert api.item("c")["expires_at"] == "2100-01-01T00:00:00.000Z"
        assert api.post(item_path("a", "/unhide"))["state"] == "expired"
        api.add("a", expires_at=date)
        assert sorted(item["id"] for item in api.rank()["items"]) == ["a", "c"]


def test_contents_are_forgotten(tmp_path: Path, clock: Clock) -> None:
    """Expired: to be seen for another two days. Deleted: not to be seen at once. Sent again: a new one."""
    start = clock.at
    soon = datetime.fromtimestamp(start / 1000 + 60, UTC).isoformat()
    with running(tmp_path, variants=["ucb1"]) as api:
        for name in ("old", "new"):
            api.add(name)
        api.add("dated", tags=["x"], expires_at=soon)
        api.add("deleted")
        ranked = api.rank(4)
        assert api.send("DELETE", item_path("deleted")).status_code == 200
        assert api.send("GET", item_path("deleted")).status_code == 404
        held = api.service.desk.ledger.catalogue
        slots = [held.slots["dated"], held.slots["old"]]
        clock.at = start + 60_000
        api.wait_for(lambda: held["state"][slots[0]] == 2)
        clock.at = start + 47 * 3_600_000
        assert api.item("dated")["state"] == "expired"
        api.send("DELETE", item_path("old"))
        clock.at = start + 49 * 3_600_000
        api.wait_for(lambda: len(held.free) == 2)
        assert api.send("GET", item_path("dated")).status_code == 404
        assert [row["id"] for row in api.get("/v1/items")["items"]] == ["new"]
        api.add("dated")
        again = api.item("dated")
        assert (again["state"], again["tags"], again["impressions"]) == ("shown", [], 0)
        assert held.slots["dated"] in (slots[0], 3)
        api.add("another")
        assert len(held.ids) == 4
        assert api.feedback((ranked["ranking_id"], "dated"), (ranked["ranking_id"], "new"))["late"] == 2
        assert [row["id"] for row in api.get("/v1/items")["items"]] == ["another", "dated", "new"]
        assert [row["id"] for row in api.get("/v1/items", sort="oldest")["items"]] == ["new", "dated", "another"]
        shown = [row["id"] for row in api.get("/v1/items", sort="impressions")["items"]]
        assert shown == ["new", "another", "dated"]
        assert [row["id"] for row in api.get("/v1/items", search="o")["items"]] == ["another"]


def test_contents_graduate(tmp_path: Path) -> None:
    with running(tmp_path, graduate_after=2, variants={"only": "hellinger-ucb"}) as api:
        api.add("a")
        assert [len(api.rank()["items"]) for _ in range(3)] == [1, 1, 0]
        api.wait_for(lambda: api.service.desk.ledger.gone)
        left = api.item("a")["variants"]["only"]["left"]
        assert (left["reason"], left["impressions"]) == ("graduated", 2)
        assert api.item("a")["variants"]["only"]["index"] is None
        assert [row["id"] for row in api.get("/v1/items", state="graduated")["items"]] == ["a"]
        assert api.get("/v1/items")["items"][0]["variants"]["only"]["left"] == left
    with running(tmp_path, graduate_after=2, variants={"only": "hellinger-ucb"}) as api:
        assert api.rank()["items"] == []


def test_confirmed_impressions(tmp_path: Path) -> None:
    with running(tmp_path, counting="confirmed") as api:
        api.add("a", "b", "c")
        answer = api.rank(3)
        rid = answer["ranking_id"]
        assert [api.item(item)["impressions"] for item in "abc"] == [0, 0, 0]
        seen = [{"ranking_id": rid, "item": "a"}] * 2 + [
            {"ranking_id": rid, "item": "z"},
            {"ranking_id": "B" * 22, "item": "a"},
        ]
        outcome = api.post("/v1/impressions", {"events": seen})
        assert (outcome["accepted"], outcome["duplicate"], outcome["unknown"]) == (1, 1, 1)
        assert [each["index"] for each in outcome["rejected"]] == [2]
        assert api.feedback((rid, "b"))["accepted"] == 1
        assert [api.item(item)["impressions"] for item in "abc"] == [1, 1, 0]
        assert totals(api)[answer["variant"]] == [1, 2, 1]
        rows = [json.loads(line) for line in api.send("GET", "/v1/export").text.splitlines()]
        assert {row["item"]: row["seen"] for row in rows} == {"a": True, "b": True, "c": False}
    with running(tmp_path, counting="confirmed") as api:
        again = api.post("/v1/impressions", {"events": [{"ranking_id": rid, "item": item} for item in "abc"]})
        assert (again["accepted"], again["duplicate"]) == (1, 2)
        assert [api.item(item)["impressions"] for item in "abc"] == [1, 1, 1]


def test_confirming_what_counts_already_is_a_duplicate(api: Api, tag: str) -> None:
    api.add(tag, tags=[tag])
    answer = api.rank(1, tags=[tag])
    outcome = api.post("/v1/impressions", {"events": [{"ranking_id": answer["ranking_id"], "item": tag}]})
    assert outcome["duplicate"] == 1
    assert api.item(tag)["impressions"] == 1


def test_shared_learning(tmp_path: Path) -> None:
    with running(tmp_path, variants=VARIANTS, learning="shared", split="sticky") as api:
        api.add("a", "b")
        answer = api.rank(1, user="ada")
        (shown,) = [item["id"] for item in answer["items"]]
        assert api.feedback((answer["ranking_id"], shown))["accepted"] == 1
        assert {api.rank(1, user="ada")["variant"] for _ in range(5)} == {answer["variant"]}
        desk = api.service.desk
        slot = desk.ledger.catalogue.slots[shown]
        found = [desk.pools.of(name).stats(slot) for name in desk.variants]
        assert {stats.rewards for stats in found} == {1}
        assert len({stats.impressions for stats in found}) == 1
        assert api.get("/v1/experiments/main")["sample_ratio"] is None


def test_weights_of_kinds(tmp_path: Path) -> None:
    with running(tmp_path, weights={"like": 0.25, "hide": -1, "view": 0}) as api:
        api.add("a")
        rid = api.rank(1)["ranking_id"]
        for kind, reward in (("like", 0.25), ("hide", 0.25), ("view", 0.25), ("buy", 1.0), ("share", 1.0)):
            assert api.feedback((rid, "a", kind))["accepted"] == 1
            assert api.item("a")["rewards"] == reward


# The log --------------------------------------------------------------------------------------------------------


def test_the_export_is_what_was_served(tmp_path: Path, clock: Clock) -> None:
    start = clock.at
    with running(tmp_path, variants=VARIANTS, random_share=0.5, seed=11) as api:
        assert api.send("GET", "/v1/export").text == ""
        assert pl.read_parquet(io.BytesIO(api.send("GET", "/v1/export?format=parquet").content)).schema == pl.Schema(
            SCHEMA
        )
        api.add(*"abcdef")
        expected = []
        for n in range(20):
            clock.at = start + 1000 * n
            answer = api.rank(3, user=f"u{n % 3}", segment="s" if n % 2 else None)
            clicked = answer["items"][n % 3]["id"]
            api.post(
                "/v1/feedback",
                {
                    "events": [
                        {"ranking_id": answer["ranking_id"], "item": clicked, "kind": kind, "value": 0.75}
                        for kind in ("click", "like")
                    ]
                },
            )
            for position, item in enumerate(answer["items"], 1):
                expected.append(
                    {
                        "ranking_id": answer["ranking_id"],
                        "at": clock.at,
                        "variant": answer["variant"],
                        "policy": api.service.desk.variants[answer["variant"]],
                        "variant_probability": pytest.approx(1 / 3),
                        "phase": 1,
                        "user": f"u{n % 3}",
                        "segment": "s" if n % 2 else None,
                        "position": position,
                        "item": item["id"],
                        "score": item["score"],
                        "seen": True,
                        "reward": 1.0 if item["id"] == clicked else 0.0,
                        "feedback": ["click", "like"] if item["id"] == clicked else [],
                    }
                )
        response = api.send("GET", "/v1/export")
        assert response.headers["content-type"] == "application/x-ndjson"
        rows = [json.loads(line) for line in response.text.splitlines()]
        assert [list(row) for row in rows] == [list(SCHEMA)] * 60
        assert [{name: row[name] for name in want} for row, want in zip(rows, expected, strict=True)] == expected
        assert {row["random"] for row in rows} == {True, False}
        for row in rows:
            uniform = 0.5 / 6
            tied = [pytest.approx(uniform + 0.5 / items) for items in range(1, 7)]  # of so many of equal index
            assert row["propensity"] in tied or (row["random"] and row["propensity"] == pytest.approx(uniform))
            assert (row["k"], row["eligible"], row["filtered"]) == (3, 6, False)
        versions = {(row["variant"], row["version"]) for row in rows}
        assert len(versions) == len({version for _, version in versions}) == 3
        response = api.send("GET", "/v1/export", params={"format": "parquet"})
        assert response.headers["content-type"] == "application/vnd.apache.parquet"
        frame = pl.read_parquet(io.BytesIO(response.content))
        assert frame.schema == pl.Schema(SCHEMA)
        assert frame.to_dicts() == rows
        some = {"since": f"{(start + 5000) / 1000:.3f}", "until": f"{(start + 8000) / 1000:.3f}"}
        part = [json.loads(line) for line in api.send("GET", "/v1/export", params=some).text.splitlines()]
        assert part == rows[15:24]
        refused(api.send("GET", "/v1/export", params={"format": "csv"}), 422, "invalid", '"csv"')


def test_kinds_of_feedback_have_a_limit(tmp_path: Path) -> None:
    """Also for a ranking that the log has more kinds of, from before the limit was lowered."""
    with running(tmp_path, max_kinds=5) as api:
        api.add("a")
        ranking = api.rank(1)["ranking_id"]
        answer = api.feedback(*[(ranking, "a", f"k{n}") for n in range(50)])
        assert (answer["accepted"], len(answer["rejected"])) == (5, 45)
        assert answer["rejected"][0]["index"] == 5
        assert "at most 5 kinds (max_kinds), but 'k5'" in answer["rejected"][0]["reason"]
        assert api.item("a")["rewards"] == 1
    with running(tmp_path, max_kinds=3) as api:
        assert api.item("a")["rewards"] == 1
        answer = api.feedback(*[(ranking, "a", f"k{n}") for n in range(6)])
        assert (answer["duplicate"], len(answer["rejected"])) == (5, 1)


def test_a_refused_import_takes_no_segment(tmp_path: Path) -> None:
    with running(tmp_path, max_segments=1) as api:
        body = {
            "batch": "b",
            "segment": "one",
            "variant": "no",
            "rows": [{"item": "a", "impressions": 1, "rewards": 0}],
        }
        refused(api.send("POST", "/v1/counts", json=body), 422, "invalid", "'no'")
        api.post("/v1/rank", {"segment": "other"})


def test_segments_have_a_limit(tmp_path: Path) -> None:
    with running(tmp_path, max_segments=1) as api:
        api.post("/v1/items", {"items": [{"id": "a"}]})
        api.post("/v1/rank", {"segment": "mobile"})
        api.post("/v1/rank", {"segment": "mobile"})
        refused(api.send("POST", "/v1/rank", json={"segment": "user-7"}), 422, "invalid", "max_segments", "'user-7'")
        row = {"item": "a", "impressions": 1, "rewards": 0}
        body = {"batch": "b", "segment": "user-8", "rows": [row]}
        refused(api.send("POST", "/v1/counts", json=body), 422, "invalid", "max_segments")


def test_an_idempotency_key_is_its_callers_own(tmp_path: Path) -> None:
    with running(tmp_path) as api:
        api.post("/v1/items", {"items": [{"id": "a"}]})
        service = api.service
        made = [api.run(service.rank(Query(1), "page-17", caller)) for caller in ("ann", "bob", "ann")]
        assert made[0]["ranking_id"] == made[2]["ranking_id"] != made[1]["ranking_id"]
