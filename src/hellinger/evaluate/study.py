"""A whole log evaluated: fixed policies by every estimator, learning ones by playing them, and what the log lacks."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from hellinger._spec import parse_spec
from hellinger.errors import require
from hellinger.evaluate.estimate import Estimate, disagreement
from hellinger.evaluate.evaluator import ESTIMATORS, Evaluator
from hellinger.evaluate.forecast import PATIENCE, Exploration, NearTies, forecast, near_ties
from hellinger.evaluate.learning import Replayed
from hellinger.evaluate.logs import LogFile, LogSource
from hellinger.evaluate.parts import LogPart
from hellinger.evaluate.plays import KeptRewards, check_learning
from hellinger.evaluate.selfcheck import SelfCheck, SelfChecks
from hellinger.evaluate.survey import Survey, survey
from hellinger.evaluate.targets import EvenChances, Order, Target, Variant, Wanted, read_target

__all__ = ["FixedAnswer", "Study", "evaluate_log"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Progress = Callable[[int, int], None]

_BLOCKS = 16
"""Times that the model is renewed in a part of the log: it knows only what was before."""
_BINS = 24
"""Stretches of time in which support is shown."""
_STRENGTH = 20.0
"""Impressions at the overall rate that an item's own are mixed with."""
NEXT = 20
"""Items that follow the last place, as ``next_items`` has them by default."""
_MODELLED = ("dm", "dr", "switch_dr", "dr_os")


class FixedAnswer(NamedTuple):
    """What a log says of a fixed policy."""

    policy: str
    estimates: tuple[Estimate, ...]
    """By each estimator; empty where no row has a propensity and looks are not known."""
    disagreement: str
    places: tuple[tuple[int, float, float], ...]
    """Of each position: rows, mean weight and effective sample."""
    times: tuple[tuple[int, float, float], ...]
    """Of stretches of time: rankings, mean weight, and the share of places that were as the policy would have them."""
    explorations: tuple[Exploration, ...]
    advice: str
    """What would have to be drawn at random for an answer; empty where there is one."""

    @property
    def best(self) -> Estimate | None:
        """The estimate with the narrowest interval among those that assume nothing, else among all that answer."""
        answered = [each for each in self.estimates if not each.refusal and each.estimator != "dm"]
        safe = [each for each in answered if each.assumption.startswith("none")]
        return min(safe or answered or self.estimates, key=lambda each: each.high - each.low, default=None)


class Study(NamedTuple):
    """A log, and what it says of some policies."""

    path: str
    survey: Survey
    fixed: tuple[FixedAnswer, ...]
    """Policies that stand still."""
    learned: tuple[Replayed, ...]
    """Policies that learn, played on the log's rewards."""
    notes: tuple[str, ...]
    """What the log lacks, and what was assumed instead."""
    checks: tuple[SelfCheck, ...] = ()
    """Of a log gone through again: each variant estimated from the others' traffic, and measured."""

    def as_json(self) -> dict[str, Any]:
        """Everything, as JSON can hold it."""
        log = self.survey
        return {
            "log": {
                "path": self.path,
                "kind": log.kind,
                "rankings": log.rankings,
                "rows": log.rows,
                "items": log.items,
                "reward": log.reward,
                "reward_per_ranking": log.reward / log.rankings,
                "days": log.days,
                "least_propensity": log.least,
                "rows_without_propensity": log.unknown,
            },
            "fixed": [_fields(each) for each in self.fixed],
            "learning": [_fields(each) | {"how_far": each.how_far} for each in self.learned],
            "self_check": [each.as_json() for each in self.checks],
            "notes": list(self.notes),
        }


def _fields(thing: Any) -> Any:
    if isinstance(thing, Estimate):
        return _plain(thing._asdict()) | {"verdict": thing.verdict}
    if hasattr(thing, "_asdict"):
        return _plain(thing._asdict())
    return _plain(thing)


def _plain(thing: Any) -> Any:
    """JSON has neither NaN nor infinity."""
    if isinstance(thing, dict):
        return {name: _fields(value) for name, value in thing.items()}
    if isinstance(thing, (list, tuple)):
        return [_fields(each) for each in thing]
    if isinstance(thing, float):
        return thing if math.isfinite(thing) else None
    return thing


class _Model:
    """Rates of items from what was before, mixed with the overall rate; times the looks at a position."""

    def __init__(self, items: int, looks: Floats | None, slots: int) -> None:
        self._looks = np.ones(slots) if looks is None else looks
        self._shown, self._earned = np.zeros(items), np.zeros(items)

    def rates(self) -> Floats:
        """A rate for each item, at a position with looks of 1."""
        overall = self._earned.sum() / max(float(self._shown.sum()), 1.0)
        return np.asarray((self._earned + _STRENGTH * overall) / (self._shown + _STRENGTH))

    def at(self, position: Ints) -> Floats:
        """Looks at each row's position."""
        return np.asarray(self._looks[position - 1])

    def learn(self, part: LogPart) -> None:
        """Count these."""
        self._shown += np.bincount(part.item, self.at(part.position), self._shown.size)
        self._earned += np.bincount(part.item, part.reward, self._earned.size)


class _Run:
    """All estimators of one policy, fed block by block."""

    def __init__(
        self, target: Target, log: Survey, looks: Floats | None, alpha: float, cut: float, *, share: float = 0.0
    ) -> None:
        self.target, self._log, self._looks, self._alpha = target, log, looks, alpha
        largest = max(1.0, target.heaviest(log))
        if share > 0.0:  # its own part of the traffic is in every propensity
            largest = max(1.0, min(largest, 1.0 / share))
        names = [name for name in ESTIMATORS if name != "position_based"]
        if not target.predicts:
            names = [name for name in names if name not in _MODELLED]
        self._evaluators = {
            name: Evaluator(name, most=log.most, slots=log.longest, largest=largest, cut=cut, alpha=alpha)
            for name in names
        }
        ranks = looks is not None and log.kind == "export" and bool((looks > 0.0).all())
        self._by_position = ranks and isinstance(target, Order)
        if looks is not None and self._by_position:
            ratio = float(looks.max() / looks.min())
            self._evaluators["position_based"] = Evaluator(
                "position_based", most=log.most, slots=log.longest, largest=max(ratio, 1.0), alpha=alpha
            )
        self._place = np.zeros((3, log.slots))
        self._time = np.zeros((3, _BINS))
        self._blocks = 0
        self.left_out = 0
        """Rankings on which it is not known what the policy would have shown."""

    def add(self, part: LogPart, before: int, model: _Model) -> None:
        """Go on with these rankings."""
        wanted = self.target.wanted(part, before)
        sizes = part.sizes
        known = np.isfinite(part.propensity) & np.isfinite(wanted.chance)
        whole = np.logical_and.reduceat(known, part.first)
        self._watch(part, wanted, before)
        clear = np.isfinite(wanted.chance)
        self.left_out += int((~clear[part.first]).sum())
        if self._by_position and wanted.position is not None and clear.any():
            self._add_positions(part, wanted.position, clear)
        kept = np.repeat(whole, sizes)
        if not kept.any():
            return
        ranking = part.ranking[kept]
        reward, weight = part.reward[kept], wanted.chance[kept] / part.propensity[kept]
        predicted, ahead = self._predictions(part, wanted, before, model) if self.target.predicts else (reward, reward)
        for name, evaluator in self._evaluators.items():
            if name in _MODELLED:
                if self._blocks:  # before, the model knows nothing
                    columns = {"predicted": predicted[kept], "predicted_target": ahead[kept]}
                    evaluator.add(reward, weight, ranking=ranking, **columns)
            elif name != "position_based":
                evaluator.add(reward, weight, ranking=ranking)
        self._blocks += 1
        position = part.position[kept] - 1
        for row, values in enumerate((np.ones(weight.size), weight, weight * weight)):
            self._place[row] += np.bincount(position, values, self._place.shape[1])

    def _predictions(self, part: LogPart, wanted: Wanted, before: int, model: _Model) -> tuple[Floats, Floats]:
        rates, looks = model.rates(), model.at(part.position)
        if wanted.items is None:
            ahead = self.target.average(rates, part, before) * looks
        else:
            ahead = np.where(wanted.items >= 0, rates[wanted.items], 0.0) * looks
        most = self._log.most
        return np.minimum(rates[part.item] * looks, most), np.minimum(ahead, most)

    def _add_positions(self, part: LogPart, there: Ints, clear: npt.NDArray[np.bool_]) -> None:
        looks = self._looks
        assert looks is not None
        chance = np.where(there > 0, looks[there - 1], 0.0)
        here = looks[part.position - 1]
        mass = chance * np.repeat(part.sizes / np.add.reduceat(here, part.first), part.sizes)
        columns = (each[clear] for each in (part.reward, chance / here, part.ranking, mass))
        reward, weight, ranking, share = columns
        self._evaluators["position_based"].add(reward, weight, ranking=ranking, mass=share)

    def _watch(self, part: LogPart, wanted: Wanted, before: int) -> None:
        """Support over time."""
        number = before + np.arange(part.first.size)
        bins = np.minimum(number * _BINS // self._log.rankings, _BINS - 1)
        known = np.where(np.isfinite(part.propensity), part.propensity, np.inf)
        chance = np.nan_to_num(wanted.chance)
        columns = (np.ones(part.item.size), chance / known, chance)
        for row, values in enumerate(columns):
            self._time[row] += np.bincount(bins, np.add.reduceat(values, part.first) / part.sizes, _BINS)

    def answer(self, drawn: float, following: float | None = None, near: Sequence[NearTies] = ()) -> FixedAnswer:
        """What there is to say."""
        estimates = tuple(each.estimate() for each in self._evaluators.values() if each.units)
        n, mean, squares = self._place
        effective = np.divide(mean * mean, squares, out=np.zeros_like(mean), where=squares > 0.0)
        places = tuple(zip(n.astype(int).tolist(), (mean / np.maximum(n, 1)).tolist(), effective.tolist(), strict=True))
        counts, weights, same = self._time
        some = np.maximum(counts, 1.0)
        times = zip(counts.astype(int).tolist(), (weights / some).tolist(), (same / some).tolist(), strict=True)
        answer = FixedAnswer(self.target.name, estimates, disagreement(estimates), places, tuple(times), (), "")
        return self._advised(answer, drawn, following, near, float(same.sum() / max(counts.sum(), 1.0)))

    def _advised(
        self, answer: FixedAnswer, drawn: float, following: float | None, near: Sequence[NearTies], overlap: float
    ) -> FixedAnswer:
        best, log = answer.best, self._log
        decided = best is not None and not best.refusal and (best.lift_low > 0.0 or best.lift_high < 0.0)
        if decided or log.reward <= 0.0:
            return answer
        places, logged = log.rows / log.rankings, log.reward / log.rows
        # what is worth knowing: a twentieth of what is earned, or what the estimate says if that is more
        wish = 0.05 * logged * places
        if best is not None and not best.refusal:
            wish = max(wish, abs(best.difference))
        options, sentence = forecast(
            logged=logged,
            drawn=drawn,
            difference=wish,
            overlap=min(overlap, 1.0),
            places=places,
            items=max(round(log.choices), 1),
            daily=log.rankings / log.days if log.days > 0.0 else 0.0,
            following=following,
            next_items=NEXT,
            near=near,
            alpha=self._alpha,
        )
        if best is not None and not best.refusal and log.days > 0.0:
            # an interval narrows about as the square root of the log grows
            more = log.days * ((0.5 * (best.difference_high - best.difference_low) / wish) ** 2 - 1.0)
            if 0.0 < more <= PATIENCE:
                sentence = f"{math.ceil(more)} more days of the same log would tell; no further price"
        return answer._replace(explorations=tuple(options), advice=sentence)


def evaluate_log(
    path: LogSource,
    *,
    policies: Sequence[str] = (),
    scores: Sequence[str | Path] = (),
    seeds: int = 5,
    seed: int = 0,
    method: str = "queue",
    alpha: float = 0.05,
    cut: float = 10.0,
    resume: str | Path | None = None,
    progress: Progress | None = None,
) -> Study:
    """Evaluate policies on a log.

    Parameters
    ----------
    path
        An export of the service (Parquet or JSON lines), an Open Bandit file, or either as a Polars frame.
    policies
        Specs of learning policies, which are played; ``uniform``, which does not learn, is weighted.
    scores
        Tables of fixed policies: ``item, score`` (the best first) or ``item, position, chance``. Variants that shared
        the traffic of a log gone through again (``hellinger export --retrace``) are evaluated too, each on all of it.
    seeds, seed
        Shuffles of the log that learning policies are played on.
    method
        How they are played: ``"queue"`` or ``"replay"``, as for :func:`~hellinger.evaluate.play_log`.
    alpha, cut
        As for :class:`Evaluator`.
    resume
        Folder in which finished plays are kept.
    progress
        Called with the steps done and their total: rows surveyed, weighted, and played by each seed.

    Examples
    --------
    A log in which two items came first in turn by a coin, as a Polars frame: what would uniform choice have earned?

    >>> import polars as pl
    >>> log = pl.DataFrame({"ranking_id": range(400), "item": ["a", "b"] * 200, "reward": [1, 0, 0, 0] * 100})
    >>> log = log.with_columns(position=pl.lit(1), propensity=pl.lit(0.5), eligible=pl.lit(2))
    >>> study = evaluate_log(log, policies=["uniform"])
    >>> ips = study.fixed[0].estimates[0]
    >>> ips.value, ips.mean_weight, ips.verdict
    (0.25, 1.0, 'not decided: between -10.3 % and +10.3 % of what was logged')
    """
    learning = [spec for spec in policies if parse_spec(spec)[0] != "uniform"]
    check_learning(learning, method)  # a wrong name is told before the log is read
    log = LogFile(path)
    some = len(policies) + len(scores) > 0 or log.retraced
    require(
        some, "there is a policy, a table of scores, or a log with the chances of its variants", policies=0, scores=0
    )
    rows = log.rows() if progress is not None else 0
    steps = rows * (2 + seeds * len(learning))  # to survey them, to weight them, to play them

    def move(done: int) -> None:
        if progress is not None:
            progress(done, max(done, steps))

    found = survey(log, progress=move)
    looks = found.looks()
    targets: list[Target] = [read_target(table, found) for table in scores]
    if len(learning) < len(policies):
        targets.append(EvenChances(found))
    model = _Model(found.items, looks, found.slots)
    runs = [_Run(target, found, looks, alpha, cut) for target in targets]
    runs += [_Run(Variant(name), found, None, alpha, cut, share=share) for name, share in found.variants.items()]
    checks = SelfChecks(found.variants, slots=found.longest, most=found.most)
    kept: list[tuple[Ints, Ints, Floats, Floats]] = []
    before = read = 0
    for block in _blocks(log):
        for run in runs:
            run.add(block, before, model)
        model.learn(block)
        checks.add(block)
        before += block.first.size
        if learning:
            kept.append((block.item, block.position, block.reward, block.propensity))
        read += block.item.size
        move(found.rows + read)
    rates = model.rates()
    notes = list(found.lacks)
    if looks is not None and found.slots > 1:
        notes.append(found.looks_note)
    if targets and found.unknown < found.rows:
        notes.append(f"upper ends suppose that no propensity is below the least of the log, {found.least:.3g}")
    learned: tuple[Replayed, ...] = ()
    if learning:
        rewards = KeptRewards(*map(np.concatenate, zip(*kept, strict=True)), log=found, looks=looks, seed=seed)
        del kept
        learned = rewards.play(
            learning,
            method,
            seeds=seeds,
            alpha=alpha,
            resume=resume,
            progress=lambda runs, _: move(found.rows * (2 + runs)),
        )
        notes += rewards.notes
    # what a place drawn at random earns: an item counts for as long as it was there
    drawn = float(np.average(rates, weights=found.gone - found.born + 1) * (1.0 if looks is None else looks.mean()))
    # what follows the last place is as good as the items next to the best by their rates
    next_best = np.sort(rates)[::-1][found.slots : found.slots + NEXT]
    following = float(next_best.mean()) * drawn / float(rates.mean()) if next_best.size and rates.mean() > 0 else None
    if found.explored[0]:
        notes.append(_explored(found))
    notes += [
        f"{run.target.name}: {run.left_out:,} of {found.rankings:,} rankings are left out, for {run.target.leaves_out}"
        for run in runs
        if run.left_out and run.target.leaves_out
    ]
    near = near_ties(rates, found.slots, looks=1.0 if looks is None else float(looks[-1]), next_items=NEXT)
    answers = tuple(run.answer(drawn, following, near) for run in runs)
    return Study(log.name, found, answers, learned, tuple(notes), checks.found(alpha))


def _explored(log: Survey) -> str:
    """What exploring one place has cost so far, in words."""
    rows, earned = log.explored
    elsewhere = (log.reward - earned) / max(log.rows - rows, 1)
    price = max(elsewhere * rows - earned, 0.0)
    return (
        f"{rows:,.0f} places were given to one of the items that follow: they earned {earned / rows:.4g} each, other "
        f"places {elsewhere:.4g}; price so far: about {price:,.0f} of reward"
    )


def _blocks(log: LogFile) -> Iterator[LogPart]:
    for part in log.parts():
        size = max(1, -(-part.first.size // _BLOCKS))
        for begin in range(0, part.first.size, size):
            yield part.cut(begin, min(begin + size, part.first.size))
