"""What MkDocs leaves to do for the site: formulas as MathML, which needs no script, and roles as plain code."""

from __future__ import annotations

import html
import re
from typing import Any

from latex2mathml.converter import convert

_FORMULA = re.compile(r'<(span|div) class="arithmatex">\\([(\[])(.*?)\\[)\]]</\1>', re.DOTALL)
_DIRECTIVE = re.compile(r"<p>\.\. math:: (.*?)</p>", re.DOTALL)
_ROLE = re.compile(r":(?:attr|class|data|exc|func|meth|mod):<code>(?:~(?:\w+\.)*)?([^<]+)</code>")
_BRACE = re.compile(r"(?:\\[Bb]ig)?\\(lbrace|rbrace|\{|\})(?:(?<=[{}])|\b)")
_PRIME = re.compile(r"<msup>(<mi>[^<]+</mi>)<mi>(&#x0203[23];)</mi></msup>")
_FUNCTION = re.compile(r"<mi>(\w\w+)</mi>")


def on_page_content(content: str, **_: Any) -> str:
    """Change a page once Markdown has become HTML; MkDocs calls this by its name."""
    content = _ROLE.sub(r"<code>\1</code>", content)
    content = _DIRECTIVE.sub(lambda match: formula(match[1], "block"), content)
    return _FORMULA.sub(lambda match: formula(match[3], "block" if match[2] == "[" else "inline"), content)


def formula(text: str, display: str) -> str:
    """MathML of a formula in HTML, with space around functions' names; a prime is a small high sign by itself."""
    latex = _BRACE.sub(lambda brace: r"\{" if brace[1] in ("{", "lbrace") else r"\}", html.unescape(text))
    made = _FUNCTION.sub(r'<mo lspace="0.15em" rspace="0.15em">\1</mo>', convert(latex, display=display))
    made = _PRIME.sub(r'<mrow>\1<mo lspace="0" rspace="0">\2</mo></mrow>', made)
    if "\\" in made:
        raise ValueError(f"a formula must be of commands that latex2mathml knows, but got {text!r}")
    return made if display == "inline" else f'<div style="overflow-x: auto">{made}</div>'  # wide ones scroll alone
