"""The page's files, the live messages, the pool's lists and an item's history, over HTTP."""

from __future__ import annotations

import asyncio
import json
import re
import signal
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from hellinger.engine.service import Service
from hellinger.engine.settings import Settings
from hellinger.events import Event, Logged
from hellinger.ledger import Ledger, placed, recovery
from hellinger.serve import live as live_module
from hellinger.serve.answers import ApiError
from hellinger.serve.history import history
from hellinger.serve.keys import Keys, new_key, revoke_key
from hellinger.serve.live import Listener, Live
from hellinger.serve.metrics import Metrics
from hellinger.serve.rising import HALF, LEAST, Rises, Rising
from hellinger.store import Store, open_store
from running import VARIANTS, Running, fill, serving

PAGE = Path(live_module.__file__).with_name("page")


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("page")
    url = f"sqlite:///{folder}/log.db"
    fill(Settings(database=url, variants=VARIANTS, seed=1, graduate_after=60), requests=400, items=60, days=5)
    flags = ["--variants", ", ".join(VARIANTS), "--graduate-after", "60", "--title", "Mine & <yours>"]
    with serving(folder, "--database", url, *flags) as service:
        yield service


@pytest.fixture
def client(running: Running) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=running.url, timeout=60) as client:
        yield client


def messages(response: httpx.Response) -> Iterator[tuple[str, dict[str, Any]]]:
    kind = ""
    for line in response.iter_lines():
        if line.startswith("event: "):
            kind = line.removeprefix("event: ")
        elif line.startswith("data: "):
            yield kind, json.loads(line.removeprefix("data: "))


# The page's files ----------------------------------------------------------------------------------------


def test_the_page_names_files_that_are_there(client: httpx.Client) -> None:
    page = client.get("/")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert page.headers["content-encoding"] == "gzip"
    assert "script-src 'self'" in page.headers["content-security-policy"]
    assert "<title>Mine &amp; &lt;yours&gt;</title>" in page.text
    assert "{{" not in page.text
    found = set(re.findall(r'(?:href|src)="(/[^"]*)"', page.text))
    assets = {path for path in found if path.startswith("/assets/")}
    assert {path.rpartition("/")[2] for path in assets} >= {"app.js", "style.css", "plotly.min.js", "icon.svg"}
    for path in found:
        assert client.get(path).status_code == 200, path
    for path in assets:
        assert client.get(path).headers["cache-control"] == "public, max-age=31536000, immutable"


def test_scripts_import_scripts_that_are_there(client: httpx.Client) -> None:
    folder = re.findall(r'src="(/assets/\w+)/app.js"', client.get("/").text)[0]
    wanted, seen = ["app.js"], set()
    while wanted:
        name = wanted.pop()
        seen.add(name)
        answer = client.get(f"{folder}/{name}")
        assert answer.status_code == 200, name
        assert answer.headers["content-type"] == "text/javascript; charset=utf-8"
        wanted += [each for each in re.findall(r'from "\./([\w.]+)"', answer.text) if each not in seen]
    assert seen == {file.name for file in PAGE.glob("*.js")} - {"theme.js"}


def test_nothing_is_fetched_from_elsewhere() -> None:
    for file in PAGE.iterdir():
        named = set(re.findall(r"https?://[^\s\"'`)]+", file.read_text()))
        assert named <= {"http://www.w3.org/2000/svg"}, file.name


def test_files_are_sent_plain_to_who_cannot_unpack(client: httpx.Client) -> None:
    path = re.findall(r'src="(/assets/\w+/plotly.min.js)"', client.get("/").text)[0]
    packed = client.get(path)
    plain = client.get(path, headers={"Accept-Encoding": "identity"})
    assert packed.headers["content-encoding"] == "gzip"
    assert "content-encoding" not in plain.headers
    assert packed.content == plain.content
    assert packed.num_bytes_downloaded < plain.num_bytes_downloaded / 3


def test_a_page_already_there_is_not_sent_again(client: httpx.Client) -> None:
    tag = client.get("/").headers["etag"]
    assert client.get("/", headers={"If-None-Match": tag}).status_code == 304
    assert client.get("/", headers={"If-None-Match": '"older"'}).status_code == 200


@pytest.mark.parametrize("path", ["/assets/0000000000000000/app.js", "/assets/{}/app.py", "/assets/{}/index.html"])
def test_other_files_are_not_there(client: httpx.Client, path: str) -> None:
    digest = re.findall(r"/assets/(\w+)/", client.get("/").text)[0]
    assert client.get(path.format(digest)).status_code == 404


# Live ------------------------------------------------------------------------------------------------------


def test_a_ranking_is_told_of_within_two_messages(client: httpx.Client) -> None:
    with client.stream("GET", "/v1/stream") as response:
        assert response.headers["content-type"] == "text/event-stream"
        told = messages(response)
        kind, first = next(told)
        assert kind == "hello"
        assert {"at", "totals", "experiment", "steps", "health", "recent"} == first.keys()
        before = sum(cell[0] for cell in first["totals"].values())
        ranked = httpx.post(f"{client.base_url}/v1/rank", json={"k": 3}).json()
        after = [next(told) for _ in range(2)]
        assert [kind for kind, _ in after] == ["tick", "tick"]
        last = after[-1][1]
        assert sum(cell[0] for cell in last["totals"].values()) == before + 1
        assert last["health"]["rank"]["start"]["count"] == first["health"]["rank"]["start"]["count"] + 1
        assert last["steps"]["minute"][-1][1][ranked["variant"]][0] >= 1
        assert set(last["health"]["pools"]) == set(VARIANTS)
        assert last["health"]["listeners"] >= 1


def test_listeners_choose_their_control(client: httpx.Client) -> None:
    for control in ("kl-ucb", "ucb1"):
        with client.stream("GET", "/v1/stream", params={"control": control}) as response:
            _, first = next(messages(response))
        assert first["experiment"]["control"] == control
        rows = {row["variant"]: row for row in first["experiment"]["variants"]}
        assert rows[control]["lift"] is None
        assert rows["hellinger-ucb"]["lift"] is not None
    refused = client.get("/v1/stream", params={"control": "nobody"})
    assert refused.status_code == 422
    assert "hellinger-ucb, kl-ucb, ucb1" in refused.json()["error"]["message"]


def test_a_stopping_service_does_not_wait_for_listeners(tmp_path: Path) -> None:
    with (
        serving(tmp_path, "--drain-seconds", "60") as service,
        httpx.Client(timeout=120) as client,
        client.stream("GET", f"{service.url}/v1/stream") as response,
    ):
        told = messages(response)
        next(told)
        service.process.send_signal(signal.SIGTERM)
        assert all(kind == "tick" for kind, _ in told)  # and then the stream ends
        assert service.process.wait(50) == 0  # less than the drain
        assert "Cancel" not in (tmp_path / "serve.log").read_text()


def test_a_key_is_needed_for_data_and_not_for_the_page(tmp_path: Path) -> None:
    token, _ = new_key(tmp_path / "keys.toml", name="page", role="read")
    with serving(tmp_path, "--keys-file", "keys.toml") as service, httpx.Client(base_url=service.url) as client:
        page = client.get("/")
        assert page.status_code == 200
        for path in re.findall(r'(?:href|src)="(/assets/[^"]*)"', page.text):
            assert client.get(path).status_code == 200
        for path in ("/v1/stream", "/v1/experiments/main", "/v1/items", "/v1/history?item=a"):
            assert client.get(path).status_code == 401
        own = {"Authorization": f"Bearer {token}"}
        assert client.get("/v1/experiments/main", headers=own).status_code == 200
        with client.stream("GET", "/v1/stream", headers=own) as response:
            assert next(messages(response))[0] == "hello"


def test_listeners_are_limited_and_slow_ones_miss_messages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_module, "MOST", 2)
    monkeypatch.setattr(live_module, "PERIOD", 3600.0)

    async def story() -> None:
        service = await Service.start(Settings(database=f"sqlite:///{tmp_path}/log.db"))
        live = Live(service, Metrics())
        slow, quick = await live.join(), await live.join()
        with pytest.raises(ApiError, match="at most 2"):
            await live.join()
        assert b"event: hello" in (await quick.take() or b"")
        for _ in range(3):
            await live.tick()
            assert b"event: tick" in (await quick.take() or b"")
        assert b"event: tick" in (await slow.take() or b"")  # the newest, and no queue before it
        await live.tick()
        assert await slow.take() is await quick.take()  # made once for all
        live.leave(slow)
        await live.join()
        live.end()
        assert await quick.take() is None
        with pytest.raises(ApiError, match="stopping"):
            await live.join()
        await live.stop()
        await service.stop()

    asyncio.run(story())


def test_one_key_has_so_many_streams_and_none_once_it_is_revoked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_module, "PERIOD", 3600.0)
    file = tmp_path / "keys.toml"
    for name in ("ann", "bob", "eve"):
        new_key(file, name=name, role="read")

    async def story() -> None:
        service = await Service.start(Settings(database=f"sqlite:///{tmp_path}/log.db", max_streams_per_key=2))
        live = Live(service, Metrics(), Keys(file=file))
        listeners = {name: [await live.join(caller=name) for _ in range(2)] for name in ("ann", "bob", "eve")}

        async def tick() -> set[str]:
            """Who has not been let go after the next message."""
            await live.tick()
            return {name for name, each in listeners.items() if not any(listener._ended for listener in each)}

        with pytest.raises(ApiError, match="at most 2 streams") as refused:
            await live.join(caller="ann")
        assert refused.value.status_code == 429
        assert refused.value.headers is not None
        assert refused.value.headers["Retry-After"]
        live.leave(listeners["ann"].pop())
        listeners["ann"].append(await live.join(caller="ann"))
        assert await tick() == {"ann", "bob", "eve"}
        revoke_key(file, "ann")
        assert await tick() == {"bob", "eve"}
        revoke_key(file, "bob")
        new_key(file, name="bob", role="read")  # another key of the same name
        assert await tick() == {"eve"}
        content = file.read_text()
        file.write_text("not TOML")
        assert await tick() == {"eve"}
        file.write_text(content)
        assert await tick() == {"eve"}
        file.unlink()
        assert await tick() == set()
        await live.stop()
        await service.stop()

    asyncio.run(story())


def test_a_stream_ends_when_its_key_is_revoked(tmp_path: Path) -> None:
    file = tmp_path / "keys.toml"
    token, _ = new_key(file, name="page", role="read")
    own = {"Authorization": f"Bearer {token}"}
    flags = ("--keys-file", "keys.toml", "--max-streams-per-key", "1")
    with serving(tmp_path, *flags) as service, httpx.Client(base_url=service.url, headers=own, timeout=60) as client:
        with client.stream("GET", "/v1/stream") as response:
            told = messages(response)
            assert next(told)[0] == "hello"
            refused = client.get("/v1/stream")
            assert refused.status_code == 429
            assert refused.headers["Retry-After"] == "10"
            assert "max_streams_per_key" in refused.json()["error"]["message"]
            revoke_key(file, "page")
            revoked = datetime.now(UTC)
            later = [tick for _, tick in told if datetime.fromisoformat(tick["at"]) > revoked]
            assert len(later) <= 1  # one that was being made: the next look at the keys ends the stream
        assert client.get("/v1/stream").status_code == 401


def test_an_ended_listener_gets_nothing_more() -> None:
    async def story() -> None:
        listener = Listener(("main", None))
        listener.put(b"1")
        listener.end()
        assert await listener.take() is None

    asyncio.run(story())


def test_a_change_of_shares_is_told_without_traffic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_module, "PERIOD", 3600.0)

    async def story() -> None:
        service = await Service.start(Settings(database=f"sqlite:///{tmp_path}/log.db", variants=VARIANTS))
        live = Live(service, Metrics())
        listener = await live.join()
        await listener.take()
        assert await service.experiments.change("ann", weights={"ucb1": 1})
        await live.tick()
        message = await listener.take()
        assert message is not None
        told = json.loads(message.decode().partition("data: ")[2])
        assert told["experiment"]["phase"] == service.desk.ledger.phase_place
        await live.stop()
        await service.stop()

    asyncio.run(story())


def test_the_list_of_experiments_tells_the_role(client: httpx.Client, tmp_path: Path) -> None:
    assert client.get("/v1/experiments").json()["role"] == "admin"  # without keys
    tokens = {role: new_key(tmp_path / "keys.toml", name=role, role=role)[0] for role in ("read", "write", "admin")}
    with serving(tmp_path, "--keys-file", "keys.toml") as service:
        for role, token in tokens.items():
            own = {"Authorization": f"Bearer {token}"}
            assert httpx.get(f"{service.url}/v1/experiments", headers=own).json()["role"] == role


def test_the_main_experiment_is_listed_since_its_first_figure(client: httpx.Client) -> None:
    (main,) = client.get("/v1/experiments").json()["experiments"]
    assert main["since"] == client.get("/v1/experiments/main").json()["since"]
    (phase,) = client.get("/v1/experiments/main/phases").json()["phases"]
    assert main["since"] < phase["since"]  # its past was played before there were phases


# Lists of items --------------------------------------------------------------------------------------------


def test_every_order_can_be_turned_round(client: httpx.Client) -> None:
    columns = {"newest": "id", "impressions": "impressions", "rewards": "rewards", "estimate": "estimate"}
    for sort, column in columns.items():
        there = client.get("/v1/items", params={"sort": sort}).json()["items"]
        back = client.get("/v1/items", params={"sort": sort, "reverse": True}).json()["items"]
        values = [row[column] for row in there]
        assert values == sorted(values, reverse=True), sort
        assert [row[column] for row in back] == values[::-1], sort


def test_rows_have_intervals_and_an_index_for_each_variant(client: httpx.Client) -> None:
    rows = client.get("/v1/items", params={"sort": "impressions"}).json()["items"]
    assert len(rows) == 60
    for row in rows:
        assert 0 <= row["low"] <= row["estimate"] <= row["high"] <= 1
        assert row["variants"].keys() == set(VARIANTS)
        one = client.get(f"/v1/items/{row['id']}").json() if row is rows[0] else None
        if one is not None:
            assert {v: x["index"] for v, x in one["variants"].items()} == {
                v: x["score"] for v, x in row["variants"].items()
            }
    assert any(standing["left"] for row in rows for standing in row["variants"].values())


def test_what_rises_is_what_was_clicked_of_late(tmp_path: Path) -> None:
    with serving(tmp_path) as service, httpx.Client(base_url=service.url, timeout=60) as client:
        client.post("/v1/items", json={"items": [{"id": name} for name in "abcd"]})
        for _ in range(40):
            ranked = client.post("/v1/rank", json={"k": 4}).json()["ranking_id"]
            client.post("/v1/feedback", json={"events": [{"ranking_id": ranked, "item": "c"}]})
        (found,) = client.get("/v1/items", params={"sort": "rising", "search": "c"}).json()["items"]
        assert found["id"] == "c"
        assert found["recent"]["impressions"] == found["recent"]["rewards"] == 40
        assert client.get("/v1/items", params={"sort": "rising", "search": "d"}).json()["total"] == 0
        assert client.get("/v1/items", params={"sort": "rising"}).json()["since"] is not None


def ledger_of(*names: str) -> Ledger:
    ledger = Ledger()
    for name in names:
        event = Event.of(f"item/{name}", "item", 0, {"id": name, "tags": [], "expires_at": None, "metadata": None})
        apply(ledger, event)
    return ledger


def apply(ledger: Ledger, event: Event) -> None:
    ledger.apply(placed([Logged(ledger.seq + 1, *event)]))


def counts(ledger: Ledger, batch: str, rows: dict[str, tuple[int, float]]) -> None:
    given = [{"item": i, "impressions": n, "rewards": s, "from": None, "to": None} for i, (n, s) in rows.items()]
    fields = {"batch": batch, "variant": None, "segment": None, "rows": given}
    apply(ledger, Event.of(f"import/{batch}", "import", 0, fields))


def find(rising: Rising, at: int) -> Rises:
    return asyncio.run(rising.find(at))


def test_rising_forgets_what_was_long_ago() -> None:
    ledger = ledger_of("old", "new")
    rising = Rising(lambda: ledger, 0)
    counts(ledger, "1", {"old": (1000, 300), "new": (1000, 10)})
    assert [ledger.catalogue.ids[slot] for slot in find(rising, 1).slots] == ["old"]
    rising.rotate(HALF)  # what was counted so far is now in the older half
    rising.rotate(2 * HALF)  # and now it is forgotten
    counts(ledger, "2", {"old": (1000, 10), "new": (1000, 300)})
    found = find(rising, 2 * HALF + 1)
    assert [ledger.catalogue.ids[slot] for slot in found.slots] == ["new"]
    assert (found.since, found.impressions.tolist(), found.rewards.tolist()) == (HALF, [1000.0], [300.0])


def test_rising_needs_impressions_and_a_content_that_is_shown() -> None:
    ledger = ledger_of("few", "many", "hidden", "rest")
    rising = Rising(lambda: ledger, 0)
    least = int(LEAST)
    counts(ledger, "1", {"few": (least - 1, least - 1), "many": (least, least), "hidden": (99, 99), "rest": (9999, 1)})
    apply(ledger, Event.of("state/1", "state", 0, {"id": "hidden", "state": "hidden"}))
    assert [ledger.catalogue.ids[slot] for slot in find(rising, 1).slots] == ["many"]


def test_rising_does_not_take_an_item_for_the_one_that_had_its_slot() -> None:
    ledger = ledger_of("old", "rest")
    counts(ledger, "1", {"old": (1000, 10), "rest": (1000, 100)})
    rising = Rising(lambda: ledger, 0)
    slot = ledger.catalogue.slots["old"]
    for event in (
        Event.of("state/1", "state", 0, {"id": "old", "state": "deleted"}),
        Event.of("forget/1", "forget", 0, {"since": [1], "writer": "0"}),
        Event.of("item/new", "item", 0, {"id": "new", "tags": [], "expires_at": None, "metadata": None}),
    ):
        apply(ledger, event)
    assert ledger.catalogue.slots["new"] == slot
    counts(ledger, "2", {"new": (1100, 500), "rest": (1000, 100)})
    found = find(rising, 1)
    assert (found.slots.tolist(), found.impressions.tolist(), found.rewards.tolist()) == ([slot], [1100], [500])
    assert found.added.tolist() == [ledger.catalogue["since"][slot]]


def test_rising_is_found_again_only_after_a_second() -> None:
    ledger = ledger_of("a", "b")
    rising = Rising(lambda: ledger, 0)
    assert find(rising, 5000).slots.size == 0
    counts(ledger, "1", {"a": (100, 90), "b": (100, 0)})
    assert find(rising, 5999).slots.size == 0
    assert find(rising, 6000).slots.size == 1


def test_sums_over_everything_agree_with_sums_by_content() -> None:
    ledger = ledger_of("a", "b", "c")
    counts(ledger, "1", {"a": (5, 1), "c": (7, 2.5)})
    n, s = ledger.whole()
    assert n.tolist() == [5, 0, 7]
    assert s.tolist() == [1, 0, 2.5]
    n[0] = 99  # the caller's own
    assert np.array_equal(ledger.whole()[0], ledger.sums([0, 1, 2], variants=[""])[0])


def items(name: str) -> dict[str, Any]:
    return {"id": name, "tags": [], "expires_at": None, "metadata": {}}


# An item's history -----------------------------------------------------------------------------------------


@pytest.fixture
def past(tmp_path: Path) -> Iterator[tuple[Store, Ledger]]:
    settings = Settings(database=f"sqlite:///{tmp_path}/log.db", variants=VARIANTS, seed=3)
    fill(settings, requests=300, items=20, days=10)
    store = open_store(settings.database)
    yield store, recovery.recover(store)
    store.close()


def test_a_history_adds_up_to_the_counts(past: tuple[Store, Ledger]) -> None:
    store, ledger = past
    for item in ("item-0000", "item-0019"):
        slot = ledger.catalogue.slots[item]
        told = history(store, item, int(ledger.catalogue["since"][slot]), ledger.seq)
        assert told["complete"]
        assert told["resolution"] == "day"
        assert [mark["what"] for mark in told["marks"]] == ["added"]
        for variant, column in told["variants"].items():
            n, s = ledger.sums([slot], variants=[variant])
            assert (sum(column["impressions"]), sum(column["reward"])) == (n[0], s[0])
            assert len(column["impressions"]) == len(told["steps"])


def test_a_history_says_how_far_it_reaches(past: tuple[Store, Ledger], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hellinger.serve.history.BLOCK", 50)
    store, ledger = past
    slot = ledger.catalogue.slots["item-0000"]
    whole = history(store, "item-0000", int(ledger.catalogue["since"][slot]), ledger.seq)
    part = history(store, "item-0000", int(ledger.catalogue["since"][slot]), ledger.seq, most=100)
    assert whole["complete"]
    assert not part["complete"]
    assert part["events_read"] == 100
    assert part["marks"] == []
    assert sum(sum(c["impressions"]) for c in part["variants"].values()) < sum(
        sum(c["impressions"]) for c in whole["variants"].values()
    )


@pytest.mark.parametrize("block", [10, 2000])
def test_a_history_says_that_events_were_compacted(
    past: tuple[Store, Ledger], monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    monkeypatch.setattr("hellinger.serve.history.BLOCK", block)
    store, ledger = past
    events = store.read(0, 1 << 30)
    store.append([Event.of("item/new", "item", events[-1].at, items("item-new"))], ledger.seq)
    recovery.advance(store, ledger)
    recovery.compact(store, before=events[len(events) // 2].at, window=0)
    assert store.count() < ledger.seq
    for item, complete in (("item-0000", False), ("item-new", True)):
        slot = ledger.catalogue.slots[item]
        told = history(store, item, int(ledger.catalogue["since"][slot]), ledger.seq)
        assert told["complete"] is complete
        n, _ = ledger.sums([slot])
        shown = sum(sum(column["impressions"]) for column in told["variants"].values())
        assert (shown == float(n[0])) is complete


def test_history_over_http(client: httpx.Client) -> None:
    told = client.get("/v1/history", params={"item": "item-0003"}).json()
    row = client.get("/v1/items/item-0003").json()
    assert sum(sum(column["impressions"]) for column in told["variants"].values()) == row["impressions"]
    assert {mark["what"] for mark in told["marks"]} <= {"added", "graduated"}
    missing = client.get("/v1/history", params={"item": "nothing"})
    assert missing.status_code == 404
    assert "'nothing'" in missing.json()["error"]["message"]


def test_a_history_tells_what_was_done(tmp_path: Path) -> None:
    with serving(tmp_path) as service, httpx.Client(base_url=service.url, timeout=60) as client:
        for number in (1, 2):
            client.post("/v1/items", json={"items": [{"id": "a/b", "metadata": {"n": number}}]})
        for what in ("hide", "unhide"):
            assert client.post(f"/v1/items/a/b/{what}").status_code == 200
        told = client.get("/v1/history", params={"item": "a/b"}).json()
        assert [mark["what"] for mark in told["marks"]] == ["added", "changed", "hidden", "shown"]
