"""What a pool is made of, and what its methods have in common: counting, ranking, learning, leaving."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from hellinger import families, models, policies
from hellinger._arrays import distinct
from hellinger._jit import entry
from hellinger.errors import InputError, require
from hellinger.policies import Path, Prior, _rule, next_fit
from hellinger.pool import _declared, _merge, _prior, _scan
from hellinger.pool._checks import Checks, Names, check_seed, single
from hellinger.pool._context import Contexts, Contextual
from hellinger.pool._features import Descriptions, Encoded
from hellinger.pool._ids import Id
from hellinger.pool._layout import OLDEST
from hellinger.pool._levels import RewardLevels
from hellinger.pool._lives import life_classes
from hellinger.pool._membership import Membership
from hellinger.pool._store import Floats, ItemStore, Slots
from hellinger.pool._tags import TagSets
from hellinger.pool._within import Within
from hellinger.pool.departures import Departure, Leaving, Reason
from hellinger.pool.rankable import check_rankable
from hellinger.pool.rows import Answer, plain
from hellinger.pool.window import Window

__all__ = ["EVERYTHING", "NOBODY", "Core", "Learning", "Ties"]

Learning = Literal["auto", "given"]
Ties = Literal["random", "oldest"]

EVERYTHING = np.empty(0, np.bool_)
NOWHERE: Slots = np.empty(0, np.int64)
NOBODY: tuple[Any, ...] = ()
_MASK = (1 << 62) - 1


class Core:
    """The state of a pool, and the steps that change it or rank by it; :class:`Pool` is what users call."""

    def __init__(
        self,
        policy: policies.PolicyLike = "cold-start",
        *,
        family: str | families.Family | None = None,
        seed: int = 0,
        ties: Ties = "random",
        horizon: float | None = None,
        window: float | None = None,
        buckets: int = 24,
        half_life: float | None = None,
        leaving: Leaving | None = None,
        learn: Learning = "auto",
        weighted: bool = False,
        model: models.ModelLike | None = None,
    ) -> None:
        self.policy = check_rankable(policies.policy(policy, family=family).ready(horizon))
        require(learn in ("auto", "given"), "learn is 'auto' or 'given'", learn=learn)
        require(ties in ("random", "oldest"), "ties is 'random' or 'oldest'", ties=ties)
        check_seed(seed)
        require(half_life is None or 0 < half_life < math.inf, "0 < half_life", half_life=half_life)
        require(window is None or half_life is None, "a window or a half-life", window=window, half_life=half_life)
        self.ties: Ties = ties
        self.seed = int(seed)
        self.leaving = (leaving or Leaving()).check()
        rule = self.policy.rule
        require(
            self.leaving.share is None or (not rule.random and (rule.learns_prior or not rule.relative)),
            "leaving.share goes with a policy whose index is an upper bound",
            policy=self.policy.spec,
        )
        self.half_life = half_life
        self.time = 0.0
        """Where :meth:`advance` has brought the clock."""
        self._window = None if window is None else Window(window, buckets)
        self._window_owed: dict[int, float] = {}
        self._context = None if model is None else Contextual(models.get(model), self.policy)
        forgets = window is not None or half_life is not None
        require(
            model is None or not forgets,
            "a model goes without window and half-life",
            window=window,
            half_life=half_life,
        )
        self._levels = RewardLevels(self.policy.family) if rule.by_levels else None
        """How often items had which reward, where the policy looks at that."""
        require(
            self._levels is None or (model is None and not forgets and not weighted),
            "a policy that looks at single rewards goes without model, window, half-life and weighted impressions",
            policy=self.policy.spec,
        )
        self._reason = _why_scan(self.policy, half_life) if self._context is None else self._context.reason
        limit = self.policy.family.mean_bounds[1]
        self._store = ItemStore(grouped=not self._reason, limit=limit if limit > 0 else math.inf)
        self._check_at = math.inf if self.policy.own or self._reason else 0.0
        """Rounds from which on a user's rule is checked again to be as monotone as it declares."""
        self.learning: Learning = learn
        self._members = Membership(given=learn == "given")
        self._described: Descriptions | None = None
        """What items are, where some have features and there is no model that knows them."""
        self._since = 0.0
        """Impressions counted since the prior was set."""
        self._due = math.inf
        """At how many of these it is fitted again."""
        self._rounds = 0.0
        self._present = 0.0
        """Impressions of the items now in the pool; like _rounds, to be multiplied by _scale."""
        self._scale = 1.0
        self._version = 0
        self._tags = TagSets()
        self._departures: list[Departure[Any]] = []
        self._stream = self.seed * 0x9E3779B97F4A7C15 & _MASK
        self._checks = Checks(self.policy.family)
        self._checks.weighted = weighted
        self._answer = Answer(1, 0)
        self._tag_filter = False
        """Whether the last ranking was asked for tags."""
        if rule.learns_prior:
            self._set_prior(Prior())
        elif self._context is not None and learn == "auto":
            self._due = next_fit(0.0)
        if not self._reason:
            tail = EVERYTHING, NOWHERE, 0, False, self._answer.slots, self._answer.rows
            self._merge = entry(_merge.merge, rule, self._store.state, self._members.table, 0.0, *tail)

    def __len__(self) -> int:
        return len(self._store)

    @property
    def _slack_bounds(self) -> tuple[float, float]:
        """Bounds of s/n; discounted sums and counts are rounded apart, so they get a little room."""
        if self.half_life is None:
            return self._checks.bounds
        low, high = self._checks.bounds
        return low - 1e-9 * abs(low), high + 1e-9 * abs(high)

    def _best(
        self,
        k: int,
        exclude: Names,
        tags: Iterable[str] | None,
        among: Names | None,
        seed: int | None,
        context: models.Features | None = None,
    ) -> tuple[int, bool]:
        """Write places and rows; how many there are, and whether all counts are whole numbers."""
        if type(k) is not int or k != self._answer.k:
            self._answer = Answer(k, len(self))
        if seed is not None:
            if type(seed) is not int:
                check_seed(seed)
            seed = int(seed) & _MASK
        allowed = EVERYTHING if tags is None else self._tags.having(tags)
        excluded = NOWHERE if exclude is NOBODY else self._known(exclude)
        self._tag_filter = tags is not None and among is None
        tie = OLDEST if self.ties == "oldest" else self._stream + self._version if seed is None else seed
        if among is None and self._merges:
            best = self._merged(allowed, excluded, tie)
        else:
            flags = self._store.state.items["excluded"]
            flags[excluded] = 1
            try:
                best = self._scanned(allowed, among, seed, tie, context)
            finally:
                flags[excluded] = 0
        self._answer.found = best[0]
        return best

    @property
    def _merges(self) -> bool:
        """Whether the best are found by cells: items of one have the same index."""
        return self._store.grouped and not self._members.apart(len(self)).size

    def _last_tie(self) -> int:
        """Among how many eligible items the last places of the last ranking were drawn; 0 where it is not known."""
        found = self._answer.found
        if not found or self.ties == "oldest":
            return min(found, 1)
        if self._tag_filter and self._merges and self._answer.tied > self._answer.places_of_last(found):
            return 0  # to count those with the tags would take as long as the tie is large
        return self._answer.tied

    def _merged(self, allowed: npt.NDArray[np.bool_], excluded: Slots, tie: int) -> tuple[int, bool]:
        if self._rounds >= self._check_at:
            self._check_declared()
        store, answer = self._store, self._answer
        rule, prior, named = self.policy.rule, self._members.table, store.ids.names is not None
        best: tuple[int, bool] = self._merge(
            rule, store.state, prior, self._t, allowed, excluded, tie, named, answer.slots, answer.rows
        )
        return best

    def _scanned(
        self,
        allowed: npt.NDArray[np.bool_],
        among: Names | None,
        seed: int | None,
        tie: int,
        context: models.Features | None,
    ) -> tuple[int, bool]:
        store = self._store
        st, named = store.state, store.ids.names is not None
        out, rows = self._answer.slots, self._answer.rows
        best: tuple[int, bool]
        if among is None and self._context is not None and self._context.prunes:
            best = self._context.best(st, context, self._t, allowed, tie, named, out, rows)
        else:
            slots = self._chosen(among)
            values = self._values(slots, seed, context)
            best = _scan.select(st, self._scale, slots, values, allowed, tie, named, out, rows)
        return best

    def _check_declared(self) -> None:
        """Check a user's rule on the counts there are; again when there are twice as many rounds."""
        items = self._store.items
        _declared.check_monotone(
            self.policy, items["s"].astype(np.float64), self._store.pulls, self._t, float(len(self))
        )
        self._check_at = 2.0 * self._rounds + 1.0

    def _values(self, slots: Slots, seed: int | None = None, context: models.Features | None = None) -> Floats:
        """Index of each of these items; where it is drawn, by this seed or the pool's own."""
        rule, store = self.policy.rule, self._store
        t = self._t
        if self._context is not None and rule.separable:
            return self._context.values(context, t, slots)
        if rule.separable:
            out = np.empty(slots.size)
            members = self._members
            _scan.score_each(rule, store.state, members.table, members.apart(len(self)), self._scale, t, slots, out)
            if not self.policy.own:
                counts = store.state.items[slots]
                self.policy.check_numbers(counts["s"] * self._scale, counts["n"] * self._scale, t, out)
            return out
        if self._levels is not None:
            return self._values_of_levels(self._levels)[slots]
        items = store.items
        everything = np.empty(len(store))
        rng = None
        if rule.random:
            rng = np.random.default_rng([self.seed & _MASK, self._version] if seed is None else seed)
        order = np.argsort(items["seq"])  # a draw belongs to an item, wherever it is kept
        sums, pulls = items["s"][order] * self._scale, store.pulls[order] * self._scale
        if self._context is not None:
            sums, pulls = self._context.counts(context, order)
        drawn = np.empty(len(store))
        _rule.fill(rule, sums, pulls, t, rng, drawn)
        everything[order] = drawn
        return everything[slots]

    def _values_of_levels(self, levels: RewardLevels) -> Floats:
        """Index of every item, by how often it had which reward."""
        everything = np.arange(len(self))
        rule, out = levels.rule(self.policy.rule, everything), np.empty(len(self))
        items = self._store.items
        _rule.fill(rule, items["s"].astype(np.float64), items["n"].astype(np.float64), self._t, None, out)
        return out

    def _new_levels(self, slots: Slots, n: Floats, s: Floats) -> Floats | None:
        """What events add to the levels of rewards, checked; None where nobody looks at these."""
        if self._levels is None:
            return None
        self._refuse_fractions()
        rows = self._levels.of(slots, n, s)
        self._levels.check(slots, rows)
        return rows

    def _refuse_fractions(self) -> None:
        """Raise where a part of an impression was given to a policy that looks at single rewards."""
        if self._levels is not None and self._checks.weighted:
            self._checks.weighted = False
            raise InputError(
                "`impressions` must be whole where a policy looks at single rewards, but got a part of one"
            )

    def _scorer(self) -> Callable[[Any, Slots], Floats]:
        """Computes the indices of a copy of the items, oldest first, as they are now; those that are drawn are NaN."""
        rule, scale, t = self.policy.rule, self._scale, self._t
        if self._context is not None or self._levels is not None:
            known = np.full(len(self), np.nan) if rule.random else self._values(np.arange(len(self)))
            return lambda _items, order: known[order]
        prior, lives = self._members.table.copy(), self._members.apart(len(self)).copy()
        state, limit = self._store.state, self._store.limit
        state = state._replace(meta=state.meta.copy())

        def score(items: Any, order: Slots) -> Floats:
            out = np.full(order.size, np.nan)
            if rule.separable:
                _scan.score_each(rule, state._replace(items=items), prior, lives, scale, t, order, out)
            elif not rule.random:
                s, n = items["s"][order], items["n"][order]
                _rule.fill(rule, s * scale, np.maximum(n, s / limit) * scale, t, None, out)
            return out

        return score

    def _known(self, names: Names) -> Slots:
        """Places of those of these ids that are in the pool."""
        listed: Any = [names] if isinstance(names, (int, str)) else names
        return self._store.ids.known(self._store.state.items, listed)

    def _count(self, slots: Slots, n: Floats, s: Floats, contexts: Contexts = None) -> None:
        total = self._tally(slots, n, s, contexts)
        if self._context is not None:
            self._context.observe(slots, n, s, contexts)
        self._add_rounds(total)
        self._after(slots, n, s)

    def _counting(
        self, slots: Slots, n: Floats, s: Floats, contexts: Contexts, who: int | None = None
    ) -> Iterator[None]:
        """:meth:`_count` by a model, event by event."""
        total = self._tally(slots, n, s, contexts)
        yield from self._modelled.observing(slots, n, s, contexts, who)
        self._add_rounds(total)
        self._after(slots, n, s)

    def _reweigh(self, ids: Names, n: Floats) -> None:
        """Let the impressions of items count as so many; those that the model has of an item are in proportion."""
        slots = self._places(ids)
        items = self._store.state.items
        before, s = (items[name][slots] * self._scale for name in ("n", "s"))
        self._modelled.regression.reweigh(slots, np.divide(n, before, out=np.ones(n.size), where=before > 0))
        _, more = self._store.set(slots, n / self._scale, s / self._scale, self._checks.bounds)
        self._add_rounds(more, fresh=False)
        self._after(slots, n, s)

    def _tally(self, slots: Slots, n: Floats, s: Floats, contexts: Contexts) -> float:
        """Count these, but for what follows from it; all or none."""
        if self._context is not None:
            self._context.check(contexts, slots.size)
        rows = self._new_levels(slots, n, s)
        if self._scale == 1.0:
            bad, total = self._store.count(slots, n, s, self._slack_bounds)
        else:
            bad, total = self._store.count(slots, n / self._scale, s / self._scale, self._slack_bounds)
        if bad >= 0:
            same = slots == slots[bad]
            item = self._store.state.items[slots[bad]]
            total_s, total_n = (
                float(item["s"]) * self._scale + s[same].sum(),
                float(item["n"]) * self._scale + n[same].sum(),
            )
            self._checks.refuse(float(total_s), float(total_n))
        if self._levels is not None and rows is not None:
            self._levels.add(slots, rows)
        return float(total)

    def _learn(self) -> None:
        """Fit the prior again where that is due: after an event, so that a ranking itself changes nothing."""
        if self._since < self._due:
            return
        if self._context is not None:
            self._context.regression.learn_prior(self.policy.family)
            self._since, self._due = 0.0, next_fit(self._present) - self._present
        if self.policy.rule.learns_prior:
            self._set_prior(self._fitted())

    def _fitted(self) -> Prior:
        """The prior that the present counts give; with a model, which knows items by their features, of all alike."""
        members = Membership() if self._context is not None else self._members
        return _prior.fit(self._store, members, self._scale, self._described)

    def _set_prior(self, prior: Prior, *, slowly: bool = False) -> None:
        if self._context is not None:  # a model knows items by their features; groups tell it nothing
            prior = prior._replace(shares=(), effects=None, trust=0.0)
        if self._context is not None and (self.learning == "given" or not prior.plays):
            items = self._store.items
            self._context.set_prior(prior, items["n"], items["s"], slowly=slowly)
        before, described, steps_of = self._members.prior, self._described, None
        others = prior.effects is not None or (before is not None and before.effects is not None)
        if described is not None and (others or self._members.unsettled):
            steps_of = partial(described.steps, prior.effects)
        self._members.set_prior(prior, self._store, self._scale, steps_of, slowly=slowly)
        self._since = 0.0
        self._due = next_fit(prior.plays) - prior.plays if self.learning == "auto" else math.inf

    @property
    def _remembers(self) -> bool:
        """Whether groups go on knowing what items that leave had: not where their owner says what they are to know."""
        return self.learning == "auto" and self._window is None

    def _require_learning(self) -> None:
        require(self.policy.rule.learns_prior, "the policy learns a prior", policy=self.policy.spec)

    def _check_lives(self, left: Any, count: int) -> Any:
        """What is left of the lives of so many items, by classes; an error where the policy has no use for it."""
        alone = self._context is None and not isinstance(self._members, Within)
        require(
            left is None or (self.policy.rule.knows_lives and alone),
            "left goes with a policy that knows lives, in a pool without model and of all segments",
            policy=self.policy.spec,
        )
        return life_classes(left, count)

    def _add_rounds(self, n: float, fresh: bool = True) -> None:
        if fresh:
            self._rounds += n
        self._present += n
        self._since += n * self._scale

    def _drop(self, slots: Slots, *, remember: bool = True) -> None:
        """Take items out; what they had achieved stays known to their groups, if so asked."""
        store = self._store
        items = store.state.items
        self._present -= float(items["n"][slots].sum())
        kinds = items["tags"][slots]
        if self._described is not None and remember and self._window is None:
            self._described.leave(slots, items["n"][slots], items["s"][slots], self._members.marks(slots))
        nodes = self._members.leave(store, slots, remember=remember and self._remembers)
        falling, count = store.remove(slots), len(store) + slots.size
        self._members.compact(falling, count)
        if self._described is not None:
            self._described.compact(falling, count)
        if self._context is not None:
            self._context.regression.remove(falling)
        if self._levels is not None:
            self._levels.compact(falling, count)
        self._members.settle(store, nodes)
        self._drop_tags(kinds)
        self._version += 1

    def _move(self, slots: Slots, paths: list[Path]) -> None:
        """Make items members of these groups instead of their own."""
        store, members = self._store, self._members
        left = members.leave(store, slots, remember=False)
        items = store.state.items
        items["stratum"][slots] = members.alone(slots)
        store.settle(slots)
        nodes = members.numbers(paths, items["tags"][slots], self._tag_sets)
        members.join(store, slots, nodes, self._scale, members.standing(slots)[1])
        members.settle(store, left)

    def _describe(self, slots: Slots, encoded: list[Encoded]) -> Any:
        """Note the columns of items, and return their factors in steps; None where no item ever had features."""
        if self._described is None:
            return None
        prior = self._members.prior
        self._described.set(slots, encoded, len(self))
        return self._described.steps(None if prior is None else prior.effects, slots)

    def _refactor(self, slots: Slots, steps: Any) -> None:
        """Let items have other factors."""
        store, members = self._store, self._members
        nodes, _ = members.standing(slots)
        left = members.leave(store, slots, remember=False)
        members.join(store, slots, nodes, self._scale, steps)
        members.settle(store, left)

    def _drop_tags(self, kinds: Any) -> None:
        """Note that items no longer have these tag sets."""
        self._tags.drop(kinds)

    @property
    def _tag_sets(self) -> list[frozenset[str]]:
        """The tag sets by number."""
        return self._tags.sets

    @property
    def _t(self) -> float:
        """The round about to be played, as the rule wants it."""
        prior = self._members.prior
        if prior is None:
            return self._rounds * self._scale + 1.0
        return (self._present * self._scale + self._members.informed) * prior.focus + 1.0

    def _after(self, slots: Slots, n: Floats, s: Floats) -> None:
        """What follows from new counts."""
        store = self._store
        self._members.revise(store, slots)
        self._version += 1
        if self._window is not None:
            items = store.state.items[slots]
            self._window.note(items["key"], items["seq"].astype(np.int64), n, s)
        if store.grouped and store.crowded:
            self._reason = f"{store.groups} distinct reward sums are too many to keep apart"
            store.ungroup()
        if self.leaving.impressions is not None:
            shown = store.state.items["n"][slots] * self._scale >= self.leaving.impressions
            self._dismiss(distinct(slots[shown]), "graduated")
        self._learn()

    def _chosen(self, among: Any) -> Slots:
        """Places of these ids, or of all; a mask says of whole numbers, from 0 on, which are meant."""
        if among is None:
            return np.arange(len(self))
        if isinstance(among, np.ndarray) and among.dtype == np.bool_ and self._store.ids.names is None:
            if np.count_nonzero(among) < len(self) // 8:
                return np.sort(self._known(np.flatnonzero(among)))
            keys = self._store.items["key"]
            known = np.flatnonzero((keys >= 0) & (keys < among.size))
            meant: Slots = known[among[keys[known]]]
            return meant
        return distinct(self._places(among))

    def _places(self, ids: Id | Names) -> Slots:
        names: Any = [single(ids)] if isinstance(ids, (int, np.integer, str)) else ids
        return self._store.ids.places(self._store.state.items, names)

    def _distinct(self, ids: Id | Names, *, skip_absent: bool = False) -> Slots:
        """Places of these ids, each of which must be given once; with ``skip_absent`` −1 for those not here."""
        if skip_absent:
            slots = self._store.ids.positions(self._store.state.items, ids)  # type: ignore[arg-type]
        else:
            slots = self._places(ids)
        if isinstance(ids, np.ndarray) and ids.dtype.kind in "iu" and (ids[1:] > ids[:-1]).all():
            return slots
        places = np.sort(slots)  # np.unique takes several times as long for some hundreds
        double = np.flatnonzero((places[1:] == places[:-1]) & (places[1:] >= 0))
        if double.size:
            name = self._store.ids.name(self._store.state.items, int(places[double[0]]))
            raise InputError(f"`id` must be given once, but got {name!r} twice")
        return slots

    @property
    def _modelled(self) -> Contextual:
        """The model's part, or an error where there is none."""
        if self._context is None:
            raise InputError('a pool must have a model for this: Pool(…, model="logistic")')
        return self._context

    def _encoded(
        self, features: models.Features | Sequence[models.Features | None] | None, count: int
    ) -> list[Encoded]:
        """The columns of so many items, for a prior."""
        require(
            features is None or self.policy.rule.learns_prior,
            "features go with a pool that has a model, or whose policy learns a prior",
            policy=self.policy.spec,
        )
        if features is not None and self._described is None:
            self._described = Descriptions(len(self))
        return [] if self._described is None else self._described.encode(features, count)

    def _for_model(self, features: models.Features | Sequence[models.Features | None] | None, count: int) -> Any:
        """The features of so many new items, checked; None where none are given."""
        if features is None:
            return None
        listed = [features] * count if isinstance(features, Mapping) else list(features)
        require(len(listed) == count, "features are one dict for all or one for each", ids=count, features=len(listed))
        for each in listed:
            models.check_features(each)
        return listed

    def _refuse_context(self, **given: object) -> None:
        """Raise where features or a context are given to a pool that has no model to use them."""
        for name, value in given.items():
            require(
                value is None or self._context is not None, f"{name} goes with a pool that has a model", **{name: value}
            )

    def _set_hidden(self, ids: Id | Names, hidden: int) -> None:
        self._store.hide(self._places(ids), hidden)
        self._version += 1

    def _served(self, found: int, worth: npt.ArrayLike | None = None, context: models.Features | None = None) -> None:
        """Count an impression of each of the best so many, or what it is worth in each place."""
        if found:
            answer = self._answer
            ones = answer.ones[:found] if worth is None else self._checks.places(worth, found)
            self._count(answer.slots[:found], ones, answer.zeros[:found], context)
        self._version += 1

    def _dismiss(self, slots: Slots, reason: Reason) -> None:
        if not slots.size:
            return
        items = self._store.state.items
        for name, slot in zip(self._store.ids.of(items, slots), slots.tolist(), strict=True):
            n, s = float(items[slot]["n"]) * self._scale, float(items[slot]["s"]) * self._scale
            age = self.time - float(items[slot]["born"])
            self._departures.append(Departure(name, reason, plain(n), plain(s), age))
        self._drop(slots)


def _why_scan(policy: policies.Policy, half_life: float | None) -> str:
    """Why items cannot be grouped by reward sum under this policy; empty where they can."""
    rule = policy.rule
    if rule.learns_prior:
        return "" if half_life is None else "discounted reward sums are seldom equal"
    if rule.by_levels:
        return f"{policy.spec} looks at how often each item had which reward"
    if rule.random:
        return f"{policy.spec} draws an index for every item"
    if rule.relative:
        return f"{policy.spec} weighs each item against all others"
    if not rule.monotone:
        return f"{policy.spec} is not known to fall with impressions and rise with rewards"
    if policy.family.mean_bounds[0] < 0:
        return f"rewards of {policy.family} may be negative"
    if half_life is not None:
        return "discounted reward sums are seldom equal"
    return ""
