"""How traffic is shared between variants: one allocation for each phase of the experiment."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from hellinger.engine.drafts import WRITER, Draft
from hellinger.engine.settings import Settings
from hellinger.errors import require
from hellinger.experiment import Split
from hellinger.policies import policy

__all__ = ["SETTINGS", "Allocation"]

SETTINGS = "settings"
"""Who began a phase that a service's own settings asked for."""


class Allocation(NamedTuple):
    """What a phase of the experiment plays."""

    variants: dict[str, str]
    """Policy of each, as a spec."""
    weights: dict[str, float]
    split: str
    """``random``, or ``sticky`` where users keep their variant."""
    control: str
    """The variant that others are compared with; the last where it is empty."""

    @classmethod
    def given(cls, settings: Settings) -> Allocation:
        """What the settings ask for."""
        weights = {name: float(settings.variant_weights.get(name, 1.0)) for name in settings.variants}
        return cls(dict(settings.variants), weights, settings.split, settings.control)

    @classmethod
    def of(cls, phase: Mapping[str, Any]) -> Allocation:
        """The allocation of a phase in the log."""
        return cls(*(phase[field] for field in cls._fields))

    def changed(
        self,
        *,
        variants: Mapping[str, str] | None = None,
        weights: Mapping[str, float] | None = None,
        split: str | None = None,
        control: str | None = None,
        former: Mapping[str, str] | None = None,
    ) -> Allocation:
        """The same allocation but for what is given; ``former`` are policies of variants that have stopped.

        ``variants`` are added to those there are, or replace their policies. ``weights`` are those of all variants that
        are to have traffic: others stop, and some that had stopped come back. Without them a new variant has weight 1.
        """
        back = {name: spec for name, spec in (former or {}).items() if name in (weights or ())}
        named = {**back, **self.variants, **(variants or {})}
        if weights is None:
            chosen = self.weights | {name: 1.0 for name in named if name not in self.weights}
        else:
            unknown = sorted(set(weights) - set(named))
            require(not unknown, "every weight is one of a variant", unknown=unknown, variants=sorted(named))
            for name, weight in weights.items():
                require(0.0 <= weight < math.inf, f"0 <= weight of {name!r} < inf", weight=weight)
            chosen = {name: float(weights.get(name, 0.0)) for name in named}
        kept = {name: spec for name, spec in named.items() if chosen[name] > 0.0}
        allocation = Allocation(
            kept,
            {name: chosen[name] for name in kept},
            self.split if split is None else split,
            self.control if control is None else control,
        )
        if control is None and allocation.control not in kept:
            allocation = allocation._replace(control="")
        return allocation.check()

    def check(self) -> Allocation:
        """Return the allocation, or raise where nothing can be played by it."""
        require(len(self.variants) > 0, "a variant has traffic", variants=list(self.variants))
        for spec in self.variants.values():
            policy(spec)
        Split(self.weights)
        require(self.split in ("random", "sticky"), "split is random or sticky", split=self.split)
        names = ", ".join(self.variants)
        require(not self.control or self.control in self.variants, f"control is one of {names}", control=self.control)
        return self

    def draft(self, at: int, *, after: int, by: str) -> Draft:
        """A draft that begins a phase with this allocation.

        ``after`` is the place in the log of the phase before, 0 for none: of several that follow one phase the log
        takes the first.
        """
        fields = {**self._asdict(), "after": after, "by": by, "writer": WRITER}
        return Draft.of(f"experiment/{after}", "experiment", at, fields)
