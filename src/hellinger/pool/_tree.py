"""The groups of a pool as compiled code has them: who belongs where, what each knows, and every item's prior from it.

The mathematics is that of :mod:`hellinger.policies.shares`. What groups know is summed in whole numbers (units of 2⁻¹⁶
impressions), so that a sum does not depend on the order in which it came about: an item's prior is a function of the
counts, the groups and the pool's prior, whatever has happened before.

So that items still share cells, priors are rounded to *classes*, which are the strata of the cells: the odds of the
mean to a 32nd of an octave within a quarter of one from the pool's, and to an eighth beyond; the strength to a 16th
of an octave above the pool's up to a quarter, to a quarter up to twice the pool's, and to an octave beyond.
An item of a group of which nothing is known has exactly the prior of an item without a group. What a group learns from
those above it is rounded too, so that an event seldom reaches its relatives. A group of very many items has a stratum
of its own, whose prior is exact and common to all of them: an event there moves nobody.

Where a prior is stronger than the pool's by what groups know, counts are scored as if there were √(p/T) times as many,
p and T being the strengths: the item's rate is known beforehand to within that much less.

An item may have a factor by its features (:mod:`hellinger.policies.effects`): its impressions then are that many
exposures of its group, its prior has the group's mean times the factor, and the same rewards a. A large group has a
stratum for each quarter of an octave of factors.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from hellinger._jit import borrowed, brief, inline
from hellinger.policies.effects import MOST_STEPS, STEPS
from hellinger.pool._layout import NONE
from hellinger.pool._lives import LEFT

__all__ = [
    "CLASSES",
    "CROWD",
    "HEAD",
    "KNOWN",
    "LINK",
    "MANY",
    "MEMBER",
    "MIXED",
    "NO_HEAD",
    "TREE_NODE",
    "Levels",
    "TreeArrays",
    "class_table",
    "classes_of",
    "compact",
    "factors_of",
    "give",
    "hear",
    "join",
    "leave",
    "own_table",
    "posterior",
    "refresh",
    "relative_classes",
    "relist",
    "revise",
    "sampled",
    "spread",
]

Floats = npt.NDArray[np.float64]
Slots = npt.NDArray[np.int64]

_UNIT = 65536.0
_OCTAVES = 8
_FINE_MEAN, _FINE_STRENGTH = 32, 8
"""Steps in an octave of what a group learns from the one above."""
_STEPS = 8
"""Steps in an octave of the classes of means: finer ones everywhere take a ranking several times as long."""
_NEAR = 8
"""Classes on either side of the pool's mean that are in the steps of :data:`_FINE_MEAN`: most groups are little known,
and a trial of one member must make a difference to the others, or they are tried before members of other groups."""
_LEAP = _NEAR - _NEAR * _STEPS // _FINE_MEAN
"""By how many more the others are numbered than in steps alone."""
_HALF = 0.49
"""Of a step, where it is rounded up: a mean that was rounded to a 32nd of an octave never lies on the boundary."""
_TOP = _OCTAVES * _STEPS + _LEAP
_MEANS = 2 * _TOP + 1
_STRONGEST, _WEAKEST = 12, 4
_STRENGTHS = np.array([*np.arange(4) / 16, 0.25, 0.5, 0.75, *np.arange(1.0, 7.0), -1.0, -2.0, -3.0, -4.0])
"""Octaves of the classes of strengths above the pool's: fine where a group is little known, as most are."""
KNOWN = LEFT.size
"""The first of the classes of what is known of groups. Before it are the pool's own prior, and that with each life."""
CLASSES = KNOWN - 1 + _MEANS * _STRENGTHS.size
"""Strata that are classes; strata of single groups follow."""
CROWD = 4096
"""Items beyond which a group has a stratum of its own."""
UNLEARNED = -(1 << 20)
"""What a group has that has yet to learn what lies above it."""
OWN_STEPS = 2 * MOST_STEPS * 4 // STEPS + 1
"""Strata of a large group whose items have factors, one for each quarter of an octave."""
_NOTED, _TELLS, _DONE = 1, 2, 3
MANY = 1024
"""Groups beyond which what the one above them knows is sent to all alike, without taking out what each sent it."""
_TOLD = 16
"""Of the groups that a revision may look at, one in so many may be one that hears what all below another are told."""

MEMBER = np.dtype(
    [
        ("node", np.int32),  # the item's group; NONE for none
        ("next", np.int32),
        ("last", np.int32),
        ("step", np.int32),  # its factor
        ("w", np.int64),  # what it tells its group, in units, and the same times its mean
        ("y", np.int64),
    ],
    align=True,
)
"""An item as a member of a group, at the item's place."""

TREE_NODE = np.dtype(
    [
        ("parent", np.int32),  # the next unused one while unused
        ("depth", np.int32),
        ("items", np.int32),  # how many, and the first of them
        ("first", np.int32),
        ("children", np.int32),  # groups below: how many, and the first of them
        ("child", np.int32),
        ("next", np.int32),  # its neighbours below the same parent
        ("last", np.int32),
        ("stratum", np.int32),  # of its own; NONE without
        ("seen", np.int32),  # whether a revision has noted it, has gone through its items, and is done with it
        ("mean", np.int32),  # class of what lies above: its mean, and how well that is known
        ("known", np.int32),
        ("w", np.int64),  # what items and groups below have sent it
        ("y", np.int64),
        ("sent", np.int64),  # what it has sent the group above
        ("sent_y", np.int64),
        ("gone", np.float64),  # items that have left, with impressions; their impressions and rewards
        ("gone_n", np.float64),
        ("gone_s", np.float64),
        ("mark", np.int64),
        ("factors", np.int64),  # the sum of its items' factors, in units
    ],
    align=True,
)
"""A group."""

LINK = np.dtype([("next", np.int32), ("last", np.int32)], align=True)
"""A member's neighbours among those of its group that tell it something, in a list of their own: most tell nothing."""

MIXED = -1
"""For a stratum: silent members of a group may be in several, or nobody knows."""

HEAD = np.dtype(
    [
        ("first", np.int32),  # of its members that tell it something
        ("silent", np.int32),  # the stratum of all others, or MIXED
        ("mean", np.int32),  # what it tells all groups below, where these are many: classes as theirs
        ("known", np.int32),
        ("untold", np.int32),  # how many of them have yet to hear it, and the first of these
        ("turn", np.int32),
    ],
    align=True,
)
"""What else there is of a group; it follows from all that snapshots have, once nothing is left to settle."""
NO_HEAD = NONE, MIXED, UNLEARNED, UNLEARNED, 0, NONE
"""That of a group of which nothing is known."""


class Levels(NamedTuple):
    """A prior as the tree needs it: mean and strength of the whole, the variance of each depth and of items there."""

    mean: float
    strength: float
    v: Floats
    rest: Floats
    scale: float
    """What turns stored counts into present ones."""
    width: int
    """Strata of each large group."""
    factors: bool
    """Whether any item has a factor: without, items of a large group are all in the one in the middle."""
    many: int
    """:data:`MANY`."""


class TreeArrays(NamedTuple):
    """Members, groups, which members are to be looked at when a group's prior is another, and room for a revision.

    The lists of those that tell something follow from the members (:func:`relist`), so snapshots do not have them.
    """

    member: Any
    nodes: Any
    links: Any
    heads: Any
    noted: npt.NDArray[np.int32]
    moved: Slots


@inline
def _borrow(tree: TreeArrays) -> TreeArrays:
    member, nodes, links, heads = (
        borrowed(tree.member),
        borrowed(tree.nodes),
        borrowed(tree.links),
        borrowed(tree.heads),
    )
    return TreeArrays(member, nodes, links, heads, borrowed(tree.noted), borrowed(tree.moved))


def relative_classes() -> Floats:
    """Odds and strength of every class, those of the pool's own prior taken as one."""
    number = np.maximum(np.arange(CLASSES) - KNOWN + 1, 0)
    step = number % _MEANS
    place = np.where(step <= _TOP, step, step - _TOP)
    octaves = np.where(place <= _NEAR, place / _FINE_MEAN, (place - _LEAP) / _STEPS)
    octaves[step > _TOP] *= -1.0
    return np.column_stack([2.0**octaves, 2.0 ** _STRENGTHS[number // _MEANS]])


def class_table(a: float, strength: float, rows: int, *, weighted: bool) -> Floats:
    """Pseudo-counts a and a + b of every class, what is left of its life, what counts weigh, and room for so many rows.

    Counts weigh more where groups make a prior strong, if so asked: see section 11 of the theory page.
    """
    table = np.zeros((max(rows, CLASSES), 4))
    table[:, 3] = 1.0
    odds, p = relative_classes().T
    mean = a / strength
    odds, p = odds * mean / (1.0 - mean), p * strength
    table[:CLASSES, 0], table[:CLASSES, 1] = p * odds / (1.0 + odds), p
    if weighted:
        table[:CLASSES, 3] = np.sqrt(np.maximum(p / strength, 1.0))
    table[:KNOWN] = own_table(a, strength)
    return table


def own_table(a: float, strength: float) -> Floats:
    """The rows of the pool's own prior, with what is left of each class of lives."""
    return np.column_stack([np.full(KNOWN, a), np.full(KNOWN, strength), LEFT, np.ones(KNOWN)])


@brief
def classes_of(table: Floats, mean: float, strength: float) -> Slots:
    """The class of each of these rows of pseudo-counts a and a + b; 0 for one that nobody has."""
    classes = np.zeros(len(table), np.int64)
    for c in range(len(table)):
        if table[c, 1] > 0.0:
            classes[c] = _class(table[c, 0] / table[c, 1], table[c, 1], mean, strength)
    return classes


@inline
def _octaves(m: float, mean: float) -> float:
    """How many octaves the odds of m are above those of the mean."""
    m = min(max(m, 1e-9), 1.0 - 1e-9)
    octaves = math.log2(m * (1.0 - mean) / (mean * (1.0 - m)))
    return min(max(octaves, -float(_OCTAVES)), float(_OCTAVES))


@inline
def _mean_of(step: int, mean: float, steps: int) -> float:
    odds: float = 2.0 ** (step / steps) * mean / (1.0 - mean)
    return odds / (1.0 + odds)


@inline
def _place(x: float) -> int:
    """The class of a mean so many octaves above the pool's, counted from that."""
    if abs(x) * _FINE_MEAN < _NEAR:
        return math.floor(x * _FINE_MEAN + _HALF)
    step = math.floor(x * _STEPS + _HALF)
    return step + _LEAP if step >= 0 else step - _LEAP


@inline
def _class(m: float, p: float, mean: float, strength: float) -> int:
    """The stratum of a prior: that of the pool's own is 0; from KNOWN on, means above it, and then those below.

    Strengths are in the same order.
    """
    place = _place(_octaves(m, mean))
    y = math.log2(p / strength)
    if 0.0 < y < 1.0:
        more = math.floor(16.0 * y + 0.5) if y < 0.25 else math.floor(4.0 * y + 0.5) + 3
    else:
        more = math.floor(y + 0.5)
        more = min(more + 6, _STRONGEST) if more > 0 else _STRONGEST + min(-more, _WEAKEST) if more < 0 else 0
    number = more * _MEANS + (place if place >= 0 else _TOP - place)
    return KNOWN - 1 + number if number > 0 else 0


@inline
def _factor(step: int) -> float:
    return 2.0 ** (step / STEPS) if step != 0 else 1.0


@inline
def _units(x: float) -> int:
    return math.floor(x * _UNIT + 0.5)


def factors_of(items: npt.NDArray[np.int32]) -> Slots:
    """The sum of the factors of so many items without one, in units."""
    return items.astype(np.int64) * int(_UNIT)


@inline
def _message(weight: float, v: float) -> float:
    return weight / (1.0 + weight * v)


# Who belongs where ------------------------------------------------------------------------------------


@inline
def _list(tree: TreeArrays, i: int) -> None:
    """Put a member among those that tell their group something."""
    head = tree.heads[tree.member[i]["node"]]
    tree.links[i]["next"], tree.links[i]["last"] = head["first"], NONE
    if head["first"] != NONE:
        tree.links[head["first"]]["last"] = i
    head["first"] = i


@inline
def _unlist(tree: TreeArrays, i: int) -> None:
    link = tree.links[i]
    if link["last"] != NONE:
        tree.links[link["last"]]["next"] = link["next"]
    else:
        tree.heads[tree.member[i]["node"]]["first"] = link["next"]
    if link["next"] != NONE:
        tree.links[link["next"]]["last"] = link["last"]


@inline
def _tells(member: Any) -> Any:
    return member["w"] != 0 or member["y"] != 0


@inline
def _set_news(tree: TreeArrays, i: int, w: int, y: int) -> None:
    """Note what a member tells its group."""
    member = tree.member[i]
    told = _tells(member)
    member["w"], member["y"] = w, y
    if _tells(member) != told:
        if told:
            _unlist(tree, i)
        else:
            _list(tree, i)


@brief
def relist(tree: TreeArrays, slots: Slots) -> None:
    """List these members, which tell their groups something; nobody is listed so far."""
    tree = _borrow(tree)
    for i in slots:
        _list(tree, i)


@inline
def _link(tree: TreeArrays, i: int, g: int) -> None:
    member, node = tree.member[i], tree.nodes[g]
    member["node"], member["next"], member["last"], member["w"], member["y"] = g, node["first"], NONE, 0, 0
    if node["first"] != NONE:
        tree.member[node["first"]]["last"] = i
    node["first"] = i
    node["items"] += 1
    node["factors"] += _units(_factor(member["step"]))


@inline
def _unlink(tree: TreeArrays, i: int) -> None:
    member = tree.member[i]
    node = tree.nodes[member["node"]]
    if _tells(member):
        _unlist(tree, i)
    if member["last"] != NONE:
        tree.member[member["last"]]["next"] = member["next"]
    else:
        node["first"] = member["next"]
    if member["next"] != NONE:
        tree.member[member["next"]]["last"] = member["last"]
    node["items"] -= 1
    node["factors"] -= _units(_factor(member["step"]))
    node["w"] -= member["w"]
    node["y"] -= member["y"]
    member["node"] = NONE


@brief
def join(tree: TreeArrays, slots: Slots, nodes: npt.NDArray[np.int32], steps: npt.NDArray[np.int32]) -> None:
    """Make these items members of these groups, NONE for none, with these factors; they were members of no group."""
    tree = _borrow(tree)
    for j in range(slots.size):
        tree.member[slots[j]]["step"] = steps[j]
        if nodes[j] == NONE:
            tree.member[slots[j]]["node"] = NONE
        else:
            _link(tree, slots[j], nodes[j])


@brief
def leave(tree: TreeArrays, items: Any, slots: Slots, remember: bool) -> None:
    """Let these items be members no more; what they had stays with their groups, if so asked."""
    tree, items = _borrow(tree), borrowed(items)
    for i in slots:
        g = tree.member[i]["node"]
        if g == NONE:
            continue
        _unlink(tree, i)
        if remember and items[i]["n"] > 0.0:
            tree.nodes[g]["gone"] += 1.0
            tree.nodes[g]["gone_n"] += max(items[i]["n"], items[i]["s"])  # priors are of clicks: see LIMIT
            tree.nodes[g]["gone_s"] += items[i]["s"]


@brief
def compact(tree: TreeArrays, falling: Slots, count: int) -> None:
    """Follow the items, of which those at these places were taken out of so many: the last one moved into each."""
    tree = _borrow(tree)
    for slot in falling:
        count -= 1
        if slot == count:
            continue
        member, old = tree.member[slot], tree.member[count]
        member["node"], member["next"], member["last"] = old["node"], old["next"], old["last"]
        member["step"], member["w"], member["y"] = old["step"], old["w"], old["y"]
        if member["node"] == NONE:
            continue
        if member["last"] != NONE:
            tree.member[member["last"]]["next"] = slot
        else:
            tree.nodes[member["node"]]["first"] = slot
        if member["next"] != NONE:
            tree.member[member["next"]]["last"] = slot
        if _tells(member):
            link, old_link = tree.links[slot], tree.links[count]
            link["next"], link["last"] = old_link["next"], old_link["last"]
            if link["last"] != NONE:
                tree.links[link["last"]]["next"] = slot
            else:
                tree.heads[member["node"]]["first"] = slot
            if link["next"] != NONE:
                tree.links[link["next"]]["last"] = slot


# What each knows --------------------------------------------------------------------------------------


@inline
def _news(item: Any, scale: float, own: float, step: int) -> Any:
    """What an item tells its group, and the same times its mean, in units; ``own``: its variance within the group."""
    n = max(item["n"] * _factor(step), item["s"]) * scale  # priors are of clicks: see LIMIT
    if not n > 0.0:
        return 0, 0
    weight = _message(n, own)
    return _units(weight), _units(weight * (item["s"] * scale / n))


@inline
def _tell(tree: TreeArrays, items: Any, levels: Levels, i: int) -> None:
    """Let an item's group know its present counts."""
    member = tree.member[i]
    node = tree.nodes[member["node"]]
    w, y = _news(items[i], levels.scale, levels.rest[node["depth"]], member["step"])
    node["w"] += w - member["w"]
    node["y"] += y - member["y"]
    _set_news(tree, i, w, y)


@inline
def _known(levels: Levels, node: Any) -> Any:
    """What a group has been sent in all, and the same times its mean, as numbers of impressions."""
    w, y = node["w"] / _UNIT, node["y"] / _UNIT
    n = node["gone_n"] * levels.scale
    if n > 0.0 and node["gone"] > 0.0:
        if node["items"] > 0:  # those that left are taken to have been like those that are here
            n = max(n * (node["factors"] / (node["items"] * _UNIT)), node["gone_s"] * levels.scale)
        weight = node["gone"] * _message(n / node["gone"], levels.rest[node["depth"]])
        w += weight
        y += weight * (node["gone_s"] * levels.scale / n)
    return w, y


@inline
def _pass_on(tree: TreeArrays, levels: Levels, g: int) -> None:
    """Let the group above know what this one has been sent."""
    node = tree.nodes[g]
    parent = tree.nodes[node["parent"]]
    w, y = _known(levels, node)
    sent, sent_y = 0, 0
    if w > 0.0:
        weight = _message(w, levels.v[node["depth"]])
        sent, sent_y = _units(weight), _units(weight * (y / w))
    parent["w"] += sent - node["sent"]
    parent["y"] += sent_y - node["sent_y"]
    node["sent"], node["sent_y"] = sent, sent_y


@inline
def _above(levels: Levels, node: Any) -> Any:
    """Mean and worth in impressions of what a group's prior is, by what lies above."""
    if node["parent"] == NONE or node["known"] == UNLEARNED:
        return levels.mean, 1.0 / max(levels.v[node["depth"]], 1e-12)
    mean = _mean_of(node["mean"], levels.mean, _FINE_MEAN)
    known = levels.strength * 2.0 ** (node["known"] / _FINE_STRENGTH)
    return mean, 1.0 / (1.0 / known + levels.v[node["depth"]])


@inline
def posterior(levels: Levels, node: Any) -> Any:
    """Mean of a group's rate, and how many impressions it is known as well as by."""
    mean, worth = _above(levels, node)
    w, y = _known(levels, node)
    return (worth * mean + y) / (worth + w), worth + w


@inline
def _told(levels: Levels, node: Any, sent: int, sent_y: int) -> Any:
    """What a group tells one below that has sent it this: classes of a mean, and of how well that is known."""
    mean, worth = _above(levels, node)
    w, y = _known(levels, node)
    k = worth + max(w - sent / _UNIT, 0.0)
    step = math.floor(_octaves((worth * mean + (y - sent_y / _UNIT)) / k, levels.mean) * _FINE_MEAN + 0.5)
    return step, math.floor(math.log2(min(k / levels.strength, 1e9)) * _FINE_STRENGTH + 0.5)


@inline
def _learn_above(tree: TreeArrays, levels: Levels, g: int) -> bool:
    """Let a group know what the one above knows, without what it sent itself; returns whether that has changed.

    Where it has very many siblings it hears what all do, by what the one above knew when it last had its turn.
    """
    node = tree.nodes[g]
    parent, head = tree.nodes[node["parent"]], tree.heads[node["parent"]]
    if parent["children"] <= levels.many:
        step, known = _told(levels, parent, node["sent"], node["sent_y"])
    else:
        step, known = head["mean"], head["known"]
    if step == node["mean"] and known == node["known"]:
        return False
    node["mean"], node["known"] = step, known
    return True


@inline
def _tell_all(tree: TreeArrays, levels: Levels, g: int) -> bool:
    """Let a group have something to tell the many below it; returns whether it is something else than before."""
    head = tree.heads[g]
    step, known = _told(levels, tree.nodes[g], 0, 0)
    other: bool = step != head["mean"] or known != head["known"]
    head["mean"], head["known"] = step, known
    return other


@inline
def _spread(tree: TreeArrays, levels: Levels, table: Floats, nodes: npt.NDArray[np.int32]) -> None:
    """Let all groups know what those above and below them know."""
    deepest = 0
    for g in nodes:
        deepest = max(deepest, tree.nodes[g]["depth"])
    for depth in range(deepest, 1, -1):
        for g in nodes:
            if tree.nodes[g]["depth"] == depth:
                _pass_on(tree, levels, g)
    for depth in range(1, deepest + 1):
        for g in nodes:
            node = tree.nodes[g]
            if node["depth"] == depth:
                if depth > 1:
                    _learn_above(tree, levels, g)
                if node["children"] > levels.many:
                    _tell_all(tree, levels, g)
                    tree.heads[g]["untold"] = 0
    for g in nodes:
        if tree.nodes[g]["stratum"] != NONE:
            _own_rows_of(levels, table, tree.nodes[g])


@inline
def _own_stratum(levels: Levels, stratum: int, step: int) -> int:
    """The stratum of an item of a large group."""
    if levels.width == 1:
        return stratum
    return CLASSES + (stratum - CLASSES) * levels.width + math.floor((step + MOST_STEPS) * 4 / STEPS + 0.5)


@inline
def _own_rows(levels: Levels, table: Floats, stratum: int, k: float, ky: float, own: float) -> None:
    """The priors of a group that has strata of its own, from what is known of it (and the same times the mean)."""
    m, p = ky / k, 1.0 / (1.0 / k + own)
    first, middle = CLASSES + (stratum - CLASSES) * levels.width, levels.width // 2
    start, stop = (0, levels.width) if levels.factors else (middle, middle + 1)
    for j in range(start, stop):
        factor = 2.0 ** (j / 4 - MOST_STEPS // STEPS) if levels.width > 1 else 1.0
        mean, strength = min(max(m * factor, 1e-9), 1.0 - 1e-9), p / factor
        table[first + j, 0], table[first + j, 1] = mean * strength, strength
        table[first + j, 3] = 1.0 if levels.factors else math.sqrt(max(p / levels.strength, 1.0))


@inline
def _own_rows_of(levels: Levels, table: Floats, node: Any) -> None:
    """The same, from what the group itself knows."""
    mean, worth = _above(levels, node)
    w, y = _known(levels, node)
    _own_rows(levels, table, node["stratum"], worth + w, worth * mean + y, levels.rest[node["depth"]])


@inline
def _item_class(levels: Levels, k: float, ky: float, own: float, sent: int, sent_y: int, step: int) -> int:
    """The stratum of an item, from what is known of its group, without what it sent itself."""
    k -= sent / _UNIT
    factor = _factor(step)
    return _class((ky - sent_y / _UNIT) / k * factor, 1.0 / (1.0 / k + own) / factor, levels.mean, levels.strength)


@inline
def _alone(levels: Levels, step: int) -> int:
    """The stratum of an item without a group."""
    factor = _factor(step)
    return _class(levels.mean * factor, levels.strength / factor, levels.mean, levels.strength) if step != 0 else 0


@inline
def _stratum(levels: Levels, node: Any, k: float, ky: float, member: Any) -> int:
    """The stratum of a group's member, from what is known of the group and the same times its mean."""
    if node["stratum"] != NONE:
        return _own_stratum(levels, node["stratum"], member["step"])
    return _item_class(levels, k, ky, levels.rest[node["depth"]], member["w"], member["y"], member["step"])


@inline
def _silent(levels: Levels, node: Any, k: float, ky: float) -> int:
    """The stratum of all members that tell the group nothing; MIXED where these have factors."""
    if levels.factors:
        return MIXED
    if node["stratum"] != NONE:
        return _own_stratum(levels, node["stratum"], 0)
    return _item_class(levels, k, ky, levels.rest[node["depth"]], 0, 0, 0)


@inline
def _assign(tree: TreeArrays, items: Any, levels: Levels, table: Floats, g: int, size: int) -> Any:
    """Give each item of a group its stratum; how many have been noted as moved in all, and how many looked at.

    Where those that tell nothing have theirs already, as after most events, the others alone are looked at.
    """
    node, head = tree.nodes[g], tree.heads[g]
    mean, worth = _above(levels, node)
    w, y = _known(levels, node)
    k, ky = worth + w, worth * mean + y
    if node["stratum"] != NONE:
        _own_rows(levels, table, node["stratum"], k, ky, levels.rest[node["depth"]])
    silent, looked = _silent(levels, node, k, ky), 0
    some = silent != MIXED and head["silent"] == silent
    head["silent"] = silent
    i = head["first"] if some else node["first"]
    if some and node["stratum"] != NONE:
        i = NONE  # all have the same
    stratum, sent_w, sent_y, step = 0, 1.0, -1.0, 0
    while i != NONE:
        member = tree.member[i]
        if member["w"] != sent_w or member["y"] != sent_y or member["step"] != step:
            # most members of most groups have sent nothing
            sent_w, sent_y, step = member["w"], member["y"], member["step"]
            stratum = _stratum(levels, node, k, ky, member)
        if items[i]["stratum"] != stratum:
            items[i]["stratum"] = stratum
            tree.moved[size] = i
            size += 1
        looked += 1
        i = tree.links[i]["next"] if some else member["next"]
    return size, looked


@inline
def _assign_one(tree: TreeArrays, items: Any, levels: Levels, i: int, size: int) -> int:
    """Give one item its stratum, of a group or of none; returns how many have been noted as moved in all."""
    member = tree.member[i]
    g = member["node"]
    if g == NONE:
        stratum = _alone(levels, member["step"])
    else:
        node = tree.nodes[g]
        mean, worth = _above(levels, node)
        w, y = _known(levels, node)
        stratum = _stratum(levels, node, worth + w, worth * mean + y, member)
        if not _tells(member) and tree.heads[g]["silent"] != stratum:
            tree.heads[g]["silent"] = MIXED
    if items[i]["stratum"] != stratum:
        items[i]["stratum"] = stratum
        tree.moved[size] = i
        size += 1
    return size


@brief
def refresh(
    tree: TreeArrays, items: Any, levels: Levels, table: Floats, nodes: npt.NDArray[np.int32], count: int
) -> Any:
    """:func:`revise` after everything has changed: the same result, going through the items as they lie in memory.

    ``nodes`` are all groups. Members of one may lie far apart, and most of the time would be spent to wait for memory.
    """
    tree, items, table = _borrow(tree), borrowed(items), borrowed(table)
    for g in nodes:
        node = tree.nodes[g]
        node["w"] = node["y"] = node["sent"] = node["sent_y"] = 0
    sent, own = np.zeros((tree.nodes.size, 3), np.int64), np.zeros(tree.nodes.size)
    for g in nodes:
        own[g] = levels.rest[tree.nodes[g]["depth"]]
    for i in range(count):
        g = tree.member[i]["node"]
        if g != NONE:
            w, y = _news(items[i], levels.scale, own[g], tree.member[i]["step"])
            _set_news(tree, i, w, y)
            sent[g, 0] += w
            sent[g, 1] += y
            sent[g, 2] += _units(_factor(tree.member[i]["step"]))
    for g in nodes:
        tree.nodes[g]["w"], tree.nodes[g]["y"], tree.nodes[g]["factors"] = sent[g, 0], sent[g, 1], sent[g, 2]
    _spread(tree, levels, table, nodes)
    known = np.empty((tree.nodes.size, 4))
    for g in nodes:
        node = tree.nodes[g]
        mean, worth = _above(levels, node)
        w, y = _known(levels, node)
        known[g, 0], known[g, 1], known[g, 2] = worth + w, worth * mean + y, own[g]
        known[g, 3] = node["stratum"]
        tree.heads[g]["silent"] = _silent(levels, node, known[g, 0], known[g, 1])
    moved = 0
    for i in range(count):
        member = tree.member[i]
        g = member["node"]
        step = member["step"]
        if g == NONE:
            stratum = _alone(levels, step)
        elif known[g, 3] != NONE:
            stratum = _own_stratum(levels, int(known[g, 3]), step)
        else:
            stratum = _item_class(levels, known[g, 0], known[g, 1], known[g, 2], member["w"], member["y"], step)
        if items[i]["stratum"] != stratum:
            items[i]["stratum"] = stratum
            tree.moved[moved] = i
            moved += 1
    return moved


# The same in slices, between which events may come: groups hear from all items, learn from each other, and every item
# gets its prior. What an event changes meanwhile, revise brings up to date by the new prior.


@brief
def hear(tree: TreeArrays, items: Any, levels: Levels, start: int, stop: int, steps: npt.NDArray[np.int32]) -> None:
    """Let groups know the present counts of the items at these places; ``steps``: their factors, if they are others."""
    tree, items, steps = _borrow(tree), borrowed(items), borrowed(steps)
    for i in range(start, stop):
        member = tree.member[i]
        if steps.size and steps[i - start] != member["step"]:
            step = steps[i - start]
            if member["node"] != NONE:
                tree.nodes[member["node"]]["factors"] += _units(_factor(step)) - _units(_factor(member["step"]))
            member["step"] = step
        if member["node"] != NONE:
            _tell(tree, items, levels, i)


@brief
def spread(tree: TreeArrays, levels: Levels, table: Floats, nodes: npt.NDArray[np.int32]) -> None:
    """Let all groups know what those above and below them know."""
    _spread(_borrow(tree), levels, borrowed(table), nodes)


@brief
def give(tree: TreeArrays, items: Any, levels: Levels, start: int, stop: int) -> Any:
    """Give the items at these places their strata; notes in ``moved`` which are others, and returns how many."""
    tree, items = _borrow(tree), borrowed(items)
    moved = 0
    for i in range(start, stop):
        moved = _assign_one(tree, items, levels, i, moved)
    return moved


@inline
def _note(tree: TreeArrays, g: int, size: int) -> int:
    if tree.nodes[g]["seen"] != 0:
        return size
    tree.nodes[g]["seen"] = _NOTED
    tree.noted[size] = g
    return size + 1


@brief
def revise(
    tree: TreeArrays,
    items: Any,
    levels: Levels,
    table: Floats,
    slots: Slots,
    nodes: npt.NDArray[np.int32],
    most: int,
    upwards: bool,
) -> Any:
    """Bring priors up to date after these items' counts and these groups have changed.

    Writes each item's stratum, and where it has changed notes the item in ``moved``; returns how many. Groups are
    looked at until so many members and groups below them have been, ``most``; of the others, returned is how many there
    are, in ``noted``: they wait for another call, in which no news are to be passed on ``upwards``, as that has been
    done. One with many groups below waits until all of these have heard what it has to tell.
    """
    tree, items, table = _borrow(tree), borrowed(items), borrowed(table)
    size, moved, looked = 0, 0, 0
    for i in slots:
        g = tree.member[i]["node"]
        if g != NONE:
            _tell(tree, items, levels, i)
            size = _note(tree, g, size)
    for g in nodes:
        size = _note(tree, g, size)
    # Upwards: a group's news are passed on once all below it have passed on theirs.
    deepest = 0
    for j in range(size):
        deepest = max(deepest, tree.nodes[tree.noted[j]]["depth"])
    for depth in range(deepest if upwards else 0, 1, -1):
        for j in range(size):
            g = tree.noted[j]
            if tree.nodes[g]["depth"] == depth:
                _pass_on(tree, levels, g)
                size = _note(tree, tree.nodes[g]["parent"], size)
    # Downwards: a group whose prior has changed, or that has been sent something, tells its members and those below.
    depth = 1
    while looked <= most:
        later = False
        j = 0
        while j < size and looked <= most:
            g = tree.noted[j]
            j += 1
            node = tree.nodes[g]
            if node["depth"] != depth:
                later = later or node["depth"] > depth
                continue
            if depth > 1 and tree.nodes[node["parent"]]["children"] > levels.many:
                _learn_above(tree, levels, g)  # it may be new, and the one above has nothing else to tell the others
            moved, members = _assign(tree, items, levels, table, g, moved)
            looked += members
            head, many = tree.heads[g], node["children"] > levels.many
            if many and _tell_all(tree, levels, g):
                head["untold"] = node["children"]
            hear = min(head["untold"], 1 + most // _TOLD) if many else node["children"]
            looked += hear
            c = head["turn"] if many else node["child"]
            for _ in range(hear):
                c = node["child"] if c == NONE else c
                if _learn_above(tree, levels, c):
                    size = _note(tree, c, size)
                later = True
                c = tree.nodes[c]["next"]
            if many:
                head["untold"] -= hear
                head["turn"] = c
            node["seen"] = _DONE if not many or head["untold"] == 0 else _TELLS
        if not later:
            break
        depth += 1
    for i in slots:  # those whose group has had its turn have theirs, unless they are new there
        moved = _assign_one(tree, items, levels, i, moved)
    left = 0
    for j in range(size):
        g = tree.noted[j]
        node = tree.nodes[g]
        if node["seen"] != _DONE:
            tree.noted[left] = g
            left += 1
            if node["stratum"] != NONE:  # its items share a prior, and some may be given it before its turn
                _own_rows_of(levels, table, node)
        node["seen"] = 0
    return moved, left


@brief
def sampled(tree: TreeArrays, items: Any, used: npt.NDArray[np.int32], bits: int, out: Slots) -> Any:
    """Write the items with impressions of groups whose marks end in so many zeros; returns how many there are."""
    tree, items = _borrow(tree), borrowed(items)
    size = 0
    for g in used:
        node = tree.nodes[g]
        if node["mark"] & ((1 << bits) - 1) != 0:
            continue
        i = node["first"]
        while i != NONE:
            if items[i]["n"] > 0.0 or items[i]["s"] > 0.0:
                if size < out.size:
                    out[size] = i
                size += 1
            i = tree.member[i]["next"]
    return size
