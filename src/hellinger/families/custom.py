"""Any other one-parameter exponential family, from its log-partition function alone."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from types import FunctionType
from typing import Any, ClassVar, NamedTuple, Self

import numba
import numpy as np

from hellinger._jit import OPTIONS
from hellinger.errors import InputError, require
from hellinger.families._base import Family, Floats

__all__ = ["ExponentialFamily"]

_SERIAL = itertools.count()

Scalar = Callable[[Any], Any]
Sampler = Callable[[Floats, np.random.Generator, Any], Any]


class _NoParameters(NamedTuple):
    pass


class ExponentialFamily(Family, _NoParameters):
    """The family with density ∝ exp(θx − ψ(θ)), from ψ.

    Parameters
    ----------
    log_partition
        ψ as a function of one number, in NumPy or :mod:`math`; if numba can compile it, bounds take
        microseconds, otherwise it is called as Python.
    mean_bounds
        Ends of the means; either may be infinite.
    mean, natural
        ψ′ and its inverse, where you have them. Without ``mean``, ψ must accept complex numbers (NumPy
        functions do): ψ′ is then Im ψ(θ + ih)/h, exact to rounding. Without ``natural`` it is solved for.
    natural_bounds
        Ends of the natural parameters; found from where ψ is finite if not given.
    sampler
        ``sampler(means, rng, size)``, needed by :meth:`sample` only.

    Examples
    --------
    >>> coin = ExponentialFamily(lambda t: np.log1p(np.exp(t)), mean_bounds=(0, 1))
    >>> coin.hellinger_upper(0.3, 0.1), coin.kl_upper(0.0, 0.1)
    (0.72558700135..., 0.09516258196...)
    """

    __slots__ = ()
    lasting: ClassVar[bool] = False
    reference = "the user's own ψ"
    sampler: ClassVar[Sampler | None] = None

    def __new__(
        cls,
        log_partition: Scalar,
        *,
        mean_bounds: tuple[float, float],
        mean: Scalar | None = None,
        natural: Scalar | None = None,
        natural_bounds: tuple[float, float] | None = None,
        sampler: Sampler | None = None,
    ) -> Self:
        """Make a class of its own for this ψ, so that compiled code is specialised to it."""
        low, high = map(float, mean_bounds)
        require(low < high, "mean_bounds[0] < mean_bounds[1]", mean_bounds=mean_bounds)
        psi = _compiled(log_partition, numba.float64)
        if psi is None:
            raise InputError(f"`log_partition` must take and return one number, but got {log_partition!r}")
        if natural_bounds is None:
            natural_bounds = _finite_interval(psi)
        bottom, top = map(float, natural_bounds)
        if mean is not None:
            slope = _compiled(mean, numba.float64)
        else:
            slope = _complex_step(log_partition)
        if slope is None:
            raise InputError(
                "`mean`, the derivative of log_partition, must be given where log_partition does not accept "
                f"complex numbers, but got mean={mean!r}"
            )
        inverse = None if natural is None else _compiled(natural, numba.float64)

        def _log_partition(self: Family, theta: float) -> float:
            return psi(theta)  # type: ignore[no-any-return]

        def _mean(self: Family, theta: float) -> float:
            return slope(theta)  # type: ignore[no-any-return]

        def _natural(self: Family, m: float) -> float:
            return inverse(m)  # type: ignore[misc, no-any-return]

        namespace: dict[str, Any] = {
            "__slots__": (),
            "_infimum": lambda self: low,
            "_supremum": lambda self: high,
            "_natural_bounds": lambda self: (bottom, top),
            "_log_partition": _log_partition,
            "_mean": _mean,
            "sampler": None if sampler is None else staticmethod(sampler),
        }
        if inverse is not None:
            namespace["_natural"] = _natural
        # numba's symbols carry the class's name: two classes of one name would share machine code.
        own = type(f"ExponentialFamily{next(_SERIAL)}", (cls,), namespace)
        return tuple.__new__(own)

    @property
    def spec(self) -> str:
        """None: functions cannot be written down."""
        raise InputError(f"{self} has no spec, for it is made of functions: pass the family itself")

    def __repr__(self) -> str:
        return f"ExponentialFamily(mean_bounds={self.mean_bounds})"

    def _sample(self, mean: Floats, rng: np.random.Generator, size: int | tuple[int, ...] | None) -> Any:
        sampler = type(self).sampler
        if sampler is None:
            raise InputError(f"`sampler` must be given to draw rewards, but {self} has none")
        return sampler(mean, rng, size)


def _compiled(function: Any, argument: Any) -> Any:
    """``function`` compiled for one argument type, or called as Python from compiled code, or None."""
    if not callable(function):
        return None
    compiled = numba.njit(**OPTIONS)(_plain(function))
    try:
        compiled.compile((argument,))
    except numba.core.errors.NumbaError:
        pass
    else:
        return compiled if compiled.nopython_signatures[0].return_type == argument else None
    example = 0.25 if argument == numba.float64 else 0.25 + 1e-20j
    try:
        with np.errstate(all="ignore"):
            type(example)(function(example))
    except (TypeError, ValueError):
        return None

    def quiet(value: Any) -> Any:
        with np.errstate(all="ignore"):
            try:
                return type(example)(function(value))
            except (ArithmeticError, ValueError):
                return type(example)(math.nan)

    def call(value):  # type: ignore[no-untyped-def]
        with numba.objmode(out="float64"):
            out = quiet(value)
        return out

    def call_complex(value):  # type: ignore[no-untyped-def]
        with numba.objmode(out="complex128"):
            out = quiet(value)
        return out

    wrapped = numba.njit(error_model="numpy")(call if argument == numba.float64 else call_complex)
    wrapped.compile((argument,))
    return wrapped


def _plain(function: Scalar) -> Scalar:
    """A function that numba takes: a ufunc, a partial or a method is called through one."""
    if isinstance(function, FunctionType):
        return function

    def call(value: Any) -> Any:
        return function(value)

    return call


def _complex_step(log_partition: Scalar) -> Any:
    """ψ′ by the complex step: no subtraction, hence no cancellation."""
    psi = _compiled(log_partition, numba.complex128)
    if psi is None:
        return None

    @numba.njit(**OPTIONS)
    def slope(theta):  # type: ignore[no-untyped-def]
        h = 1e-20 * (abs(theta) if theta != 0.0 else 1.0)
        return psi(complex(theta, h)).imag / h

    try:
        slope.compile((numba.float64,))
    except numba.core.errors.NumbaError:
        return None
    return slope


def _finite_interval(psi: Any) -> tuple[float, float]:
    """The interval around the origin, or next to it, on which ψ is finite."""

    def finite(theta: float) -> bool:
        return math.isfinite(psi(theta))

    starts = [0.0, *(sign * 10.0**k for k in (0, -1, 1, -3, 3, -6, 6) for sign in (-1, 1))]
    start = next((theta for theta in starts if finite(theta)), None)
    if start is None:
        raise InputError("`natural_bounds` must be given, for log_partition is finite at none of " + f"{starts}")
    ends = []
    for sign in (-1.0, 1.0):
        inside, step = start, 1e-3
        while step < 1e300 and finite(start + sign * step):
            inside, step = start + sign * step, 2.0 * step
        if step >= 1e300:
            ends.append(sign * math.inf)
            continue
        outside = start + sign * step
        while True:
            middle = 0.5 * (inside + outside)
            if middle in (inside, outside):
                break
            if finite(middle):
                inside = middle
            else:
                outside = middle
        ends.append(0.0 if abs(outside) < 1e-300 else outside)
    return ends[0], ends[1]
