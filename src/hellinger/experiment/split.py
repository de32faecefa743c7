"""How traffic is split: a variant for every request, or for every user and always the same."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from itertools import accumulate
from struct import Struct
from typing import Protocol

from hellinger.errors import require

__all__ = ["Split", "UniformSource"]

_SCALE = 2.0**-64


class UniformSource(Protocol):
    """A source of numbers uniform on [0, 1): ``random.Random`` and NumPy's ``Generator`` both are."""

    def random(self) -> float:
        """The next number."""


class Split:
    r"""A split of traffic over named variants.

    Parameters
    ----------
    weights
        Weight of each variant, non-negative, not all zero; or the names alone, for equal weights.
    salt
        What makes this experiment's users fall otherwise than another's. Keep it secret where users choose their names.

    Notes
    -----
    A user's variant is found by weighted rendezvous hashing (Thaler & Ravishankar 1998; the weights of Schindelhauer &
    Schomaker 2005): every variant v draws u(v) in (0, 1) by a hash of salt, user and its own name, and the greatest

    .. math:: \log u_v / w_v

    wins. Their negatives are exponential variables with rates w, so v wins with probability w(v)/Σw. The other
    variants' draws and scores do not depend on v's weight: when it grows, users move to v and none between the others;
    when it shrinks, or v is taken out, only v's users move. (The others' *weights* stay as they were; their
    probabilities cannot.) No rule with these probabilities before and after can move fewer. The order of the variants
    does not matter.

    One BLAKE2 hash of the user, keyed by the salt, is multiplied modulo 2⁶⁴ by an odd number of each variant's own:
    over all hashes the draws of n variants are a lattice of 2⁶⁴ points in the n-cube, nearly as even as can be.

    Examples
    --------
    >>> split = Split({"hellinger-ucb": 2, "kl-ucb": 1, "ucb1": 1}, salt="spring")
    >>> split.choose_for("ada")
    ('hellinger-ucb', 0.5)
    >>> import random
    >>> split.choose(random.Random(7))
    ('hellinger-ucb', 0.5)
    """

    __slots__ = ("_answers", "_draws", "_edges", "_hashes", "_multipliers", "_powers", "salt", "weights")

    def __init__(self, weights: Mapping[str, float] | Iterable[str], *, salt: str | bytes = b"") -> None:
        names = list(weights)
        require(len(names) > 0, "there is a variant", variants=names)
        require(len(set(names)) == len(names), "variants differ", variants=names)
        given = weights if isinstance(weights, Mapping) else dict.fromkeys(names, 1.0)
        for name, weight in given.items():
            require(math.isfinite(weight) and weight >= 0.0, f"0 <= weight of {name!r} < inf", weight=weight)
        whole = math.fsum(given.values())
        require(0.0 < whole < math.inf, "0 < sum of weights < inf", weights=dict(given))
        self.weights = {name: float(weight) for name, weight in given.items()}
        live = {name: chance for name, weight in self.weights.items() if (chance := weight / whole) > 0.0}
        self._answers = tuple(live.items())
        self._edges = list(accumulate(live.values()))[:-1]

        self.salt = salt
        key = blake2b(salt.encode() if isinstance(salt, str) else salt, digest_size=32).digest()
        self._hashes = blake2b(key=key, digest_size=8)
        # one long product holds them all, each in 128 bits of its own, of which the lower 64 are the draw
        self._multipliers = sum(
            (self._hash(b"variant/" + name.encode()) | 1) << 128 * place for place, name in enumerate(live)
        )
        self._draws = Struct("<" + "Q8x" * len(live))
        most = max(live.values())
        self._powers = None if min(live.values()) == most else tuple(most / chance for chance in live.values())

    def __repr__(self) -> str:
        return f"Split({self.weights})"

    @property
    def variants(self) -> tuple[str, ...]:
        """Names, those without traffic included."""
        return tuple(self.weights)

    @property
    def probabilities(self) -> dict[str, float]:
        """Each variant's share of the traffic."""
        return dict.fromkeys(self.weights, 0.0) | dict(self._answers)

    def choose(self, rng: UniformSource) -> tuple[str, float]:
        """A variant at random, for one request, and the probability it had."""
        return self._answers[bisect_right(self._edges, rng.random())]

    def choose_for(self, user: str) -> tuple[str, float]:
        """The variant of a user, the same at every call, and the probability it had."""
        product = self._hash(user.encode("utf-8", "surrogatepass")) * self._multipliers
        draws = self._draws.unpack(product.to_bytes(self._draws.size, "little"))
        if self._powers is None:
            return self._answers[draws.index(max(draws))]
        # u^(1/w) has the order of log u / w; the largest weight's power is 1, so that the greatest never underflows
        scores = [(draw * _SCALE) ** power for draw, power in zip(draws, self._powers, strict=True)]
        return self._answers[scores.index(max(scores))]

    def _hash(self, text: bytes) -> int:
        state = self._hashes.copy()
        state.update(text)
        return int.from_bytes(state.digest(), "little")
