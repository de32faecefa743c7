"""Compilation: one decorator for kernels, with a cache on disk that cannot go stale.

numba invalidates a cached function when *its own* file changes, not when a function it inlines
does. The cache therefore lives in a folder named by a digest of every source file of the package:
any edit starts an empty one.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numba
from numba import types
from numba.core.caching import FunctionCache
from numba.extending import overload

__all__ = ["DIGEST", "OPTIONS", "dispatch", "helper", "inline", "jit"]

F = TypeVar("F", bound=Callable[..., Any])

OPTIONS: dict[str, Any] = {"error_model": "numpy", "nogil": True}
"""Division by zero gives inf or NaN as in NumPy; never ``fastmath``, which would break both."""

# LLVM inlines these (numba's own inlining, on its IR, takes a hundred times as long to compile).
_INLINE: dict[str, Any] = {"error_model": "numpy", "forceinline": True}


def _digest() -> str:
    package = Path(__file__).parent
    digest = hashlib.sha256()
    for source in sorted(package.rglob("*.py")):
        digest.update(source.relative_to(package).as_posix().encode())
        digest.update(source.read_bytes())
    return digest.hexdigest()[:16]


def _cache_dir() -> str:
    root = os.environ.get("NUMBA_CACHE_DIR") or os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    for candidate in (Path(root) / "hellinger", Path(tempfile.gettempdir()) / f"hellinger-{os.getuid()}"):
        folder = candidate / DIGEST
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError:
            continue
        if os.access(folder, os.W_OK):
            return str(folder)
    return ""


DIGEST = _digest()
"""Names the state of the sources: cached machine code and kept results belong to one."""
_CACHE_DIR = _cache_dir()


def _lasting(argument: types.Type) -> bool:
    """Whether another process can name this type: false where a class was made at run time."""
    if isinstance(argument, types.BaseNamedTuple):
        return getattr(argument.instance_class, "lasting", True) and all(map(_lasting, argument.types))
    return True


class _Cache(FunctionCache):  # type: ignore[misc]
    """numba's cache on disk, passing over specialisations for classes made at run time."""

    def load_overload(self, sig: tuple[types.Type, ...], target_context: object) -> object:
        return super().load_overload(sig, target_context) if all(map(_lasting, sig)) else None

    def save_overload(self, sig: tuple[types.Type, ...], data: object) -> None:
        arguments = sig.args if hasattr(sig, "args") else sig
        if all(map(_lasting, arguments)):
            super().save_overload(sig, data)


def jit(function: F) -> F:
    """Compile ``function`` on first use and keep the machine code on disk."""
    compiled: F = numba.njit(**OPTIONS)(function)
    if _CACHE_DIR:
        before = numba.config.CACHE_DIR
        numba.config.CACHE_DIR = _CACHE_DIR
        try:
            compiled._cache = _Cache(function)  # type: ignore[attr-defined]
        finally:
            numba.config.CACHE_DIR = before
    return compiled


def helper(function: F) -> F:
    """Compile ``function`` for use inside kernels; the kernel's cache entry holds its machine code."""
    compiled: F = numba.njit(**OPTIONS)(function)
    return compiled


def inline(function: F) -> F:
    """Compile ``function`` into its callers, so that LLVM can vectorise their loops."""
    compiled: F = numba.njit(**_INLINE)(function)
    return compiled


def dispatch(function: F) -> F:
    """Make ``function(self, …)`` inside compiled code call the method ``_function`` of ``self``'s class.

    ``self`` is a NamedTuple, whose *class* is part of its numba type: the method is therefore chosen
    at compile time, inherited methods included, and nothing is looked up at run time. The Python body
    of ``function`` must do the same, ``return self._function(…)``, so that kernels also run uncompiled.
    """
    name = f"_{function.__name__}"

    def choose(self: Any, *_: Any) -> Callable[..., Any]:
        method: Callable[..., Any] = getattr(self.instance_class, name)
        return method

    overload(function, jit_options=_INLINE, strict=False)(choose)
    return function
