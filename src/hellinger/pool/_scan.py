"""The plain way: score every item, keep the best k. For rules that cannot be grouped, and short lists."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from hellinger._jit import helper, jit
from hellinger.policies import _dispatch as d
from hellinger.pool._groups import mix, pulls
from hellinger.pool._layout import COUNT, OLDEST, ItemArrays
from hellinger.pool._lives import LEFT
from hellinger.pool._merge import eligible, report

__all__ = ["score_counts", "score_each", "select", "worse"]

Floats = npt.NDArray[np.float64]


@jit
def score_each(
    rule: Any, st: ItemArrays, prior: Floats, lives: Any, scale: float, t: float, slots: Any, out: Floats
) -> None:
    """Index of each of these items; ``scale`` turns stored counts into present ones.

    ``lives``: classes of what is left of each item's life, where they are not those of the strata; empty otherwise.
    """
    arms = float(st.meta[COUNT])
    for j in range(slots.size):
        item = st.items[slots[j]]
        stratum = item["stratum"]
        left = prior[stratum, 2] if lives.size == 0 else LEFT[lives[slots[j]]]
        weight = prior[stratum, 3] if not left > 0.0 else 1.0  # the level of what is left of a life goes by counts
        s = (item["s"] * scale + prior[stratum, 0]) * weight
        n = (pulls(st, item) * scale + prior[stratum, 1]) * weight
        out[j] = d.score(rule, s, n, d.when(rule, t, left), arms)


@jit
def score_counts(rule: Any, s: Floats, n: Floats, t: float, arms: float, out: Floats) -> None:
    """Index of items with these counts, among so many."""
    for j in range(out.size):
        out[j] = d.score(rule, s[j], n[j], t, arms)


@helper
def worse(score: float, tie: Any, other: float, other_tie: Any) -> bool:
    """Whether an item comes after another: a lower index, or an equal one and a later tie."""
    return score < other or (score == other and tie > other_tie)


@jit
def select(
    st: ItemArrays,
    scale: float,
    slots: Any,
    values: Floats,
    allowed: Any,
    seed: int,
    named: bool,
    best: Any,
    rows: Any,
) -> Any:
    """Write the best of these items and their report; ties by a hash of ``seed`` and age, or by age if it is OLDEST.

    After the last row: how many have the last one's index.
    """
    k = best.size
    scores, ties = np.empty(k), np.empty(k, np.uint64)
    found = 0
    for j in range(slots.size):
        score = values[j]
        if found == k and score < scores[k - 1]:
            continue
        i = slots[j]
        item = st.items[i]
        if item["hidden"] != 0 or not eligible(st, i, allowed):
            continue
        tie = np.uint64(item["seq"])
        if seed != OLDEST:
            tie = mix(mix(seed) ^ mix(tie))
        if found == k and worse(score, tie, scores[k - 1], ties[k - 1]):
            continue
        hole = found if found < k else k - 1
        while hole > 0 and worse(scores[hole - 1], ties[hole - 1], score, tie):
            best[hole], scores[hole], ties[hole] = best[hole - 1], scores[hole - 1], ties[hole - 1]
            hole -= 1
        best[hole], scores[hole], ties[hole] = i, score, tie
        found = min(found + 1, k)
    for j in range(found):
        rows[j, 1] = np.float64(scores[j]).view(np.int64)
    tied = 0
    for j in range(slots.size):
        if found > 0 and values[j] == scores[found - 1]:
            tied += st.items[slots[j]]["hidden"] == 0 and eligible(st, slots[j], allowed)
    rows[k, 0] = tied
    return found, report(st.items, scale, named, best, found, rows)
