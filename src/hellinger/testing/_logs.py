"""What checks of stores share: logs, events that tell whether they are as written, and awkward keys."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing

from hellinger.events import Event, Logged
from hellinger.store import Store, open_store
from hellinger.store.limits import KEY_BYTES
from hellinger.testing._writers import body, patient

__all__ = ["AWKWARD", "Fresh", "event", "events", "everything", "intact", "opened"]

Fresh = Callable[[], str]
"""Gives the URL of a new, empty log at each call."""

AWKWARD = [
    "a", "a/", "a//b", "a/b", "a/b/c", "a0", "a.", "a%", "a%/x", "a_", "a_/x", "ab", "ab/x", "A", "A/b", "á", "á/ü",
    "'; DROP TABLE events; --", '"quoted"/"x"', "back\\slash/\\", "new\nline/\t", " a", "a ", "a/ ", "%s", "?",
    ":key", "$1", "\\u0000", "日本/語", "🎲/🎲", "\U0010ffff", "a/\U0010ffff", "/", "//", "/a", "\x7f", "\x01",
    "k" * KEY_BYTES, "é" * (KEY_BYTES // 2), "long/" + "x" * (KEY_BYTES - 5),
]  # fmt: skip


def opened(url: str) -> closing[Store]:
    """A store, closed at the end of the block."""
    return closing(open_store(patient(url)))


def event(key: str, kind: str = "rank", at: int = 0) -> Event:
    """An event whose body follows from its key."""
    return Event(key, kind, at, body(key))


def events(keys: Sequence[str]) -> list[Event]:
    """Events with these keys."""
    return [event(key) for key in keys]


def everything(store: Store) -> list[Logged]:
    """The whole log."""
    return store.read(0, 1 << 31)


def intact(found: Sequence[Logged]) -> None:
    """Require places without holes, every key once, and bodies as written."""
    assert [each.seq for each in found] == list(range(1, len(found) + 1)), "places must be 1, 2, 3, …"
    assert len({each.key for each in found}) == len(found), "the log must hold every key once"
    for each in found:
        assert each.body == body(each.key), f"the body of {each.key!r} must be as written, but is {each.body!r}"
