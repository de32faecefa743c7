"""Logs of an older version are read, and a log that a newer one writes to is not served."""

from __future__ import annotations

import asyncio
import json
from contextlib import closing
from pathlib import Path

import pytest

from hellinger.engine.service import Service
from hellinger.engine.settings import Settings
from hellinger.events import Event, now
from hellinger.ledger import recovery, snapshot
from hellinger.store import open_store, transfer
from live import Launcher, until
from live import Service as Process
from throwaway import Server

GOLDEN = Path(__file__).parent / "golden"


def test_a_log_with_snapshots_of_version_1(tmp_path: Path) -> None:
    """Written by hellinger 0.1 before priors were logged: two variants, a segment, imports, compacted once."""
    url = f"sqlite:///{tmp_path}/log.db"
    transfer.restore(GOLDEN / "log-0.1.dump", url)
    want = json.loads((GOLDEN / "log-0.1.json").read_text())
    with closing(open_store(url)) as store:
        from_snapshot = recovery.recover(store)
        from_base = recovery.recover(store, base=True)
        recovery.advance(store, from_base)
        assert recovery.check(store) == []
    for ledger in (from_snapshot, from_base):
        assert (ledger.seq, ledger.series.totals) == (want["seq"], want["totals"])
        assert set(ledger.catalogue.slots) == set(want["items"])
        for name, (state, *counts) in want["items"].items():
            slots = [ledger.catalogue.slots[name]]
            one, two, tablet = (
                ledger.sums(slots, variants=["one"]),
                ledger.sums(slots, variants=["two"]),
                ledger.sums(slots, variants=["two"], segment="tablet"),
            )
            assert [one[0][0], one[1][0], two[0][0], tablet[0][0]] == counts
            assert ledger.catalogue["state"][slots[0]] == state

    async def serve() -> None:
        variants = {"one": "cold-start", "two": "ucb1"}
        service = await Service.start(Settings(database=url, variants=variants, graduate_after=60))
        try:
            # what it has learned of its past is in force, and in the log, before the first ranking
            assert set(service.desk.ledger.priors) == {("one", "")}
        finally:
            await service.stop()

    asyncio.run(serve())


def test_a_snapshot_by_an_older_version_of_events_it_did_not_understand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An older replica that leads knows no groups, and writes none; they are in the log."""
    with closing(open_store(f"sqlite:///{tmp_path}/log.db")) as store:
        fields = {"id": "a", "tags": ["t"], "expires_at": None, "metadata": None, "group": ["x", "y"]}
        store.append([Event.of("item/1", "item", now(), fields)], 0)
        older = recovery.recover(store)
        older.catalogue.label(0, ("t",), ())
        monkeypatch.setattr(snapshot, "VERSION", 5)
        store.save_snapshot(older.seq, snapshot.encode(older))
        monkeypatch.undo()
        found = recovery.recover(store)
        assert found.catalogue.group_of(0) == ("x", "y")
        recovery.take_snapshot(store)
        read = recovery.recover(store)
        assert (read.catalogue.group_of(0), read.format) == (("x", "y"), snapshot.VERSION)


def test_a_base_by_an_older_version_of_events_it_did_not_understand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Compaction keeps what was last said of an item: groups and features are read from there, and then kept."""
    with closing(open_store(f"sqlite:///{tmp_path}/log.db")) as store:
        common = {"tags": ["t"], "expires_at": None, "metadata": None}
        told = {"group": ["x", "y"], "features": {"length": 4.2}}
        events = [Event.of(f"item/{name}", "item", now(), {"id": name, **common, **told}) for name in "ab"]
        store.append(events, 0)
        older = recovery.recover(store)
        for slot in (0, 1):
            older.catalogue.label(slot, ("t",), ())
        older.catalogue.features.clear()
        monkeypatch.setattr(snapshot, "VERSION", 5)
        for base in (False, True):
            store.save_snapshot(older.seq, snapshot.encode(older), base=base)
        monkeypatch.undo()
        store.compact(older.seq, older.catalogue["said"][older.catalogue.present()].tolist())
        for ledger in (recovery.recover(store), recovery.recover_at(store, older.seq)):
            assert [ledger.catalogue.group_of(slot) for slot in (0, 1)] == [("x", "y")] * 2
            assert ledger.catalogue.features == dict.fromkeys((0, 1), '{"length":4.2}')
        more = Event.of("item/c", "item", now() - 5 * 86_400_000, {"id": "c", **common})
        store.append([more], store.last())
        recovery.compact(store, before=now() + 1000, window=0)
        saved = store.snapshot(base=True)
        assert saved is not None
        kept = snapshot.decode(saved[1])
        assert (kept.format, kept.catalogue.group_of(0)) == (snapshot.VERSION, ("x", "y"))
        assert recovery.check(store) == []


def test_a_newer_replica_on_one_postgresql(postgresql: Server, launcher: Launcher, tmp_path: Path) -> None:
    """The older one refuses from the first event that it does not know, and says which version wrote it."""
    url = postgresql.fresh()
    with Process(launcher, tmp_path, url, poll_ms=20) as older, Process(launcher, tmp_path, url) as later:
        older.start().add("a", "b")
        ranked = older.rank(1)
        with closing(open_store(url)) as newer:
            newer.append([Event.of("vote/1", "vote", now(), {"writer": "9.9.1"})], 0)
        until(lambda: older.get("/health/ready").status == 503)
        told = older.get("/health/ready").body
        assert told["status"] == "refusing"
        assert "hellinger 9.9.1" in told["reason"]
        for path, body in (
            ("/v1/rank", {"k": 1}),
            ("/v1/feedback", {"events": [{"ranking_id": ranked["ranking_id"], "item": "a", "kind": "click"}]}),
            ("/v1/items", {"items": [{"id": "c"}]}),
        ):
            answer = older.post(path, body)
            assert answer.status == 503
            assert "9.9.1" in answer.body["error"]["message"], answer.body
        assert older.get("/health/live").status == 200
        later.begin()
        until(lambda: later.status() is not None)
        assert later.status() != 0
        assert "hellinger 9.9.1" in later.said()
        assert "Traceback" not in later.said()
