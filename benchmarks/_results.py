"""Results that documents use: a command writes its values, tables and drawings to one JSON file, by ``--results FILE``.

``make figures`` (``tools/figures.py``) puts them into the documents. Nothing in such a file is written by hand.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shlex
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["Results", "machine"]

_PACKAGES = ("hellinger", "numpy", "numba", "scipy")


def machine() -> str:
    """The machine in words: cores, memory and processor."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    models = [
        line.partition(":")[2].strip()
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    ]
    return f"{os.cpu_count()} cores, {memory:.0f} GB of memory, {models[0] if models else platform.machine()}"


class Results:
    """Gathers what a command found; without a path nothing is written."""

    def __init__(self, path: Path | None, command: str | None = None) -> None:
        self._path = path
        self._command = command or _command()
        self._values: dict[str, dict[str, Any]] = {}
        self._tables: dict[str, list[list[str]]] = {}
        self._pictures: dict[str, dict[str, Any]] = {}

    @staticmethod
    def option(parser: argparse.ArgumentParser) -> None:
        """Add ``--results FILE``."""
        parser.add_argument("--results", type=Path, metavar="FILE", help="write what documents use, as JSON")

    def value(self, name: str, value: float | str, unit: str = "", digits: int = 0) -> None:
        """A number with its unit, shown with so many digits after the point; or words."""
        shown = value if isinstance(value, str) else f"{value:,.{digits}f}".replace("-", "−")
        number = {} if isinstance(value, str) else {"value": float(f"{value:.6g}")}
        self._values[name] = number | {"text": f"{shown} {unit}".strip()}

    def table(self, name: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """A table of a document, cell by cell as it is shown."""
        assert all(len(row) == len(columns) for row in rows)
        self._tables[name] = [list(columns), *map(list, rows)]

    def picture(self, name: str, draw: str, **arguments: Any) -> None:
        """A picture of a document: a function of ``hellinger.figures``, and what it is to draw."""
        self._pictures[name] = {"draw": draw, "arguments": _plain(arguments)}

    def write(self) -> None:
        """Write the file."""
        if self._path is None:
            return
        found = {
            "command": self._command,
            "date": datetime.now(UTC).date().isoformat(),
            "machine": machine(),
            "versions": {"python": platform.python_version()} | {name: version(name) for name in _PACKAGES},
            "values": self._values,
            "tables": self._tables,
            "pictures": self._pictures,
        }
        self._path.write_text(_text(found), encoding="utf-8")
        print(f"results: {self._path}", file=sys.stderr)


def _command() -> str:
    """The command of this process, without where its results go."""
    words = sys.argv[1:]
    if "--results" in words:
        place = words.index("--results")
        del words[place : place + 2]
    return shlex.join(["python", f"benchmarks/{Path(sys.argv[0]).name}", *words])


def _plain(thing: Any) -> Any:
    """Arrays as lists, and named tuples as objects under the name of their class."""
    if hasattr(thing, "_asdict"):
        return {type(thing).__name__: {name: _plain(value) for name, value in thing._asdict().items()}}
    if isinstance(thing, dict):
        return {name: _plain(value) for name, value in thing.items()}
    if isinstance(thing, np.ndarray):
        return [_plain(each) for each in thing.tolist()]
    if isinstance(thing, (list, tuple)):
        return [_plain(each) for each in thing]
    return float(f"{thing:.6g}") if isinstance(thing, float) else thing


def _text(found: dict[str, Any]) -> str:
    """JSON with one line for each value, row and drawing, so that changes can be read."""
    lines = []
    for key, part in found.items():
        inside = part.items() if key in ("values", "tables", "pictures") else ()
        if not inside:
            lines.append(f"{json.dumps(key)}: {json.dumps(part, ensure_ascii=False)}")
            continue
        rows = []
        for name, entry in inside:
            if isinstance(entry, list):
                cells = ",\n   ".join(json.dumps(row, ensure_ascii=False) for row in entry)
                rows.append(f"  {json.dumps(name)}: [\n   {cells}\n  ]")
            else:
                rows.append(f"  {json.dumps(name)}: {json.dumps(entry, ensure_ascii=False)}")
        lines.append(f"{json.dumps(key)}: {{\n" + ",\n".join(rows) + "\n }")
    return "{\n " + ",\n ".join(lines) + "\n}\n"
