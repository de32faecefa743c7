"""The fit of a prior to a pool's counts."""

from __future__ import annotations

import numpy as np

from hellinger.policies import Prior, fit_prior
from hellinger.policies.effects import exposures, row_marks, some_of
from hellinger.policies.prior import with_effects, with_shares
from hellinger.pool._features import Descriptions
from hellinger.pool._layout import OWNER_SHIFT
from hellinger.pool._membership import Membership
from hellinger.pool._store import ItemStore

__all__ = ["fit"]


def fit(store: ItemStore, members: Membership, scale: float = 1.0, described: Descriptions | None = None) -> Prior:
    """The prior that the present counts and features give; ``scale`` turns stored counts into present ones."""
    items = store.items
    if store.grouped and not store.hidden:  # cells know all, and are fewer than the items
        cells = store.cells
        groups = store.state.groups[cells["owner"] >> OWNER_SHIFT]
        prior = fit_prior(groups["s"] * scale, cells["n"] * scale, items=cells["size"])
    else:
        prior = fit_prior(items["s"] * scale, store.pulls * scale)
    if described is not None:
        prior = _with_effects(prior, store, members, scale, described)
    trust = 0.0 if members.prior is None else members.prior.trust
    if not len(members):
        return prior._replace(trust=trust)
    drawn, leaves = members.sample(store)
    s = items["s"][drawn]
    n = np.maximum(items["n"][drawn], s)  # priors are of clicks: see LIMIT
    if prior.effects is not None and described is not None:
        n = exposures(n, s, described.steps(prior.effects, drawn))
    return with_shares(prior, s * scale, n * scale, leaves, members.sums(scale), trust)


def _with_effects(prior: Prior, store: ItemStore, members: Membership, scale: float, described: Descriptions) -> Prior:
    items = store.items
    shown = np.flatnonzero((items["n"] > 0) | (items["s"] > 0))
    rows = described.rows(shown)
    s = items["s"][shown] * scale
    n = np.maximum(items["n"][shown] * scale, s)
    own = row_marks(rows.start, rows.key, rows.value, s, n)
    drawn = some_of(own)
    left, left_n, left_s, left_marks = described.departed(scale)
    return with_effects(
        prior,
        s[drawn],
        n[drawn],
        rows.taken(drawn),
        described.names.__getitem__,
        items=len(store) / max(drawn.size, 1),
        marks=members.marks(shown[drawn]),
        left=(left_s, left_n, left, left_marks),
    )
