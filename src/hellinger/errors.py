"""What can go wrong, in words that state the rule and the value."""

from __future__ import annotations

__all__ = ["HellingerWarning", "UnknownNameError", "require"]


class HellingerWarning(UserWarning):
    """A legal choice with a consequence the user should know of."""


class UnknownNameError(ValueError):
    """A name that no family, policy, ball or level answers to."""

    def __init__(self, kind: str, name: str, known: list[str]) -> None:
        super().__init__(f"unknown {kind} {name!r}: it must be one of {', '.join(sorted(known))}")


def require(holds: bool, rule: str, **values: object) -> None:
    """Raise ``ValueError`` with the rule and the offending values unless ``holds``.

    >>> require(False, "0 < c", c=-1)
    Traceback (most recent call last):
        ...
    ValueError: `0 < c` must hold, but got c=-1
    """
    if not holds:
        got = ", ".join(f"{name}={value!r}" for name, value in values.items())
        raise ValueError(f"`{rule}` must hold, but got {got}")
