"""What a variant learns of all its items together: fitted from the ledger, and in force once the log has it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hellinger.engine.drafts import WRITER, Draft
from hellinger.engine.state import State
from hellinger.ledger import HIDDEN, added
from hellinger.policies import fit_prior, next_fit

__all__ = ["Due", "due", "fit"]


class Due(NamedTuple):
    """A prior that is to be fitted: the one in force stands at this place in the log."""

    variant: str
    segment: str
    after: int


def due(state: State) -> list[Due]:
    """Priors that have seen enough impressions since they were last fitted; by what the log says alone."""
    ledger, found = state.ledger, []
    for variant, pool in state.pools.of.items():
        if not pool.pooled.policy.rule.learns_prior:
            continue
        sources = state.pools.sources(variant)
        for segment in ("", *pool.segments):
            plays = ledger.rounds(variants=sources, segment=segment)
            after, fields = ledger.priors.get((variant, segment), (0, {"rounds": 0.0}))
            if plays >= next_fit(fields["rounds"]):
                found.append(Due(variant, segment, after))
    return found


def fit(state: State, wanted: Due, at: int) -> Draft:
    """Fit a prior to the present counts; it may take some time, and any thread may do it.

    What is counted meanwhile may be in it or not: all copies take it from the log.
    """
    ledger = state.ledger
    catalogue, size = ledger.catalogue, len(ledger.catalogue.ids)
    sources = state.pools.sources(wanted.variant)
    plays = ledger.rounds(variants=sources, segment=wanted.segment)
    n, s = added((columns for columns in ledger.views(sources, wanted.segment)), size)
    member = catalogue["state"][:size] <= HIDDEN
    member[list(ledger.gone.get(wanted.variant, ()))] = False
    slots = np.flatnonzero(member)
    shown = n[slots]
    rewards = np.minimum(s[slots], shown)  # a reward counted meanwhile may be there before its impression
    prior = fit_prior(rewards, shown, tags=catalogue["tags"][slots], tag_sets=list(catalogue.tag_sets))
    fields = {
        "variant": wanted.variant,
        "segment": wanted.segment,
        "after": wanted.after,
        "rounds": plays,
        "prior": prior.state(),
        "writer": WRITER,
    }
    return Draft.of(f"prior/{wanted.variant}/{wanted.segment}/{wanted.after}", "prior", at, fields)
