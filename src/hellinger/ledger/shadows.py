"""What shadow variants would have shown and earned: sums over the rankings that they have ranked too.

A shadow's outcome of a ranking is y = Σ w·R over its places, divided by their number, with R what the place earned and
w its weight; r is the same with weights of 1, what was really earned, and w̄ the mean weight. What any linear
combination of the three has for a sum, and for a sum of squares, follows from three sums and six products: that is all
that bounds need (``hellinger.evaluate``). They are added up in the log's order, and no
function is in them that processors disagree about: every replica has the same, to the bit.
"""

from __future__ import annotations

from typing import Any

from hellinger.ledger.shares import Steps

__all__ = ["LARGEST", "Moments", "ShadowShare", "ShadowShares", "Weighed"]

LARGEST = 20.0
"""What no weight by the position-based model is above."""


class Moments:
    """Sums and products of outcome y, reward r and weight w over rankings."""

    __slots__ = ("numbers",)

    def __init__(self, numbers: list[float] | None = None) -> None:
        self.numbers = [0.0] * 10 if numbers is None else list(numbers)
        """How many; Σy, Σr, Σw; Σyy, Σyr, Σyw, Σrr, Σrw, Σww."""

    def open(self, y: float, r: float, w: float) -> None:
        """A ranking has this outcome, reward and weight."""
        for place, more in enumerate((1.0, y, r, w, y * y, y * r, y * w, r * r, r * w, w * w)):
            self.numbers[place] += more

    def rise(self, before: tuple[float, float], after: tuple[float, float], w: float) -> None:
        """A ranking of this weight has another outcome and reward."""
        (y, r), (z, s) = before, after
        changes = z - y, s - r, 0.0, z * z - y * y, z * s - y * r, (z - y) * w, s * s - r * r, (s - r) * w
        for place, more in enumerate(changes, 1):
            self.numbers[place] += more

    def add(self, other: Moments) -> None:
        """Add another's sums."""
        self.numbers = [one + more for one, more in zip(self.numbers, other.numbers, strict=True)]


class Weighed:
    """What one shadow would have shown instead of a ranking: weights of its places, and what they come to so far."""

    __slots__ = ("looks", "mass", "outcomes", "placed", "same", "weights")

    def __init__(self, fields: dict[str, Any]) -> None:
        self.weights: list[float] | None = fields["weights"]
        self.looks: list[float] | None = fields["looks"]
        self.mass: float = fields["mass"]
        self.same: float = fields["same"]
        self.placed: float = fields["placed"]
        self.outcomes = [0.0, 0.0]
        """Σ w·R, by weights and by looks."""

    def rise(self, position: int, rise: float) -> None:
        """A place has earned more."""
        for j, weights in enumerate((self.weights, self.looks)):
            if weights is not None:
                self.outcomes[j] += weights[position] * rise


class ShadowShare:
    """Sums over the rankings of one step, or of all that are final.

    Attributes
    ----------
    requests
        Rankings that the shadow has ranked.
    same, placed
        Sums of the shares of what was shown that it would show as well, and at the same position.
    weighed, looked
        Sums by propensities, where they are known, and by the position-based model.
    """

    __slots__ = ("into", "looked", "placed", "requests", "same", "weighed")

    def __init__(self) -> None:
        self.requests = 0
        self.same = self.placed = 0.0
        self.weighed, self.looked = Moments(), Moments()
        self.into: ShadowShare | None = None

    @property
    def current(self) -> ShadowShare:
        """Where this is counted now."""
        return self if self.into is None else self.into

    def opened(self, weighed: Weighed, reward: float, size: int) -> None:
        """A shadow has ranked a ranking of so many places, with this reward so far."""
        self.requests += 1
        self.same += weighed.same
        self.placed += weighed.placed
        r = reward / size
        if weighed.weights is not None:
            self.weighed.open(weighed.outcomes[0] / size, r, sum(weighed.weights) / size)
        if weighed.looks is not None:
            self.looked.open(weighed.outcomes[1] / size, r, weighed.mass)

    def rose(self, weighed: Weighed, position: int, rise: float, reward: float, size: int) -> None:
        """A place of a ranking has earned more; the whole ranking had this reward, and has so much more now."""
        before = [outcome / size for outcome in weighed.outcomes]
        weighed.rise(position, rise)
        after = [outcome / size for outcome in weighed.outcomes]
        r, s = (reward - rise) / size, reward / size
        if weighed.weights is not None:
            self.weighed.rise((before[0], r), (after[0], s), sum(weighed.weights) / size)
        if weighed.looks is not None:
            self.looked.rise((before[1], r), (after[1], s), weighed.mass)

    def add(self, other: ShadowShare) -> None:
        """Add another's sums."""
        self.requests += other.requests
        self.same += other.same
        self.placed += other.placed
        self.weighed.add(other.weighed)
        self.looked.add(other.looked)

    def as_json(self) -> list[Any]:
        """Everything, for :meth:`of`."""
        return [self.requests, self.same, self.placed, list(self.weighed.numbers), list(self.looked.numbers)]

    @classmethod
    def of(cls, fields: list[Any]) -> ShadowShare:
        """What :meth:`as_json` wrote."""
        share = cls()
        share.requests, share.same, share.placed, weighed, looked = fields
        share.weighed, share.looked = Moments(weighed), Moments(looked)
        return share


class ShadowShares(Steps[ShadowShare]):
    """What one shadow had in one phase."""

    __slots__ = ()

    def _share(self) -> ShadowShare:
        return ShadowShare()

    def as_json(self) -> list[Any]:
        """Everything, for :meth:`of`."""
        steps = [[step, share.as_json()] for step, share in sorted(self.open.items())]
        return [self.window, self.newest, self.final.as_json(), steps]

    @classmethod
    def of(cls, fields: list[Any]) -> ShadowShares:
        """What :meth:`as_json` wrote."""
        window, newest, final, steps = fields
        shares = cls(window)
        shares.newest = newest
        shares.final = ShadowShare.of(final)
        shares.open = {step: ShadowShare.of(numbers) for step, numbers in steps}
        return shares
