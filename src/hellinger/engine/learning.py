"""What a variant learns of all its items together: fitted from the ledger, and in force once the log has it."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from hellinger.engine.drafts import WRITER, Draft
from hellinger.engine.specs import policy_of
from hellinger.engine.state import State
from hellinger.ledger import HIDDEN, Columns, Slots, added
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


@lru_cache
def _learns_prior(spec: str) -> bool:
    """Whether a policy learns a prior; asked four times a second, and a spec takes a while to read."""
    found = policy_of(spec)
    return found is not None and found.rule.learns_prior


def due(state: State) -> list[Due]:
    """Priors that have seen enough impressions since they were last fitted; by what the log says alone."""
    ledger, catalogue, found = state.ledger, state.ledger.catalogue, []
    pools = state.pools
    for variant in pools.variants:
        if not _learns_prior(pools.variants[variant]):
            continue
        sources = pools.sources(variant)
        for segment in ("", *pools.segments(variant)):
            rounds = ledger.rounds(variants=sources, segment=segment)
            after, fields = ledger.priors.get((variant, segment), (0, {"rounds": 0.0}))
            if rounds >= next_fit(fields["rounds"]):
                there = catalogue["state"][: len(catalogue.ids)] <= HIDDEN
                there[list(ledger.gone.get(variant, ()))] = False
                members = np.flatnonzero(there)
                columns, tags = ledger.views(sources, segment), catalogue["tags"][members]
                found.append(Due(variant, segment, after, rounds, columns, members, tags, list(catalogue.tags.values)))
    return found


def fit(wanted: Due, at: int) -> Draft:
    """Fit a prior; it may take some time, and any thread may do it."""
    n, s = added(((n[wanted.members], s[wanted.members]) for n, s in wanted.columns), wanted.members.size)
    rewards = np.minimum(s, n)  # a reward counted meanwhile may be there before its impression
    fields = {
        "variant": wanted.variant,
        "segment": wanted.segment,
        "after": wanted.after,
        "rounds": wanted.rounds,
        "prior": fit_prior(rewards, n, groups=wanted.tags, paths=[tag_path(tags) for tags in wanted.tag_sets]).state(),
        "writer": WRITER,
    }
    return Draft.of(f"prior/{wanted.variant}/{wanted.segment}/{wanted.after}", "prior", at, fields)
