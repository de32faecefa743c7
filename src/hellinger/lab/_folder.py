"""A folder of results that appears whole or not at all."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hellinger.errors import InputError

__all__ = ["whole_folder"]


@contextmanager
def whole_folder(folder: str | Path) -> Iterator[Path]:
    """Give a folder to write in, beside the one wanted; its files move there once all are written.

    Files of other names already in the wanted folder stay. Where anything fails, nothing is left behind,
    parents made on the way included.
    """
    target = Path(folder).absolute()
    partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
    made = [parent for parent in partial.parents if not parent.exists()]
    done = False
    try:
        try:
            if target.exists() and not target.is_dir():
                raise NotADirectoryError(f"{target} is a file")
            if target.is_dir() and not os.access(target, os.W_OK):
                raise PermissionError("permission denied")
            partial.mkdir(parents=True)
        except OSError as error:
            reason = error.strerror or error
            raise InputError(
                f"the folder for results must be one that can be written, but {folder}: {reason}"
            ) from None
        yield partial
        target.mkdir(exist_ok=True)
        for file in sorted(partial.iterdir(), key=lambda file: file.suffix == ".json"):  # metadata last
            file.replace(target / file.name)
        done = True
    finally:
        shutil.rmtree(partial, ignore_errors=True)
        if not done:
            for parent in made:
                try:
                    parent.rmdir()
                except OSError:
                    break  # not ours alone any more, or never made
