"""Random numbers as a function of a seed and the state that they are drawn in."""

from __future__ import annotations

__all__ = ["Draws"]

_MASK = (1 << 64) - 1
_GOLDEN = 0x9E3779B97F4A7C15
_PLACE, _NUMBER = 0xD1342543DE82EF95, 0xAF251AF3B0F025B5
"""Odd multipliers without structure: states of neighbouring places and numbers are far apart."""


def _mix(z: int) -> int:
    """SplitMix64's finaliser (Steele, Lea & Flood 2014), as in ``hellinger._random``."""
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & _MASK
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB & _MASK
    return z ^ (z >> 31)


class Draws:
    """The draws of one ranking: the same for the same seed, place in the log and number since that place.

    A replica rebuilt from the log goes on with the draws that the running one would have made.
    """

    __slots__ = ("_state",)

    def __init__(self, seed: int, seq: int, number: int) -> None:
        self._state = seed + _PLACE * seq + _NUMBER * number & _MASK

    def word(self) -> int:
        """The next 64 random bits."""
        self._state = self._state + _GOLDEN & _MASK
        return _mix(self._state)

    def random(self) -> float:
        """The next number, uniform on [0, 1)."""
        return (self.word() >> 11) * 2.0**-53
