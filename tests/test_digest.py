"""The cache's name: a digest of every file that compiled code comes from, and of no room without any."""

from __future__ import annotations

import ast
import gc
import importlib
import pkgutil
import shutil
import sys
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import pytest
from numba.core.dispatcher import Dispatcher
from numba.core.types import ExternalFunction

import hellinger
from hellinger import _jit

PACKAGE = Path(hellinger.__file__).parent
SOURCES = set(_jit._sources(PACKAGE))
NO_KERNELS = {"cli", "client", "engine", "events.py", "experiment", "figures", "ledger", "serve", "store", "traffic"}


def room(name: str) -> str:
    return name.partition("/")[0]


def modules() -> dict[str, Any]:
    """Every module of the package by the name of its file."""
    for found in pkgutil.walk_packages(hellinger.__path__, "hellinger."):
        if found.name != "hellinger.__main__":
            importlib.import_module(found.name)
    loaded = [module for name, module in sys.modules.items() if name.partition(".")[0] == "hellinger"]
    return {Path(str(module.__file__)).relative_to(PACKAGE).as_posix(): module for module in loaded}


def compiled() -> dict[str, list[FunctionType]]:
    """Functions that are compiled, by module: decorated ones, and the methods that dispatched functions choose."""
    objects = gc.get_objects()
    chosen = {
        cell.cell_contents
        for function in objects
        if type(function) is FunctionType and function.__qualname__ == "dispatch.<locals>.choose"
        for cell in function.__closure__ or ()
    }
    assert {"_kl_upper", "_level"} <= chosen
    out: dict[str, list[FunctionType]] = {}
    for value in objects:
        kind = type(value)  # not isinstance, which a weak reference to what has gone answers by an error
        if issubclass(kind, Dispatcher):
            out.setdefault(value.py_func.__module__, []).append(value.py_func)
        elif issubclass(kind, type) and issubclass(value, tuple):
            methods = [method for name, method in vars(value).items() if name in chosen]
            out.setdefault(value.__module__, []).extend(methods)
    return out


def names(code: CodeType) -> set[str]:
    """Names that a function looks up, those of functions inside it included."""
    inner = [names(const) for const in code.co_consts if isinstance(const, CodeType)]
    return set(code.co_names).union(*inner)


def imported(module: Any) -> dict[str, str]:
    """Files that a module's imported names come from."""
    out = {}
    for node in ast.walk(ast.parse(Path(module.__file__).read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "hellinger":
            for alias in node.names:
                origin = sys.modules.get(f"{node.module}.{alias.name}") or sys.modules[str(node.module)]
                file = Path(str(origin.__file__)).relative_to(PACKAGE).as_posix()
                out[alias.asname or alias.name] = file
    return out


@pytest.fixture(scope="module")
def compiled_from() -> set[str]:
    """Files that compiled code comes from: where a compiled function is, and where the names that it uses are."""
    out = set()
    loaded, functions = modules(), compiled()
    for file, module in loaded.items():
        own = functions.get(module.__name__, [])
        if own or any(isinstance(value, ExternalFunction) for value in vars(module).values()):
            out.add(file)
        origins = imported(module) if own else {}
        out |= {origins[name] for function in own for name in names(function.__code__) & origins.keys()}
    return out


def test_every_file_with_compiled_code_is_in_it(compiled_from: set[str]) -> None:
    assert compiled_from - SOURCES == set()


def test_every_room_in_it_has_compiled_code(compiled_from: set[str]) -> None:
    assert {"testing/families.py", "families/poisson.py", "policies/levels.py", "policies/imed.py"} <= compiled_from
    assert {room(name) for name in SOURCES} == {room(name) for name in compiled_from}
    assert not {room(name) for name in SOURCES} & NO_KERNELS


def test_it_changes_with_rooms_that_compile_and_with_no_others(tmp_path: Path) -> None:
    package = tmp_path / "hellinger"
    shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__", "page"))
    assert _jit._digest(package) == _jit.DIGEST
    with (package / "serve" / "app.py").open("a") as file:
        file.write("# from hellinger._jit import jit\n")
    assert _jit._digest(package) == _jit.DIGEST
    seen = {_jit.DIGEST}
    for name in ("testing/stores.py", "families/poisson.py", "_jit.py"):
        with (package / name).open("a") as file:
            file.write("# edited\n")
        assert _jit._digest(package) not in seen
        seen.add(_jit._digest(package))
    (package / "serve" / "kernel.py").write_text('"""A kernel."""\n\nfrom hellinger._jit import jit\n')
    assert _jit._digest(package) not in seen
