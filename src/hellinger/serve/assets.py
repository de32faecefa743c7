"""The page's files, read once and compressed once: what it is made of, and the charts' script from its own package."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
from html import escape
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

__all__ = ["Asset", "Assets"]

_FOLDER = Path(__file__).with_name("page")
_KINDS = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_CHARTS = "plotly.min.js"


class Asset(NamedTuple):
    """A file as it is sent: compressed, for nearly everybody can read that."""

    packed: bytes
    kind: str

    @property
    def plain(self) -> bytes:
        """The file as it was."""
        return gzip.decompress(self.packed)


class Assets:
    """Everything the page consists of.

    Files are reached under a name that changes with what they say, so that a browser may keep them for ever and
    still never shows an old page with a new script.

    Parameters
    ----------
    title
        What the page is headed with.
    """

    def __init__(self, title: str) -> None:
        files = {file.name: file.read_bytes() for file in sorted(_FOLDER.iterdir()) if file.suffix in _KINDS}
        index = (_FOLDER / "index.html").read_text(encoding="utf-8")
        made_of = hashlib.sha256(f"{version('plotly')}\0{title}\0{index}".encode())
        for name, content in files.items():
            made_of.update(f"\0{name}\0".encode() + content)
        self.digest = made_of.hexdigest()[:16]
        """Names everything together."""
        text = index.replace("{{title}}", escape(title)).replace("{{assets}}", f"/assets/{self.digest}")
        self.index = _packed(text.encode(), "text/html; charset=utf-8")
        self._files = {name: _packed(content, _KINDS[Path(name).suffix]) for name, content in files.items()}
        self._reading = asyncio.Lock()

    async def get(self, name: str) -> Asset | None:
        """The file of this name. The charts' script is large, and read when it is first asked for."""
        if name != _CHARTS:
            return self._files.get(name)
        async with self._reading:
            if name not in self._files:
                self._files[name] = await asyncio.to_thread(_read_charts)
        return self._files[name]


def _read_charts() -> Asset:
    found = find_spec("plotly")  # not imported: that takes longer than reading the file
    assert found is not None
    assert found.origin is not None
    return _packed((Path(found.origin).parent / "package_data" / _CHARTS).read_bytes(), _KINDS[".js"])


def _packed(content: bytes, kind: str) -> Asset:
    return Asset(gzip.compress(content, 9, mtime=0), kind)
