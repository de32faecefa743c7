"""The desk decides as it should, and its pools are at all times those that the ledger alone would give."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from hellinger.engine.desk import HOUR, Desk, Draft, DraftRow, Feedback, Query, points
from hellinger.engine.pools import Pools
from hellinger.events import Event, Logged
from hellinger.experiment import Split
from hellinger.ledger import SHOWN, STATES, Ledger, spoken_of
from hellinger.ledger.recovery import differences, fold
from hellinger.ledger.snapshot import dumped, loaded
from hellinger.pool import Leaving, Pool
from ledger_model import KINDS, NAMES, SEGMENTS, START, TAGS, Log, Model

VARIANTS = {"one": "hellinger-ucb", "two": "ucb1"}
WINDOW = 60_000


class Copy:
    """A desk with what it has still to write: what a service is, without web, threads and database."""

    def __init__(self, log: Log, cache: int = 100_000, **options: Any) -> None:
        self.log = log
        self.cache = cache
        self.options = {"window": WINDOW} | options
        self.start()

    def start(self, ledger: Ledger | None = None) -> None:
        """Begin anew, from the log alone or from a snapshot of it."""
        ledger = ledger or Ledger(cache=self.cache)
        fold(ledger, self.log.events[ledger.seq :], self.log.thread)
        self.desk = Desk(ledger, VARIANTS, **self.options)
        self.drafts: list[DraftRow] = []
        self.pins: list[str] = []

    def write(self, drafts: Iterable[DraftRow]) -> None:
        """Leave drafts to be written."""
        drafts = list(drafts)
        self.desk.ledger.requests.pin(self.holds(drafts))
        self.pins += self.holds(drafts)
        self.drafts += drafts

    def flush(self) -> None:
        """Write all drafts, and take in what others have written before."""
        desk, drafts = self.desk, self.drafts
        requests = desk.ledger.requests
        others = self.log.events[desk.ledger.seq :]
        mine = [(event.seq, (event.row, said)) for draft, said in drafts if (event := self.log.append(Event(*draft)))]
        with requests.pinned(spoken_of(others)):
            thread = self.log.thread(desk.ledger.missing(others))
            desk.commit(others, thread)
            desk.commit_own(mine)
        requests.release(self.pins)
        self.drafts, self.pins = [], []

    def recall(self, *names: str) -> None:
        self.desk.recall(self.log.thread(self.desk.missing(names)))

    @staticmethod
    def holds(drafts: Iterable[DraftRow]) -> list[str]:
        """Requests that must stay in memory until these are written."""
        return spoken_of(Logged(0, *event) for event, _ in drafts)

    # What users do, in short

    def add(self, *names: str, at: int = START, tags: Iterable[str] = (), expires_at: int | None = None) -> None:
        items = [{"id": name, "tags": list(tags), "expires_at": expires_at, "metadata": None} for name in names]
        self.write(self.desk.describe(items, at))
        self.flush()

    def turn(self, name: str, state: str, at: int = START) -> None:
        self.write([self.desk.turn(name, state, at)])
        self.flush()

    def rank(self, k: int = 3, at: int = START, name: str | None = None, **query: Any) -> Draft:
        draft = self.desk.rank(Query(k, **query), at, name)
        self.write([draft])
        return draft

    def give(self, request: str, item: str, kind: str = "click", value: float = 1.0, at: int = START) -> str:
        """Send one feedback; what becomes of it."""
        self.recall(request)
        out = self.desk.sort([Feedback(request, item, kind, value)], at)
        self.write(out.drafts)
        kinds = {"late": out.late, "duplicate": out.duplicate, "unknown": out.unknown, "rejected": out.rejected}
        return next((kind for kind, found in kinds.items() if found), "accepted")

    def chores(self, at: int) -> None:
        self.write(self.desk.chores(at))
        self.flush()

    def bring(self, rows: list[tuple[str, int, float]], variant: str | None = None, segment: str | None = None) -> None:
        told = [{"item": i, "impressions": n, "rewards": s, "from": None, "to": None} for i, n, s in rows]
        fields = {"batch": "b", "variant": variant, "segment": segment, "rows": told}
        self.write([Draft(Event.of(f"import/{len(self.log.events)}", "import", START, fields), fields)])
        self.flush()

    def check(self) -> None:
        """The ledger is the log's fold, and the pools are those that it alone would give."""
        Model(self.log.events).check(self.desk.ledger)
        same_pools(self.desk, loaded(dumped(self.desk.ledger)))


def same_pools(desk: Desk, ledger: Ledger) -> None:
    """Pools made of this ledger are the desk's."""
    by_pool = desk.leaving._replace(age=None)
    fresh = Pools(ledger, VARIANTS, learning=desk.pools.learning, enough=None, leaving=by_pool)
    for variant, pool in desk.pools.of.items():
        other = fresh.of[variant]
        names, others = desk.ledger.catalogue.ids, ledger.catalogue.ids
        same_pool(pool.pooled, names, other.pooled, others)
        some = {segment for segment, own in pool.segments.items() if own.rounds}
        assert some == {segment for segment, own in other.segments.items() if own.rounds}
        for segment in some:
            same_pool(pool.segments[segment], names, other.segments[segment], others)


def same_pool(one: Pool, names: list[str], other: Pool, others: list[str]) -> None:
    assert one.rounds == other.rounds
    assert _catalogue(one, names) == _catalogue(other, others)


def _catalogue(pool: Pool, names: list[str]) -> dict[str, tuple[float, float, frozenset[str], bool]]:
    stats = {names[int(slot)]: pool.stats(slot) for slot in pool.ids}
    return {name: (s.impressions, s.rewards, s.tags, s.hidden) for name, s in stats.items()}


# Anything in any order ------------------------------------------------------------------------------------

some_names = st.lists(st.sampled_from([*NAMES, "nobody"]), max_size=3)


class Copies(RuleBasedStateMachine):
    """Two copies on one log, in whatever order things happen."""

    @initialize(
        learning=st.sampled_from(["isolated", "shared"]),
        counted=st.booleans(),
        share=st.sampled_from([0.0, 0.0, 0.4]),
        leaving=st.sampled_from([None, Leaving(impressions=3), Leaving(age=0.5), Leaving(impressions=4, age=0.2)]),
        enough=st.sampled_from([None, 0, 4]),
        cache=st.sampled_from([0, 1, 3, 1000]),
        sticky=st.booleans(),
    )
    def begin(self, cache: int, share: float, **options: Any) -> None:
        self.log, self.at = Log(), START
        self.copies = [Copy(self.log, cache, random_share=share, seed=j, **options) for j in range(2)]
        self.copies[0].add(*NAMES[:2])
        self.ranks: list[str] = []

    @rule(
        which=st.integers(0, 1),
        names=st.lists(st.sampled_from(NAMES), min_size=1, max_size=3),
        tags=st.sampled_from(TAGS),
        expires=st.sampled_from([None, None, 30_000, -1]),
    )
    def describe(self, which: int, names: list[str], tags: list[str], expires: int | None) -> None:
        date = None if expires is None else self.at + expires
        items = [{"id": name, "tags": tags, "expires_at": date, "metadata": None} for name in names]
        self.copies[which].write(self.copies[which].desk.describe(items, self.at))

    @rule(which=st.integers(0, 1), name=st.sampled_from(NAMES), state=st.sampled_from(["hidden", "shown", "deleted"]))
    def turn(self, which: int, name: str, state: str) -> None:
        self.copies[which].write([self.copies[which].desk.turn(name, state, self.at)])

    @rule(
        which=st.integers(0, 1),
        k=st.integers(1, 5),
        user=st.sampled_from([None, "ada"]),
        segment=st.sampled_from(SEGMENTS),
        exclude=some_names,
        tags=st.sampled_from([None, None, [], ["x"], ["y", "z"]]),
        among=st.one_of(st.none(), some_names),
    )
    def rank(self, which: int, **query: Any) -> None:
        copy = self.copies[which]
        draft = copy.rank(at=self.at, **query)
        self.ranks.append(draft.event.key)
        check_ranking(copy.desk, Query(**query), draft, self.at)

    @rule(which=st.integers(0, 1), other=st.booleans(), number=st.integers(0, 2))
    def rank_named(self, which: int, other: bool, number: int) -> None:
        """Both copies may make a ranking of one name; the log holds one."""
        name = f"named{number}"
        for copy in self.copies if other else [self.copies[which]]:
            if name not in self.log.keys and name not in copy.desk.named:
                copy.rank(2, at=self.at, name=name)
                self.ranks.append(name)

    @precondition(lambda self: self.ranks)
    @rule(
        which=st.integers(0, 1),
        rank=st.integers(0, 5),
        position=st.integers(0, 4),
        kind=st.sampled_from(KINDS),
        value=st.sampled_from([0.0, 0.3, 1.0]),
        seen=st.booleans(),
    )
    def feedback(self, which: int, rank: int, position: int, kind: str, value: float, seen: bool) -> None:
        copy, name = self.copies[which], self.ranks[-1 - rank % len(self.ranks)]
        copy.recall(name)
        request = copy.desk.ledger.requests.get(name)
        if request is None or not request.items:
            return
        item = request.items[position % len(request.items)]
        if name not in self.log.keys:
            return  # not answered yet
        if seen:
            copy.write(copy.desk.sort_seen([(name, item)], self.at).drafts)
        else:
            copy.write(copy.desk.sort([Feedback(name, item, kind, value)], self.at).drafts)

    @rule(
        name=st.sampled_from(NAMES),
        n=st.integers(0, 3),
        variant=st.sampled_from([None, "one", "two", "former"]),
        segment=st.sampled_from(SEGMENTS),
    )
    def bring(self, name: str, n: int, variant: str | None, segment: str | None) -> None:
        if variant == "former":
            return
        self.copies[0].bring([(name, n, n / 2)], variant, segment)

    @rule(which=st.integers(0, 1))
    def flush(self, which: int) -> None:
        self.copies[which].flush()

    @rule(which=st.integers(0, 1))
    def chores(self, which: int) -> None:
        self.copies[which].write(self.copies[which].desk.chores(self.at))

    @rule(step=st.sampled_from([1, 1000, 45_000, 1_000_000, -2000]))
    def wait(self, step: int) -> None:
        self.at += step

    @rule(which=st.integers(0, 1), from_snapshot=st.booleans())
    def restart(self, which: int, from_snapshot: bool) -> None:
        copy = self.copies[which]
        copy.flush()
        copy.start(loaded(dumped(copy.desk.ledger), cache=copy.cache) if from_snapshot else None)

    @rule()
    def compare(self) -> None:
        """When everything is written and everything due has been done, all agree."""
        for _ in range(3):
            for copy in self.copies:
                copy.chores(self.at)
        for copy in self.copies:
            copy.flush()
            assert not copy.desk.pending
            same_pools(copy.desk, loaded(dumped(copy.desk.ledger)))
            assert not copy.desk.named
            Model(self.log.events).check(copy.desk.ledger)
        one, other = (copy.desk.ledger for copy in self.copies)
        assert differences(one, other) == []

    @invariant()
    def nothing_is_held_for_nothing(self) -> None:
        for copy in self.copies if hasattr(self, "copies") else ():
            assert set(copy.desk.ledger.requests._pins) == set(copy.pins)

    def teardown(self) -> None:
        if hasattr(self, "copies"):
            for copy in self.copies:
                copy.flush()
            self.compare()


def check_ranking(desk: Desk, query: Query, draft: Draft, at: int) -> None:
    """What was ranked may be shown, and nothing was left out that could have filled a place."""
    fields = draft.fields
    pool, held = desk.pools.of[fields["variant"]], desk.ledger.catalogue
    eligible = set()
    for name, slot in held.slots.items():
        due = desk.leaving.age is not None and at >= held["added_at"][slot] + desk.leaving.age * HOUR
        due = due or 0 < held["expires_at"][slot] <= at
        due = due or slot in desk._covered  # the clock has been set back since: what has expired does not come back
        if held["state"][slot] == SHOWN and not due and (slot in pool or name in fields["items"]):
            eligible.add(name)
    if query.tags is not None:
        eligible = {name for name in eligible if set(held.tags_of(held.slots[name])) & set(query.tags)}
    if query.among is not None:
        eligible &= set(query.among)
    eligible -= set(query.exclude)
    assert set(fields["items"]) <= eligible
    assert len(fields["items"]) == len(set(fields["items"])) == len(fields["scores"])
    if desk.leaving.impressions is None:
        assert len(fields["items"]) == min(query.k, len(eligible))
        for p in fields["propensities"] if isinstance(fields["propensities"], list) else ():
            uniform = desk.random_share / len(eligible)
            assert p == pytest.approx(uniform) or p == pytest.approx(uniform + 1 - desk.random_share)


TestCopies = Copies.TestCase
TestCopies.settings = settings(
    max_examples=60,
    stateful_step_count=40,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)


# Rankings -------------------------------------------------------------------------------------------------


def test_an_empty_pool_ranks_nothing() -> None:
    for share in (0.0, 1.0):
        copy = Copy(Log(), random_share=share)
        draft = copy.rank()
        assert draft.fields["items"] == []
        copy.flush()
        copy.check()


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_filters_with_unknown_ids_and_more_wanted_than_there_is(share: float) -> None:
    copy = Copy(Log(), random_share=share, seed=1)
    copy.add("a", "b", tags=["x"])
    copy.add("c")
    ranked = {
        "all": copy.rank(50),
        "exclude": copy.rank(50, exclude=["a", "nobody"]),
        "tags": copy.rank(50, tags=["x", "nothing"]),
        "no tags": copy.rank(50, tags=[]),
        "among": copy.rank(50, among=["c", "nobody", "c"]),
        "among nobody": copy.rank(50, among=["nobody"]),
        "all of them": copy.rank(50, among=["a", "c"], tags=["x"], exclude=["a"]),
    }
    found = {name: sorted(draft.fields["items"]) for name, draft in ranked.items()}
    assert found == {
        "all": ["a", "b", "c"],
        "exclude": ["b", "c"],
        "tags": ["a", "b"],
        "no tags": [],
        "among": ["c"],
        "among nobody": [],
        "all of them": [],
    }
    copy.flush()
    copy.check()


def test_an_unshown_content_has_no_finite_score_under_ucb1() -> None:
    copy = Copy(Log(), split=Split({"one": 0, "two": 1}))
    copy.add("a")
    assert copy.rank().fields["scores"] == [None]


def test_propensities_are_those_of_the_draws() -> None:
    """Counted over many rankings of the same pool: each content at each place as often as was said."""
    share, draws = 0.6, 6000
    copy = Copy(Log(), counted=False, random_share=share, seed=5, split=Split({"one": 1, "two": 0}))
    copy.add("a", "b", "c", "d")
    copy.bring([("a", 100, 50), ("b", 100, 40), ("c", 100, 30), ("d", 100, 20)])
    told: dict[tuple[int, str], float] = {}
    found: Counter[tuple[int, str]] = Counter()
    drawn = 0
    for _ in range(draws):
        fields = copy.desk.rank(Query(2), START).fields
        drawn += fields["random"]
        for place, (item, p) in enumerate(zip(fields["items"], fields["propensities"], strict=True)):
            assert told.setdefault((place, item), p) == p
            found[place, item] += 1
    assert drawn / draws == pytest.approx(share, abs=4 * math.sqrt(share * (1 - share) / draws))
    for place in range(2):
        assert sum(p for (where, _), p in told.items() if where == place) == pytest.approx(1.0)
    for key, p in told.items():
        assert found[key] / draws == pytest.approx(p, abs=4 * math.sqrt(p * (1 - p) / draws)), key
    assert told[0, "a"] == pytest.approx(share / 4 + 1 - share)


def test_a_policy_that_draws_has_no_propensity() -> None:
    ledger = Ledger()
    desk = Desk(ledger, {"t": "thompson"}, seed=1, random_share=0.5)
    desk.commit_own([(1, (Event("item/1", "item", START, ""), {"id": "a", "tags": [], "expires_at": None}))])
    assert desk.rank(Query(1), START).fields["propensities"] is None


def test_random_rankings_never_show_what_has_left_or_expired() -> None:
    only = Split({"one": 1, "two": 0})
    copy = Copy(Log(), random_share=1.0, seed=2, leaving=Leaving(impressions=2), split=only)
    copy.add("a", "b")
    copy.add("c", expires_at=START + 10)
    for _ in range(8):
        items = copy.rank(3, at=START + 10).fields["items"]
        assert "c" not in items
    assert copy.rank(3, at=START + 10).fields["items"] == []
    copy.chores(START + 10)
    copy.check()


def test_a_sticky_user_keeps_a_variant_and_all_get_their_share() -> None:
    weights = {"one": 3.0, "two": 1.0}
    desk = Desk(Ledger(), VARIANTS, sticky=True, split=Split(weights, salt="s"), seed=1)
    first = {user: desk.rank(Query(1, user=f"u{user}"), START).fields for user in range(2000)}
    again = [desk.rank(Query(1, user=f"u{user}"), START).fields["variant"] for user in range(2000)]
    assert [fields["variant"] for fields in first.values()] == again
    share = again.count("one") / 2000
    assert share == pytest.approx(0.75, abs=4 * math.sqrt(0.75 * 0.25 / 2000))
    assert {f["variant"]: f["chance"] for f in first.values()} == {"one": 0.75, "two": 0.25}
    nobody = Counter(desk.rank(Query(1), START).fields["variant"] for _ in range(2000))
    assert nobody["one"] / 2000 == pytest.approx(0.75, abs=4 * math.sqrt(0.75 * 0.25 / 2000))


def test_a_segment_ranks_by_its_own_counts_when_it_has_enough() -> None:
    copy = Copy(Log(), enough=100, counted=False, split=Split({"one": 1, "two": 0}))
    copy.add("a", "b")
    copy.bring([("a", 100, 90), ("b", 100, 10)])
    copy.bring([("a", 60, 0), ("b", 60, 60)], segment="night")
    assert copy.rank(1).fields["items"] == ["a"]
    assert copy.rank(1, segment="night").fields["items"] == ["b"]
    assert copy.rank(1, segment="unheard of").fields["items"] == ["a"]
    copy.flush()
    copy.check()


# Learning -------------------------------------------------------------------------------------------------


def stats(copy: Copy, variant: str, item: str) -> tuple[float, float]:
    found = copy.desk.pools.of[variant].pooled.stats(copy.desk.ledger.catalogue.slots[item])
    return found.impressions, found.rewards


@pytest.mark.parametrize(("learning", "expected"), [("isolated", (0, 0)), ("shared", (1, 1))])
def test_what_the_others_learn(learning: Any, expected: tuple[int, int]) -> None:
    copy = Copy(Log(), learning=learning, split=Split({"one": 1, "two": 0}))
    copy.add("a")
    copy.bring([("a", 2, 1)])
    draft = copy.rank()
    copy.flush()
    assert copy.give(draft.event.key, "a") == "accepted"
    copy.flush()
    assert stats(copy, "one", "a") == (3, 2)
    assert stats(copy, "two", "a") == (2 + expected[0], 1 + expected[1])
    copy.check()


def test_the_next_ranking_knows_of_those_not_yet_written() -> None:
    copy = Copy(Log(), split=Split({"one": 1, "two": 0}))
    copy.add(*"abcdef")
    shown = [copy.rank(2).fields["items"] for _ in range(3)]
    assert sorted(item for items in shown for item in items) == list("abcdef")


def test_an_impression_earns_at_most_one() -> None:
    copy = Copy(Log(), weights={"like": 0.5, "bad": -1.0}, split=Split({"one": 1, "two": 0}))
    copy.add("a")
    draft = copy.rank()
    copy.flush()
    for kind, total in (("like", 0.5), ("bad", 0.5), ("other", 1.0), ("third", 1.0)):
        assert copy.give(draft.event.key, "a", kind) == "accepted"
        copy.flush()
        assert stats(copy, "one", "a") == (1, total)
        assert copy.give(draft.event.key, "a", kind) == "duplicate"
    copy.check()


@pytest.mark.parametrize("weight", [1.0, 0.3, 1e-9, -5.0, 1e300])
def test_points_are_exact_to_sum(weight: float) -> None:
    rng = random.Random(1)
    for _ in range(100):
        p = points(weight, rng.random())
        assert 0.0 <= p <= 1.0
        assert p * 2**20 == round(p * 2**20)


def test_feedback_that_cannot_be_counted() -> None:
    copy = Copy(Log())
    copy.add("a", "b")
    draft = copy.rank(1)
    shown = draft.fields["items"][0]
    other = "b" if shown == "a" else "a"
    copy.flush()
    assert copy.give(draft.event.key, other) == "rejected"
    assert copy.give("A" * 22, "a") == "unknown"
    assert copy.give(draft.event.key, shown, at=START + WINDOW) == "accepted"
    assert copy.give(draft.event.key, shown, "like", at=START + WINDOW + 1) == "late"
    assert copy.give(draft.event.key, shown, "share", at=START - WINDOW) == "accepted"
    copy.flush()
    assert copy.give(draft.event.key, shown, "like") == "duplicate"
    copy.check()


def test_a_namesake_is_not_credited() -> None:
    copy = Copy(Log(), split=Split({"one": 1, "two": 0}))
    copy.add("a")
    draft = copy.rank()
    copy.flush()
    copy.turn("a", "deleted")
    assert copy.give(draft.event.key, "a") == "accepted"
    copy.add("a")
    copy.flush()
    assert copy.give(draft.event.key, "a", "like") == "accepted"
    copy.flush()
    assert stats(copy, "one", "a") == (0, 0)
    assert copy.desk.ledger.series.totals["one"] == [1, 1, 1]
    copy.check()


def test_a_ranking_written_after_its_item_was_replaced_does_not_count_for_the_new_one() -> None:
    log = Log()
    here, there = (Copy(log, split=Split({"one": 1, "two": 0})) for _ in range(2))
    here.add("a")
    there.flush()
    here.rank()
    there.turn("a", "deleted")
    there.add("a")
    here.flush()
    there.flush()
    assert stats(here, "one", "a") == stats(there, "one", "a") == (0, 0)
    here.check()
    there.check()


def test_confirmed_impressions() -> None:
    copy = Copy(Log(), counted=False, split=Split({"one": 1, "two": 0}))
    copy.add("a", "b", "c")
    draft = copy.rank(3)
    copy.flush()
    name = draft.event.key
    assert stats(copy, "one", "a") == (0, 0)
    assert copy.give(name, "a") == "accepted"  # nobody clicks what was not seen
    copy.write(copy.desk.sort_seen([(name, "b"), (name, "b")], START).drafts)
    copy.flush()
    assert [stats(copy, "one", item) for item in "abc"] == [(1, 1), (1, 0), (0, 0)]
    out = copy.desk.sort_seen([(name, "a"), (name, "z"), ("B" * 22, "a"), (name, "c")], START + WINDOW + 1)
    assert (out.duplicate, out.unknown, len(out.rejected), out.late, out.drafts) == ([0], [2], 1, {3}, [])
    copy.check()


def test_two_rankings_of_one_name_count_once() -> None:
    log = Log()
    here, there = (Copy(log, seed=j, split=Split({"one": 1, "two": 0}), learning="shared") for j in range(2))
    here.add(*"abcd")
    there.flush()
    mine = here.rank(2, name="N" * 22, segment="night")
    theirs = there.rank(3, name="N" * 22)
    assert mine.event.body != theirs.event.body
    there.flush()
    here.flush()
    for copy in (here, there):
        assert not copy.desk.named
        assert copy.desk.ledger.series.totals["one"] == [1, 3, 0]
        same_pools(copy.desk, loaded(dumped(copy.desk.ledger)))
    assert here.give("N" * 22, theirs.fields["items"][0]) == "accepted"


# Coming and going -----------------------------------------------------------------------------------------


def state(copy: Copy, name: str) -> str:
    held = copy.desk.ledger.catalogue
    return STATES[held["state"][held.slots[name]]]


def test_what_has_expired_is_not_shown_even_before_the_log_has_it() -> None:
    copy = Copy(Log())
    copy.add("a", expires_at=START + 100)
    assert copy.rank(at=START + 99).fields["items"] == ["a"]
    assert copy.rank(at=START + 100).fields["items"] == []
    assert state(copy, "a") == "shown"
    copy.chores(START + 100)
    assert state(copy, "a") == "expired"
    copy.check()


@pytest.mark.parametrize("date", [None, START + 500])
def test_a_new_date_brings_back_what_had_expired(date: int | None) -> None:
    for logged in (True, False):
        copy = Copy(Log())
        copy.add("a", expires_at=START + 100)
        assert copy.rank(at=START + 100).fields["items"] == []
        if logged:
            copy.chores(START + 101)
        copy.add("a", at=START + 110, expires_at=date)
        assert copy.rank(at=START + 120).fields["items"] == ["a"]
        copy.chores(START + 130)
        assert copy.rank(at=START + 500).fields["items"] == ([] if date else ["a"])
        copy.chores(START + 500)
        copy.check()


def test_new_tags_and_unhiding_do_not_bring_back_what_has_expired() -> None:
    copy = Copy(Log())
    copy.add("a", expires_at=START + 100)
    copy.turn("a", "hidden")
    copy.chores(START + 200)
    assert state(copy, "a") == "hidden"
    copy.turn("a", "shown", START + 201)
    assert copy.rank(at=START + 201).fields["items"] == []
    copy.add("a", at=START + 202, tags=["x"], expires_at=START + 100)
    assert copy.rank(at=START + 203).fields["items"] == []
    copy.chores(START + 204)
    assert state(copy, "a") == "expired"
    copy.check()


def test_contents_added_while_running_age_too() -> None:
    copy = Copy(Log(), leaving=Leaving(age=1.0))
    copy.add("a")
    assert copy.rank(at=START + HOUR - 1).fields["items"] == ["a"]
    assert copy.rank(at=START + HOUR).fields["items"] == []
    copy.chores(START + HOUR)
    assert state(copy, "a") == "expired"
    copy.add("a", at=START + HOUR + 1, tags=["x"])
    assert state(copy, "a") == "expired"
    copy.add("a", at=START + HOUR + 2, expires_at=START + 9 * HOUR)  # back for a moment, but no younger
    assert copy.rank(at=START + HOUR + 3).fields["items"] == []
    copy.chores(START + HOUR + 3)
    assert state(copy, "a") == "expired"
    copy.check()


def test_a_content_leaves_one_variant_and_not_the_other() -> None:
    copy = Copy(Log(), leaving=Leaving(impressions=2), split=Split({"one": 1, "two": 0}))
    copy.add("a")
    drafts = [copy.rank() for _ in range(3)]
    assert [draft.fields["items"] for draft in drafts] == [["a"], ["a"], []]
    copy.chores(START)
    assert copy.desk.about("a")["one"]["left"]["reason"] == "graduated"
    assert copy.desk.about("a")["two"]["left"] is None
    assert copy.desk.ledger.catalogue.slots["a"] in copy.desk.pools.of["two"]
    assert copy.give(drafts[0].event.key, "a") == "accepted"
    copy.flush()
    assert copy.desk.about("a")["one"]["rewards"] == 1
    copy.check()
    copy.start()
    assert copy.rank().fields["items"] == []


def test_a_content_deleted_just_after_it_left() -> None:
    copy = Copy(Log(), leaving=Leaving(impressions=1), split=Split({"one": 1, "two": 0}))
    copy.add("a", "b")
    copy.rank(2)
    copy.turn("a", "deleted")
    copy.add("a")
    copy.chores(START)
    assert copy.desk.about("a")["one"]["left"] is None
    assert copy.desk.about("b")["one"]["left"] is not None
    assert copy.rank(2).fields["items"] == ["a"]
    copy.flush()
    copy.chores(START)
    copy.check()


def test_contents_beyond_hope_are_swept_out() -> None:
    copy = Copy(Log(), leaving=Leaving(share=0.5), split=Split({"one": 1, "two": 0}))
    copy.add("good", "bad")
    copy.bring([("good", 10_000, 9000), ("bad", 10_000, 10)])
    copy.desk.sweep()
    copy.turn("bad", "hidden")
    copy.turn("bad", "shown")
    assert copy.rank().fields["items"] == ["good"]
    copy.chores(START)
    assert copy.desk.about("bad")["one"]["left"]["reason"] == "outclassed"
    copy.check()


def test_rounds_count_what_has_gone() -> None:
    """The number of rounds is that of all impressions, whatever became of the contents, also after a restart."""
    for learning in ("isolated", "shared"):
        copy = Copy(Log(), learning=learning, split=Split({"one": 1, "two": 0}))
        copy.add("a", "b")
        copy.bring([("a", 5, 1), ("b", 7, 1)])
        drafts = [copy.rank(2, segment="night") for _ in range(3)]
        copy.turn("b", "deleted")
        copy.give(drafts[0].event.key, "b")
        copy.flush()
        assert copy.desk.pools.of["one"].pooled.rounds == 18
        assert copy.desk.pools.of["one"].segments["night"].rounds == 6
        copy.check()


def test_a_great_batch_of_contents_is_brought_in_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    loads = []
    load = Pool.load

    def counting(self: Pool, *args: Any, **options: Any) -> None:
        loads.append(1)
        load(self, *args, **options)

    monkeypatch.setattr(Pool, "load", counting)
    copy = Copy(Log())
    copy.add(*(f"item {j}" for j in range(500)))
    assert len(loads) == len(VARIANTS)
    copy.check()
