"""A rule from a plain function of one arm's counts."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from types import FunctionType
from typing import Any, ClassVar, NamedTuple, TypeAlias
from weakref import WeakKeyDictionary

import numba
from numba import types
from numba.core.errors import NumbaError

from hellinger._jit import OPTIONS, helper
from hellinger.errors import InputError, warn
from hellinger.families import Family
from hellinger.policies._rule import Rule

__all__ = ["IndexFunction", "function_rule"]

IndexFunction: TypeAlias = Callable[..., float]

_MADE: WeakKeyDictionary[IndexFunction, type[Rule]] = WeakKeyDictionary()


class _Parameters(NamedTuple):
    family: Family


class FunctionRule(_Parameters, Rule):
    """The index f(s, n, t) or f(s, n, t, arms); where it is NaN at n = 0, as 0/0 is, the arm comes first."""

    __slots__ = ()
    lasting: ClassVar[bool] = False


def function_rule(function: IndexFunction) -> type[Rule]:
    """The rule of an index function; the same for the same function.

    The function takes an arm's reward sum, its plays and the round about to be played, and the number of arms if it
    has a fourth argument: numbers, not arrays. It returns the arm's index. numba compiles it if it can; otherwise it
    is called as Python, with one warning.
    """
    try:
        made = _MADE.get(function)
    except TypeError:  # no weak references, or no hash
        return _make(function)
    if made is None:
        made = _MADE[function] = _make(function)
    return made


def _make(function: IndexFunction) -> type[Rule]:
    name = str(getattr(function, "__name__", type(function).__name__)).strip("<>")
    count = _count_arguments(function, name)
    index = _compiled(function, name, count)
    message = f"an index must be a number, but {name} gives NaN for an arm that was played"

    @helper
    def first_if_nan(value: float, n: float) -> float:
        if math.isnan(value):
            if n == 0.0:
                return math.inf
            raise InputError(message)  # in a ranking it would compare with nothing
        return float(value)

    if count == 3:

        def _score(self: Rule, s: float, n: float, t: float, arms: float) -> float:
            return first_if_nan(index(s, n, t), n)

    else:

        def _score(self: Rule, s: float, n: float, t: float, arms: float) -> float:
            return first_if_nan(index(s, n, t, arms), n)

    namespace = {
        "__slots__": (),
        "__module__": "__main__",  # found nowhere by name, so that a cluster is sent the class itself
        "__qualname__": name,
        "__doc__": function.__doc__,
        "_score": _score,
    }
    return type(name, (FunctionRule,), namespace)


def _count_arguments(function: IndexFunction, name: str) -> int:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        parameters = {}.values()
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    needed = [
        p for p in parameters if p.default is p.empty and p.kind in (p.KEYWORD_ONLY, *{q.kind for q in positional})
    ]
    count = sum(p.default is p.empty for p in positional)
    if count not in (3, 4) or len(needed) != count:
        takes = f"takes ({', '.join(p.name for p in parameters)})" if parameters else "has no signature"
        raise InputError(f"an index function must take (s, n, t) or (s, n, t, arms), but {name} {takes}")
    return count


def _compiled(function: IndexFunction, name: str, count: int) -> Any:
    """The function compiled, or called as Python from compiled code."""
    plain = getattr(function, "py_func", function)  # compiled by the user already
    compiled = numba.njit(**OPTIONS)(plain if isinstance(plain, FunctionType) else _through(plain, count))
    if not hasattr(compiled, "overloads"):  # compilation is switched off
        return _as_python(function, name)
    try:
        compiled.compile((numba.float64,) * count)
        if isinstance(compiled.nopython_signatures[0].return_type, (types.Float, types.Integer, types.Boolean)):
            return compiled
        why = f"it returns {compiled.nopython_signatures[0].return_type}"
    except NumbaError as error:
        why = type(error).__name__
    python = _as_python(function, name)
    python(1.0, 2.0, 3.0, 4.0) if count == 4 else python(1.0, 2.0, 3.0)
    warn(f"numba cannot compile {name} ({why}): it is called as Python, some microseconds for every arm and round")

    def three(s, n, t):  # type: ignore[no-untyped-def]
        with numba.objmode(out="float64"):
            out = python(s, n, t)
        return out

    def four(s, n, t, arms):  # type: ignore[no-untyped-def]
        with numba.objmode(out="float64"):
            out = python(s, n, t, arms)
        return out

    return numba.njit(error_model="numpy")(three if count == 3 else four)


def _as_python(function: IndexFunction, name: str) -> Callable[..., float]:
    """The function with numbers out, division by zero as in NumPy, and its errors in words."""

    def call(*arguments: float) -> float:
        try:
            return float(function(*arguments))
        except ZeroDivisionError:
            return math.nan
        except Exception as error:
            counts = ", ".join(f"{value:g}" for value in arguments)
            raise InputError(
                f"an index function must return a number, but {name}({counts}) raised {type(error).__name__}: {error}"
            ) from error

    return call


def _through(function: IndexFunction, count: int) -> Callable[..., float]:
    """A function that numba takes: a partial or a method is called through one."""

    def three(s: float, n: float, t: float) -> float:
        return function(s, n, t)

    def four(s: float, n: float, t: float, arms: float) -> float:
        return function(s, n, t, arms)

    return three if count == 3 else four
