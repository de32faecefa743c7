"""What a variant learns of all its items together: fitted from the ledger, and in force once the log has it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hellinger.engine.drafts import WRITER, Draft
from hellinger.engine.specs import policy_of
from hellinger.engine.state import State
from hellinger.ledger import EXPIRED, HIDDEN, Columns, Floats, Slots, added
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
    left: Slots
    """Items that have left their groups."""
    groups: Slots
    """The group of each slot."""
    group_names: list[tuple[str, ...]]
    departed: Callable[[list[tuple[str, ...]]], tuple[Floats, Columns]]
    """Gives what groups know of items that are forgotten."""
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
    ledger, found = state.ledger, []
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
                late = ledger.late_views(sources, segment) if pools.lacks is not None else []
                wanted = _wanted(state, variant, segment, after, rounds, sources)
                found.append(wanted._replace(curve=curve, late=late, lacks=pools.lacks))
    return found


def _wanted(state: State, variant: str, segment: str, after: int, rounds: float, sources: list[str]) -> Due:
    ledger, catalogue, lacks = state.ledger, state.ledger.catalogue, state.pools.lacks
    states = catalogue["state"][: len(catalogue.ids)]
    groups = catalogue["group"][: len(catalogue.ids)].copy()
    there = states <= HIDDEN
    there[list(ledger.gone.get(variant, ()))] = False
    members = np.flatnonzero(there)
    return Due(
        variant,
        segment,
        after,
        rounds,
        ledger.views(sources, segment),
        members,
        catalogue["tags"][members],
        list(catalogue.tags.values),
        np.flatnonzero(~there & (states <= EXPIRED) & (groups > 0)),
        groups,
        list(catalogue.groups.values),
        lambda names: ledger.departed.of(names, sources, segment, lacks),
    )


def fit(wanted: Due, at: int) -> Draft:
    """Fit a prior; it may take some time, and any thread may do it."""
    n, s = _sums(wanted, wanted.members)
    groups = wanted.groups[wanted.members]
    # items without a group are one by their tags
    kinds, places = np.unique(np.where(groups > 0, groups, -1 - wanted.tags), return_inverse=True)
    lost, lost_places = np.unique(wanted.groups[wanted.left], return_inverse=True)
    paths = [wanted.group_names[kind] if kind > 0 else tag_path(wanted.tag_sets[-1 - kind]) for kind in kinds.tolist()]
    alone = [wanted.group_names[kind] for kind in lost.tolist() if kind not in kinds]
    items, departed = wanted.departed(paths + alone)
    where = {path: place for place, path in enumerate(paths + alone)}
    its = np.array([where[wanted.group_names[kind]] for kind in lost.tolist()], np.intp)[lost_places]
    np.add.at(items, its, 1.0)
    for column, more in zip(departed, _sums(wanted, wanted.left), strict=True):
        np.add.at(column, its, more)
    prior = fit_prior(s, n, groups=places, paths=paths + alone, departed=(items, *departed))
    fields = {
        "variant": wanted.variant,
        "segment": wanted.segment,
        "after": wanted.after,
        "rounds": wanted.rounds,
        "curve": wanted.curve,
        "prior": prior.state(),
        "writer": WRITER,
    }
    return Draft.of(f"prior/{wanted.variant}/{wanted.segment}/{wanted.after}", "prior", at, fields)


def _sums(wanted: Due, slots: Slots) -> Columns:
    n, s = added(((n[slots], s[slots]) for n, s in wanted.columns), slots.size)
    for late in wanted.late:
        if wanted.lacks is not None and len(late):
            n -= late[slots] @ wanted.lacks
    return np.maximum(n, s), s  # impressions may be worth less than what they earned: see the pool's index
