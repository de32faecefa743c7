"""Where rankings are made and feedback is classified: what the service decides, without web, clock or database."""

from __future__ import annotations

import hashlib
import math
import random
import secrets
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.metadata import version
from itertools import chain, islice
from typing import Any

import numpy as np
import orjson

from hellinger.engine import learning as learned
from hellinger.engine import lifetimes as lives
from hellinger.engine import positions as places
from hellinger.engine.derived import AT_ONCE
from hellinger.engine.drafts import WRITER, Draft, DraftRow, FeedbackRow, Query, Sorted, item_draft, state_draft
from hellinger.engine.draws import Draws
from hellinger.engine.exploring import PLAIN, Exploring, Listed
from hellinger.engine.feedback import classify, classify_seen
from hellinger.engine.pools import SEGMENT_BYTES, Pools
from hellinger.engine.routing import Routing
from hellinger.engine.shadowing import Owed, would_show
from hellinger.engine.specs import ORDERS, canonical, draws
from hellinger.engine.state import HOUR, State
from hellinger.engine.warming import warm_policies
from hellinger.events import Logged, new_request, new_token
from hellinger.experiment import Split
from hellinger.ledger import MAIN, Floats, Ledger, Request, UnknownKindError, placed
from hellinger.ledger.ledger import Placed
from hellinger.ledger.looks import Setting, ties_of
from hellinger.ledger.modelled import Modelled
from hellinger.pool import Leaving
from hellinger.pool.rows import plain

__all__ = ["Desk"]

FORGET = 1_000
"""Items that are forgotten at once, while rankings wait: some milliseconds; fewer where each has very many counts."""
LOGGED = 1_000
"""Ids of ``exclude`` and of ``among`` that the event of a ranking has at most; ``asked`` says how many there were."""


class Desk:
    """Variants that share the traffic, each with its pool, over one state.

    Every method is given the time. :meth:`rank` counts at once what it shows; whatever is to last is handed out as
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
        ``"isolated"``: a variant learns from its own rankings; ``"shared"``: from those of all.
    counted
        Whether impressions count when served, or when they are confirmed.
    window
        Milliseconds in which feedback is learned.
    weights
        Points for each kind of feedback; 1 for the others.
    max_kinds
        Kinds of feedback that one ranking may have.
    random_share
        Share of rankings drawn uniformly at random, for evaluation offline.
    exploring
        Cheaper exploration of the other rankings; not of a policy that draws by itself, nor of an order without counts.
    forget_after
        Milliseconds after which an item that expired or was deleted leaves memory; None for never.
    positions
        What an impression is worth at each position: ``"learned"`` from the log, once known well enough; ``"none"``
        for one each; or figures. Confirmed impressions are worth one each: they were looked at.
    lifetimes
        Whether policies that can use it know how long items have left until they expire, by the traffic there was.
    seed
        With the state it fixes the choice of variants, the rankings drawn, and the order of ties.
    """

    def __init__(
        self,
        ledger: Ledger,
        variants: dict[str, str],
        *,
        split: Split | None = None,
        sticky: bool = False,
        learning: str = "isolated",
        counted: bool = True,
        window: int = 24 * HOUR,
        weights: dict[str, float] | None = None,
        max_kinds: int = 16,
        random_share: float = 0.0,
        exploring: Exploring = PLAIN,
        forget_after: int | None = None,
        positions: Setting = "learned",
        lifetimes: bool = False,
        seed: int | None = None,
        enough: float | None = None,
        segment_bytes: int = SEGMENT_BYTES,
        leaving: Leaving | None = None,
    ) -> None:
        self.counted = counted
        self.window = window
        self.weights = weights or {}
        self.max_kinds = max_kinds
        self.random_share = random_share
        self.exploring = exploring
        self.forget_after = forget_after
        self._forgetting = -1
        """The catalogue's version when items were last to be forgotten: one event at a time is on its way."""
        self.seed = secrets.randbits(64) if seed is None else seed
        self.leaving = (leaving or Leaving()).check()
        self.positions = positions
        self.lifetimes = lifetimes
        self._said = False
        """Whether the log has had that setting."""
        self._rules = counted, random_share, exploring, window, self.weights, enough, leaving, positions, lifetimes
        split = split or Split(dict.fromkeys(variants, 1.0))
        self._salt = split.salt
        self._first = {
            "name": MAIN,
            "seq": 0,
            "variants": dict(variants),
            "weights": split.weights,
            "split": "sticky" if sticky else "random",
            "learning": learning,
        }
        """What is played where the log has no phase."""
        self._play(ledger)
        self.state = State(
            ledger,
            self.variants | self._hidden,
            shared=self._shared,
            hidden=set(self._hidden),
            enough=enough,
            segment_bytes=segment_bytes,
            leaving=leaving,
            positions=positions,
            lifetimes=lifetimes,
        )
        self.segments = set(ledger.segments)
        """Segments that have been asked for."""
        self._owed: dict[tuple[str, str], Owed] = {}
        """Looks that shadows are owed, by name and policy."""
        self.named: dict[str, dict[str, Any]] = {}
        """Rankings made under a name, not known to be in the log: their fields, by name."""

    def _play(self, ledger: Ledger) -> None:
        """Share traffic as the experiments of the log say."""
        phases: Mapping[str, Mapping[str, Any]] = {MAIN: self._first} | ledger.experiments
        self.routing = Routing(phases, self._salt)
        running = [phase for phase in phases.values() if not phase.get("ended")]
        self.variants, self.shadows, self._shared = self._running(running)
        """Of all running experiments, with their policies; of each that has any, candidates that rank unseen; and who
        learns from all rankings, shadows among them."""
        learning = {name: self._learning(phase) for phase in running for name in phase["variants"]}
        self.versions = {name: _version(spec, learning[name], *self._rules) for name, spec in self.variants.items()}
        self._stochastic = {name for name, spec in self.variants.items() if draws(spec) and spec not in ORDERS}
        explores = {name for name, spec in self.variants.items() if not draws(spec) and spec not in ORDERS}
        self._exploring = {name: self.exploring if name in explores else PLAIN for name in self.variants}

    @property
    def _hidden(self) -> dict[str, str]:
        """All shadows with their policies."""
        return _joined(self.shadows)

    def _learning(self, phase: Mapping[str, Any]) -> str:
        learning: str = phase.get("learning", self._first["learning"])  # an older version did not write it
        return learning

    def _running(
        self, phases: Sequence[Mapping[str, Any]]
    ) -> tuple[dict[str, str], dict[str, dict[str, str]], set[str]]:
        """The variants of these phases with their policies, shadows by experiment, and who learns from all rankings."""
        variants = {name: _known(spec, phase) for phase in phases for name, spec in phase["variants"].items()}
        shared = {name for phase in phases for name in phase["variants"] if self._learning(phase) == "shared"}
        shadows = {
            phase["name"]: {name: _known(spec, phase) for name, spec in its.items()}
            for phase in phases
            if (its := phase.get("shadows"))
        }
        return variants, shadows, shared | set(_joined(shadows))

    def _follow(self) -> None:
        """Share traffic as the experiments of the log say by now.

        Where new variants need pools of very many items, these are made first (:meth:`catch_up`), and until then
        traffic is shared as before, as by a replica that has not got the event yet.
        """
        self.state.coming = None
        if len(self.ledger.catalogue) > AT_ONCE:
            phases = ({MAIN: self._first} | self.ledger.experiments).values()
            variants, shadows, shared = self._running([phase for phase in phases if not phase.get("ended")])
            hidden = _joined(shadows)
            if self.pools.fresh(variants | hidden, shared):
                self.state.prepare(variants | hidden, shared, set(hidden))
                return
        self._switch()

    def _switch(self) -> None:
        made, self.state.coming = self.state.coming, None
        self._play(self.ledger)
        wanted = self.variants | self._hidden, frozenset(self._shared), frozenset(self._hidden)
        if (self.pools.variants, self.pools.shared, self.pools.hidden) != wanted:
            self.pools.set_variants(*wanted, made)
            self._owed = {key: owed for key, owed in self._owed.items() if key in self._hidden.items()}

    def catch_up(self) -> Iterator[None]:
        """Let every pool look up what has changed, a slice at a time, and make those of variants to come."""
        yield from self.pools.catch_up()
        while (coming := self.state.coming) is not None:
            try:
                for _ in coming.catch_up():
                    yield
                    if self.state.coming is not coming:
                        break
            except Exception:
                self.pools.failure = coming.failure
                raise
            if self.state.coming is coming and not coming.behind:
                self._switch()

    def finish(self) -> None:
        """Look up what rankings do not wait for, all at once: for whoever drives a desk without a service beside it."""
        if self.pools.stale or self.state.coming is not None:
            for _ in self.catch_up():
                pass

    @property
    def split(self) -> Split:
        """How the main experiment's traffic is shared."""
        return self.routing.main.split

    @property
    def ledger(self) -> Ledger:
        """What the log says."""
        return self.state.ledger

    @property
    def pools(self) -> Pools:
        """Each variant's pool."""
        return self.state.pools

    def warm(self) -> None:
        """Have the kernels compiled that the first requests would wait for."""
        warm_policies({*self.variants.values(), *self._hidden.values()})
        for variant in self.variants:
            if len(real := self.pools.of(variant)):
                real.rank(1)

    # Ranking ------------------------------------------------------------------------------------------

    def rank(self, query: Query, at: int, name: str | None = None) -> Draft:
        """Rank for one request, and count what it shows; the draft is to be logged, and has what to answer.

        A ranking made under a name counts once the log has it, and not before: it may have another by that name.
        """
        state, ledger = self.state, self.state.ledger
        count = self.counted and name is None
        state.expire(at)
        draws = Draws(self.seed, ledger.seq, state.made)
        state.made += 1
        experiment, phase, variant, chance, sticky = self.routing.choose(query, draws)
        segment, pool = query.segment or "", state.pools.of(variant)
        drawn = self.random_share > 0 and draws.random() < self.random_share
        propensities: float | list[float | None] | None = None
        asked = bool(query.exclude) or query.tags is not None or query.among is not None
        tied, eligible = 0, None if asked or state.pools.passes_over(variant) else pool.eligible
        chosen: list[Any] = []
        scores: Sequence[float | None] = []
        explores, given = self.random_share > 0 or self._exploring[variant].more > 0, -1
        if len(pool) == 0:
            propensities = [] if explores else None
        elif explores:
            chosen, scores, propensities, found, given = self._explore(variant, query, drawn, draws)
            eligible = eligible if found is None else found
        else:
            filters = self.filters(variant, query) if asked else {}
            chosen, scores, tied = state.pools.pick(
                variant, segment, query.k, count=count, context=query.context, seed=draws.word(), **filters
            )
            propensities = None if variant in self._stochastic else 1.0
        if math.inf in scores:  # which JSON has no word for
            scores = [None if score == math.inf else score for score in scores]
        rid, items = name or new_request(at), list(map(ledger.catalogue.ids.__getitem__, chosen))
        unit = self.routing.unit(rid if query.user is None else query.user) if sticky else -1
        fields = {
            "experiment": experiment,
            "variant": variant,
            "policy": self.variants[variant],
            "version": self.versions[variant],
            "chance": chance,
            "segment": query.segment,
            "random": drawn,
            "counted": self.counted,
            "phase": phase,
            "zoned": True,
            # after what many have in common
            "since": ledger.catalogue["since"].take(chosen).tolist() if chosen else [],
            "user": query.user,
            "placement": query.placement,
            "unit": unit,
            "through": ledger.seq,
            "items": items,
            "scores": scores,
        }
        _for_evaluation(fields, query, propensities, tied, eligible, given)
        if ties := ties_of(fields, falling=not explores):
            fields["ties"] = ties
        if query.context:
            fields["context"] = query.context
        if name is not None:
            self.named[rid] = fields
        else:
            slots = array("i", chosen)
            version = ledger.catalogue.version
            request = Request(
                variant,
                segment,
                at,
                ledger.seq,
                tuple(items),
                slots,
                version,
                counted=self.counted,
                phase=phase,
                unit=unit,
                context=orjson.dumps(query.context).decode() if query.context else None,
                user=query.user,
                zoned=True,
                ties=ties,
            )
            state.open(rid, request, served=count and not explores)
        return Draft.of(rid, "rank", at, fields)

    def open(self, drafts: Iterable[DraftRow]) -> None:
        """Count the rankings among these drafts that were made under a name: the log has them, and will be applied."""
        for (key, kind, at, _), fields in drafts:
            if kind == "rank" and key in self.named:
                self.adopt(key, Request.of(at, fields))

    def adopt(self, name: str, request: Request, named: dict[str, Any] | None = None) -> None:
        """Take over a ranking that another desk made and the log does not have yet; ``named``: its fields."""
        if name in self.ledger.requests:
            return
        if named is not None:
            self.named[name] = named
        else:
            self.ledger.slots_of(request)
            self.state.open(name, request, served=False)

    def explores(self, variant: str) -> Exploring:
        """How a variant explores."""
        return self._exploring[variant]

    def filters(self, variant: str, query: Query) -> dict[str, Any]:
        """What a query asks of the items, as a pool takes it."""
        filters: dict[str, Any] = {}
        slot_of = self.ledger.catalogue.slots.get
        if query.exclude:
            filters["exclude"] = [slot_of(item, -1) for item in query.exclude]  # −1 is nobody's
        if query.tags is not None:
            filters["tags"] = query.tags
        if query.among is not None:
            pool = self.pools.of(variant)
            filters["among"] = [slot for item in query.among if (slot := slot_of(item, -1)) in pool]
        return filters

    def _explore(
        self, variant: str, query: Query, drawn: bool, draws: Draws
    ) -> tuple[list[Any], list[float], list[float | None] | None, int | None, int]:
        """A ranking and the chance of each of its places; the number eligible, and the place of one that follows."""
        pool, how = self.pools.deciding(variant, query.segment or ""), self._exploring[variant]
        asked = {"seed": draws.word(), "context": query.context, **self.filters(variant, query)}
        chosen, scores, tied = self.pools.pick(variant, query.segment or "", query.k + how.more, count=False, **asked)
        listed = Listed(scores, tied, query.k, how)
        order, given = listed.order(draws)
        ranked, values, eligible = [chosen[j] for j in order], [scores[j] for j in order], None
        if self.random_share > 0:
            rng = random.Random(draws.word())
            some, eligible = self.pools.draw(variant, pool, query.k, rng, **self.filters(variant, query))
            if drawn:
                ranked, values, given = [one.id for one in some], [one.score for one in some], -1
                if (model := self.pools.model(variant)) is not None:
                    values = self.scores(model, ranked, query.context).tolist()
        if variant in self._stochastic:
            return ranked, values, None, eligible, given
        chances = listed.chances(values)
        if ORDERS.get(self.variants[variant]) == "oldest":  # equal indices do not mean chance
            chances = [float(one == other) for one, other in zip(ranked, chosen, strict=True)]
        if eligible:
            uniform, greedy = self.random_share / eligible, 1.0 - self.random_share
            chances = [None if chance is None else uniform + greedy * chance for chance in chances]
        return ranked, values, chances, eligible, given

    def shadow(self, query: Query, made: Draft, at: int) -> Draft | None:
        """What the shadows of its experiment would have shown instead of a ranking of this desk; None without any.

        The log has the ranking. Shadows are asked as if it had not been made.
        """
        shadows = self.shadows.get(made.fields["experiment"])
        request = self.state.find(made.event.key)
        if not shadows or request is None or not request.items or request.phase != made.fields["phase"]:
            return None
        self.state.expire(at)
        told = {}
        for name, spec in shadows.items():
            owed, filters = self._owed.setdefault((name, spec), Owed()), self.filters(name, query)
            told[name] = would_show(self.state, (name, spec), query, made, request, filters, owed=owed, at=at)
        return Draft.of(f"{made.event.key}/shadow!", "shadow", at, {"shadows": told, "writer": WRITER})

    # Feedback -----------------------------------------------------------------------------------------

    def missing(self, names: Iterable[str]) -> list[str]:
        """Rankings among these that have to be recalled from the log before they are classified."""
        return [name for name in dict.fromkeys(names) if self.state.request(name) is None]

    def recall(self, thread: Iterable[Logged]) -> None:
        """Take in what the log says of rankings that were missing."""
        self.ledger.recall(thread)

    def sort(self, given: Sequence[FeedbackRow], at: int) -> Sorted:
        """Classify feedback by what is to become of it."""
        return classify(given, self.state.find, at, window=self.window, weights=self.weights, max_kinds=self.max_kinds)

    def sort_seen(self, given: Sequence[tuple[str, str]], at: int) -> Sorted:
        """The same for confirmations that an item of a ranking was seen."""
        return classify_seen(given, self.state.find, at, window=self.window)

    # Catalogue ----------------------------------------------------------------------------------------

    def describe(self, items: Iterable[dict[str, Any]], at: int) -> list[Draft]:
        """Drafts that add or change items, given by the fields of their events; none for one that says nothing new."""
        drafts: dict[str, Draft] = {}
        for item in items:
            drafts[item["id"]] = item_draft(item, at)  # the last one counts
        return [draft for name, draft in drafts.items() if not self.ledger.catalogue.says(name, draft.event.body)]

    def set_state(self, item: str, state: str, at: int) -> Draft:
        """A draft that brings an item to a state."""
        return state_draft(item, state, at)

    def chores(self, at: int, *, expired: bool = True) -> list[Draft]:
        """Drafts of what time itself does: items that expire, that have left a pool, and that are to be forgotten.

        Not of everything at once where it is much: ask again while there are any. Without ``expired`` items expire in
        memory alone: another replica logs that, and what is to be forgotten. Of an item that leaves a pool the log
        takes one event, whoever writes it.
        """
        self.state.expire(at)
        catalogue = self.ledger.catalogue
        drafts = [
            state_draft(catalogue.ids[slot], "expired", at, expires_at=int(catalogue["expires_at"][slot]))
            for slot in (self.state.dates.to_log() if expired else ())
        ]
        for variant, slot, gone in self.pools.departures():
            since = int(catalogue["since"][slot])
            fields = {"variant": variant, "id": catalogue.ids[slot], "since": since, "reason": gone.reason}
            # as they were counted, not what they are worth by the curve of this moment
            sources = self.pools.sources(variant)
            n, s = self.ledger.sums([slot], variants=sources)
            shown = float(n[0]) + self.state.overlay.shown(slot, sources)
            fields |= {"impressions": plain(shown), "rewards": plain(float(s[0]))}
            drafts.append(Draft.of(f"leave/{variant}/{since}", "leave", at, fields))
        return [*drafts, *(self._forget(at) if expired else ())]

    def _forget(self, at: int) -> list[Draft]:
        """A draft that forgets items which left long enough ago, the first of them first."""
        catalogue = self.ledger.catalogue
        if self.forget_after is None or self._forgetting == catalogue.version:
            return []
        counts = len(self.ledger.counts)
        first = np.fromiter(
            islice(catalogue.left.values(), max(FORGET // 10, FORGET * 50 // max(50, counts))), np.int64
        )
        if catalogue["group"][first].any():  # what they had stays with their groups, which takes longer
            first = first[: max(FORGET // 20, FORGET * 8 // max(8, counts))]
        first = first[catalogue["left_at"][first] <= at - self.forget_after]  # a clock that was wrong holds up none
        if not first.size:
            return []
        since = catalogue["since"][first].tolist()
        self._forgetting = catalogue.version
        return [Draft.of(f"forget/{new_token()}", "forget", at, {"since": since, "writer": WRITER})]

    def sweep(self) -> None:
        """Retire items that cannot win."""
        if self.leaving.share is not None:
            self.pools.sweep()

    def learn(self, at: int) -> list[Draft]:
        """Drafts of priors that are due to be fitted anew, of how much positions are looked at, and of the traffic."""
        drafts = [*self.note_pace(at), *(learned.fit(wanted, at) for wanted in learned.due(self.state))]
        said = self.say_positions(at)
        if places.due(self.ledger) and not said:  # both would follow the same curve
            drafts.append(places.draft(self.ledger.looks.rewards, self.ledger.curve, at))
        return [*drafts, *said]

    def say_positions(self, at: int) -> list[Draft]:
        """A draft that lets the log have the setting ``positions``, by which models count impressions.

        Until the log has had it once: of replicas whose settings differ, the last to start has its way.
        """
        self._note_said()
        return [] if self._said else [places.setting_draft(self.positions, self.ledger.curve, at)]

    def _note_said(self) -> None:
        given = self.positions if isinstance(self.positions, str) else list(self.positions)
        self._said = self._said or self.ledger.curve[1].get("setting", "learned") == given

    def note_pace(self, at: int) -> list[Draft]:
        """A draft that says how many rankings are made, where that is due: so long items have left."""
        state = self.state
        if not self.lifetimes or not lives.due(state.ledger, state.dates, at):
            return []
        return [lives.draft(state.ledger, state.dates, at)]

    # The log ------------------------------------------------------------------------------------------

    def commit(self, events: Sequence[Logged], thread: Iterable[Logged] = (), own: Iterable[Placed] = ()) -> None:
        """Apply what the log has got, in its order: events of others, then drafts of this replica with their places.

        ``thread`` recalls rankings that the others' events refer to.
        """
        self.recall(thread)
        if self.named:
            own = list(own)
            self.forget((event.row, None) for event in events)
            self.forget(draft for _, draft in own)
        changes = self.state.commit(chain(placed(events), own) if events else own)
        if changes.curve:
            self._note_said()
        if changes.phase:
            self._follow()

    def commit_own(self, events: Iterable[Placed]) -> None:
        """:meth:`commit` with drafts of this replica alone."""
        self.commit((), (), events)

    def forget(self, drafts: Iterable[DraftRow]) -> None:
        """Forget the fields of rankings made under a name: the log has them, or others in their place."""
        for (key, kind, _, _), _ in drafts:
            if kind == "rank":
                self.named.pop(key, None)

    def about(self, item: str) -> dict[str, dict[str, Any]]:
        """Counts and index of an item under each variant, and how many rankings it is expected to have left."""
        slot = self.ledger.catalogue.slots[item]
        (found,) = self.about_each([slot])
        for variant, standing in found.items():
            pool = self.pools.of(variant)
            standing["rankings_left"] = pool.stats(slot).left if slot in pool else None
        return found

    def about_each(self, slots: Sequence[int]) -> list[dict[str, dict[str, Any]]]:
        """The same for many items, by slot."""
        out: list[dict[str, dict[str, Any]]] = [{} for _ in slots]
        for variant in self.variants:
            pool = self.pools.of(variant)
            n, s = (sums.tolist() for sums in self.ledger.sums(slots, variants=[variant]))
            left = self.ledger.gone.get(variant, {})
            present = [slot for slot in slots if slot in pool]
            model = self.pools.model(variant)
            found = pool.scores(present) if model is None else self.scores(model, present)
            scores = dict(zip(present, found.tolist(), strict=True))
            for j, slot in enumerate(slots):
                score, gone = scores.get(slot), left.get(slot)
                out[j][variant] = {"impressions": n[j], "rewards": s[j], "score": score, "left": gone}
        return out

    def scores(self, model: Modelled, slots: Sequence[Any], context: dict[str, Any] | None = None) -> Floats:
        """Index of these items by a model, in a context; infinite for one that it does not know."""
        since = self.ledger.catalogue["since"][list(slots)]
        out, here = np.full(since.size, math.inf), model.pool.contains(since)
        out[here] = model.pool.scores(since[here], context=context)
        return out


def _for_evaluation(
    fields: dict[str, Any],
    query: Query,
    propensities: float | list[float | None] | None,
    tied: int,
    eligible: int | None,
    given: int,
) -> None:
    """Add what a ranking logs for no other reason than that another policy may be evaluated from it."""
    fields["propensities"] = propensities
    fields["k"] = query.k
    fields["tie"] = tied
    fields["eligible"] = eligible
    if query.exclude:
        fields["exclude"] = list(query.exclude[:LOGGED])
    if query.tags is not None:
        fields["tags"] = list(query.tags)
    if query.among is not None:
        fields["among"] = list(query.among[:LOGGED])
    if query.exclude or query.among:
        most = max(len(query.exclude), len(query.among or ()))
        if most > LOGGED:
            fields["asked"] = most
    if given >= 0:
        fields["explored"] = given + 1


def _joined(shadows: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """Shadows of all experiments, with their policies."""
    return {name: spec for its in shadows.values() for name, spec in its.items()}


def _known(spec: str, phase: Mapping[str, Any]) -> str:
    """The spec of a phase's variant in full."""
    try:
        return canonical(spec)
    except ValueError:  # a newer version knows this policy
        place, writer = phase["seq"], phase.get("writer")
        raise UnknownKindError(place, "experiment", spec, writer, version("hellinger")) from None


def _version(*parts: object) -> str:
    """A name for the rules that a ranking was made by: the same for the same rules."""
    return hashlib.sha256(repr((version("hellinger"), *parts)).encode()).hexdigest()[:12]
