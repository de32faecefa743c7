"""Groups of items in the service: what some achieve tells of others, those that have left included."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

import hellinger
from hellinger.client import CountRow, NewItem
from hellinger.engine.drafts import Draft
from hellinger.engine.pools import Pools
from hellinger.engine.state import HOUR
from hellinger.experiment import Split
from hellinger.ledger.snapshot import decode, encode
from hellinger.policies import Prior
from hellinger.policies.segments import SegmentLaw
from hellinger.serve import groups
from ledger_model import START, Log
from lives import Copy, same_as_rebuilt
from served import serving

GOOD, BAD = ["news", "good"], ["news", "bad"]


def grouped(**options: Any) -> Copy:
    """A copy whose stories differ, far more than the headlines of one story do."""
    copy = Copy(Log(), variants={"one": "cold-start"}, split=Split({"one": 1.0}), seed=1, **options)
    rng, rows = np.random.default_rng(5), []
    for story in range(40):
        rate = rng.beta(2.0, 30.0)
        names = [f"s{story}-{number}" for number in range(4)]
        copy.add(*names, group=["news", f"story-{story}"])
        rows += [(name, 400, float(rng.binomial(400, rate))) for name in names]
    for group, clicks in ((GOOD, 120.0), (BAD, 2.0)):
        names = [f"{group[1]}-{number}" for number in range(3)]
        copy.add(*names, group=group, expires_at=START + HOUR)
        rows += [(name, 400, clicks) for name in names]
    copy.bring(rows)
    copy.chores(START)
    assert copy.desk.ledger.priors["one", ""][1]["prior"]["shares"]
    return copy


def index(copy: Copy, *names: str) -> list[float]:
    slots = [copy.desk.ledger.catalogue.slots[name] for name in names]
    return list(map(float, copy.desk.pools.of("one").scores(slots)))


def test_a_new_item_ranks_by_what_its_group_has_shown() -> None:
    copy = grouped()
    copy.add("new-good", group=GOOD)
    copy.add("new-bad", group=BAD)
    copy.add("new")
    good, bad, alone = index(copy, "new-good", "new-bad", "new")
    assert good > alone > bad
    assert good > 2 * bad
    same_as_rebuilt(copy, START)
    copy.add("new-good", group=BAD)
    copy.add("new", group=BAD)
    assert index(copy, "new-good", "new") == [index(copy, "new-bad")[0]] * 2
    same_as_rebuilt(copy, START)


def test_items_that_have_left_go_on_telling_of_their_group() -> None:
    """Expired, forgotten, returned: what they achieved counts, until no item of the group is left."""
    copy = grouped(forget_after=2 * HOUR)
    copy.add("new-good", group=GOOD)
    copy.add("new-bad", group=BAD)
    before = index(copy, "new-good", "new-bad")
    copy.chores(START + HOUR)
    assert "good-0" in copy.desk.ledger.catalogue.slots
    assert index(copy, "new-good", "new-bad") == pytest.approx(before, rel=0.02)  # there are fewer items than before
    same_as_rebuilt(copy, START + HOUR)
    copy.add("good-1", at=START + HOUR, group=GOOD)  # it comes back
    assert index(copy, "new-good", "new-bad") == pytest.approx(before, rel=0.02)  # there are fewer items than before
    copy.add("good-2", at=START + HOUR, group=BAD, expires_at=START + HOUR - 1)  # it belonged to others all the time
    good, better = index(copy, "new-good", "new-bad")
    assert better > 1.5 * before[1]
    same_as_rebuilt(copy, START + HOUR)
    copy.chores(START + 3 * HOUR)
    ledger = copy.desk.ledger
    assert "good-0" not in ledger.catalogue.slots
    assert ledger.departed.items == {tuple(GOOD): 1, tuple(BAD): 4}
    assert index(copy, "new-good", "new-bad") == pytest.approx([good, better], rel=0.02)
    same_as_rebuilt(copy, START + 3 * HOUR)
    again = decode(encode(ledger))
    assert again.departed.as_json() == ledger.departed.as_json()
    for name in ("new-good", "good-1", "new-bad"):
        copy.turn(name, "deleted")
    assert not ledger.departed.items
    same_as_rebuilt(copy, START + 3 * HOUR)
    copy.add("newest", at=START + 3 * HOUR, group=GOOD)
    assert index(copy, "newest")[0] < before[0]
    same_as_rebuilt(copy, START + 3 * HOUR)


def test_a_prior_is_fitted_to_items_that_have_left_too() -> None:
    """The same counts give the same prior, whoever is still there."""
    fits = []
    for late in (False, True):
        copy = grouped()
        copy.add("new-good", group=GOOD)
        if late:
            copy.chores(START + HOUR)
        copy.bring([(f"s{story}-0", 100, 5.0) for story in range(40)])
        copy.chores(START + HOUR // 2)
        fits.append(copy.desk.ledger.priors["one", ""][1]["prior"])
        same_as_rebuilt(copy, START + HOUR)
    assert fits[0]["shares"] == pytest.approx(fits[1]["shares"], rel=0.2)


def test_ten_thousand_items_that_change_their_group_are_looked_up_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    copy = Copy(Log(), variants={"one": "cold-start"}, split=Split({"one": 1.0}), seed=1, enough=0)
    names = [f"i{number}" for number in range(3000)]
    copy.add(*names, group=["a"])
    segments = [f"s{number}" for number in range(4)]
    for segment in segments:
        copy.rank(2, segment=segment)
    law = SegmentLaw(0.05, 40.0, 0.5, tuple((segment, 0.0) for segment in segments))
    fields = {"variant": "one", "segment": "", "after": 0, "rounds": 8.0, "prior": Prior().state()}
    fields |= {"segments": law.state(), "writer": "test"}
    copy.write([Draft.of("prior/one//0", "prior", START, fields)])
    copy.flush()
    copy.desk.pools.finish()
    sizes: list[int] = []
    place = Pools._place

    def noting(self: Pools, variant: str, segment: str, slots: Any, described: set[int]) -> None:
        sizes.append(slots.size)
        place(self, variant, segment, slots, described)

    monkeypatch.setattr(Pools, "_place", noting)
    items = [{"id": name, "tags": [], "expires_at": None, "metadata": None, "group": ["b"]} for name in names]
    copy.write(copy.desk.describe(items, START))
    copy.flush()
    assert sizes == []
    for _ in copy.desk.pools.catch_up():
        pass
    assert max(sizes) <= 500
    assert sum(sizes) == 5 * 3000
    assert copy.desk.pools.of("one").stats(0).group == ("b",)


def test_what_groups_tell_over_http(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups, "_FRESH", 0.0)
    variants = "plain = cold-start, personal = cold-start(model=logistic), hellinger-ucb"
    with serving(tmp_path, variants=variants) as service, hellinger.Client(service.url) as client:
        assert client.learned_groups() == ()
        client.add_items(NewItem(f"i{j}", group=("news", f"story-{j // 4}")) for j in range(80))
        (none,) = client.learned_groups()
        assert (none.variant, none.shares, none.groups) == ("plain", (), ())
        assert none.sentence == "Groups do not tell click rates apart so far: each item is ranked as if it had none."
        clicks = [CountRow(f"i{j}", 500, 50 if j // 4 == 3 else 5) for j in range(80)]
        client.import_counts("then", clicks, variant="plain")
        while not (learned := client.learned_groups())[0].groups:
            time.sleep(0.2)
        (plain,) = learned
        assert plain.sentence.startswith("Of what makes click rates differ, ")
        best = plain.groups[0]
        assert (best.group, best.items, best.impressions) == (("news", "story-3"), 4, 2000)
        assert 1 < best.low < best.effect < best.high
        assert len(plain.groups) == 20
        told = httpx.get(f"{service.url}/v1/experiments/main/groups").json()["variants"][0]
        assert [level["groups"] for level in told["levels"]] == [1, 20][: len(told["levels"])]
        assert httpx.get(f"{service.url}/v1/experiments/nobody/groups").status_code == 404


def test_shares_in_words() -> None:
    assert groups._sentence([0.78], False) == (
        "Of what makes click rates differ, 78 % lies between groups, and 22 % between the items of one."
    )
    assert groups._sentence([0.1, 0.5], False) == (
        "Of what makes click rates differ, 10 % lies between groups, 50 % lies between the groups within these, "
        "and 40 % between the items of one."
    )
    assert "50 % lies between sets of tags" in groups._sentence([0.5], True)


def test_items_that_were_never_shown_tell_nothing_of_their_group() -> None:
    """Not while they are there, nor when they have left, nor when they are forgotten."""
    found = []
    for unseen in (0, 30):
        copy = grouped(forget_after=2 * HOUR)
        copy.add("new-good", group=GOOD)
        copy.add(*[f"unseen-{n}" for n in range(unseen)], group=GOOD, expires_at=START + 1)
        values = []
        for at in (START + 2, START + HOUR, START + 4 * HOUR):
            copy.chores(at)
            values += index(copy, "new-good")
            same_as_rebuilt(copy, at)
        assert "unseen-0" not in copy.desk.ledger.catalogue.slots
        found.append(values)
    assert found[0] == found[1]
