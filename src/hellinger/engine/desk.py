"""Where rankings are made and feedback is classified: what the service decides, without web, clock or database."""

from __future__ import annotations

import hashlib
import math
import random
import secrets
from array import array
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import version
from itertools import chain, islice
from typing import Any

import numpy as np
import orjson

from hellinger.engine import learning as learned
from hellinger.engine import positions as places
from hellinger.engine.dates import Dates
from hellinger.engine.drafts import WRITER, Draft, DraftRow, FeedbackRow, Query, Sorted, item_draft, state_draft
from hellinger.engine.draws import Draws
from hellinger.engine.feedback import classify, classify_seen
from hellinger.engine.overlay import Overlay
from hellinger.engine.pools import Pools
from hellinger.engine.routing import Routing
from hellinger.engine.specs import ORDERS, canonical, draws
from hellinger.engine.state import HOUR, State
from hellinger.events import Logged, new_request, new_token, tie_chances
from hellinger.experiment import Split
from hellinger.ledger import MAIN, Floats, Ledger, Request, UnknownKindError, placed
from hellinger.ledger.ledger import Placed
from hellinger.ledger.looks import ties_of
from hellinger.ledger.modelled import Modelled, has_model, split_model, warm
from hellinger.pool import Leaving, Ranked

__all__ = ["Desk"]

FORGET = 1_000
"""Items that are forgotten at once, while rankings wait: some milliseconds."""


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
    forget_after
        Milliseconds after which an item that expired or was deleted leaves memory; None for never.
    positions
        What an impression is worth at each position: ``"learned"`` from the log, once known well enough; ``"none"``
        for one each; or figures. Confirmed impressions are worth one each: they were looked at.
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
        forget_after: int | None = None,
        positions: places.Setting = "learned",
        seed: int | None = None,
        enough: float | None = None,
        leaving: Leaving | None = None,
    ) -> None:
        self.counted = counted
        self.window = window
        self.weights = weights or {}
        self.max_kinds = max_kinds
        self.random_share = random_share
        self.forget_after = forget_after
        self._forgetting = -1
        """The catalogue's version when items were last to be forgotten: one event at a time is on its way."""
        self.seed = secrets.randbits(64) if seed is None else seed
        self.leaving = (leaving or Leaving()).check()
        self.positions = positions
        self._rules = counted, random_share, window, self.weights, enough, leaving, positions
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
            ledger, dict(self.variants), shared=self._shared, enough=enough, leaving=leaving, positions=positions
        )
        self.segments = set(ledger.segments)
        """Segments that have been asked for."""
        self.named: dict[str, dict[str, Any]] = {}
        """Rankings made under a name, not known to be in the log: their fields, by name."""

    def _play(self, ledger: Ledger) -> None:
        """Share traffic as the experiments of the log say."""
        phases: Mapping[str, Mapping[str, Any]] = {MAIN: self._first} | ledger.experiments
        self.routing = Routing(phases, self._salt)
        running = [phase for phase in phases.values() if not phase.get("ended")]
        self.variants = {name: _known(spec, phase) for phase in running for name, spec in phase["variants"].items()}
        """Of all running experiments, with their policies."""
        learning = {name: self._learning(phase) for phase in running for name in phase["variants"]}
        self._shared = {name for name, how in learning.items() if how == "shared"}
        """Variants that learn from all rankings."""
        self.versions = {name: _version(spec, learning[name], *self._rules) for name, spec in self.variants.items()}
        self._stochastic = {name for name, spec in self.variants.items() if draws(spec) and spec not in ORDERS}

    def _learning(self, phase: Mapping[str, Any]) -> str:
        learning: str = phase.get("learning", self._first["learning"])  # an older version did not write it
        return learning

    def _follow(self) -> None:
        """Share traffic as the experiments of the log say by now."""
        self._play(self.ledger)
        if self.pools.variants != self.variants or self.pools.shared != self._shared:
            self.pools.set_variants(dict(self.variants), self._shared)

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
        ledger = Ledger()
        fields = {"id": "a", "tags": ["t"], "expires_at": None}
        ledger.apply(placed([Logged(1, *Draft.of("item/1", "item", 0, fields).event)]))
        dates = Dates(ledger.catalogue)
        pools = Pools(ledger, Overlay(), dates.expired, self.variants, shared=self.pools.shared, enough=0)
        for variant in self.variants:
            pool = pools.of(variant)
            pool.pick(1)
            pool.pick(1, exclude=[1], tags=["t"])
            pool.set_counts([0], [1], [1])
            pool.scores([0])
            pool.remove([0])
            if len(real := self.pools.of(variant)):
                real.rank(1)
            if has_model(spec := self.variants[variant]):
                warm(*split_model(spec))

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
        segment = query.segment or ""
        drawn = self.random_share > 0 and draws.random() < self.random_share
        propensities: float | list[float | None] | None = None
        asked = _asked(query)
        tied, eligible = 0, None if asked else state.pools.of(variant).eligible
        chosen: list[Any] = []
        scores: Sequence[float | None] = []
        if len(state.pools.of(variant)) == 0:
            propensities = [] if self.random_share > 0 else None
        elif self.random_share > 0:
            ranked, propensities, eligible = self._explore(variant, query, drawn, draws)
            chosen, scores = [one.id for one in ranked], [one.score for one in ranked]
        else:
            filters = self._filters(variant, query)
            asked_of: dict[str, Any] = {"seed": draws.word(), "context": query.context, **filters}
            chosen, scores, tied = state.pools.pick(variant, segment, query.k, count=count, **asked_of)
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
            "since": ledger.catalogue["since"][chosen].tolist() if chosen else [],  # after what many have in common
            "user": query.user,
            "placement": query.placement,
            "unit": unit,
            "through": ledger.seq,
            "items": items,
            "scores": scores,
            "propensities": propensities,
            "k": query.k,
            "tie": tied,
            "eligible": eligible,
        }
        fields |= asked
        if ties := ties_of(fields):
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
                zoned=True,
                ties=ties,
            )
            state.open(rid, request, served=count and self.random_share == 0)
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

    def _filters(self, variant: str, query: Query) -> dict[str, Any]:
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
    ) -> tuple[list[Ranked], list[float | None] | None, int]:
        """A ranking, the chance of each of its places, and the number eligible: a share of rankings is drawn."""
        pool = self.pools.deciding(variant, query.segment or "")
        filters = self._filters(variant, query)
        word, model = draws.word(), self.pools.model(variant)
        if model is None:
            best, tied = pool.rank(query.k, seed=word, **filters), pool.tied
        else:
            given: dict[str, Any] = {"seed": word, "context": query.context, **filters}
            chosen, scores, tied = self.pools.pick(variant, query.segment or "", query.k, count=False, **given)
            best = [Ranked(slot, score, 0, 0) for slot, score in zip(chosen, scores, strict=True)]
        some, eligible = pool.draw(query.k, random.Random(draws.word()), **filters)
        if model is not None:
            known = self._scores(model, [one.id for one in some], query.context).tolist()
            some = [one._replace(score=score) for one, score in zip(some, known, strict=True)]
        ranked = some if drawn else best
        if variant in self._stochastic:
            return ranked, None, eligible
        if not ranked:
            return [], [], eligible
        uniform, greedy = self.random_share / eligible, 1.0 - self.random_share
        # a place of the best is filled by any item of its tie, each with the same chance
        within = tie_chances([other.score for other in best], tied)
        chances = zip(ranked, best, within, strict=True)
        return ranked, [_mixed(uniform, greedy, one.score == other.score, p) for one, other, p in chances], eligible

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
            fields |= {"impressions": gone.impressions, "rewards": gone.rewards}
            drafts.append(Draft.of(f"leave/{variant}/{since}", "leave", at, fields))
        return [*drafts, *(self._forget(at) if expired else ())]

    def _forget(self, at: int) -> list[Draft]:
        """A draft that forgets items which left long enough ago, the first of them first."""
        catalogue = self.ledger.catalogue
        if self.forget_after is None or self._forgetting == catalogue.version:
            return []
        first = np.fromiter(islice(catalogue.left.values(), FORGET), np.int64)
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
        """Drafts of priors that are due to be fitted anew, and of how much positions are looked at."""
        drafts = [learned.fit(wanted, at) for wanted in learned.due(self.state)]
        if places.due(self.ledger):
            drafts.append(places.draft(self.ledger.looks.rewards, self.ledger.curve, at))
        return drafts

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
        """Counts and index of an item under each variant."""
        return self.about_each([self.ledger.catalogue.slots[item]])[0]

    def about_each(self, slots: Sequence[int]) -> list[dict[str, dict[str, Any]]]:
        """The same for many items, by slot."""
        out: list[dict[str, dict[str, Any]]] = [{} for _ in slots]
        for variant in self.variants:
            pool = self.pools.of(variant)
            n, s = (sums.tolist() for sums in self.ledger.sums(slots, variants=[variant]))
            left = self.ledger.gone.get(variant, {})
            present = [slot for slot in slots if slot in pool]
            model = self.pools.model(variant)
            found = pool.scores(present) if model is None else self._scores(model, present)
            scores = dict(zip(present, found.tolist(), strict=True))
            for j, slot in enumerate(slots):
                score, gone = scores.get(slot), left.get(slot)
                out[j][variant] = {"impressions": n[j], "rewards": s[j], "score": score, "left": gone}
        return out

    def _scores(self, model: Modelled, slots: Sequence[Any], context: dict[str, Any] | None = None) -> Floats:
        """Index of these items by a model, in a context; infinite for one that it does not know."""
        since = self.ledger.catalogue["since"][list(slots)]
        out, here = np.full(since.size, math.inf), model.pool.contains(since)
        out[here] = model.pool.scores(since[here], context=context)
        return out


def _asked(query: Query) -> dict[str, Any]:
    """The filters of a query, as they are logged: another policy would have had them too."""
    asked: dict[str, Any] = {}
    if query.exclude:
        asked["exclude"] = list(query.exclude)
    if query.tags is not None:
        asked["tags"] = list(query.tags)
    if query.among is not None:
        asked["among"] = list(query.among)
    return asked


def _mixed(uniform: float, greedy: float, tied: bool, chance: float | None) -> float | None:
    """The chance of a place, of which a share is drawn from all; None where the size of its tie is not known."""
    if not tied:
        return uniform
    return None if chance is None else uniform + greedy * chance


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
