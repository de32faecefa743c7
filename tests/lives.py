"""Random lives of a small pool, in process: two replicas on one log, in whatever order things happen.

The invariant: a replica that has nothing left to write, and whose clock has done what is due, equals one that is made
from the log alone, to the bit: ledger, pools, priors, indices, and for its seed the next ranking.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice, pairwise
from typing import Any

import numpy as np
import pytest

from hellinger.engine import dates, derived, pools
from hellinger.engine.allocation import Allocation
from hellinger.engine.desk import Desk
from hellinger.engine.drafts import Draft, DraftRow, GivenFeedback, Query
from hellinger.engine.exploring import Exploring
from hellinger.engine.picture import differences as unlike
from hellinger.engine.picture import pictures
from hellinger.engine.pools import SEGMENT_BYTES
from hellinger.engine.positions import setting_draft
from hellinger.engine.state import HOUR
from hellinger.events import Event, Logged
from hellinger.experiment.names import full_name
from hellinger.ledger import SHOWN, Ledger, spoken_of
from hellinger.ledger.looks import Setting
from hellinger.ledger.recovery import differences, fold
from hellinger.ledger.snapshot import decode, encode
from hellinger.models import regression
from hellinger.policies import Prior
from hellinger.policies.effects import Column, Effects, Named
from hellinger.policies.segments import SegmentLaw
from hellinger.pool import Leaving
from ledger_model import CONTEXTS, KINDS, MORE, NAMES, START, TAGS, Log, Model
from segment_model import agrees

__all__ = ["VARIANTS", "Copy", "Life", "check_ranking", "in_slices", "limit", "same_as_rebuilt", "small_crowds"]

VARIANTS = {"one": "hellinger-ucb", "two": "ucb1"}
WINDOW = 60_000
POLICIES = ["hellinger-ucb", "kl-ucb", "ucb1", "cold-start", "cold-start", "thompson", "imed"]
MODELLED = ["cold-start(model=logistic)", "hellinger-ucb(c=0.3, model=logistic(per_item=true))"]
STARTED = [*POLICIES, *MODELLED, *MODELLED, "uniform", "fixed"]
SOME = [*NAMES, "nobody"]
SEGMENTS = [None, "tablet", "phone"]
EFFECTS = Effects(
    0.1,
    (
        Column(Named("number", "length", ""), 1.0, 0.1, 2.2, 0.5),
        Column(Named("category", "words", "u"), -0.7, 0.1),
        Column(Named("category", "words", "v"), 1.9, 0.1),
    ),
)


def limit(changed: pytest.MonkeyPatch, **limits: int) -> None:
    """Let pools look up so much at once, whichever module has the limit."""
    for name, value in limits.items():
        for module in (pools, derived):
            if hasattr(module, name):
                changed.setattr(module, name, value)


@contextmanager
def in_slices() -> Iterator[None]:
    """Let a few items be very many, so that priors and what groups tell take effect a little at a time."""
    with pytest.MonkeyPatch.context() as changed:
        limit(changed, WORK=1, AT_ONCE=3, PRIORS=1, SCORED=3, SLICE=2, MET=30)
        changed.setattr(dates, "MOST", 1)
        changed.setattr(dates, "SPARE", 3)
        yield


@contextmanager
def small_crowds() -> Iterator[None]:
    """Let two people be enough for a word to be learned from, as in a short life there are few."""
    with pytest.MonkeyPatch.context() as changed:
        changed.setattr(regression, "PEOPLE", 2)
        yield


class Copy:
    """A desk with what it has still to write: what a service is, without web, threads and database."""

    def __init__(self, log: Log, cache: int = 100_000, variants: dict[str, str] | None = None, **options: Any) -> None:
        self.log = log
        self.cache = cache
        self.variants = variants or VARIANTS
        self.options = {"window": WINDOW} | options
        self.start()

    def start(self, ledger: Ledger | None = None) -> None:
        """Begin anew, from the log alone or from a snapshot of it."""
        ledger = ledger or Ledger(cache=self.cache)
        fold(ledger, self.log.events[ledger.seq :], self.log.thread)
        self.desk = Desk(ledger, self.variants, **self.options)
        self.drafts: list[DraftRow] = []
        self.pins: list[str] = []

    def write(self, drafts: Iterable[DraftRow]) -> None:
        """Leave drafts to be written."""
        drafts = list(drafts)
        self.desk.ledger.requests.pin(self.holds(drafts))
        self.pins += self.holds(drafts)
        self.drafts += drafts

    def flush(self) -> None:
        """Write all drafts, and apply what others have written before."""
        desk, drafts = self.desk, self.drafts
        requests = desk.ledger.requests
        others = self.log.events[desk.ledger.seq :]
        mine = [(event.seq, (event.row, said)) for draft, said in drafts if (event := self.log.append(Event(*draft)))]
        with requests.pinned(spoken_of(others)):
            thread = self.log.thread(desk.ledger.missing(others))
            desk.commit(others, thread, mine)
        requests.release(self.pins)
        self.drafts, self.pins = [], []

    def recall(self, *names: str) -> None:
        self.desk.recall(self.log.thread(self.desk.missing(names)))

    @staticmethod
    def holds(drafts: Iterable[DraftRow]) -> list[str]:
        """Rankings that must stay in memory until these are written."""
        return spoken_of(Logged(0, *event) for event, _ in drafts)

    # What users do, in short

    def add(
        self, *names: str, at: int = START, tags: Iterable[str] = (), expires_at: int | None = None, **more: Any
    ) -> None:
        common = {"tags": list(tags), "expires_at": expires_at, "metadata": None, **more}
        items = [{"id": name, **common} for name in names]
        self.write(self.desk.describe(items, at))
        self.flush()

    def turn(self, name: str, state: str, at: int = START) -> None:
        self.write([self.desk.set_state(name, state, at)])
        self.flush()

    def rank(self, k: int = 3, at: int = START, name: str | None = None, **query: Any) -> Draft:
        draft = self.desk.rank(Query(k, **query), at, name)
        self.write([draft])
        return draft

    def give(self, request: str, item: str, kind: str = "click", value: float = 1.0, at: int = START) -> str:
        """Send one feedback; what becomes of it."""
        self.recall(request)
        out = self.desk.sort([GivenFeedback(request, item, kind, value)], at)
        self.write(out.drafts)
        kinds = {"late": out.late, "duplicate": out.duplicate, "unknown": out.unknown, "rejected": out.rejected}
        return next((kind for kind, found in kinds.items() if found), "accepted")

    def chores(self, at: int) -> None:
        self.write(self.desk.chores(at))
        self.flush()
        self.write(self.desk.learn(at))
        self.flush()

    def bring(self, rows: list[tuple[str, int, float]], variant: str | None = None, segment: str | None = None) -> None:
        told = [{"item": i, "impressions": n, "rewards": s, "from": None, "to": None} for i, n, s in rows]
        fields = {"batch": "b", "variant": variant, "segment": segment, "rows": told}
        self.write([Draft(Event.of(f"import/{len(self.log.events)}", "import", START, fields), fields)])
        self.flush()

    def check(self, at: int = START) -> None:
        """The ledger is the log's fold, and the desk is the one that it alone would give."""
        Model(self.log.events).check(self.desk.ledger)
        same_as_rebuilt(self, at)


def same_as_rebuilt(copy: Copy, at: int) -> None:
    """A desk made of a snapshot, and one made of the log alone, are this one to the bit, with its next rankings."""
    desk = copy.desk
    desk.ledger.models.learn()
    whole = Ledger(cache=copy.cache)
    fold(whole, copy.log.events, copy.log.thread)
    assert not (found := differences(desk.ledger, whole)), found
    for ledger in (whole, decode(encode(desk.ledger))):
        fresh = Desk(ledger, copy.variants, **copy.options | {"seed": desk.seed})
        for each in (desk, fresh):
            while each.state.dates.due(at):
                each.state.expire(at)
        check_segments(fresh)
        check_lives(desk)
        one, other = ({(p.variant, p.segment): p._asdict() for p in pictures(x.pools)} for x in (desk, fresh))
        assert one.keys() == other.keys()
        assert [found for key in one for found in unlike(one[key], other[key])] == []
        for segment in SEGMENTS:
            for tags, context in ((None, CONTEXTS[1]), (["x"], None)):
                query = Query(3, segment=segment, tags=tags, context=context)
                assert next_ranking(desk, query, at) == next_ranking(fresh, query, at)


def check_segments(desk: Desk) -> None:
    """The priors of items in segments are those that plain Python has from the ledger's counts."""
    pools, ledger = desk.pools, desk.ledger
    for variant, segment, pool in pools.each():
        fitted = ledger.priors.get((variant, ""))
        if not segment or pool.prior is None:
            continue
        assert fitted is not None
        law, pooled = SegmentLaw.from_state(fitted[1]["segments"]), Prior.from_state(fitted[1]["prior"])
        for slot in pool.ids:
            (own_n, own_s), (n, s) = (
                [float(column[0]) for column in pools.sums(variant, np.array([slot]), each)] for each in (segment, "")
            )
            item = pools.of(variant).stats(slot).prior
            assert item is not None
            apart = max(max(n, s) - max(own_n, own_s), 0.0), max(s - own_s, 0.0)
            assert agrees(pool.stats(slot).prior, law, segment, pooled, item, *apart)


def check_lives(desk: Desk) -> None:
    """What items have left is what plain Python has from their dates and what was last said of the traffic."""
    pools, catalogue, (_, said) = desk.pools, desk.ledger.catalogue, desk.ledger.pace
    age = None if desk.leaving.age is None else round(desk.leaving.age * HOUR)
    for variant, segment, pool in pools.each():
        rates = said.get("hourly", {})
        rate = sum(rates.values()) if variant in pools.shared else rates.get(variant, 0.0)
        knows = desk.lifetimes and not segment and pools.variants[variant] == "cold-start" and rate > 0
        for slot in pool.ids:
            ends = [int(catalogue["expires_at"][slot])] if catalogue["expires_at"][slot] else []
            ends += [] if age is None else [int(catalogue["added_at"][slot]) + age]
            left = None
            if knows and ends:
                left = 2.0 ** (round(2 * math.log2(max(max(min(ends) - said["at"], 0) * (rate / HOUR), 1.0))) / 2)
            assert pool.stats(slot).left == left


def next_ranking(desk: Desk, query: Query, at: int) -> dict[str, Any]:
    """What the next ranking would say, without making it."""
    fields = desk.rank(query, at, "peek").fields
    del desk.named["peek"]
    desk.state.made -= 1
    return fields


def check_ranking(desk: Desk, query: Query, draft: Draft, at: int) -> None:
    """What was ranked may be shown, and nothing was left out that could have filled a place."""
    fields = draft.fields
    pool, held = desk.pools.as_it_is(fields["variant"]), desk.ledger.catalogue
    eligible = set()
    for name, slot in held.slots.items():
        due = desk.leaving.age is not None and at >= held["added_at"][slot] + desk.leaving.age * HOUR
        due = due or 0 < held["expires_at"][slot] <= at
        # where the clock was set back, what has expired does not come back
        due = due or bool(desk.state.dates.expired(np.array([slot]))[0])
        if held["state"][slot] == SHOWN and not due and (pool.offers(slot) or name in fields["items"]):
            eligible.add(name)
    tags_known = query.tags is None or not desk.pools.passes_over(fields["variant"])
    if query.tags is not None and tags_known:  # else other tags of many items have yet to take effect
        eligible = {name for name in eligible if set(held.tags_of(held.slots[name])) & set(query.tags)}
    if query.among is not None:
        eligible &= set(query.among)
    eligible -= set(query.exclude)
    assert set(fields["items"]) <= eligible
    assert len(fields["items"]) == len(set(fields["items"])) == len(fields["scores"])
    neighbours = [one == other for one, other in pairwise(fields["scores"])]
    drawn = [fields["random"] or (tie and fields["policy"] != "fixed") for tie in neighbours]
    assert fields.get("ties", 0) == sum(1 << j for j, each in enumerate(drawn) if each)
    if desk.leaving.impressions is None and tags_known:
        assert len(fields["items"]) == min(query.k, len(eligible))
        spread = desk.exploring.more > 0  # tests/test_exploring.py has these chances by enumeration
        for p in fields["propensities"] if isinstance(fields["propensities"], list) else ():
            assert p is None or 0.0 < p < 1.0 + 1e-9
            if p is not None and spread:
                continue
            if p is None:  # a tie that tags or a model have left uncounted
                unknown = query.tags is not None or fields["variant"] in desk.ledger.models.of
                assert unknown or desk.pools.passes_over(fields["variant"])
                continue
            uniform = desk.random_share / len(eligible)
            within = (p - uniform) / (1 - desk.random_share) if desk.random_share < 1 else 0.0
            tied = round(1 / within) if within > 1e-9 else math.inf
            assert tied == math.inf or (1 <= tied <= len(eligible) and abs(within * tied - 1) < 1e-9)


class Life:
    """Two replicas on one log. The same seed gives the same life."""

    def __init__(self, seed: int, steps: int = 60) -> None:
        self.seed = seed
        self.steps = steps
        self.rng = rng = random.Random(seed)
        self.log, self.at = Log(), START
        leavings = [None, None, Leaving(impressions=3), Leaving(age=0.5), Leaving(impressions=4, age=0.2)]
        leaving = rng.choice([*leavings, Leaving(impressions=20)])
        options: dict[str, Any] = {
            "learning": rng.choice(["isolated", "shared"]),
            "counted": rng.random() < 0.6,
            "random_share": rng.choice([0.0, 0.0, 0.4]),
            "exploring": rng.choice([Exploring(), Exploring(), Exploring(0.2, 0.0, 2), Exploring(0.3, 0.5, 3)]),
            "leaving": leaving,
            "enough": rng.choice([None, 0, 4]),
            "segment_bytes": rng.choice([SEGMENT_BYTES, SEGMENT_BYTES, 1500]),
            "sticky": rng.random() < 0.5,
            "positions": rng.choice(["learned", "learned", "none", (1.0, 0.7, 0.3)]),
            "lifetimes": rng.random() < 0.8,
        }
        forget_after = rng.choice([None, 0, 0, 2 * WINDOW])
        variants = {name: rng.choice(POLICIES) for name in ("one", "two")}
        cache = rng.choice([0, 1, 3, 1000])
        self.copies = [Copy(self.log, cache, variants, seed=j, forget_after=forget_after, **options) for j in range(2)]
        self.rankings: list[str] = []
        self.shadowed: list[tuple[Query, Draft]] = []
        """Rankings that shadows may rank, once the log has them."""
        self.trace: list[str] = [f"{variants} {options} cache={cache} {forget_after=}"]

    def live(self) -> None:
        """Live, and compare from time to time; an error says how it came to it."""
        actions = {
            self.describe: 4,
            self.turn: 3,
            self.rank: 8,
            self.rank_named: 2,
            self.feedback: 8,
            self.bring: 1,
            self.ramp: 1,
            self.shadow: 4,
            self.look: 1,
            self.pace: 2,
            self.say: 1,
            self.believe: 2,
            self.flush: 4,
            self.chores: 2,
            self.slices: 3,
            self.wait: 3,
            self.restart: 1,
            self.compare: 1,
        }
        try:
            self.copies[0].add(*NAMES[:2])
            for _ in range(self.steps):
                (action,) = self.rng.choices(list(actions), list(actions.values()))
                self.trace.append(action.__name__)
                action(self.rng.choice(self.copies))
                for copy in self.copies:
                    assert set(copy.desk.ledger.requests._pins) == set(copy.pins)
            self.trace.append("compare at the end")
            self.compare(self.copies[0])
        except Exception as error:
            error.add_note(f"in the life of seed {self.seed}, {self.steps} steps:\n" + "\n".join(self.trace))
            raise

    def _note(self, **what: Any) -> None:
        self.trace[-1] += f" {what}"

    def describe(self, copy: Copy) -> None:
        rng = self.rng
        names, tags = rng.choices(NAMES, k=rng.randint(1, 3)), rng.choice(TAGS)
        expires = rng.choice([None, None, 30_000, 5_000_000, 2000, -1])
        date = None if expires is None else self.at + expires
        more = rng.choice(MORE)
        self._note(names=names, tags=tags, expires=expires, more=more)
        items = [{"id": name, "tags": tags, "expires_at": date, "metadata": None, **more} for name in names]
        copy.write(copy.desk.describe(items, self.at))

    def turn(self, copy: Copy) -> None:
        name, state = self.rng.choice(NAMES), self.rng.choice(["hidden", "shown", "deleted"])
        self._note(name=name, state=state)
        copy.write([copy.desk.set_state(name, state, self.at)])

    def rank(self, copy: Copy) -> None:
        rng = self.rng
        query = Query(
            rng.randint(1, 5),
            rng.choice([None, "ada"]),
            rng.choice(SEGMENTS),
            rng.choices(SOME, k=rng.choice([0, 0, 2])),
            rng.choice([None, None, [], ["x"], ["y", "z"]]),
            rng.choice([None, None, rng.choices(SOME, k=3)]),
            rng.choice([None, "front"]),
            rng.choice(CONTEXTS),
        )
        draft = copy.desk.rank(query, self.at)
        copy.write([draft])
        self._note(name=draft.event.key, query=query._asdict(), items=draft.fields["items"])
        self.rankings.append(draft.event.key)
        self.shadowed.append((query, draft))
        check_ranking(copy.desk, query, draft, self.at)

    def rank_named(self, copy: Copy) -> None:
        """Both replicas may make a ranking of one name; the log takes one."""
        name = f"named{self.rng.randint(0, 5)}"
        for each in self.copies if self.rng.random() < 0.5 else [copy]:
            if name not in self.log.keys and name not in each.desk.named:
                self._note(name=name)
                self.shadowed.append((Query(2), each.rank(2, at=self.at, name=name)))
                self.rankings.append(name)

    def feedback(self, copy: Copy) -> None:
        rng = self.rng
        if not self.rankings:
            return
        name = rng.choice(self.rankings[-6:])
        copy.recall(name)
        request = copy.desk.ledger.requests.get(name)
        if request is None or not request.items or name not in self.log.keys:  # not answered yet
            return
        item, kind = rng.choice(request.items), rng.choice(KINDS)
        self._note(name=name, item=item, kind=kind)
        if rng.random() < 0.4:
            copy.write(copy.desk.sort_seen([(name, item)], self.at).drafts)
        else:
            value = rng.choice([0.0, 0.3, 1.0, 1.0])
            copy.write(copy.desk.sort([GivenFeedback(name, item, kind, value)], self.at).drafts)

    def bring(self, copy: Copy) -> None:
        rng = self.rng
        name, n = rng.choice(NAMES), rng.choice([0, 1, 3, 60, 200])
        variant, segment = rng.choice([None, "one", "two"]), rng.choice(SEGMENTS)
        self._note(name=name, n=n, variant=variant, segment=segment)
        copy.bring([(name, n, n / 4)], variant, segment)

    def ramp(self, copy: Copy) -> None:
        """Begin another phase of an experiment, with other weights and variants, or end it, or begin a new one.

        Of several after one phase the log takes the first.
        """
        rng = self.rng
        experiment = rng.choice(["main", "main", "side", "front"])
        before = copy.desk.ledger.experiments.get(experiment)
        names = [full_name(experiment, name) for name in rng.sample(["one", "two", "three"], rng.randint(1, 3))]
        specs = {name: copy.desk.variants.get(name) or rng.choice(STARTED) for name in names}
        if rng.random() < 0.2:
            specs[names[0]] = rng.choice(POLICIES)
        allocation = Allocation(
            specs,
            {name: rng.choice([0.5, 1.0, 9.0]) for name in names},
            rng.choice(["random", "sticky"]),
            placement="front" if experiment == "front" else "",
            share=1.0 if experiment == "main" else rng.choice([0.3, 0.5]),
            learning=rng.choice(["isolated", "shared"]),
            guardrail=rng.choice(["", "like"]),
            window=rng.choice([WINDOW, WINDOW, None]),
            ended=experiment != "main" and before is not None and rng.random() < 0.3,
            shadows={
                full_name(experiment, name): rng.choice(STARTED) for name in rng.choice([[], ["dark"], ["dark", "dim"]])
            },
        ).check()
        seen = {name for phase in copy.desk.ledger.phases for name in phase["variants"]} | set(self.copies[0].variants)
        if before is not None and before.get("shadows") and rng.random() < 0.5:  # one is promoted
            name = next(iter(before["shadows"]))
            weights = {**allocation.weights, name: 1.0}
            allocation = allocation._replace(shadows=before["shadows"]).changed(weights=weights)
            names = list(allocation.variants)
        common = [name for name in names if name not in seen and rng.random() < 0.5]
        self._note(experiment=experiment, allocation=allocation, common=common)
        place = copy.desk.ledger.phase_place
        copy.write([allocation.draft(self.at, after=place, by="life", name=experiment, common=common)])

    def shadow(self, copy: Copy) -> None:
        """Let shadows rank what a replica has ranked, sooner or later, and perhaps on both replicas."""
        if not self.shadowed:
            return
        query, draft = self.rng.choice(self.shadowed[-5:])
        logged = next((event for event in self.log.events if event.key == draft.event.key), None)
        if logged is None or logged.body != draft.event.body:  # the log has another of this name, or none yet
            return
        copy.recall(draft.event.key)
        told = copy.desk.shadow(query, draft, self.at)
        self._note(name=draft.event.key, told=told is not None and told.fields)
        if told is not None:
            copy.write([told])

    def look(self, copy: Copy) -> None:
        """Put a curve in force that such a short life could not know; of several after one the log takes the first."""
        rng = self.rng
        place, before = copy.desk.ledger.curve
        looked = [1.0, *(rng.choice([0.75, 0.5, 0.3, 1.0]) for _ in range(rng.randint(0, 4)))]
        self._note(looked=looked)
        fields = {"after": place, "rewards": before.get("rewards", 0.0), "looked": looked, "error": [0.1] * len(looked)}
        fields |= {"worth": looked if rng.random() < 0.8 else [], "writer": "life"}
        copy.write([Draft.of(f"positions/{place}", "positions", self.at, fields)])

    def pace(self, copy: Copy) -> None:
        """Say how many rankings are made, as no such short life could know it; the log takes the first after one."""
        rng = self.rng
        after = copy.desk.ledger.pace[0]
        names = rng.sample(list(copy.desk.variants), rng.randint(0, len(copy.desk.variants)))
        hourly = {name: rng.choice([0.0, 40.0, 3000.0, 1e6]) for name in names}
        self._note(hourly=hourly)
        fields = {"after": after, "hourly": hourly, "until": self.at + rng.choice([0, 60_000, 10**9])}
        copy.write([Draft.of(f"pace/{after}", "pace", self.at, fields | {"writer": "life"})])

    def say(self, copy: Copy) -> None:
        """Let models count impressions by another setting; a replica that is not told counts as it did."""
        settings: list[Setting] = ["learned", "learned", "none", (1.0, 0.5)]
        setting = self.rng.choice(settings)
        self._note(setting=setting)
        copy.write([setting_draft(setting, copy.desk.ledger.curve, self.at)])

    def believe(self, copy: Copy) -> None:
        """Put a prior in force by which groups and features tell much, that such a short life could not know."""
        rng = self.rng
        variant, segment = rng.choice(list(copy.desk.variants)), rng.choice(["", "", "tablet"])
        after = copy.desk.ledger.prior_place(variant, segment)
        prior = Prior(rng.choice([0.5, 2.0]), 20.0, shares=rng.choice([(), (0.5,), (0.3, 0.4)]))
        if rng.random() < 0.5:
            prior = prior._replace(effects=EFFECTS)
        self._note(variant=variant, segment=segment, shares=prior.shares, effects=prior.effects is not None)
        rounds = copy.desk.ledger.rounds(variants=copy.desk.pools.sources(variant), segment=segment)
        fields = {"variant": variant, "segment": segment, "after": after, "rounds": rounds, "prior": prior.state()}
        if not segment and rng.random() < 0.7:
            shifts = tuple((name, rng.choice([0.0, 0.5, -1.0])) for name in SEGMENTS if name and rng.random() < 0.8)
            law = SegmentLaw(rng.choice([0.05, 0.2]), 20.0, rng.choice([0.25, 2.0]), shifts)
            self._note(law=law)
            fields["segments"] = law.state()
        draft = Draft.of(f"prior/{variant}/{segment}/{after}", "prior", self.at, fields | {"writer": "life"})
        copy.write([draft])

    def flush(self, copy: Copy) -> None:
        copy.flush()

    def chores(self, copy: Copy) -> None:
        copy.write(copy.desk.chores(self.at))
        copy.write(copy.desk.learn(self.at))

    def slices(self, copy: Copy) -> None:
        """Some of what the background does between rankings."""
        for _ in islice(copy.desk.catch_up(), self.rng.randrange(6)):
            pass

    def wait(self, _: Copy) -> None:
        step = self.rng.choice([1, 1000, 45_000, 1_000_000, -2000])
        self._note(step=step)
        self.at += step

    def restart(self, copy: Copy) -> None:
        copy.flush()
        from_snapshot = self.rng.random() < 0.5
        copy.start(decode(encode(copy.desk.ledger), cache=copy.cache) if from_snapshot else None)

    def compare(self, _: Copy) -> None:
        """When everything is written and everything due has been done, all agree."""
        for copy in 3 * self.copies:
            copy.chores(self.at)
        for copy in self.copies:
            copy.flush()
        model = Model(self.log.events)
        for copy in self.copies:
            assert not copy.desk.state.overlay
            assert not copy.desk.named
            model.check(copy.desk.ledger)
            same_as_rebuilt(copy, self.at)
        one, other = (copy.desk.ledger for copy in self.copies)
        assert differences(one, other) == []
