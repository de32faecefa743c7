"""A live pool of items: rank, serve, record, at a cost that does not depend on its size."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Generic, overload

import numpy as np
import numpy.typing as npt

from hellinger import families
from hellinger._arrays import distinct
from hellinger.errors import require
from hellinger.models import Effect, Encoder, Features, Model, ModelLike
from hellinger.policies import PolicyLike, Prior
from hellinger.policies.segments import SegmentLaw
from hellinger.pool import _scan
from hellinger.pool._checks import Names, arrivals, single, sized
from hellinger.pool._context import Contexts
from hellinger.pool._core import EVERYTHING, NOBODY, Core
from hellinger.pool._ids import IdT
from hellinger.pool._layout import LIVE_CELLS
from hellinger.pool._membership import GroupLike, paths_of
from hellinger.pool._store import Floats, Slots
from hellinger.pool._within import Within
from hellinger.pool.departures import Departure
from hellinger.pool.group_effects import GroupEffect, group_effects, group_levels
from hellinger.pool.rows import Answer, Ranked, Stats, Table, plain
from hellinger.pool.window import forget

__all__ = ["Pool"]


class Pool(Core, Generic[IdT]):
    """Items with their impressions and rewards, ranked exactly by a policy's index.

    A pool belongs to one thread at a time: guard it by a lock where several use it. ``Pool[str]`` tells type checkers
    what its ids are.

    Parameters
    ----------
    policy
        A policy, or its spec; the recommended one if not given.
    family
        What rewards are, where the policy is given by its spec; Bernoulli if not given.
    seed
        Fixes every random choice.
    ties
        Items of equal index come in ``"random"`` order, uniformly, or ``"oldest"`` first.
    horizon
        Number of impressions to be given, for policies that need it.
    window, buckets
        Count only what happened in the last ``window`` units of :meth:`advance`, forgotten in that many steps.
    half_life
        Instead of a window, let every count lose half its weight in that time.
    leaving
        When an item leaves by itself; see :class:`Leaving`.
    learn
        Where the policy learns a prior: ``"auto"`` fits it again by itself when :func:`~hellinger.policies.next_fit`
        says so, after the event that reaches it; ``"given"`` leaves it to the owner, who sets :attr:`prior`.
    weighted
        Whether impressions may be worth less than one, see :meth:`record`; the first that is sets it by itself.
    model
        A model of rewards by features of items and of who is asking, or its spec: ``"logistic"``; see
        :mod:`hellinger.models`. The index then uses the model's mean and pulls of an item: :meth:`predict` has those,
        :meth:`stats` the plain counts.

    Examples
    --------
    >>> pool = Pool("hellinger-ucb", seed=0)
    >>> pool.add(["a", "b", "c"])
    >>> pool.record("a", impressions=100, rewards=9)
    >>> pool.record("b", impressions=100, rewards=3)
    >>> [item.id for item in pool.rank(3)]
    ['c', 'a', 'b']
    >>> pool.serve(1), pool.stats("c").impressions
    ([Ranked(id='c', score=1.0, impressions=0, rewards=0)], 1)
    """

    def __repr__(self) -> str:
        model = "" if self.model is None else f"model={self.model.spec!r}, "
        return f"Pool({self.policy.spec!r}, {model}{len(self):,} items, {self.rounds:,.0f} impressions)"

    @property
    def model(self) -> Model | None:
        """The model of rewards; None where counts alone decide."""
        return None if self._context is None else self._context.regression.model

    # Items --------------------------------------------------------------------------------------------

    def add(
        self,
        ids: IdT | Names[IdT],
        impressions: npt.ArrayLike = 0,
        rewards: npt.ArrayLike = 0,
        *,
        tags: Iterable[str] | Sequence[Iterable[str]] = (),
        group: GroupLike | Sequence[GroupLike] = None,
        features: Features | Sequence[Features | None] | None = None,
        left: npt.ArrayLike | None = None,
        fresh: bool = True,
        order: npt.ArrayLike | None = None,
    ) -> None:
        """Add one item or several, never shown or with what they have achieved so far; all or none.

        Parameters
        ----------
        ids, impressions, rewards
            The items and their counts: one number for all, or one for each.
        tags
            One set for all, as ``["sport", "video"]``, or one set for each, as ``[["sport"], ["video"]]``.
        group
            What the items belong to: a name, or a tuple of names from broad to narrow, as ``("sport", "story-17")``;
            one for all, or a list with one for each. Where the policy learns a prior, items of a group learn from
            each other, as far as groups are found to tell something. Without a group, those with the same tags do.
            With a model they tell nothing: give it the group's name as a feature.
        features
            What the items are: one dict for all, or one for each, of numbers, words, texts and lists of words. With a
            model, that is what it knows of an item; a model does not look at tags and groups. Without, where the policy
            learns a prior, click rates are regressed on them, and each item's prior has the mean that its features
            predict, as far as they are found to tell something.
        left
            How many times more the items can be shown at most, where that is known: see :meth:`set_left`.
        fresh
            False for items that come back: their impressions are among :attr:`rounds` already.
        order
            Arrival numbers, whole and below 2³², all different from those present; next in turn if not given. Equal
            items with equal arrival numbers are ranked alike in two pools, however each came by them. A pool with a
            window takes only numbers beyond all that it has had.
        """
        listed = sized([single(ids)] if isinstance(ids, (int, np.integer, str)) else ids)
        count, weighted = len(listed), self._checks.weighted
        n, s = self._checks.totals(impressions, rewards, count)
        numbers = None if order is None else arrivals(order, count)
        if numbers is not None and self._window is not None:
            least = self._store.next_seq
            rule = f"{least} <= order, in a pool with a window"
            require(bool((numbers >= least).all()), rule, order=int(numbers.min(initial=least)))
        described: Any = (self._encoded if self._context is None else self._for_model)(features, count)
        paths = paths_of(group, count)
        lives = self._check_lives(left, count)
        kinds = self._tags.take(tags, count)
        nodes = self._members.numbers(paths, kinds, self._tag_sets)
        unit = 1.0 / self._scale
        counts = {"n": n * unit, "s": s * unit}
        self._refuse_fractions()
        try:
            slots = self._store.add(listed, count, **counts, tags=kinds, born=self.time, order=numbers)
        except ValueError:
            self._members.drop(nodes)
            self._drop_tags(kinds)
            self._checks.weighted = weighted
            raise
        if self._context is not None:
            self._context.regression.add(count, described, n, s)
            described = []
        if self._levels is not None:
            self._levels.set(slots, n, s)
        self._members.join(self._store, slots, nodes, self._scale, self._describe(slots, described))
        self._members.set_lives(self._store, slots, lives)
        self._add_rounds(float(n.sum()) * unit, fresh)
        self._after(slots, n, s)

    def remove(self, ids: IdT | Names[IdT], *, forget: bool = False) -> None:
        """Take items out; all or none.

        Their groups go on knowing what they achieved, unless ``forget`` is true, the pool has a window, or its owner
        sets what is learned: then :meth:`set_departed` says what they are to know. Forget items that are to come back
        with their counts, or their groups know of these twice.
        """
        self._drop(distinct(self._places(ids)), remember=not forget)

    def retag(self, ids: IdT | Names[IdT], tags: Iterable[str] | Sequence[Iterable[str]]) -> None:
        """Give items other tags, one set for all or one for each as for :meth:`add`; all or none."""
        slots = self._distinct(ids)
        before = self._store.state.items["tags"][slots]
        kinds = self._tags.take(tags, slots.size)
        self._store.state.items["tags"][slots] = kinds
        self._drop_tags(before)
        by_tags = slots[self._members.ungrouped(slots)]
        if by_tags.size:
            self._move(by_tags, [()])
        self._version += 1

    def regroup(self, ids: IdT | Names[IdT], group: GroupLike | Sequence[GroupLike]) -> None:
        """Give items other groups, one for all or one for each as for :meth:`add`; all or none."""
        slots = self._distinct(ids)
        self._move(slots, paths_of(group, slots.size))
        self._version += 1

    def describe(self, ids: IdT | Names[IdT], features: Features | Sequence[Features | None] | None) -> None:
        """Give items other features, one dict for all or one for each as for :meth:`add`; all or none."""
        require(self._context is None, "describe goes with a pool without a model: add the item anew", model=self.model)
        slots = self._distinct(ids)
        steps = self._describe(slots, self._encoded(features, slots.size))
        if steps is not None:
            self._refactor(slots, steps)
        self._version += 1

    def set_left(self, ids: IdT | Names[IdT], left: npt.ArrayLike | None) -> None:
        """Set how many times more items can be shown at most: one number for all, or one for each; all or none.

        An item that leaves soon is not worth exploring: what is learned of it is of no use for long. That is the
        time it has left times the pages that are shown in that time, as far as the past tells. It does not change by
        itself: set it again as time passes. It is rounded to half an octave. None, or not a number, where nobody knows
        when an item leaves.

        Where groups or features tell something of items, every item is looked at for a ranking.
        """
        slots = self._distinct(ids)
        self._members.set_lives(self._store, slots, self._check_lives(left, slots.size))
        self._version += 1

    def set_departed(
        self,
        groups: Sequence[GroupLike],
        items: npt.ArrayLike,
        impressions: npt.ArrayLike,
        rewards: npt.ArrayLike,
    ) -> None:
        """Set what a list of groups know of items that have left: how many there were, their impressions and rewards.

        :meth:`remove` adds to it by itself, unless it is told to forget.
        """
        require(not isinstance(groups, (str, tuple)), "groups is a list of groups", groups=groups)
        paths = paths_of(list(groups), len(groups))
        n, s = self._checks.totals(impressions, rewards, len(paths))
        gone = np.broadcast_to(np.asarray(items, np.float64), n.shape)
        whole = bool(((gone >= 0) & (gone == np.floor(gone)) & (gone < math.inf)).all())
        require(whole, "items is a whole number, 0 <= items", items=items)
        require(bool(((gone > 0) | (n == 0)).all()), "impressions of at least one item", items=items)
        self._members.set_departed(self._store, paths, np.array([gone, n / self._scale, s / self._scale]), self._scale)
        self._version += 1

    def hide(self, ids: IdT | Names[IdT]) -> None:
        """Leave items out of every ranking until :meth:`unhide`; their counts go on."""
        self._set_hidden(ids, 1)

    def unhide(self, ids: IdT | Names[IdT]) -> None:
        """Bring hidden items back."""
        self._set_hidden(ids, 0)

    def __contains__(self, name: object) -> bool:
        return self._store.ids.holds(self._store.state.items, name)

    def contains(self, ids: Names[IdT]) -> npt.NDArray[np.bool_]:
        """Whether each of these is in the pool."""
        return self._store.ids.found(self._store.state.items, ids)

    @property
    def ids(self) -> list[IdT]:
        """Every id, oldest first."""
        return self._store.ids.of(self._store.state.items, np.argsort(self._store.items["seq"]))

    @property
    def rounds(self) -> float:
        """Impressions counted, those of items since removed included; fewer as a window or half-life forgets."""
        return plain(self._rounds * self._scale)

    @rounds.setter
    def rounds(self, count: float) -> None:
        require(0 <= count < math.inf, "0 <= rounds", rounds=count)
        self._rounds = count / self._scale
        self._version += 1

    @property
    def eligible(self) -> int:
        """How many items may be ranked: those that are not hidden."""
        return len(self._store) - self._store.hidden

    def offers(self, name: object) -> bool:
        """Whether this item may be ranked: it is here and not hidden."""
        items = self._store.state.items
        try:
            return not items[self._store.ids.place(items, name)]["hidden"]
        except ValueError:
            return False

    def offering(self, ids: Names[IdT]) -> npt.NDArray[np.bool_]:
        """Whether each of these :meth:`offers`."""
        items = self._store.state.items
        places = self._store.ids.positions(items, ids)
        here = places >= 0
        here[here] = items["hidden"][places[here]] == 0
        return here

    def blank(self) -> Pool[IdT]:
        """A pool of the same kind with the same items, hidden ones and ages included, none ever shown."""
        window = self._window
        other = Pool[IdT](
            self.policy,
            seed=self.seed,
            ties=self.ties,
            window=window.length if window else None,
            buckets=window.buckets if window else 24,
            half_life=self.half_life,
            leaving=self.leaving,
            learn=self.learning,
            model=self.model,
            weighted=self._checks.weighted,
        )
        other._store = self._store.blank()
        if self._context is not None and other._context is not None:
            other._context.regression = self._context.regression.blank()
        if other._levels is not None:
            other._levels.blank(len(self))
        other._store.regroup(grouped=not other._reason)
        other._tags = self._tags.copy()
        other._members = self._members.blank(other._store)
        other._members.lives = self._members.lives.blank()
        other._described = None if self._described is None else self._described.blank(len(self))
        if self.prior is not None:
            other._set_prior(Prior())
            other._members.restore_lives(other._store)
        other.advance(self.time)
        return other

    def shrink_to(self, pooled: Pool[IdT]) -> Within:
        """Let every item have as prior what another pool knows of it besides what is counted here, as its law says.

        That pool has all traffic, this one a segment's. What is returned says by which law, and when to look up what
        has changed there: see :class:`SegmentedPool`.
        """
        self._require_learning()
        require(self.model is None and pooled.model is None, "pools of segments have no model", model=self.model)
        self._members = members = Within(pooled, self._store, self._scale)
        items = self._store.items
        moved = np.flatnonzero(items["stratum"])
        items["stratum"][moved] = 0
        self._store.settle(moved)
        members.set_law(SegmentLaw(), "", pooled.prior or Prior())
        return members

    # Ranking ------------------------------------------------------------------------------------------

    def rank(
        self,
        k: int,
        *,
        exclude: Names[IdT] = NOBODY,
        tags: Iterable[str] | None = None,
        among: Names[IdT] | None = None,
        seed: int | None = None,
        context: Features | None = None,
    ) -> list[Ranked[IdT]]:
        """Return the k items with the largest index, best first; fewer only where fewer are eligible.

        Changes nothing: the same question has the same answer, ties included, until something happens.

        Parameters
        ----------
        k
            How many.
        exclude
            Ids to leave out; unknown ones are ignored, since a seen item may have left.
        tags
            Only items with at least one of these.
        among
            Only these ids.
        seed
            Fixes the order of ties and the draws of this ranking. Pools of the same kind with the same items (counts,
            tags, arrival numbers, hidden or not), rounds and prior then give the same ranking, whatever has happened in
            them. If not given, the pool's own seed and the number of changes so far decide.
        context
            Who is asking, for a pool with a model: ``{"age": 31, "gender": "F"}``.
        """
        if context is not None:
            self._refuse_context(context=context)
        found, whole = self._best(k, exclude, tags, among, seed, context)
        return self._answer.ranked(found, whole, self._store.ids.names)

    def serve(
        self,
        k: int,
        *,
        exclude: Names[IdT] = NOBODY,
        tags: Iterable[str] | None = None,
        among: Names[IdT] | None = None,
        seed: int | None = None,
        context: Features | None = None,
        count: bool = True,
        worth: npt.ArrayLike | None = None,
    ) -> list[Ranked[IdT]]:
        """:meth:`rank`, and count an impression of each at once; not if ``count`` is false (confirm by record).

        ``worth``: what an impression counts in each place, as ``[1, 0.7, 0.5]``; further places have the last figure.
        """
        ranked = self.rank(k, exclude=exclude, tags=tags, among=among, seed=seed, context=context)
        self._served(len(ranked) if count else 0, worth, context)
        return ranked

    def pick(
        self,
        k: int,
        *,
        exclude: Names[IdT] = NOBODY,
        tags: Iterable[str] | None = None,
        among: Names[IdT] | None = None,
        seed: int | None = None,
        context: Features | None = None,
        count: bool = True,
        worth: npt.ArrayLike | None = None,
    ) -> tuple[list[IdT], list[float]]:
        """:meth:`serve`, for callers that need ids and indices alone, each as a list: a fifth of the time less."""
        if context is not None:
            self._refuse_context(context=context)
        found, _ = self._best(k, exclude, tags, among, seed, context)
        picked = self._answer.columns(found, self._store.ids.names)
        self._served(found if count else 0, worth, context)
        return picked

    @property
    def ranks_by_cells(self) -> bool:
        """Whether a ranking looks at the best items alone, not at all of them."""
        return self._merges

    def pick_places(self, k: int, *, seed: int) -> Slots:
        """The k best items by their places: that of the i-th item added is i, until one is removed. Counts nothing.

        For simulations, which with :meth:`record_places` save the way from places to ids and back: half the time.
        """
        found, _ = self._best(k, NOBODY, None, None, seed)
        return self._answer.slots[:found].copy()

    @property
    def tied(self) -> int:
        """Of the last ranking: among how many eligible items with the index of the last one its last places were drawn.

        An item of such a tie is at a given one of its places with probability 1/tied. 0 where it is not known: in a
        grouped pool with ``tags``, whose members nobody counts.
        """
        return self._last_tie()

    def draw(
        self,
        k: int,
        rng: random.Random,
        *,
        exclude: Names[IdT] = NOBODY,
        tags: Iterable[str] | None = None,
        among: Names[IdT] | None = None,
    ) -> tuple[list[Ranked[IdT]], int]:
        """K items in uniformly random order instead of the best, and how many were eligible. Changes nothing."""
        answer = self._answer = Answer(k, len(self))
        items = self._store.items
        slots = self._chosen(among)
        slots = slots[items["hidden"][slots] == 0]
        if tags is not None:
            slots = slots[self._tags.having(tags)[items["tags"][slots]]]
        if exclude is not NOBODY:
            slots = slots[~np.isin(slots, self._known(exclude))]
        alike, seed, named = np.zeros(slots.size), rng.getrandbits(62), self._store.ids.names is not None
        found, _ = _scan.select(
            self._store.state, self._scale, slots, alike, EVERYTHING, seed, named, answer.slots, answer.rows
        )
        drawn = answer.slots[:found]
        names, scores = self._store.ids.of(items, drawn), self._values(drawn, rng.getrandbits(62)).tolist()
        n, s = (items[what][drawn] * self._scale for what in ("n", "s"))
        rows = zip(names, scores, map(plain, n.tolist()), map(plain, s.tolist()), strict=True)
        return [Ranked(*row) for row in rows], slots.size

    def room(self) -> npt.NDArray[np.uint8]:
        """Memory for :meth:`table`, and some more, already in use: a thread may get it while the pool lives on."""
        return np.ones(self._store.items.nbytes * 17 // 16 + 4096, np.uint8)

    def table(self, room: npt.NDArray[np.uint8] | None = None) -> Table:
        """A copy of what is known of every item, as fast as memory can be copied: into ``room`` where that suffices.

        Memory that was not in use before takes four times longer.
        """
        store, names = self._store, self._store.ids.names
        source = store.items.view(np.uint8)  # NumPy would copy field by field
        into = np.empty_like(source) if room is None or room.size < source.size else room[: source.size]
        into[:] = source
        items = into.view(store.items.dtype)
        copied = None if names is None else names[: len(store)]
        return Table(items, copied, list(self._tag_sets), self._scale, self._scorer())

    def stats(self, name: IdT) -> Stats:
        """What is known of one item."""
        slot = np.array([self._store.ids.place(self._store.state.items, name)])
        item = self._store.state.items[slot[0]]
        n, s = float(item["n"]) * self._scale, float(item["s"]) * self._scale
        score = float(self._values(slot)[0])
        tags = self._tags.sets[item["tags"]]
        mean = s / max(n, s / self._store.limit) if n > 0 else math.nan
        age, hidden = self.time - float(item["born"]), bool(item["hidden"])
        a, strength = self._members.table[item["stratum"], :2].tolist()
        prior = None if self.prior is None else (a, strength)
        path, left = self._members.path(int(slot[0])), self._members.lives.left(int(slot[0]))
        return Stats(plain(n), plain(s), mean, score, age, tags, hidden, path, prior, left)

    def scores(self, ids: Names[IdT], *, context: Features | None = None) -> Floats:
        """Index of each of these items."""
        self._refuse_context(context=context)
        return self._values(self._places(ids), context=context)

    def predict(self, ids: Names[IdT], *, context: Features | None = None) -> tuple[Floats, Floats]:
        """Mean and effective pulls of each of these items in a context, by the model."""
        return self._modelled.regression.predict(context, self._places(ids))

    def effects(self) -> list[Effect]:
        """What was learned of each feature, with its certainty: by the model's shared weights, or for the prior."""
        if self._context is None and self.prior is not None:
            found = () if self.prior.effects is None else self.prior.effects.columns
            return [Effect(str(column.name), column.weight, column.error) for column in found]
        return self._modelled.regression.effects()

    def encoders(self) -> tuple[Encoder, Encoder]:
        """How the model encodes people and items: which columns they have, and what was left out for want of one."""
        regression = self._modelled.regression
        return regression.people, regression.things

    def group_effects(self, most: int = 20) -> list[GroupEffect]:
        """What was learned of the groups that stand out most, by the prior in force; none where groups tell nothing.

        It changes nothing, and may be asked in another thread while the pool goes on.
        """
        return group_effects(self._members, self._store, most)

    def group_levels(self) -> list[tuple[float, int]]:
        """Of each level of groups, broad to narrow: its share of what makes rates differ, and how many there are."""
        prior = self._members.prior
        return list(zip(prior.shares if prior else (), group_levels(self._members), strict=False))

    @overload
    def explain(self) -> str: ...

    @overload
    def explain(self, name: IdT, *, context: Features | None = None) -> list[Effect]: ...

    def explain(self, name: IdT | None = None, *, context: Features | None = None) -> str | list[Effect]:
        """Say how items are ranked at present, and why so; or what is made of one item's features, in a context."""
        store = self._store
        if name is not None and self._context is None and self.prior is not None:
            self._refuse_context(context=context)
            slot, effects = store.ids.place(store.state.items, name), self.prior.effects
            if effects is None or self._described is None:
                return []
            told = effects.told(self._described.parts(slot))
            return [Effect(str(column.name), effect, error) for column, effect, error in told]
        if name is not None:
            return self._modelled.regression.explain(store.ids.place(store.state.items, name), context)
        if self._members.apart(len(self)).size:
            how = f"scan of all {len(store)} items: how long they live is known, and groups or features tell of them"
        elif not self._reason:
            how = (
                f"grouped: {len(store)} items in {store.state.meta[LIVE_CELLS]} cells of {store.groups} groups; "
                f"{self.policy.spec} falls with impressions and rises with rewards, so only their heads are looked at"
            )
        else:
            how = f"scan of all {len(store)} items: {self._reason}"
        return how + self._members.explain()

    def memory(self) -> int:
        """Bytes in use for the items, their ids themselves not counted."""
        described = 0 if self._described is None else self._described.memory(len(self))
        levels = 0 if self._levels is None else self._levels.memory(len(self))
        return self._store.memory() + self._members.memory(len(self)) + described + levels

    # Learning -----------------------------------------------------------------------------------------

    def record(
        self, name: IdT, *, impressions: float = 0, rewards: float = 0.0, context: Features | None = None
    ) -> None:
        """Count impressions and rewards of one item: rewards alone for an impression that serve has counted.

        An impression may be worth less than one, as the chance that it was looked at: ``impressions=0.4``. What is
        counted is the sum; sums of multiples of a power of two, as 1/64, do not depend on their order. Once an
        impression was worth less than one, an item may have earned more than its impressions are worth: its index is
        that of one with as many impressions as its rewards take at least.

        With a model, ``context`` is the one that the item was shown in.
        """
        store = self._store
        slot = store.ids.place(store.state.items, name)
        n, s = self._checks.one(impressions, rewards)
        if self._context is not None or context is not None or self._levels is not None:
            self._refuse_context(context=context)
            self._count(np.array([slot]), np.array([n]), np.array([s]), context)
            return
        unit = 1.0 / self._scale
        if not store.count_one(slot, n * unit, s * unit, self._slack_bounds):
            item = store.state.items[slot]
            self._checks.refuse(float(item["s"]) * self._scale + s, float(item["n"]) * self._scale + n)
        self._add_rounds(n * unit)
        self._version += 1
        if self._window is not None or self.leaving.impressions is not None or store.crowded:
            self._after(np.array([slot]), np.array([n]), np.array([s]))
        elif len(self._members) or self._members.touched is not None:
            self._members.revise(store, np.array([slot]))
        self._learn()

    def record_many(
        self,
        ids: Names[IdT],
        impressions: npt.ArrayLike = 0,
        rewards: npt.ArrayLike = 0,
        *,
        contexts: Contexts = None,
    ) -> None:
        """Count impressions and rewards of many items, ids in any order and often; all or none.

        ``contexts`` are one for all, or one for each.
        """
        self._refuse_context(contexts=contexts)
        if isinstance(contexts, Iterable) and not isinstance(contexts, Mapping):
            contexts = list(contexts)
        slots = self._places(ids)
        n, s = self._checks.many(impressions, rewards, slots.size)
        self._count(slots, n, s, contexts)

    def recording(
        self,
        ids: Names[IdT],
        impressions: npt.ArrayLike = 0,
        rewards: npt.ArrayLike = 0,
        *,
        context: Features | None,
        who: int | None = None,
    ) -> Iterator[None]:
        """:meth:`record_many` by a model, which learns an event at each step of the iterator.

        ``who`` is a number of theirs whose context it is; without it, they are somebody else each time.

        Rankings may be made between two steps, by what is learned so far; nothing else may change meanwhile.
        """
        slots = self._places(ids)
        n, s = self._checks.many(impressions, rewards, slots.size)
        return self._counting(slots, n, s, context, who)

    def record_places(self, places: Slots, impressions: float, rewards: Floats) -> None:
        """Count so many impressions of each of these places, and their rewards."""
        last = int(places.view(np.uint64).max(initial=0))  # a negative one is beyond all
        require(not places.size or last < len(self), "0 <= place < items", places=places, items=len(self))
        self._count(places, np.full(places.size, float(impressions)), rewards)

    def set_counts(
        self, ids: Names[IdT], impressions: npt.ArrayLike, rewards: npt.ArrayLike, *, skip_absent: bool = False
    ) -> None:
        """Set the counts of items that are here, instead of adding to them; all or none.

        An id that is not here raises ``ValueError``, or is passed over with ``skip_absent``.
        :attr:`rounds` stays as it is: set it where the impressions are new. A pool with a window or a half-life
        refuses, for it must know when each impression was.
        """
        require(
            self._window is None and self.half_life is None and self.model is None,
            "counts can be set only in a pool without window, half-life and model",
            window=self._window and self._window.length,
            half_life=self.half_life,
            model=self.model,
        )
        slots = self._distinct(ids, skip_absent=skip_absent)
        n, s = self._checks.many(impressions, rewards, slots.size)
        if skip_absent and (slots < 0).any():
            slots, n, s = slots[slots >= 0], n[slots >= 0], s[slots >= 0]
        self._refuse_fractions()
        bad, more = self._store.set(slots, n, s, self._checks.bounds)
        if bad >= 0:
            self._checks.refuse(float(s[bad]), float(n[bad]))
        if self._levels is not None:
            self._levels.set(slots, n, s)
        self._add_rounds(more, fresh=False)
        self._after(slots, n, s)

    @property
    def prior(self) -> Prior | None:
        """What was learned from all items; None where the policy learns no prior.

        Pools with equal counts and equal priors rank alike.
        """
        return self._members.prior

    @prior.setter
    def prior(self, prior: Prior) -> None:
        self.set_prior(prior)

    def set_prior(self, prior: Prior, *, slowly: bool = False) -> None:
        """Set :attr:`prior`; ``slowly``: what items have by their groups follows in :meth:`settle`, in slices.

        Until then an item may have the step from the pool's prior that it had before; when nothing is
        :attr:`unsettled`, all is as if the prior had been set at once, whatever has happened meanwhile.
        """
        self._require_learning()
        self._set_prior(prior.check(), slowly=slowly)

    def bound_work(self, most: int, *, scored: int | None = None) -> None:
        """Let one event work out the priors of about so many items by their groups; others follow in :meth:`settle`.

        A ranking may then be by what was known of an item before; when nothing is :attr:`unsettled` it is exact. Nor is
        it checked any more whether ``order`` of an item that is added is new, for which every item is looked at.

        ``scored``: in a pool of more items lifetimes are left out where groups or features tell of items, for a ranking
        would have to score every one (:meth:`set_left`). Any number if not given.
        """
        require(most >= 0, "0 <= most", most=most)
        require(scored is None or scored >= 0, "0 <= scored", scored=scored)
        self._members.most = most
        self._store.trusting = True
        if scored is not None:
            self._members.most_scored = scored

    @property
    def unsettled(self) -> int:
        """How much :meth:`settle` has to do: 0 for nothing."""
        return self._members.unsettled + (0 if self._context is None else self._context.regression.unsettled)

    def settle(self, most: int | None = None) -> None:
        """Let about so many items, or all, have what is left of a prior set slowly, or of :meth:`bound_work`."""
        require(most is None or most >= 1, "1 <= most", most=most)
        while self.unsettled:
            if self._members.unsettled:
                self._members.go_on(self._store, len(self) if most is None else most)
            else:
                self._modelled.regression.settle(most)
            self._version += 1
            if most is not None:
                return

    def fit(self) -> Prior:
        """Return the prior that the present counts give, hidden items included. Changes nothing."""
        self._require_learning()
        return self._fitted()

    def learn(self) -> None:
        """Set the prior to what the present counts give."""
        self.prior = self.fit()

    def advance(self, by: float) -> None:
        """Let time pass: old buckets leave the window, counts are discounted, items expire."""
        require(0 <= by < math.inf, "0 <= by", by=by)
        self.time += by
        self._version += 1
        if self.half_life is not None:
            self._scale *= 0.5 ** (by / self.half_life)
            if self._scale < 1e-100:
                items = self._store.items
                items["n"] *= self._scale
                items["s"] *= self._scale
                self._rounds *= self._scale
                self._present *= self._scale
                self._members.rescale(self._scale)
                if self._described is not None:
                    self._described.rescale(self._scale)
                self._scale = 1.0
        if self._window is not None:
            for bucket in self._window.expired(self.time):
                self._rounds = max(0.0, self._rounds - float(bucket.n.sum()))  # fractions are rounded
                gone = forget(bucket, self._store, self._window_owed, self._checks.bounds)
                self._present = max(0.0, self._present - gone)
        if self._members.scaled:
            self._members.refresh(self._store, self._scale)
        if self.leaving.age is not None:
            self._dismiss(np.flatnonzero(self.time - self._store.items["born"] >= self.leaving.age), "expired")

    # Leaving ------------------------------------------------------------------------------------------

    def sweep(self) -> None:
        """Let items go that are beyond hope: their upper bound is below ``leaving.share`` of the best mean."""
        items = self._store.items
        proven = items["n"] * self._scale >= self.leaving.proven
        if self.leaving.share is None or not proven.any():
            return
        best = float((items["s"][proven] / self._store.pulls[proven]).max())
        bounds = self._values(np.arange(len(self)))
        self._dismiss(np.flatnonzero(bounds < self.leaving.share * best), "outclassed")

    def departures(self) -> list[Departure[IdT]]:
        """Items that have left by themselves since this was last asked, in the order they left."""
        gone, self._departures = self._departures, []
        return gone

    # State --------------------------------------------------------------------------------------------

    def save(self, path: str | Path) -> None:
        """Write everything to a file, checksummed; then :meth:`load` ranks, draws and goes on alike."""
        from hellinger.pool import snapshot

        self.settle()
        snapshot.save(self, Path(path))

    @classmethod
    def load(
        cls,
        path: str | Path,
        *,
        family: families.Family | None = None,
        policy: PolicyLike | None = None,
        model: ModelLike | None = None,
    ) -> Pool[Any]:
        """Return the pool that was saved; ``family``, ``policy``, ``model`` are needed where its own have no spec."""
        from hellinger.pool import snapshot

        return snapshot.load(Path(path), family, policy, model)
