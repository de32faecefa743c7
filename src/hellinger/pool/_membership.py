"""Groups by their paths: who is a member, what those that left had achieved, and every item's prior from it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from hellinger._arrays import grown
from hellinger._jit import entry
from hellinger.errors import InputError, require
from hellinger.policies import Path, Prior, tag_path
from hellinger.policies.shares import MOST_LEVELS, SAMPLE, GroupSums, bits_for, mark_of
from hellinger.pool import _tree
from hellinger.pool._layout import NONE
from hellinger.pool._lives import Lives
from hellinger.pool._store import Floats, ItemStore, Slots
from hellinger.pool._tree import (
    CLASSES,
    CROWD,
    HEAD,
    KNOWN,
    LINK,
    MANY,
    MEMBER,
    MIXED,
    NO_HEAD,
    OWN_STEPS,
    TREE_NODE,
    UNLEARNED,
    Levels,
    TreeArrays,
)

__all__ = ["GroupLike", "Membership", "listed_groups", "paths_of"]

GroupLike: TypeAlias = str | tuple[str, ...] | None
"""A group: its name, or those of the groups above it and its own, broad to narrow; None for no group."""

Nodes = npt.NDArray[np.int32]
_RELATIVE = _tree.relative_classes()
Steps = npt.NDArray[np.int32]
"""Factors of items by their features, in steps: see :mod:`hellinger.policies.effects`."""
_NO_NODES = np.empty(0, np.int32)
_NO_SLOTS = np.empty(0, np.int64)
_NO_LIVES = np.empty(0, np.int8)
_MOST_OWN = (1 << 15) - CLASSES
_NO_LIMIT = 1 << 62
_NO_STEPS = np.empty(0, np.int32)
_FEW = 16
"""Items of a group at least, as far as the work for it goes."""
_HEARD = 8
"""Items that tell their groups of themselves in the time in which one gets its own prior."""
_MOST_IDLE = 1 << 16
"""Groups without items that are remembered for what their items had; of more, those empty for longest are forgotten."""


def paths_of(group: GroupLike | Sequence[GroupLike], count: int) -> list[Path]:
    """The groups as given, by their paths: one for all, or one for each of so many."""
    if isinstance(group, (str, tuple)) or not isinstance(group, Iterable):
        return [_path(group)]
    listed = list(group)
    if len(listed) != count:
        levels = tuple(listed) if listed and all(isinstance(each, str) for each in listed) else None
        hint = "" if levels is None or count != 1 else f"; the levels of one group are a tuple, {levels!r:.80}"
        raise InputError(f"`group` must be one for all or one for each of {count} ids, but got {len(listed)}{hint}")
    return [_path(each) for each in listed]


def _path(group: Any) -> Path:
    path = () if group is None else (group,) if isinstance(group, str) else group
    named = isinstance(path, tuple) and all(isinstance(name, str) and name and "\0" not in name for name in path)
    require(named, "a group is a name that is not empty, or a tuple of such", group=group)
    require(len(path) <= MOST_LEVELS, f"a group has at most {MOST_LEVELS} levels", group=group)
    return path


class Membership:
    """The groups of a pool, and the pseudo-counts of every stratum: of each class of priors, and of large groups."""

    def __init__(self, *, given: bool = False) -> None:
        self._given = given
        """Whether somebody else says what groups are to know of items that left: then none is forgotten here."""
        self.prior: Prior | None = None
        self.table: Floats = np.array([[0.0, 0.0, 0.0, 1.0]])
        """Pseudo-counts a and a + b by stratum, zeros where no prior is learned; and what is left of a life, or 0."""
        self.lives = Lives()
        self.paths: list[Path | None] = []
        """The group of each number; None where it is free."""
        self._number: dict[Path, int] = {}
        self._free: list[int] = []
        self._idle: dict[int, None] = {}
        """Groups without items or groups below, in the order in which they became so."""
        self._own: list[int] = []
        """Strata of their own that no group has any more."""
        self._owned = 0
        self._levels: Levels | None = None
        self._arrays = TreeArrays(
            np.empty(0, MEMBER),
            np.empty(0, TREE_NODE),
            np.empty(0, LINK),
            np.empty(0, HEAD),
            np.empty(0, np.int32),
            np.empty(0, np.int64),
        )
        self._kernel: Any = None
        self.touched: Any = None
        """Notes items whose counts or prior have changed, where pools of segments follow this one; see ``_within``."""
        self._large = _NO_SLOTS
        """The class of each large group's prior, as the pools of segments know it."""
        self._unnoted = 0
        """Places whose items of large groups have yet to be noted for the pools of segments."""
        self._changed = np.zeros(0, np.bool_)
        """Strata of large groups whose prior has become another one since all their items were noted."""
        self._unheard = 0
        """Places, from the first on, whose items have yet to tell their groups of themselves by the prior."""
        self._unspread = False
        """Whether groups have yet to learn from each other, and all items to get their own prior after that."""
        self._ungiven = 0
        """Places whose items have yet to get their own prior."""
        self._waiting: dict[int, None] = {}
        """Groups whose items have yet to get their priors, by what they know already."""
        self._steps_of: Callable[[Slots], Steps] | None = None
        """Gives the factors of the items at places, where those of all are others by the prior."""
        self.most = _NO_LIMIT
        """Items whose prior is worked out when one event changes what groups know; :meth:`go_on` has the others."""
        self.most_scored = _NO_LIMIT
        """Items of which every one is scored for a ranking, where groups or features and lives are known."""

    def __len__(self) -> int:
        return len(self._number)

    @property
    def informed(self) -> float:
        """Impressions that items have elsewhere, as far as they tell of them here; see ``_within``."""
        return 0.0

    @property
    def tree(self) -> TreeArrays:
        """Members and groups as compiled code has them."""
        return self._arrays

    @property
    def scaled(self) -> bool:
        """Whether priors depend on what stored counts are multiplied by: groups or features tell of items."""
        return len(self) > 0 or self._levels is not None

    @property
    def levels(self) -> Levels | None:
        """The prior as groups need it; None where they tell nothing."""
        return self._levels if self.prior is not None and self.prior.shares else None

    # The prior ----------------------------------------------------------------------------------------

    def set_prior(
        self,
        prior: Prior | None,
        store: ItemStore,
        scale: float,
        steps_of: Callable[[Slots], Steps] | None = None,
        *,
        slowly: bool = False,
    ) -> None:
        """Let every item have what this prior, its group and its features say.

        ``steps_of`` gives the factors of the items at places, where those of all are others. ``slowly``: in
        :meth:`go_on`, a slice at a time.
        """
        self.prior = prior
        self._steps_of = steps_of
        if steps_of is not None:
            self._fit_arrays(store)
        before, after = self._levels, self._levels_of(scale)
        wide = before is None or after is None or before.width == after.width
        if slowly and wide and (before is not None or after is not None or self.unsettled):
            self._begin(store, after)
        else:
            self.refresh(store, scale)

    @property
    def unsettled(self) -> int:
        """How many steps :meth:`go_on` has yet to take: at most three for each item, and one for each group."""
        return self._unheard + self._unspread + self._ungiven + self._unnoted + len(self._waiting)

    def _levels_of(self, scale: float) -> Levels | None:
        """The prior as the tree needs it; None where neither groups nor features matter."""
        prior = self.prior
        if prior is None or (not (prior.shares and self._number) and prior.effects is None):
            return None
        shares = np.zeros(MOST_LEVELS + 1)
        shares[1 : 1 + len(prior.shares)] = prior.shares
        rest = np.maximum(1.0 - np.cumsum(shares), 0.0)
        mean, strength = prior.a / prior.strength, prior.strength
        effects = prior.effects is not None
        return Levels(mean, strength, shares / strength, rest / strength, scale, self._width(), effects, MANY)

    def _begin(self, store: ItemStore, levels: Levels | None) -> None:
        """Let the prior of the pool be in force, and items' own steps from it be as they were."""
        assert self.prior is not None
        before = self.table
        width = self._width() if levels is None else levels.width
        rows = max(CLASSES + self._owned * width, len(before))
        self.table = _tree.class_table(*self.prior[:2], rows, weighted=self.prior.effects is None)
        self.table[CLASSES : len(before)] = before[CLASSES:]  # of large groups
        self._levels = levels
        self._waiting.clear()
        if levels is None:
            self._arrays.heads["silent"] = MIXED
            self._unheard, self._unspread, self._ungiven, self._unnoted = 0, False, len(store), 0
            if self._steps_of is not None:
                self._arrays.member["step"][: len(store)] = 0
                self._arrays.nodes["factors"] = _tree.factors_of(self._arrays.nodes["items"])
                self._steps_of = None
        else:
            self._unheard, self._unspread, self._ungiven = min(len(store), self._arrays.member.size), True, 0

    def _own_table(self) -> Floats:
        """The rows of items of which groups and features tell nothing."""
        assert self.prior is not None
        return _tree.own_table(*self.prior[:2])[: KNOWN if self.lives.known else 1]

    def go_on(self, store: ItemStore, most: int) -> None:
        """Let about so many more items have what the prior and their groups say.

        From the last place to the first: an item that is added is right at once, and when one is removed the last,
        which has had its turn, takes its place.
        """
        if self._unheard:
            assert self._levels is not None
            stop = min(self._unheard, len(store))
            self._unheard = start = max(0, stop - _HEARD * most)
            steps = _NO_STEPS if self._steps_of is None else self._steps_of(np.arange(start, stop))
            _tree.hear(self._arrays, store.state.items, self._levels, start, stop, steps)
            if not self._unheard:
                self._steps_of = None
        elif self._unspread:
            self._unspread, self._ungiven = False, len(store)
            self._waiting.clear()
            if self._levels is not None:
                _tree.spread(self._arrays, self._levels, self.table, self._used())
                self._touch_large(store)
        elif self._ungiven:
            stop = min(self._ungiven, len(store))
            self._ungiven = max(0, stop - most)
            if self._levels is None:
                moved = self._by_lives(store, self._ungiven, stop)
            else:
                stop = min(stop, self._arrays.member.size)
                size = _tree.give(self._arrays, store.state.items, self._levels, self._ungiven, stop)
                moved = self._arrays.moved[:size].copy()
            store.settle(moved)
            self._touch(store, moved)
            if self._levels is None and not self._ungiven and self.prior is not None:
                self.table = self._own_table()
                self._large = _NO_SLOTS
        elif self._waiting:
            some = list(islice(self._waiting, 1 + most // _FEW))
            for g in some:
                del self._waiting[g]
            self._revise(store, _NO_SLOTS, np.array(some, np.int32), most, upwards=False)
        elif self._unnoted:
            self._note_large(store, _HEARD * most)

    def _note_large(self, store: ItemStore, most: int) -> None:
        """Note those of so many more items whose large group has another prior, for the pools of segments."""
        stop = min(self._unnoted, len(store))
        self._unnoted = start = max(0, stop - most)
        strata = store.items["stratum"][start:stop]
        large = np.flatnonzero(strata >= CLASSES)
        self._touch(store, start + large[self._changed[strata[large] - CLASSES]])
        if not self._unnoted:
            self._changed[:] = False

    def refresh(self, store: ItemStore, scale: float) -> None:
        """Work out every item's prior anew."""
        prior = self.prior
        if prior is None:
            return
        unsettled, self._unheard, self._unspread, self._ungiven = self.unsettled, 0, False, 0
        self._waiting.clear()
        if self._steps_of is not None:
            self._arrays.member["step"][: len(store)] = self._steps_of(np.arange(len(store)))
            self._steps_of = None
        levels = self._levels_of(scale)
        if levels is None:
            self._unnoted = 0
            self._arrays.nodes["factors"] = _tree.factors_of(self._arrays.nodes["items"])
            self.table = self._own_table()
            if self._levels is not None or unsettled:
                self._levels = None
                self._arrays.heads["silent"] = MIXED
                moved = self._by_lives(store, 0, len(store))
                store.settle(moved)
                self._touch(store, moved)
                self._large = _NO_SLOTS
            return
        rows = CLASSES + self._owned * levels.width
        table = _tree.class_table(*prior[:2], rows, weighted=prior.effects is None)
        count = min(len(store), self._arrays.member.size)
        moved = _tree.refresh(self._arrays, store.state.items, levels, table, self._used(), count)
        self.table, self._levels = table, levels  # who reads groups in another thread has them as they are
        store.settle(self._arrays.moved[:moved].copy())
        self._touch(store, self._arrays.moved[:moved])
        self._touch_large(store)

    def _by_lives(self, store: ItemStore, start: int, stop: int) -> Slots:
        """Let the strata of the items at these places be what is left of their lives; returns which have moved."""
        strata = store.items["stratum"][start:stop]
        lives = self.lives.of(start, stop)
        moved: Slots = np.flatnonzero(strata != lives)
        strata[moved] = lives[moved]
        return start + moved

    def set_lives(self, store: ItemStore, slots: Slots, lives: Any) -> None:
        """Note what is left of these items' lives, by classes."""
        moved = slots[self.lives.set(slots, lives, len(store))]
        if self.lives.known and len(self.table) == 1 and self.prior is not None:
            self.table = self._own_table()
        if self._levels is None and moved.size:
            store.state.items["stratum"][moved] = self.lives.classes[moved]
            store.settle(moved)
            if self._ungiven:  # strata of some were still those of groups
                self._touch(store, moved)

    def restore_lives(self, store: ItemStore) -> None:
        """Let strata be what lives say, where they are not those of groups."""
        if self._levels is None and self.lives.known:
            store.settle(self._by_lives(store, 0, len(store)))

    def alone(self, slots: Slots) -> Any:
        """The strata of these items while they have no group."""
        return self.lives.classes[slots] if self._levels is None and self.lives.known else 0

    def apart(self, count: int) -> Any:
        """What is left of the life of each of so many items, by classes, where strata are those of groups.

        Empty otherwise, and where there are too many items for every one to be scored.
        """
        scored = self._levels is not None and self.lives.known and count <= self.most_scored
        return self.lives.classes if scored else _NO_LIVES

    def _width(self) -> int:
        """Strata of each large group: one for each class of factors, unless there are too many such groups."""
        return OWN_STEPS if self._owned * OWN_STEPS <= _MOST_OWN else 1

    def revise(self, store: ItemStore, slots: Slots, nodes: Nodes = _NO_NODES) -> None:
        """Bring priors up to date after these items' counts and these groups have changed."""
        self._touch(store, slots)
        if self._levels is None:
            return
        if slots.size and int(slots.max()) >= self._arrays.member.size:  # items beyond were never of a group
            slots = slots[slots < self._arrays.member.size]
        self._revise(store, slots, nodes, self.most, upwards=True)

    def _revise(self, store: ItemStore, slots: Slots, nodes: Nodes, most: int, *, upwards: bool) -> None:
        """Let groups have what these items and groups know, and as many items their priors; others wait."""
        query = self._arrays, store.state.items, self._levels, self.table, slots, nodes, most, upwards
        if self._kernel is None:
            self._kernel = entry(_tree.revise, *query)
        moved, left = self._kernel(*query)
        if left:
            self._waiting.update(dict.fromkeys(self._arrays.noted[:left].tolist()))
        if moved:
            moved_slots = self._arrays.moved[:moved].copy()
            store.settle(moved_slots)
            self._touch(store, moved_slots)
        self._touch_large(store)

    def watch(self, store: ItemStore, touched: Any) -> None:
        """Note from now on which items are others, for the pools of segments."""
        self.touched = touched
        if self._levels is None and self._ungiven and self.prior is not None:  # strata are still those of groups
            a, strength = self.prior[:2]
            self._large = _tree.classes_of(self.table[CLASSES:], a / strength, strength)
        self._touch_large(store)

    def _touch(self, store: ItemStore, slots: Slots) -> None:
        """Note that these items are others now, for the pools of segments."""
        if self.touched is not None and slots.size:
            self.touched.note(store.state.items["key"][slots])

    def _touch_large(self, store: ItemStore) -> None:
        """Note the items of large groups whose prior is of another class now."""
        if self.touched is None or self._levels is None:
            return
        rows = self.table[CLASSES : CLASSES + self._owned * self._levels.width]
        large = _tree.classes_of(rows, self._levels.mean, self._levels.strength)
        before, self._large = self._large, large
        if large.size != before.size:
            self._changed = np.ones(large.size, np.bool_)
        elif not np.array_equal(large, before):
            self._changed |= large != before
        else:
            return
        self._unnoted = len(store)
        if self.most == _NO_LIMIT:
            self._note_large(store, self._unnoted)

    @property
    def relative(self) -> Floats:
        """Odds and strength of every stratum in steps of the classes, those of the pool's own prior taken as one."""
        return np.vstack([_RELATIVE, _RELATIVE[self._large]]) if self._large.size else _RELATIVE

    # Members ------------------------------------------------------------------------------------------

    def numbers(self, paths: list[Path], kinds: Any, tag_sets: list[frozenset[str]]) -> Nodes | None:
        """The groups of items with these paths and tag sets, by number, new ones made; None if none has or had any."""
        if len(paths) == 1 and not paths[0]:
            found = {kind: self._enter(tag_path(tag_sets[kind])) for kind in np.unique(kinds).tolist()}
            if not self._number:
                return None
            return np.array([found[kind] for kind in kinds.tolist()], np.int32)
        if len(paths) == 1:
            return np.full(kinds.size, self._enter(paths[0]), np.int32)
        named = [path or tag_path(tag_sets[kind]) for path, kind in zip(paths, kinds.tolist(), strict=True)]
        met = {path: self._enter(path) for path in dict.fromkeys(named)}
        return np.array([met[path] for path in named], np.int32) if self._number else None

    def join(
        self, store: ItemStore, slots: Slots, nodes: Nodes | None, scale: float, steps: Steps | None = None
    ) -> None:
        """Make items members of these groups, with factors in so many steps; they were members of none."""
        if nodes is None:
            if steps is None and not self._arrays.member.size:
                return
            nodes = np.full(slots.size, NONE, np.int32)
        first = self._fit_arrays(store)
        _tree.join(self._arrays, slots, nodes, np.zeros(slots.size, np.int32) if steps is None else steps)
        touched = np.unique(nodes[nodes != NONE])
        for g in touched.tolist():
            self._idle.pop(g, None)
        self._crowd(touched)
        if self._levels is not None and self._levels.width != self._width():
            first = True
        if first or (self._levels is None and self.prior is not None and (self.prior.shares or self.prior.effects)):
            self.refresh(store, scale)
        else:
            self.revise(store, slots, touched)

    def leave(self, store: ItemStore, slots: Slots, *, remember: bool) -> Nodes:
        """Let items be members no more; returns the groups that are to be settled by :meth:`settle`."""
        self._touch(store, slots)
        if not self._number:
            return _NO_NODES
        nodes = self._arrays.member["node"][slots]
        _tree.leave(self._arrays, store.state.items, slots, remember)
        return np.unique(nodes[nodes != NONE])

    def settle(self, store: ItemStore, nodes: Nodes) -> None:
        """Let these groups, whose members have left, have the effect that they now have; the empty ones end."""
        if not nodes.size:
            return
        self._crowd(nodes)
        self._end(store, nodes)
        while len(self._idle) > _MOST_IDLE and not self._given:
            self._forget(store, next(iter(self._idle)))

    def _end(self, store: ItemStore, nodes: Nodes) -> None:
        self.revise(store, _NO_SLOTS, nodes)
        fewer = [parent for g in nodes.tolist() for parent in self._prune(g)]
        if fewer:
            self.revise(store, _NO_SLOTS, np.array(fewer, np.int32))

    def standing(self, slots: Slots) -> tuple[Nodes, Steps]:
        """The group of each of these items by number, and their factors in steps."""
        nodes, steps = np.full(slots.size, NONE, np.int32), np.zeros(slots.size, np.int32)
        here = slots < self._arrays.member.size  # items beyond had neither group nor features
        nodes[here], steps[here] = (self._arrays.member[what][slots[here]] for what in ("node", "step"))
        return nodes, steps

    def marks(self, slots: Slots) -> npt.NDArray[np.uint64]:
        """The number that the group of each of these items has by its name; 0 for no group."""
        nodes, _ = self.standing(slots)
        grouped = nodes != NONE
        marks = np.zeros(slots.size, np.uint64)
        marks[grouped] = self._arrays.nodes["mark"][nodes[grouped]]
        return marks

    def compact(self, falling: Slots, count: int) -> None:
        """Follow the items, of which those at these places were taken out of so many."""
        self.lives.compact(falling, count)
        if self._arrays.member.size:
            _tree.compact(self._arrays, falling, count)

    def path(self, slot: int) -> Path:
        """The group of an item; no group where it has but tags."""
        g = int(self._arrays.member["node"][slot]) if self._number else NONE
        path = self.paths[g] if g != NONE else ()
        return path if path and "\0" not in path[0] else ()

    def ungrouped(self, slots: Slots) -> npt.NDArray[np.bool_]:
        """Which of these items have no group of their own, but at most tags."""
        return np.array([not self.path(slot) for slot in slots.tolist()], np.bool_)

    def set_departed(self, store: ItemStore, paths: list[Path], sums: Floats, scale: float) -> None:
        """Set what items that left each of these groups had: how many there were, impressions, rewards."""
        nodes = [self._enter(path) for path in paths]
        self._fit_arrays(store)
        for g, (gone, n, s) in zip(nodes, sums.T.tolist(), strict=True):
            if g != NONE:
                node = self._arrays.nodes[g]
                node["gone"], node["gone_n"], node["gone_s"] = gone, n, s
        touched = np.array(sorted({g for g in nodes if g != NONE}), np.int32)
        if self._levels is None and not self.unsettled:
            self.refresh(store, scale)
        self.settle(store, touched)

    def departed(self) -> dict[Path, tuple[float, float, float]]:
        """What items that left each group had: how many there were, impressions, rewards."""
        return {
            path: tuple(self._arrays.nodes[g][["gone", "gone_n", "gone_s"]].tolist())
            for path, g in self._number.items()
            if self._arrays.nodes[g]["gone_n"] > 0
        }

    # The fit ------------------------------------------------------------------------------------------

    def sample(self, store: ItemStore) -> tuple[Slots, Slots]:
        """Places of the items that shares are fitted to, those that :func:`~hellinger.policies.shares.sample` chooses.

        With the group of each, by number.
        """
        tree, used = self._arrays, self._used()
        bits = bits_for(int(tree.nodes["items"][used].sum()))
        drawn = np.empty(4 * SAMPLE, np.int64)
        while True:
            size = _tree.sampled(tree, store.state.items, used, bits, drawn)
            if size > drawn.size:
                drawn = np.empty(size, np.int64)
            elif size >= SAMPLE // 2 or bits == 0:
                break
            else:
                bits -= 1
        drawn = drawn[:size]
        return drawn, tree.member["node"][drawn].astype(np.int64)

    def _used(self) -> Nodes:
        """The numbers of all groups."""
        return np.array(list(self._number.values()), np.int32)

    def sums(self, scale: float) -> GroupSums:
        """The tree for a fit."""
        nodes = self._arrays.nodes[: len(self.paths)]
        parent, depth, mark = (nodes[column].astype(np.int64) for column in ("parent", "depth", "mark"))
        return GroupSums(parent, depth, mark, nodes["gone"].copy(), nodes["gone_n"] * scale, nodes["gone_s"] * scale)

    # State --------------------------------------------------------------------------------------------

    def blank(self, store: ItemStore) -> Membership:
        """The same groups with the same members; nothing is known of any."""
        other = Membership(given=self._given)
        if self._number:
            nodes = self._arrays.member["node"][: len(store)]
            met = {g: other._enter(self.paths[g] or ()) for g in np.unique(nodes[nodes != NONE]).tolist()}
            new = np.array([met.get(g, NONE) for g in nodes.tolist()], np.int32)
            other.join(store, np.arange(len(store)), new, 1.0)
        return other

    def state(self) -> dict[str, Any]:
        """Names of the groups, for a snapshot; the arrays are :meth:`arrays`."""
        return {"paths": self.paths, "idle": list(self._idle), "own": self._own, "owned": self._owned}

    def arrays(self, count: int) -> dict[str, Any]:
        """What a snapshot has to keep besides."""
        return {"member": self._arrays.member[:count], "nodes": self._arrays.nodes[: len(self.paths)]}

    def restore(self, state: dict[str, Any], member: Any, nodes: Any) -> None:
        """Go on from a snapshot."""
        self.paths = [None if path is None else tuple(path) for path in state["paths"]]
        self._number = {path: g for g, path in enumerate(self.paths) if path is not None}
        self._free = [g for g, path in enumerate(self.paths) if path is None]
        self._idle = dict.fromkeys(state["idle"])
        self._own, self._owned = state["own"], state["owned"]
        links, heads = np.empty(member.size, LINK), np.empty(nodes.size, HEAD)
        noted, moved = np.empty(nodes.size, np.int32), np.empty(member.size, np.int64)
        self._arrays = TreeArrays(member, nodes, links, heads, noted, moved)
        heads[:] = NO_HEAD
        telling = np.flatnonzero((member["node"] != NONE) & ((member["w"] != 0) | (member["y"] != 0)))
        if telling.size:
            _tree.relist(self._arrays, telling)

    def rescale(self, scale: float) -> None:
        """Follow stored counts that have been multiplied by this."""
        for column in ("gone_n", "gone_s"):
            self._arrays.nodes[column] *= scale

    def memory(self, count: int) -> int:
        """Bytes in use with so many items, names not counted."""
        if not self._arrays.member.size:
            return 0
        member, group = MEMBER.itemsize + LINK.itemsize + 8, TREE_NODE.itemsize + HEAD.itemsize + 4
        return int(count * member + len(self.paths) * group + self.table.nbytes)

    def explain(self) -> str:
        """The prior in words; nothing where none is learned."""
        if self.prior is None:
            return ""
        a, strength, *_ = self.prior
        shares = ", ".join(f"{share:.0%}" for share in self.prior.shares)
        text = f"; prior learned: Beta({a:.3g}, {strength - a:.3g})"
        if self.prior.effects is not None:
            text += f" times what {len(self.prior.effects.columns)} features tell"
        return text + (f", {shares} of the variance of click rates between groups" if shares and self._number else "")

    # Groups -------------------------------------------------------------------------------------------

    def _enter(self, path: Path) -> int:
        """The number of a group, made with those above it where there is none; NONE for no group."""
        if not path:
            return NONE
        found = self._number.get(path)
        if found is not None:
            return found
        parent = self._enter(path[:-1])
        if not self._free:
            self._free.append(len(self.paths))
            self.paths.append(None)
        g = self._free.pop()
        tree = self._arrays
        if g >= tree.nodes.size:
            nodes = grown(tree.nodes, g + 1)
            noted, heads = np.empty(nodes.size, np.int32), np.empty(nodes.size, HEAD)
            heads[: tree.heads.size] = tree.heads
            self._arrays = tree = tree._replace(nodes=nodes, heads=heads, noted=noted)
        node = tree.nodes[g]
        tree.heads[g] = NO_HEAD
        for name in TREE_NODE.names or ():
            node[name] = 0
        node["parent"], node["depth"], node["mark"] = parent, len(path), mark_of(path)
        node["first"] = node["child"] = node["next"] = node["last"] = node["stratum"] = NONE
        node["mean"] = node["known"] = UNLEARNED
        self.paths[g], self._number[path] = path, g
        if parent != NONE:
            above = tree.nodes[parent]
            node["next"] = above["child"]
            if above["child"] != NONE:
                tree.nodes[above["child"]]["last"] = g
            above["child"] = g
            above["children"] += 1
            head = tree.heads[parent]
            if above["children"] == MANY + 1:  # from now on all hear the same
                head["mean"] = head["known"] = UNLEARNED
            elif head["untold"]:  # those are counted from the first on, once the last has had its turn
                head["untold"] += 1
            self._idle.pop(parent, None)
        return g

    def _prune(self, g: int) -> list[int]:
        """End a group of which nothing is left, and those above it; one that is but remembered is idle.

        Returns the groups whose number of groups below has fallen to where these learn from it in another way.
        """
        fewer: list[int] = []
        while g != NONE:
            tree = self._arrays
            node = tree.nodes[g]
            if node["items"] > 0 or node["children"] > 0:
                break
            if node["gone_n"] > 0:
                self._idle.setdefault(g)
                break
            path, parent = self.paths[g], int(node["parent"])
            if path is None:
                break
            del self._number[path]
            self._idle.pop(g, None)
            self._waiting.pop(g, None)
            self.paths[g] = None
            self._free.append(g)
            if parent != NONE:
                above = tree.nodes[parent]
                if tree.heads[parent]["turn"] == g:
                    tree.heads[parent]["turn"] = node["next"]
                if node["last"] != NONE:
                    tree.nodes[node["last"]]["next"] = node["next"]
                else:
                    above["child"] = node["next"]
                if node["next"] != NONE:
                    tree.nodes[node["next"]]["last"] = node["last"]
                above["children"] -= 1
                above["w"] -= node["sent"]  # where groups tell nothing now, it has not taken back what it once sent
                above["y"] -= node["sent_y"]
                if above["children"] == MANY:
                    fewer.append(parent)
            g = parent
        return [parent for parent in fewer if self.paths[parent] is not None]

    def _forget(self, store: ItemStore, g: int) -> None:
        node = self._arrays.nodes[g]
        node["gone"] = node["gone_n"] = node["gone_s"] = 0.0
        self._end(store, np.array([g], np.int32))

    def drop(self, nodes: Nodes | None) -> None:
        """End those of these groups that have been made in vain."""
        for g in [] if nodes is None else np.unique(nodes[nodes != NONE]).tolist():
            self._prune(g)

    def _crowd(self, nodes: Nodes) -> None:
        """Give groups that have become large a stratum of their own, and take it from those that no longer are."""
        column = self._arrays.nodes
        for g in nodes.tolist():
            large, has = column[g]["items"] > CROWD, column[g]["stratum"] != NONE
            if large and not has:
                if not self._own:
                    most = f"at most {_MOST_OWN} groups of more than {CROWD} items"
                    require(self._owned < _MOST_OWN, most, groups=self._owned + 1)
                    self._own.append(CLASSES + self._owned)
                    self._owned += 1
                    if self._levels is not None:
                        more = max(self._levels.width, len(self.table) // 8)
                        self.table = np.vstack([self.table, np.tile((0.0, 0.0, 0.0, 1.0), (more, 1))])
                column[g]["stratum"] = self._own.pop()
            elif has and not large:
                self._own.append(int(column[g]["stratum"]))
                column[g]["stratum"] = NONE

    def _fit_arrays(self, store: ItemStore) -> bool:
        """Have room for every place of the pool; returns whether there was none before."""
        tree, size = self._arrays, len(store)
        first = bool(tree.member.size == 0)
        if tree.member.size < size or tree.moved.size < tree.member.size:
            before = tree.member.size
            member = grown(tree.member, store.state.items.size if first else size, scattered=True)
            member["node"][before:size], member["step"][before:size] = NONE, 0  # one that comes later is joined
            links = grown(tree.links, member.size, scattered=True)
            self._arrays = tree._replace(member=member, links=links, moved=np.empty(member.size, np.int64))
        return first

    def __iter__(self) -> Iterator[Path]:
        """Every group that has or had items."""
        return iter(self._number)


def listed_groups(group: GroupLike | Iterable[GroupLike]) -> GroupLike | list[GroupLike]:
    """Groups that can be gone through more than once."""
    return group if group is None or isinstance(group, (str, tuple)) else list(group)
