"""Examples in docstrings as code on the site: Markdown would take ``>>>`` for a quotation in a quotation."""

from __future__ import annotations

import re
from typing import Any

import griffe

__all__ = ["Fenced", "fenced"]

_EXAMPLE = re.compile(r"^>>> .*(?:\n.+)*", re.MULTILINE)


def fenced(text: str) -> str:
    """A docstring with its examples in fences, but for those of a section ``Examples``, which are read as such."""
    before, heading, after = text.partition("\nExamples\n---")
    return _EXAMPLE.sub(lambda example: f"```pycon\n{example[0]}\n```", before) + heading + after


class Fenced(griffe.Extension):
    """Called by mkdocstrings for every object it reads."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Change an object's docstring."""
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)
