"""A ledger that remembers nothing: every figure computed anew from the list of all events. And logs to try it on."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain, groupby
from typing import Any

import numpy as np
from hypothesis import strategies as st

from hellinger.events import Event, Logged
from hellinger.experiment import Pages, Totals
from hellinger.ledger import RESOLUTIONS, STATES, Ledger, starting
from hellinger.ledger.looks import lacks_of, ties_of

NAMES = ["a", "b", "c/d", "é"]
VARIANTS = ["one", "two", "three"]
SEGMENTS = [None, "tablet"]
KINDS = ["click", "like", "share"]
WORTH = [1.0, 0.75, 0.5, 0.25, 0.125]
POINTS = [0.0, 0.25, 0.5, 1.0]
TAGS: list[list[str]] = [[], ["x"], ["x", "y"]]
MORE: list[dict[str, Any]] = [
    {},
    {"group": ["g"]},
    {"group": ["g", "h"], "features": {"length": 2.0}},
    {"features": {"length": 3.0, "words": ["u", "v"]}},
]
"""What else may be said of an item."""
CONTEXTS: list[dict[str, Any] | None] = [None, {"age": 31.0, "likes": ["x"]}, {"age": 62.0, "city": "u"}]


# The model ----------------------------------------------------------------------------------------------


@dataclass
class Content:
    since: int
    said: int
    added_at: int
    expires_at: int
    tags: tuple[str, ...]
    more: tuple[tuple[str, ...], Any]
    """Group and features."""
    state: str = "shown"
    left_at: int = 0
    gone: dict[str, dict[str, Any]] = field(default_factory=dict)
    n: dict[tuple[str, str], float] = field(default_factory=lambda: defaultdict(float))
    s: dict[tuple[str, str], float] = field(default_factory=lambda: defaultdict(float))
    worth: dict[tuple[str, str], float] = field(default_factory=lambda: defaultdict(float))


def contents(events: Sequence[Logged]) -> dict[str, Content]:
    """The catalogue, without counts."""
    held: dict[str, Content] = {}
    for event in events:
        fields = event.fields
        content = held.get(fields.get("id", ""))
        if event.kind == "item":
            date, tags = fields["expires_at"] or 0, tuple(fields["tags"])
            more = tuple(fields.get("group", ())), fields.get("features")
            if content is None:
                held[fields["id"]] = Content(event.seq, event.seq, event.at, date, tags, more)
                continue
            revived = content.state == "expired" and date != content.expires_at and (date == 0 or date > event.at)
            content.said, content.expires_at, content.tags, content.more = event.seq, date, tags, more
            if revived:
                content.state, content.left_at = "shown", 0
        elif event.kind == "state" and content is not None:
            wanted = fields["state"]
            if wanted == "deleted":
                del held[fields["id"]]
            elif wanted == "hidden":
                content.state = "hidden" if content.state == "shown" else content.state
            elif wanted == "shown":
                content.state = "shown" if content.state == "hidden" else content.state
            elif content.state == "shown" and content.expires_at == fields["expires_at"]:
                content.state, content.left_at = "expired", event.at
        elif event.kind == "forget":
            for name in [n for n, c in held.items() if c.since in fields["since"] and c.state == "expired"]:
                del held[name]
        elif event.kind == "leave" and content is not None and content.since == fields["since"]:
            content.gone[fields["variant"]] = {
                "reason": fields["reason"],
                "at": event.at,
                "impressions": fields["impressions"],
                "rewards": fields["rewards"],
            }
    return held


@dataclass
class Ranking:
    """What came of a ranking."""

    fields: dict[str, Any]
    at: int
    shown: float = 0.0
    earned: float = 0.0
    rewards: list[float] = field(default_factory=list)
    """Of each position."""
    shadows: dict[str, dict[str, Any]] = field(default_factory=dict)
    kinds: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    """Items with feedback of each kind that was not late."""


@dataclass
class Model:
    """What a log amounts to."""

    events: Sequence[Logged]
    rounds: dict[tuple[str, str], float] = field(default_factory=lambda: defaultdict(float))
    worth: dict[tuple[str, str], float] = field(default_factory=lambda: defaultdict(float))
    looks: dict[tuple[int, int], list[float]] = field(default_factory=dict)
    cells: dict[tuple[str, int, str], list[float]] = field(default_factory=lambda: defaultdict(lambda: [0.0, 0.0, 0.0]))
    rankings: list[Ranking] = field(default_factory=list)
    imported: dict[str, list[float]] = field(default_factory=lambda: defaultdict(lambda: [0.0, 0.0]))

    def __post_init__(self) -> None:
        self.contents = contents(self.events)
        for event in self.events:
            if event.kind == "rank":
                self._request(event)
            elif event.kind == "import":
                self._import(event)

    def _request(self, event: Logged) -> None:
        fields = event.fields
        places = {(fields["variant"], ""), (fields["variant"], fields["segment"] or "")}
        thread = [e for e in self.events if e.key.startswith(f"{event.key}/")]
        ranking = Ranking(fields, event.at)
        for one in [e for e in thread if e.kind == "shadow"]:
            ranking.shadows = one.fields["shadows"]
            thread.remove(one)
        self.rankings.append(ranking)
        self._add(fields["variant"], event.at, 1, len(fields["items"]) if fields["counted"] else 0, 0)
        for position, item in enumerate(fields["items"]):
            content = self.contents.get(item)
            if content is not None and content.since > fields["through"]:
                content = None
            shown = [event.at] if fields["counted"] else []
            points = 0.0
            for one in (e for e in thread if e.fields["item"] == item):
                if not one.fields.get("late") and not shown:
                    shown = [one.at]
                    self._add(fields["variant"], one.at, 0, 1, 0)
                rise = min(1.0, points + one.fields.get("points", 0.0)) - min(1.0, points)
                points += one.fields.get("points", 0.0)
                self._add(fields["variant"], one.at, 0, 0, rise)
                if one.kind == "feedback" and not one.fields["late"]:
                    ranking.kinds[one.fields["kind"]] += 1
            ranking.earned += min(1.0, points)
            ranking.rewards.append(min(1.0, points))
            ranking.shown += len(shown)
            worth = WORTH[min(position, 4)] if fields["counted"] and fields.get("zoned") else len(shown)
            self._look(fields, position, min(1.0, points))
            for place in places:
                self.rounds[place] += len(shown)
                self.worth[place] += worth
                if content is not None:
                    content.n[place] += len(shown)
                    content.worth[place] += worth
                    content.s[place] += min(1.0, points)

    def _look(self, fields: dict[str, Any], position: int, earned: float) -> None:
        """Count what a position earned where it is one of several whose items were in random order."""
        scores = fields.get("scores", [])
        alike = [0] * len(scores) if fields.get("random") else scores
        if not earned or "ties" not in fields:  # an older version did not write them
            return
        start = 0
        for _, run in groupby(alike[:50]):
            end = start + len(list(run))
            if start <= position < end and end - start > 1:
                self.looks.setdefault((start, end), [0.0] * (end - start))[position - start] += earned
            start = end

    def _import(self, event: Logged) -> None:
        fields = event.fields
        variant, segment = fields["variant"] or "", fields["segment"] or ""
        before = contents([e for e in self.events if e.seq < event.seq])
        for row in fields["rows"]:
            n, s = row["impressions"], row["rewards"]
            places = {(variant, ""), (variant, segment)}
            for place in places:
                self.rounds[place] += n
                self.worth[place] += n
            if variant:
                self._add(variant, min(row["to"] or event.at, event.at), 0, n, s)
                self.imported[variant][0] += n
                self.imported[variant][1] += s
            then, now = before.get(row["item"]), self.contents.get(row["item"])
            if then is not None and now is not None and then.since == now.since:
                for place in places:
                    now.n[place] += n
                    now.worth[place] += n
                    now.s[place] += s

    def _add(self, variant: str, at: int, *figures: float) -> None:
        for name, length in (("all", 1 << 60), *RESOLUTIONS.items()):
            cell = self.cells[name, at // length, variant]
            cell[:] = [a + b for a, b in zip(cell, figures, strict=True)]

    def check(self, ledger: Ledger) -> None:
        """The ledger says the same, in everything."""
        held = ledger.catalogue
        assert ledger.seq == (self.events[-1].seq if self.events else 0)
        assert set(held.slots) == set(self.contents)
        assert held.live == sum(content.state == "shown" for content in self.contents.values())
        self._check_slots(ledger)
        self._check_departed(ledger)
        places = {key for key in self.rounds if self.rounds[key]}
        assert places <= set(ledger.counts)
        counted = [key for key in ledger.counts if key[0] in {"", *ledger.variants}]
        for key in counted:
            assert ledger.rounds(variants=[key[0]], segment=key[1]) == self.rounds[key]
            assert ledger.rounds(variants=[key[0]], segment=key[1], lacks=lacks_of(WORTH)) == self.worth[key]
        for name, content in self.contents.items():
            slot = held.slots[name]
            assert held.ids[slot] == name
            for column in ("since", "said", "added_at", "expires_at", "left_at"):
                assert held[column][slot] == getattr(content, column), column
            assert (STATES[held["state"][slot]], held.tags_of(slot)) == (content.state, content.tags)
            assert (held.group_of(slot), held.features_of(slot)) == content.more
            assert {v: left[slot] for v, left in ledger.gone.items() if slot in left} == content.gone
            for key in counted:
                n, s = ledger.sums([slot], variants=[key[0]], segment=key[1])
                assert (n[0], s[0]) == (content.n[key], content.s[key]), (name, key)
                n, _ = ledger.sums([slot], variants=[key[0]], segment=key[1], lacks=lacks_of(WORTH))
                assert n[0] == content.worth[key], (name, key)
        self._check_curve(ledger)
        series = ledger.series
        for variant in {*VARIANTS, *series.totals}:
            zeros = [0.0, 0.0, 0.0]
            assert list(series.totals.get(variant, zeros)) == self.cells["all", 0, variant]
            for name in RESOLUTIONS:
                steps = {step for what, step, v in self.cells if (what, v) == (name, variant)}
                for step in steps:
                    assert series.steps[name].get(step, {}).get(variant, zeros) == self.cells[name, step, variant]
        self._check_shares(ledger)
        self._check_shadows(ledger)
        self._check_users(ledger)
        self._check_starts(ledger)

    def _check_curve(self, ledger: Ledger) -> None:
        """The curve in force is the last that followed the one before it; each was fitted to what was known by then.

        So is what was last said of the traffic.
        """
        assert ledger.looks.rewards == self.looks
        assert ledger.looks.total == sum(map(sum, self.looks.values()))
        place, recounted = 0, 0
        fields: dict[str, Any] = {}
        for event in self.events:
            if event.kind == "positions" and event.fields["after"] == place:
                before, fields = fields, event.fields
                if "setting" in before and "setting" not in fields:
                    fields = fields | {"setting": before["setting"]}
                same = fields["worth"] == before.get("worth", [])
                same = same and fields.get("setting", "learned") == before.get("setting", "learned")
                recounted, place = recounted if same else event.seq, event.seq
        assert ledger.curve == (place, fields | {"recounted": recounted} if place else {})
        place, fields = 0, {}
        for event in self.events:
            if event.kind == "pace" and event.fields["after"] == place:
                place, fields = event.seq, event.fields | {"at": event.at}
        assert ledger.pace == (place, fields)

    def _check_shares(self, ledger: Ledger) -> None:
        """Sums of every phase and variant are those of its rankings; the settled ones those of rankings old enough."""
        phases = {phase["seq"]: phase for phase in ledger.phases}
        last = max((event.at for event in self.events), default=0)
        for (seq, variant), shares in ledger.series.shares.items():
            phase = phases.get(seq, {})
            assert shares.window == phase.get("window")
            its = [r for r in self.rankings if (r.fields.get("phase", 0), r.fields["variant"]) == (seq, variant)]
            expected = self._summed(its, phase.get("guardrail"), self.imported[variant] if seq == 0 else [0.0, 0.0])
            np.testing.assert_allclose(shares.whole().as_json()[:-1], expected, rtol=1e-12)
            window = shares.window
            if window is None:
                assert not shares.open
                continue
            pages = Pages(int(expected[3]), expected[4], int(expected[5]), expected[6])
            Totals(variant, int(expected[0]), int(expected[1]), expected[2], pages).check()
            for at in (last - 1, last, last + window // 2, last + window, last + window + shares.step):
                settled = [r for r in its if (r.at // shares.step + 1) * shares.step + window <= at]
                found, sums = shares.settled(at), self._summed(settled, phase.get("guardrail"), [0.0, 0.0])
                np.testing.assert_allclose(found.as_json()[:-1], sums, rtol=1e-12)
                if found.buckets is not None:
                    assert phase["split"] == "sticky"
                    columns = sums[1], sums[2], sums[7]
                    np.testing.assert_allclose(found.buckets.sum(axis=1), columns, rtol=1e-12)

    def _check_shadows(self, ledger: Ledger) -> None:
        """Sums of every phase and shadow are those of the rankings that it has ranked, each once."""
        made = {(r.fields["phase"], name) for r in self.rankings for name in r.shadows if r.fields["items"]}
        assert set(ledger.series.shadows) == made
        last = max((event.at for event in self.events), default=0)
        for (seq, name), shares in ledger.series.shadows.items():
            its = [r for r in self.rankings if r.fields.get("phase") == seq and name in r.shadows]
            self._compare_shadow(shares.whole().as_json(), its, name)
            window = shares.window
            if window is None:
                continue
            for at in (last, last + window // 2, last + window, last + window + shares.step):
                settled = [r for r in its if (r.at // shares.step + 1) * shares.step + window <= at]
                self._compare_shadow(shares.settled(at).as_json(), settled, name)

    @staticmethod
    def _compare_shadow(found: list[Any], rankings: list[Ranking], name: str) -> None:
        told = [r.shadows[name] for r in rankings]
        assert found[0] == len(rankings)
        np.testing.assert_allclose(found[1:3], [sum(x[what] for x in told) for what in ("same", "placed")], rtol=1e-9)
        for sums, column in zip(found[3:], ("weights", "looks"), strict=True):
            rows = []
            for ranking, fields in zip(rankings, told, strict=True):
                if fields[column] is not None:
                    size, w = len(ranking.rewards), np.array(fields[column])
                    mean = fields["mass"] if column == "looks" else w.sum() / size
                    rows.append([w @ np.array(ranking.rewards) / size, ranking.earned / size, mean])
            z = np.array(rows).reshape(-1, 3)
            products = (z.T @ z)[np.triu_indices(3)]
            np.testing.assert_allclose(sums, [len(rows), *z.sum(axis=0), *products], rtol=1e-9, atol=1e-9)

    @staticmethod
    def _summed(rankings: list[Ranking], guardrail: str | None, imported: list[float]) -> list[float]:
        n, s = imported
        guarded = [r.kinds.get(guardrail or "", 0) for r in rankings]
        return [
            len(rankings),
            sum(r.shown for r in rankings) + n,
            sum(r.earned for r in rankings) + s,
            len(rankings) + n,
            sum(r.earned**2 for r in rankings) + s,
            max([len(r.fields["items"]) for r in rankings] + [n > 0]),
            max([r.earned for r in rankings] + [s > 0]),
            sum(guarded),
            sum(number**2 for number in guarded),
            max(guarded, default=0),
        ]

    def _check_users(self, ledger: Ledger) -> None:
        """A user counts where first seen, in each experiment whose users keep their variant."""
        sticky = {phase["seq"]: phase for phase in ledger.phases if phase["split"] == "sticky" and "window" in phase}
        sticky = {seq: phase for seq, phase in sticky.items() if phase["window"] is not None}
        first: dict[tuple[str, int], tuple[int, str]] = {}
        for ranking in self.rankings:
            fields = ranking.fields
            if fields.get("phase") in sticky:
                assert fields["unit"] >= 0
                first.setdefault((fields["experiment"], fields["unit"]), (fields["phase"], fields["variant"]))
        expected: dict[str, Counter[tuple[int, str]]] = defaultdict(Counter)
        for (name, _), where in first.items():
            expected[name][where] += 1
        assert {name: users.counts for name, users in ledger.series.users.items()} == expected

    def _check_starts(self, ledger: Ledger) -> None:
        """A variant that began from common counts began from the sum of all others' at that place."""
        for phase in ledger.phases:
            for variant in phase.get("common", ()):
                before = Model(self.events[: phase["seq"] - 1])
                for segment in ("", "tablet"):
                    for name, content in before.contents.items():
                        if name not in self.contents or self.contents[name].since != content.since:
                            continue
                        slot = ledger.catalogue.slots[name]
                        found = ledger.sums([slot], variants=[starting(variant)], segment=segment)
                        others = [v for v, s in content.n if s == segment and v]
                        expected = [sum(column[v, segment] for v in others) for column in (content.n, content.s)]
                        assert [sums[0] for sums in found] == expected, (name, variant, segment)
                        n, _ = ledger.sums([slot], variants=[starting(variant)], segment=segment, lacks=lacks_of(WORTH))
                        assert n[0] == sum(content.worth[v, segment] for v in others), (name, variant, segment)

    def _check_departed(self, ledger: Ledger) -> None:
        """Of forgotten items, those that had expired count for their group, while it has others."""
        items: dict[tuple[str, ...], int] = {}
        sums: dict[tuple[str, str], dict[tuple[str, ...], list[float]]] = defaultdict(dict)
        for j, event in enumerate(self.events):
            if event.kind == "forget":
                before = Model(self.events[:j])
                for content in before.contents.values():
                    group = content.more[0]
                    if group and content.state == "expired" and content.since in event.fields["since"]:
                        items[group] = items.get(group, 0) + 1
                        for key in content.n:
                            if content.n[key] or content.s[key]:
                                pair = sums[key].setdefault(group, [0.0, 0.0])
                                pair[:] = [pair[0] + content.n[key], pair[1] + content.s[key]]
            if not items and not sums:
                continue
            alive = {content.more[0] for content in contents(self.events[: j + 1]).values()}
            items = {group: number for group, number in items.items() if group in alive}
            for key in sums:
                sums[key] = {group: pair for group, pair in sums[key].items() if group in alive}
        assert ledger.departed.items == items
        found = {
            key: {g: list(pair[:2]) for g, pair in each.items()} for key, each in ledger.departed.sums.items() if each
        }
        counted = {"", *ledger.variants}
        assert {key: each for key, each in found.items() if key[0] in counted} == {k: v for k, v in sums.items() if v}

    def _check_slots(self, ledger: Ledger) -> None:
        """Every slot has an item, or one that was deleted, or is free and has nothing; tag sets are those of items."""
        held = ledger.catalogue
        left = [content.since for content in self.contents.values() if content.state == "expired"]
        assert set(left) <= set(held.left)
        taken = set(held.slots.values()) | set(held.left.values())
        assert len(held.slots) + len(held.left) == len(taken) + len(left)
        assert len(held.free) == len(set(held.free))
        assert taken | set(held.free) == set(range(len(held.ids)))
        assert not taken & set(held.free)
        for slot in held.free:
            assert (held.ids[slot], held["since"][slot]) == ("", 0)
            assert not any(slot in gone for gone in ledger.gone.values())
            for variant, segment in ledger.counts:
                for lacks in (None, lacks_of(WORTH)):
                    sums = ledger.sums([slot], variants=[variant], segment=segment, lacks=lacks)
                    assert [column[0] for column in sums] == [0, 0]
        numbers = held["tags"][sorted(taken)].tolist()
        assert {held.tags.values[number] for number in numbers} | {()} == set(held.tags.values)
        groups = held["group"][sorted(taken)].tolist()
        assert {held.groups.values[number] for number in groups} | {()} == set(held.groups.values)
        assert set(held.features) <= taken


# Logs -----------------------------------------------------------------------------------------------------


class Log:
    """A log in memory: each key once, in order; with ``thread`` as stores have it."""

    def __init__(self) -> None:
        self.events: list[Logged] = []
        self.keys: set[str] = set()

    def append(self, event: Event) -> Logged | None:
        """Write an event, unless its key is there."""
        if event.key in self.keys:
            return None
        self.keys.add(event.key)
        self.events.append(Logged(len(self.events) + 1, *event))
        return self.events[-1]

    def thread(self, keys: Sequence[str]) -> list[Logged]:
        """Events of these requests."""
        return [e for e in self.events if any(e.key == key or e.key.startswith(f"{key}/") for key in keys)]


Command = tuple[Any, ...]

_item = st.tuples(
    st.just("item"),
    st.sampled_from(NAMES),
    st.sampled_from(TAGS),
    st.sampled_from([None, -1, 50, 10**6]),
    st.sampled_from(MORE),
)
_state = st.tuples(
    st.just("state"), st.sampled_from(NAMES), st.sampled_from((*STATES, "deleted", "hidden")), st.booleans()
)
_rank = st.tuples(
    st.just("rank"),
    st.sampled_from(VARIANTS),
    st.sampled_from(SEGMENTS),
    st.lists(st.sampled_from(NAMES), max_size=3, unique=True),
    st.booleans(),
    st.integers(0, 4),
    st.sampled_from(CONTEXTS),
    st.lists(st.sampled_from([0.5, 0.25, None]), min_size=3, max_size=3),
    st.booleans(),
    st.sampled_from(["cold-start", "fixed", "drawn"]),
)
_feedback = st.tuples(
    st.just("feedback"),
    st.integers(0, 9),
    st.integers(0, 2),
    st.sampled_from(KINDS),
    st.sampled_from(POINTS),
    st.booleans(),
)
_seen = st.tuples(st.just("seen"), st.integers(0, 9), st.integers(0, 2))
_import = st.tuples(
    st.just("import"),
    st.sampled_from([None, *VARIANTS]),
    st.sampled_from(SEGMENTS),
    st.lists(
        st.tuples(st.sampled_from(NAMES), st.integers(0, 5), st.floats(0, 1), st.sampled_from([None, -(10**8), 10**9])),
        min_size=1,
        max_size=3,
    ),
)
_leave = st.tuples(st.just("leave"), st.sampled_from(VARIANTS), st.sampled_from(NAMES), st.booleans())
_forget = st.tuples(st.just("forget"), st.lists(st.integers(0, 12), max_size=4))
_replace = st.tuples(st.just("replace"), st.sampled_from(NAMES), st.sampled_from(NAMES))
_wait = st.tuples(st.just("wait"), st.sampled_from([1, 100, 70_000, 10**8, -50_000]))
_often = (_item, _item, _rank, _rank, _feedback, _feedback, _feedback)
commands = st.lists(st.one_of(*_often, _seen, _state, _import, _leave, _wait, _forget, _replace), max_size=50)
"""Things that happen, to be made events by :func:`written`. Contents are there to begin with."""

START = 1_700_000_000_000


def _parts(happening: Command) -> list[Command]:
    """An item replaced is one deleted, forgotten, and another in its slot."""
    if happening[0] != "replace":
        return [happening]
    _, name, other = happening
    return [("state", name, "deleted", True), ("forget", []), ("item", other, [], None)]


def written(happenings: Sequence[Command]) -> Log:
    """The log of what happens."""
    log, at = Log(), START
    ranks: list[Logged] = []
    begin: list[Command] = [("item", name, [], None) for name in NAMES[:2]]
    for happening in chain(begin, *map(_parts, happenings)):
        number = len(log.events) + 1
        match happening:
            case "wait", step:
                at += step
            case "item", name, tags, expires, *more:
                date = None if expires is None else at + expires
                fields = {"id": name, "tags": tags, "expires_at": date, "metadata": None, **(more[0] if more else {})}
                log.append(Event.of(f"item/{number}", "item", at, fields))
            case "state", name, state, right:
                held = contents(log.events).get(name)
                date = held.expires_at if held is not None and right else 1
                fields = {"id": name, "state": state} | ({"expires_at": date} if state == "expired" else {})
                log.append(Event.of(f"state/{number}", "state", at, fields))
            case "rank", variant, segment, items, counted, lag, *more:
                rest: list[Any] = [*more, *[None, [], True, "cold-start"][len(more) :]]
                context, scores, zoned, policy = rest
                through = max(0, len(log.events) - lag)
                then = contents(log.events[:through])
                shown = [item for item in items if item in then]
                fields = {"variant": variant, "segment": segment, "counted": counted, "through": through}
                fields |= {
                    "items": shown,
                    "scores": scores[: len(shown)],
                    "policy": policy,
                    "random": policy == "drawn",
                }
                fields |= {"zoned": True} if zoned else {}
                fields |= {"ties": ties} if (ties := ties_of(fields)) and lag < 4 else {}
                fields |= {"context": context} if context else {}
                event = log.append(Event.of(f"r{number}", "rank", at, fields))
                assert event is not None
                ranks.append(event)
            case ("feedback" | "seen") as kind, which, position, *more:
                if not ranks:
                    continue
                rank = ranks[-1 - which % len(ranks)]
                items = rank.fields["items"]
                if not items:
                    continue
                fields = {"request": rank.key, "item": items[position % len(items)]}
                label = "seen!"
                if kind == "feedback":
                    label, points, late = more
                    fields |= {"kind": label, "points": 0.0 if late else points, "late": late, "happened": None}
                log.append(Event.of(f"{rank.key}/{label}/{fields['item']}", kind, at, fields))
            case "import", variant, segment, rows:
                told = [
                    {"item": i, "impressions": n, "rewards": round(n * s * 8) / 8, "from": None, "to": to and at + to}
                    for i, n, s, to in rows
                ]
                fields = {"batch": str(number), "variant": variant, "segment": segment, "rows": told}
                log.append(Event.of(f"import/{number}", "import", at, fields))
            case "forget", since:
                fields = {"since": since or [e.seq for e in log.events if e.kind == "item"], "writer": "0"}
                log.append(Event.of(f"forget/{number}", "forget", at, fields))
            case "leave", variant, name, right:
                held = contents(log.events).get(name)
                since = held.since if held is not None and right else 0
                fields = {"variant": variant, "id": name, "since": since, "reason": "graduated"}
                fields |= {"impressions": 3, "rewards": 1}
                log.append(Event.of(f"leave/{variant}/{since}", "leave", at, fields))
    return log
