"""What variants with a model have learned: of each a pool, fed by the events of the log in their order.

A model's weights depend on the order of what it learns from, so its order is the log's: every event that bears on a
model becomes *steps*, and the steps are taken one after the other, a long one in parts: a page item by item, a prior
some thousand items at a time. When they are taken changes nothing of what comes out: a service takes some at each
commit and the others between rankings, a fold all of them at once.
"""

from __future__ import annotations

import hashlib
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import orjson

from hellinger import models
from hellinger._spec import format_spec, parse_spec
from hellinger.errors import InputError, require
from hellinger.ledger.calibration import Calibration
from hellinger.ledger.counts import Floats, Slots
from hellinger.ledger.errors import OutdatedError
from hellinger.ledger.numbering import Names
from hellinger.policies import Prior, policy
from hellinger.pool import Pool

__all__ = ["Modelled", "Placing", "ShownIn", "has_model", "read_features", "split_model", "warm"]

EDITION = 5
"""Raised when models come to learn otherwise: what another edition has learned is not what this one would have."""
ITEMS = 250
"""Items that one step adds, while rankings wait: some milliseconds."""
REFRESHED = 1 << 15
"""Items whose levels follow a new prior at once, while rankings wait: a millisecond."""


def has_model(spec: str) -> bool:
    """Whether a variant's spec names a model."""
    return "model=" in spec.replace(" ", "")


def split_model(spec: str) -> tuple[str, str | None]:
    """Policy and model of a variant's spec, each in full; no model where it names none.

    >>> split_model("cold-start(model=logistic(scale=0.5))")
    ('cold-start', 'logistic(scale=0.5)')
    """
    if not has_model(spec):
        return policy(spec).ready().spec, None
    name, arguments = parse_spec(spec)
    model = arguments.pop("model", None)
    require(isinstance(model, str), "model is the spec of one", model=model)
    return policy(format_spec(name, arguments)).ready().spec, models.get(str(model)).spec


_Do = Callable[..., Iterator[None] | None]
"""What takes a step: at once, or as far as an iterator is asked."""


class Placing(NamedTuple):
    """An item as a model gets to know it."""

    since: int
    impressions: float
    rewards: float
    tags: Names
    features: str | None
    hidden: bool


class ShownIn(NamedTuple):
    """Of which ranking impressions and rewards are."""

    name: str
    positions: Sequence[int]
    at: int
    until: int
    """When it can be rewarded no more."""
    who: int | None = None
    """A number of the user's, or of the ranking's own where it has none; None for somebody else each time."""


class Modelled:
    """A pool with a model, whose items are known by their places in the log (``since``).

    Parameters
    ----------
    spec, model
        Of the policy and of the model.
    began
        The place in the log of the phase that named it.
    """

    def __init__(self, spec: str, model: str, began: int) -> None:
        self.spec = spec
        self.model = model
        self.began = began
        self.shared = False
        """Whether it learns from the rankings of all variants."""
        self.pool: Pool[int] = Pool(spec, model=model, learn="given", seed=0, weighted=True)
        self._begin_slowly()
        self.members: set[int] = set()
        """Items that the pool has once all steps are taken."""
        self.unsettled = 0
        """Steps to be taken before the pool has the items that it is to have."""
        self.calibration = Calibration()
        self._steps: deque[tuple[int, _Do, tuple[Any, ...]]] = deque()
        self._begun: Iterator[None] | None = None
        """What is left of the step that was begun."""
        self.taken = 0
        """Steps taken so far, in this process."""
        self.behind = 0
        """Items in steps that were not begun: each an item to take in, or one event to learn from."""

    def __len__(self) -> int:
        return len(self._steps) + (self._begun is not None)

    def _begin_slowly(self) -> None:
        self.pool._modelled.regression.slow = True  # what bears on all items takes several slices

    # What happens, in the order of the log ------------------------------------------------------------

    def begin(self, items: Sequence[Placing], rounds: float) -> None:
        """Begin with these items, which had so many impressions in all; what came of them is from people unknown."""
        for start in range(0, len(items), ITEMS):
            self.place(items[start : start + ITEMS])
        self._change(self._set_rounds, rounds)

    def place(self, items: Sequence[Placing]) -> None:
        """Take items in, or anew those that are others than they were."""
        self.members.update(item.since for item in items)
        self._change(self._place, items, items=len(items))

    def remove(self, since: int) -> None:
        """Take an item out, if it is here."""
        if since in self.members:
            self.members.discard(since)
            self._change(self._remove, since)

    def hide(self, since: int, hidden: bool) -> None:
        """Show an item no more, or again."""
        self._change(self._hide, since, hidden)

    def _change(self, do: _Do, *arguments: Any, items: int = 1) -> None:
        self.unsettled += 1
        self._put(items, do, *arguments)

    def _put(self, items: int, do: _Do, *arguments: Any) -> None:
        self.behind += items
        self._steps.append((items, do, arguments))

    def observe(
        self, since: Sequence[int], impressions: Any, rewards: Any, context: str | None, shown: ShownIn | None = None
    ) -> None:
        """Learn what items have earned in a context, given as JSON, and where they were shown if that is known."""
        self._put(len(since), self._observe, since, impressions, rewards, context, shown)

    def recount(self, since: Slots, impressions: Floats, rounds: float) -> None:
        """Let the impressions of all items so far count as so many, and those of all together."""
        self._put(1, self._recount, since, impressions, rounds)

    def set_prior(self, state: Mapping[str, Any]) -> None:
        """Believe this of items before their first event."""
        self._put(1, self._set_prior, state)

    # Taking the steps ---------------------------------------------------------------------------------

    def catch_up(self, seconds: float | None = None, *, most: int = 0) -> None:
        """Take the steps there are: all; or for about so long, and for longer while more than ``most`` items wait."""
        end = None if seconds is None else time.perf_counter() + seconds
        while len(self) and (end is None or (most and self.behind > most) or time.perf_counter() < end):
            self._go_on()

    def settle(self, seconds: float) -> bool:
        """Have the pool's items be those that it is to have, if that takes no longer; whether they are."""
        end = time.perf_counter() + seconds
        while self.unsettled and time.perf_counter() < end:
            self._go_on()
        return not self.unsettled

    def _go_on(self) -> None:
        """Take the next step, or the next part of the one that was begun."""
        if self._begun is None:
            items, do, arguments = self._steps.popleft()
            self.behind -= items
            self._begun = do(*arguments)
            self.taken += self._begun is None
        elif next(self._begun, self) is self:
            self._begun = None
            self.taken += 1

    def _set_rounds(self, rounds: float) -> None:
        self.pool.rounds = rounds
        self.unsettled -= 1

    def _place(self, items: Sequence[Placing]) -> Iterator[None]:
        pool = self.pool
        there = [item.since for item in items if item.since in pool]
        if there:
            pool.remove(there)
        pool.add(
            [item.since for item in items],
            [item.impressions for item in items],
            [item.rewards for item in items],
            tags=[item.tags for item in items],
            features=[read_features(item.features) for item in items],
            fresh=False,
            order=[item.since for item in items],
        )
        hidden = [item.since for item in items if item.hidden]
        if hidden:
            pool.hide(hidden)
        self.unsettled -= 1
        yield from self._refresh()

    def _refresh(self) -> Iterator[None]:
        """Let the levels of all items follow what bears on all of them."""
        while self.pool.unsettled:
            yield
            self.pool.settle(REFRESHED)

    def _remove(self, since: int) -> None:
        self.pool.remove([since])
        self.unsettled -= 1

    def _hide(self, since: int, hidden: bool) -> None:
        if since in self.pool:
            (self.pool.hide if hidden else self.pool.unhide)([since])
        self.unsettled -= 1

    def _observe(
        self, since: Sequence[int], impressions: Any, rewards: Any, context: str | None, shown: ShownIn | None
    ) -> Iterator[None]:
        ids = np.asarray(since, np.int64)
        n, s = np.broadcast_to(impressions, ids.shape), np.broadcast_to(rewards, ids.shape)
        here = self.pool.contains(ids)
        if not here.all():
            ids, n, s = ids[here], n[here], s[here]
        if not ids.size:
            return
        about = read_features(context)
        if shown is not None:
            positions = [position for position, known in zip(shown.positions, here.tolist(), strict=True) if known]
            if n.any():  # predict, then learn
                means = self.pool.predict(ids, context=about)[0] * n  # where it is looked at less, it earns less
                self.calibration.show(shown.name, shown.at, shown.until, positions, means)
            for position, rise in zip(positions, s.tolist(), strict=True) if s.any() else ():
                self.calibration.reward(shown.name, position, rise)
        yield from self.pool.recording(ids, n, s, context=about, who=None if shown is None else shown.who)

    def _recount(self, since: Slots, impressions: Floats, rounds: float) -> Iterator[None]:
        for start in range(0, since.size, REFRESHED):
            some = slice(start, start + REFRESHED)
            self.pool._reweigh(since[some], impressions[some])
            yield
        self.pool.rounds = rounds
        yield from self._refresh()

    def _set_prior(self, state: Mapping[str, Any]) -> Iterator[None]:
        if self.pool.policy.rule.learns_prior:
            self.pool.set_prior(Prior.from_state(state), slowly=True)
            yield from self._refresh()

    # State --------------------------------------------------------------------------------------------

    def digest(self) -> str:
        """A text that is the same for the same state, to the bit."""
        self.catch_up()
        pool, table, places = self.pool, self.pool.table(), np.arange(len(self.pool))
        plain, arrays = pool._modelled.regression.state()
        prior = None if pool.prior is None else pool.prior.state()
        judged = self.calibration.as_json()
        found = hashlib.sha256(orjson.dumps([plain, self.shared, self.began, pool.rounds, prior, judged]))
        arrays |= {"ids": np.array(table.ids(places), np.int64), "hidden": table.items["hidden"]}
        arrays |= {name: table.counts(name, places) for name in ("n", "s")}
        for name in sorted(arrays):
            found.update(name.encode() + np.ascontiguousarray(arrays[name]).tobytes())
        return found.hexdigest()

    def encode(self) -> tuple[dict[str, Any], bytes]:
        """Everything, for a snapshot."""
        self.catch_up()
        header: dict[str, Any] = {"spec": self.spec, "model": self.model, "began": self.began, "shared": self.shared}
        header |= {"edition": EDITION, "judged": self.calibration.as_json()}
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "pool"
            self.pool.save(path)
            return header, path.read_bytes()

    @classmethod
    def decode(cls, header: Mapping[str, Any], data: bytes) -> Modelled:
        """What :meth:`encode` gave; an error where another edition has learned it, or wrote the pool otherwise."""
        if header.get("edition") != EDITION:
            raise OutdatedError(f"what models have learned must be of edition {EDITION}, not {header.get('edition')}")
        made = cls(header["spec"], header["model"], header["began"])
        made.shared = header["shared"]
        made.calibration = Calibration.of_json(header["judged"])
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "pool"
            path.write_bytes(data)
            try:
                made.pool = Pool.load(path)
            except InputError as error:
                raise OutdatedError(f"the pool of a model cannot be read: {error}") from None
        made._begin_slowly()
        made.members = set(made.pool.ids)
        return made


def warm(spec: str, model: str | None) -> None:
    """Have what a model needs compiled."""
    assert model is not None
    warming = Modelled(spec, model, 0)
    warming.begin([Placing(since, 2.0, 1.0, ("t",), '{"x":1.0}', False) for since in (1, 2)], 4.0)
    for number in range(20):  # so many that it learns how far weights spread
        warming.observe([1], 1.0, 0.0, '{"y":1.0}', ShownIn(str(number), [0], 0, 0))
    warming.catch_up()
    for filters in ({"tags": ["t"], "exclude": [2]}, {"among": [1, 2]}):
        warming.pool.pick(1, context={"y": 1.0}, count=False, **filters)
    warming.pool.scores([1])
    warming.recount(np.array([1]), np.array([1.5]), 3.5)
    warming.set_prior(Prior(plays=1.0).state())
    warming.remove(2)
    warming.catch_up()


def read_features(features: str | None) -> dict[str, Any]:
    """Features or a context; nothing where a model cannot take them, as another version may have let them pass."""
    if features is None:
        return {}
    found: dict[str, Any] = orjson.loads(features)
    try:
        models.check_features(found)
    except InputError:
        return {}
    return found
