"""Runs that are done, a line of JSON each, so that whatever ends a long experiment they need not be done again."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

__all__ = ["Kept"]


class Kept:
    """A file of outcomes by what determines them.

    Parameters
    ----------
    file
        Where; None keeps nothing.
    about
        What determines an outcome besides its task. Lines about anything else are passed over.
    """

    def __init__(self, file: Path | None, about: object) -> None:
        self._file = file
        self._about = about
        self._done: dict[str, list[float]] = {}
        if file is None:
            return
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("a+", encoding="utf-8") as lines:
            lines.seek(0)
            text = lines.read()
            if text and not text.endswith("\n"):
                lines.write("\n")  # the last was cut short
        for line in text.splitlines():
            with suppress(ValueError, TypeError, KeyError):
                entry = json.loads(line)
                self._done[json.dumps([entry["about"], entry["task"]])] = entry["found"]

    def get(self, task: tuple[object, ...]) -> list[float] | None:
        """The outcome of a task, if it is known."""
        return self._done.get(json.dumps([self._about, task]))

    def add(self, task: tuple[object, ...], found: list[float]) -> None:
        """Keep an outcome, on disk when this returns."""
        if self._file is not None:
            with self._file.open("a", encoding="utf-8") as lines:
                lines.write(json.dumps({"about": self._about, "task": task, "found": found}) + "\n")
