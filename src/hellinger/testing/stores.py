"""What every store must do.

Each check takes a function that gives the URL of a new, empty log at every call, and raises ``AssertionError`` where it
fails.
"""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

from hellinger.events import Event, Logged
from hellinger.store import Appended, Store
from hellinger.store.limits import KEY_BYTES, PART_BYTES
from hellinger.testing import _logs as logs
from hellinger.testing import _upkeep
from hellinger.testing._logs import Fresh
from hellinger.testing._suite import found_in, refused
from hellinger.testing._writers import batch_sizes, running, snapshot_of, write_and_read, write_until_killed

__all__ = ["Fresh", "check_store", "store_checks"]


def check_store(fresh: Fresh) -> None:
    """Run the whole suite on a kind of store."""
    for check in store_checks().values():
        check(fresh)


check_store.suite = True  # type: ignore[attr-defined]


def store_checks() -> dict[str, Callable[[Fresh], None]]:
    """Return every check by name."""
    return found_in(globals()) | found_in(vars(_upkeep))


# The log ----------------------------------------------------------------------------------------------


def check_empty(fresh: Fresh) -> None:
    """An empty log answers everything, and appending nothing to it is nothing."""
    with logs.opened(fresh()) as store:
        assert (store.last(), store.count(), store.snapshot()) == (0, 0, None)
        assert store.read(0, 10) == store.thread(["a"]) == store.thread([]) == store.at([1]) == store.at([]) == []
        assert store.append([], 0) == Appended([], [])
        assert (store.compact(10, []), store.reached(10)) == (0, 0)


def check_order(fresh: Fresh) -> None:
    """Places are 1, 2, 3, … in the order of batches and within them, and reading finds them so, page by page."""
    keys = [f"k{i * 7919 % 10_007}" for i in range(9000)]  # in no order that an index would have
    sizes = itertools.cycle([1, 2, 3, 64, 1000, 1025, 2500])
    url = fresh()
    with logs.opened(url) as store:
        done = 0
        while done < len(keys):
            batch = keys[done : done + next(sizes)]
            appended = store.append(logs.events(batch), done)
            assert appended == Appended(list(range(done + 1, done + len(batch) + 1)), [])
            done += len(batch)
            assert store.last() == store.count() == done
    with logs.opened(url) as store:
        pages = [store.read(after, 700) for after in range(0, len(keys), 700)]
        found = [event for page in pages for event in page]
        assert [event.key for event in found] == keys
        logs.intact(found)
        assert store.read(len(keys), 5) == []
        assert [event.seq for event in store.at([7, 3, 9001, 3, 0, -1, 9000])] == [3, 7, 9000]


def check_idempotence(fresh: Fresh) -> None:
    """A key is logged once, as first written, whether it comes again in its batch, later, or after reopening."""
    url = fresh()
    with logs.opened(url) as store:
        first = [Event("a", "rank", 1, "first"), Event("b", "rank", 1, "first"), Event("a", "seen", 2, "second")]
        assert store.append(first, 0) == Appended([1, 2, None], [])
        assert store.append([Event("b", "rank", 9, "third"), Event("c", "rank", 3, "new")], 2).seqs == [None, 3]
        assert store.append([Event("c", "rank", 4, "x"), Event("c", "rank", 5, "y")], 3) == Appended([None, None], [])
    with logs.opened(url) as store:
        mixed = ["x", "a", "x", "y", "b", "z", "c", "y"]
        assert store.append(logs.events(mixed), 3).seqs == [4, None, None, 5, None, 6, None, None]
        found = logs.everything(store)
        assert [(event.seq, event.key) for event in found] == list(enumerate("abcxyz", 1))
        assert found[:3] == [(1, "a", "rank", 1, "first"), (2, "b", "rank", 1, "first"), (3, "c", "rank", 3, "new")]


def check_others(fresh: Fresh) -> None:
    """A writer learns what others logged since the place it knows, and never its own."""
    url = fresh()
    with logs.opened(url) as one, logs.opened(url) as two:
        one.append(logs.events(["a", "b"]), 0)
        done = two.append(logs.events(["c"]), 0)
        assert ([event.key for event in done.others], done.seqs) == (["a", "b"], [3])
        done = one.append(logs.events(["d", "c", "e"]), 2)
        assert ([event.key for event in done.others], done.seqs) == (["c"], [4, None, 5])
        assert one.append(logs.events(["f"]), 5) == Appended([6], [])
        assert [event.seq for event in one.append(logs.events(["f"]), 0, 2).others] == [1, 2]
        done = two.append(logs.events(["a", "f"]), 3)
        assert [event.key for event in done.others] == ["d", "e", "f"], "all that is new, where the batch is not"
        assert done.seqs == [None, None]
        assert [event.seq for event in two.append([], 4).others] == [5, 6]
        assert done.others == two.read(3, 10) == one.at([4, 5, 6])


def check_bytes(fresh: Fresh) -> None:
    """Keys, kinds, times and bodies come back as they went in."""
    bodies = [
        "",
        " ",
        "{}",
        '{"a": "\\u0000\\n\\ud83c"}',
        "%s ? :a $1 {} \\",
        "'\"`",
        "é日🎲\U0010ffff\x7f\x01\r\n\t",
        "x" * 300_000,
    ]
    times = [0, -1, 2**62, -(2**63), 2**63 - 1, 1_700_000_000_000, 5, 6]
    events = [
        Event(f"k{i}", f"kind {text[:9]}", at, text) for i, (text, at) in enumerate(zip(bodies, times, strict=True))
    ]
    keys = [Event(key, "rank", 0, key) for key in logs.AWKWARD]
    with logs.opened(fresh()) as store:
        store.append(events + keys, 0)
        found = logs.everything(store)
        assert [Event(*event[1:]) for event in found] == events + keys
        assert found[3].seq == 4


def check_thread(fresh: Fresh) -> None:
    """A thread is a key and what continues it after a slash, whatever characters there are."""
    with logs.opened(fresh()) as store:
        store.append(logs.events(random.Random(1).sample(logs.AWKWARD, len(logs.AWKWARD))), 0)
        found = logs.everything(store)
        for wanted in [*([key] for key in logs.AWKWARD), ["a", "á"], ["a/b", "a", "zzz"], logs.AWKWARD, ["a", "a"]]:
            expected = [e for e in found if any(e.key == key or e.key.startswith(key + "/") for key in wanted)]
            assert store.thread(wanted) == expected, f"the thread of {wanted!r}"


def check_refusals(fresh: Fresh) -> None:
    """What no log could hold is refused whole, with the rule and the value, and the store goes on."""
    with logs.opened(fresh()) as store:
        good = logs.event("good")
        refused(lambda: store.append([good, logs.event("x" * (KEY_BYTES + 1))], 0), str(KEY_BYTES), str(KEY_BYTES + 1))
        refused(lambda: store.append([good, logs.event("é" * (KEY_BYTES // 2) + "x")], 0), str(KEY_BYTES + 1))
        refused(lambda: store.append([good, Event("k", "x" * 3000, 0, "")], 0), "kind", "3000")
        refused(lambda: store.append([good, logs.event("nul\0")], 0), "NUL")
        refused(lambda: store.append([good, Event("k", "rank", 0, "\0")], 0), "NUL")
        refused(lambda: store.append([good, Event("k", "rank", 2**63, "")], 0), "at", str(2**63))
        refused(lambda: store.append([good, Event("k", "rank", 0, "\ud800")], 0), "")
        refused(lambda: store.append([good, Event("\udfff", "rank", 0, "")], 0), "")
        refused(lambda: store.save_snapshot(0, [b"fine", b"x" * (PART_BYTES + 1)]), "part", str(PART_BYTES + 1))
        assert (store.count(), store.snapshot()) == (0, None)
        assert store.append([good], 0).seqs == [1]


def check_against_a_model(fresh: Fresh) -> None:
    """Two writers in turn, with keys that come again, do what a list and a set would."""
    rng = random.Random(7)
    url = fresh()
    with logs.opened(url) as one, logs.opened(url) as two:
        places: dict[str, int] = {}
        log: list[Logged] = []
        for _ in range(60):
            after = rng.randint(0, len(log))
            batch = logs.events([f"k{rng.randint(0, 400)}" for _ in range(rng.choice((0, 1, 2, 5, 30)))])
            before = len(log)
            seqs: list[int | None] = []
            for event in batch:
                new = event.key not in places
                if new:
                    log.append(Logged(len(log) + 1, *event))
                    places[event.key] = len(log)
                seqs.append(len(log) if new else None)
            assert rng.choice((one, two)).append(batch, after) == Appended(seqs, log[after:before])
        assert logs.everything(one) == logs.everything(two) == log


# Concurrency ------------------------------------------------------------------------------------------


def check_threads(fresh: Fresh) -> None:
    """Writers with a store each, and readers of one store: nothing lost, nothing twice, nothing out of order."""
    url = fresh()
    writers, batches = 4, 25
    with ExitStack() as stack, ThreadPoolExecutor(writers + 2) as threads:
        stores = [stack.enter_context(logs.opened(url)) for _ in range(writers)]
        total = writers * batches * 3

        def write(number: int) -> list[tuple[str, int | None]]:
            written: list[tuple[str, int | None]] = []
            for batch in range(batches):
                keys = [f"{number}/{batch}/{i}" for i in range(3)]
                written += zip(keys, stores[number].append(logs.events(keys), 0).seqs, strict=True)
            return written

        polls = [threads.submit(_poll, stores[0], total) for _ in range(2)]
        written = [pair for done in threads.map(write, range(writers)) for pair in done]
        found = logs.everything(stores[0])
        logs.intact(found)
        assert sorted(written) == sorted((event.key, event.seq) for event in found)
        for poll in polls:
            assert poll.result() == found, "whoever polls must see every event in order"


def _poll(store: Store, total: int) -> list[Logged]:
    """Read what is new again and again, as a replica does that follows the others."""
    seen: list[Logged] = []
    until = time.monotonic() + 60
    while len(seen) < total and time.monotonic() < until:
        seen += store.read(seen[-1].seq if seen else 0, 17)
    return seen


def check_processes(fresh: Fresh) -> None:
    """Several processes open a log that is not there yet and write at once, keys in common included."""
    url = fresh()
    writers, batches = 3, 30
    with ExitStack() as stack:
        pipes = [stack.enter_context(running(write_and_read, url, f"w{i}", batches))[1] for i in range(writers)]
        with logs.opened(url) as store:
            polled = _poll(store, (2 * writers + 1) * batches)
            results = [pipe.recv() for pipe in pipes]
            found = logs.everything(store)
    failed = [result for result in results if isinstance(result, Exception)]
    assert not failed, f"a writer failed: {failed}"
    logs.intact(found)
    assert polled == found, "whoever polls must see every event in order"
    assert sorted(pair for new, _ in results for pair in new) == sorted((event.key, event.seq) for event in found)
    for _, seen in results:
        assert seen == list(range(1, len(seen) + 1)), "a writer must learn of everything, in order"


def check_kill(fresh: Fresh) -> None:
    """Killed twenty times while it writes: what was acknowledged is there once, a batch whole or not at all."""
    url = fresh()
    rng = random.Random(11)
    places: dict[str, int] = {}
    for life in range(20):
        name = f"life{life}"
        with running(write_until_killed, url, name, life) as (process, pipe):
            assert pipe.poll(30), "the writer does not write"
            time.sleep(rng.random() * 0.03)
            process.kill()
            process.join()
            for batch, seqs in _received(pipe.recv):
                places.update({f"{name}/{batch}/{i}": seq for i, seq in enumerate(seqs)})
        with logs.opened(url) as store:
            logs.intact(logs.everything(store))
            snapshot = store.snapshot()
            assert snapshot is None or list(snapshot[1]) == snapshot_of(snapshot[0]), "a snapshot must be whole"
    with logs.opened(url) as store:
        found = logs.everything(store)
        logged = {event.key: event.seq for event in found}
        assert {key: logged.get(key) for key in places} == places, "what was acknowledged must be there, in its place"
        sizes = [
            (name, len(list(batch)))
            for name, batch in itertools.groupby(found, key=lambda event: event.key.split("/")[0])
        ]
        for name, size in sizes:
            whole = itertools.accumulate(batch_sizes(int(name.removeprefix("life"))))
            assert size == next(total for total in whole if total >= size), "a batch must be there whole or not at all"
        assert store.append(logs.events(["after"]), store.last()).seqs == [len(found) + 1]


def _received(receive: Callable[[], tuple[int, list[int]]]) -> Iterator[tuple[int, list[int]]]:
    """Everything that was sent, up to what was cut off."""
    while True:
        try:
            yield receive()
        except (EOFError, OSError):
            return
