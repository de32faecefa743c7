"""The models of all variants that have one, as the log has them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from hellinger.ledger.catalogue import HIDDEN
from hellinger.ledger.counts import PART, Floats, Slots
from hellinger.ledger.errors import UnknownKindError
from hellinger.ledger.modelled import ITEMS, Modelled, Placing, ShownIn, has_model, split_model
from hellinger.ledger.requests import Request, number_of

if TYPE_CHECKING:
    from hellinger.ledger.ledger import Ledger

__all__ = ["VariantModels"]

MOST = 20_000
"""Items that may wait to be learned from: beyond, a commit takes as many as it brings, and all who write wait."""
MANY = 2_000
"""While so many wait, a commit takes twice as long for a model as it takes in any case; with twice as many thrice."""


class VariantModels:
    """What variants with a model have learned, for as long as a running experiment has them.

    A model begins in the phase that names it, with all items and what they have earned until then. From there on it
    follows the log: every impression and reward of its rankings (of all, where learning is shared) in its context.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self.of: dict[str, Modelled] = {}
        """By variant."""
        self._learners: dict[str, tuple[Modelled, ...]] = {}

    def __len__(self) -> int:
        return len(self.of)

    def __iter__(self) -> Iterator[Modelled]:
        return iter(self.of.values())

    def learners(self, variant: str) -> tuple[Modelled, ...]:
        """Models that learn from this variant's rankings; all, from counts that are nobody's."""
        found = self._learners.get(variant)
        if found is None:
            its = (model for name, model in self.of.items() if not variant or model.shared or name == variant)
            found = self._learners[variant] = tuple(its)
        return found

    def learn(self, seconds: float | None = None) -> None:
        """Take all steps; or for about so long in each model, longer the more wait, and until few enough do.

        So a model is never further behind the log than ``MOST`` items, however fast the log grows.
        """
        for model in self.of.values():
            if seconds is None:
                model.catch_up()
            elif len(model):
                model.catch_up(seconds * (1.0 + model.behind / MANY), most=MOST)

    def begin_anew(self, name: str, about: Mapping[str, Any]) -> None:
        """Let a model begin at this place of the log, where what it had learned is of no use."""
        model = self.of[name] = Modelled(about["spec"], about["model"], self._ledger.seq)
        model.shared = about["shared"]
        self._begin(name, model)

    # What happens, in the order of the log ------------------------------------------------------------

    def follow(self, seq: int) -> None:
        """Have the models that running experiments name, after the phase that began at this place."""
        before, self.of, self._learners = self.of, {}, {}
        for phase in self._ledger.experiments.values():
            if phase.get("ended"):
                continue
            shadows = phase.get("shadows", {})
            for name, spec in {**phase["variants"], **shadows}.items():
                if not has_model(spec):
                    continue
                policy, kind = _known(spec, phase)
                model, begins = before.get(name), False
                shared = phase.get("learning") == "shared" or name in shadows
                if model is not None and not shared and name in self._ledger.shadows_before(phase):
                    model.shared = False  # what a shadow has learned it keeps as a variant
                if model is None or (model.spec, model.model, model.shared) != (policy, kind, shared):
                    model, begins = Modelled(policy, kind, seq), True
                    model.shared = shared  # of what others showed before it knows nothing: it begins from all counts
                self.of[name] = model
                if begins:
                    self._begin(name, model)

    def _begin(self, name: str, model: Modelled) -> None:
        sources = self._ledger.sources(name, shared=model.shared)
        slots = np.flatnonzero(self._members(name))  # in the order in which they came
        slots = slots[np.argsort(self._ledger.catalogue["since"][slots])]
        model.begin(self._placings(slots, sources), self._rounds(sources))
        self.set_prior(name, "")

    def _members(self, name: str) -> npt.NDArray[np.bool_]:
        """By slot, whether a variant's model is to have the item."""
        catalogue = self._ledger.catalogue
        there: npt.NDArray[np.bool_] = catalogue["state"][: len(catalogue.ids)] <= HIDDEN
        there[list(self._ledger.gone.get(name, ()))] = False
        return there

    def _rounds(self, sources: Sequence[str]) -> float:
        return self._ledger.rounds(variants=sources, lacks=self._ledger.worth.lacks)

    def recount(self) -> None:
        """Count all impressions by what they are worth now: another curve is in force."""
        ledger, lacks = self._ledger, self._ledger.worth.lacks
        for name, model in self.of.items():
            sources = ledger.sources(name, shared=model.shared)
            # what was shown in the first zone is worth the same under every curve
            slots = ledger.slots_with(sources, among=self._members(name), behind=True)
            n = np.empty(slots.size)
            for first in range(0, slots.size, PART):
                some = slice(first, first + PART)
                n[some], _ = ledger.sums(slots[some], variants=sources, lacks=lacks)
            model.recount(ledger.catalogue["since"][slots], n, self._rounds(sources))

    def set_prior(self, variant: str, segment: str) -> None:
        """Let a model have the variant's prior for all traffic, where there is one."""
        model, prior = self.of.get(variant), self._ledger.priors.get((variant, ""))
        if model is not None and prior is not None and not segment:
            model.set_prior(prior[1]["prior"])

    def place(self, slot: int, *, anew: bool = False) -> None:
        """Follow what has become of an item; ``anew``: it is another than it was."""
        ledger, catalogue = self._ledger, self._ledger.catalogue
        since, state = int(catalogue["since"][slot]), catalogue["state"][slot]
        for name, model in self.of.items():
            if state > HIDDEN or slot in ledger.gone.get(name, {}):
                model.remove(since)
            elif anew or since not in model.members:
                model.place(self._placings(np.array([slot]), ledger.sources(name, shared=model.shared)))
            else:
                model.hide(since, bool(state == HIDDEN))

    def _placings(self, slots: Slots, sources: Sequence[str]) -> list[Placing]:
        catalogue = self._ledger.catalogue
        lacks = self._ledger.worth.lacks
        n, s = (column.tolist() for column in self._ledger.sums(slots, variants=sources, lacks=lacks))
        return [
            Placing(
                int(catalogue["since"][slot]),
                n[j],
                s[j],
                catalogue.tags_of(slot),
                catalogue.features.get(slot),
                bool(catalogue["state"][slot] == HIDDEN),
            )
            for j, slot in enumerate(slots.tolist())
        ]

    def observe(
        self, name: str, request: Request, positions: Sequence[int], shown: Floats | float, rise: float
    ) -> None:
        """Learn from impressions of a ranking, each worth so much, or from what they have earned."""
        learners = self.learners(request.variant)
        if learners:
            slots = self._ledger.slots_of(request)
            there = [position for position in positions if slots[position] >= 0]
            since = self._ledger.catalogue["since"][[slots[position] for position in there]].tolist()
            if isinstance(shown, np.ndarray):
                shown = shown[there]
            window = self._ledger.window_of(request)
            where = ShownIn(name, there, request.at, request.at + window, request.who or number_of(name))
            for model in learners:
                # of a ranking made before the model began, it knows the impressions without their context
                context = request.context if request.through >= model.began else None
                model.observe(since, shown, rise, context, where)

    def count(self, variant: str, slots: Slots, shown: Floats, earned: Floats) -> None:
        """Learn from counts that were imported: nobody knows of whom they are."""
        there = slots >= 0
        since, n, s = self._ledger.catalogue["since"][slots[there]].tolist(), shown[there], earned[there]
        for model in self.learners(variant):
            for start in range(0, len(since), ITEMS):
                some = slice(start, start + ITEMS)
                model.observe(since[some], n[some], s[some], None)


def _known(spec: str, phase: Mapping[str, Any]) -> tuple[str, str]:
    """Policy and model of a phase's variant."""
    try:
        policy, model = split_model(spec)
    except ValueError:  # a newer version knows this one
        place, writer = phase["seq"], phase.get("writer")
        raise UnknownKindError(place, "experiment", spec, writer, version("hellinger")) from None
    return policy, model or ""
