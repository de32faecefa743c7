"""The first items of an order among those that are there, ranking by ranking: those that come, go and are left out.

Those that are there are the leaves of a binary tree over the order, whose nodes count them: one that comes or goes
changes as many nodes as the tree has levels, and so many steps lead from one that is there to the next.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hellinger._jit import helper, jit

__all__ = ["ItemLists", "Tops"]

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


@helper
def _count(tree: Ints, rank: int, by: int) -> None:
    node = rank + tree.size // 2
    while node >= 1:
        tree[node] += by
        node //= 2


@helper
def _next(tree: Ints, rank: int) -> int:
    """The first rank from this one on that is there; −1 where there is none."""
    leaves = tree.size // 2
    if rank >= leaves:
        return -1
    node = rank + leaves
    if tree[node] == 0:
        while node > 1 and (node % 2 == 1 or tree[node + 1] == 0):
            node //= 2
        if node <= 1:
            return -1
        node += 1
        while node < leaves:
            node *= 2
            if tree[node] == 0:
                node += 1
    return node - leaves


@helper
def _top(tree: Ints, best: Ints, banned: Ints, mark: int, top: Ints) -> int:
    """Fill ``top`` with the first that are there and not banned; how many."""
    count, rank = 0, _next(tree, 0)
    while rank >= 0 and count < top.size:
        if banned[best[rank]] != mark:
            top[count] = best[rank]
            count += 1
        rank = _next(tree, rank + 1)
    return count


@helper
def _top_among(tree: Ints, best: Ints, rank_of: Ints, banned: Ints, mark: int, among: Ints, top: Ints) -> int:
    """The same among some items."""
    ranks, found = np.empty(among.size, np.int64), 0
    for item in among:
        rank = rank_of[item]
        if rank >= 0 and tree[rank + tree.size // 2] > 0 and banned[item] != mark:
            banned[item] = mark  # it may be listed twice
            ranks[found] = rank
            found += 1
    ranks = np.sort(ranks[:found])
    count = min(found, top.size)
    for j in range(count):
        top[j] = best[ranks[j]]
    return count


@jit
def _fill(
    tree: Ints,
    best: Ints,
    rank_of: Ints,
    comes: tuple[Ints, Ints],
    goes: tuple[Ints, Ints],
    cursor: Ints,
    banned: Ints,
    slots: int,
    rows: tuple[Ints, Ints, Ints],
    exclude: tuple[Ints, Ints],
    among: tuple[npt.NDArray[np.bool_], Ints, Ints],
    out: tuple[Ints, Ints],
) -> None:
    first, item, position = rows
    where, there = out
    place = np.zeros(rank_of.size, np.int64)
    top, count, stale = np.empty(slots, np.int64), 0, True
    for ranking in range(first.size - 1):
        number = cursor[2]
        while cursor[0] < comes[0].size and comes[0][cursor[0]] <= number:
            _count(tree, comes[1][cursor[0]], 1)
            cursor[0] += 1
            stale = True
        while cursor[1] < goes[0].size and goes[0][cursor[1]] < number:
            _count(tree, goes[1][cursor[1]], -1)
            cursor[1] += 1
            stale = True
        begin, end = exclude[0][ranking], exclude[0][ranking + 1]
        own = end > begin or among[0][ranking]
        if stale or own:
            for j in range(count):
                place[top[j]] = 0
            for j in range(begin, end):
                banned[exclude[1][j]] = number
            if among[0][ranking]:
                kept = among[2][among[1][ranking] : among[1][ranking + 1]]
                count = _top_among(tree, best, rank_of, banned, number, kept, top)
            else:
                count = _top(tree, best, banned, number, top)
            for j in range(count):
                place[top[j]] = j + 1
            stale = own
        for row in range(first[ranking], first[ranking + 1]):
            found = place[item[row]]
            where[row] = found if found <= first[ranking + 1] - first[ranking] else 0
            there[row] = top[position[row] - 1] if position[row] <= count else -1
        cursor[2] += 1


class ItemLists(NamedTuple):
    """A list of items for each ranking, one after the other."""

    given: Flags
    """Whether the ranking has a list at all."""
    first: Ints
    """Where each ranking's list begins, and where the last one ends."""
    item: Ints

    def cut(self, begin: int, end: int) -> ItemLists:
        """The rankings from one number to before another."""
        first = self.first[begin : end + 1]
        return ItemLists(self.given[begin:end], first - first[0], self.item[first[0] : first[-1]])

    @classmethod
    def none(cls, rankings: int) -> ItemLists:
        """No list for any of so many rankings."""
        return cls(np.zeros(rankings, bool), np.zeros(rankings + 1, np.int64), np.zeros(0, np.int64))


class Tops:
    """Where an order has each item, and what it has at each position, as a log goes on.

    Parameters
    ----------
    best
        Items, the best first.
    born, gone
        The rankings in which each item of the log is there first and last.
    slots
        The most positions.
    """

    def __init__(self, best: Ints, born: Ints, gone: Ints, slots: int) -> None:
        self._best, self._slots = best, slots
        self._rank_of = np.full(born.size, -1, np.int64)
        self._rank_of[best] = np.arange(best.size)
        self._comes, self._goes = _ordered(born[best]), _ordered(gone[best])
        self._begin()

    def _begin(self) -> None:
        leaves = 1 << max(self._best.size - 1, 1).bit_length()
        self._tree = np.zeros(2 * leaves, np.int64)
        self._banned = np.full(self._rank_of.size, -1, np.int64)
        self._cursor = np.zeros(3, np.int64)
        """How many have come and gone, and the number of the next ranking."""

    def follow(
        self, before: int, first: Ints, item: Ints, position: Ints, exclude: ItemLists, among: ItemLists
    ) -> tuple[Ints, Ints]:
        """For each row where the order has its item, 0 for nowhere, and what it has at its position, −1 for nothing.

        Parameters
        ----------
        before
            Rankings before these, in the order of time; who begins again begins with the first.
        first
            The first row of each ranking.
        item, position
            Of each row.
        exclude, among
            Of each ranking.

        Examples
        --------
        Three items, of which the last one, the best, comes with the second ranking.

        >>> tops = Tops(np.array([2, 0, 1]), np.array([0, 0, 1]), np.array([9, 9, 9]), 2)
        >>> none = ItemLists.none(2)
        >>> tops.follow(0, np.array([0, 2]), np.array([0, 1, 0, 1]), np.array([1, 2, 1, 2]), none, none)
        (array([1, 2, 2, 0]), array([0, 1, 2, 0]))
        """
        if before < self._cursor[2]:
            self._begin()
        self._cursor[2] = before
        out = np.zeros(item.size, np.int64), np.full(item.size, -1, np.int64)
        _fill(
            self._tree,
            self._best,
            self._rank_of,
            self._comes,
            self._goes,
            self._cursor,
            self._banned,
            self._slots,
            (np.append(first, item.size), item, position),
            (exclude.first, exclude.item),
            (among.given, among.first, among.item),
            out,
        )
        return out


def _ordered(ends: Ints) -> tuple[Ints, Ints]:
    """Ends in the order of time, and whose they are."""
    order = np.argsort(ends).astype(np.int64)
    return ends[order], order
