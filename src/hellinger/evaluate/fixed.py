"""Estimators for whole arrays, a function each; :mod:`hellinger.evaluate.evaluator` has their formulas."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from hellinger.errors import require
from hellinger.evaluate.estimate import Estimate
from hellinger.evaluate.evaluator import SLACK, Evaluator, as_column, first_of, first_rows, require_length

__all__ = [
    "balanced",
    "clipped_ips",
    "dm",
    "dr",
    "dr_os",
    "ips",
    "run_weighted",
    "snips",
    "switch_dr",
]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Rows = npt.ArrayLike

_PART = 1 << 20
"""Rows of an array that are worked on at once."""


def _weights(rewards: Floats, propensity: Rows, target: Rows) -> Floats:
    logged, wanted = as_column(propensity, "propensity"), as_column(target, "target")
    require_length(logged, "propensity", rewards)
    require_length(wanted, "target", rewards)
    right = (logged > 0.0) & (logged <= 1.0 + SLACK)
    require(bool(right.all()), "0 < propensity <= 1", propensity=first_of(logged, ~right))
    right = (wanted >= 0.0) & (wanted <= 1.0 + SLACK)
    require(bool(right.all()), "0 <= target <= 1", target=first_of(wanted, ~right))
    return wanted / logged


def _run(
    estimator: str,
    reward: Rows,
    propensity: Rows,
    target: Rows,
    *,
    ranking: Rows | None = None,
    predicted: Rows | None = None,
    predicted_target: Rows | None = None,
    most: float = 1.0,
    largest: float | None = None,
    unsupported: float = 0.0,
    cut: float = 10.0,
    alpha: float = 0.05,
) -> Estimate:
    rewards = as_column(reward, "reward")
    weights = _weights(rewards, propensity, target)
    return run_weighted(
        estimator,
        rewards,
        weights,
        ranking=ranking,
        columns={"predicted": predicted, "predicted_target": predicted_target},
        unsupported=unsupported,
        most=most,
        largest=largest,
        cut=cut,
        alpha=alpha,
    )


def run_weighted(
    estimator: str,
    rewards: Floats,
    weights: Floats,
    *,
    ranking: Rows | None,
    columns: dict[str, Rows | None],
    unsupported: float = 0.0,
    **options: Any,
) -> Estimate:
    """An estimate from whole arrays; ``columns`` are the others that :meth:`Evaluator.add` takes."""
    require(rewards.ndim == 1, "reward has an entry for each row", shape=rewards.shape)
    starts = first_rows(ranking, rewards.size)
    slots = 1 if starts is None else int(np.diff(starts, append=weights.size).max())
    evaluator = Evaluator(estimator, slots=slots, **options)
    given = {
        name: np.asarray(column) for name, column in (columns | {"ranking": ranking}).items() if column is not None
    }
    for name, column in given.items():
        if column.ndim:  # one prediction may be for all rows
            require_length(column, name, rewards)
    for rows in _parts(starts, rewards.size):
        parts = {name: column[rows] if column.ndim else column for name, column in given.items()}
        evaluator.add(rewards[rows], weights[rows], unsupported=unsupported, **parts)
    return evaluator.estimate()


def _parts(starts: Ints | None, rows: int) -> list[slice]:
    """Parts of about equal size that cut no ranking in two."""
    if starts is None:
        marks = [*range(0, rows, _PART), rows]
    else:
        cuts = np.searchsorted(starts, np.arange(_PART, rows, _PART))
        marks = [0, *(int(starts[cut]) for cut in np.unique(cuts) if cut < starts.size), rows]
    return [slice(first, last) for first, last in pairwise(marks)]


def ips(
    reward: Rows,
    propensity: Rows,
    target: Rows,
    *,
    ranking: Rows | None = None,
    most: float = 1.0,
    largest: float | None = None,
    unsupported: float = 0.0,
    alpha: float = 0.05,
) -> Estimate:
    """Inverse propensity scores: the mean of wR, unbiased where propensities are right.

    Parameters
    ----------
    reward, propensity, target
        Of each row: what was earned, with what chance the logger showed this item here, and with what chance the
        policy would have.
    ranking
        Which ranking a row is of, those of one next to each other; without it every row is a unit.
    most
        The most reward that a row can have.
    largest
        What no weight can be above, by how the log was made (34 where 34 items had equal chances): makes the upper end
        much closer.
    unsupported
        Share of what the policy would show that the logger never could, where it is known.
    alpha
        One less the level of the interval, which holds at all times at once.

    Examples
    --------
    >>> found = ips([1, 0, 0, 1] * 250, [0.5] * 1000, [0.9, 0.1] * 500, largest=2.0)
    >>> round(found.value, 6), round(found.low, 3), round(found.high, 3), round(found.effective_sample)
    (0.5, 0.418, 0.589, 610)
    """
    return _run(
        "ips",
        reward,
        propensity,
        target,
        ranking=ranking,
        most=most,
        largest=largest,
        unsupported=unsupported,
        alpha=alpha,
    )


def clipped_ips(
    reward: Rows,
    propensity: Rows,
    target: Rows,
    *,
    clip: float = 10.0,
    ranking: Rows | None = None,
    most: float = 1.0,
    largest: float | None = None,
    unsupported: float = 0.0,
    alpha: float = 0.05,
) -> Estimate:
    """:func:`ips` with weights cut at ``clip``: steadier, and too low; the upper end is that of ``ips``.

    >>> clipped_ips([1, 0] * 500, [0.01, 0.5] * 500, [0.9, 0.5] * 500, clip=5.0).value
    2.5
    """
    return _run(
        "clipped_ips",
        reward,
        propensity,
        target,
        cut=clip,
        ranking=ranking,
        most=most,
        largest=largest,
        unsupported=unsupported,
        alpha=alpha,
    )


def snips(
    reward: Rows,
    propensity: Rows,
    target: Rows,
    *,
    ranking: Rows | None = None,
    most: float = 1.0,
    largest: float | None = None,
    unsupported: float = 0.0,
    alpha: float = 0.05,
) -> Estimate:
    """Self-normalised: Σ wR / Σ w, a little biased and much steadier.

    With ``largest`` the interval is of w(R − m) + m, m being the same quotient of all units before, at most 1/largest;
    without, it is that of :func:`ips`.

    >>> snips([1, 0, 0, 1] * 250, [0.5] * 1000, [0.9, 0.1] * 500).value
    0.5
    """
    return _run(
        "snips",
        reward,
        propensity,
        target,
        ranking=ranking,
        most=most,
        largest=largest,
        unsupported=unsupported,
        alpha=alpha,
    )


def dm(
    reward: Rows,
    propensity: Rows,
    target: Rows,
    *,
    predicted_target: Rows,
    ranking: Rows | None = None,
    most: float = 1.0,
    largest: float | None = None,
    unsupported: float = 0.0,
    alpha: float = 0.05,
) -> Estimate:
    """The direct method: what a model predicts of what the policy would show. No interval can answer for a model.

    >>> dm([1, 0], [0.5, 0.5], [0.5, 0.5], predicted_target=[0.3, 0.5])[:3]
    (0.4, 0.0, 1.0)
    """
    return _run(
        "dm",
        reward,
        propensity,
        target,
        predicted_target=predicted_target,
        ranking=ranking,
        most=most,
        largest=largest,
        unsupported=unsupported,
        alpha=alpha,
    )


def dr(
    reward: Rows,
    propensity: Rows,
    target: Rows,
    *,
    predicted: Rows,
    predicted_target: Rows,
    ranking: Rows | None = None,
    most: float = 1.0,
    largest: float | None = None,
    unsupported: float = 0.0,
    alpha: float = 0.05,
) -> Estimate:
    """Doubly robust: the model's prediction, corrected by weighted residuals.

    The model is to be from other data, or from the past. Without ``largest`` the interval is that of :func:`ips`.

    >>> half = [0.5] * 1000
    >>> dr([1, 0] * 500, half, half, predicted=half, predicted_target=half).value
    0.5
    """
    return _run(
        "dr",
        reward,
        propensity,
        target,
        predicted=predicted,
        predicted_target=predicted_target,
        ranking=ranking,
        most=most,
        largest=largest,
        unsupported=unsupported,
        alpha=alpha,
    )


def switch_dr(
    reward: Rows,
    propensity: Rows,
    target: Rows,
    *,
    predicted: Rows,
    predicted_target: Rows,
    switch: float = 10.0,
    ranking: Rows | None = None,
    most: float = 1.0,
    largest: float | None = None,
    unsupported: float = 0.0,
    alpha: float = 0.05,
) -> Estimate:
    """:func:`dr` where the weight is at most ``switch``, and the model alone elsewhere."""
    return _run(
        "switch_dr",
        reward,
        propensity,
        target,
        predicted=predicted,
        predicted_target=predicted_target,
        cut=switch,
        ranking=ranking,
        most=most,
        largest=largest,
        unsupported=unsupported,
        alpha=alpha,
    )


def dr_os(
    reward: Rows,
    propensity: Rows,
    target: Rows,
    *,
    predicted: Rows,
    predicted_target: Rows,
    shrink: float = 100.0,
    ranking: Rows | None = None,
    most: float = 1.0,
    largest: float | None = None,
    unsupported: float = 0.0,
    alpha: float = 0.05,
) -> Estimate:
    """:func:`dr` with weights shrunk to λw/(w² + λ), λ being ``shrink``: optimistic shrinkage."""
    return _run(
        "dr_os",
        reward,
        propensity,
        target,
        predicted=predicted,
        predicted_target=predicted_target,
        cut=math.sqrt(shrink),
        ranking=ranking,
        most=most,
        largest=largest,
        unsupported=unsupported,
        alpha=alpha,
    )


def balanced(propensities: Rows, shares: Rows) -> Floats:
    """Propensities under several loggers at once: Σ share·propensity, a row for each logger.

    What one logger hardly ever showed another may have shown often: weights from this are never above those from the
    row's own logger divided by its share.

    >>> balanced([[0.5, 0.1], [0.01, 0.9]], [0.5, 0.5]).round(3)
    array([0.255, 0.5  ])
    """
    chances, parts = np.asarray(propensities, dtype=float), np.asarray(shares, dtype=float)
    require(
        chances.ndim == 2 and chances.shape[0] == parts.size, "a row of propensities for each share", shares=parts.size
    )
    right = bool((parts >= 0.0).all()) and abs(float(parts.sum()) - 1.0) < 1e-6
    require(right, "shares are at least 0 and add up to 1", shares=parts.tolist())
    return np.asarray(parts @ chances)
