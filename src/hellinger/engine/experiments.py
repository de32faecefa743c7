"""Experiments of a running service: begun, changed and ended by events of the log, on all replicas at once."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping
from typing import Any

from hellinger.engine._setting_text import check_variant
from hellinger.engine.allocation import HOLDOUT, SETTINGS, Allocation, check_name
from hellinger.engine.journal import Journal
from hellinger.engine.settings import Settings
from hellinger.engine.specs import canonical
from hellinger.engine.warming import compile_apart, warm_policies
from hellinger.errors import UnknownIdError, require
from hellinger.events import now
from hellinger.experiment.names import full_name
from hellinger.ledger import MAIN, Ledger

__all__ = ["Experiments", "UnknownExperimentError"]


class UnknownExperimentError(UnknownIdError):
    """There is no experiment of this name."""

    def __init__(self, name: str, known: list[str]) -> None:
        super().__init__(f"an experiment's name must be one of {', '.join(known)}, but got {name!r}")


class Experiments:
    """What is played, as of the log's end. ``ledger`` gives that of the moment."""

    def __init__(self, settings: Settings, journal: Journal, ledger: Callable[[], Ledger]) -> None:
        self._settings = settings
        self._journal = journal
        self._ledger = ledger

    @property
    def names(self) -> list[str]:
        """Of all experiments, the main one first, ended ones too."""
        return list(dict.fromkeys([MAIN, *self._ledger().experiments]))

    def allocation(self, name: str = MAIN) -> Allocation:
        """How an experiment shares its traffic, or shared it when it ended."""
        phase = self._ledger().experiments.get(name)
        if phase is not None:
            return Allocation.of(phase)
        if name != MAIN:
            raise UnknownExperimentError(name, self.names)
        return Allocation.given(self._settings)

    async def begin(self) -> None:
        """Begin a phase of the main experiment by the settings, where the log has none by them or they are others."""
        allocation = Allocation.given(self._settings)
        by_settings = [phase for phase in self._ledger().phases if phase["by"] == SETTINGS]
        if not by_settings or Allocation.of(by_settings[-1]) != allocation:
            await self._write(allocation, MAIN, SETTINGS)

    async def start(
        self,
        by: str,
        name: str,
        *,
        variants: Mapping[str, str],
        weights: Mapping[str, float] | None = None,
        shadows: Mapping[str, str] | None = None,
        holdout: str | None = None,
        holdout_share: float = 0.05,
        begin: str = "empty",
        why: str = "",
        **others: Any,
    ) -> bool:
        """Start an experiment on its part of the traffic; False where somebody else changed one at this moment.

        ``holdout``: a further variant that does not learn, ``uniform`` or ``fixed``, with this share of its traffic.
        ``begin``: variants begin ``empty``, or from the ``common`` counts of all variants so far. For others see
        :class:`Allocation`; ``shadows`` are candidates that rank its traffic unseen.
        """
        await self._journal.look()
        check_name(name)
        specs = {full_name(name, variant): spec for variant, spec in variants.items()}
        own = self._settings
        allocation = Allocation(
            specs,
            _full(name, weights) or dict.fromkeys(specs, 1.0),
            learning=own.learning,
            window=Allocation.given(own).window,
            shadows=_full(name, shadows) or {},
        )
        require(set(allocation.weights) == set(specs), "every variant has a weight", weights=weights or {})
        given = {field: value for field, value in others.items() if value is not None}
        if given.get("control"):
            given["control"] = full_name(name, given["control"])
        allocation = allocation._replace(**given).check()
        if holdout:
            allocation = allocation.with_holdout(full_name(name, HOLDOUT), holdout, holdout_share)
        there = self._ledger().experiments
        if name in there and Allocation.of(there[name]) == allocation:  # the answer to a first attempt was lost
            return True
        require(name not in self.names, "an experiment's name is used once", name=name, used=self.names)
        self._require_room(name, allocation)
        return await self._write(allocation, name, by, common=self._common(begin, allocation), why=why)

    async def change(
        self,
        by: str,
        name: str = MAIN,
        *,
        after: int | None = None,
        begin: str = "empty",
        why: str = "",
        variants: Mapping[str, str] | None = None,
        weights: Mapping[str, float] | None = None,
        shadows: Mapping[str, str | None] | None = None,
        **changes: Any,
    ) -> bool:
        """Begin another phase of an experiment, on all replicas, unless nothing would change.

        A shadow that is given a weight becomes a variant, and keeps what it has learned.

        False where another phase than ``after`` is in force, but for the one that was asked for, or where somebody else
        has begun one at this moment. For ``begin`` see :meth:`start`: it is about variants that are new.
        """
        await self._journal.look()
        ledger = self._ledger()
        before = in_force = self.allocation(name)
        phases = [phase for phase in ledger.phases if phase["name"] == name]
        place = phases[-1]["seq"] if phases else 0
        if after not in (None, place):  # the answer to an earlier attempt may have been lost
            before = next((Allocation.of(phase) for phase in phases if phase["seq"] == after), before)
        if name == MAIN:
            asked = changes.get("share") not in (None, 1.0) or bool(changes.get("ended"))
            require(not asked, "the main experiment has all that no other takes, and does not end", **changes)
        going_on = not in_force.ended or bool(changes.get("ended"))
        require(going_on, "the experiment has not ended", name=name)
        if changes.get("control"):
            changes["control"] = full_name(name, changes["control"])
        former = {variant: spec for phase in phases for variant, spec in phase["variants"].items()}
        specs, chosen, unseen = _full(name, variants), _full(name, weights), _full(name, shadows)
        allocation = before.changed(variants=specs, weights=chosen, shadows=unseen, former=former, **changes)
        if phases and allocation == in_force:
            return True
        if before is not in_force:
            return False
        self._require_room(name, allocation)
        common = self._common(begin, allocation)
        if allocation.learning == "isolated":  # a shadow has learned from all: it goes on from their counts
            common += [
                variant for variant in before.shadows if variant in allocation.variants and variant not in common
            ]
        return await self._write(allocation, name, by, common=common, why=why)

    async def end(self, by: str, name: str, *, after: int | None = None, why: str = "") -> bool:
        """End an experiment: its traffic is the main one's again, and its figures stay."""
        return await self.change(by, name, after=after, why=why, ended=True)

    def _common(self, begin: str, allocation: Allocation) -> list[str]:
        """Variants that have never been there before, where they are to begin from common counts."""
        require(begin in ("empty", "common"), "begin is empty or common", begin=begin)
        seen = {name for phase in self._ledger().phases for name in phase["variants"]}
        return [name for name in allocation.variants if name not in seen] if begin == "common" else []

    def _require_room(self, name: str, allocation: Allocation) -> None:
        """Variants have good names, and no part of the traffic is given out twice, nor a variant's name."""
        names = {*allocation.variants, *allocation.shadows}
        for variant in names:
            check_variant(variant.removeprefix(f"{name}:") if name != MAIN else variant)
        others = {
            other: Allocation.of(phase)
            for other, phase in self._ledger().experiments.items()
            if other != name and not phase.get("ended")
        }
        taken = math.fsum(
            each.share for other, each in others.items() if other != MAIN and each.placement == allocation.placement
        )
        if name != MAIN and not allocation.ended:
            where = f"placement {allocation.placement!r}" if allocation.placement else "all traffic"
            rule = f"experiments share at most 1 of {where}"
            require(taken + allocation.share <= 1.0 + 1e-9, rule, share=allocation.share, taken=taken)
        for other, each in others.items():
            both = sorted({*each.variants, *each.shadows} & names)
            require(not both, f"a variant is in one experiment (these are in {other!r})", variants=both)

    async def _write(self, allocation: Allocation, name: str, by: str, **more: Any) -> bool:
        ledger = self._ledger()
        place = ledger.phase_place  # before others can begin a phase: what was checked was checked against this one
        played = [Allocation.given(self._settings).variants]
        for phase in ledger.experiments.values():
            played += [] if phase.get("ended") else [phase["variants"], phase.get("shadows", {})]
        compiled = {canonical(spec) for variants in played for spec in variants.values()}
        if new := set(map(canonical, (*allocation.variants.values(), *allocation.shadows.values()))) - compiled:
            await asyncio.to_thread(compile_apart, frozenset(new))
            await asyncio.to_thread(warm_policies, new)  # rankings would wait for the compiler
        draft = allocation.draft(now(), after=place, by=by, name=name, **more)
        return await self._journal.write((draft,)) != [None]


def _full(experiment: str, named: Mapping[str, Any] | None) -> dict[str, Any] | None:
    return None if named is None else {full_name(experiment, name): value for name, value in named.items()}
