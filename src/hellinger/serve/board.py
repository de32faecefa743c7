"""Figures that workers share: any of them answers for all."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import orjson

__all__ = ["Board"]

FRESH = 15.0
"""Seconds after which a worker that has put up nothing does not count as running."""


class Board:
    """A folder with a file of figures for each worker.

    Parameters
    ----------
    folder
        The supervisor's own, which nobody else can read.
    index
        Which of the workers this is.
    """

    def __init__(self, folder: Path, index: int) -> None:
        self._folder = folder
        self._name = str(index)

    def put(self, figures: dict[str, Any]) -> None:
        """Put up this worker's figures, in place of those before."""
        new = self._folder / f"{self._name}.new"
        with suppress(OSError):  # figures are not worth failing for
            new.write_bytes(orjson.dumps(figures | {"at": time.time()}))
            new.replace(self._folder / f"{self._name}.json")

    def last(self) -> dict[str, Any] | None:
        """What the worker in this one's place put up last, before it died."""
        return self._read(self._folder / f"{self._name}.json")

    def others(self) -> list[dict[str, Any]]:
        """What the other workers have put up; ``fresh`` tells whether each is still running."""
        names = [path for path in sorted(self._folder.glob("*.json")) if path.stem != self._name]
        return [figures for path in names if (figures := self._read(path)) is not None]

    @staticmethod
    def _read(path: Path) -> dict[str, Any] | None:
        try:
            found: dict[str, Any] = orjson.loads(path.read_bytes())
        except (OSError, orjson.JSONDecodeError):
            return None
        return found | {"fresh": time.time() - found["at"] < FRESH}
