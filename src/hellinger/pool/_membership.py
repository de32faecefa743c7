"""Groups by their paths: who is a member, what those that left had achieved, and every item's prior from it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
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
from hellinger.pool._store import Floats, ItemStore, Slots
from hellinger.pool._tree import CLASSES, CROWD, KIN, KNOT, Levels, TreeArrays

__all__ = ["GroupLike", "Membership", "listed_groups", "paths_of"]

GroupLike: TypeAlias = str | tuple[str, ...] | None
"""A group: its name, or those of the groups above it and its own, broad to narrow; None for no group."""

Knots = npt.NDArray[np.int32]
_NO_KNOTS = np.empty(0, np.int32)
_NO_SLOTS = np.empty(0, np.int64)
_MOST_OWN = (1 << 15) - CLASSES
_MOST_IDLE = 1 << 16
"""Groups without items that are remembered for what their items had; of more, those empty for longest are forgotten."""


def paths_of(group: GroupLike | Sequence[GroupLike], count: int) -> list[Path]:
    """The groups as given, by their paths: one for all, or one for each of so many."""
    if isinstance(group, (str, tuple)) or not isinstance(group, Iterable):
        return [_path(group)]
    listed = list(group)
    if len(listed) != count:
        raise InputError(f"`group` must be one for all or one for each of {count} ids, but got {len(listed)}")
    return [_path(each) for each in listed]


def _path(group: Any) -> Path:
    path = () if group is None else (group,) if isinstance(group, str) else group
    named = isinstance(path, tuple) and all(isinstance(name, str) and name and "\0" not in name for name in path)
    require(named, "a group is a name that is not empty, or a tuple of such", group=group)
    require(len(path) <= MOST_LEVELS, f"a group has at most {MOST_LEVELS} levels", group=group)
    return path


class Membership:
    """The groups of a pool, and the pseudo-counts of every stratum: of each class of priors, and of large groups."""

    def __init__(self) -> None:
        self.prior: Prior | None = None
        self.table: Floats = np.zeros((1, 2))
        """Pseudo-counts a and a + b by stratum; zeros where no prior is learned."""
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
        none = np.empty(0, np.int32)
        self._arrays = TreeArrays(np.empty(0, KIN), np.empty(0, KNOT), none, np.empty(0, np.int64))
        self._revise: Any = None

    def __len__(self) -> int:
        return len(self._number)

    # The prior ----------------------------------------------------------------------------------------

    def set_prior(self, prior: Prior | None, store: ItemStore, scale: float) -> None:
        """Let every item have what this prior and its group say."""
        self.prior = prior
        self.refresh(store, scale)

    def refresh(self, store: ItemStore, scale: float) -> None:
        """Work out every item's prior anew."""
        prior = self.prior
        if prior is None:
            return
        if not prior.shares or not self._number:
            self.table = np.array([prior[:2]])
            if self._levels is not None:
                self._levels = None
                moved = np.flatnonzero(store.items["stratum"])
                store.items["stratum"][moved] = 0
                store.settle(moved)
            return
        shares = np.zeros(MOST_LEVELS + 1)
        shares[1 : 1 + len(prior.shares)] = prior.shares
        rest = np.maximum(1.0 - np.cumsum(shares), 0.0)
        self._levels = Levels(
            prior.a / prior.strength, prior.strength, shares / prior.strength, rest / prior.strength, scale
        )
        self.table = _tree.class_table(prior.a / prior.strength, prior.strength, CLASSES + self._owned)
        self.table[0] = prior[:2]
        moved = _tree.refresh(
            self._arrays,
            store.state.items,
            self._levels,
            self.table,
            self._used(),
            min(len(store), self._arrays.kin.size),
        )
        store.settle(self._arrays.moved[:moved].copy())

    def revise(self, store: ItemStore, slots: Slots, knots: Knots = _NO_KNOTS) -> None:
        """Bring priors up to date after these items' counts and these groups have changed."""
        if self._levels is None:
            return
        if slots.size and int(slots.max()) >= self._arrays.kin.size:  # items beyond were never of a group
            slots = slots[slots < self._arrays.kin.size]
        query = self._arrays, store.state.items, self._levels, self.table, slots, knots
        if self._revise is None:
            self._revise = entry(_tree.revise, *query)
        moved = self._revise(*query)
        if moved:
            store.settle(self._arrays.moved[:moved].copy())

    # Members ------------------------------------------------------------------------------------------

    def numbers(self, paths: list[Path], kinds: Any, tag_sets: list[frozenset[str]]) -> Knots | None:
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

    def join(self, store: ItemStore, slots: Slots, knots: Knots | None, scale: float) -> None:
        """Make items members of these groups; they were members of none."""
        if knots is None:
            return
        first = self._fit_arrays(store)
        _tree.join(self._arrays, slots, knots)
        touched = np.unique(knots[knots != NONE])
        for g in touched.tolist():
            self._idle.pop(g, None)
        self._crowd(touched)
        if first or (self._levels is None and self.prior is not None and self.prior.shares):
            self.refresh(store, scale)
        else:
            self.revise(store, slots, touched)

    def leave(self, store: ItemStore, slots: Slots, *, remember: bool) -> Knots:
        """Let items be members no more; returns the groups that are to be settled by :meth:`settle`."""
        if not self._number:
            return _NO_KNOTS
        knots = self._arrays.kin["knot"][slots]
        _tree.leave(self._arrays, store.state.items, slots, remember)
        return np.unique(knots[knots != NONE])

    def settle(self, store: ItemStore, knots: Knots) -> None:
        """Let these groups, whose members have left, have the effect that they now have; the empty ones end."""
        if not knots.size:
            return
        self._crowd(knots)
        self.revise(store, _NO_SLOTS, knots)
        for g in knots.tolist():
            self._prune(g)
        while len(self._idle) > _MOST_IDLE:
            self._forget(store, next(iter(self._idle)))

    def compact(self, falling: Slots, count: int) -> None:
        """Follow the items, of which those at these places were taken out of so many."""
        if self._number:
            _tree.compact(self._arrays, falling, count)

    def path(self, slot: int) -> Path:
        """The group of an item; no group where it has but tags."""
        g = int(self._arrays.kin["knot"][slot]) if self._number else NONE
        path = self.paths[g] if g != NONE else ()
        return path if path and "\0" not in path[0] else ()

    def ungrouped(self, slots: Slots) -> npt.NDArray[np.bool_]:
        """Which of these items have no group of their own, but at most tags."""
        return np.array([not self.path(slot) for slot in slots.tolist()], np.bool_)

    def set_departed(self, store: ItemStore, paths: list[Path], sums: Floats, scale: float) -> None:
        """Set what items that left each of these groups had: how many there were, impressions, rewards."""
        knots = [self._enter(path) for path in paths]
        self._fit_arrays(store)
        for g, (gone, n, s) in zip(knots, sums.T.tolist(), strict=True):
            if g != NONE:
                knot = self._arrays.knots[g]
                knot["gone"], knot["gone_n"], knot["gone_s"] = gone, n, s
        touched = np.array(sorted({g for g in knots if g != NONE}), np.int32)
        if self._levels is None:
            self.refresh(store, scale)
        self.settle(store, touched)

    def departed(self) -> dict[Path, tuple[float, float, float]]:
        """What items that left each group had: how many there were, impressions, rewards."""
        return {
            path: tuple(self._arrays.knots[g][["gone", "gone_n", "gone_s"]].tolist())
            for path, g in self._number.items()
            if self._arrays.knots[g]["gone_n"] > 0
        }

    # The fit ------------------------------------------------------------------------------------------

    def sample(self, store: ItemStore) -> tuple[Slots, Slots]:
        """Places of the items that shares are fitted to, those that :func:`~hellinger.policies.shares.sample` chooses.

        With the group of each, by number.
        """
        tree, used = self._arrays, self._used()
        bits = bits_for(int(tree.knots["items"][used].sum()))
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
        return drawn, tree.kin["knot"][drawn].astype(np.int64)

    def _used(self) -> Knots:
        """The numbers of all groups."""
        return np.array(list(self._number.values()), np.int32)

    def sums(self, scale: float) -> GroupSums:
        """The tree for a fit."""
        knots = self._arrays.knots[: len(self.paths)]
        parent, depth, mark = (knots[column].astype(np.int64) for column in ("parent", "depth", "mark"))
        return GroupSums(parent, depth, mark, knots["gone"].copy(), knots["gone_n"] * scale, knots["gone_s"] * scale)

    # State --------------------------------------------------------------------------------------------

    def blank(self, store: ItemStore) -> Membership:
        """The same groups with the same members; nothing is known of any."""
        other = Membership()
        if self._number:
            knots = self._arrays.kin["knot"][: len(store)]
            met = {g: other._enter(self.paths[g] or ()) for g in np.unique(knots[knots != NONE]).tolist()}
            new = np.array([met.get(g, NONE) for g in knots.tolist()], np.int32)
            other.join(store, np.arange(len(store)), new, 1.0)
        return other

    def state(self) -> dict[str, Any]:
        """Names of the groups, for a snapshot; the arrays are :meth:`arrays`."""
        return {"paths": self.paths, "idle": list(self._idle), "own": self._own, "owned": self._owned}

    def arrays(self, count: int) -> dict[str, Any]:
        """What a snapshot has to keep besides."""
        return {"kin": self._arrays.kin[:count], "knots": self._arrays.knots[: len(self.paths)]}

    def restore(self, state: dict[str, Any], kin: Any, knots: Any) -> None:
        """Go on from a snapshot."""
        self.paths = [None if path is None else tuple(path) for path in state["paths"]]
        self._number = {path: g for g, path in enumerate(self.paths) if path is not None}
        self._free = [g for g, path in enumerate(self.paths) if path is None]
        self._idle = dict.fromkeys(state["idle"])
        self._own, self._owned = state["own"], state["owned"]
        noted, moved = np.empty(knots.size, np.int32), np.empty(kin.size, np.int64)
        self._arrays = TreeArrays(kin, knots, noted, moved)

    def rescale(self, scale: float) -> None:
        """Follow stored counts that have been multiplied by this."""
        for column in ("gone_n", "gone_s"):
            self._arrays.knots[column] *= scale

    def memory(self, count: int) -> int:
        """Bytes in use with so many items, names not counted."""
        if not self._number:
            return 0
        return int(count * (KIN.itemsize + 8) + len(self.paths) * (KNOT.itemsize + 4) + self.table.nbytes)

    def explain(self) -> str:
        """The prior in words; nothing where none is learned."""
        if self.prior is None:
            return ""
        a, strength, *_ = self.prior
        shares = ", ".join(f"{share:.0%}" for share in self.prior.shares)
        text = f"; prior learned: Beta({a:.3g}, {strength - a:.3g})"
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
        if g >= tree.knots.size:
            knots = grown(tree.knots, g + 1)
            self._arrays = tree = tree._replace(knots=knots, noted=np.empty(knots.size, np.int32))
        knot = tree.knots[g]
        for name in KNOT.names or ():
            knot[name] = 0
        knot["parent"], knot["depth"], knot["mark"] = parent, len(path), mark_of(path)
        knot["first"] = knot["child"] = knot["next"] = knot["last"] = knot["stratum"] = NONE
        knot["mean"] = knot["known"] = -(1 << 20)  # to be learned
        self.paths[g], self._number[path] = path, g
        if parent != NONE:
            above = tree.knots[parent]
            knot["next"] = above["child"]
            if above["child"] != NONE:
                tree.knots[above["child"]]["last"] = g
            above["child"] = g
            above["children"] += 1
            self._idle.pop(parent, None)
        return g

    def _prune(self, g: int) -> None:
        """End a group of which nothing is left, and those above it; one that is but remembered is idle."""
        while g != NONE:
            tree = self._arrays
            knot = tree.knots[g]
            if knot["items"] > 0 or knot["children"] > 0:
                return
            if knot["gone_n"] > 0:
                self._idle.setdefault(g)
                return
            path, parent = self.paths[g], int(knot["parent"])
            if path is None:
                return
            del self._number[path]
            self._idle.pop(g, None)
            self.paths[g] = None
            self._free.append(g)
            if parent != NONE:
                above = tree.knots[parent]
                if knot["last"] != NONE:
                    tree.knots[knot["last"]]["next"] = knot["next"]
                else:
                    above["child"] = knot["next"]
                if knot["next"] != NONE:
                    tree.knots[knot["next"]]["last"] = knot["last"]
                above["children"] -= 1
            g = parent

    def _forget(self, store: ItemStore, g: int) -> None:
        knot = self._arrays.knots[g]
        knot["gone"] = knot["gone_n"] = knot["gone_s"] = 0.0
        self.revise(store, _NO_SLOTS, np.array([g], np.int32))
        self._prune(g)

    def drop(self, knots: Knots | None) -> None:
        """End those of these groups that have been made in vain."""
        for g in [] if knots is None else np.unique(knots[knots != NONE]).tolist():
            self._prune(g)

    def _crowd(self, knots: Knots) -> None:
        """Give groups that have become large a stratum of their own, and take it from those that no longer are."""
        column = self._arrays.knots
        for g in knots.tolist():
            large, has = column[g]["items"] > CROWD, column[g]["stratum"] != NONE
            if large and not has:
                if not self._own:
                    most = f"at most {_MOST_OWN} groups of more than {CROWD} items"
                    require(self._owned < _MOST_OWN, most, groups=self._owned + 1)
                    self._own.append(CLASSES + self._owned)
                    self._owned += 1
                    if self._levels is not None:
                        self.table = np.vstack([self.table, np.zeros((max(1, len(self.table) // 8), 2))])
                column[g]["stratum"] = self._own.pop()
            elif has and not large:
                self._own.append(int(column[g]["stratum"]))
                column[g]["stratum"] = NONE

    def _fit_arrays(self, store: ItemStore) -> bool:
        """Have room for every place of the pool; returns whether there was none before."""
        tree, size = self._arrays, len(store)
        first = bool(tree.kin.size == 0)
        if tree.kin.size < size or tree.moved.size < tree.kin.size:
            kin = grown(tree.kin, store.state.items.size if first else size)
            if first:
                kin["knot"][:size] = NONE
            self._arrays = tree._replace(kin=kin, moved=np.empty(kin.size, np.int64))
        return first

    def __iter__(self) -> Iterator[Path]:
        """Every group that has or had items."""
        return iter(self._number)


def listed_groups(group: GroupLike | Iterable[GroupLike]) -> GroupLike | list[GroupLike]:
    """Groups that can be gone through more than once."""
    return group if group is None or isinstance(group, (str, tuple)) else list(group)
