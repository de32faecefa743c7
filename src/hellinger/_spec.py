"""Specs: ``name(key=value, …)``, the one way to write a policy or a family in text."""

from __future__ import annotations

import ast
import re

__all__ = ["format_spec", "parse_spec", "split_specs"]

_SPEC = re.compile(r"\s*([A-Za-z][\w+\-]*)\s*(?:\((.*)\))?\s*", re.DOTALL)
_WORDS = {"true": True, "false": False, "none": None}


def parse_spec(spec: str) -> tuple[str, dict[str, object]]:
    """Split a spec into its name and its arguments.

    >>> parse_spec("ucb(ball=kl, level=moss, anytime=true, scale=0.5)")
    ('ucb', {'ball': 'kl', 'level': 'moss', 'anytime': True, 'scale': 0.5})
    """
    match = _SPEC.fullmatch(spec)
    if match is None:
        raise ValueError(f"a spec must read name or name(key=value, …), but got {spec!r}")
    arguments: dict[str, object] = {}
    for part in filter(None, (text.strip() for text in (match[2] or "").split(","))):
        key, equals, value = (text.strip() for text in part.partition("="))
        if not equals or not key.isidentifier() or not value:
            raise ValueError(f"a spec's arguments must read key=value, but got {part!r} in {spec!r}")
        if key in arguments:
            raise ValueError(f"a spec's arguments must differ, but got {key!r} twice in {spec!r}")
        arguments[key] = _value(value)
    return match[1].lower(), arguments


def _value(text: str) -> object:
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def format_spec(name: str, arguments: dict[str, object]) -> str:
    """Write a spec that :func:`parse_spec` reads back.

    >>> format_spec("kl-ucb", {"c": 3})
    'kl-ucb(c=3)'
    """
    if not arguments:
        return name
    words = {True: "true", False: "false", None: "none"}
    texts = {k: words[v] if v is None or isinstance(v, bool) else str(v) for k, v in arguments.items()}
    inside = ", ".join(f"{key}={text}" for key, text in texts.items())
    return f"{name}({inside})"


def split_specs(text: str) -> list[str]:
    """Split at the commas outside parentheses.

    >>> split_specs("ucb1, kl-ucb(c=3), ucb(ball=kl, level=plus)")
    ['ucb1', 'kl-ucb(c=3)', 'ucb(ball=kl, level=plus)']
    """
    return [part.strip() for part in re.split(r",(?![^(]*\))", text) if part.strip()]
