"""Which experiment a ranking belongs to, and which of its variants makes it."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from typing import Any, NamedTuple

from hellinger.engine.drafts import Query
from hellinger.experiment import Split
from hellinger.experiment.split import UniformSource
from hellinger.ledger import MAIN

__all__ = ["Chosen", "Routing"]

_HASH_BITS = 53
"""JSON's numbers have no more."""


class _Track(NamedTuple):
    """An experiment that is running."""

    name: str
    phase: int
    """Place in the log of its phase."""
    split: Split
    sticky: bool


class Chosen(NamedTuple):
    """What a ranking is made by."""

    experiment: str
    phase: int
    variant: str
    chance: float
    """Of the variant, in its experiment."""
    sticky: bool


class Routing:
    """The running experiments, each with its part of the traffic.

    An experiment with a placement takes its share of the rankings with that placement; one without takes its share of
    what those have left; the main experiment has the rest. A user stays in one experiment while shares stay the same.

    Parameters
    ----------
    experiments
        The phase in force of each experiment, by name; ended ones among them.
    salt
        Keeps users from choosing their variant by their name.
    """

    def __init__(self, experiments: Mapping[str, Mapping[str, Any]], salt: str | bytes) -> None:
        secret = salt.encode() if isinstance(salt, str) else salt
        self._key = blake2b(b"experiments/" + secret, digest_size=32).digest()
        self._placed: dict[str, list[tuple[float, _Track]]] = {}
        """Those of a placement, ``""`` for any, each with the end of its part of [0, 1)."""
        self._shares: dict[str, dict[str, float]] = {}
        for name, phase in experiments.items():
            if phase.get("ended"):
                continue
            own = secret if name == MAIN else secret + b"/" + name.encode()
            track = _Track(name, phase["seq"], Split(phase["weights"], salt=own), phase["split"] == "sticky")
            self._shares[name] = {each: share for each, share in track.split.probabilities.items() if share > 0.0}
            if name == MAIN:
                self.main = track
                continue
            there = self._placed.setdefault(phase["placement"], [])
            there.append(((there[-1][0] if there else 0.0) + phase["share"], track))

    def choose(self, query: Query, draws: UniformSource) -> Chosen:
        """The experiment and the variant for a ranking."""
        track = self._track(query, draws) if self._placed else self.main
        if track.sticky and query.user is not None:
            variant, chance = track.split.choose_for(query.user)
        else:
            variant, chance = track.split.choose(draws)
        return Chosen(track.name, track.phase, variant, chance, track.sticky)

    def shares(self, experiment: str) -> dict[str, float]:
        """What part of an experiment's traffic each of its variants has; none of one that has ended."""
        return self._shares.get(experiment, {})

    def _track(self, query: Query, draws: UniformSource) -> _Track:
        if query.user is None:
            u = draws.random()
        else:
            digest = blake2b(query.user.encode("utf-8", "surrogatepass"), key=self._key, digest_size=8).digest()
            u = int.from_bytes(digest, "little") * 2.0**-64
        for placement in (query.placement, "") if query.placement else ("",):
            tracks = self._placed.get(placement)
            if tracks:
                for end, track in tracks:
                    if u < end:
                        return track
                taken = tracks[-1][0]
                if taken >= 1.0:
                    return tracks[-1][1]
                u = (u - taken) / (1.0 - taken)
        return self.main

    @staticmethod
    def unit(user: str) -> int:
        """A number for a user, the same everywhere; it says nothing about the variant."""
        digest = blake2b(user.encode("utf-8", "surrogatepass"), digest_size=8, person=b"users").digest()
        return int.from_bytes(digest, "little") >> (64 - _HASH_BITS)
