"""Compilation: one decorator for kernels, with a cache on disk that cannot go stale.

numba invalidates a cached function when *its own* file changes, not when a function it inlines
does. The cache therefore lives in a folder named by a digest of every source file that a kernel may
come from: any edit of those starts an empty one.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import pickle
import re
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import numba
from numba import types
from numba.core.caching import FunctionCache, IndexDataCacheFile
from numba.core.errors import NumbaError
from numba.extending import intrinsic, overload

from hellinger.errors import InputError

__all__ = [
    "DIGEST",
    "OPTIONS",
    "Component",
    "NotKeptError",
    "borrowed",
    "brief",
    "dispatch",
    "entry",
    "explained",
    "helper",
    "inline",
    "is_own",
    "jit",
    "loading",
]

F = TypeVar("F", bound=Callable[..., Any])

OPTIONS: dict[str, Any] = {"error_model": "numpy", "nogil": True}
"""Division by zero gives inf or NaN as in NumPy; never ``fastmath``, which would break both."""

# LLVM inlines these (numba's own inlining, on its IR, takes a hundred times as long to compile).
_INLINE: dict[str, Any] = {"error_model": "numpy", "forceinline": True}


# an import of this module, or of numba; the newline in front makes the search three times as fast as ^ does
_COMPILES = re.compile(rb"\n *(?:from|import)\b[^#\n]*\b(?:_jit|numba)\b")
_UNUSED = 30 * 86400.0
"""Seconds after which a folder that no process has used is deleted."""


def _sources(package: Path) -> dict[str, bytes]:
    """Files that a kernel may come from: those of each room with a module that imports this one, or numba itself.

    A service need not compile anew when the rooms above the mathematics change.
    """
    rooms: dict[str, dict[str, bytes]] = {}
    for source in sorted(package.rglob("*.py")):
        name = source.relative_to(package).as_posix()
        rooms.setdefault(name.partition("/")[0], {})[name] = source.read_bytes()
    compiling = (room for room in rooms.values() if any(map(_COMPILES.search, room.values())))
    return {name: text for room in compiling for name, text in room.items()}


def _digest(package: Path) -> str:
    digest = hashlib.sha256()
    for name, text in _sources(package).items():
        digest.update(name.encode())
        digest.update(text)
    return digest.hexdigest()[:16]


def _private(folder: Path) -> bool:
    """Whether this is a folder of ours that we can write and nobody else can enter; it is made, or made so, if need be.

    Cached code is run: whoever could put a file here could have us run it.
    """
    try:
        folder.mkdir(0o700, parents=True, exist_ok=True)
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            if os.fstat(descriptor).st_uid != os.geteuid():
                return False
            os.fchmod(descriptor, 0o700)
            os.utime(descriptor)  # the time of its last use
            private = os.fstat(descriptor).st_mode & 0o077 == 0  # some file systems have no permissions
        finally:
            os.close(descriptor)
    except OSError:
        return False
    return private and os.access(folder, os.W_OK)


def _roots() -> Iterator[Path]:
    """Where caches may be, the best first."""
    with suppress(RuntimeError):  # a user without a home
        root = os.environ.get("NUMBA_CACHE_DIR") or os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        yield Path(root) / "hellinger"
    with suppress(FileNotFoundError):  # no temporary folder either
        yield Path(tempfile.gettempdir()) / f"hellinger-{os.geteuid()}"


def _remove_unused(root: Path) -> None:
    """Delete the folders of other sources that no process has used for a while."""
    oldest = time.time() - _UNUSED
    for folder in root.glob("[0-9a-f]" * len(DIGEST) + "*"):
        with suppress(OSError):  # another process was first
            if folder.name != DIGEST and folder.lstat().st_mtime < oldest:
                # a process that begins to use it now finds nothing instead of a half
                shutil.rmtree(folder.rename(root / f"{folder.name}.{os.getpid()}"))


def _cache_dir() -> str:
    """The folder for these sources; empty if there is none that is safe, and each process compiles for itself."""
    for root in _roots():
        folder = root / DIGEST
        if _private(root) and _private(folder):
            _remove_unused(root)
            return str(folder)
    return ""


DIGEST = _digest(Path(__file__).parent)
"""Names the state of the sources: cached machine code and kept results belong to one."""
_CACHE_DIR = _cache_dir()


def _lasting(argument: types.Type) -> bool:
    """Whether machine code for this type may be kept: not where a class was made at run time, or is a user's.

    The cache is named by the library's sources; it would outlive an edit of the user's.
    """
    if isinstance(argument, types.BaseNamedTuple):
        cls = argument.instance_class
        return _is_ours(cls) and getattr(cls, "lasting", True) and all(map(_lasting, argument.types))
    return True


def _read_own(file: Path) -> bytes:
    """The contents of a file that we wrote, even if others can write in a folder above the cache."""
    with os.fdopen(os.open(file, os.O_RDONLY | os.O_NOFOLLOW), "rb") as opened:
        if os.fstat(opened.fileno()).st_uid != os.geteuid():
            raise PermissionError(f"{file} must be ours")
        return opened.read()


class _Files(IndexDataCacheFile):  # type: ignore[misc]
    """One file for each specialisation, named by it and holding it, instead of a numbered file and an index.

    Two processes that compile at the same time would give the same number to different specialisations,
    and a third would then run the machine code of the wrong one.
    """

    def _path(self, key: object) -> Path:
        name = hashlib.sha256(repr(key).encode()).hexdigest()[:24]
        return Path(self._cache_path) / f"{self._index_name.removesuffix('.nbi')}.{name}.nbc"

    def save(self, key: object, data: object) -> None:
        text = self._dump((self._version, self._source_stamp, key, data))
        path = self._path(key)
        with suppress(OSError):  # a full disk: the next process compiles again
            path.parent.mkdir(parents=True, exist_ok=True)  # another version may have found it unused
            with self._open_for_write(str(path)) as file:
                os.fchmod(file.fileno(), 0o600)
                file.write(text)

    def load(self, key: object) -> object:
        try:
            version, stamp, saved, data = pickle.loads(_read_own(self._path(key)))
        except (OSError, EOFError, pickle.UnpicklingError, AttributeError, ImportError):
            return None  # absent, not ours, or of a class that is no longer there
        # two classes of one name have one file: the later one keeps it
        return data if (version, stamp, saved) == (self._version, self._source_stamp, key) else None


class NotKeptError(Exception):
    """A kernel would have to be compiled, whose machine code another process could have kept on disk."""


_loading = threading.local()


@contextmanager
def loading() -> Iterator[None]:
    """Let this thread compile nothing in the block that another process can compile for it: ``NotKeptError``."""
    _loading.only = bool(_CACHE_DIR)
    try:
        yield
    finally:
        _loading.only = False


class _Cache(FunctionCache):  # type: ignore[misc]
    """numba's cache on disk, passing over specialisations for classes made at run time."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        self._cache_file = _Files(self._cache_path, self._impl.filename_base, self._impl.locator.get_source_stamp())

    def load_overload(self, sig: tuple[types.Type, ...], target_context: object) -> object:
        if not all(map(_lasting, sig)):
            return None
        code = super().load_overload(sig, target_context)
        if code is None and getattr(_loading, "only", False):
            raise NotKeptError
        return code

    def save_overload(self, sig: tuple[types.Type, ...], data: object) -> None:
        arguments = sig.args if hasattr(sig, "args") else sig
        if all(map(_lasting, arguments)):
            super().save_overload(sig, data)


def jit(function: F) -> F:
    """Compile ``function`` on first use and keep the machine code on disk."""
    return _cached(function, OPTIONS)


def brief(function: F) -> F:
    """:func:`jit` for what takes some microseconds: it keeps the interpreter's lock.

    To give it up beside a busy thread, and to wait until it is free again, takes longer than such a kernel does: a
    tenth of all that a ranking of the service costs.
    """
    return _cached(function, OPTIONS | {"nogil": False})


def _cached(function: F, options: dict[str, Any]) -> F:
    compiled: F = numba.njit(**options)(function)
    if _CACHE_DIR:
        before = numba.config.CACHE_DIR
        numba.config.CACHE_DIR = _CACHE_DIR
        try:
            compiled._cache = _Cache(function)  # type: ignore[attr-defined]
        finally:
            numba.config.CACHE_DIR = before
    return compiled


def entry(kernel: Callable[..., Any], *arguments: Any) -> Callable[..., Any]:
    """The machine code of a kernel for arguments of these types, to be called with no others.

    numba looks up the types of all arguments at every call, several microseconds for nested tuples:
    more than a small kernel takes itself.
    """
    if not hasattr(kernel, "overloads"):  # compilation is switched off
        return kernel
    types_ = tuple(numba.typeof(argument) for argument in arguments)
    kernel.compile(types_)  # type: ignore[attr-defined]
    code: Callable[..., Any] = kernel.overloads[types_].entry_point
    return code


def helper(function: F) -> F:
    """Compile ``function`` for use inside kernels; the kernel's cache entry holds its machine code."""
    compiled: F = numba.njit(**OPTIONS)(function)
    return compiled


def inline(function: F) -> F:
    """Compile ``function`` into its callers, so that LLVM can vectorise their loops."""
    compiled: F = numba.njit(**_INLINE)(function)
    return compiled


def _borrowed(_context: Any, array: Any) -> Any:
    """The same array, whose references are not counted: for a kernel whose caller holds on to it.

    Compiled functions count the references to every array they are handed, even where LLVM inlines them, and each
    count is an atomic operation that waits for all memory accesses before it. Without an owner to count for, LLVM
    drops them all.
    """

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        view = context.make_array(signature.return_type)(context, builder, arguments[0])
        view.meminfo = view.meminfo.type(None)
        view.parent = view.parent.type(None)
        return view._getvalue()

    return array(array), build


borrowed: Any = intrinsic(_borrowed)


_SERIAL = itertools.count(1)


def _is_ours(cls: type) -> bool:
    return cls.__module__.partition(".")[0] == __package__


def is_own(value: object) -> bool:
    """Whether this NamedTuple, and all in it, are of the library's own classes."""
    return not isinstance(value, tuple) or ((type(value) is tuple or _is_ours(type(value))) and all(map(is_own, value)))


class Component:
    """A class of NamedTuples that compiled code is specialised to: a family, ball, level or rule."""

    __slots__ = ()

    def __init_subclass__(cls) -> None:
        """Give a user's class a name that no other has.

        numba tells NamedTuples apart by their class's name: a class defined again in a notebook, or one that is named
        like another, would run the other's machine code.
        """
        super().__init_subclass__()
        if _is_ours(cls):
            return
        cls.__name__ = f"{cls.__name__}_{next(_SERIAL)}"
        shown = next(base for base in cls.__mro__ if "__repr__" in vars(base))
        if shown.__bases__ == (tuple,):  # NamedTuple's, which shows __name__
            cls.__repr__ = _show  # type: ignore[method-assign]


def _show(self: Any) -> str:
    name = type(self).__qualname__.rpartition(".")[2]
    return f"{name}({', '.join(f'{field}={value!r}' for field, value in self._asdict().items())})"


@contextmanager
def explained(what: str) -> Iterator[None]:
    """Turn numba's traceback into one sentence: what cannot be compiled, and why."""
    try:
        yield
    except NumbaError as error:
        lines = [line.strip() for line in _COLOURS.sub("", str(error)).splitlines() if line.strip()]
        # each level of calls begins with this line; what follows the last is the cause
        places = [place for place, line in enumerate(lines[:-1]) if "Failed in nopython mode" in line]
        reason = lines[places[-1] + 1] if places else lines[0]
        raise InputError(f"{what} must be code that numba can compile, but it is not: {reason}") from None


_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


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
