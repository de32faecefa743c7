"""One run of one policy, compiled: five ways to play, equal in every decision.

``scan`` computes every index at every round. ``leader`` does so only when the arm last played may have been
overtaken. ``limited`` computes the few that may be the largest, by bounds that a rule with a memory keeps. ``lazy``
keeps arms with equal (sum, pulls) in one cell and the cells in a heap ordered by an upper bound of their index, so that
a round looks at a few cells however many arms there are. ``pages`` plays several arms a round and lets feedback come
late or in batches: it is :func:`hellinger.world.site.turns` with a policy's plain counts, compiled for arms that stay,
a hundred times as fast.

Arms are numbered in the order in which ties go to them; the caller shuffles them for random ties. Their means are the
rows of ``course``, each from the round in ``since`` on, the first from round 1.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from hellinger._jit import helper, inline, jit
from hellinger._random import word
from hellinger.families import Family
from hellinger.families import _dispatch as families
from hellinger.lab._cells import (
    cells_add,
    cells_first,
    cells_new,
    cells_refresh,
    cells_take,
)
from hellinger.policies import _dispatch as rules
from hellinger.policies._rule import Rule
from hellinger.world.players import largest

__all__ = ["first_largest", "lazy", "leader", "limited", "pages", "scan"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]


@helper
def _note(when: int, regret: float, pulls: Floats, order: Ints, regrets: Floats, played: Ints) -> int:
    """Write the state at a checkpoint; return the position of the next. Called only there: a call costs refcounts."""
    regrets[when] = regret
    for i in range(order.size):
        played[when, order[i]] += np.int64(pulls[i])
    return when + 1


@inline
def first_largest(index: Floats, arms: int) -> int:
    """Position of the largest of the first ``arms`` numbers, without a branch to mispredict."""
    arm, most = 0, index[0]
    for i in range(1, arms):
        better = index[i] > most
        most = index[i] if better else most
        arm = i if better else arm
    return arm


@jit
def scan(
    rule: Rule,
    family: Family,
    course: Floats,
    since: Ints,
    order: Ints,
    streams: Words,
    init: int,
    rng: Any,
    width: int,
    checkpoints: Ints,
    regrets: Floats,
    played: Ints,
) -> float:
    """Play one arm a round, every index computed anew; return the sum of rewards.

    ``width`` ≥ K is the length of the arrays: a rule that scores arms one by one is computed in whole vectors.
    """
    row, means, arms = 0, course[0], course.shape[1]
    sums, pulls, index = np.zeros(width), np.zeros(width), np.empty(width)
    best = means.max()
    regret, total, when = 0.0, 0.0, 0
    for step in range(1, checkpoints[-1] + 1):
        if row + 1 < since.size and step == since[row + 1]:
            row += 1
            means, best = course[row], course[row].max()
        arm = (step - 1) // init if step <= init * arms else 0
        if step > init * arms:
            rules.fill(rule, sums, pulls, float(step), float(arms), rng, index)
            arm = first_largest(index, arms)
        reward = families.draw(family, means[arm], word(streams[arm], np.uint64(pulls[arm])))
        sums[arm] += reward
        pulls[arm] += 1.0
        rules.observe(rule, arm, reward, float(step))
        rule = rules.learned(rule, sums, pulls, float(step))
        total += reward
        regret += best - means[arm]
        if step == checkpoints[when]:
            when = _note(when, regret, pulls, order, regrets, played)
    return total


@jit
def limited(
    rule: Rule,
    family: Family,
    course: Floats,
    since: Ints,
    order: Ints,
    streams: Words,
    init: int,
    checkpoints: Ints,
    regrets: Floats,
    played: Ints,
) -> float:
    """The same choices as :func:`scan`, for a rule that knows what no arm's index exceeds.

    The arms with the largest bounds are computed first, one after the other, and then whoever may reach the best found.
    """
    row, means, arms = 0, course[0], course.shape[1]
    pulls, index = np.zeros(arms), np.empty(arms)
    known = np.zeros(arms, np.int64)  # the last round for which an arm's index was made exact
    best = means.max()
    regret, total, when = 0.0, 0.0, 0
    for step in range(1, checkpoints[-1] + 1):
        if row + 1 < since.size and step == since[row + 1]:
            row += 1
            means, best = course[row], course[row].max()
        arm = (step - 1) // init if step <= init * arms else 0
        if step > init * arms:
            rules.limit(rule, float(step), float(arms), index)
            largest = -math.inf
            for _ in range(2):  # mostly the one just played, whose bound is infinite, and the next
                arm = first_largest(index, arms)
                if known[arm] != step:
                    index[arm] = rules.exact(rule, arm, float(step), float(arms))
                    known[arm] = step
                    largest = max(largest, index[arm])
            for i in range(arms):
                if index[i] >= largest and known[i] != step:
                    index[i] = rules.exact(rule, i, float(step), float(arms))
                    known[i] = step
                    largest = max(largest, index[i])
            arm = first_largest(index, arms)
        reward = families.draw(family, means[arm], word(streams[arm], np.uint64(pulls[arm])))
        pulls[arm] += 1.0
        rules.observe(rule, arm, reward, float(step))
        total += reward
        regret += best - means[arm]
        if step == checkpoints[when]:
            when = _note(when, regret, pulls, order, regrets, played)
    return total


@jit
def leader(
    rule: Rule,
    family: Family,
    course: Floats,
    since: Ints,
    order: Ints,
    streams: Words,
    init: int,
    width: int,
    checkpoints: Ints,
    regrets: Floats,
    played: Ints,
) -> float:
    """The same choices as :func:`scan`, for few arms and a rule whose index never falls as time passes.

    While the last arm's own index stays above the largest that any other can reach in the next rounds, it is
    played again on that evidence alone: one index a round instead of K.
    """
    row, means, arms = 0, course[0], course.shape[1]
    sums, pulls, index = np.zeros(width), np.zeros(width), np.empty(width)
    best = means.max()
    regret, total, when = 0.0, 0.0, 0
    arm, rival, until = 0, 0.0, 0
    for step in range(1, checkpoints[-1] + 1):
        if row + 1 < since.size and step == since[row + 1]:
            row += 1
            means, best = course[row], course[row].max()
        if step <= init * arms:
            arm = (step - 1) // init
        elif step > until or not rules.score(rule, sums[arm], pulls[arm], float(step), float(arms)) > rival:
            last = arm
            rules.fill(rule, sums, pulls, float(step), float(arms), None, index)
            arm = first_largest(index, arms)
            if arm == last:
                until = step + min(step // 32, 64)
                rules.fill(rule, sums, pulls, float(until), float(arms), None, index)
                index[arm] = -math.inf
                rival = index[first_largest(index, arms)]
            else:
                until = 0
        reward = families.draw(family, means[arm], word(streams[arm], np.uint64(pulls[arm])))
        sums[arm] += reward
        pulls[arm] += 1.0
        total += reward
        regret += best - means[arm]
        if step == checkpoints[when]:
            when = _note(when, regret, pulls, order, regrets, played)
    return total


@jit
def lazy(
    rule: Rule,
    family: Family,
    course: Floats,
    since: Ints,
    order: Ints,
    streams: Words,
    init: int,
    checkpoints: Ints,
    regrets: Floats,
    played: Ints,
) -> float:
    """The same choices as :func:`scan`, for a rule whose index never falls as time passes.

    A bound is the index at the end of an epoch, a 64th of the time so far; it holds until then unless the
    cell's own counts change, and counts of a cell never do: arms move between cells.
    """
    row, means, arms = 0, course[0], course.shape[1]
    sums, pulls = np.zeros(arms), np.zeros(arms)
    best = means.max()
    regret, total, when = 0.0, 0.0, 0
    horizon = checkpoints[-1]
    opening = min(horizon, init * arms)
    for step in range(1, opening + 1):
        if row + 1 < since.size and step == since[row + 1]:
            row += 1
            means, best = course[row], course[row].max()
        arm = (step - 1) // init
        reward = families.draw(family, means[arm], word(streams[arm], np.uint64(pulls[arm])))
        sums[arm] += reward
        pulls[arm] += 1.0
        total += reward
        regret += best - means[arm]
        if step == checkpoints[when]:
            when = _note(when, regret, pulls, order, regrets, played)
    if opening == horizon:
        return total
    epoch = opening + max(1, opening // 64)
    cells, table = cells_new(arms)
    for arm in range(arms):
        cells_add(cells, table, rule, sums[arm], pulls[arm], arm, float(epoch), float(arms))
    for step in range(opening + 1, horizon + 1):
        if row + 1 < since.size and step == since[row + 1]:
            row += 1
            means, best = course[row], course[row].max()
        if step > epoch:
            epoch = step + min(step // 64, 2 * int(cells[-1, 0]))
            cells_refresh(cells, rule, float(epoch), float(arms))
        cell = cells_first(cells, rule, float(step), float(arms))
        arm = cells_take(cells, table, cell)
        reward = families.draw(family, means[arm], word(streams[arm], np.uint64(pulls[arm])))
        sums[arm] += reward
        pulls[arm] += 1.0
        cells_add(cells, table, rule, sums[arm], pulls[arm], arm, float(epoch), float(arms))
        total += reward
        regret += best - means[arm]
        if step == checkpoints[when]:
            when = _note(when, regret, pulls, order, regrets, played)
    return total


@helper
def _best_sum(means: Floats, slots: int) -> float:
    chosen = np.zeros(slots, np.int64)
    largest(means, slots, chosen)
    total = 0.0
    for j in range(slots):
        total += means[chosen[j]]
    return total


@jit
def pages(
    rule: Rule,
    family: Family,
    course: Floats,
    since: Ints,
    order: Ints,
    streams: Words,
    init: int,
    rng: Any,
    redraw: bool,
    slots: int,
    batch: int,
    delay: int,
    checkpoints: Ints,
    regrets: Floats,
    played: Ints,
) -> float:
    """Play ``slots`` arms a round; feedback arrives ``delay`` rounds late and is read every ``batch`` rounds.

    A play counts, pull and reward alike, when its feedback is read. Between readings a deterministic rule
    keeps its ranking; one that draws (``redraw``) ranks anew each round.
    """
    row, means, arms = 0, course[0], course.shape[1]
    sums, pulls, index = np.zeros(arms), np.zeros(arms), np.empty(arms)
    drawn = np.zeros(arms)  # plays, read or not
    pending = batch + delay
    waiting_arm = np.zeros((pending, slots), np.int64)
    waiting_reward = np.zeros((pending, slots))
    chosen = np.zeros(slots, np.int64)
    ceiling = _best_sum(means, slots)
    regret, total, when, read = 0.0, 0.0, 0, 0
    rounds = init * ((arms + slots - 1) // slots)  # groups of arms, each shown ``init`` times
    stale = True
    for step in range(1, checkpoints[-1] + 1):
        if row + 1 < since.size and step == since[row + 1]:
            row += 1
            means, ceiling = course[row], _best_sum(course[row], slots)
        if (step - 1) % batch == 0:
            while read < step - 1 - delay:
                for j in range(slots):
                    arm, reward = waiting_arm[read % pending, j], waiting_reward[read % pending, j]
                    sums[arm] += reward
                    pulls[arm] += 1.0
                    rules.observe(rule, arm, reward, float(read * slots + j + 1))
                read += 1
                stale = True
            rule = rules.learned(rule, sums, pulls, float(read * slots))
        opening = step <= rounds
        if stale or redraw or opening:
            if opening:  # whoever lacks initial plays goes first, in order
                for i in range(arms):
                    index[i] = -float(i) if drawn[i] < init else -math.inf
            else:
                rules.fill(rule, sums, pulls, float(pulls.sum() + 1.0), float(arms), rng, index)
            largest(index, slots, chosen)
            stale = opening
        shown = 0.0
        for j in range(slots):
            arm = chosen[j]
            reward = families.draw(family, means[arm], word(streams[arm], np.uint64(drawn[arm])))
            drawn[arm] += 1.0
            waiting_arm[(step - 1) % pending, j] = arm
            waiting_reward[(step - 1) % pending, j] = reward
            total += reward
            shown += means[arm]
        regret += ceiling - shown
        if step == checkpoints[when]:
            when = _note(when, regret, drawn, order, regrets, played)
    return total
