"""``make figures``: put what commands have measured (``docs/results/*.json``) into the documents, and redraw pictures.

In Markdown a value stands between invisible marks, ``<!--=pool.rank-->10.3 µs<!--/-->``, and so does a table, whose
marks ``<!--table pool.ranks-->`` and ``<!--/table-->`` have lines of their own. ``pool`` is a file of results and
``rank`` a name in it; ``pool.command``, ``pool.date`` and ``pool.machine`` are those of the measurement.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from pathlib import Path
from typing import Any

__all__ = ["Found", "digest", "drawn", "load", "names", "pages", "rewritten", "unmarked"]

Found = dict[str, dict[str, Any]]
"""Files of results by name."""

ABOUT = ("command", "date", "machine")
DRAWN = "drawn.json"
"""Digests of what each picture was drawn from, and of the picture."""

_FENCED = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
_VALUE = re.compile(r"<!--=(\w+)\.(\w+)-->(.*?)<!--/-->", re.DOTALL)
_TABLE = re.compile(r"<!--table (\w+)\.(\w+)-->\n.*?<!--/table-->", re.DOTALL)
_SET = re.compile(r"<!--set-->.*?<!--/-->", re.DOTALL)
_UNIT = r"(?:ns|µs|ms|s|seconds|minutes|hours|kB|MB|GB|TB|KiB|MiB|GiB|bytes|events/s|(?:[a-z]+ )?(?:a|per) second)"
_MEASURED = re.compile(rf"(?<![\w.])\d[\d.,]*(?: (?:to|and|or) \d[\d.,]*)? {_UNIT}(?![\w(])|\d\.\d+ times")


def load(folder: Path) -> Found:
    """All results."""
    return {file.stem: json.loads(file.read_text(encoding="utf-8")) for file in sorted(folder.glob("*.json"))}


def pages(root: Path) -> list[Path]:
    """Documents that may show results."""
    return [root / "README.md", *sorted((root / "docs").glob("*.md"))]


def rewritten(text: str, found: Found) -> str:
    """A document with every marked value and table as the results have them."""
    text = _VALUE.sub(lambda match: f"<!--={match[1]}.{match[2]}-->{_value(found, match[1], match[2])}<!--/-->", text)
    return _TABLE.sub(
        lambda match: f"<!--table {match[1]}.{match[2]}-->\n\n{_table(found, match[1], match[2])}\n\n<!--/table-->",
        text,
    )


def _value(found: Found, file: str, name: str) -> str:
    if name in ABOUT:
        return str(_known(found, file)[name])
    values = _known(found, file)["values"]
    if name not in values:
        raise KeyError(f"docs/results/{file}.json has no value {name!r}")
    return str(values[name]["text"])


def _table(found: Found, file: str, name: str) -> str:
    tables = _known(found, file)["tables"]
    if name not in tables:
        raise KeyError(f"docs/results/{file}.json has no table {name!r}")
    head, *rows = ("| " + " | ".join(row) + " |" for row in tables[name])
    return "\n".join([head, "|" + "---|" * len(tables[name][0]), *rows])


def _known(found: Found, file: str) -> dict[str, Any]:
    if file not in found:
        raise KeyError(f"there is no docs/results/{file}.json")
    return found[file]


def names(text: str) -> set[tuple[str, str]]:
    """Files and names of the values and tables that a document shows."""
    return {(match[1], match[2]) for pattern in (_VALUE, _TABLE) for match in pattern.finditer(text)}


def unmarked(text: str) -> list[str]:
    """Numbers with a unit of time, memory or rate that no file of results has.

    Code has settings and examples. Where a setting or a limit stands in prose, ``<!--set-->10 ms<!--/-->`` says so.
    """
    for pattern in (_FENCED, _VALUE, _TABLE, _SET, re.compile(r"`[^`\n]*`"), re.compile(r"\$[^$\n]*\$")):
        text = pattern.sub("`x`", text)
    return [text[max(0, match.start() - 40) : match.end()].replace("\n", " ") for match in _MEASURED.finditer(text)]


# Pictures ----------------------------------------------------------------------------------------------------------


def digest(content: bytes) -> str:
    """A short name for a content."""
    return hashlib.sha256(content).hexdigest()[:16]


def drawn(found: Found) -> dict[str, dict[str, Any]]:
    """What each picture is drawn from."""
    return {f"{name}.png": drawing for each in found.values() for name, drawing in each["pictures"].items()}


def source(drawing: dict[str, Any]) -> str:
    """A short name for what a picture is drawn from."""
    return digest(json.dumps(drawing, sort_keys=True).encode())


def _picture(drawing: dict[str, Any]) -> bytes:
    from hellinger import figures

    arguments = {name: _rich(value, figures) for name, value in drawing["arguments"].items()}
    return figures.render(getattr(figures, drawing["draw"])(**arguments), "png")


def _rich(thing: Any, figures: Any) -> Any:
    """What ``Results.picture`` has made plain, as the figures take it."""
    import numpy as np

    if isinstance(thing, dict):
        values = {name: _rich(value, figures) for name, value in thing.items()}
        kind = next(iter(thing), "")
        return getattr(figures, kind)(**values[kind]) if kind in figures.__all__ else values
    if isinstance(thing, list):
        numbers = bool(thing) and all(isinstance(each, (int, float)) for each in thing)
        return np.array(thing) if numbers else [_rich(each, figures) for each in thing]
    return thing


def main(root: Path) -> None:
    """Rewrite the documents, and redraw the pictures whose results have changed."""
    found = load(root / "docs" / "results")
    for page in pages(root):
        text = page.read_text(encoding="utf-8")
        if (new := rewritten(text, found)) != text:
            page.write_text(new, encoding="utf-8")
            print(f"rewritten: {page.relative_to(root)}")
    folder = root / "docs" / "img"
    record = json.loads((folder / DRAWN).read_text(encoding="utf-8")) if (folder / DRAWN).exists() else {}
    for name, drawing in drawn(found).items():
        if record.get(name, {}).get("source") != source(drawing):
            picture = _picture(drawing)
            (folder / name).write_bytes(picture)
            record[name] = {"source": source(drawing), "picture": digest(picture)}
            print(f"drawn: docs/img/{name}")
    (folder / DRAWN).write_text(json.dumps(record, indent=1, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent.parent)
