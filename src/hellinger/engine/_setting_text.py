"""Settings as text: how a variable or a flag is read, and how a wrong value is reported, in one line."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic.fields import FieldInfo

from hellinger._spec import split_specs
from hellinger.errors import InputError, require

__all__ = [
    "PREFIX",
    "Origin",
    "check_variant",
    "json_or",
    "masked",
    "named_spec",
    "pairs",
    "place",
    "sentence",
    "toml",
    "unknown",
]

PREFIX = "HELLINGER_"
"""What the environment's variables begin with."""

Origin = Literal["default", "file", "environment", "flag"]
Fields = Mapping[str, FieldInfo]


def masked(url: str) -> str:
    """A database's address without its password; sooner too much is hidden than too little.

    >>> masked("postgresql://me:secret@host/name")
    'postgresql://me:***@host/name'
    >>> masked("postgresql://host/name?user=me&password=secret")
    'postgresql://host/name?user=me&password=***'
    """
    url = re.sub(r"([^:/@\s]*):(?!//)\S*@", r"\1:***@", url)
    return re.sub(r"(?i)\b(password|passwd|sslpassword|token)=[^&\s]*", r"\1=***", url)


def check_variant(name: str) -> None:
    """Refuse a name that no variant can have: those of other experiments than the main one have a colon."""
    good = 1 <= len(name) <= 64 and name.isprintable() and not {"/", ":"} & set(name) and name == name.strip()
    require(good, "a variant's name has 1 to 64 printable characters, no slash and no colon", name=name)


def named_spec(text: Any) -> tuple[str, str]:
    """Name and spec of one variant of a list: ``ours=hellinger-ucb(c=0.3)``, or a spec that names itself."""
    require(isinstance(text, str), "a variant is a spec, as text", variant=text)
    match = re.fullmatch(r"\s*([^=()]+?)\s*=\s*(.+)", text)
    return (match[1], match[2].strip()) if match else (text.strip(), text.strip())


def pairs(text: str) -> dict[str, str]:
    found = {}
    for part in split_specs(text):
        name, equals, value = (each.strip() for each in part.partition("="))
        require(bool(name and equals and value), "a table reads name=number, name=number", part=part)
        found[name] = value
    return found


def json_or(text: str, read: Any) -> Any:
    if text.lstrip().startswith(("{", "[")):
        try:
            return json.loads(text)
        except ValueError as error:
            raise InputError(f"a value that begins with {{ or [ must be JSON, but {error}: {text!r}") from None
    return read(text)


# Telling ---------------------------------------------------------------------------------------------

_KINDS = {
    "int": "a whole number",
    "float": "a number",
    "finite": "a finite number",
    "bool": "true or false",
    "string": "text",
    "dict": "a table of name = value",
    "path": "a path",
}


def sentence(
    fields: Fields, error: Any, values: Mapping[str, Any], origins: Mapping[str, Origin], file: Path | None
) -> str:
    """One of pydantic's findings as a sentence: the rule, the value, and where the value came from."""
    name = str(error["loc"][0])
    inner = "".join(f".{part}" for part in error["loc"][1:] if part != "[key]")
    got = error.get("input", values.get(name))
    if isinstance(got, str):
        got = masked(got)
    where = f" ({place(origins[name], name, file)})" if name in origins else ""
    kind = error["type"]
    if kind == "extra_forbidden":
        return unknown(fields, name, "given")
    if kind == "value_error":
        return f"{name}: {error['ctx']['error']}{where}"
    if kind == "literal_error":
        return f"`{name}` must be {error['ctx']['expected']}, but got {got!r}{where}"
    if kind.startswith(("greater_than", "less_than")):
        return f"`{_limits(fields[name], name)}` must hold, but got {name}={got!r}{where}"
    wanted = _KINDS.get(kind.split("_")[0])
    if wanted is None or kind == "string_too_short":
        return f"`{name}{inner}`: {error['msg']}, but got {got!r}{where}"
    return f"`{name}{inner}` must be {wanted}, but got {got!r}{where}"


def _limits(field: FieldInfo, name: str) -> str:
    """The rule as it is written: ``0 <= port <= 65535``."""
    low = high = ""
    for limit in field.metadata:
        low = f"{limit.ge} <= " if hasattr(limit, "ge") else f"{limit.gt} < " if hasattr(limit, "gt") else low
        high = f" <= {limit.le}" if hasattr(limit, "le") else f" < {limit.lt}" if hasattr(limit, "lt") else high
    return f"{low}{name}{high}"


def place(origin: Origin, name: str, file: Path | None) -> str:
    return {
        "default": "the default",
        "file": f"from the file {file}",
        "environment": f"from {PREFIX}{name.upper()}",
        "flag": f"from --{name.replace('_', '-')}",
    }[origin]


def toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{toml(key)} = {toml(each)}" for key, each in value.items()) + "}"
    return json.dumps(value, ensure_ascii=False)


def unknown(fields: Fields, name: str, where: str) -> str:
    near = difflib.get_close_matches(name, fields, n=3, cutoff=0.6)
    hint = f"; did you mean {' or '.join(near)}?" if near else "; `hellinger serve --show-config` lists them all"
    return f"unknown setting {name!r} {where}{hint}"
