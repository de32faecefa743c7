"""Where rankings are made and feedback is taken in: everything the service decides, without web, clock or database."""

from __future__ import annotations

import hashlib
import heapq
import math
import random
from array import array
from collections.abc import Iterable, Iterator, Sequence
from importlib.metadata import version
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from orjson import dumps

from hellinger.engine.pools import Learning, Pools
from hellinger.events import Event, Logged, Row, new_request, new_token
from hellinger.experiment import Split
from hellinger.ledger import SHOWN, Ledger, Request
from hellinger.policies import policy
from hellinger.pool import Leaving, Ranked

__all__ = ["Desk", "Draft", "DraftRow", "Feedback", "FeedbackRow", "Query", "Sorted", "points"]

HOUR = 3_600_000
UNIT = 2.0**-20
"""Points are whole multiples of this, so that their sums are exact in whatever order."""


_CLICK = dumps({"points": 1.0, "late": False, "happened": None}).decode()
"""The body of nearly all feedback."""


class Query(NamedTuple):
    """What is asked of a ranking."""

    k: int
    user: str | None = None
    segment: str | None = None
    exclude: Sequence[str] = ()
    tags: Sequence[str] | None = None
    among: Sequence[str] | None = None


class Draft(NamedTuple):
    """An event not yet in the log, with its fields at hand."""

    event: Event
    fields: dict[str, Any]

    @classmethod
    def of(cls, key: str, kind: str, at: int, fields: dict[str, Any]) -> Draft:
        """An event with these fields."""
        return cls(Event.of(key, kind, at, fields), fields)


DraftRow = tuple[Row, Any]
"""The same as a plain tuple; the fields of feedback are :class:`hellinger.events.Said`, a position for the item."""


class Feedback(NamedTuple):
    """What a user did with an item of a ranking."""

    request: str
    item: str
    kind: str
    value: float = 1.0
    happened: int | None = None


FeedbackRow = tuple[str, str, str, float, int | None]
"""The same as a plain tuple, which is made in half the time."""


class Sorted(NamedTuple):
    """Feedback, sorted by what becomes of it: indices of what was given, and drafts of what is to be logged."""

    drafts: list[DraftRow]
    places: list[int]
    """Which of those given each draft comes from."""
    late: set[int]
    duplicate: list[int]
    unknown: list[int]
    rejected: list[tuple[int, str]]


def points(weight: float, value: float = 1.0) -> float:
    """What feedback is worth, in [0, 1] and exact to sum."""
    if weight == 1.0 == value:
        return 1.0
    return min(1.0, max(0.0, round(weight * value / UNIT) * UNIT))


class Desk:
    """Variants that share the traffic, each with its pool, over one ledger.

    Every method is told the time. :meth:`rank` counts at once what it shows; whatever is to last is handed out as
    drafts of events, and takes effect in :meth:`commit`, when the log has it.

    Parameters
    ----------
    ledger
        The log's fold, which the desk goes on from.
    variants
        Spec of each variant's policy.
    split
        How requests are shared out.
    sticky
        Whether a user always gets the same variant.
    learning
        ``"isolated"`` or ``"shared"``; see :class:`Pools`.
    counted
        Whether impressions count when served, or when they are confirmed.
    window
        Milliseconds in which feedback is learned.
    weights
        Points for each kind of feedback; 1 for the others.
    random_share
        Share of rankings drawn uniformly at random, for evaluation offline.
    seed
        Fixes the choice of variants, the rankings drawn, and the order of ties.
    """

    def __init__(
        self,
        ledger: Ledger,
        variants: dict[str, str],
        *,
        split: Split | None = None,
        sticky: bool = False,
        learning: Learning = "isolated",
        counted: bool = True,
        window: int = 24 * HOUR,
        weights: dict[str, float] | None = None,
        random_share: float = 0.0,
        seed: int | None = None,
        enough: float | None = None,
        leaving: Leaving | None = None,
    ) -> None:
        self.ledger = ledger
        self.variants = {name: policy(spec).spec for name, spec in variants.items()}
        self.split = split or Split(dict.fromkeys(variants, 1.0))
        self.sticky = sticky
        self.counted = counted
        self.window = window
        self.weights = weights or {}
        self.random_share = random_share
        self.rng = random.Random(seed)
        self.leaving = (leaving or Leaving()).check()
        by_pool = None if leaving is None else leaving._replace(age=None)
        self.pools = Pools(
            ledger,
            variants,
            learning=learning,
            seed=self.rng.getrandbits(40),
            enough=enough,
            leaving=by_pool,
        )
        self.versions = {
            name: _version(spec, learning, counted, random_share, window, self.weights, enough, leaving)
            for name, spec in self.variants.items()
        }
        self._stochastic = {name for name, spec in variants.items() if policy(spec).rule.random}
        self.segments = set(ledger.segments)
        """Segments that have been asked for."""
        self.pending: dict[str, None] = {}
        """Rankings that are counted and not known to be in the log."""
        self.named: dict[str, dict[str, Any]] = {}
        """Rankings made under a name, not known to be in the log: what they say, by name."""
        held = ledger.catalogue
        self._expiries = list(self._dues(np.flatnonzero(held["state"][: len(held.ids)] == SHOWN)))
        heapq.heapify(self._expiries)
        self._ripe: list[tuple[int, int]] = []
        self._covered: set[int] = set()
        """Contents left out because they have expired, which the log does not know yet."""

    def warm(self) -> None:
        """Have the kernels compiled that the first requests would wait for."""
        ledger = Ledger()
        ledger.apply(Logged(1, "item/1", "item", 0, ""), {"id": "a", "tags": ["t"], "expires_at": None})
        pools = Pools(ledger, self.variants, learning=self.pools.learning, enough=0)
        for pool in pools.of.values():
            pool.pick(1)
            pool.pick(1, exclude=[1], tags=["t"])
            pool.record_many([0, 0], "", [1, 1], [1, 1])
        for real in self.pools.of.values():
            if len(real):
                real.rank(1)

    # Ranking ------------------------------------------------------------------------------------------

    def rank(self, query: Query, at: int, name: str | None = None) -> Draft:
        """Rank for one request, and count what it shows; the draft is to be logged, and says what to answer.

        A ranking made under a name counts once the log has it, and not before: it may have another by that name.
        """
        count = self.counted and name is None
        if self.pools.dates or (self._expiries and self._expiries[0][0] <= at):
            self._ripen(at)
        if self.sticky and query.user is not None:
            variant, chance = self.split.choose_for(query.user)
        else:
            variant, chance = self.split.choose(self.rng)
        segment = query.segment or ""
        pool = self.pools.of[variant]
        drawn = self.random_share > 0 and self.rng.random() < self.random_share
        propensities: float | list[float] | None = None
        chosen: list[Any] = []
        scores: Sequence[float | None] = []
        if len(pool) == 0:
            propensities = [] if self.random_share > 0 else None
        elif self.random_share > 0:
            ranked, propensities = self._explore(variant, query, drawn)
            chosen, scores = [one.id for one in ranked], [one.score for one in ranked]
        else:
            chosen, scores = pool.pick(query.k, segment, count=count, **self._filters(variant, query))
            propensities = None if variant in self._stochastic else 1.0
        if math.inf in scores:  # which JSON has no word for
            scores = [None if score == math.inf else score for score in scores]
        rid, items = name or new_request(at), list(map(self.ledger.catalogue.ids.__getitem__, chosen))
        fields = {
            "variant": variant,
            "policy": self.variants[variant],
            "version": self.versions[variant],
            "chance": chance,
            "segment": query.segment,
            "user": query.user,
            "random": drawn,
            "counted": self.counted,
            "through": self.ledger.seq,
            "items": items,
            "scores": scores,
            "propensities": propensities,
        }
        if name is not None:
            self.named[rid] = fields
            return Draft.of(rid, "rank", at, fields)
        slots = array("i", chosen)
        request = Request(variant, segment, at, self.ledger.seq, tuple(items), slots, counted=self.counted)
        counted_by_pool = count and self.random_share == 0
        self.ledger.open(rid, request, told=counted_by_pool)
        if counted_by_pool:
            self.pools.served(variant, segment, chosen)
        else:
            self.pools.settle()
        self.pending[rid] = None
        return Draft.of(rid, "rank", at, fields)

    def _filters(self, variant: str, query: Query) -> dict[str, Any]:
        filters: dict[str, Any] = {}
        slot_of = self.ledger.catalogue.slots.get
        if query.exclude:
            filters["exclude"] = [slot_of(item, -1) for item in query.exclude]  # −1 is nobody's
        if query.tags is not None:
            filters["tags"] = query.tags
        if query.among is not None:
            pool = self.pools.of[variant]
            filters["among"] = [slot for item in query.among if (slot := slot_of(item, -1)) in pool]
        return filters

    def _explore(self, variant: str, query: Query, drawn: bool) -> tuple[list[Ranked], list[float] | None]:
        """A ranking and the chance of each of its places, where a share of all rankings is drawn at random."""
        pool = self.pools.of[variant].deciding(query.segment or "")
        filters = self._filters(variant, query)
        best = pool.rank(query.k, **filters)
        some, eligible = pool.draw(query.k, self.rng, **filters)
        ranked = some if drawn else best
        if variant in self._stochastic:
            return ranked, None
        if not ranked:
            return [], []
        uniform, greedy = self.random_share / eligible, 1.0 - self.random_share
        pairs = zip(ranked, best, strict=True)
        return ranked, [uniform + greedy * (one.id == other.id) for one, other in pairs]

    # Feedback -----------------------------------------------------------------------------------------

    def missing(self, names: Iterable[str]) -> list[str]:
        """Requests among these that have to be recalled from the log before :meth:`sort`."""
        use = self.ledger.requests.get  # each is used now, and goes last when there are too many
        return [name for name in dict.fromkeys(names) if use(name) is None]

    def recall(self, thread: Iterable[Logged]) -> None:
        """Take in what the log says of requests that were missing."""
        self.ledger.requests.recall(thread, self.ledger.seq)

    def sort(self, given: Sequence[FeedbackRow], at: int) -> Sorted:
        """Sort feedback by what is to become of it."""
        out = Sorted([], [], set(), [], [], [])
        keys: list[str] = []
        bodies: list[str] = []
        said: list[tuple[str, int, str, float, bool, int | None]] = []
        request_of, weights, since = self.ledger.requests.held.get, self.weights, at - self.window
        for j, (name, item, kind, value, happened) in enumerate(given):
            request = request_of(name)
            if request is None:
                out.unknown.append(j)
                continue
            try:
                position = request.items.index(item)
            except ValueError:
                out.rejected.append((j, _not_ranked(item)))
                continue
            if kind in request.given and position in request.given[kind]:
                out.duplicate.append(j)
                continue
            late, worth = request.at < since, 1.0
            if late:
                worth = 0.0
                out.late.add(j)
            elif value != 1.0 or kind in weights:
                worth = points(weights.get(kind, 1.0), value)
            body = _CLICK
            if worth != 1.0 or happened is not None:
                body = dumps({"points": worth, "late": late, "happened": happened}).decode()
            keys.append(f"{name}/{kind}/{item}")
            bodies.append(body)
            said.append((name, position, kind, worth, late, happened))  # by name: the log may bring the request itself
            out.places.append(j)
        rows = zip(keys, repeat("feedback"), repeat(at), bodies, strict=False)
        out.drafts.extend(zip(rows, said, strict=True))
        return out

    def sort_seen(self, given: Sequence[tuple[str, str]], at: int) -> Sorted:
        """The same for confirmations that an item of a request was seen."""
        out = Sorted([], [], set(), [], [], [])
        for j, (name, item) in enumerate(given):
            request = self.ledger.requests.get(name)
            if request is None:
                out.unknown.append(j)
            elif (position := request.position(item)) < 0:
                out.rejected.append((j, _not_ranked(item)))
            elif request.counted or (request.seen is not None and position in request.seen):
                out.duplicate.append(j)
            elif at - request.at > self.window:
                out.late.add(j)
            else:
                fields = {"request": name, "item": item}
                out.drafts.append(Draft.of(f"{name}/seen!/{item}", "seen", at, fields))
                out.places.append(j)
        return out

    # Catalogue ----------------------------------------------------------------------------------------

    def describe(self, items: Iterable[dict[str, Any]], at: int) -> list[Draft]:
        """Drafts that add or change contents: id, tags, expires_at, metadata of each."""
        return [Draft.of(f"item/{new_token()}", "item", at, item) for item in items]

    def turn(self, item: str, state: str, at: int) -> Draft:
        """A draft that brings a content to a state."""
        return Draft.of(f"state/{new_token()}", "state", at, {"id": item, "state": state})

    def chores(self, at: int) -> list[Draft]:
        """Drafts of what time itself brings about: contents that expire, and those that have left a pool."""
        self._ripen(at)
        held = self.ledger.catalogue
        ripe, self._ripe = self._ripe, []
        self._covered = {slot for slot in self._covered if held["state"][slot] == SHOWN}
        drafts = []
        for due, slot in ripe:
            if self._expires(slot, due):
                fields = {"id": held.ids[slot], "state": "expired", "expires_at": int(held["expires_at"][slot])}
                drafts.append(Draft.of(f"state/{new_token()}", "state", at, fields))
        for variant, slot, gone in self.pools.departures():
            since = int(held["since"][slot])
            fields = {"variant": variant, "id": held.ids[slot], "since": since, "reason": gone.reason}
            fields |= {"impressions": gone.impressions, "rewards": gone.rewards}
            drafts.append(Draft.of(f"leave/{variant}/{since}", "leave", at, fields))
        return drafts

    def _ripen(self, at: int) -> None:
        """Show no more what has expired, before the log has it."""
        dates, self.pools.dates = list(dict.fromkeys(self.pools.dates)), []
        for slot in self._covered.intersection(dates):
            self._covered.discard(slot)
            if self.ledger.catalogue["state"][slot] == SHOWN:
                self.pools.uncover(slot)  # it had expired under its former date
        for entry in self._dues(np.array(dates, np.int64)):
            heapq.heappush(self._expiries, entry)
        while self._expiries and self._expiries[0][0] <= at:
            due, slot = heapq.heappop(self._expiries)
            if self._expires(slot, due):
                self.pools.cover(slot)
                self._covered.add(slot)
                self._ripe.append((due, slot))

    def sweep(self) -> None:
        """Look for contents beyond hope."""
        if self.leaving.share is not None:
            for pool in self.pools.of.values():
                pool.sweep()

    def _expires(self, slot: int, due: int) -> bool:
        """Whether a content is still to expire at this time."""
        return self.ledger.catalogue["state"][slot] == SHOWN and (due, slot) in self._dues(np.array([slot]))

    def _dues(self, slots: npt.NDArray[np.int64]) -> Iterator[tuple[int, int]]:
        """When contents expire, at their own dates or at the age that all leave at; those that do."""
        held = self.ledger.catalogue
        dues = held["expires_at"][slots]
        if self.leaving.age is not None:
            aged = held["added_at"][slots] + round(self.leaving.age * HOUR)
            dues = np.where(dues > 0, np.minimum(dues, aged), aged)
        some = np.flatnonzero(dues)
        return zip(dues[some].tolist(), slots[some].tolist(), strict=True)

    # The log ------------------------------------------------------------------------------------------

    def commit(self, events: Iterable[Logged], thread: Iterable[Logged] = ()) -> None:
        """Take in what the log has got, in its order; ``thread`` recalls requests that these speak of."""
        self.ledger.requests.recall(thread, self.ledger.seq)
        self.commit_own((event.seq, (event.row, event.said)) for event in events)

    def commit_own(self, events: Iterable[tuple[int, DraftRow]]) -> None:
        """The same for drafts: the place of each, and itself."""
        if self.named:
            events = list(events)
            self.forget(draft for _, draft in events)
        self.ledger.take(events, self.pending)
        self.pools.settle()

    def forget(self, drafts: Iterable[DraftRow]) -> None:
        """Let go of what was remembered of rankings made under a name: the log has them, or others in their place."""
        for (key, kind, _, _), _ in drafts:
            if kind == "rank":
                self.named.pop(key, None)

    def about(self, item: str) -> dict[str, dict[str, Any]]:
        """Counts and index of a content under each variant."""
        return self.about_each([self.ledger.catalogue.slots[item]])[0]

    def about_each(self, slots: Sequence[int]) -> list[dict[str, dict[str, Any]]]:
        """The same for many contents, by slot."""
        out: list[dict[str, dict[str, Any]]] = [{} for _ in slots]
        for variant, pool in self.pools.of.items():
            n, s = (sums.tolist() for sums in self.ledger.sums(slots, variants=[variant]))
            left = self.ledger.gone.get(variant, {})
            held = [slot for slot in slots if slot in pool]
            scores = dict(zip(held, pool.pooled.scores(held).tolist(), strict=True))
            for j, slot in enumerate(slots):
                score, gone = scores.get(slot), left.get(slot)
                out[j][variant] = {"impressions": n[j], "rewards": s[j], "score": score, "left": gone}
        return out


def _not_ranked(item: str) -> str:
    return f"`item` must be one of those ranked in the request, but got {item!r}"


def _version(*parts: object) -> str:
    """A name for the rules that a ranking was made by: the same for the same rules."""
    return hashlib.sha256(repr((version("hellinger"), *parts)).encode()).hexdigest()[:12]
