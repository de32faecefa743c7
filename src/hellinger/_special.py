"""Quantile functions of SciPy, callable from compiled code.

Compiled code refers to them by symbol, so it can be cached on disk; :func:`load` binds the symbols.
SciPy takes a third of a second to import, so that is left until a policy needs it.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from typing import Any

from llvmlite import binding
from numba import types

__all__ = ["betaincinv", "gammainccinv", "gammaincinv", "load", "ndtri"]

_double, _int = types.float64, types.int32


def _external(name: str, *arguments: Any) -> Callable[..., float]:
    """A function that compiled code calls by its symbol; only there can it be called."""
    function: Callable[..., float] = types.ExternalFunction(f"hellinger_{name}", _double(*arguments, _int))
    return function


betaincinv = _external("betaincinv", _double, _double, _double)
gammaincinv = _external("gammaincinv", _double, _double)
gammainccinv = _external("gammainccinv", _double, _double)
ndtri = _external("ndtri", _double)


@functools.cache
def load() -> None:
    """Bind the symbols to SciPy's compiled functions."""
    from scipy.special import cython_special

    capsule_name = ctypes.pythonapi.PyCapsule_GetName
    capsule_name.restype, capsule_name.argtypes = ctypes.c_char_p, [ctypes.py_object]
    capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
    capsule_pointer.restype, capsule_pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    functions = cython_special.__pyx_capi__
    for symbol, name in (
        ("betaincinv", "__pyx_fuse_0betaincinv"),
        ("gammaincinv", "gammaincinv"),
        ("gammainccinv", "gammainccinv"),
        ("ndtri", "ndtri"),
    ):
        capsule = functions[name]
        binding.add_symbol(f"hellinger_{symbol}", capsule_pointer(capsule, capsule_name(capsule)))
