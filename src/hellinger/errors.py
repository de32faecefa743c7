"""What can go wrong, in words that state the rule and the value."""

from __future__ import annotations

import difflib
import os
import sys
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = [
    "HellingerError",
    "HellingerWarning",
    "InputError",
    "MissingExtraError",
    "UnknownIdError",
    "UnknownNameError",
    "needs_extra",
    "require",
    "require_memory",
    "suggestion",
    "warn",
]


class HellingerWarning(UserWarning):
    """A legal choice with a consequence the user should know of."""


class HellingerError(Exception):
    """The base of every error of this library."""


class InputError(HellingerError, ValueError):
    """A value that breaks a rule; the message states rule and value."""


class UnknownIdError(InputError, KeyError):
    """An id that no item, arm or experiment has."""

    __str__ = Exception.__str__  # a KeyError's own puts its message in quotes


class UnknownNameError(InputError):
    """A name that no family, policy, ball or level has."""

    def __init__(self, kind: str, name: str, known: list[str]) -> None:
        rule = f"it must be one of {', '.join(sorted(known))}"
        super().__init__(f"unknown {kind} {name!r}: {rule}{suggestion(name, known)}")


class MissingExtraError(HellingerError, ImportError):
    """A part of the library whose packages come with an extra that is not installed."""


@contextmanager
def needs_extra(extra: str) -> Iterator[None]:
    """Say which extra to install where an import of another project's package fails.

    >>> with needs_extra("lab"):
    ...     import no_such_package
    Traceback (most recent call last):
        ...
    hellinger.errors.MissingExtraError: this needs the extra 'lab' (...): pip install 'hellinger[lab]'
    """
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package == "hellinger":  # ours, and missing: no package would help
            raise
        raise MissingExtraError(
            f"this needs the extra {extra!r} ({package} is missing): pip install 'hellinger[{extra}]'"
        ) from None


def suggestion(name: str, known: Iterable[str]) -> str:
    """The known name that is most like the one given, as the end of a sentence; empty if none is like it.

    >>> suggestion("kl-ucbb", ["kl-ucb", "ucb1"])
    '; did you mean kl-ucb?'
    """
    close = difflib.get_close_matches(name.lower(), list(known), n=1)
    return f"; did you mean {close[0]}?" if close else ""


def require(holds: bool, rule: str, **values: object) -> None:
    """Raise :class:`InputError` with the rule and the offending values unless ``holds``.

    >>> require(False, "0 < c", c=-1)
    Traceback (most recent call last):
        ...
    hellinger.errors.InputError: `0 < c` must hold, but got c=-1
    """
    if not holds:
        got = ", ".join(f"{name}={value!r}" for name, value in values.items())
        raise InputError(f"`{rule}` must hold, but got {got}")


def require_memory(needed: float, what: str) -> None:
    """Raise :class:`InputError` unless so many bytes are less than the machine has: the system would kill the process.

    >>> require_memory(1e18, "10**17 numbers")
    Traceback (most recent call last):
        ...
    hellinger.errors.InputError: 10**17 numbers takes 1,000,000,000 GB of memory, but this machine has ... GB
    """
    present = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if needed > present:
        raise InputError(f"{what} takes {needed / 1e9:,.0f} GB of memory, but this machine has {present / 1e9:,.0f} GB")


def warn(message: str) -> None:
    """Issue a :class:`HellingerWarning` at the line of the caller's own code, however deep in this package it is."""
    home = str(Path(__file__).parent) + os.sep
    level, frame = 2, sys._getframe(1)
    while frame.f_code.co_filename.startswith(home) and frame.f_back is not None:
        level, frame = level + 1, frame.f_back
    warnings.warn(message, HellingerWarning, stacklevel=level)
