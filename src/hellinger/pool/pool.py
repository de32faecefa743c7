"""A live pool of contents: rank, serve, record, at a cost that does not depend on its size."""

from __future__ import annotations

import itertools
import math
import random
import struct
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from hellinger import families, policies
from hellinger._jit import entry
from hellinger.errors import require
from hellinger.policies import _rule
from hellinger.pool import _merge, _scan
from hellinger.pool._ids import Id
from hellinger.pool._layout import LIVE_CELLS, OLDEST
from hellinger.pool._prior import Prior
from hellinger.pool._store import Floats, Slots, Store, first_wrong
from hellinger.pool._tags import TagSets
from hellinger.pool.departures import Departure, Leaving, Reason
from hellinger.pool.window import Bucket, Window

__all__ = ["Pool", "Ranked", "Stats"]

Ties = Literal["random", "oldest"]
Names = Iterable[Id] | npt.NDArray[np.integer[Any]]

_EVERYTHING = np.empty(0, np.bool_)
_NOBODY: tuple[Id, ...] = ()
_MASK = (1 << 62) - 1


class Ranked(NamedTuple):
    """A content in a ranking: its id, its index, and the counts behind it."""

    id: Id
    score: float
    impressions: float
    rewards: float


# Rows of a ranking as compiled code leaves them. Making Python objects of them is half of a ranking's time.
_WHOLE, _REAL = struct.Struct("=qdqq"), struct.Struct("=qddd")
_new, _RANKED = tuple.__new__, itertools.repeat(Ranked)  # a third of the time that Ranked(…) takes


class Stats(NamedTuple):
    """What is known of one content."""

    impressions: float
    rewards: float
    mean: float
    score: float
    age: float
    tags: frozenset[str]
    hidden: bool


class Pool:
    """Contents with their impressions and rewards, ranked exactly by a policy's index.

    Parameters
    ----------
    policy
        A policy, or its spec; the recommended one if not given.
    family
        What rewards are, where the policy is given by its spec; Bernoulli if not given.
    seed
        Fixes every random choice.
    ties
        Contents of equal index come in ``"random"`` order, uniformly, or ``"oldest"`` first.
    horizon
        Number of impressions to be given, for policies that need it.
    window, buckets
        Count only what happened in the last ``window`` units of :meth:`advance`, forgotten in that many steps.
    half_life
        Instead of a window, let every count lose half its weight in that time.
    leaving
        When a content leaves by itself; see :class:`Leaving`.

    Examples
    --------
    >>> pool = Pool("hellinger-ucb", seed=0)
    >>> pool.add(["a", "b", "c"])
    >>> pool.record("a", impressions=100, rewards=9)
    >>> pool.record("b", impressions=100, rewards=3)
    >>> [content.id for content in pool.rank(3)]
    ['c', 'a', 'b']
    >>> pool.serve(1), pool.stats("c").impressions
    ([Ranked(id='c', score=1.0, impressions=0, rewards=0)], 1)
    """

    def __init__(
        self,
        policy: str | policies.Policy = "cold-start",
        *,
        family: str | families.Family | None = None,
        seed: int = 0,
        ties: Ties = "random",
        horizon: float | None = None,
        window: float | None = None,
        buckets: int = 24,
        half_life: float | None = None,
        leaving: Leaving | None = None,
    ) -> None:
        self.policy = policies.policy(policy, family=family).ready(horizon)
        require(ties in ("random", "oldest"), "ties is 'random' or 'oldest'", ties=ties)
        require(isinstance(seed, (int, np.integer)) and not isinstance(seed, bool), "seed is a whole number", seed=seed)
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
        self._reason = _why_scan(self.policy, half_life)
        self._store = Store(grouped=not self._reason)
        self._prior = Prior(self.policy.rule)
        self._bounds = self.policy.family.mean_bounds
        self._rounds = 0.0
        self._present = 0.0
        """Impressions of the contents now in the pool; like _rounds, to be multiplied by _scale."""
        self._scale = 1.0
        self._version = 0
        self._tags = TagSets()
        self._departures: list[Departure] = []
        self._stream = self.seed * 0x9E3779B97F4A7C15 & _MASK
        self._first_wrong = entry(first_wrong, np.empty(0), np.empty(0), True)
        self._make_room(1)
        if not self._reason:
            tail = _EVERYTHING, 0, False, self._slots, self._rows
            self._merge = entry(_merge.merge, rule, self._store.state, self._prior.table, 0.0, *tail)

    # Contents -----------------------------------------------------------------------------------------

    def add(self, ids: Id | Names, *, tags: Iterable[str] | Sequence[Iterable[str]] = ()) -> None:
        """Add one content or several, never shown; all or none.

        ``tags`` are one set for all, as ``["sport", "video"]``, or one set for each, as ``[["sport"], ["video"]]``.
        """
        names: Names = [_single(ids)] if isinstance(ids, (int, np.integer, str)) else ids
        self.load(names, 0, 0, tags=tags)

    def load(
        self,
        ids: Names,
        impressions: npt.ArrayLike,
        rewards: npt.ArrayLike,
        *,
        tags: Iterable[str] | Sequence[Iterable[str]] = (),
        fresh: bool = True,
        order: npt.ArrayLike | None = None,
    ) -> None:
        """Add items with what they have achieved so far, from arrays; all or none.

        Parameters
        ----------
        ids, impressions, rewards
            The items and their counts: one number for all, or one for each.
        tags
            As for :meth:`add`.
        fresh
            False for items that come back: their impressions are among :attr:`rounds` already.
        order
            Arrival numbers, whole and below 2³², all different from those present; next in turn if not given. Equal
            items with equal arrival numbers are ranked alike in two pools, however each came by them. A pool with a
            window takes only numbers beyond all that it has had.
        """
        listed = _sized(ids)
        count = len(listed)
        n, s = self._totals(impressions, rewards, count)
        numbers = None if order is None else self._arrivals(order, count)
        kinds = self._tags.take(tags, count)
        unit = 1.0 / self._scale
        counts = {"n": n * unit, "s": s * unit}
        try:
            strata = self._prior.strata(kinds)
            slots = self._store.add(listed, count, **counts, tags=kinds, stratum=strata, born=self.time, order=numbers)
        except ValueError:
            self._drop_tags(kinds)
            raise
        self._add_rounds(float(n.sum()) * unit, fresh)
        self._after(slots, n, s)

    def remove(self, ids: Id | Names) -> None:
        """Take contents out, with what they have achieved; all or none."""
        self._drop(np.unique(self._places(ids)))

    def retag(self, ids: Id | Names, tags: Iterable[str] | Sequence[Iterable[str]]) -> None:
        """Give items other tags, one set for all or one for each as for :meth:`add`; all or none."""
        slots = self._distinct(ids)
        before = self._store.state.items["tags"][slots]
        kinds = self._tags.take(tags, slots.size)
        self._store.retag(slots, kinds, self._prior.strata(kinds))
        self._drop_tags(before)
        self._version += 1

    def hide(self, ids: Id | Names) -> None:
        """Leave contents out of every ranking until :meth:`unhide`; their counts go on."""
        self._set_hidden(ids, 1)

    def unhide(self, ids: Id | Names) -> None:
        """Bring hidden contents back."""
        self._set_hidden(ids, 0)

    def __len__(self) -> int:
        return len(self._store)

    def __contains__(self, name: object) -> bool:
        return self._store.ids.holds(self._store.state.items, name)

    @property
    def ids(self) -> list[Id]:
        """Every id, oldest first."""
        return self._store.ids.of(self._store.state.items, np.argsort(self._store.items["seq"]))

    @property
    def rounds(self) -> float:
        """Impressions counted, those of contents since removed included; fewer as a window or half-life forgets."""
        return _plain(self._rounds * self._scale)

    @rounds.setter
    def rounds(self, count: float) -> None:
        require(0 <= count < math.inf, "0 <= rounds", rounds=count)
        self._rounds = count / self._scale
        self._version += 1

    @property
    def eligible(self) -> int:
        """How many contents may be ranked: those that are not hidden."""
        return len(self._store) - self._store.hidden

    def offers(self, name: object) -> bool:
        """Whether this content may be ranked: it is here and not hidden."""
        items = self._store.state.items
        try:
            return not items[self._store.ids.place(items, name)]["hidden"]
        except ValueError:
            return False

    def blank(self) -> Pool:
        """A pool of the same kind with the same contents, hidden ones and ages included, none ever shown."""
        window = self._window
        other = Pool(
            self.policy,
            seed=self.seed,
            ties=self.ties,
            window=window.length if window else None,
            buckets=window.buckets if window else 24,
            half_life=self.half_life,
            leaving=self.leaving,
        )
        other._store = self._store.blank()
        other._store.regroup(grouped=not other._reason)
        other._tags = self._tags.copy()
        other.advance(self.time)
        return other

    # Ranking ------------------------------------------------------------------------------------------

    def rank(
        self,
        k: int,
        *,
        exclude: Names = _NOBODY,
        tags: Iterable[str] | None = None,
        among: Names | None = None,
        seed: int | None = None,
    ) -> list[Ranked]:
        """Return the k items with the largest index, best first; fewer only where fewer are eligible.

        Changes nothing: the same question has the same answer, ties included, until something happens.

        Parameters
        ----------
        k
            How many.
        exclude
            Ids to leave out; unknown ones are ignored, since a seen content may have left.
        tags
            Only contents with at least one of these.
        among
            Only these ids.
        seed
            Fixes the order of ties and the draws of this ranking. Pools of the same kind with the same items, counts,
            tags and arrival numbers then give the same ranking, whatever has happened in them. If not given, the
            pool's own seed and the number of changes so far decide.
        """
        found, whole = self._best(k, exclude, tags, among, seed)
        rows = (_WHOLE if whole else _REAL).iter_unpack(self._bytes[: found * _WHOLE.size])
        names = self._store.ids.names
        if names is None:
            return list(map(_new, _RANKED, rows))
        return list(map(_new, _RANKED, [(names[slot], score, n, s) for slot, score, n, s in rows]))

    def serve(
        self,
        k: int,
        *,
        exclude: Names = _NOBODY,
        tags: Iterable[str] | None = None,
        among: Names | None = None,
        seed: int | None = None,
        count: bool = True,
    ) -> list[Ranked]:
        """:meth:`rank`, and count an impression of each at once; not if ``count`` is false (confirm by record)."""
        ranked = self.rank(k, exclude=exclude, tags=tags, among=among, seed=seed)
        self._served(len(ranked) if count else 0)
        return ranked

    def pick(
        self,
        k: int,
        *,
        exclude: Names = _NOBODY,
        tags: Iterable[str] | None = None,
        among: Names | None = None,
        seed: int | None = None,
        count: bool = True,
    ) -> tuple[list[Id], list[float]]:
        """:meth:`serve`, for callers that need ids and indices alone, each as a list: a fifth of the time less."""
        found, _ = self._best(k, exclude, tags, among, seed)
        names = self._store.ids.of(self._store.state.items, self._slots[:found])
        scores: list[float] = self._rows[:found, 1].view(np.float64).tolist()
        self._served(found if count else 0)
        return names, scores

    def _served(self, found: int) -> None:
        """Count an impression of each of the best so many."""
        if found:
            self._count(self._slots[:found], self._ones[:found], self._zeros[:found])
        self._version += 1

    def draw(
        self,
        k: int,
        rng: random.Random,
        *,
        exclude: Names = _NOBODY,
        tags: Iterable[str] | None = None,
        among: Names | None = None,
    ) -> tuple[list[Ranked], int]:
        """K items in uniformly random order instead of the best, and how many were eligible. Changes nothing."""
        self._make_room(k)
        items = self._store.items
        slots = np.arange(len(self)) if among is None else np.unique(self._places(among))
        slots = slots[items["hidden"][slots] == 0]
        if tags is not None:
            slots = slots[self._tags.having(tags)[items["tags"][slots]]]
        if exclude is not _NOBODY:
            slots = slots[~np.isin(slots, self._known(exclude))]
        alike, seed, named = np.zeros(slots.size), rng.getrandbits(62), self._store.ids.names is not None
        found, _ = _scan.select(
            self._store.state, self._scale, slots, alike, _EVERYTHING, seed, named, self._slots, self._rows
        )
        drawn = self._slots[:found]
        names, scores = self._store.ids.of(self._store.state.items, drawn), self._values(drawn).tolist()
        n, s = (items[what][drawn] * self._scale for what in ("n", "s"))
        rows = zip(names, scores, map(_plain, n.tolist()), map(_plain, s.tolist()), strict=True)
        return list(map(Ranked._make, rows)), slots.size

    def stats(self, name: Id) -> Stats:
        """What is known of one content."""
        slot = np.array([self._store.ids.place(self._store.state.items, name)])
        item = self._store.state.items[slot[0]]
        n, s = float(item["n"]) * self._scale, float(item["s"]) * self._scale
        score = float(self._values(slot)[0])
        tags = self._tags.sets[item["tags"]]
        mean = s / n if n > 0 else math.nan
        return Stats(_plain(n), _plain(s), mean, score, self.time - float(item["born"]), tags, bool(item["hidden"]))

    def scores(self, ids: Names) -> Floats:
        """Index of each of these contents."""
        return self._values(self._places(ids))

    def explain(self) -> str:
        """Say how contents are ranked at present, and why so."""
        store = self._store
        if not self._reason:
            how = (
                f"grouped: {len(store)} contents in {store.state.meta[LIVE_CELLS]} cells of {store.groups} groups; "
                f"{self.policy.spec} falls with impressions and rises with rewards, so only their heads are looked at"
            )
        else:
            how = f"scan of all {len(store)} contents: {self._reason}"
        return how + self._prior.explain(self._tag_sets)

    def memory(self) -> int:
        """Bytes held for the contents, their ids themselves not counted."""
        return self._store.memory()

    # Learning -----------------------------------------------------------------------------------------

    def record(self, name: Id, *, impressions: int = 0, rewards: float = 0.0) -> None:
        """Count impressions and rewards of one content: rewards alone for an impression that serve has counted."""
        n, s = float(impressions), float(rewards)
        if not (0.0 <= n < math.inf and n == int(n)):
            raise ValueError(f"`impressions` must be a whole number and not negative, but got {impressions!r}")
        self._check_reward(s)
        store = self._store
        slot = store.ids.place(store.state.items, name)
        unit = 1.0 / self._scale
        if not store.count_one(slot, n * unit, s * unit, self._slack_bounds):
            item = store.state.items[slot]
            self._refuse_rewards(float(item["s"]) * self._scale + s, float(item["n"]) * self._scale + n)
        self._add_rounds(n * unit)
        self._version += 1
        if self._window is not None or self.leaving.impressions is not None or store.crowded:
            self._after(np.array([slot]), np.array([n]), np.array([s]))
        self._learn()

    def record_many(self, ids: Names, impressions: npt.ArrayLike = 0, rewards: npt.ArrayLike = 0) -> None:
        """Count impressions and rewards of many contents, ids in any order and often; all or none."""
        slots = self._places(ids)
        n, s = self._counts(impressions, rewards, slots.size)
        self._count(slots, n, s)

    def set_counts(self, ids: Names, impressions: npt.ArrayLike, rewards: npt.ArrayLike) -> None:
        """Set the counts of items that are here, instead of adding to them; all or none.

        :attr:`rounds` stays as it is: set it where the impressions are new. A pool with a window or a half-life
        refuses, for it must know when each impression was.
        """
        require(
            self._window is None and self.half_life is None,
            "counts can be set only in a pool without window and half-life",
            window=self._window and self._window.length,
            half_life=self.half_life,
        )
        slots = self._distinct(ids)
        n, s = self._totals(impressions, rewards, slots.size)
        self._add_rounds(float(n.sum() - self._store.state.items["n"][slots].sum()), fresh=False)
        self._store.put(slots, n, s)
        self._after(slots, n, s)

    def advance(self, by: float) -> None:
        """Let time pass: old buckets leave the window, counts are discounted, contents expire."""
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
                self._prior.rescale(self._scale)
                self._scale = 1.0
        if self._window is not None:
            for bucket in self._window.expired(self.time):
                self._forget(bucket)
        if self.leaving.age is not None:
            self._dismiss(np.flatnonzero(self.time - self._store.items["born"] >= self.leaving.age), "expired")

    def _forget(self, bucket: Bucket) -> None:
        """Subtract what was counted in a bucket. A reward may outlast its impression: the excess is set aside."""
        store = self._store
        slots, present = store.still(bucket.key, bucket.seq)
        items = store.state.items
        n = items["n"][slots] - bucket.n[present]
        s, owed = items["s"][slots] - bucket.s[present], self._window_owed
        if owed:
            for j, seq in enumerate(bucket.seq[present].tolist()):
                if seq in owed:
                    paid = min(owed[seq], float(bucket.s[present][j]))
                    s[j] += paid
                    owed[seq] -= paid
                    if not owed[seq] > 0:
                        del owed[seq]
        most = np.where(n > 0, self._bounds[1] * n if self._bounds[1] < math.inf else s, 0.0)
        for j in np.flatnonzero(s > most).tolist():
            seq = int(items["seq"][slots[j]])
            owed[seq] = owed.get(seq, 0.0) + float(s[j] - most[j])
        least = np.full(n.size, self._bounds[0])
        least[n == 0] = 0.0
        least[n > 0] *= n[n > 0]
        items["n"][slots], items["s"][slots] = n, np.clip(s, np.minimum(least, most), most)
        store.settle(slots)
        self._rounds -= float(bucket.n.sum())
        self._present -= float(bucket.n[present].sum())

    # Leaving ------------------------------------------------------------------------------------------

    def sweep(self) -> None:
        """Let contents go that are beyond hope: their upper bound is below ``leaving.share`` of the best mean."""
        items = self._store.items
        proven = items["n"] * self._scale >= self.leaving.proven
        if self.leaving.share is None or not proven.any():
            return
        best = float((items["s"][proven] / items["n"][proven]).max())
        bounds = self._values(np.arange(len(self)))
        self._dismiss(np.flatnonzero(bounds < self.leaving.share * best), "outclassed")

    def departures(self) -> list[Departure]:
        """Contents that have left by themselves since this was last asked, in the order they left."""
        gone, self._departures = self._departures, []
        return gone

    def _dismiss(self, slots: Slots, reason: Reason) -> None:
        if not slots.size:
            return
        items = self._store.state.items
        for name, slot in zip(self._store.ids.of(items, slots), slots.tolist(), strict=True):
            n, s = float(items[slot]["n"]) * self._scale, float(items[slot]["s"]) * self._scale
            age = self.time - float(items[slot]["born"])
            self._departures.append(Departure(name, reason, _plain(n), _plain(s), age))
        self._drop(slots)

    # State --------------------------------------------------------------------------------------------

    def save(self, path: str | Path) -> None:
        """Write everything to a file, checksummed; :meth:`restore` ranks, draws and goes on alike."""
        from hellinger.pool import snapshot

        snapshot.save(self, Path(path))

    @classmethod
    def restore(cls, path: str | Path, *, family: families.Family | None = None) -> Pool:
        """Return the pool that was saved; ``family`` is needed where its own has no spec."""
        from hellinger.pool import snapshot

        return snapshot.restore(Path(path), family)

    # Inside -------------------------------------------------------------------------------------------

    @property
    def _slack_bounds(self) -> tuple[float, float]:
        """Bounds of s/n; discounted sums and counts are rounded apart, so they get a little room."""
        if self.half_life is None:
            return self._bounds
        low, high = self._bounds
        return low - 1e-9 * abs(low), high + 1e-9 * abs(high)

    def _make_room(self, k: int) -> None:
        """Make the arrays that a ranking of k is written to."""
        if not (isinstance(k, (int, np.integer)) and k >= 1):
            raise ValueError(f"`1 <= k` must hold, but got k={k!r}")
        self._k = min(int(k), len(self))
        self._slots, self._rows = np.empty(self._k, np.int64), np.empty((self._k, 4), np.int64)
        self._ones, self._zeros = np.ones(self._k), np.zeros(self._k)
        self._bytes = self._rows.reshape(-1).view(np.uint8).data

    def _best(
        self, k: int, exclude: Names, tags: Iterable[str] | None, among: Names | None, seed: int | None
    ) -> tuple[int, bool]:
        """Write places and rows; how many there are, and whether all counts are whole numbers."""
        if type(k) is not int or k != self._k:
            self._make_room(k)
        if seed is not None:
            require(isinstance(seed, (int, np.integer)), "seed is a whole number", seed=seed)
            seed = int(seed) & _MASK
        store = self._store
        allowed = _EVERYTHING
        if tags is not None:
            allowed = self._tags.having(tags)
        if exclude is _NOBODY:
            return self._best_of(allowed, among, seed)
        flags, places = store.state.items["excluded"], self._known(exclude)
        flags[places] = 1
        try:
            return self._best_of(allowed, among, seed)
        finally:
            flags[places] = 0

    def _best_of(self, allowed: npt.NDArray[np.bool_], among: Names | None, seed: int | None) -> tuple[int, bool]:
        store = self._store
        st, named = store.state, store.ids.names is not None
        tie = OLDEST if self.ties == "oldest" else self._stream + self._version if seed is None else seed
        out, rows = self._slots, self._rows
        best: tuple[int, bool]
        if among is None and store.grouped:
            rule, prior = self.policy.rule, self._prior.table
            best = self._merge(rule, st, prior, self._t, allowed, tie, named, out, rows)
        else:
            slots = np.arange(len(store)) if among is None else np.unique(self._places(among))
            values = self._values(slots, seed)
            best = _scan.select(st, self._scale, slots, values, allowed, tie, named, out, rows)
        return best

    def _values(self, slots: Slots, seed: int | None = None) -> Floats:
        """Index of each of these items; where it is drawn, by this seed or the pool's own."""
        rule, store = self.policy.rule, self._store
        t = self._t
        if rule.separable:
            out = np.empty(slots.size)
            _scan.score_each(rule, store.state, self._prior.table, self._scale, t, slots, out)
            return out
        items = store.items
        everything = np.empty(len(store))
        rng = None
        if rule.random:
            rng = np.random.default_rng([self.seed & _MASK, self._version] if seed is None else seed)
        order = np.argsort(items["seq"])  # a draw belongs to a content, wherever it is kept
        sums, pulls = items["s"][order] * self._scale, items["n"][order] * self._scale
        drawn = np.empty(len(store))
        _rule.fill(rule, sums, pulls, t, rng, drawn)
        everything[order] = drawn
        return everything[slots]

    def _known(self, names: Names) -> Slots:
        """Places of those of these ids that are in the pool."""
        listed: Any = [names] if isinstance(names, (int, str)) else names
        return self._store.ids.known(self._store.state.items, listed)

    def _count(self, slots: Slots, n: Floats, s: Floats) -> None:
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
            self._refuse_rewards(float(total_s), float(total_n))
        self._add_rounds(total)
        self._after(slots, n, s)

    def _learn(self) -> None:
        """Fit the prior anew where enough has happened since, so that a ranking itself changes nothing."""
        if self._prior.learned:
            self._prior.heed(self._rounds, self._refit_cost)
            if self._prior.due:
                self._prior.refresh(self._store, self._tag_sets, self._scale)

    def _add_rounds(self, n: float, fresh: bool = True) -> None:
        if fresh:
            self._rounds += n
        self._present += n

    def _drop(self, slots: Slots) -> None:
        items = self._store.state.items
        self._present -= float(items["n"][slots].sum())
        kinds = items["tags"][slots]
        self._store.remove(slots)
        self._drop_tags(kinds)
        self._version += 1

    def _drop_tags(self, kinds: Any) -> None:
        """Note that items no longer have these tag sets. Those with a prior of their own keep their number."""
        self._tags.drop(kinds, keep=self._prior.tag_sets)

    @property
    def _tag_sets(self) -> list[frozenset[str]]:
        """The tag sets by number."""
        return self._tags.sets

    @property
    def _refit_cost(self) -> int:
        """Contents that a fit of the prior looks at one by one."""
        return len(self._store) if len(self._tag_sets) > 1 or not self._store.grouped else 0

    @property
    def _t(self) -> float:
        """The round about to be played, as the rule wants it."""
        plays = self._present * self._prior.focus if self._prior.learned else self._rounds
        return plays * self._scale + 1.0

    def _after(self, slots: Slots, n: Floats, s: Floats) -> None:
        """What follows from new counts."""
        store = self._store
        self._version += 1
        if self._window is not None:
            items = store.state.items[slots]
            self._window.note(items["key"], items["seq"].astype(np.int64), n, s)
        if store.grouped and store.crowded:
            self._reason = f"{store.groups} distinct reward sums are too many to keep apart"
            store.ungroup()
        if self.leaving.impressions is not None:
            shown = store.state.items["n"][slots] * self._scale >= self.leaving.impressions
            self._dismiss(np.unique(slots[shown]), "graduated")
        self._learn()

    def _places(self, ids: Id | Names) -> Slots:
        names: Any = [_single(ids)] if isinstance(ids, (int, np.integer, str)) else ids
        return self._store.ids.places(self._store.state.items, names)

    def _distinct(self, ids: Id | Names) -> Slots:
        """Places of these ids, each of which must be given once."""
        slots = self._places(ids)
        places, times = np.unique(slots, return_counts=True)
        if places.size < slots.size:
            double = self._store.ids.name(self._store.state.items, int(places[times > 1][0]))
            raise ValueError(f"`id` must be given once, but got {double!r} twice")
        return slots

    def _arrivals(self, order: npt.ArrayLike, size: int) -> Slots:
        """Arrival numbers of so many items."""
        numbers = np.asarray(order)
        if numbers.shape != (size,) or (size and numbers.dtype.kind not in "iu"):
            raise ValueError(f"`order` must have a whole number for each of {size} ids, but got {order!r}")
        least = self._store.next_seq
        require(
            self._window is None or bool((numbers >= least).all()),
            f"{least} <= order, in a pool with a window",
            order=int(numbers.min(initial=least)),
        )
        return numbers.astype(np.int64)

    def _set_hidden(self, ids: Id | Names, hidden: int) -> None:
        self._store.hide(self._places(ids), hidden)
        self._version += 1

    def _counts(self, impressions: npt.ArrayLike, rewards: npt.ArrayLike, size: int) -> tuple[Floats, Floats]:
        """The counts of so many events as arrays, or an error that names the first wrong one."""
        pair = []
        for name, given in (("impressions", impressions), ("rewards", rewards)):
            try:
                array = np.asarray(given, np.float64)
            except (TypeError, ValueError):
                raise ValueError(f"`{name}` must be a number or an array of numbers, but got {given!r}") from None
            if array.shape not in ((), (size,)):
                raise ValueError(f"`{name}` must have one entry for each of {size} ids, but got shape {array.shape}")
            pair.append(np.ascontiguousarray(array) if array.ndim else np.full(size, array))
        n, s = pair
        bad_n, bad_s = self._first_wrong(n, s, self._bounds[0] < 0)
        if bad_n >= 0:
            raise ValueError(f"`impressions` must be a whole number and not negative, but got {float(n[bad_n])!r}")
        if bad_s >= 0:
            self._check_reward(float(s[bad_s]))
        return n, s

    def _totals(self, impressions: npt.ArrayLike, rewards: npt.ArrayLike, size: int) -> tuple[Floats, Floats]:
        """The counts of so many items, each of which must be possible by itself."""
        n, s = self._counts(impressions, rewards, size)
        wrong, shown = s != 0, n > 0
        wrong[shown] = (s[shown] < self._bounds[0] * n[shown]) | (s[shown] > self._bounds[1] * n[shown])
        if wrong.any():
            self._refuse_rewards(float(s[wrong][0]), float(n[wrong][0]))
        return n, s

    def _check_reward(self, s: float) -> None:
        if not math.isfinite(s) or (s < 0 and self._bounds[0] >= 0):
            raise ValueError(f"`0 <= rewards` must hold for {self.policy.family}, but got {s!r}")

    def _refuse_rewards(self, s: float, n: float) -> None:
        low, high = self._bounds
        raise ValueError(
            f"`{low:g} <= rewards/impressions <= {high:g}` must hold for {self.policy.family}, "
            f"but got rewards={_plain(s)!r} for impressions={_plain(n)!r}"
        )


def _why_scan(policy: policies.Policy, half_life: float | None) -> str:
    """Why contents cannot be grouped by reward sum under this policy; empty where they can."""
    rule = policy.rule
    if rule.learns_prior:
        return "" if half_life is None else "discounted reward sums are seldom equal"
    if rule.random:
        return f"{policy.spec} draws an index for every content"
    if rule.relative:
        return f"{policy.spec} weighs each content against all others"
    if not rule.monotone:
        return f"{policy.spec} is not known to fall with impressions and rise with rewards"
    if policy.family.mean_bounds[0] < 0:
        return f"rewards of {policy.family} may be negative"
    if half_life is not None:
        return "discounted reward sums are seldom equal"
    return ""


def _single(name: Any) -> Id:
    """One id, of Python's own type."""
    return name if isinstance(name, (str, bool)) else int(name)


def _sized(ids: Names) -> Any:
    if isinstance(ids, (str, bytes)):
        raise ValueError(f"`ids` must be a list, but got {ids!r}")
    return ids if isinstance(ids, (list, tuple, range, np.ndarray)) else list(ids)


def _plain(x: float) -> float:
    """The same number, written as a whole one where it is."""
    return int(x) if x.is_integer() else x
