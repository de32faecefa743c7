"""A pool's model: what it has learned, and rankings by it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeAlias

import numpy as np

from hellinger._jit import entry
from hellinger.errors import InputError, require
from hellinger.models import Features, Model, Regression, check_features
from hellinger.policies import Policy, Prior
from hellinger.pool import _survey
from hellinger.pool._layout import ItemArrays, empty
from hellinger.pool._store import Floats, Slots

__all__ = ["Contexts", "Contextual"]

Contexts: TypeAlias = Features | Iterable[Features] | None
"""One context for all events, or one for each."""

_HINTS = 40


class Contextual:
    """The regression of a pool, and its policy's index by it."""

    def __init__(self, model: Model, policy: Policy) -> None:
        self.policy = policy
        self.regression = Regression(model)
        self._hints = np.empty(0, np.int64)
        """What was best in the last rankings: rankings do not depend on it, but how long they take does."""
        rule = policy.rule
        monotone = rule.learns_prior or (rule.monotone and not rule.random and not rule.relative)
        self.prunes = bool(monotone and policy.own and not model.per_item)
        """Whether items can be passed over: the index is known to rise with the mean and to fall with the pulls."""
        how = "those that may be among the best are looked at" if self.prunes else "each is looked at"
        self.reason = f"{model.spec} gives every item a mean and effective pulls for each context; {how}"
        if self.prunes:
            view, levels, own = self._seen(None)
            none, rows = np.empty(0, np.int64), np.empty((1, 4), np.int64)
            tail = (1.0, np.empty(0, np.bool_), 0, False, none, none, rows)
            self._survey = entry(_survey.survey, rule, model.link, view, levels, own, empty(0, math.inf), *tail)

    def _seen(self, context: Features | None) -> tuple[Any, Any, Any]:
        regression = self.regression
        return regression.view(regression.context(context)), *regression.arrays

    def best(
        self,
        st: ItemArrays,
        context: Features | None,
        t: float,
        allowed: Any,
        seed: int,
        named: bool,
        out: Slots,
        rows: Any,
    ) -> tuple[int, bool]:
        """Write places and rows of the best; how many there are, and whether all counts are whole numbers."""
        view, levels, own = self._seen(context)
        link = self.regression.model.link
        found, whole, _ = self._survey(
            self.policy.rule, link, view, levels, own, st, t, allowed, seed, named, self._hints, out, rows
        )
        self._hints = np.concatenate([out[:found], self._hints[: _HINTS - found]])
        return found, whole

    def values(self, context: Features | None, t: float, slots: Slots) -> Floats:
        """Index of each of these items in a context."""
        return self.regression.index(self.policy, context, t, slots)

    def counts(self, context: Features | None, slots: Slots) -> tuple[Floats, Floats]:
        """Reward sums and pulls of these items that would give a policy without a model the same mean and pulls."""
        return self.regression.counts(self.policy.family, context, slots)

    # Learning -----------------------------------------------------------------------------------------

    def check(self, contexts: Contexts, count: int) -> None:
        """Raise for what are no contexts of so many events, before anything is counted."""
        single = not isinstance(contexts, (list, tuple))
        listed: Any = [{} if contexts is None else contexts] if single else contexts
        require(single or len(listed) == count, "a context is given for each event", events=count, contexts=len(listed))
        for context in listed:
            if not isinstance(context, Mapping):
                raise InputError(f"a context must be a dict, but got {context!r}")
            check_features(context)

    def observe(self, slots: Slots, n: Floats, s: Floats, contexts: Contexts) -> None:
        """Learn from these events; somebody new is met where something was shown."""
        for _ in self.observing(slots, n, s, contexts):
            pass

    def observing(
        self, slots: Slots, n: Floats, s: Floats, contexts: Contexts, who: int | None = None
    ) -> Iterator[None]:
        """:meth:`observe`, whose caller may rank after each event."""
        if contexts is None or isinstance(contexts, Mapping):
            yield from self.regression.observing(slots, contexts, n, s, who)
            return
        for j, context in enumerate(contexts):
            yield from self.regression.observing(slots[j : j + 1], context, n[j : j + 1], s[j : j + 1])

    def set_prior(self, prior: Prior, pulls: Floats, sums: Floats, *, slowly: bool = False) -> None:
        """Believe this of items before their first event; ``slowly``: their levels follow in ``regression.settle``.

        ``pulls`` and ``sums`` are the items' own: the prior was fitted to counts like these.
        """
        regression = self.regression
        before, regression.slow = regression.slow, regression.slow or slowly
        regression.set_prior(*regression.of_nobody(prior.a / prior.strength, prior.strength, pulls, sums))
        regression.slow = before
