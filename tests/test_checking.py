"""A running service is compared with the fold of its log, number by number: what is wrong is found, and named."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from hellinger.cli.log import _compared
from hellinger.client import Client
from hellinger.engine import checking
from hellinger.engine.checking import compare, portrait
from hellinger.engine.drafts import Query
from hellinger.engine.service import Service
from hellinger.engine.settings import Settings
from hellinger.store import StoreUnavailableError, open_store


async def parts(service: Service) -> list[dict[str, Any]]:
    """What the service says of itself, as it comes over the wire."""
    text = b"".join([piece async for piece in portrait(service)])
    return [json.loads(line) for line in text.splitlines()]


async def begun(path: Path) -> Service:
    variants = {"one": "cold-start", "two": "ucb1"}
    settings = Settings(database=f"sqlite:///{path}/log.db", variants=variants, seed=1, segment_enough=0)
    service = await Service.start(settings)
    items = [{"id": name, "tags": ["x"], "expires_at": None, "metadata": None} for name in "abcd"]
    await service.describe(items)
    for number in range(12):
        made = await service.rank(Query(2, segment="tablet" if number % 3 else None))
        await service.feedback([(made["ranking_id"], made["items"][0], "click", 1.0, None)])
    return service


def test_a_service_that_is_well(tmp_path: Path) -> None:
    async def story() -> None:
        service = await begun(tmp_path)
        try:
            told = await parts(service)
            assert {(part["pool"]["variant"], part["pool"]["segment"]) for part in told[1:]} == {
                ("one", ""),  # segments tell nothing yet
                ("two", ""),
                ("two", "tablet"),
            }
            assert list(compare(service.store, told)) == []
        finally:
            await service.stop()

    asyncio.run(story())


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("counts", "impressions of 'a' in variant 'one': "),
        ("rounds", "rounds in variant 'one'"),
        ("prior", "prior in variant 'one'"),
        ("item", "item 'b' in variant 'two' is in the log only"),
        ("hidden", "hidden of 'c' in variant 'two'"),
        ("totals", "totals of variant 'one'"),
        ("score", "scores of 'a' in variant 'two', segment 'tablet'"),
    ],
)
def test_what_is_wrong_is_named(what: str, said: str, tmp_path: Path) -> None:
    async def story() -> None:
        service = await begun(tmp_path)
        try:
            told = await parts(service)
            pool = {(p["pool"]["variant"], p["pool"]["segment"]): p["pool"] for p in told[1:]}
            if what == "counts":
                pool["one", ""]["impressions"][pool["one", ""]["items"].index("a")] += 1
            elif what == "rounds":
                pool["one", ""]["rounds"] += 1
            elif what == "prior":
                pool["one", ""]["prior"]["a"] = math.nextafter(pool["one", ""]["prior"]["a"], math.inf)
            elif what == "item":
                at = pool["two", ""]["items"].index("b")
                for column in ("items", "impressions", "rewards", "scores", "hidden", "tags"):
                    del pool["two", ""][column][at]
            elif what == "hidden":
                pool["two", ""]["hidden"][pool["two", ""]["items"].index("c")] = True
            elif what == "totals":
                told[0]["totals"]["one"][2] += 1
            else:
                own = pool["two", "tablet"]
                at = own["items"].index("a")
                own["scores"][at] = (own["scores"][at] or 1.0) * (1 + 1e-15)
            found = list(compare(service.store, told))
            assert any(sentence.startswith(said) for sentence in found), found
        finally:
            await service.stop()

    asyncio.run(story())


def test_rankings_that_the_log_does_not_have_yet(tmp_path: Path) -> None:
    """They count in the running service, which says so; the comparison counts them too."""

    async def story() -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("hellinger.engine.journal.RETRY", 0.02)
            service = await begun(tmp_path)

            def away(*_: Any) -> Any:
                raise StoreUnavailableError("away")

            patch.setattr(service.store, "append", away)
            try:
                for _ in range(4):
                    await service.rank(Query(3, segment="tablet"))
                told = await parts(service)
                assert len(told[1]["pending"]) == 4
                assert list(compare(service.store, told)) == []
            finally:
                patch.undo()
                await service.stop()

    asyncio.run(story())


def test_an_answer_is_read_to_its_end_before_it_is_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """To compare takes long, and the service ends an answer of which nothing is read for a minute."""
    happened: list[object] = []

    def state(_: Client) -> Iterator[dict[str, Any]]:
        yield from ({"part": number} for number in range(3))
        happened.append("read")

    def noted(_: object, parts: Iterable[Any], **__: object) -> Iterator[str]:
        happened.extend(parts)
        yield "something"

    monkeypatch.setattr(Client, "state", state)
    monkeypatch.setattr(checking, "compare", noted)
    with closing(open_store(f"sqlite:///{tmp_path}/log.db")) as store:
        assert _compared(store, "http://127.0.0.1:9", None, lambda *_: None) == ["something"]
    assert happened == ["read", {"part": 0}, {"part": 1}, {"part": 2}]
