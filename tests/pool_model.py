"""A pool that looks at everything: what the real one must agree with."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from hellinger import Pool
from hellinger.pool import Ranked, _scan
from hellinger.pool._layout import CELLS, NODE, OWNER_SHIFT, PLACE_BITS, TREE, ItemArrays


@dataclass
class Content:
    n: float = 0.0
    s: float = 0.0
    tags: frozenset[str] = frozenset()
    hidden: bool = False


@dataclass
class Model:
    """Contents in order of age, and the round."""

    contents: dict[int | str, Content] = field(default_factory=dict)
    rounds: float = 0.0

    def index(self, pool: Pool) -> npt.NDArray[np.float64]:
        """Every content's index, by the policy's own array method."""
        n = np.array([content.n for content in self.contents.values()])
        s = np.array([content.s for content in self.contents.values()])
        t = self.rounds + 1.0
        if pool.prior is not None:  # test_pool_groups holds the pseudo-counts to the mathematics of groups
            pseudo = np.array([pool.stats(name).prior for name in self.contents]).reshape(-1, 2)
            out = np.empty(n.size)
            t = n.sum() * pool.prior.focus + 1.0
            weight = np.sqrt(np.maximum(pseudo[:, 1] / pool.prior.strength, 1.0))  # where groups make a prior strong
            s, n = (s + pseudo[:, 0]) * weight, (n + pseudo[:, 1]) * weight
            _scan.score_counts(pool.policy.rule, s, n, t, float(len(self.contents)), out)
            return out
        rng = np.random.default_rng([pool.seed, pool._version])
        return pool.policy.index(s, n, t=t, rng=rng)

    def check(
        self,
        pool: Pool,
        ranked: list[Ranked],
        k: int,
        index: npt.NDArray[np.float64],
        *,
        exclude: Iterable[int | str] = (),
        tags: Iterable[str] | None = None,
        among: Iterable[int | str] | None = None,
    ) -> None:
        """The ranking is that of a sort of all eligible contents."""
        wanted = None if tags is None else set(tags)
        left = None if among is None else set(among)
        eligible = [
            (name, score, content)
            for (name, content), score in zip(self.contents.items(), index.tolist(), strict=True)
            if not content.hidden
            and name not in set(exclude)
            and (wanted is None or wanted & content.tags)
            and (left is None or name in left)
        ]
        best = sorted(eligible, key=lambda entry: -entry[1])[:k]  # stable: the oldest of equals comes first
        assert [content.score for content in ranked] == [score for _, score, _ in best]
        assert len({content.id for content in ranked}) == len(ranked)
        truth = {name: (score, content.n, content.s) for name, score, content in eligible}
        assert all(truth[r.id] == (r.score, r.impressions, r.rewards) for r in ranked)
        if pool.ties == "oldest":
            assert [content.id for content in ranked] == [name for name, _, _ in best]


def rebuilt(pool: Pool, rng: np.random.Generator, **options: Any) -> Pool:
    """A pool with the same items, departed ones and prior, that has seen nothing else."""
    other = Pool(pool.policy, ties=pool.ties, seed=pool.seed + 1, learn="given", **options)
    items = pool._store.items
    names = pool._store.ids.of(pool._store.state.items, np.arange(len(pool)))
    for part in np.array_split(rng.permutation(len(pool)), 2):
        some = items[part]
        tags = [sorted(pool._tags.sets[number]) for number in some["tags"].tolist()]
        other.add([names[j] for j in part], some["n"], some["s"], tags=tags or (), order=some["seq"])
    other.hide([name for name, hidden in zip(names, items["hidden"].tolist(), strict=True) if hidden])
    if departed := pool._members.departed():
        other._members.set_departed(other._store, list(departed), np.array(list(departed.values())).T, 1.0)
    other.rounds = pool.rounds
    if pool.prior is not None:
        other.prior = pool.prior
    return other


def check_cells(pool: Pool) -> int:
    """Every visible item is in the cell of its counts, in order of arrival; returns the height of the tallest tree."""
    st = pool._store.state
    items = pool._store.items
    seen: list[int] = []
    tallest = 0
    for number in np.flatnonzero(st.cells["size"][: st.meta[CELLS]] > 0).tolist():
        cell = st.cells[number]
        group = st.groups[cell["owner"] >> OWNER_SHIFT]
        kind = int(cell["owner"]) & ((1 << OWNER_SHIFT) - 1)
        if kind == 0:
            entries = [int(items["seq"][cell["start"]]) << PLACE_BITS | int(cell["start"])]
        else:
            entries = _entries(st, int(cell["start"]), max(kind - TREE, 0), int(cell["size"]), 0, 1 << 62)
            tallest = max(tallest, kind - TREE)
        assert len(entries) == cell["size"]
        assert entries == sorted(entries)
        places = np.array(entries) & ((1 << PLACE_BITS) - 1)
        assert (items["seq"][places] == np.array(entries) >> PLACE_BITS).all()
        assert (items["cell"][places] == number).all()
        assert (items["n"][places] == cell["n"]).all()
        assert (items["s"][places] == group["s"]).all()
        seen += places.tolist()
    assert sorted(seen) == np.flatnonzero(items["hidden"] == 0).tolist()
    return tallest


def _entries(st: ItemArrays, node: int, height: int, count: int, low: int, high: int) -> list[int]:
    """The entries below a node, which must lie between two bounds and be as many as its parent says."""
    if height == 0:
        found: list[int] = st.arena[node : node + count].tolist()
        assert all(low <= entry < high for entry in found)
        return found
    fan = 1 << (int(st.meta[NODE]) - 1)
    rows = int(st.arena[node])
    assert 1 <= rows <= fan
    bounds = [low, *st.arena[node + 1 : node + rows].tolist(), high]
    found = []
    for child, *between in zip(st.arena[node + fan : node + fan + rows].tolist(), bounds, bounds[1:], strict=False):
        bits = PLACE_BITS + 1
        found += _entries(st, child >> bits, height - 1, child & ((1 << bits) - 1), *between)
    assert len(found) == count
    return found
