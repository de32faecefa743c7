"""What a variant learns of all its items together: fitted from the ledger, and in force once the log has it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hellinger.engine.drafts import WRITER, Draft
from hellinger.engine.specs import policy_of
from hellinger.engine.state import State
from hellinger.ledger import HIDDEN, Columns, Floats, Slots, added
from hellinger.policies import fit_prior, next_fit, tag_path

__all__ = ["Due", "due", "fit"]


class Due(NamedTuple):
    """A prior that is to be fitted, and all that the fit needs: it touches the ledger no more.

    The columns are the ledger's own arrays: what is counted while they are read may be in them or not, and an
    item that is forgotten meanwhile has no counts, or those of the one now in its slot.
    """

    variant: str
    segment: str
    after: int
    """Place in the log of the prior in force."""
    rounds: float
    columns: list[Columns]
    members: Slots
    tags: Slots
    tag_sets: list[tuple[str, ...]]
    curve: int = 0
    """Place in the log where what impressions are worth last changed."""
    late: Sequence[npt.NDArray[np.int32]] = ()
    """Impressions by zone of positions, where not all are worth one, in the order of the columns."""
    lacks: Floats | None = None


@lru_cache
def _learns_prior(spec: str) -> bool:
    """Whether a policy learns a prior; asked four times a second, and a spec takes a while to read."""
    found = policy_of(spec)
    return found is not None and found.rule.learns_prior


def due(state: State) -> list[Due]:
    """Priors that have seen enough impressions since they were last fitted, or others; by what the log says alone."""
    ledger, catalogue, found = state.ledger, state.ledger.catalogue, []
    pools = state.pools
    for variant in pools.variants:
        if not _learns_prior(pools.variants[variant]):
            continue
        sources = pools.sources(variant)
        for segment in ("", *pools.segments(variant)):
            rounds = ledger.rounds(variants=sources, segment=segment)
            after, fields = ledger.priors.get((variant, segment), (0, {"rounds": 0.0}))
            curve = ledger.curve[1].get("recounted", 0)
            recounted = fields.get("curve", 0) != curve and rounds > 0
            if rounds >= next_fit(fields["rounds"]) or recounted:
                there = catalogue["state"][: len(catalogue.ids)] <= HIDDEN
                there[list(ledger.gone.get(variant, ()))] = False
                members = np.flatnonzero(there)
                columns, tags = ledger.views(sources, segment), catalogue["tags"][members]
                late = ledger.late_views(sources, segment) if pools.lacks is not None else []
                due_ = Due(variant, segment, after, rounds, columns, members, tags, list(catalogue.tags.values))
                found.append(due_._replace(curve=curve, late=late, lacks=pools.lacks))
    return found


def fit(wanted: Due, at: int) -> Draft:
    """Fit a prior; it may take some time, and any thread may do it."""
    n, s = added(((n[wanted.members], s[wanted.members]) for n, s in wanted.columns), wanted.members.size)
    for late in wanted.late:
        if wanted.lacks is not None and len(late):
            n -= late[wanted.members] @ wanted.lacks
    n = np.maximum(n, s)  # impressions may be worth less than what they earned: see the pool's index
    fields = {
        "variant": wanted.variant,
        "segment": wanted.segment,
        "after": wanted.after,
        "rounds": wanted.rounds,
        "curve": wanted.curve,
        "prior": fit_prior(s, n, groups=wanted.tags, paths=[tag_path(tags) for tags in wanted.tag_sets]).state(),
        "writer": WRITER,
    }
    return Draft.of(f"prior/{wanted.variant}/{wanted.segment}/{wanted.after}", "prior", at, fields)
