"""Learning policies with a model, on a log whose rows have features: replay, row by row."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from hellinger._spec import format_spec, parse_spec
from hellinger.errors import require
from hellinger.evaluate.learning import Replayed, play_log, summary
from hellinger.policies import policy
from hellinger.pool import Pool

__all__ = ["play_contexts"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Rows = npt.ArrayLike


def play_contexts(
    policies: Sequence[str],
    items: Rows,
    rewards: Rows,
    features: Rows,
    *,
    propensity: Rows | None = None,
    seeds: int = 5,
    seed: int = 0,
    rounds: int | None = None,
    alpha: float = 0.05,
) -> list[Replayed]:
    """Play learning policies on a log by replay, those with a model (``linucb(model=linear)``) by features of items.

    Row by row a policy chooses one of the items; the row counts if it is the one that was logged, and is learned from.
    The order of the log stays; seeds decide ties, and where chances were not equal, which matches are kept.

    Parameters
    ----------
    policies
        Specs; without a model they are played by :func:`~hellinger.evaluate.play_log`.
    items, rewards
        Of each row: the number of its item, from 0, and what was earned.
    features
        Of each row and item, a list of numbers: what was known of the item then, and of who asked.
    propensity, seeds, seed, rounds, alpha
        As for :func:`~hellinger.evaluate.play_log`.

    Examples
    --------
    Of two items the one with the larger feature is clicked.

    >>> rng = np.random.default_rng(0)
    >>> features = rng.random((600, 2, 1))
    >>> items = rng.integers(2, size=600)
    >>> clicks = rng.random(600) < features[np.arange(600), items, 0]
    >>> model, counts = play_contexts(["linucb(alpha=0.1, model=linear)", "ucb1"], items, clicks, features, seeds=1)
    >>> model.value > 0.6 > counts.value
    True
    """
    chosen, earned = np.asarray(items).astype(np.int64), np.asarray(rewards, dtype=np.float64)
    known = np.asarray(features, dtype=np.float64)
    require(known.ndim == 3 and known.shape[0] == chosen.size, "features for each row and item", shape=known.shape)
    inside = chosen.size > 0 and 0 <= int(chosen.min()) and int(chosen.max()) < known.shape[1]
    require(inside, "items are numbers of the features' second dimension", items=known.shape[1])
    require(seeds >= 1, "1 <= seeds", seeds=seeds)
    require(bool(np.isfinite(known).all()), "features are finite", features="nan or inf")
    limit = min(rounds or chosen.size, chosen.size)
    plain = [spec for spec in policies if "model" not in parse_spec(spec)[1]]
    runs: dict[str, list[Floats]] = {}
    for spec in policies:
        if spec not in plain:
            chances = None if propensity is None else np.asarray(propensity, dtype=np.float64)
            runs[spec] = [_played(spec, chosen, earned, known, chances, seed + j, limit) for j in range(seeds)]
    counted = {}
    if plain:
        found = play_log(
            plain,
            chosen,
            earned,
            method="replay",
            propensity=propensity,
            seeds=seeds,
            seed=seed,
            rounds=rounds,
            alpha=alpha,
        )
        counted = dict(zip(plain, found, strict=True))
    reached = [int(np.isfinite(each).sum()) for many in runs.values() for each in many]
    together = min([*reached, *(min(each.reached) for each in counted.values())])
    if counted and together < next(iter(counted.values())).rounds:
        found = play_log(
            plain, chosen, earned, method="replay", propensity=propensity, seeds=seeds, seed=seed, rounds=together
        )
        counted = dict(zip(plain, found, strict=True))
    return [
        counted[spec] if spec in counted else summary(spec, "replay", runs[spec], together, 1, chosen.size, alpha)
        for spec in policies
    ]


def _played(
    spec: str, items: Ints, rewards: Floats, features: Floats, propensity: Floats | None, seed: int, limit: int
) -> Floats:
    """Reward of each round of one run; NaN after its end."""
    name, arguments = parse_spec(spec)
    model = arguments.pop("model")
    require(isinstance(model, str), "model is the spec of a model", model=model)
    made = policy(format_spec(name, arguments))
    pool = Pool[int](made.at_horizon(limit) if made.needs_horizon else made, model=str(model), seed=seed)
    count = features.shape[1]
    names = [f"x{j}" for j in range(features.shape[2])]
    pool.add(list(range(count)))
    rng = np.random.default_rng([0x636F6E, seed])
    kept = np.ones(items.size, bool)
    if propensity is not None:
        kept = rng.random(items.size) * propensity < propensity.min()
    out = np.full(limit, np.nan)
    number = 0
    for row in np.flatnonzero(kept).tolist():
        contexts = [dict(zip(names, each, strict=True)) for each in features[row].tolist()]
        index = np.array([float(pool.scores([item], context=context)[0]) for item, context in enumerate(contexts)])
        best = np.flatnonzero(index == index.max())
        choice = int(best[int(rng.random() * best.size)])
        if choice != items[row]:
            continue
        pool.record(choice, impressions=1, rewards=float(rewards[row]), context=contexts[choice])
        out[number] = rewards[row]
        number += 1
        if number == limit:
            break
    return out
