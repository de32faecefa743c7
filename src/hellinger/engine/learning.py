"""What a variant learns of all its items together: fitted from the ledger, and in force once the log has it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from hellinger.engine.describing import LEFT, described
from hellinger.engine.drafts import WRITER, Draft
from hellinger.engine.specs import policy_of
from hellinger.engine.state import State
from hellinger.ledger import EXPIRED, HIDDEN, Columns, Entries, Floats, Slots, added
from hellinger.ledger.modelled import has_model
from hellinger.policies import Prior, fit_prior, next_fit, tag_path
from hellinger.policies.segments import LEAST_ROUNDS, SegmentLaw, drawn, fit_segments

__all__ = ["Due", "SegmentColumns", "due", "fit"]


PART = 1 << 15
"""Items whose counts are added up at a time."""


class SegmentColumns(NamedTuple):
    """The counts of one segment, as a fit needs them."""

    name: str
    entries: list[Entries]


class Due(NamedTuple):
    """A prior that is to be fitted, and all that the fit needs: it touches the ledger no more.

    The columns are the ledger's own arrays: what is counted or said while they are read may be in them or not, and an
    item that is forgotten meanwhile has no counts, or those of the one now in its slot. To read who is there takes
    milliseconds with a million items, so that is done by :func:`fit`.
    """

    variant: str
    after: int
    """Place in the log of the prior in force."""
    rounds: float
    columns: list[Columns]
    catalogue: Mapping[str, npt.NDArray[Any]]
    """What is known of each slot."""
    absent: Slots
    """Items that have left the variant's pools."""
    tag_sets: list[tuple[str, ...]]
    group_names: list[tuple[str, ...]]
    departed: Callable[[list[tuple[str, ...]]], tuple[Floats, Columns]]
    """Gives what groups know of items that are forgotten."""
    curve: int = 0
    """Place in the log where what impressions are worth last changed."""
    late: Sequence[npt.NDArray[np.int32]] = ()
    """Impressions by zone of positions, where not all are worth one, in the order of the columns."""
    lacks: Floats | None = None
    features: Mapping[int, str] | None = None
    """What items are, by slot, where the variant's prior is to know it: the ledger's own, too."""
    segments: Sequence[SegmentColumns] = ()
    """Those with impressions, the busiest first."""
    law: SegmentLaw = SegmentLaw()
    """What is in force of segments."""
    trust: float = 0.0
    """That of the prior in force."""


class _Who(NamedTuple):
    """Items of a fit."""

    members: Slots
    tags: Slots
    since: Slots
    """Where in the log each member began."""
    left: Slots
    """Items that have left their groups."""
    groups: Slots
    """The group of each slot."""
    gone: Slots
    """Items with features that have left, the last one first."""


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
        rounds = ledger.rounds(variants=sources)
        after, fields = ledger.priors.get((variant, ""), (0, {"rounds": 0.0}))
        curve = ledger.curve[1].get("recounted", 0)
        recounted = fields.get("curve", 0) != curve and rounds > 0
        if rounds >= next_fit(fields["rounds"]) or recounted:
            # a model counts by what the log says, and so must its prior
            lacks = ledger.worth.lacks if has_model(pools.variants[variant]) else pools.lacks
            late = ledger.late_views(sources) if lacks is not None else []
            wanted = _wanted(state, variant, after, rounds, sources, lacks)
            segments = _segments(state, sources)
            law = SegmentLaw.from_state(fields.get("segments"))
            trust = fields.get("prior", {}).get("trust", 0.0)
            found.append(wanted._replace(curve=curve, late=late, lacks=lacks, segments=segments, law=law, trust=trust))
    return found


def _segments(state: State, sources: list[str]) -> list[SegmentColumns]:
    ledger = state.ledger
    rounds = {name: ledger.rounds(variants=sources, segment=name) for name in ledger.segments}
    return [
        SegmentColumns(name, ledger.entries(sources, name))
        for name in sorted(rounds, key=lambda name: (-rounds[name], name))
        if rounds[name] >= LEAST_ROUNDS
    ]


def _wanted(state: State, variant: str, after: int, rounds: float, sources: list[str], lacks: Floats | None) -> Due:
    ledger, catalogue = state.ledger, state.ledger.catalogue
    gone, size = ledger.gone.get(variant, {}), len(catalogue.ids)
    return Due(
        variant,
        after,
        rounds,
        ledger.views(sources),
        {name: catalogue[name][:size] for name in ("state", "group", "tags", "since", "left_at")},
        np.fromiter(gone, np.int64, len(gone)),
        list(catalogue.tags.values),
        list(catalogue.groups.values),
        lambda names: ledger.departed.of(names, sources, "", lacks),
        features=catalogue.features if state.pools.reads_features(variant) else None,
    )


def _who(wanted: Due) -> _Who:
    """The items of a fit, as they are at this moment."""
    catalogue = wanted.catalogue
    states, groups = catalogue["state"].copy(), catalogue["group"].copy()
    groups[groups >= len(wanted.group_names)] = 0  # one that came meanwhile
    there = states <= HIDDEN
    there[wanted.absent] = False
    members, left = np.flatnonzero(there), ~there & (states <= EXPIRED)
    tags = catalogue["tags"][members]
    tags[tags >= len(wanted.tag_sets)] = 0
    return _Who(
        members, tags, catalogue["since"][members], np.flatnonzero(left & (groups > 0)), groups, _gone(wanted, left)
    )


def _gone(wanted: Due, left: npt.NDArray[np.bool_]) -> Slots:
    """Items with features that have left, the last one first, no more than are looked at."""
    features = wanted.features or {}
    slots = np.flatnonzero(left) if features else np.empty(0, np.int64)
    slots = slots[np.argsort(-wanted.catalogue["left_at"][slots], kind="stable")][: 4 * LEFT]
    return slots[[slot in features for slot in slots.tolist()]] if slots.size else slots


def fit(wanted: Due, at: int) -> Draft:
    """Fit a prior; it may take some time, and any thread may do it."""
    who = _who(wanted)
    n, s = _sums(wanted, who.members)
    groups = who.groups[who.members]
    # items without a group are one by their tags
    kinds, places = _numbered(np.where(groups > 0, groups, -1 - who.tags))
    lost, lost_places = np.unique(who.groups[who.left], return_inverse=True)
    paths = [wanted.group_names[kind] if kind > 0 else tag_path(wanted.tag_sets[-1 - kind]) for kind in kinds.tolist()]
    alone = [wanted.group_names[kind] for kind in lost[~np.isin(lost, kinds)].tolist()]
    items, departed = wanted.departed(paths + alone)
    where = {path: place for place, path in enumerate(paths + alone)}
    its = np.array([where[wanted.group_names[kind]] for kind in lost.tolist()], np.intp)[lost_places]
    left = _sums(wanted, who.left)
    np.add.at(items, its, (left[0] > 0).astype(np.float64))  # one that was never shown tells nothing
    for column, more in zip(departed, left, strict=True):
        np.add.at(column, its, more)
    told = None
    if wanted.features:
        names = [wanted.group_names[group] for group in who.groups[who.gone].tolist()]
        gone = _sums(wanted, who.gone)
        told = described(wanted.features, who.members, who.since, who.gone, gone, names)
    prior = fit_prior(
        s, n, groups=places, paths=paths + alone, departed=(items, *departed), features=told, trust=wanted.trust
    )
    fields = {
        "variant": wanted.variant,
        "segment": "",
        "after": wanted.after,
        "rounds": wanted.rounds,
        "curve": wanted.curve,
        "prior": prior.state(),
        "writer": WRITER,
    }
    law = _law(wanted, who, n, s, prior)
    if law != SegmentLaw():
        fields["segments"] = law.state()
    return Draft.of(f"prior/{wanted.variant}//{wanted.after}", "prior", at, fields)


def _law(wanted: Due, who: _Who, n: Floats, s: Floats, prior: Prior) -> SegmentLaw:
    """What counts tell of segments; n and s are those of all traffic."""
    if not wanted.segments:
        return SegmentLaw()
    member = np.full(who.groups.size, -1, np.int64)
    member[who.members] = np.arange(who.members.size)
    counts = [_sums_in(wanted, who.members.size, member, each) for each in wanted.segments]
    chosen = drawn(who.since, sum(which.size for which, _, _ in counts))
    kept = [(which[mine], some_n[mine], some_s[mine]) for which, some_n, some_s in counts for mine in [chosen[which]]]
    place = np.repeat(np.arange(len(kept)), [which.size for which, _, _ in kept])
    which, own_n, own_s = (np.concatenate([each[j] for each in kept]) for j in range(3))
    elsewhere = s[which] - own_s, n[which] - own_n
    return fit_segments([each.name for each in wanted.segments], place, own_s, own_n, elsewhere, prior, wanted.law)


def _numbered(kinds: Slots) -> tuple[Slots, Slots]:
    """The kinds that occur, ascending, and the place of each entry's among them: ``np.unique``, of small numbers.

    To sort a million takes a tenth of a second, for which every other thread would wait.
    """
    least = int(kinds.min(initial=0))
    kinds = kinds - least
    there = np.zeros(int(kinds.max(initial=0)) + 1, np.bool_)
    there[kinds] = True
    found = np.flatnonzero(there)
    place = np.zeros(there.size, np.int64)
    place[found] = np.arange(found.size)
    return (found if kinds.size else found[:0]) + least, place[kinds]


def _sums(wanted: Due, slots: Slots) -> Columns:
    """Impressions and rewards of these items, some at a time: other threads have a turn in between."""
    n, s = np.zeros(slots.size), np.zeros(slots.size)
    for start in range(0, slots.size, PART):
        part, some = slice(start, start + PART), slots[start : start + PART]
        n[part], s[part] = added(((some_n[some], some_s[some]) for some_n, some_s in wanted.columns), some.size)
        for each in wanted.late:
            if wanted.lacks is not None and len(each):
                n[part] -= each[some] @ wanted.lacks
    return np.maximum(n, s), s  # impressions may be worth less than what they earned: see the pool's index


def _sums_in(wanted: Due, members: int, member: Slots, segment: SegmentColumns) -> tuple[Slots, Floats, Floats]:
    """Members with impressions in a segment, ascending; their impressions and rewards there.

    ``member`` has the place of each slot among them, −1 for no member.
    """
    n, s = np.zeros(members), np.zeros(members)
    for owner, some_n, some_s, late in segment.entries:
        here = np.flatnonzero((owner >= 0) & (owner < member.size))
        here = here[member[owner[here]] >= 0]
        whose = member[owner[here]]
        n[whose] += some_n[here]
        s[whose] += some_s[here]
        if wanted.lacks is not None and len(late):
            n[whose] -= late[here] @ wanted.lacks
    n = np.maximum(n, s)
    shown = np.flatnonzero(n > 0)
    return shown, n[shown], s[shown]
