"""What every store must do with snapshots, old events, the secret, and a log that comes from elsewhere."""

from __future__ import annotations

import gzip
import random
import tempfile
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

from hellinger.events import Logged
from hellinger.store import Store, StoreDamagedError, StoreUnavailableError, StoreVersionError, transfer
from hellinger.store.limits import COMPACTED, PART_BYTES
from hellinger.testing import _logs as logs
from hellinger.testing._logs import Fresh
from hellinger.testing._suite import refused
from hellinger.testing._writers import patient, snapshot_of

__all__ = ["moves"]


# Snapshots and upkeep ---------------------------------------------------------------------------------


def check_snapshots(fresh: Fresh) -> None:
    """The newest complete one is current, in every store; an older or an abandoned one changes nothing."""
    url = fresh()
    with logs.opened(url) as one, logs.opened(url) as two:
        one.save_snapshot(3, iter(snapshot_of(3)))
        assert _snapshot(two) == (3, snapshot_of(3))
        two.save_snapshot(5, [b"", b"\0\xff" * 400_000, b"end"])
        assert _snapshot(one) == (5, [b"", b"\0\xff" * 400_000, b"end"])
        one.save_snapshot(4, [b"older"])
        one.save_snapshot(5, [b"as old"])
        assert _snapshot(two) == (5, [b"as old"])

        def abandoned() -> Iterator[bytes]:
            yield b"begun"
            assert _snapshot(two) == (5, [b"as old"]), "a snapshot must not be current before it is complete"
            raise InterruptedError

        try:
            one.save_snapshot(9, abandoned())
        except InterruptedError:
            pass
        else:
            raise AssertionError("an error among the parts must be passed on")
        assert _snapshot(one) == (5, [b"as old"])
        one.save_snapshot(6, [])
        assert _snapshot(one) == (6, [])


def check_base_snapshots(fresh: Fresh) -> None:
    """The base of compaction and the current snapshot are kept side by side."""
    with logs.opened(fresh()) as store:
        store.save_snapshot(3, snapshot_of(3), base=True)
        assert (_snapshot(store), _snapshot(store, base=True)) == (None, (3, snapshot_of(3)))
        store.save_snapshot(7, snapshot_of(7))
        store.save_snapshot(5, snapshot_of(5), base=True)
        store.save_snapshot(4, snapshot_of(4), base=True)
        assert (_snapshot(store), _snapshot(store, base=True)) == ((7, snapshot_of(7)), (5, snapshot_of(5)))
        store.save_snapshot(8, snapshot_of(8), base=True)
        store.save_snapshot(9, [])
        assert (_snapshot(store), _snapshot(store, base=True)) == ((9, []), (8, snapshot_of(8)))


def _snapshot(store: Store, *, base: bool = False) -> tuple[int, list[bytes]] | None:
    found = store.snapshot(base=base)
    return found and (found[0], list(found[1]))


def check_snapshot_replaced_while_read(fresh: Fresh) -> None:
    """Whoever reads a snapshot that a newer one replaces gets all of it or is asked to read again."""
    with logs.opened(fresh()) as store:
        store.save_snapshot(1, snapshot_of(1))
        found = store.snapshot()
        assert found is not None
        parts = [next(found[1])]
        store.save_snapshot(2, snapshot_of(2))
        try:
            parts += found[1]
        except StoreUnavailableError:
            assert _snapshot(store) == (2, snapshot_of(2))
        else:
            assert parts == snapshot_of(1)


def check_snapshots_beside_appends(fresh: Fresh) -> None:
    """Large snapshots and appends go on at once, from two stores that both take snapshots."""
    url = fresh()
    with logs.opened(url) as one, logs.opened(url) as two, ThreadPoolExecutor(2) as threads:
        parts = [bytes([part]) * PART_BYTES for part in range(4)]
        saving = [threads.submit(store.save_snapshot, seq, parts) for store, seq in ((one, 7), (two, 8))]
        batch = 0
        while not all(save.done() for save in saving) or batch < 20:
            assert one.append(logs.events([f"k{batch}"]), batch).seqs == [batch + 1]
            batch += 1
        for save in saving:
            save.result()
        assert _snapshot(one) == (8, parts)


def check_compact(fresh: Fresh) -> None:
    """Old events that a snapshot stands for go; other kinds, places to keep, what is newer and the last event stay."""
    url = fresh()
    kinds = [*COMPACTED, "import", "leave", "unknown"]
    with logs.opened(url) as store:
        events = [logs.event(f"{kind}{i}", kind, at=i) for i in range(3000) for kind in kinds]
        store.append(events, 0)
        count, through = len(events), 1900 * len(kinds)
        logged = [Logged(seq, *event) for seq, event in enumerate(events, 1)]
        keep = {event.seq for event in logged if event.kind == "item" and event.at % 7 == 0}
        left = [event for event in logged if event.kind not in COMPACTED or event.seq > through or event.seq in keep]
        assert store.reached(1900) == through
        assert store.compact(through, keep) == count - len(left)
        assert logs.everything(store) == left
        assert (store.count(), store.last()) == (len(left), count)
        assert store.compact(through, keep) == 0
        gone = {event.seq for event in left if event.kind == "item" and event.at <= 100}
        assert store.compact(through, keep - gone) == len(gone), "what need not be kept any longer goes"
        store.append([logs.event("last", at=1)], count)
        store.compact(count + 9, [])
        assert [event.key for event in logs.everything(store) if event.kind in COMPACTED] == ["last"]
        assert store.append(logs.events(["rank0"]), count + 1).seqs == [count + 2], "a place must not be given twice"
        assert store.append([logs.event("import0", "import")], count + 2).seqs == [None], "an import is known for ever"


def check_reached(fresh: Fresh) -> None:
    """Up to that place every event is older, whatever the clocks did."""
    with logs.opened(fresh()) as store:
        assert store.reached(5) == 0
        store.append([logs.event(f"k{j}", at=at) for j, at in enumerate([3, 4, 6, 2, 7])], 0)
        assert [store.reached(at) for at in (2, 3, 4, 5, 6, 7, 8)] == [0, 0, 1, 2, 2, 4, 5]


def check_touch(fresh: Fresh) -> None:
    """To try whether the log takes writes changes nothing."""
    with logs.opened(fresh()) as store:
        secret = store.secret()
        store.append(logs.events(["a"]), 0)
        store.touch()
        assert (store.last(), store.count(), store.secret()) == (1, 1, secret)


def check_secret(fresh: Fresh) -> None:
    """One secret for the log, whoever asks first; another log has another."""
    url = fresh()
    with ExitStack() as stack, ThreadPoolExecutor(4) as threads:
        stores = [stack.enter_context(logs.opened(url)) for _ in range(4)]
        found = set(threads.map(lambda store: store.secret(), stores))
        other = stack.enter_context(logs.opened(fresh())).secret()
    assert len(found) == 1
    assert all(len(secret) == 32 and secret != other for secret in found)


# From one to another ----------------------------------------------------------------------------------


def check_transfer(fresh: Fresh) -> None:
    """A log that was dumped and restored is the same log: places, bodies, snapshot, secret."""
    moves(fresh, fresh)


def moves(one: Fresh, other: Fresh) -> None:
    """Require that a log of one kind can be restored as one of another."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log"
        source, goal, empty = one(), other(), other()
        with logs.opened(source) as store:
            assert transfer.dump(store, path) == (0, 0, None, 0, None, 0)
            assert transfer.restore(path, patient(empty)) == (0, 0, None, 0, None, 0)
            store.append(logs.events([*logs.AWKWARD, *(f"k{i}" for i in range(12_000))]), 0)
            store.compact(10, [4])
            store.save_snapshot(200, snapshot_of(200), base=True)
            store.save_snapshot(300, snapshot_of(300))
            done = transfer.dump(store, path)
            sizes = len(snapshot_of(300)), len(snapshot_of(200))
            assert done == (store.count(), store.last(), 300, sizes[0], 200, sizes[1])
            assert path.stat().st_mode & 0o077 == 0, "the file holds the secret: it must be its owner's alone"
            assert [entry.name for entry in Path(folder).iterdir()] == ["log"]
            expected = (logs.everything(store), _snapshot(store), _snapshot(store, base=True), store.secret())
        assert transfer.restore(path, patient(goal)) == done
        with logs.opened(goal) as store:
            everything = (logs.everything(store), _snapshot(store), _snapshot(store, base=True), store.secret())
            assert everything == expected
            assert store.append(logs.events(["k7000", "more"]), done.last).seqs == [None, done.last + 1]
        refused(lambda: transfer.restore(path, patient(goal)), "empty")
        with logs.opened(goal) as store:
            assert store.count() == done.events + 1


def check_damaged_transfer(fresh: Fresh) -> None:
    """A file that is cut short or changed anywhere is refused, and the log it was meant for stays empty."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log"
        with logs.opened(fresh()) as store:
            store.append(logs.events([f"k{i}" for i in range(400)]), 0)
            store.save_snapshot(300, snapshot_of(300))
            transfer.dump(store, path)
        content = path.read_bytes()
        goal = fresh()
        rng = random.Random(5)
        damaged = [content[: rng.randrange(len(content))] for _ in range(10)]
        for at in rng.sample(range(len(content)), 30):
            changed = content[:at] + bytes([content[at] ^ 1 << rng.randrange(8)]) + content[at + 1 :]
            if not _same(changed, content):
                damaged.append(changed)
        for bad in [*damaged, b"", b"text", content[:-1], content + content, content + b"x"]:
            path.write_bytes(bad)
            try:
                transfer.restore(path, patient(goal))
            except (StoreDamagedError, StoreVersionError):
                continue
            raise AssertionError("a damaged file must be refused")
        with logs.opened(goal) as store:
            assert (store.count(), store.snapshot()) == (0, None)


def _same(one: bytes, other: bytes) -> bool:
    """Whether two packed files hold the same: where text repeats itself, it may be packed in several ways."""
    try:
        return gzip.decompress(one) == gzip.decompress(other)
    except (OSError, EOFError, zlib.error):
        return False


def check_failed_fill(fresh: Fresh) -> None:
    """A log that could not be filled to the end is as empty as before."""

    def broken() -> Iterator[Logged]:
        yield from (Logged(i, f"k{i}", "rank", 0, "") for i in range(1, 3000))
        raise InterruptedError

    with logs.opened(fresh()) as store:
        secret = store.secret()
        for events, parts in ((broken(), []), ([Logged(1, "k", "rank", 0, "")], [b"x" * (PART_BYTES + 1)])):
            try:
                store.fill(bytes(32), events, (1, parts))
            except (InterruptedError, ValueError):
                continue
            raise AssertionError("the error must be passed on")
        assert (store.count(), store.snapshot(), store.secret()) == (0, None, secret)
        assert store.append(logs.events(["a"]), 0).seqs == [1]
