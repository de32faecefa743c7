"""The fold of the event log: what every count is, as of a place in the log."""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, MutableMapping, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from hellinger.events import Logged, Row
from hellinger.ledger.catalogue import DELETED, EXPIRED, HIDDEN, SHOWN, STATES, Catalogue
from hellinger.ledger.counts import Columns, Counts, Floats, Slots, added
from hellinger.ledger.requests import Request, Requests, request_of
from hellinger.ledger.series import RESOLUTIONS, Series

__all__ = ["COMMON", "Ledger", "Listener"]

MINUTE = RESOLUTIONS["minute"]

COMMON = ""
"""Instead of a variant: counts brought in from elsewhere, which every variant learns from."""


_Change = tuple[int, float, float, float, str]
"""A slot, impressions, rewards; its request's reward now, and segment."""


class Listener(Protocol):
    """Who wants to know what an event changes."""

    def appears(self, slot: int) -> None:
        """A content is there to be shown, new or again."""

    def vanishes(self, slot: int) -> None:
        """A content is no longer to be shown, but may come back."""

    def ends(self, slot: int) -> None:
        """A content is gone for ever."""

    def retagged(self, slot: int) -> None:
        """A content's tags are others now."""

    def dated(self, slot: int) -> None:
        """A content's date of expiry is another now, or it has none any more."""

    def left(self, variant: str, slot: int) -> None:
        """A content has left one variant's pool."""

    def counted(self, variant: str, segment: str, slots: Slots, n: Floats, s: Floats, gone: float) -> None:
        """These contents are about to have so many more impressions and rewards; ``gone`` impressions were of none."""


class Ledger:
    """Catalogue, counts and totals as the log has them up to ``seq``.

    The same events in the same order give the same ledger, on whatever machine. Impressions of a ranking may be
    counted before the log has it (:meth:`open`), since sums do not depend on the order.
    """

    def __init__(self, *, cache: int = 100_000, listener: Listener | None = None) -> None:
        self.seq = 0
        self.catalogue = Catalogue()
        self.counts: dict[tuple[str, str], Counts] = {}
        self.gone: dict[str, dict[int, dict[str, Any]]] = {}
        """Contents that left a variant's pool by themselves: why, and with what."""
        self.series = Series()
        self.requests = Requests(cache)
        self.listener = listener
        self._gathered: defaultdict[str, list[_Change]] = defaultdict(list)
        """Feedback and confirmations not counted yet, by variant and in the log's order, all of one minute."""
        self._minute = 0

    # Events -------------------------------------------------------------------------------------------

    def missing(self, events: Iterable[Logged]) -> list[str]:
        """Requests that these events speak of, and that are neither in memory nor among them."""
        wanted: dict[str, None] = {}
        here: set[str] = set()
        for event in events:
            if event.kind == "rank":
                here.add(event.key)
            elif event.kind in ("feedback", "seen"):
                name = request_of(event.key)
                if name not in here and name not in self.requests:
                    wanted[name] = None
        return list(wanted)

    def apply(self, event: Logged, fields: dict[str, Any] | None = None) -> None:
        """Take in the next event of the log; ``fields`` if its body, not that of feedback, has been read already."""
        self.take([(event.seq, (event.row, event.said if fields is None else fields))])

    def take(
        self,
        events: Iterable[tuple[int, tuple[Row, Any]]],
        counted: MutableMapping[str, None] | None = None,
    ) -> None:
        """Take in the next events of the log: place of each, :attr:`~Logged.row` and :attr:`~Logged.said`.

        Rankings in ``counted`` were opened before the log had them, and are taken out of it. Feedback, by far the most
        of all, is gathered and counted together: this loop is as short as it can be, since all throughput passes here.
        For its item it may have the position in the ranking, where that is known already.
        """
        held, gathered = self.requests.held.get, self._gathered
        minute = self._minute
        for seq, ((key, kind, at, _), said) in events:
            if kind == "feedback":
                name, item, what, points, late, _ = said
                request = held(name)
                # None if it was compacted away: older than anything that could still be learned
                if request is not None and (position := item if type(item) is int else request.position(item)) >= 0:
                    given = request.given
                    if len(given) != 1 or what not in given or position in given[what]:
                        rise = request.give(position, what, points)
                    else:  # what give() would do: most feedback is of one kind
                        given[what][position] = points
                        request.reward += points
                        rise = points
                    shown = 0.0 if request.counted or late or not request.see(position) else 1.0
                    if rise or shown:
                        if not minute <= at < minute + MINUTE:
                            minute = self._turn_to(at)
                        variant, segment = request.whose
                        slot = (request.slots or self.slots_of(request))[position]
                        gathered[variant].append((slot, shown, rise, request.reward, segment))
            elif kind == "seen":
                self._seen(at, said)
                minute = self._minute
            elif kind == "rank":
                if counted is not None and key in counted:
                    del counted[key]
                else:
                    self.open(key, Request.of(at, said))
            else:
                self._settle()
                handler = getattr(self, f"_{kind}", None)
                if handler is None:
                    raise ValueError(
                        f"a kind of event must be one that is known, but got {kind!r} at {seq}: is the log newer?"
                    )
                handler(seq, at, said)
            self.seq = seq
        self._settle()

    def _turn_to(self, at: int) -> int:
        """Count what was gathered in another minute; the one that it is now."""
        if not self._minute <= at < self._minute + MINUTE:
            self._settle()
            self._minute = at - at % MINUTE
        return self._minute

    def _settle(self) -> None:
        """Count what was gathered."""
        for variant, rows in self._gathered.items():
            columns: Any = zip(*rows, strict=True)
            slots, *counted, segments = columns
            places, (n, s, rewards) = np.array(slots), map(np.array, counted)
            self.series.together(variant).rose(rewards, s)
            self.series.add(variant, self._minute, 0, float(n.sum()), float(s.sum()))
            several = set(segments)
            if len(several) == 1:
                self._count(variant, segments[0], places, n, s)
                continue
            for segment in sorted(several):
                its = np.array([each == segment for each in segments])
                self._count(variant, segment, places[its], n[its], s[its])
        self._gathered.clear()

    def open(self, name: str, request: Request, *, told: bool = False) -> None:
        """Count a ranking and hold it for its feedback; ``told`` if the listener knows already."""
        self.requests.put(name, request)
        shown = len(request.items) if request.counted else 0
        self.series.add(request.variant, request.at, 1, shown, 0)
        self.series.together(request.variant).opened(len(request.items))
        if not request.counted:
            return
        slots = [slot for slot in self.slots_of(request) if slot >= 0]
        gone = float(shown - len(slots))
        if self.listener and not told:
            ones, zeros = np.ones(len(slots)), np.zeros(len(slots))
            self.listener.counted(*request.whose, np.array(slots, np.int64), ones, zeros, gone)
        self._counts_of(*request.whose).show(slots, gone)

    def slots_of(self, request: Request) -> array[int]:
        """The contents that a request showed: those that bore the names at its place in the log, −1 for none."""
        if request.slots is None:
            held, since = self.catalogue.slots, self.catalogue["since"]
            found = [held.get(item, -1) for item in request.items]
            request.slots = array("i", [j if j >= 0 and since[j] <= request.through else -1 for j in found])
        return request.slots

    def _seen(self, at: int, fields: dict[str, Any]) -> None:
        request = self.requests.held.get(fields["request"])
        if request is None:
            return
        position = request.position(fields["item"])
        if position >= 0 and request.see(position):
            self._turn_to(at)
            variant, segment = request.whose
            self._gathered[variant].append((self.slots_of(request)[position], 1.0, 0.0, request.reward, segment))

    def _item(self, seq: int, at: int, fields: dict[str, Any]) -> None:
        held, name = self.catalogue, fields["id"]
        tags, expires_at = tuple(fields["tags"]), fields["expires_at"] or 0
        slot = held.slots.get(name)
        if slot is None:
            slot = held.add(name, since=seq, at=at)
            held.describe(slot, said=seq, tags=tags, expires_at=expires_at)
            if self.listener:
                self.listener.appears(slot)
        else:
            retagged, dated = held.tags_of(slot) != tags, held["expires_at"][slot] != expires_at
            held.describe(slot, said=seq, tags=tags, expires_at=expires_at)
            if retagged and self.listener:
                self.listener.retagged(slot)
            if dated and self.listener:
                self.listener.dated(slot)
            if dated and held["state"][slot] == EXPIRED and not 0 < expires_at <= at:
                self._turn(slot, SHOWN)

    def _state(self, _seq: int, _at: int, fields: dict[str, Any]) -> None:
        slot = self.catalogue.slots.get(fields["id"])
        if slot is None:
            return
        state, before = STATES.index(fields["state"]), self.catalogue["state"][slot]
        if state == EXPIRED:
            # one that is hidden stays so: given a new date, it must not come back by itself
            good = before == SHOWN and self.catalogue["expires_at"][slot] == fields["expires_at"]
        elif state == HIDDEN:
            good = before != EXPIRED
        else:
            good = state != SHOWN or before == HIDDEN
        if good:
            self._turn(slot, state)

    def _turn(self, slot: int, state: int) -> None:
        if self.catalogue.turn(slot, state) and self.listener:
            if state == DELETED:
                self.listener.ends(slot)
            elif state == SHOWN:
                self.listener.appears(slot)
            else:
                self.listener.vanishes(slot)

    def _leave(self, _seq: int, at: int, fields: dict[str, Any]) -> None:
        slot = self.catalogue.slots.get(fields["id"])
        if slot is None or self.catalogue["since"][slot] != fields["since"]:
            return
        self.gone.setdefault(fields["variant"], {})[slot] = {
            "reason": fields["reason"],
            "at": at,
            "impressions": fields["impressions"],
            "rewards": fields["rewards"],
        }
        if self.listener:
            self.listener.left(fields["variant"], slot)

    def _import(self, _seq: int, at: int, fields: dict[str, Any]) -> None:
        variant, segment = fields["variant"] or COMMON, fields["segment"] or ""
        rows = fields["rows"]
        if variant != COMMON:
            for row in rows:
                n, s = row["impressions"], row["rewards"]
                self.series.add(variant, min(row["to"] or at, at), 0, n, s)
                self.series.together(variant).brought(n, s)
        slots = np.array([self.catalogue.slots.get(row["item"], -1) for row in rows], np.int64)
        shown, earned = (np.array([row[what] for row in rows], np.float64) for what in ("impressions", "rewards"))
        self._count(variant, segment, slots, shown, earned)

    # Counts -------------------------------------------------------------------------------------------

    def _count(self, variant: str, segment: str, slots: Slots, n: Floats, s: Floats) -> None:
        """Count these; −1 is no content, and of one that has gone for ever the name may be another's by now."""
        state, gone = self.catalogue["state"], 0.0
        there: npt.NDArray[np.bool_] = slots >= 0
        if state.size:
            there &= state[slots] != DELETED
        if not there.all():
            gone = float(n[~there].sum())
            slots, n, s = slots[there], n[there], s[there]
        if self.listener:
            self.listener.counted(variant, segment, slots, n, s, gone)
        self._counts_of(variant, segment).add(slots, n, s, gone)

    def _counts_of(self, variant: str, segment: str) -> Counts:
        counts = self.counts.get((variant, segment))
        if counts is None:
            counts = self.counts[variant, segment] = Counts()
        return counts

    def _chosen(self, variants: Iterable[str] | None, segment: str | None) -> Iterator[Counts]:
        wanted = None if variants is None else set(variants)
        for (variant, held), counts in self.counts.items():
            if (wanted is None or variant in wanted) and segment in (None, held):
                yield counts

    def sums(
        self,
        slots: npt.NDArray[np.int64] | Sequence[int],
        *,
        variants: Iterable[str] | None = None,
        segment: str | None = None,
    ) -> Columns:
        """Impressions and rewards of these contents over some variants or all, in one segment or in all."""
        places, size = np.asarray(slots, np.intp), len(self.catalogue.ids)
        return added((counts.of(places, size) for counts in self._chosen(variants, segment)), places.size)

    def rounds(self, *, variants: Iterable[str], segment: str | None = None) -> float:
        """All impressions over some variants, whatever became of the contents, in one segment or in all."""
        return sum(counts.rounds for counts in self._chosen(variants, segment))

    def views(self) -> list[Columns]:
        """Impressions and rewards of every slot in each variant and segment: the ledger's own arrays, to be read only.

        Other threads may read them; what is counted meanwhile may be in them or not.
        """
        size = len(self.catalogue.ids)
        return [counts.of(slice(size), size) for counts in self.counts.values()]

    def whole(self) -> Columns:
        """Impressions and rewards of every slot, over all variants and segments."""
        return added(self.views(), len(self.catalogue.ids))

    @property
    def segments(self) -> list[str]:
        """Segments with counts of their own."""
        return sorted({segment for _, segment in self.counts if segment})
