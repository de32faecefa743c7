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
from hellinger.pool._tree import CLASSES, CROWD, MEMBER, TREE_NODE, Levels, TreeArrays

__all__ = ["GroupLike", "Membership", "listed_groups", "paths_of"]

GroupLike: TypeAlias = str | tuple[str, ...] | None
"""A group: its name, or those of the groups above it and its own, broad to narrow; None for no group."""

Nodes = npt.NDArray[np.int32]
_NO_NODES = np.empty(0, np.int32)
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
        self._arrays = TreeArrays(np.empty(0, MEMBER), np.empty(0, TREE_NODE), none, np.empty(0, np.int64))
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
            min(len(store), self._arrays.member.size),
        )
        store.settle(self._arrays.moved[:moved].copy())

    def revise(self, store: ItemStore, slots: Slots, nodes: Nodes = _NO_NODES) -> None:
        """Bring priors up to date after these items' counts and these groups have changed."""
        if self._levels is None:
            return
        if slots.size and int(slots.max()) >= self._arrays.member.size:  # items beyond were never of a group
            slots = slots[slots < self._arrays.member.size]
        query = self._arrays, store.state.items, self._levels, self.table, slots, nodes
        if self._revise is None:
            self._revise = entry(_tree.revise, *query)
        moved = self._revise(*query)
        if moved:
            store.settle(self._arrays.moved[:moved].copy())

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

    def join(self, store: ItemStore, slots: Slots, nodes: Nodes | None, scale: float) -> None:
        """Make items members of these groups; they were members of none."""
        if nodes is None:
            return
        first = self._fit_arrays(store)
        _tree.join(self._arrays, slots, nodes)
        touched = np.unique(nodes[nodes != NONE])
        for g in touched.tolist():
            self._idle.pop(g, None)
        self._crowd(touched)
        if first or (self._levels is None and self.prior is not None and self.prior.shares):
            self.refresh(store, scale)
        else:
            self.revise(store, slots, touched)

    def leave(self, store: ItemStore, slots: Slots, *, remember: bool) -> Nodes:
        """Let items be members no more; returns the groups that are to be settled by :meth:`settle`."""
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
        self.revise(store, _NO_SLOTS, nodes)
        for g in nodes.tolist():
            self._prune(g)
        while len(self._idle) > _MOST_IDLE:
            self._forget(store, next(iter(self._idle)))

    def compact(self, falling: Slots, count: int) -> None:
        """Follow the items, of which those at these places were taken out of so many."""
        if self._number:
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
        if self._levels is None:
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
        other = Membership()
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
        noted, moved = np.empty(nodes.size, np.int32), np.empty(member.size, np.int64)
        self._arrays = TreeArrays(member, nodes, noted, moved)

    def rescale(self, scale: float) -> None:
        """Follow stored counts that have been multiplied by this."""
        for column in ("gone_n", "gone_s"):
            self._arrays.nodes[column] *= scale

    def memory(self, count: int) -> int:
        """Bytes in use with so many items, names not counted."""
        if not self._number:
            return 0
        return int(count * (MEMBER.itemsize + 8) + len(self.paths) * (TREE_NODE.itemsize + 4) + self.table.nbytes)

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
        if g >= tree.nodes.size:
            nodes = grown(tree.nodes, g + 1)
            self._arrays = tree = tree._replace(nodes=nodes, noted=np.empty(nodes.size, np.int32))
        node = tree.nodes[g]
        for name in TREE_NODE.names or ():
            node[name] = 0
        node["parent"], node["depth"], node["mark"] = parent, len(path), mark_of(path)
        node["first"] = node["child"] = node["next"] = node["last"] = node["stratum"] = NONE
        node["mean"] = node["known"] = -(1 << 20)  # to be learned
        self.paths[g], self._number[path] = path, g
        if parent != NONE:
            above = tree.nodes[parent]
            node["next"] = above["child"]
            if above["child"] != NONE:
                tree.nodes[above["child"]]["last"] = g
            above["child"] = g
            above["children"] += 1
            self._idle.pop(parent, None)
        return g

    def _prune(self, g: int) -> None:
        """End a group of which nothing is left, and those above it; one that is but remembered is idle."""
        while g != NONE:
            tree = self._arrays
            node = tree.nodes[g]
            if node["items"] > 0 or node["children"] > 0:
                return
            if node["gone_n"] > 0:
                self._idle.setdefault(g)
                return
            path, parent = self.paths[g], int(node["parent"])
            if path is None:
                return
            del self._number[path]
            self._idle.pop(g, None)
            self.paths[g] = None
            self._free.append(g)
            if parent != NONE:
                above = tree.nodes[parent]
                if node["last"] != NONE:
                    tree.nodes[node["last"]]["next"] = node["next"]
                else:
                    above["child"] = node["next"]
                if node["next"] != NONE:
                    tree.nodes[node["next"]]["last"] = node["last"]
                above["children"] -= 1
            g = parent

    def _forget(self, store: ItemStore, g: int) -> None:
        node = self._arrays.nodes[g]
        node["gone"] = node["gone_n"] = node["gone_s"] = 0.0
        self.revise(store, _NO_SLOTS, np.array([g], np.int32))
        self._prune(g)

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
                        self.table = np.vstack([self.table, np.zeros((max(1, len(self.table) // 8), 2))])
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
            member = grown(tree.member, store.state.items.size if first else size)
            member["node"][before:] = NONE
            self._arrays = tree._replace(member=member, moved=np.empty(member.size, np.int64))
        return first

    def __iter__(self) -> Iterator[Path]:
        """Every group that has or had items."""
        return iter(self._number)


def listed_groups(group: GroupLike | Iterable[GroupLike]) -> GroupLike | list[GroupLike]:
    """Groups that can be gone through more than once."""
    return group if group is None or isinstance(group, (str, tuple)) else list(group)
