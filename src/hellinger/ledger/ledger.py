"""The fold of the event log: what every count is, as of a place in the log."""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from importlib.metadata import version
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson

from hellinger.errors import require
from hellinger.events import Logged, Row
from hellinger.experiment.names import MAIN
from hellinger.ledger.catalogue import DELETED, EXPIRED, HIDDEN, SHOWN, STATES, Catalogue
from hellinger.ledger.changes import Changes
from hellinger.ledger.common import CommonCounts
from hellinger.ledger.counts import Columns, Counts, Entries, Floats, SegmentCounts, Slots, added
from hellinger.ledger.departed import Departed
from hellinger.ledger.errors import EventError, UnknownKindError
from hellinger.ledger.looks import Looks, Worth, lacks_by
from hellinger.ledger.requests import REFERRING, Request, Requests, request_of
from hellinger.ledger.series import RESOLUTIONS, TimeSeries
from hellinger.ledger.shadows import ShadowShares, Weighed
from hellinger.ledger.shares import Share, Shares, Users
from hellinger.ledger.variant_models import VariantModels

__all__ = ["COMMON", "Ledger", "placed", "starting"]

MINUTE, DAY = RESOLUTIONS["minute"], 86_400_000

COMMON = ""
"""Instead of a variant: counts imported from elsewhere, which every variant learns from."""

Placed = tuple[int, tuple[Row, Any]]
"""An event's place in the log, the event, and its fields; None for those of a ranking that are not read yet."""

_START = "\0"

_Change = tuple[int, float, float, float, str, int]
"""A slot, impressions, rewards; its ranking's reward now, segment, and user."""


def starting(variant: str) -> str:
    """Under which the counts are that a variant began with: copies of others', which no sum over variants has."""
    return _START + variant


_SINCE = ',"since":['
"""What begins the places of its items in the body of a ranking: no text has it, where quotes are escaped."""


class _Head:
    """What the body of a ranking has before the places of its items: the same text in very many rankings."""

    __slots__ = ("counted", "phase", "segment", "variant", "zoned")

    def __init__(self, fields: dict[str, Any]) -> None:
        self.variant: str = fields["variant"]
        self.segment: str = fields["segment"] or ""
        self.counted: bool = fields["counted"]
        self.phase: int = fields["phase"]
        self.zoned: bool = fields.get("zoned", False)


@lru_cache(4096)
def _head(text: str) -> _Head | None:
    """The fields in the beginning of a body; None where it has not all of them."""
    try:
        return _Head(orjson.loads(text + "}"))
    except (ValueError, KeyError):
        return None


class _Alike:
    """Rankings not counted yet that have their head, share and minute in common."""

    __slots__ = ("begins", "ends", "head", "places", "share")

    def __init__(self, head: _Head, share: Share, at: int, step: int) -> None:
        self.head = head
        self.share = share
        self.begins = at - min(at % MINUTE, at % step)
        self.ends = at + min(MINUTE - at % MINUTE, step - at % step)
        """The times between which share and minute are these."""
        self.places: list[str] = []
        """Places of the items of each, as text."""


def placed(events: Iterable[Logged]) -> Iterator[Placed]:
    """Events of the log, as :meth:`Ledger.apply` takes them."""
    for event in events:
        seq, key, kind, at, body = event
        try:
            said = None if kind == "rank" else event.parsed
        except (ValueError, KeyError, TypeError) as error:
            raise EventError(seq, kind, key, f"its body is damaged ({error!r})") from error
        yield seq, ((key, kind, at, body), said)


class Ledger:
    """Catalogue, counts, totals and priors as the log has them up to ``seq``, and nothing else.

    The same events in the same order give the same ledger, to the bit, on whatever machine and however many at a time.
    """

    def __init__(self, *, cache: int = 100_000) -> None:
        self.seq = 0
        self.format = 0
        """The version of the snapshot that it was read from."""
        self.saved = 0
        """The place in the log of that snapshot: what came after was folded."""
        self.catalogue = Catalogue()
        self.counts: dict[tuple[str, str], Counts] = {}
        """By variant and segment; all traffic of a variant under the segment ``""``."""
        self.gone: dict[str, dict[int, dict[str, Any]]] = {}
        """Items that left a variant's pool by themselves: why, and with what."""
        self.priors: dict[tuple[str, str], tuple[int, dict[str, Any]]] = {}
        """What a variant has learned of all its items, by variant and segment: place in the log, and fields."""
        self.models = VariantModels(self)
        """What variants with a model have learned."""
        self.looks = Looks()
        self.curve: tuple[int, dict[str, Any]] = 0, {}
        """How much each position is looked at, as last fitted: place in the log, and fields; among them ``setting``,
        where one was said, and ``recounted``, the place where what impressions are worth last changed."""
        self.pace: tuple[int, dict[str, Any]] = 0, {}
        """How many rankings were made of late, as last said: place in the log, and fields, with the time (``at``)."""
        self._worth = 0, Worth()
        self.departed = Departed()
        """What forgotten items of groups had achieved."""
        self.series = TimeSeries()
        self.requests = Requests(cache)
        self.phases: list[dict[str, Any]] = []
        """Phases of all experiments, oldest first: place in the log (``seq``), time (``at``), and fields."""
        self.experiments: dict[str, dict[str, Any]] = {}
        """The last phase of each experiment, by name."""
        self._phase: dict[int, dict[str, Any]] = {}
        """Each phase by its place."""
        self._common: dict[str, CommonCounts] = {}
        """What the next event lets variants begin with, where it was made ready for it."""
        self._guards: set[str] = set()
        """Kinds of feedback that are a guardrail in some phase."""
        self._gathered: defaultdict[tuple[Share, str], list[_Change]] = defaultdict(list)
        """Feedback and confirmations not counted yet, by share and variant, in the log's order, all of one minute."""
        self._looked: defaultdict[tuple[int, int], float] = defaultdict(float)
        """Rewards not noted in ``looks`` yet, by ties and position: most rankings of a batch have the same ties."""
        self._minute = 0
        self._unread: list[_Alike] = []
        """Rankings of other copies not counted yet."""
        self._alike: dict[str, _Alike] = {}
        """Those of them that others like them are added to, by the beginning of their bodies."""

    # Events -------------------------------------------------------------------------------------------

    def missing(self, events: Iterable[Logged]) -> list[str]:
        """Rankings that these events refer to, and that are neither in memory nor among them."""
        wanted: dict[str, None] = {}
        here: set[str] = set()
        for event in events:
            if event.kind == "rank":
                here.add(event.key)
            elif event.kind in REFERRING:
                name = request_of(event.key)
                if name not in here and name not in self.requests:
                    wanted[name] = None
        return list(wanted)

    def apply(self, events: Iterable[Placed], known: Mapping[str, Request] | None = None) -> Changes:
        """Apply the next events of the log; what they changed.

        ``known`` has rankings by name that need not be read from their events, and feedback may have the position in
        the ranking for its item, where that is known already. Where this raises, the ledger is no longer the fold of
        any log, and has to be made anew.

        Feedback, and rankings that other copies made, are gathered and counted together: this loop is as short as it
        can be, since all throughput passes here.
        """
        changes, own = Changes(), known or {}
        find, gathered, guards = self.requests.find, self._gathered, self._guards
        forgets = self.catalogue.version
        minute, seq, key, kind = self._minute, self.seq, "", ""
        looked, last = self._looked, ""
        modelled = bool(self.models)  # most services have none
        try:
            for seq, ((key, kind, at, body), said) in events:
                if kind == "feedback":
                    name, item, what, points, late, _ = said
                    if name != last:  # much feedback follows other feedback of its ranking
                        last, request = name, find(name)
                        if request is not None:
                            given, ties, counted, unit = request.given, request.ties, request.counted, request.unit
                            slots = request.slots if request.version == forgets else self.slots_of(request)
                            variant, segment = request.whose
                            share = request.share
                    # None if it was compacted away: older than anything that could still be learned
                    if request is not None and (position := item if type(item) is int else request.position(item)) >= 0:
                        if what in guards and not late:
                            self._guard(request, what, position)
                        if len(given) != 1 or what not in given or position in given[what]:
                            rise = request.give(position, what, points)
                        else:  # what give() would do: most feedback is of one kind
                            given[what][position] = points
                            request.reward += points
                            rise = points
                        if rise and ties:
                            looked[ties, position] += rise
                        if rise and request.shadows:
                            self._weigh(request, request.shadows, position, rise)
                        shown = 0.0 if counted or late or not request.see(position) else 1.0
                        if rise or shown:
                            if not minute <= at < minute + MINUTE:
                                minute = self._turn_to(at, changes)
                            if share is None:
                                share = self._share_of(request)
                            change = (slots[position], shown, rise, request.reward, segment, unit)
                            gathered[share, variant].append(change)
                            if modelled:
                                self.models.observe(name, request, [position], shown, rise)
                    self.seq = seq
                    continue
                last = ""
                if kind == "rank":
                    if key in own:
                        self._rank(key, own[key], changes)
                    elif said is not None or not self._gather(key, at, body, changes):
                        self._rank(key, Request.of(at, said or orjson.loads(body)), changes)
                elif kind == "seen":
                    self._seen(at, said, changes)
                    minute = self._minute
                elif kind == "shadow":
                    self._shadow(request_of(key), said)
                else:
                    self._count_gathered(changes)
                    handler = _HANDLERS.get(kind)
                    if handler is None:
                        writer = orjson.loads(body).get("writer")
                        raise UnknownKindError(seq, kind, key, writer, version("hellinger"))
                    handler(self, seq, (at, said, body), changes)
                    forgets, modelled = self.catalogue.version, bool(self.models)
                    if self.catalogue.dropped_groups:
                        self._drop_groups(changes)
                self.seq = seq
            self._count_gathered(changes)
        except EventError:
            raise
        except Exception as error:
            raise EventError(seq, kind, key, f"{type(error).__name__}: {error}") from error
        return changes

    def _turn_to(self, at: int, changes: Changes) -> int:
        """Count what was gathered in another minute; the one that it is now."""
        if not self._minute <= at < self._minute + MINUTE:
            self._count_gathered(changes)
            self._minute = at - at % MINUTE
        return self._minute

    def _gather(self, name: str, at: int, body: str, changes: Changes) -> bool:
        """Remember a ranking and have it counted with others, unread; whether its body allows that."""
        start = body.find(_SINCE)
        end = body.find("]", start)
        if start < 0 or end < 0 or body[-1] != "}":
            return False
        beginning = body[:start]
        alike = self._alike.get(beginning)
        if alike is None or not alike.begins <= at < alike.ends:
            head = _head(beginning)
            if head is None:
                return False
            shares = self._shares(head.phase, head.variant)
            # whose ranking it is, and who asked, stands in the rest
            if shares.bucketed or self.models.learners(head.variant):
                return False
            share = self._share_at(shares, at, changes)  # this may count what was gathered
            alike = self._alike[beginning] = _Alike(head, share, at, shares.step)
            self._unread.append(alike)
        alike.places.append(body[start + len(_SINCE) : end])
        self.requests.put_unread(name, at, body)
        return True

    def _count_unread(self, changes: Changes) -> None:
        """Count rankings that were gathered."""
        parts = [list(filter(None, alike.places)) for alike in self._unread]  # some showed nothing
        sizes = [[text.count(",") + 1 for text in texts] for texts in parts]
        added = np.fromstring(",".join(chain.from_iterable(parts)), np.int64, sep=",")
        require(added.size == sum(map(sum, sizes)), "places of items are whole numbers", places=added.size)
        slots, start = self.catalogue.find(added), 0
        for alike, size in zip(self._unread, sizes, strict=True):
            head, number, end = alike.head, len(alike.places), start + sum(size)
            shown = end - start if head.counted else 0
            self.series.add(head.variant, alike.begins, number, shown, 0)
            alike.share.current.opened_many(number, max(size, default=0), shown)
            if shown:
                its = slots[start:end]
                there = its[its >= 0] if its.min() < 0 else its
                changes.counted[head.variant, head.segment].append(there)
                for counts in self._both(head.variant, head.segment):
                    if head.zoned:
                        counts.show_many(its, size)
                    else:
                        counts.add(there, np.ones(there.size), np.zeros(there.size), its.size - there.size)
            start = end
        self._unread.clear()
        self._alike.clear()
        self.requests.evict()

    def _count_gathered(self, changes: Changes) -> None:
        if self._unread:
            self._count_unread(changes)
        for (share, variant), rows in self._gathered.items():
            columns: Any = zip(*rows, strict=True)
            slots, *counted, segments, units = columns
            places = np.array(slots, np.int64)
            n, s, rewards = (np.array(column, np.float64) for column in counted)
            share.current.rewarded(n, s, rewards, units)
            self.series.add(variant, self._minute, 0, float(n.sum()), float(s.sum()))
            several = set(segments)
            if len(several) == 1:
                self._count(variant, segments[0], places, n, s, changes)
                continue
            for segment in sorted(several):
                its = np.array([each == segment for each in segments])
                self._count(variant, segment, places[its], n[its], s[its], changes)
        self._gathered.clear()
        for (ties, position), reward in self._looked.items():
            self.looks.note(ties, position, reward)
        self._looked.clear()

    def recall(self, thread: Iterable[Logged]) -> None:
        """Remember rankings again, from what the log says of them."""
        for request in self.requests.recall(thread, self.seq):
            self.slots_of(request)

    def _rank(self, name: str, request: Request, changes: Changes) -> None:
        """Count a ranking and remember it for its feedback."""
        slots = self.slots_of(request)
        self.requests.put(name, request)
        shown = len(request.items) if request.counted else 0
        self.series.add(request.variant, request.at, 1, shown, 0)
        self._assign(request, shown, changes)
        changes.rankings.append((name, request))
        if shown:
            for counts in self._both(*request.whose):
                if request.zoned:
                    counts.show(slots)
                else:
                    there = np.array([slot for slot in slots if slot >= 0], np.int64)
                    counts.add(there, np.ones(there.size), np.zeros(there.size), shown - there.size)
            if self.models:
                worth = self.worth.of(shown) if request.zoned else np.ones(shown)
                self.models.observe(name, request, range(shown), worth, 0.0)

    def _assign(self, request: Request, shown: int, changes: Changes) -> None:
        """Count a ranking for its variant's statistics."""
        shares = self._shares(request.phase, request.variant)
        request.share = self._share_at(shares, request.at, changes)
        request.share.opened(len(request.items), shown, request.unit)
        if shares.bucketed:
            name = self._phase[request.phase]["name"]
            if name not in self.series.users:
                self.series.users[name] = Users()
            self.series.users[name].see(request.unit, request.phase, request.variant)

    def _share_at(self, shares: Shares, at: int, changes: Changes) -> Share:
        """Where a ranking made at this time is to be counted."""
        if shares.opens(at):
            self._count_gathered(changes)  # what is added to final sums must not depend on how events were batched
            shares.begin(at)
            for each in self.series.shares.values():
                if each.open:
                    each.close(at)
        return shares.find(at)

    def _share_of(self, request: Request) -> Share:
        """Where a ranking was counted."""
        if request.share is None:
            request.share = self._shares(request.phase, request.variant).find(request.at)
        return request.share

    def _shares(self, phase: int, variant: str) -> Shares:
        shares = self.series.shares.get((phase, variant))
        if shares is None:
            fields = self._phase.get(phase, {})
            window = fields.get("window")  # None where an older version began the phase
            bucketed = window is not None and fields["split"] == "sticky"
            shares = self.series.shares[phase, variant] = Shares(window, bucketed=bucketed)
        return shares

    def window_of(self, request: Request) -> int:
        """Milliseconds for which a ranking may be rewarded; a day where an older version began its phase."""
        window = self._phase.get(request.phase, {}).get("window")
        return DAY if window is None else int(window)

    def _guard(self, request: Request, kind: str, position: int) -> None:
        """Count feedback of a guardrail's kind, where it is one in the ranking's phase."""
        if self._phase.get(request.phase, {}).get("guardrail") != kind:
            return
        given = request.given.get(kind, {})
        if position not in given:
            self._share_of(request).current.guard(len(given) + 1, request.unit)

    def _shadow(self, name: str, fields: dict[str, Any]) -> None:
        """Count what shadows would have shown instead of a ranking, and what that has earned so far."""
        request = self.requests.find(name)
        if request is None or not request.items or request.shadows is not None:
            return
        for shadow, weighed in request.weigh(fields["shadows"]).items():
            key = request.phase, shadow
            if key not in self.series.shadows:
                self.series.shadows[key] = ShadowShares(self._phase.get(request.phase, {}).get("window"))
            shares = self.series.shadows[key]
            if shares.opens(request.at):
                shares.begin(request.at)
                for each in self.series.shadows.values():
                    if each.open:
                        each.close(request.at)
            shares.find(request.at).opened(weighed, request.reward, len(request.items))

    def _weigh(self, request: Request, shadows: Mapping[str, Weighed], position: int, rise: float) -> None:
        """Count for the shadows of a ranking what one of its places has earned."""
        for shadow, weighed in shadows.items():
            share = self.series.shadows[request.phase, shadow].find(request.at)
            share.rose(weighed, position, rise, request.reward, len(request.items))

    def slots_of(self, request: Request) -> array[int]:
        """The items that a ranking showed: those that bore the names at its place in the log, −1 for none.

        They are looked up anew where items were forgotten since they last were: others may have their slots.
        """
        if request.version != self.catalogue.version:
            request.version = self.catalogue.version
            slots, since, names = self.catalogue.slots, self.catalogue["since"], self.catalogue.ids
            there: list[Any] = list(map(slots.get, request.items))
            known = bool(there) and None not in there
            if known and (self.catalogue.newest <= request.through or since[there].max() <= request.through):
                request.slots, request.items = array("i", there), tuple(map(names.__getitem__, there))
                return request.slots
            found = [-1 if slot is None else slot for slot in there]
            request.slots = array("i", [j if j >= 0 and since[j] <= request.through else -1 for j in found])
            # the catalogue's own strings: each read from the log is another one, and takes memory
            request.items = tuple(map(lambda j, item: names[j] if j >= 0 else item, found, request.items))
        return request.slots

    def _seen(self, at: int, fields: dict[str, Any], changes: Changes) -> None:
        request = self.requests.find(fields["request"])
        if request is None:
            return
        position = request.position(fields["item"])
        if position >= 0 and request.see(position):
            self._turn_to(at, changes)
            variant, segment = request.whose
            change = (self.slots_of(request)[position], 1.0, 0.0, request.reward, segment, request.unit)
            self._gathered[self._share_of(request), variant].append(change)
            if self.models:
                self.models.observe(fields["request"], request, [position], 1.0, 0.0)

    def _item(self, seq: int, event: tuple[int, dict[str, Any], str], changes: Changes) -> None:
        at, fields, body = event
        catalogue, name = self.catalogue, fields["id"]
        expires_at = fields["expires_at"] or 0
        slot = catalogue.slots.get(name)
        fresh = slot is None
        if slot is None:
            slot = catalogue.add(name, since=seq, at=at)
            changes.items.add(slot)
        elif catalogue["expires_at"][slot] != expires_at:
            changes.items.add(slot)
            if catalogue["state"][slot] == EXPIRED and not 0 < expires_at <= at:
                catalogue.set_state(slot, SHOWN, at)
        if self.describe(slot, seq, fields, body) and not fresh:
            changes.described.add(slot)

    def describe(self, slot: int, seq: int, fields: Mapping[str, Any], body: str) -> bool:
        """Let an item be what the event at this place says of it; whether tags, group or features are others."""
        features = fields.get("features")
        other = self.catalogue.describe(
            slot,
            said=seq,
            tags=tuple(fields["tags"]),
            expires_at=fields["expires_at"] or 0,
            body=body,
            group=tuple(fields.get("group", ())),
            features=orjson.dumps(features).decode() if features else "",
        )
        if self.models:
            self.models.place(slot, anew=other)
        return other

    def _state(self, _seq: int, event: tuple[int, dict[str, Any], str], changes: Changes) -> None:
        at, fields, _ = event
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
        if good and self.catalogue.set_state(slot, state, at):
            changes.items.add(slot)
            if self.models:
                self.models.place(slot)
            if state == DELETED:
                for left in self.gone.values():
                    left.pop(slot, None)

    def _leave(self, _seq: int, event: tuple[int, dict[str, Any], str], changes: Changes) -> None:
        at, fields, _ = event
        slot = self.catalogue.slots.get(fields["id"])
        if slot is None or self.catalogue["since"][slot] != fields["since"]:
            return
        self.gone.setdefault(fields["variant"], {})[slot] = {
            "reason": fields["reason"],
            "at": at,
            "impressions": fields["impressions"],
            "rewards": fields["rewards"],
        }
        changes.items.add(slot)
        if self.models:
            self.models.place(slot)

    def _import(self, _seq: int, event: tuple[int, dict[str, Any], str], changes: Changes) -> None:
        at, fields, _ = event
        variant, segment = fields["variant"] or COMMON, fields["segment"] or ""
        rows = fields["rows"]
        if variant != COMMON:
            for row in rows:
                n, s = row["impressions"], row["rewards"]
                self.series.add(variant, min(row["to"] or at, at), 0, n, s)
                self._shares(0, variant).final.imported(n, s)
        slots = np.array([self.catalogue.slots.get(row["item"], -1) for row in rows], np.int64)
        shown, earned = (np.array([row[what] for row in rows], np.float64) for what in ("impressions", "rewards"))
        self._count(variant, segment, slots, shown, earned, changes)
        if self.models:
            self.models.count(variant, slots, shown, earned)

    def _prior(self, seq: int, event: tuple[int, dict[str, Any], str], changes: Changes) -> None:
        """Take what was learned; only one can follow the prior before it, whoever else has fitted one meanwhile."""
        _, fields, _ = event
        key = fields["variant"], fields["segment"] or ""
        if self.prior_place(*key) == fields["after"]:
            known = {"rounds": fields["rounds"], "prior": fields["prior"], "curve": fields.get("curve", 0)}
            if "segments" in fields:
                known["segments"] = fields["segments"]
            self.priors[key] = seq, known
            changes.priors.add(key)
            self.models.set_prior(*key)

    def _positions(self, seq: int, event: tuple[int, dict[str, Any], str], changes: Changes) -> None:
        """Take how much each position is looked at, or another setting; only one can follow the curve before it."""
        _, fields, _ = event
        if self.curve[0] == fields["after"]:
            (_, before), worth = self.curve, self.worth
            now = ({"setting": before["setting"]} if "setting" in before else {}) | fields
            usual = {"worth": [], "setting": "learned"}
            same = all(now.get(name, value) == before.get(name, value) for name, value in usual.items())
            self.curve = seq, now | {"recounted": before.get("recounted", 0) if same else seq}
            if not self.worth.same(worth):
                self.models.recount()
            changes.curve = True

    def _pace(self, seq: int, event: tuple[int, dict[str, Any], str], changes: Changes) -> None:
        """Take how many rankings are made; only one can follow what was said before it."""
        at, fields, _ = event
        if self.pace[0] == fields["after"]:
            self.pace = seq, fields | {"at": at}
            changes.pace = True

    @property
    def worth(self) -> Worth:
        """What an impression is worth to a model, by the setting and the curve that the log has."""
        place, fields = self.curve
        if self._worth[0] != place:
            self._worth = place, Worth(lacks_by(fields.get("setting", "learned"), fields))
        return self._worth[1]

    def _experiment(self, seq: int, event: tuple[int, dict[str, Any], str], changes: Changes) -> None:
        """Begin a phase; only one can follow the phase before it, whoever else has begun one meanwhile."""
        at, fields, _ = event
        if self.phase_place == fields["after"]:
            self.begin_phase({"seq": seq, "at": at, "name": MAIN, **fields})
            for variant in fields.get("common", ()):
                self._begin_common(variant, changes)
            self.models.follow(seq)
            changes.phase = True
        self._common.clear()

    def begin_phase(self, phase: dict[str, Any]) -> None:
        """Note that this phase is in force from now on."""
        self.phases.append(phase)
        self.experiments[phase.setdefault("name", MAIN)] = phase
        self._phase[phase["seq"]] = phase
        if phase.get("guardrail"):
            self._guards.add(phase["guardrail"])

    def shadows_before(self, phase: Mapping[str, Any]) -> Mapping[str, str]:
        """The shadows of the phase that came before this one in its experiment."""
        its = [each for each in self.phases if each["name"] == phase["name"] and each["seq"] < phase["seq"]]
        shadows: Mapping[str, str] = its[-1].get("shadows", {}) if its else {}
        return shadows

    def prepare(self, phase: Mapping[str, Any]) -> Iterator[None]:
        """Add up, in steps, what the next event needs, which begins this phase: nothing else may be applied meanwhile.

        Without it the event does that itself, all at once.
        """
        for variant in phase.get("common", ()) if phase["after"] == self.phase_place else ():
            if (others := self._others(variant)) is not None:
                common = self._common[variant] = CommonCounts(self, others)
                yield from common.steps()

    def _others(self, variant: str) -> list[str] | None:
        """Those whose counts a variant begins with; None where it has been there before."""
        others = [name for name in self.variants if name != COMMON]
        return None if variant in others or (starting(variant), "") in self.counts else others

    def _begin_common(self, variant: str, changes: Changes) -> None:
        """Let a variant begin from what all others have counted, unless it has been there before."""
        common, others = self._common.get(variant), self._others(variant)
        if others is None:
            return
        if common is None or common.seq != self.seq:
            common = CommonCounts(self, others)
            for _ in common.steps():
                pass
        for segment, (counts, slots) in common.by_segment.items():
            self.counts[starting(variant), segment] = counts
            changes.counted[variant, segment].append(slots)

    @property
    def phase_place(self) -> int:
        """The place in the log of the phase in force, 0 where there is none."""
        return int(self.phases[-1]["seq"]) if self.phases else 0

    def _forget(self, _seq: int, event: tuple[int, dict[str, Any], str], changes: Changes) -> None:
        """Let go of items that have left; one that came back meanwhile, or is forgotten already, stays as it is."""
        catalogue, since = self.catalogue, event[1]["since"]
        grouped = [
            slot
            for place in dict.fromkeys(since)
            if (slot := catalogue.left.get(place, -1)) >= 0 and catalogue["group"][slot]
        ]  # those deleted have no group
        if grouped:
            groups = [catalogue.group_of(slot) for slot in grouped]
            self.departed.add(groups, grouped, self.counts, len(catalogue.ids))
            changes.departed.update(groups)
        slots = catalogue.forget(since)
        if not slots:
            return
        for left in self.gone.values():
            for slot in slots:
                left.pop(slot, None)
        places = np.array(slots, np.int64)
        for counts in self.counts.values():
            counts.clear(places)
        changes.items.update(slots)
        changes.forgotten.update(slots)

    def _drop_groups(self, changes: Changes) -> None:
        """Let go of what is known of groups that no item has any more."""
        dropped = self.catalogue.dropped_groups
        for group in dropped:
            self.departed.drop(group)
        changes.departed.update(dropped)
        dropped.clear()

    def prior_place(self, variant: str, segment: str = "") -> int:
        """The place in the log of the prior in force, 0 where there is none."""
        return self.priors.get((variant, segment), (0, {}))[0]

    # Counts -------------------------------------------------------------------------------------------

    def _count(self, variant: str, segment: str, slots: Slots, n: Floats, s: Floats, changes: Changes) -> None:
        """Count these; −1 is no item, and the name of a deleted one may be another's by now."""
        state, deleted = self.catalogue["state"], 0.0
        there: npt.NDArray[np.bool_] = slots >= 0
        if state.size:
            there &= state[slots] != DELETED
        if not there.all():
            deleted = float(n[~there].sum())
            slots, n, s = slots[there], n[there], s[there]
        changes.counted[variant, segment].append(slots)
        for counts in self._both(variant, segment):
            counts.add(slots, n, s, deleted)

    def _both(self, variant: str, segment: str) -> list[Counts]:
        """Counts of all the variant's traffic, and of the segment where there is one."""
        whole = self.counts_in(variant)
        return [whole, self.counts_in(variant, segment)] if segment else [whole]

    def counts_in(self, variant: str, segment: str = "") -> Counts:
        """Counts of a variant, in all its traffic or in one segment; none so far where there were none."""
        found = self.counts.get((variant, segment))
        if found is None:
            found = self.counts[variant, segment] = SegmentCounts() if segment else Counts()
        return found

    def sources(self, variant: str, *, shared: bool) -> list[str]:
        """Variants whose counts this one learns from: all, or its own, those imported for all, what it began with."""
        return sorted({*self.variants, variant, COMMON}) if shared else [variant, COMMON, starting(variant)]

    def _chosen(self, variants: Iterable[str] | None, segment: str) -> Iterator[Counts]:
        for variant in self.variants if variants is None else set(variants):
            counts = self.counts.get((variant, segment))
            if counts is not None:
                yield counts

    def sums(
        self,
        slots: npt.NDArray[np.int64] | Sequence[int],
        *,
        variants: Iterable[str] | None = None,
        segment: str = "",
        lacks: Floats | None = None,
    ) -> Columns:
        """Impressions and rewards of these items over some variants or all, in one segment or in all traffic.

        With ``lacks`` (``looks.lacks_of``) what the impressions are worth by where they were shown.
        """
        places, size = np.asarray(slots, np.int64), len(self.catalogue.ids)
        return added((_of(counts, places, size, lacks) for counts in self._chosen(variants, segment)), places.size)

    def slots_with(
        self, variants: Iterable[str], segment: str = "", *, among: npt.NDArray[np.bool_], behind: bool = False
    ) -> Slots:
        """Slots of items with counts over some variants, of those that ``among`` is true of.

        ``behind``: with impressions in other zones than the first.
        """
        there = np.zeros(len(self.catalogue.ids), np.bool_)
        for counts in self._chosen(variants, segment):
            counts.mark(there, behind=behind)
        return np.flatnonzero(there & among)

    def rounds(self, *, variants: Iterable[str], segment: str = "", lacks: Floats | None = None) -> float:
        """All impressions over some variants, or their worth, deleted items' too, in one segment or in all traffic."""
        return sum(counts.total(lacks) for counts in self._chosen(variants, segment))

    def views(self, variants: Iterable[str] | None = None) -> list[Columns]:
        """Impressions and rewards of every slot in all traffic of each variant; see :class:`Entries`."""
        size = len(self.catalogue.ids)
        return [counts.view(size) for counts in self._chosen(variants, "")]

    def late_views(self, variants: Iterable[str] | None = None) -> list[npt.NDArray[np.int32]]:
        """Impressions by zone of every slot in each variant, as :meth:`views` gives the others."""
        size = len(self.catalogue.ids)
        return [counts.late_view(size) for counts in self._chosen(variants, "")]

    def entries(self, variants: Iterable[str], segment: str) -> list[Entries]:
        """What items that have any count in one segment, in each of some variants."""
        return [counts.entries() for counts in self._chosen(variants, segment)]

    def whole(self) -> Columns:
        """Impressions and rewards of every slot, over all variants."""
        return added(self.views(), len(self.catalogue.ids))

    @property
    def variants(self) -> list[str]:
        """Variants with counts, ``COMMON`` among them where it has any."""
        return sorted({variant for variant, _ in self.counts if not variant.startswith(_START)})

    @property
    def segments(self) -> list[str]:
        """Segments with counts of their own."""
        return sorted({segment for _, segment in self.counts if segment})


def _of(counts: Counts, slots: Slots, size: int, lacks: Floats | None) -> Columns:
    return counts.of(slots, size) if lacks is None else counts.worth(slots, size, lacks)


_HANDLERS = {
    "item": Ledger._item,
    "state": Ledger._state,
    "leave": Ledger._leave,
    "import": Ledger._import,
    "prior": Ledger._prior,
    "positions": Ledger._positions,
    "pace": Ledger._pace,
    "forget": Ledger._forget,
    "experiment": Ledger._experiment,
}
"""What applies an event, by its kind; rankings, feedback and confirmations are applied in the loop itself."""
