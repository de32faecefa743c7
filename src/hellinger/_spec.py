"""Specs: ``name(key=value, …)``, the one way to write a policy or a family in text."""

from __future__ import annotations

import ast
import itertools
import math
import re

import numpy as np

from hellinger.errors import InputError, require

__all__ = ["expand_spec", "format_spec", "parse_spec", "split_specs"]

_SPEC = re.compile(r"\s*([A-Za-z][\w+\-]*)\s*(?:\((.*)\))?\s*", re.DOTALL)
_SWEEP = re.compile(r"=\s*([^=,()]*?\.\.[^=,()]*?)\s*(?=[,)])")
_MOST_OF_A_SWEEP = 1000
_WORDS = {"true": True, "false": False, "none": None}


def parse_spec(spec: str) -> tuple[str, dict[str, object]]:
    """Split a spec into its name and its arguments.

    >>> parse_spec("ucb(ball=kl, level=moss, anytime=true, scale=0.5)")
    ('ucb', {'ball': 'kl', 'level': 'moss', 'anytime': True, 'scale': 0.5})
    """
    match = _SPEC.fullmatch(spec)
    if match is None:
        raise InputError(f"a spec must read name or name(key=value, …), but got {spec!r}")
    arguments: dict[str, object] = {}
    for part in split_specs(match[2] or ""):
        key, equals, value = (text.strip() for text in part.partition("="))
        if not equals or not key.isidentifier() or not value:
            raise InputError(f"a spec's arguments must read key=value, but got {part!r} in {spec!r}")
        if key in arguments:
            raise InputError(f"a spec's arguments must differ, but got {key!r} twice in {spec!r}")
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

    >>> split_specs("ucb1, kl-ucb(c=3), cold-start(model=logistic(scale=1, shared=false), groups=true)")
    ['ucb1', 'kl-ucb(c=3)', 'cold-start(model=logistic(scale=1, shared=false), groups=true)']
    """
    depth, parts = 0, [""]
    for letter in text:
        depth += (letter == "(") - (letter == ")")
        if letter == "," and depth <= 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts if part.strip()]


def expand_spec(spec: str) -> list[str]:
    """Write out the sweeps of a spec, ``key=first..last/count``: that many evenly spaced values, both ends included.

    >>> expand_spec("hellinger-ucb(c=0.3..0.5/3)")
    ['hellinger-ucb(c=0.3)', 'hellinger-ucb(c=0.4)', 'hellinger-ucb(c=0.5)']
    >>> expand_spec("ucb1")
    ['ucb1']
    """
    sweeps = list(_SWEEP.finditer(spec))
    choices = [_sweep(match[1], spec) for match in sweeps]
    total = math.prod(map(len, choices))
    require(total <= _MOST_OF_A_SWEEP, f"sweeps make at most {_MOST_OF_A_SWEEP} policies", spec=spec, policies=total)
    out = []
    for values in itertools.product(*choices):
        text = spec
        for match, value in reversed(list(zip(sweeps, values, strict=True))):
            text = text[: match.start(1)] + value + text[match.end(1) :]
        out.append(text)
    return out


def _sweep(text: str, spec: str) -> list[str]:
    ends, slash, many = text.partition("/")
    first, _, last = ends.partition("..")
    try:
        low, high, count = float(first), float(last), int(many) if slash else 0
    except ValueError:
        raise InputError(f"a sweep must read first..last/count, all numbers, but got {text!r} in {spec!r}") from None
    require(slash != "", "a sweep says how many values it has, first..last/count", sweep=text, spec=spec)
    require(
        math.isfinite(low) and math.isfinite(high) and low != high,
        "a sweep's ends are different numbers",
        sweep=text,
        spec=spec,
    )
    require(2 <= count <= _MOST_OF_A_SWEEP, f"2 <= count <= {_MOST_OF_A_SWEEP}", sweep=text, spec=spec)
    return [f"{value:.12g}" for value in np.linspace(low, high, count)]
