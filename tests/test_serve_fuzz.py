"""Whatever is sent: no answer of 500, and every answer as the OpenAPI document has it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis.checks import load_all_checks
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from hellinger.engine.settings import Settings
from hellinger.serve.app import create_app
from hellinger.serve.keys import Keys
from served import Served, serving

quick = settings(
    max_examples=25,
    deadline=None,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
POSTS = ["/v1/rank", "/v1/feedback", "/v1/impressions", "/v1/counts", "/v1/items"]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("fuzz"), random_share=0.3, graduate_after=20) as started:
        yield started


@pytest.fixture(scope="module")
def client(served: Served) -> Iterator[httpx.Client]:
    """A client, and something to be found."""
    with httpx.Client(base_url=served.url, timeout=60) as client:
        client.post("/v1/items", json={"items": [{"id": name, "tags": ["t"]} for name in ("a", "0", "b/c")]})
        client.post("/v1/rank", json={"k": 2})
        yield client


def document() -> dict[str, Any]:
    return create_app(Settings(), Keys()).app.openapi()


load_all_checks()
schema = schemathesis.openapi.from_dict(document())
CHECKS = [
    schemathesis.checks.not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]


@schema.exclude(path="/v1/stream").parametrize()
@quick
def test_answers_are_as_the_document_has_them(
    case: schemathesis.Case[Any], client: httpx.Client, served: Served
) -> None:
    response = case.call(base_url=served.url, timeout=60)
    case.validate_response(response, checks=CHECKS)


def harmless(response: httpx.Response) -> None:
    """It is refused, or accepted, in the shape that everything has."""
    assert response.status_code < 500, response.text
    if response.status_code >= 400:
        assert set(response.json()["error"]) == {"code", "message", "trace_id"}


JSON_TYPE = {"content-type": "application/json"}


@pytest.mark.parametrize("path", POSTS)
@quick
@given(body=st.binary(max_size=200))
def test_any_bytes(client: httpx.Client, path: str, body: bytes) -> None:
    harmless(client.post(path, content=body, headers=JSON_TYPE))
    harmless(client.post(path, content=body))


numbers = st.one_of(st.floats(), st.integers(), st.integers(min_value=2**63), st.sampled_from([1e308, -0.0, 1 << 4000]))
text = st.text(st.characters(), max_size=20)  # lone surrogates and NUL among them
anything = st.recursive(
    st.one_of(st.none(), st.booleans(), numbers, text),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(text, inner, max_size=3)),
    max_leaves=8,
)
FIELDS: dict[str, dict[str, Any]] = {
    "/v1/rank": {"k": 2, "user": "u", "segment": "s", "exclude": ["a"], "tags": ["t"], "among": ["a"]},
    "/v1/feedback": {"ranking_id": "A" * 22, "item": "a", "kind": "click", "value": 1.0, "at": "2026-01-01T00:00:00Z"},
    "/v1/impressions": {"ranking_id": "A" * 22, "item": "a"},
    "/v1/counts": {"item": "a", "impressions": 5, "rewards": 1, "from": "2026-01-01", "to": "2026-01-01T00:00:00Z"},
    "/v1/items": {"id": "n", "tags": ["t"], "expires_at": "2100-01-01T00:00:00Z", "metadata": {}},
}


def wrapped(path: str, fields: dict[str, Any]) -> Any:
    """A whole body around one entry."""
    names = {"/v1/feedback": "events", "/v1/impressions": "events", "/v1/counts": "rows", "/v1/items": "items"}
    body = {names[path]: [fields]} if path in names else fields
    return body | {"batch": "b"} if path == "/v1/counts" else body


@pytest.mark.parametrize("path", POSTS)
@quick
@given(data=st.data())
def test_one_field_that_is_anything(client: httpx.Client, path: str, data: st.DataObject) -> None:
    import json

    fields = dict(FIELDS[path])
    name = data.draw(st.sampled_from([*fields, "unheard of"]))
    fields[name] = data.draw(anything)
    body = json.dumps(wrapped(path, fields))  # NaN, Infinity and "\ud800" as this module writes them
    harmless(client.post(path, content=body.encode("utf-8", "surrogatepass"), headers=JSON_TYPE))


@pytest.mark.parametrize("path", POSTS)
@pytest.mark.parametrize("depth", [100, 1000, 100_000])
def test_deep_nesting(client: httpx.Client, path: str, depth: int) -> None:
    for opening, closing in (("[", "]"), ('{"a":', "}")):
        body = opening * depth + "1" + closing * depth
        harmless(client.post(path, content=body.encode(), headers=JSON_TYPE))
    nested = "[" * depth + "]" * depth
    harmless(
        client.post(
            "/v1/items", content=f'{{"items":[{{"id":"x","metadata":{{"a":{nested}}}}}]}}'.encode(), headers=JSON_TYPE
        )
    )


@pytest.mark.parametrize(
    "path", ["/v1/items/%00", "/v1/items/%ff%fe", "/v1/items/%0a/hide", "/v1/items/" + "x" * 5000, "/%2e%2e/%2e%2e"]
)
def test_odd_paths(client: httpx.Client, path: str) -> None:
    for method in ("GET", "DELETE", "POST"):
        harmless(client.request(method, path))


def test_still_well(client: httpx.Client, served: Served) -> None:
    """After all that, rankings are made, and what was counted is what the log says."""
    from hellinger.ledger.recovery import differences, recover

    assert client.get("/health/ready").json()["status"] == "ready"
    assert client.post("/v1/rank", json={"k": 1}).status_code == 200
    assert client.get("/v1/experiments/main").status_code == 200
    assert differences(served.service.desk.ledger, recover(served.service.store)) == []
