"""What every filter of the laboratory must do. Each check takes a filter's class and raises ``AssertionError``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hellinger.lab.filtering import FILTERS, Filter, make_filter, require_filter
from hellinger.testing._suite import Floats, found_in, refused
from hellinger.world.contextual import ContextualProblem, Features
from hellinger.world.site import Site

__all__ = ["check_filter", "filter_checks"]

_PEOPLE, _PLACES, _ITEMS, _SLOTS = 12, 16, 20, 3


def check_filter(kind: type[Filter] | str) -> None:
    """Run the whole suite on a filter: one of the library's by its name, or a class of your own.

    >>> check_filter("pairwise")
    """
    chosen = FILTERS[kind] if isinstance(kind, str) else kind
    for check in filter_checks().values():
        check(chosen)


check_filter.suite = True  # type: ignore[attr-defined]


def filter_checks() -> dict[str, Callable[[type[Filter]], None]]:
    """Return every check by name."""
    return found_in(globals())


def _problem() -> ContextualProblem:
    """People of two kinds, of whom each likes one of two kinds of items; four more items are to come."""
    contexts: tuple[Features, ...] = tuple({"likes": ("art", "war")[i % 2], "age": 20.0 + i} for i in range(_PEOPLE))
    features: tuple[Features, ...] = tuple({"kind": ("art", "war")[j // 2 % 2], "length": j % 5} for j in range(_ITEMS))
    liked = np.array([[who["likes"] == what["kind"] for what in features] for who in contexts])
    site = Site(_PLACES, _SLOTS, segments=_PEOPLE, arrivals=4, day=10_000)
    return ContextualProblem("suite", site, contexts, features, np.where(liked, 0.9, 0.1), memory=2).check()


def _lived(kind: type[Filter], *, pages: int = 120, seed: int = 0, **arguments: Any) -> tuple[Filter, list[list[int]]]:
    """A filter after some pages, and what it showed; rewards do not depend on what it chooses."""
    problem = _problem()
    player, rng, shown = kind(problem, seed=seed, **arguments), np.random.default_rng(5), []
    for _ in range(pages):
        person = np.array([rng.integers(_PEOPLE)])
        luck = rng.random(_PLACES)
        (page,) = player.choose(_SLOTS, person)
        player.record(page, 1, (luck < problem.rates[person[0], :_PLACES])[page].astype(float), person)
        shown.append(page.tolist())
    return player, shown


def _scores(player: Filter) -> Floats:
    return np.array([player.scores(person, np.arange(_ITEMS)) for person in range(_PEOPLE)])


def check_name(kind: type[Filter]) -> None:
    """Its name makes it, and arguments that it does not take are refused."""
    assert FILTERS[kind.name] is kind
    require_filter(kind.name)
    assert type(make_filter(f"{kind.name}(explore=0.5, growth=2)", _problem(), 1)) is kind
    refused(lambda: require_filter(f"{kind.name}(nothing=1)"), kind.name, "nothing")
    refused(lambda: make_filter(f"{kind.name}(explore=2)", _problem(), 1), "0 <= explore <= 1", "2")
    refused(lambda: make_filter(f"{kind.name}(growth=0)", _problem(), 1), "0 < growth")


def check_pages(kind: type[Filter]) -> None:
    """A page has so many different places, all of them free, before the first fit and after it."""
    player, shown = _lived(kind)
    assert all(len(set(page)) == _SLOTS for page in shown), "the places of a page must differ"
    free = np.zeros(_PLACES, np.bool_)
    free[[2, 5, 7, 11]] = True
    for each in (kind(_problem(), seed=0), player):
        for slots in (1, 4):
            page = each.fill(0, slots, free)
            assert page.shape == (slots,), f"a page must have {slots} places, but has {page.tolist()}"
            assert free[page].all(), f"places must be free, but got {page.tolist()}"


def check_fits(kind: type[Filter]) -> None:
    """It is fitted as impressions grow, and not before there are some."""
    assert kind(_problem(), seed=0).fits == 0
    often, seldom = (_lived(kind, growth=growth)[0].fits for growth in (0.1, 1.0))
    assert often > seldom >= 1, f"fits must become rarer with growth, but are {often} and {seldom}"


def check_numbers(kind: type[Filter]) -> None:
    """Scores are numbers, of every person and item, seen or not, whatever was earned."""
    for reward in (0.0, 1.0):
        player = kind(_problem(), seed=0)
        player.learn(np.arange(_PLACES).repeat(2), np.full(2 * _PLACES, reward), np.zeros(2 * _PLACES, np.int64))
        scores = _scores(player)
        assert scores.shape == (_PEOPLE, _ITEMS)
        assert np.isfinite(scores).all(), f"scores must be numbers, but where all earn {reward:g} some are not"


def check_learning(kind: type[Filter]) -> None:
    """It comes to expect more of what a person likes, of items that it has not seen too."""
    player, _ = _lived(kind, explore=1.0, pages=400)
    scores, rates = _scores(player), player.problem.rates
    for part in (slice(0, _PLACES), slice(_PLACES, _ITEMS)):
        liked, other = (scores[:, part][rates[:, part] == rate].mean() for rate in (0.9, 0.1))
        assert liked > other, f"what people like must score higher, but {liked:.3g} <= {other:.3g} in {part}"


def check_function_of_events(kind: type[Filter]) -> None:
    """The same seed and events give the same pages; another seed others."""
    first, again, other = (_lived(kind, seed=seed)[1] for seed in (3, 3, 4))
    assert first == again, "the same events must give the same pages"
    assert first != other, "another seed must give other pages"


def check_exploration(kind: type[Filter]) -> None:
    """With explore = 1 pages are random, and without it they are the largest scores."""
    free = np.ones(_PLACES, np.bool_)
    greedy, _ = _lived(kind)
    scores = np.sort(greedy.scores(1, np.arange(_PLACES)))[::-1]
    page = greedy.fill(1, _SLOTS, free)
    np.testing.assert_array_equal(np.sort(greedy.scores(1, page))[::-1], scores[:_SLOTS])
    random, _ = _lived(kind, explore=1.0)
    pages = {tuple(random.fill(1, _SLOTS, free).tolist()) for _ in range(20)}
    assert len(pages) > 10, "with explore=1 pages must be random"


def check_arrivals(kind: type[Filter]) -> None:
    """An item that comes is judged as itself, not as the one whose place it takes."""
    player, _ = _lived(kind)
    places, items = np.array([0, 1]), np.array([_PLACES, _PLACES + 1])
    player.renew(places, items)
    only = np.zeros(_PLACES, np.bool_)
    only[places] = True
    (best,) = player.fill(2, 1, only)
    scores = player.scores(2, items)
    assert scores[best] == scores.max(), "a new item must be shown by its own score"
    player.learn(places, np.ones(2), np.array([2, 2]))
