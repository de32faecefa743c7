"""Large bodies are checked some entries at a time, and answered as if they had been checked at once."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import BaseModel

from hellinger.serve import bodies, models, shortcut
from serving_app import Api, running

ITEM = {"id": "a", "tags": ["x", "y"], "expires_at": "2030-01-31T12:00:00Z", "metadata": {"n": [1, 2.5, None, 2**63]}}
SEEN = {"ranking_id": "A" * 22, "item": "a"}
ROW = {"item": "a", "impressions": 3, "rewards": 1.5, "from": "2026-01-31T12:00:00", "to": None}
BODIES: dict[str, tuple[type[BaseModel], str, dict[str, Any], dict[str, Any]]] = {
    "/v1/items": (models.ItemsBody, "items", ITEM, {}),
    "/v1/feedback": (models.FeedbackBody, "events", SEEN | {"kind": "like", "value": 0.5}, {}),
    "/v1/impressions": (models.SeenBody, "events", SEEN, {}),
    "/v1/counts": (models.ImportBody, "rows", ROW, {"batch": "b", "segment": "s"}),
}
WRONG: dict[str, Any] = {
    "entry": {"no such field": 1},
    "no object": 7,
    "number too large": {"id": "a", "metadata": {"n": 2**70}},
    "not finite": {"id": "a", "metadata": {"n": float("nan")}},
}


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    with running(tmp_path_factory.mktemp("bodies"), variants=["ucb1"], max_batch=100) as started:
        yield started


@pytest.mark.parametrize("path", BODIES)
def test_a_body_is_checked_in_slices(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, name, entry, more = BODIES[path]
    entries = [entry | {"item" if "item" in entry else "id": f"x{number}"} for number in range(1037)]
    content = json.dumps({name: entries} | more).encode()
    sizes: list[int] = []
    check = model.model_validate

    def noted(given: Any) -> Any:
        sizes.append(len(given[name]))
        return check(given)

    monkeypatch.setattr(model, "model_validate", noted)

    async def story() -> tuple[BaseModel, int]:
        turns = 0

        async def others() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        task = asyncio.create_task(others())
        found = await bodies.read(model, name, content)
        task.cancel()
        return found, turns

    found, turns = asyncio.run(story())
    assert sizes == [bodies.ENTRIES] * 4 + [37]
    assert turns >= 5
    assert found == model.model_validate_json(content)


@pytest.mark.parametrize(
    "given", [[], 3, {}, {"items": 3}, {"items": []}, {"items": [ITEM] * 300} | dict.fromkeys(map(str, range(1001)))]
)
def test_what_is_no_such_body(given: object) -> None:
    with pytest.raises(ValueError, match="ItemsBody"):
        asyncio.run(bodies.read(models.ItemsBody, "items", json.dumps(given).encode()))


@pytest.mark.parametrize("path", BODIES)
@pytest.mark.parametrize("case", [*WRONG, "nothing", "a field more", "much", "very many fields", "one too many"])
def test_answers_do_not_depend_on_slices(api: Api, path: str, case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Answered by FastAPI's way alone, whole, and in slices."""
    _, name, entry, more = BODIES[path]
    entries: list[Any] = [entry] * (101 if case == "one too many" else 40)
    given = {name: entries} | more | ({"unknown": 1} if case == "a field more" else {})
    if case in WRONG:
        entries[33] = WRONG[case]
    if case == "much":
        entries[20] = entries[30] = {"id": 3, "tags": "x"}
        given |= {"more": 1, "batch": "", "segment": 7}
    if case == "very many fields":
        given |= dict.fromkeys(map(str, range(1001)), 1)
    content = json.dumps(given).encode()
    api.add("a")

    def answer(kind: str) -> tuple[int, Any]:
        found = api.send("POST", path, content=content, headers={"content-type": kind})
        told = found.json()
        told.get("error", {}).pop("trace_id", None)
        return found.status_code, told

    first = answer("application/vnd.api+json")  # which FastAPI takes for JSON as well
    first = answer("application/vnd.api+json")  # twice: a batch that is there already is answered otherwise
    assert answer("application/json") == first
    monkeypatch.setattr(shortcut, "LARGE", 0)
    monkeypatch.setattr(bodies, "ENTRIES", 7)
    assert answer("application/json") == first
    assert first[0] == {"nothing": 200, "one too many": 413}.get(case, 422)
