"""After any sequence of operations the ranking is that of a full sort."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from hellinger import Pool
from pool_model import Content, Model

GROUPED = ["hellinger-ucb", "kl-ucb", "ucb1", "hellinger-ucb++(anytime=true)", "kl-ucb+", "moss-anytime", "cold-start"]
SCANNED = ["thompson", "ada-ucb(anytime=true)", "imed"]
NAMES = [*range(12), *"abcdefgh"]
TAGS = ["x", "y"]


class Comparison(RuleBasedStateMachine):
    spec: str
    ties: str

    def __init__(self) -> None:
        super().__init__()
        self.pool = Pool(self.spec, seed=3, ties=self.ties)  # type: ignore[arg-type]
        self.model = Model()

    def present(self, data: st.DataObject) -> int | str:
        return data.draw(st.sampled_from(list(self.model.contents)))

    @initialize(strings=st.booleans())
    def start(self, strings: bool) -> None:
        self.names = NAMES if strings else [name for name in NAMES if isinstance(name, int)]

    @rule(data=st.data(), tags=st.sets(st.sampled_from(TAGS)))
    def add(self, data: st.DataObject, tags: set[str]) -> None:
        free = [name for name in self.names if name not in self.model.contents]
        if free:
            new = data.draw(st.lists(st.sampled_from(free), min_size=1, unique=True))
            self.pool.add(new, tags=tags)
            self.model.contents |= {name: Content(tags=frozenset(tags)) for name in new}

    @rule(data=st.data(), n=st.integers(0, 300), share=st.floats(0, 1))
    def load(self, data: st.DataObject, n: int, share: float) -> None:
        free = [name for name in self.names if name not in self.model.contents]
        if free:
            name = data.draw(st.sampled_from(free))
            s = int(share * n)
            self.pool.add([name], [n], [s])
            self.model.contents[name] = Content(n, s)
            self.model.rounds += n

    @rule(data=st.data(), dn=st.sampled_from([0, 1, 1, 2, 100]), share=st.sampled_from([0, 0, 0.5, 1]))
    def record(self, data: st.DataObject, dn: int, share: float) -> None:
        if self.model.contents:
            name = self.present(data)
            ds = share * dn if share == 0.5 else int(share * dn)  # graded rewards too
            self.pool.record(name, impressions=dn, rewards=ds)
            content = self.model.contents[name]
            content.n, content.s = content.n + dn, content.s + ds
            self.model.rounds += dn

    @rule(data=st.data())
    def record_many(self, data: st.DataObject) -> None:
        if self.model.contents:
            names = data.draw(st.lists(st.sampled_from(list(self.model.contents)), max_size=6))
            n = [1 + i % 2 for i in range(len(names))]
            s = [i % 2 for i in range(len(names))]
            self.pool.record_many(names, n, s)
            for name, dn, ds in zip(names, n, s, strict=True):
                content = self.model.contents[name]
                content.n, content.s = content.n + dn, content.s + ds
                self.model.rounds += dn

    @rule(data=st.data(), hidden=st.booleans())
    def hide(self, data: st.DataObject, hidden: bool) -> None:
        if self.model.contents:
            name = self.present(data)
            (self.pool.hide if hidden else self.pool.unhide)([name])
            self.model.contents[name].hidden = hidden

    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        if self.model.contents:
            gone = data.draw(st.sets(st.sampled_from(list(self.model.contents)), max_size=3))
            self.pool.remove(gone)
            for name in gone:
                del self.model.contents[name]

    @rule(k=st.integers(1, 8), count=st.booleans())
    def serve(self, k: int, count: bool) -> None:
        index = self.model.index(self.pool)
        ranked = self.pool.serve(k, count=count)
        self.model.check(self.pool, ranked, k, index)
        for content in ranked if count else []:
            self.model.contents[content.id].n += 1
            self.model.rounds += 1

    @rule(
        k=st.integers(1, 8),
        exclude=st.sets(st.sampled_from(NAMES)),
        tags=st.none() | st.sets(st.sampled_from(TAGS)),
        data=st.data(),
    )
    def rank(self, k: int, exclude: set[int | str], tags: set[str] | None, data: st.DataObject) -> None:
        names = list(self.model.contents)
        among = data.draw(st.none() | st.lists(st.sampled_from(names))) if names else None
        ranked = self.pool.rank(k, exclude=exclude, tags=tags, among=among)
        assert ranked == self.pool.rank(k, exclude=exclude, tags=tags, among=among)
        index = self.model.index(self.pool)
        self.model.check(self.pool, ranked, k, index, exclude=exclude, tags=tags, among=among)

    @invariant()
    def same_contents(self) -> None:
        assert len(self.pool) == len(self.model.contents)
        assert self.pool.rounds == self.model.rounds
        assert self.pool.ids == list(self.model.contents)
        shown = {name for name, content in self.model.contents.items() if not content.hidden}
        assert self.pool.eligible == len(shown)
        assert {name for name in NAMES if self.pool.offers(name)} == shown


@pytest.mark.parametrize("ties", ["random", "oldest"])
@pytest.mark.parametrize("spec", GROUPED + SCANNED)
def test_any_sequence_of_operations(spec: str, ties: str) -> None:
    machine = type("Case", (Comparison,), {"spec": spec, "ties": ties})
    few = settings(max_examples=12, stateful_step_count=25, deadline=None, database=None)
    run_state_machine_as_test(machine, settings=settings(few, suppress_health_check=list(HealthCheck)))


@pytest.mark.parametrize("spec", GROUPED)
def test_many_contents_with_large_counts(spec: str) -> None:
    rng = np.random.default_rng(5)
    n = np.floor(10 ** rng.uniform(0, 12, 3000))
    s = np.floor(n * rng.beta(1, 20, 3000))
    n[:500], s[:500] = 1000, rng.integers(0, 40, 500)  # crowds with equal counts
    pool = Pool(spec, seed=1, ties="oldest")
    pool.add(range(3000), n, s)
    ranked = pool.rank(3000)
    model = Model({i: Content(a, b) for i, (a, b) in enumerate(zip(n, s, strict=True))}, float(n.sum()))
    model.check(pool, ranked, 3000, model.index(pool))
    assert pool.explain().startswith("grouped")


@pytest.mark.parametrize("ties", ["random", "oldest"])
@pytest.mark.parametrize("crowd", [1, 2000])
def test_skipping_thousands_of_cells_or_equals(ties: str, crowd: int) -> None:
    """A ranking that must pass over far more than it gives out, in cells of one or in one of many."""
    rng = np.random.default_rng(9)
    n = rng.permutation(4000).astype(float) // crowd
    s = np.zeros(4000)
    pool = Pool("ucb1", seed=1, ties=ties)  # type: ignore[arg-type]
    pool.add(range(4000), n, s)
    model = Model({i: Content(a) for i, a in enumerate(n)}, float(n.sum()))
    seen = [content.id for content in pool.rank(3000)]
    for _ in range(2):
        model.check(pool, pool.rank(3, exclude=seen), 3, model.index(pool), exclude=set(seen))


def test_ties_are_broken_uniformly() -> None:
    """Contents of equal index, in one cell and in several, come first equally often."""
    first = np.zeros(6)
    pool = Pool("hellinger-ucb", seed=8)
    pool.add(range(6), [0, 0, 0, 1, 2, 1], [0, 0, 0, 1, 2, 1])  # all have the index 1
    pool.add([6], [1000], [0])
    pairs = set()
    for _ in range(3000):
        a, b = pool.serve(2, count=False)
        assert a.score == b.score == 1.0
        first[int(a.id)] += 1
        pairs.add((a.id, b.id))
    assert len(pairs) == 30
    chi2 = float(((first - 500) ** 2 / 500).sum())
    assert chi2 < 20.5  # 99.9 % of five degrees of freedom
