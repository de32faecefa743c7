"""How an experiment shares its traffic between variants: one allocation for each of its phases."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from hellinger.engine.drafts import WRITER, Draft
from hellinger.engine.settings import Settings
from hellinger.engine.specs import ORDERS, check_new
from hellinger.errors import require
from hellinger.experiment import Split
from hellinger.ledger import MAIN

__all__ = ["HOLDOUT", "SETTINGS", "Allocation", "check_name"]

SETTINGS = "settings"
"""Who began a phase that a service's own settings asked for."""
HOLDOUT = "holdout"
"""The variant that does not learn, where one is asked for in a word."""
HOUR = 3_600_000


def check_name(name: str) -> str:
    """Return an experiment's name, or raise."""
    good = re.fullmatch(r"[a-z0-9][a-z0-9_-]{0,31}", name) is not None
    require(good, "an experiment's name has 1 to 32 small letters, digits, - or _", name=name)
    return name


class Allocation(NamedTuple):
    """What a phase of an experiment plays."""

    variants: dict[str, str]
    """Policy of each, as a spec."""
    weights: dict[str, float]
    split: str = "random"
    """``random``, or ``sticky`` where users keep their variant."""
    control: str = ""
    """The variant that others are compared with; the last where it is empty."""
    placement: str = ""
    """Of which rankings the experiment takes its share: of those with this placement, or of all."""
    share: float = 1.0
    """The main experiment has all that no other takes."""
    learning: str = "isolated"
    """``isolated``: a variant learns from its own rankings; ``shared``: from those of all variants there are."""
    guardrail: str = ""
    """A kind of feedback that must not become more frequent; empty for none."""
    window: int | None = None
    """Milliseconds in which feedback is learned; a ranking's reward is final then."""
    ended: bool = False
    shadows: dict[str, str] = {}  # noqa: RUF012 - a field of a tuple, never changed
    """Candidates that rank what the variants rank, unseen: policy of each, as a spec."""

    @classmethod
    def given(cls, settings: Settings) -> Allocation:
        """What the settings ask for: the main experiment."""
        weights = {name: float(settings.variant_weights.get(name, 1.0)) for name in settings.variants}
        return cls(
            dict(settings.variants),
            weights,
            settings.split,
            settings.control,
            learning=settings.learning,
            guardrail=settings.guardrail,
            window=round(settings.attribution_hours * HOUR),
        )

    @classmethod
    def of(cls, phase: Mapping[str, Any]) -> Allocation:
        """The allocation of a phase in the log; one that an older version wrote does not have all fields."""
        return cls(**{field: phase[field] for field in cls._fields if field in phase})

    def changed(
        self,
        *,
        variants: Mapping[str, str] | None = None,
        weights: Mapping[str, float] | None = None,
        control: str | None = None,
        shadows: Mapping[str, str | None] | None = None,
        former: Mapping[str, str] | None = None,
        **others: Any,
    ) -> Allocation:
        """The same allocation but for what is given; ``former`` are policies of variants that have stopped.

        ``variants`` are added to those there are, or replace their policies. ``weights`` are those of all variants that
        are to have traffic: others stop, and some that had stopped come back. Without them a new variant has weight 1.
        ``shadows`` are added to those there are; one without a policy ends. A shadow with a weight becomes a variant.
        """
        hidden = {**self.shadows, **(shadows or {})}
        unknown = sorted(name for name, spec in hidden.items() if spec is None and name not in self.shadows)
        require(not unknown, "a shadow that ends is one of those there are", unknown=unknown, shadows=[*self.shadows])
        unseen = {name: spec for name, spec in hidden.items() if spec is not None}
        back = {name: spec for name, spec in (former or {}).items() if name in (weights or ())}
        shown = {name: spec for name, spec in unseen.items() if name in (weights or ())}
        named = {**back, **self.variants, **shown, **(variants or {})}
        if weights is None:
            chosen = self.weights | {name: 1.0 for name in named if name not in self.weights}
        else:
            unknown = sorted(set(weights) - set(named))
            require(not unknown, "every weight is one of a variant", unknown=unknown, variants=sorted(named))
            chosen = Split(dict.fromkeys(named, 0.0) | dict(weights)).weights
        kept = {name: spec for name, spec in named.items() if chosen[name] > 0.0}
        allocation = self._replace(
            variants=kept,
            weights={name: chosen[name] for name in kept},
            control=self.control if control is None else control,
            shadows={name: spec for name, spec in unseen.items() if name not in shown},
            **{field: value for field, value in others.items() if value is not None},
        )
        if control is None and allocation.control not in kept:
            allocation = allocation._replace(control="")
        return allocation.check()

    def with_holdout(self, name: str, order: str, share: float) -> Allocation:
        """The same with a variant of this name that does not learn and has this share of the traffic."""
        require(order in ORDERS, f"a holdout is one of {', '.join(ORDERS)}", holdout=order)
        require(0.0 < share < 1.0, "0 < a holdout's share < 1", share=share)
        rest = {variant: weight for variant, weight in self.weights.items() if variant != name}
        weight = share / (1.0 - share) * math.fsum(rest.values())
        return self._replace(variants=self.variants | {name: order}, weights=rest | {name: weight}).check()

    def check(self) -> Allocation:
        """Return the allocation, or raise where nothing can be played by it."""
        require(len(self.variants) > 0, "a variant has traffic", variants=list(self.variants))
        for spec in (*self.variants.values(), *self.shadows.values()):
            check_new(spec)
        both = sorted(set(self.variants) & set(self.shadows))
        require(not both, "a shadow is no variant with traffic", both=both)
        Split(self.weights)
        for field, allowed in (("split", ("random", "sticky")), ("learning", ("isolated", "shared"))):
            value = getattr(self, field)
            require(value in allowed, f"{field} is {' or '.join(allowed)}", **{field: value})
        names = ", ".join(self.variants)
        require(not self.control or self.control in self.variants, f"control is one of {names}", control=self.control)
        require(0.0 < self.share <= 1.0, "0 < share <= 1", share=self.share)
        return self

    def draft(
        self, at: int, *, after: int, by: str, name: str = MAIN, common: Iterable[str] = (), why: str = ""
    ) -> Draft:
        """A draft that begins a phase of an experiment with this allocation.

        ``after`` is the place in the log of the last phase of any experiment, 0 for none: of several that follow one
        phase the log takes the first. ``common`` are new variants that begin from what all others have counted.
        """
        fields = {**self._asdict(), "name": name, "common": list(common), "after": after, "by": by, "why": why}
        return Draft.of(f"experiment/{after}", "experiment", at, {**fields, "writer": WRITER})
