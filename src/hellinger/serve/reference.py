"""The reference at ``/docs``: the OpenAPI document as a page, with no script and nothing from elsewhere."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from html import escape
from typing import Any

__all__ = ["render"]

_STYLE = """
:root { color-scheme: light dark; --line: #8884; --soft: #8881; --link: light-dark(#0b57d0, #8ab4f8); }
* { box-sizing: border-box; }
body { font: 16px/1.5 system-ui, sans-serif; margin: 0 auto; max-width: 62rem; padding: 1rem; }
a { color: var(--link); }
code, pre { font: 0.9em ui-monospace, monospace; }
pre { background: var(--soft); overflow-x: auto; padding: 0.75rem; border-radius: 0.4rem; }
h2 { border-bottom: 1px solid var(--line); margin-top: 2.5rem; }
h3 { margin-bottom: 0.25rem; overflow-wrap: anywhere; }
.method { display: inline-block; min-width: 4.5rem; }
.role { font-size: 0.85rem; font-weight: normal; border: 1px solid var(--line); border-radius: 1em; padding: 0 0.6em; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; }
th, td { border-bottom: 1px solid var(--line); padding: 0.3rem 0.7rem 0.3rem 0; text-align: left; vertical-align: top; }
nav ul { columns: 18rem; padding-left: 1rem; }
.skip { position: absolute; left: -999rem; } .skip:focus { left: 1rem; }
"""


def render(document: dict[str, Any]) -> str:
    """A page from an OpenAPI document."""
    info = document["info"]
    groups: dict[str, list[tuple[str, str, dict[str, Any]]]] = {}
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            group = (operation.get("tags") or ["other"])[0]
            groups.setdefault(group, []).append((method.upper(), path, operation))
    parts = [
        '<!doctype html><html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{escape(info['title'])}: reference</title><style>{_STYLE}</style></head><body>",
        '<a class="skip" href="#main">Skip to the reference</a>',
        f"<header><h1>{escape(info['title'])} {escape(info['version'])}</h1>{_text(info.get('description'))}",
        '<p>Keys go in the header <code>Authorization: Bearer KEY</code>. The same as JSON: <a href="/openapi.json">',
        "/openapi.json</a>.</p></header>",
        '<nav aria-label="Operations"><ul>',
    ]
    for entries in groups.values():
        for method, path, _ in entries:
            parts.append(f'<li><a href="#{_anchor(method, path)}"><code>{method} {escape(path)}</code></a></li>')
    parts.append('</ul></nav><main id="main">')
    for group, entries in groups.items():
        parts.append(f"<section><h2>{escape(group.capitalize())}</h2>")
        for method, path, operation in entries:
            parts += _operation(method, path, operation)
        parts.append("</section>")
    parts.append("<section><h2>Objects</h2>")
    for name, schema in document.get("components", {}).get("schemas", {}).items():
        parts.append(f'<article id="schema-{escape(name)}"><h3>{escape(name)}</h3>')
        parts += [_text(schema.get("description")), *_fields(schema), "</article>"]
    parts.append("</section></main></body></html>")
    return "".join(parts)


def _operation(method: str, path: str, operation: dict[str, Any]) -> Iterator[str]:
    role = operation.get("x-role", "open to all")
    yield f'<article id="{_anchor(method, path)}"><h3><code><span class="method">{method}</span>{escape(path)}</code> '
    yield f'<span class="role">{escape(role)}</span></h3>'
    yield f"<p><strong>{escape(operation.get('summary', ''))}</strong></p>{_text(operation.get('description'))}"
    if parameters := operation.get("parameters"):
        yield from _table(
            ("parameter", "in", "what it is", "meaning"),
            [
                (
                    _name(parameter["name"], bool(parameter.get("required"))),
                    escape(parameter["in"]),
                    _kind(parameter.get("schema", {})),
                    escape(parameter.get("description", "")),
                )
                for parameter in parameters
            ],
        )
    for media, content in operation.get("requestBody", {}).get("content", {}).items():
        yield f"<h4>Body <code>{escape(media)}</code></h4>"
        yield from _schema(content)
    for status, response in operation.get("responses", {}).items():
        yield f"<h4>Answer {escape(status)}: {escape(response.get('description', ''))}</h4>"
        for content in response.get("content", {}).values():
            yield from _schema(content)
    yield "</article>"


def _schema(content: dict[str, Any]) -> Iterator[str]:
    schema = content.get("schema", {})
    if "properties" in schema:
        yield from _fields(schema)
    elif schema:
        yield f"<p>{_kind(schema)}</p>"
    example = content.get("example", schema.get("example"))
    if example is not None:
        yield f"<pre>{escape(json.dumps(example, indent=2, ensure_ascii=False))}</pre>"


def _fields(schema: dict[str, Any]) -> Iterator[str]:
    needed = set(schema.get("required", ()))
    rows = [
        (_name(name, name in needed), _kind(field), escape(field.get("description", "")))
        for name, field in schema.get("properties", {}).items()
    ]
    if rows:
        yield from _table(("field", "what it is", "meaning"), rows)
    elif "properties" not in schema:
        yield f"<p>{_kind(schema)}</p>"


_LIMITS = {
    "minimum": "≥ ",
    "exclusiveMinimum": "> ",
    "maximum": "≤ ",
    "exclusiveMaximum": "< ",
    "minLength": "characters ≥ ",
    "maxLength": "characters ≤ ",
    "minItems": "entries ≥ ",
    "maxItems": "entries ≤ ",
    "pattern": "matches ",
    "default": "default ",
}


def _kind(schema: dict[str, Any]) -> str:
    """What a value is, with its limits: ``integer, ≥ 1, ≤ 1000, default 20``."""
    limits = "".join(
        f", {escape(words)}<code>{escape(_value(schema[key]))}</code>"
        for key, words in _LIMITS.items()
        if schema.get(key) is not None
    )
    return _type(schema) + limits


def _value(value: Any) -> str:
    whole = isinstance(value, float) and value.is_integer()  # FastAPI writes 1000.0 for a limit of 1000
    return json.dumps(int(value) if whole else value, ensure_ascii=False)


def _type(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        name = escape(schema["$ref"].rpartition("/")[2])
        return f'<a href="#schema-{name}">{name}</a>'
    if "enum" in schema or "const" in schema:
        values = schema.get("enum", [schema.get("const")])
        return " | ".join(f"<code>{escape(json.dumps(value))}</code>" for value in values)
    for several in ("anyOf", "oneOf", "allOf"):
        if several in schema:
            return " or ".join(_kind(each) for each in schema[several])
    kind = schema.get("type", "any value")
    if kind == "array":
        return f"list of {_kind(schema.get('items', {}))}"
    if kind == "object" and "properties" in schema:
        inner = ", ".join(f"<code>{escape(name)}</code>: {_kind(each)}" for name, each in schema["properties"].items())
        return f"object {{{inner}}}"
    return escape(kind if isinstance(kind, str) else " or ".join(kind))


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    yield '<div class="scroll" tabindex="0" role="region" aria-label="Table"><table><thead><tr>'
    yield "".join(f'<th scope="col">{title}</th>' for title in head) + "</tr></thead><tbody>"
    for row in rows:
        yield "<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>"
    yield "</tbody></table></div>"


def _name(name: str, needed: bool) -> str:
    return f"<code>{escape(name)}</code>" + (" (required)" if needed else "")


def _text(text: str | None) -> str:
    paragraphs = (part.strip() for part in (text or "").split("\n\n"))
    return "".join(f"<p>{escape(part)}</p>" for part in paragraphs if part)


def _anchor(method: str, path: str) -> str:
    return escape(f"{method.lower()}-{path.strip('/').replace('/', '-').replace('{', '').replace('}', '')}")
