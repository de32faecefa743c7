"""Which items are the best, with a given confidence: bounds under arrivals, adaptive sampling and late rewards."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import numpy.typing as npt
import pytest
from scipy.optimize import brentq
from scipy.special import betaln, gammaln, xlog1py, xlogy
from typer.testing import CliRunner

import hellinger
from hellinger.cli._app import app
from hellinger.client import AsyncClient, BestItemsAnswer, CountRow, NewItem
from hellinger.engine import best as engine_best
from hellinger.engine.allocation import Allocation
from hellinger.engine.best import SLACK, BestItems, BestQuestion, BestStanding
from hellinger.engine.state import HOUR
from hellinger.experiment import Split
from hellinger.identification.arriving import arriving_bounds, certainty, log_shares
from hellinger.ledger.looks import ZONES
from hellinger.pool import Pool
from hellinger.serve import sentences
from ledger_model import START, Log
from lives import Copy
from served import serving

Floats = npt.NDArray[np.float64]


def _martingale(s: float, n: float, weighted: bool) -> Callable[[float], float]:
    """The log of the mixture's likelihood ratio against a rate."""
    if weighted:
        return lambda q: n * q - float(xlogy(s, q)) + float(gammaln(1 + s)) - (1 + s) * math.log1p(n)
    return lambda q: float(betaln(1 + s, 1 + n - s) - xlogy(s, q) - xlog1py(n - s, -q))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("s", "n"), [(0, 50), (3, 40), (70, 1000), (900, 20_000)])
def test_bounds_are_where_the_martingale_reaches_its_level(s: int, n: int, weighted: bool) -> None:
    place, delta = 7, 0.1
    counts = np.array([float(s)]), np.array([float(s)]), np.array([float(n)])
    (low,), (high,) = arriving_bounds(*counts, places=np.array([place]), delta=delta, weighted=weighted)
    level = float(log_shares(np.array([place]), delta)[0])
    log_ratio = _martingale(s, n, weighted)
    if s:
        assert low == pytest.approx(brentq(lambda q: log_ratio(q) - level, 1e-12, s / n, xtol=1e-15), rel=1e-9)
    else:
        assert low == 0.0
    assert high == pytest.approx(brentq(lambda q: log_ratio(q) - level, s / n + 1e-12, 1 - 1e-12), rel=1e-9)


def test_shares_of_delta_do_not_exceed_it() -> None:
    places = np.arange(1, 1_000_001)
    spent = np.exp(-log_shares(places, 0.05)).sum()
    tail = 0.05 / 2.109742801236892 / math.log(1_000_001)  # ∫ 1/(k·log² k)
    assert spent + tail == pytest.approx(0.05, rel=1e-6)


@pytest.mark.parametrize("weighted", [False, True])
def test_bounds_rise_with_the_sum(weighted: bool) -> None:
    """So that rewards to come are allowed for by the most that they can be."""
    for n in (1.0, 7.0, 300.0):
        s = np.linspace(0.0, n, 50)
        places = np.full(s.size, 1000)
        lower, upper = arriving_bounds(s, s, np.full(s.size, n), places=places, delta=0.05, weighted=weighted)
        assert (np.diff(lower) >= -1e-12).all()
        assert (np.diff(upper) >= -1e-12).all()


@pytest.mark.parametrize("epsilon", [0.0, 0.07])
def test_certainty_is_what_it_says(epsilon: float) -> None:
    rng = np.random.default_rng(3)
    for _ in range(300):
        ends = np.sort(rng.integers(0, 12, (2, 8)) / 12.0, axis=0)
        lower, upper = ends
        wanted = int(rng.integers(1, 9))
        found = certainty(lower, upper, best=wanted, epsilon=epsilon)
        for i in range(8):
            others = np.delete(upper, i)
            assert found.certain[i] == ((others > lower[i] + epsilon).sum() < wanted)
            if found.excluded[i]:
                assert (np.delete(lower, i) > upper[i]).sum() >= wanted


class _Site:
    """Items that come one by one, shown by ``cold-start`` and at random; rewards come late, at positions worth less."""

    def __init__(self, seed: int, *, late: int = 0, worth: tuple[float, ...] = (1.0,)) -> None:
        self.rng = np.random.default_rng(seed)
        self.pool = Pool[int]("cold-start", seed=seed)
        self.means = self.rng.permutation(np.r_[[0.7, 0.65, 0.6], self.rng.beta(2.0, 20.0, 9)])
        self.late, self.worth = late, worth
        self.shown: list[tuple[int, float, float]] = []
        """Item, reward, and what the impression is worth."""

    def play(self, steps: int) -> None:
        for _ in range(steps):
            step = len(self.shown) // len(self.worth)
            if step % 40 == 0 and len(self.pool) < self.means.size:
                self.pool.add(len(self.pool))
            if step < 10 or self.rng.random() < 0.3:
                ids: list[int] = self.rng.integers(0, len(self.pool), len(self.worth)).tolist()
            else:
                ranked = [each.id for each in self.pool.rank(len(self.worth))]
                ids = (ranked * len(self.worth))[: len(self.worth)]  # while there are fewer items than places
            for item, worth in zip(ids, self.worth, strict=True):
                self.shown.append((item, float(self.rng.random() < self.means[item] * worth), worth))
                self.pool.record(item, impressions=1)
            for item, reward, _ in self.shown[: self.known][-len(self.worth) :]:
                self.pool.record(item, impressions=0, rewards=reward)

    @property
    def known(self) -> int:
        """Impressions whose reward is known."""
        return max(0, len(self.shown) - self.late)

    def bounds(self, delta: float, *, careful: bool = True) -> tuple[Floats, Floats]:
        there = len(self.pool)
        known, to_come, worth = np.zeros((3, there))
        for j, (item, reward, each) in enumerate(self.shown):
            worth[item] += each
            if j < self.known:
                known[item] += reward
            else:
                to_come[item] += 1.0
        most = known + (to_come if careful else 0)
        weighted = self.worth != (1.0,)
        return arriving_bounds(known, most, worth, places=np.arange(1, there + 1), delta=delta, weighted=weighted)


def _misses(runs: int, delta: float, **options: Any) -> tuple[int, int]:
    """Runs in which any mean is outside its bounds at any of 12 looks, and runs whose best 3 are found."""
    missed = found = 0
    for seed in range(runs):
        careful = options.get("careful", True)
        site = _Site(seed, **{name: value for name, value in options.items() if name != "careful"})
        wrong = False
        for _ in range(12):
            site.play(120)
            lower, upper = site.bounds(delta, careful=careful)
            means = site.means[: lower.size]
            wrong |= bool(((means < lower) | (means > upper)).any())
            certain = certainty(lower, upper, best=3).certain
            if not wrong:
                assert set(np.flatnonzero(certain)) <= set(np.argsort(-means)[:3].tolist())
        missed += wrong
        found += int(certain.sum() > 0)
    return missed, found


@pytest.mark.parametrize("worth", [(1.0,), (1.0, 0.6, 0.3)])
def test_bounds_hold_at_all_times_under_arrivals_and_cold_start(worth: tuple[float, ...]) -> None:
    missed, found = _misses(25, 0.5, worth=worth)
    assert missed <= 12
    assert found >= 5


def test_bounds_hold_while_rewards_are_on_their_way() -> None:
    """What is not known yet is allowed for; taken as no reward, upper bounds fail."""
    missed, _ = _misses(25, 0.5, late=600)
    assert missed <= 12
    blind, _ = _misses(25, 0.5, late=600, careful=False)
    assert blind > 20


# In the engine -------------------------------------------------------------------------------------------


def _begun(window: int = HOUR, **options: Any) -> tuple[Copy, BestItems]:
    """A copy in its first phase, with what says which items are the best."""
    copy = Copy(Log(), variants={"one": "cold-start"}, split=Split({"one": 1.0}), seed=1, window=window, **options)
    allocation = Allocation({"one": "cold-start"}, {"one": 1.0}, "random", window=window)
    copy.write([allocation.draft(START, after=0, by="test")])
    copy.flush()
    return copy, BestItems(lambda: copy.desk.ledger, window=window, at=START)


def _asked(finder: BestItems, at: int, *, best: int = 2, epsilon: float = 0.0) -> BestStanding:
    return asyncio.run(finder.find(BestQuestion(("one",), best, 0.05, epsilon), at))


@pytest.fixture
def always_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_best, "_FRESH", 0.0)


RATES = {"a": 0.6, "b": 0.3, "c": 0.05}


def _play(copy: Copy, rankings: int, at: int, seed: int = 1) -> None:
    """Show all items so many times, and give what they earn at once."""
    rng = np.random.default_rng(seed)
    for _ in range(rankings):
        ranking = copy.rank(3, at)
        copy.flush()
        for item in ranking.fields["items"]:
            if rng.random() < RATES[item]:
                copy.give(ranking.event.key, item, at=at)
    copy.flush()


@pytest.mark.usefixtures("always_anew")
def test_an_answer_waits_until_rewards_are_final() -> None:
    copy, finder = _begun()
    copy.add(*RATES)
    early = _asked(finder, START)
    assert (early.items, early.certain, early.impressions, early.unsettled) == (3, 0, 0.0, 0.0)
    _play(copy, 300, START)
    soon = _asked(finder, START + HOUR // 2)
    assert (soon.impressions, soon.unsettled, soon.certain) == (900.0, 900.0, 0)
    assert [row.high for row in soon.rows] == [1.0, 1.0]
    finder.rotate(START + HOUR // 2)
    restarted = BestItems(lambda: copy.desk.ledger, window=HOUR, at=START + HOUR // 2)
    # a mark is of use once all before it is final, or nearly: what waits is one impression of each item for a ranking
    assert _asked(restarted, START + HOUR // 2).unsettled == 900.0
    later = START + HOUR + HOUR // 24 + SLACK
    for each in (finder, restarted):
        found = _asked(each, later)
        assert (found.unsettled, found.certain, found.contending) == (0.0, 2, 0)
        assert [row.id for row in found.rows] == ["a", "b"]
    _play(copy, 5, later, seed=2)
    again = _asked(finder, later)
    assert again.unsettled == 15.0
    assert again.certain == 2


@pytest.mark.usefixtures("always_anew")
def test_only_items_that_may_be_shown_are_asked_about() -> None:
    copy, finder = _begun(window=1000)
    copy.add(*RATES)
    _play(copy, 300, START)
    later = START + 2000 + SLACK
    _asked(finder, START + 1000)  # a mark
    assert [row.id for row in _asked(finder, later, best=1).rows] == ["a"]
    copy.turn("a", "hidden")
    hidden = _asked(finder, later, best=1)
    assert [(row.id, row.certain) for row in hidden.rows] == [("b", True)]
    assert hidden.items == 2
    copy.turn("a", "shown")
    copy.turn("b", "deleted")
    copy.add("b")  # another item of the same name: nothing is known of it
    anew = _asked(finder, later, best=2)
    assert [(row.id, row.certain) for row in anew.rows] == [("a", True), ("c", False)]
    assert (anew.certain, anew.contending) == (1, 2)


@pytest.mark.usefixtures("always_anew")
def test_impressions_count_by_where_they_were() -> None:
    copy, finder = _begun(window=1000)
    copy.add(*RATES)
    _play(copy, 200, START)
    finder.rotate(START + 1000)
    question, later = BestQuestion(("one",), 1, 0.05), START + 3000 + SLACK
    lacks = np.full(len(ZONES) - 1, 0.5)
    plain = asyncio.run(finder.find(question, later))
    found = asyncio.run(finder.find(question, later, lacks=lacks))
    (even,), (row,) = plain.rows, found.rows
    behind = copy.desk.ledger.late_views(["one"])[0].sum(axis=1)[copy.desk.ledger.catalogue.slots[row.id]]
    assert (even.worth, row.impressions, row.worth) == (200.0, 200.0, 200.0 - 0.5 * behind)
    assert row.low < row.rewards / row.worth < row.high


@pytest.mark.usefixtures("always_anew")
def test_a_ledger_made_anew_begins_anew() -> None:
    copy, finder = _begun(window=1000)
    copy.add(*RATES)
    _play(copy, 100, START)
    _asked(finder, START + 1000)
    copy.start()
    found = _asked(finder, START + 3000 + SLACK)
    assert found.impressions == 300.0
    assert found.unsettled == 0.0


def test_an_answer_in_words() -> None:
    def said(
        items: int, certain: int, contending: int, best: int = 20, epsilon: float = 0.0, unsettled: int = 0
    ) -> str:
        found = BestStanding(items, certain, contending, 1000.0, unsettled, [])
        return sentences.best_items(found, BestQuestion(("one",), best, 0.05, epsilon))

    assert said(1234, 20, 0) == "These 20 are the best, of 1,234 items, with 95 % confidence."
    assert said(1234, 14, 31) == (
        "Not yet: 14 of 20 are certain to be among the best, with 95 % confidence; 6 places are open to 31 items."
    )
    assert said(1234, 1, 0, best=1) == "This item is the best, of 1,234 items, with 95 % confidence."
    assert said(1234, 0, 3, best=1) == "Not yet: the place is open to 3 items, with 95 % confidence."
    assert said(12, 12, 0) == "There is nothing to choose: 12 items for 20 places."
    assert "or at most 0.5 points below them" in said(1234, 25, 0, epsilon=0.005)
    assert "Up to 300 of 1,000 impressions may still be rewarded" in said(1234, 14, 31, unsettled=300)


# Over HTTP -----------------------------------------------------------------------------------------------


def test_the_best_over_http(tmp_path: Path, always_anew: None) -> None:
    variants = "plain = cold-start, personal = cold-start(model=logistic), hellinger-ucb"
    with serving(tmp_path, variants=variants) as service, hellinger.Client(service.url) as client:
        assert client.best_items().state == "few"
        client.add_items(NewItem(f"i{j}") for j in range(40))
        rows = [CountRow(f"i{j}", 5000, 500 if j < 2 else 100) for j in range(40)]
        client.import_counts("then", rows, variant="plain")
        open_ = client.best_items(k=2)
        assert (open_.state, open_.certain, open_.unsettled) == ("open", 0, 200_000)
        assert open_.sentence.startswith("Not yet: 0 of 2 are certain to be among the best, with 95 % confidence;")
        finder = service.app.state.live.best
        finder._marks = [finder._mark(0)]  # as some time later
        found = client.best_items(k=2, delta=0.01)
        assert isinstance(found, BestItemsAnswer)
        assert (found.state, found.done, found.certain, found.items) == ("found", True, 2, 40)
        assert found.sentence == "These 2 are the best, of 40 items, with 99 % confidence."
        assert {each.id for each in found.best} == {"i0", "i1"}
        first = found.best[0]
        assert first.certain
        assert first.rate == 0.1
        assert first.low < 0.1 < first.high
        assert any("its model shows each user what suits them" in note for note in found.notes)
        near = client.best_items(k=3, epsilon=0.05)
        assert near.state == "found"
        assert near.certain > 3
        assert client.best_items(k=2, variant="hellinger-ucb").certain == 0
        refused = client.best_items(k=2, variant="personal")
        assert (refused.state, refused.best) == ("refused", ())
        assert refused.sentence.startswith("No answer: Personal shows each user what suits them by a model")

        async def awaited() -> BestItemsAnswer:
            async with AsyncClient(service.url) as other:
                return await other.best_items(k=2, delta=0.01)

        assert asyncio.run(awaited()) == found
        told = CliRunner().invoke(app, ["experiment", "best", "-k", "2", "--delta", "0.01", "--url", service.url])
        assert told.exit_code == 0
        assert "certain" in told.output
        assert "These 2 are the best, of 40 items" in " ".join(told.output.split())
        at = f"{service.url}/v1/experiments"
        assert httpx.get(f"{at}/nobody/best").status_code == 404
        wrong = httpx.get(f"{at}/main/best", params={"variant": "nobody"})
        assert wrong.status_code == 422
        assert "`variant` must be one of" in wrong.json()["error"]["message"]
        for asked in ({"k": 0}, {"delta": 1}, {"epsilon": -1}):
            assert httpx.get(f"{at}/main/best", params=asked).status_code == 422
