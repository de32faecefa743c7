"""Feedback is read fast where it is plain, and by its model where it is not: both must say the same of any body."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from hellinger.engine.drafts import FeedbackRow
from hellinger.serve import models

names = st.one_of(
    st.sampled_from(["", "A" * 22, "x" * 64, "x" * 65, "a b", "ü", "a\n", "\x7f", "a/b"]),
    st.text(max_size=5),
    st.sampled_from([None, 1, 1.5, True, ["a"], {"a": 1}]),
)
items = st.one_of(names, st.sampled_from(["y" * 1024, "y" * 1025, "ö" * 1024]))
kinds = st.one_of(names, st.sampled_from(["click", "like", "k" * 32, "k" * 33, "9", "a.b-c_d", "click\n"]))
plain = st.fixed_dictionaries({"ranking_id": names, "item": items, "kind": kinds})
odd = st.dictionaries(
    st.sampled_from(["ranking_id", "item", "kind", "value", "at", "more"]),
    st.one_of(names, st.sampled_from([0.5, 1, -1, "2026-01-01T00:00:00Z", "2026-01-01"])),
)
good = st.fixed_dictionaries(
    {
        "ranking_id": st.just("A" * 22),
        "item": st.text("abcü /", min_size=1, max_size=5),
        "kind": st.sampled_from(["click", "like"]),
    }
)
bodies: st.SearchStrategy[Any] = st.one_of(
    st.fixed_dictionaries({"events": st.lists(st.one_of(good, good, good, plain, odd), max_size=4)}),
    st.fixed_dictionaries({"events": st.lists(good, max_size=4), "more": st.just(1)}),
    st.sampled_from([None, [], {}, {"events": None}, {"events": {}}, {"events": "abc"}, {"events": [["a", "b", "c"]]}]),
)


def what_comes_of(read: Callable[[bytes], list[FeedbackRow]], content: bytes) -> object:
    try:
        return read(content)
    except ValidationError as error:
        return [(each["type"], each["loc"], each["msg"]) for each in error.errors()]


@given(bodies)
def test_fast_and_slow_reading_say_the_same(body: Any) -> None:
    content = orjson.dumps(body)
    slow = what_comes_of(
        lambda each: models.feedback_rows_of(models.FeedbackBody.model_validate_json(each).events), content
    )
    assert what_comes_of(models.feedback_rows, content) == slow


def test_plain_feedback_does_not_pass_through_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models.FeedbackBody, "model_validate_json", None)
    content = orjson.dumps({"events": [{"ranking_id": "A" * 22, "item": "ü b", "kind": "like"}] * 2})
    assert models.feedback_rows(content) == [("A" * 22, "ü b", "like", 1.0, None)] * 2


@pytest.mark.parametrize("content", [b"", b"{", b'{"events":[{"ranking_id":"a","item":"b","kind":"c"}]} x', b"\xff"])
def test_what_is_no_json_is_refused(content: bytes) -> None:
    with pytest.raises(ValidationError):
        models.feedback_rows(content)
