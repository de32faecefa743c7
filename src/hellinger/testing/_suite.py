"""What the suites share: how checks are found, and how a failure is reported."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["EPS", "Floats", "close", "found_in", "refused"]

Floats = npt.NDArray[np.float64]
EPS = float(np.finfo(float).eps)


def found_in(namespace: Mapping[str, Any]) -> dict[str, Callable[[Any], None]]:
    """Every function named ``check_…`` of one argument that a module defines, by what follows."""
    return {
        name.removeprefix("check_"): value
        for name, value in namespace.items()
        if name.startswith("check_") and value.__module__ == namespace["__name__"] and not hasattr(value, "suite")
    }


def close(got: Any, want: Any, allowed: Any, what: str) -> None:
    """Require |got − want| ≤ allowed everywhere; equal infinities are close."""
    got, want, allowed = np.broadcast_arrays(*(np.asarray(a, float) for a in (got, want, allowed)))
    with np.errstate(invalid="ignore"):
        fine = (got == want) | (np.abs(got - want) <= allowed)
    if not fine.all():
        i = np.flatnonzero(~fine.ravel())[0]
        values = f"{got.ravel()[i]!r}, not {want.ravel()[i]!r} ± {allowed.ravel()[i]:.2g}"
        raise AssertionError(f"{what}: got {values} (entry {i} of {fine.size}, {(~fine).sum()} wrong)")


def refused(call: Callable[[], object], *words: str) -> None:
    """Require a ``ValueError`` whose message holds each of these words: the rule and the value."""
    message, result = "", None
    try:
        result = call()
    except ValueError as error:
        message = str(error)
    if not message:
        raise AssertionError(f"a ValueError that says {words} must be raised, but got {result!r}")
    missing = [word for word in words if word not in message]
    assert not missing, f"the error {message!r} must say {missing}"
