"""Whole numbers as people write them."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import typer

__all__ = ["read_whole", "whole"]


def read_whole(text: str) -> int | None:
    """A whole number, which may be written as 1e6 or 10_000; none if it is not one.

    >>> read_whole("1e6"), read_whole("10_000"), read_whole("2.5e1"), read_whole("0.5"), read_whole("many")
    (1000000, 10000, 25, None, None)
    """
    digits, _, exponent = text.lower().partition("e")
    try:
        if abs(int(exponent or 0)) > 1000:  # nobody needs it, and it would take all memory
            return None
        value = Fraction(text)
    except (ValueError, ZeroDivisionError):
        return None
    return value.numerator if value.denominator == 1 and "/" not in digits else None


def whole(least: int | None = None, most: int = 2**63 - 1) -> Callable[[str | int], int]:
    """Give an option's parser: a whole number, not below ``least`` and not above ``most``."""

    def integer(text: str | int) -> int:  # its name is what the help shows
        value = text if isinstance(text, int) else read_whole(text)
        if value is None:
            raise typer.BadParameter(f"a whole number is needed, as 1000 or 1e3, but got {text!r}")
        if least is not None and value < least:
            raise typer.BadParameter(f"it must be at least {least:,}, but got {text}")
        if value > most:
            raise typer.BadParameter(f"it must be at most {most:,}, but got {text}")
        return value

    return integer
