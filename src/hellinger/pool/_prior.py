"""The fit of a prior to a pool's counts."""

from __future__ import annotations

import numpy as np

from hellinger.policies import Prior, fit_prior
from hellinger.policies.prior import with_shares
from hellinger.pool._layout import OWNER_SHIFT
from hellinger.pool._membership import Membership
from hellinger.pool._store import ItemStore

__all__ = ["fit"]


def fit(store: ItemStore, members: Membership, scale: float = 1.0) -> Prior:
    """The prior that the present counts give; ``scale`` turns stored counts into present ones."""
    items = store.items
    if store.grouped and not store.hidden:  # cells know all, and are fewer than the items
        cells = store.cells
        groups = store.state.groups[cells["owner"] >> OWNER_SHIFT]
        prior = fit_prior(groups["s"] * scale, cells["n"] * scale, items=cells["size"])
    else:
        prior = fit_prior(items["s"] * scale, store.pulls * scale)
    if not len(members):
        return prior
    drawn, leaves = members.sample(store)
    s = items["s"][drawn]
    n = np.maximum(items["n"][drawn], s)  # priors are of clicks: see LIMIT
    return with_shares(prior, s * scale, n * scale, leaves, members.sums(scale))
