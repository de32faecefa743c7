"""What a model has learned: the posterior of its weights and of every item's level, one event after the other."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from hellinger._arrays import grown
from hellinger.errors import InputError, require
from hellinger.families import Bernoulli, Family, Poisson
from hellinger.models import _kernels as kernels
from hellinger.models import _spread
from hellinger.models._base import Model
from hellinger.models._kernels import BLOCK, FIRST, ItemLevels, Own, View, Weights
from hellinger.models.encoder import Encoder, Features, Opened
from hellinger.policies import Policy, fit_prior

__all__ = ["Effect", "Regression"]

Floats = npt.NDArray[np.float64]
Slots = npt.NDArray[np.int64]

ITEM, PERSON, PAIR, OWN = range(4)
"""Kinds of weights: of items' features, of people's, of pairs of them, and an item's own for a person's."""
_WORK = 1 << 16
"""Multiplications that an event may spend on letting weights follow their spread; one weight in any case."""
_COLUMNS = ("pulls", "sums", "base", "kappa", "info", "row")
_NOBODY: Features = {}
LOOKED_AT = 1 << 16
"""Items whose counts are compared for a prior, while rankings wait: part of a millisecond."""
PEOPLE = 5
"""People whose contexts had a word or a key before it gets a column: until then nobody can read it anywhere."""
ITEMS = 3
"""The same of items, where half of the columns are taken: of one or two, their own levels say most of what it would."""


class Effect(NamedTuple):
    """What a feature adds to the natural parameter, and the standard deviation of that: how certain it is."""

    name: str
    effect: float
    error: float


class Regression:
    """The posterior of a model over items 0, 1, …; for one thread at a time.

    Everything is a function of the calls that change it, in their order: :meth:`add`, :meth:`remove`,
    :meth:`learn_context`, :meth:`observe` and :meth:`set_prior`.

    Examples
    --------
    >>> from hellinger import models
    >>> posterior = Regression(models.get("linear(strength=10, mean=0.1)"))
    >>> posterior.add(2)
    >>> posterior.observe(0, posterior.context({}), 1.0, 1.0)
    >>> means, pulls = posterior.predict({})
    >>> means.round(4).tolist(), pulls.tolist()
    ([0.1818, 0.1], [11.0, 10.0])
    """

    def __init__(self, model: Model) -> None:
        self.model = model
        self.people = Encoder(model.columns, enough=PEOPLE)
        half = model.item_columns // 2
        self.things = Encoder(model.item_columns, enough=ITEMS, at_once=half, remembers=True)
        self.count = 0
        """How many items there are."""
        self.events = 0
        """How many events it has learned from."""
        self.strength = 1.0 if model.strength is None else model.strength
        self.mass = self.strength * (_start(model) if model.mean is None else model.mean)
        """Pseudo-observations of an item before its first: how many, and their sum."""
        self.spread = np.full(4, model.scale**2)
        """Variance of a weight before anything is known, by its kind."""
        self._weights = _NO_WEIGHTS
        self._kinds = np.zeros(0, np.int64)
        self._moved = 0
        """Shared weights before this one have the spread in force; the others follow, some at each event."""
        self._width, self._rows = 1, 0
        self._levels = ItemLevels(
            np.zeros((0, FIRST, BLOCK), np.float32),
            np.zeros(0),
            np.zeros(0),
            np.zeros(0),
            np.zeros(0),
            np.zeros(0),
            np.zeros(0, np.int32),
            np.zeros(2),
        )
        self._own = _NO_OWN
        self._used = 0
        """Rows of own weights in use."""
        self._number = np.zeros(0, np.int64)
        """Of each item, how many were described before it."""
        self._raw: dict[str, Floats] = {}
        """Numbers among the items' features as they were given, NaN where there is none."""
        self._scaled: dict[str, tuple[float, float]] = {}
        self.slow = False
        """Whether what bears on all items at once, a prior or a scaling, is left to :meth:`settle`."""
        self._stale: tuple[int, int] = 0, 0
        """Items from and up to which levels are not in line yet with the prior and the scalings in force."""
        self._reshape()

    # Items --------------------------------------------------------------------------------------------

    def add(
        self,
        count: int,
        features: Sequence[Features] | None = None,
        pulls: npt.ArrayLike = 0.0,
        sums: npt.ArrayLike = 0.0,
    ) -> None:
        """Add so many items, with the features of each and with what they have earned so far from people unknown."""
        if features is not None:
            require(len(features) == count, "features are given for each item", items=count, features=len(features))
        self.settle()
        described = features if self.model.shared else None
        opened = self.things.learn(described) if described is not None else []
        first, self.count = self.count, self.count + count
        self._make_room()
        levels = self._levels
        new = slice(first, self.count)
        levels.pulls[new], levels.sums[new], levels.row[new] = pulls, sums, -1
        for column in self._raw.values():
            column[new] = np.nan
        self._number[new] = -1
        if described is not None:
            self._describe(first, described, opened)
        self._refresh(first, self.count)
        self._rescale()

    def put(self, slot: int, features: Features | None = None) -> None:
        """Put a new item at a place of the owner's choice; what was there before is forgotten.

        For owners whose places are their own and are used again; they leave :meth:`remove` alone.
        """
        require(slot >= 0, "0 <= slot", slot=slot)
        self.settle()
        described = [features] if self.model.shared and features else []
        opened = self.things.learn(described)
        first = min(slot, self.count)
        if slot >= self.count:
            self.count = slot + 1
            self._make_room()
            self._levels.row[first:] = self._number[first:] = -1
            for column in self._raw.values():
                column[first : self.count] = np.nan
        levels = self._levels
        if levels.row[slot] >= 0:
            self._free(int(levels.row[slot]))
        levels.pulls[slot], levels.sums[slot], levels.row[slot] = 0.0, 0.0, -1
        levels.blocks[slot // BLOCK, :, slot % BLOCK] = 0.0
        for column in self._raw.values():
            column[slot] = np.nan
        self._number[slot] = -1
        self._describe(slot, described, opened)
        self._refresh(first, slot + 1)
        if self.model.shared:
            self._rescale()

    def remove(self, slots: Slots) -> None:
        """Take items out, the last in each case moving to the place left; places from the greatest to the least."""
        self.settle()
        levels = self._levels
        for slot in slots.tolist():
            last = self.count - 1
            row = int(levels.row[slot])
            if row >= 0:
                self._free(row)
            for name in _COLUMNS:
                getattr(levels, name)[slot] = getattr(levels, name)[last]
            for column in (self._number, *self._raw.values()):
                column[slot] = column[last]
            levels.blocks[slot // BLOCK, :, slot % BLOCK] = levels.blocks[last // BLOCK, :, last % BLOCK]
            levels.blocks[last // BLOCK, :, last % BLOCK] = 0.0
            self.count = last

    # Learning -----------------------------------------------------------------------------------------

    def context(self, features: Features | None) -> Floats:
        """A context as numbers. Changes nothing."""
        return self.people.encode(_NOBODY if features is None else features)

    def learn_context(self, features: Features | None, who: int | None = None) -> Floats:
        """The same, for somebody to whom something is shown: what enough people had gets its columns first.

        ``who`` is a number of theirs; without it, everybody is somebody else.
        """
        if features:
            self.people.learn([features], None if who is None else [who])
            self._reshape()
        return self.context(features)

    def observe(self, slot: int, z: Floats, impressions: float, rewards: float) -> None:
        """So many impressions of an item in a context earned so much; no impressions for a reward that comes late."""
        if self.unsettled:
            self.settle()
        levels = self._levels
        if self.model.per_item:
            self._open(slot)
        kernels.observe(
            self.model.link,
            self.mass,
            self.strength,
            self._weights,
            self._width,
            levels,
            self._own,
            slot,
            z,
            float(impressions),
            float(rewards),
        )
        self.events += 1
        if self.model.learn:
            if self.events in _spread.PLACES:
                self._learn_spread()
            if self._moved < self._weights.mean.size:
                self._follow_spread()

    def observe_page(self, slots: Slots, context: Features | None, impressions: Floats, rewards: Floats) -> None:
        """:meth:`observe` of several items in one context, in their order.

        Somebody new is met where something was shown; rewards alone are those of somebody met before.
        """
        for _ in self.observing(slots, context, impressions, rewards):
            pass

    def observing(
        self, slots: Slots, context: Features | None, impressions: Floats, rewards: Floats, who: int | None = None
    ) -> Iterator[None]:
        """:meth:`observe_page`, whose caller may do something else after each item: rank, and change nothing."""
        z = self.learn_context(context, who) if impressions.any() else self.context(context)
        for slot, n, s in zip(slots.tolist(), impressions.tolist(), rewards.tolist(), strict=True):
            if n or s:
                self.observe(slot, z, n, s)
                yield

    def reweigh(self, slots: Slots, ratio: Floats) -> None:
        """Let what items were shown so far count so many times as much; what they have earned stays.

        The weights stay as they were learned: they say how rewards differ, whatever an impression is worth.
        """
        self._levels.pulls[slots] *= ratio
        self._refresh_later()

    def set_prior(self, mean: float, strength: float) -> None:
        """Set what is believed of an item before its first event; what the model's spec fixes stays as it is."""
        model = self.model
        self.strength = strength if model.strength is None else model.strength
        mean = min(max(mean, model.low), model.high) if model.mean is None else model.mean
        self.mass = self.strength * mean
        self._refresh_later()

    def of_nobody(self, mean: float, strength: float, pulls: Floats, sums: Floats) -> tuple[float, float]:
        """What a prior of those who saw items says of people without features: mean and pseudo-observations.

        Who was shown an item is not just anybody. The natural parameter of the mean moves as that of the items' counts
        together (``pulls`` and ``sums`` of each) does where they are adjusted, and items differ by as much of it as
        before. Of very many items some are looked at.
        """
        if not len(self.people):
            return mean, strength
        some = slice(0, self.count, 1 + self.count // LOOKED_AT)
        levels, mass = self._levels, mean * strength
        seen = (float(sums[some].sum()) + mass) / (float(pulls[some].sum()) + strength)
        adjusted = (float(levels.sums[some].sum()) + mass) / (float(levels.pulls[some].sum()) + strength)
        found: tuple[float, float] = kernels.prior_of_nobody(self.model.link, mean, strength, seen, adjusted)
        return found

    @property
    def unsettled(self) -> int:
        """How many items :meth:`settle` has to look at."""
        return self._stale[1] - self._stale[0]

    def settle(self, most: int | None = None) -> None:
        """Bring so many items, or all, in line with the prior and the scalings in force.

        What changes anything else settles all items first, so that nothing depends on when this is called.
        """
        first, last = self._stale
        if first < last:
            end = last if most is None else min(last, first + most)
            self._refresh(first, end)
            self._stale = end, last

    def _refresh_later(self) -> None:
        self._stale = 0, self.count
        if not self.slow:
            self.settle()

    def learn_prior(self, family: Family) -> None:
        """Set what is believed of an item before its first event to what the levels of all say.

        Counts are adjusted for who saw an item: those who were shown it are not just anybody. Of rewards that may have
        any variance, the mean is learned and the strength stays: noise would be taken for what items differ by.
        """
        pulls, sums = self.adjusted
        if isinstance(family, Bernoulli):
            prior = fit_prior(np.clip(sums, 0.0, pulls), pulls)
            self.set_prior(prior.a / prior.strength, prior.strength)
        elif pulls.any():
            mean = float(sums.sum() / pulls.sum())
            counted = isinstance(family, Poisson) and mean > 0.0
            self.set_prior(mean, _strength(pulls[pulls > 0.0], sums[pulls > 0.0], mean) if counted else self.strength)

    def blank(self) -> Regression:
        """The same items with their features, none ever shown, and nothing learned."""
        other = Regression.from_state(self.model, *self.state())
        other._levels.pulls[:] = other._levels.sums[:] = 0.0
        other._levels.row[:] = -1
        other.events = other._used = 0
        other.people, other._own = Encoder(self.model.columns, enough=PEOPLE), _NO_OWN
        other.spread = np.full(4, self.model.scale**2)
        other._weights, other._rows = _NO_WEIGHTS, 0
        other._reshape()
        other._refresh(0, other.count)
        return other

    # What is known ------------------------------------------------------------------------------------

    def view(self, z: Floats) -> View:
        """The weights as they bear on one context."""
        return kernels.project(self._weights, self._width, z, self.spread[OWN] if self.model.per_item else 0.0)

    def predict(self, context: Features | Floats | None, slots: Slots | None = None) -> tuple[Floats, Floats]:
        """Mean and effective pulls of these items, or of all, in a context."""
        z = context if isinstance(context, np.ndarray) else self.context(context)
        chosen = np.arange(self.count) if slots is None else slots
        means, pulls = np.empty(chosen.size), np.empty(chosen.size)
        kernels.pairs(self.model.link, self.view(z), self._levels, self._own, chosen, means, pulls)
        return means, pulls

    def counts(self, family: Family, context: Features | None, slots: Slots) -> tuple[Floats, Floats]:
        """Reward sums and pulls that give a policy for this family the same means and pulls without a model."""
        means, pulls = self.predict(context, slots)
        return np.clip(means, *family.mean_bounds) * pulls, pulls

    def index(self, policy: Policy, context: Features | None, t: float, slots: Slots) -> Floats:
        """Index of these items in a context, by a policy that scores each by itself."""
        levels, own = self.arrays
        out = np.empty(slots.size)
        view, link = self.view(self.context(context)), self.model.link
        kernels.scores(policy.rule, link, view, levels, own, t, float(self.count), slots, out)
        if not policy.own:
            policy.check_numbers(*self.counts(policy.family, context, slots), t, out)
        return out

    @property
    def adjusted(self) -> tuple[Floats, Floats]:
        """Impressions and rewards of each item, as if everybody who saw it had no features."""
        return self._levels.pulls[: self.count].copy(), self._levels.sums[: self.count].copy()

    @property
    def arrays(self) -> tuple[ItemLevels, Own]:
        """ItemLevels and own weights, for compiled code that ranks."""
        return self._levels, self._own

    def effects(self) -> list[Effect]:
        """The shared weights: of a feature of items, of people, or of a pair of them."""
        if not self._weights.mean.size:
            return []
        names = self._names()
        errors = np.sqrt(np.maximum(np.diag(self._weights.cov), 0.0))
        return [Effect(names[j], float(self._weights.mean[j]), float(errors[j])) for j in range(1, errors.size)]

    def explain(self, slot: int, context: Features | None) -> list[Effect]:
        """What η of an item in a context is the sum of: its level, then each feature and pair that has a part in it."""
        z, levels = self.context(context), self._levels
        out = [Effect("item", float(levels.base[slot]), float(levels.info[slot]) ** -0.5)]
        weights, width = self._weights, self._width
        if weights.mean.size:
            w = np.ones(width)
            w[1:] = levels.blocks[slot // BLOCK, FIRST : FIRST + width - 1, slot % BLOCK]
            x = np.outer(np.concatenate([[levels.kappa[slot]], z]), w).reshape(-1)
            x[0] = 0.0
            errors = np.abs(x) * np.sqrt(np.maximum(np.diag(weights.cov), 0.0))
            names = self._names()
            out += [Effect(names[j], float(x[j] * weights.mean[j]), float(errors[j])) for j in np.flatnonzero(x)]
        row = int(levels.row[slot])
        if self.model.per_item:
            mean = self._own.mean[row] if row >= 0 else np.zeros(z.size)
            variance = np.diag(self._own.cov[row]) if row >= 0 else np.full(z.size, self.spread[OWN])
            out += [
                Effect(
                    f"{self.people.names[j]} (own)", float(z[j] * mean[j]), abs(float(z[j])) * float(variance[j]) ** 0.5
                )
                for j in np.flatnonzero(z)
            ]
        return out

    def memory(self) -> int:
        """Bytes in use for items and weights."""
        levels = self._levels
        each = sum(int(getattr(levels, name).itemsize) for name in _COLUMNS) + 8 * (1 + len(self._raw))
        blocks = int(levels.blocks[: self._blocks].nbytes)
        own = self._used * ((self._own.mean.shape[1] + 1) * self._own.mean.shape[1] + 1) * 8
        return int(self.count * each + blocks + own + self._weights.cov.nbytes)

    # State --------------------------------------------------------------------------------------------

    def state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Everything: what JSON can hold, and arrays; :meth:`from_state` goes on from there to the bit."""
        self.settle()
        plain = {
            "model": self.model.spec,
            "people": self.people.state(),
            "things": self.things.state(),
            "count": self.count,
            "events": self.events,
            "strength": self.strength,
            "mass": self.mass,
            "width": self._width,
            "rows": self._rows,
            "used": self._used,
            "moved": self._moved,
            "raw": list(self._raw),
            "scaled": {key: list(pair) for key, pair in self._scaled.items()},
        }
        levels = self._levels
        arrays: dict[str, Any] = {name: getattr(levels, name)[: self.count] for name in _COLUMNS}
        arrays |= {"blocks": levels.blocks[: self._blocks], "most": levels.most, "spread": self.spread}
        arrays["number"] = self._number[: self.count]
        arrays |= self._weights._asdict()
        arrays |= {f"own_{name}": array[: self._used] for name, array in self._own._asdict().items()}
        arrays |= {f"raw{number}": column[: self.count] for number, column in enumerate(self._raw.values())}
        return plain, arrays

    @classmethod
    def from_state(cls, model: Model, plain: Mapping[str, Any], arrays: Mapping[str, Any]) -> Regression:
        """Return the posterior that gave this state."""
        require(model.spec == plain["model"], "model is the one of the state", model=model.spec, state=plain["model"])
        made = cls(model)
        try:
            made.people, made.things = Encoder.from_state(plain["people"]), Encoder.from_state(plain["things"])
            made.count, made.events = int(plain["count"]), int(plain["events"])
            made.strength, made.mass = float(plain["strength"]), float(plain["mass"])
            made._width, made._rows, made._used = int(plain["width"]), int(plain["rows"]), int(plain["used"])
            made._raw = {key: np.array(arrays[f"raw{number}"]) for number, key in enumerate(plain["raw"])}
            made._number = np.array(arrays["number"])
            made._scaled = {key: (float(a), float(b)) for key, (a, b) in plain["scaled"].items()}
            made._weights = Weights(*(np.array(arrays[name]) for name in Weights._fields))
            made._own = Own(*(np.array(arrays[f"own_{name}"]) for name in Own._fields))
            made.spread, made._moved = np.array(arrays["spread"]), int(plain["moved"])
            made._kinds = _kinds(made._width, made._rows)
            made._levels = ItemLevels(*(np.array(arrays[name]) for name in ItemLevels._fields))
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"a model's state must be what Regression.state() gave, but got {error!r}") from None
        return made

    # Layout -------------------------------------------------------------------------------------------

    @property
    def _blocks(self) -> int:
        return -(-self.count // BLOCK)

    def _make_room(self) -> None:
        """Give every item its places."""
        levels = self._levels
        columns = {name: grown(getattr(levels, name), self.count) for name in _COLUMNS}
        depth = levels.blocks.shape[1]
        flat = grown(levels.blocks.reshape(-1), self._blocks * depth * BLOCK)
        blocks = flat[: flat.size // (depth * BLOCK) * depth * BLOCK].reshape(-1, depth, BLOCK)
        self._levels = levels._replace(blocks=blocks, **columns)
        self._number = grown(self._number, self.count)
        self._raw = {key: _nan(column, self.count) for key, column in self._raw.items()}

    def _reshape(self) -> None:
        """Give every column its weights, new ones with their spread as they are before anything is known."""
        if self.model.per_item:
            self._widen_own()
        if not self.model.shared:
            return
        width, rows = 1 + len(self.things), 1 + len(self.people)
        if (width, rows) == (self._width, self._rows):
            return
        old, kept = self._weights, np.arange(self._rows)[:, None] * width + np.arange(self._width)
        kept = kept.reshape(-1)[: old.mean.size]
        self._kinds = _kinds(width, rows)
        before = self.spread[self._kinds]
        mean, cov = np.zeros(width * rows), np.diag(before)
        cov[0, 0] = 0.0  # the level has a mean of its own
        mean[kept], before[kept] = old.mean, old.before
        cov[np.ix_(kept, kept)] = old.cov
        self._weights, self._width, self._rows = Weights(mean, cov, before), width, rows
        self._moved = 0
        depth = self._levels.blocks.shape[1]
        if FIRST + width - 1 > depth:
            wider = np.zeros(
                (self._levels.blocks.shape[0], FIRST + min(2 * width, self.things.columns), BLOCK), np.float32
            )
            wider[:, :depth] = self._levels.blocks
            self._levels = self._levels._replace(blocks=wider)

    def _names(self) -> list[str]:
        things = ["", *self.things.names]
        return [" × ".join(filter(None, (one, two))) for one in ("", *self.people.names) for two in things]

    def _describe(self, first: int, features: Sequence[Features], opened: Sequence[Opened]) -> None:
        """Encode the items from this place on, whose features were learned just now; and others by what that opened."""
        self._number[first : first + len(features)] = self.things.learned + np.arange(-len(features), 0)
        self._reshape()
        self._write(first, features)
        for each in opened:
            self._write_late(each)

    def _write_late(self, opened: Opened) -> None:
        """Let items have the columns that they have waited for."""
        levels = self._levels
        for number, amounts in opened.waited:
            for slot in np.flatnonzero(self._number[: self.count] == number).tolist():  # none, if it has left
                if opened.kind == "number":
                    self._raw_of(opened.key)[slot] = amounts[0]
                    continue
                column = FIRST + opened.column
                levels.blocks[slot // BLOCK, column : column + len(amounts), slot % BLOCK] = amounts
                levels.most[1] = max(levels.most[1], float(np.abs(np.array(amounts, np.float32)).max()))
                self._refresh(slot, slot + 1)

    def _raw_of(self, key: str) -> Floats:
        if key not in self._raw:
            self._raw[key] = np.full(self._levels.pulls.size, np.nan)
        return self._raw[key]

    def _write(self, first: int, features: Sequence[Features]) -> None:
        """Encode items from this place on."""
        for start in range(0, len(features), 4096):
            part = self.things.matrix(features[start : start + 4096]).astype(np.float32)
            slots = np.arange(first + start, first + start + len(part))
            self._levels.blocks[slots // BLOCK, FIRST : FIRST + part.shape[1], slots % BLOCK] = part
            most = self._levels.most
            most[1] = max(most[1], float(np.abs(part).max(initial=0.0)))
        for slot, given in enumerate(features, first):
            for key, value in self.things.numbers(given).items():
                if key in self.things.scalings:
                    self._raw_of(key)[slot] = value

    def _rescale(self) -> None:
        """Encode the items' numbers anew whose scaling has changed."""
        changed = False
        for key, scaling in self.things.scalings.items():
            if self._scaled.get(key) != scaling.used:
                self._scaled[key] = scaling.used
                values = np.nan_to_num(scaling.of(self._raw[key][: self.count])).astype(np.float32)
                column, whole = FIRST + self.things.place(key), self.count // BLOCK
                self._levels.blocks[:whole, column] = values[: whole * BLOCK].reshape(whole, BLOCK)
                self._levels.blocks[whole : whole + 1, column, : self.count % BLOCK] = values[whole * BLOCK :]
                most = self._levels.most
                most[1] = max(most[1], float(np.abs(values).max(initial=0.0)))
                changed = True
        if changed:
            self._refresh_later()

    def _refresh(self, first: int, last: int) -> None:
        link, weights = self.model.link, self._weights
        kernels.refresh_all(link, self.mass, self.strength, weights, self._width, self._levels, first, last)

    def _learn_spread(self) -> None:
        """Set the spreads to what the weights show; they follow at their next events."""
        weights, own, rows = self._weights, self._own, min(self._used, _spread.ROWS)
        columns = own.mean.shape[1]
        parts = (
            (weights.mean[1:], np.diag(weights.cov)[1:], weights.before[1:], self._kinds[1:]),
            (
                own.mean[:rows].reshape(-1),
                own.cov[:rows, range(columns), range(columns)].reshape(-1),
                np.repeat(own.before[:rows], columns),
                np.full(rows * columns, OWN),
            ),
        )
        mean, variance, before, kinds = (np.concatenate(part) for part in zip(*parts, strict=True))
        self.spread = _spread.fit(mean, variance, before, kinds, self.spread, self.model.scale, _spread.DOUBT)
        self._moved = 0

    def _follow_spread(self) -> None:
        """Let the next of the shared weights have the spread in force, as many as take little time."""
        weights = self._weights
        last = min(weights.mean.size, self._moved + max(1, _WORK // weights.cov.size))
        _spread.move(*weights, self._kinds, self.spread, max(self._moved, 1), last)
        self._moved = last

    # Own weights --------------------------------------------------------------------------------------

    def _open(self, slot: int) -> None:
        """Give an item weights of its own, or those that it has the spread in force."""
        width, row = len(self.people), int(self._levels.row[slot])
        if row >= 0:
            own = self._own
            if own.before[row] != self.spread[OWN]:
                before, kinds = np.full(width, own.before[row]), np.full(width, OWN)
                _spread.move(own.mean[row], own.cov[row], before, kinds, self.spread, 0, width)
                own.before[row] = self.spread[OWN]
            return
        if self._used == self._own.mean.shape[0]:
            self._resize_own(max(16, 2 * self._used), width)
        own, row = self._own, self._used
        own.mean[row], own.before[row] = 0.0, self.spread[OWN]
        own.cov[row] = self.spread[OWN] * np.eye(width)
        self._levels.row[slot] = row
        self._used += 1

    def _free(self, row: int) -> None:
        """Give up a row of own weights; the last one takes its place."""
        last = self._used - 1
        rows = self._levels.row[: self.count]
        for array in self._own:
            array[row] = array[last]
        rows[rows == last] = row
        self._used = last

    def _widen_own(self) -> None:
        width, old = len(self.people), self._own.mean.shape[1]
        if width > old:
            self._resize_own(self._own.mean.shape[0], width)
            more = range(old, width)
            self._own.cov[:, more, more] = self._own.before[:, None]

    def _resize_own(self, size: int, width: int) -> None:
        """Have room for so many rows of so many own weights."""
        rows, old = self._own.mean.shape
        mean, cov, before = np.zeros((size, width)), np.zeros((size, width, width)), np.zeros(size)
        mean[:rows, :old], cov[:rows, :old, :old], before[:rows] = self._own
        self._own = Own(mean, cov, before)


_NO_WEIGHTS = Weights(np.zeros(0), np.zeros((0, 0)), np.zeros(0))
_NO_OWN = Own(np.zeros((0, 0)), np.zeros((0, 0, 0)), np.zeros(0))


def _kinds(width: int, rows: int) -> Slots:
    """The kind of each shared weight."""
    kinds = np.full((rows, width), PAIR)
    kinds[:1, :], kinds[:, 0] = ITEM, PERSON
    return kinds.reshape(-1)


def _start(model: Model) -> float:
    """The mean to begin with, where nothing is known: as of an item of a pool."""
    return min(max(0.02, model.low), model.high) if model.low > -math.inf else 0.0


def _strength(pulls: Floats, sums: Floats, mean: float) -> float:
    """Pseudo-observations that items' means, of Poisson rewards, spread as if they had: by moments.

    Σn(x − m)²/m is items − 1 where all are alike, and rises by (Σn − Σn²/Σn)/strength where they are not (DerSimonian &
    Laird 1986); with two items' worth of belief in one pseudo-observation.
    """
    room = float(pulls.sum() - (pulls**2).sum() / pulls.sum())
    beyond = float((pulls * (sums / pulls - mean) ** 2).sum()) / mean - (pulls.size - 1.0)
    doubt = _spread.DOUBT * max(room, 1.0) / pulls.size
    return (room + doubt) / (max(beyond, 0.0) + doubt)


def _nan(column: Floats, size: int) -> Floats:
    if size <= column.size:
        return column
    before, column = column.size, grown(column, size)
    column[before:] = np.nan
    return column
