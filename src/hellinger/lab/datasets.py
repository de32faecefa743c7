"""Contextual problems by name: made up from a spec, or read from public data that you have on disk.

A problem is written as a policy is, ``name(key=value, …)``. A function here under ``@problem`` is one; its arguments
are the keys.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from hellinger._spec import parse_spec
from hellinger.errors import InputError, UnknownNameError, needs_extra, require
from hellinger.world.contextual import ContextualProblem, Features
from hellinger.world.laws import SHRINK
from hellinger.world.site import Site

__all__ = ["PROBLEMS", "load_problem"]

Floats = npt.NDArray[np.float64]

PROBLEMS: dict[str, Callable[..., ContextualProblem]] = {}
"""Every problem by its name."""

_GAUGE = np.array([5, 7, 8, 13, 15, 16, 17, 18, 19, 20]) - 1
"""The jokes that Jester shows everybody first."""
_AGES = ("under-20", "20-30", "30-40", "40-50", "over-50")
_PLACES = ("rural", "suburban", "urban")
_TOPICS = ("news", "sport", "music", "film", "food", "travel", "games", "science")


def problem(function: Callable[..., ContextualProblem]) -> Callable[..., ContextualProblem]:
    """Make a function a problem of its name."""
    PROBLEMS[function.__name__] = function
    return function


@lru_cache(maxsize=8)
def load_problem(spec: str, data: str | Path | None = None) -> ContextualProblem:
    """Make the problem that a spec names.

    Parameters
    ----------
    spec
        ``synthetic``, ``unequal``, ``jester``, ``coat`` or ``upworthy``, with arguments in parentheses.
    data
        The folder that has the folders ``jester``, ``coat`` and ``upworthy``; ``data`` if not given.

    Examples
    --------
    >>> made = load_problem("synthetic(items=200, people=50)")
    >>> made.rates.shape, sorted(made.contexts[0])
    ((50, 200), ['age', 'gender', 'interest', 'place'])
    """
    name, arguments = parse_spec(spec)
    if name not in PROBLEMS:
        raise UnknownNameError("problem", name, list(PROBLEMS))
    function = PROBLEMS[name]
    known = inspect.signature(function).parameters
    takes = [each for each in known if each != "folder"]
    for key, value in arguments.items():
        require(key in takes, f"{name} takes {', '.join(takes)}", argument=key)
        fits = (int, float) if known[key].annotation == "float" else int
        rule = f"{key} is a {'number' if fits is not int else 'whole number'}"
        require(isinstance(value, fits) and not isinstance(value, bool), rule, **{key: value})
    if len(takes) == len(known):
        require(data is None, "data stands with a problem that is read from files", problem=spec, data=data)
        made = function(**arguments)
    else:
        made = _read(function, Path("data" if data is None else data) / name, arguments)
    return made._replace(name=spec).check()


def _read(function: Callable[..., ContextualProblem], folder: Path, arguments: dict[str, Any]) -> ContextualProblem:
    try:
        return function(folder=folder, **arguments)
    except (FileNotFoundError, NotADirectoryError) as error:
        where = (function.__doc__ or "").partition("Data: ")[2].partition("\n")[0]
        raise InputError(f"there must be the file {error.filename}, but there is none; get it from {where}") from None
    except InputError:
        raise
    except (ValueError, OSError) as error:
        raise InputError(f"{folder} must hold the data, but: {error}") from None


@problem
def synthetic(
    *,
    items: int = 1000,
    people: int = 1000,
    slots: int = 10,
    memory: int = 40,
    base: float = -3.0,
    bias: float = 1.0,
    cross: float = 0.4,
    taste: float = 0.4,
    seed: int = 0,
) -> ContextualProblem:
    """People and items with features, made up.

    The log-odds of a click are ``base`` + the item's own (deviation ``bias``) + a sum over pairs of what the person is
    and what the item is (each pair's effect has deviation ``cross``) + what no feature tells, a product of two hidden
    numbers of person and item (deviation ``taste``). Rates do not change.
    """
    require(items >= 1 and people >= 1, "1 <= items and 1 <= people", items=items, people=people)
    for name, value in (("bias", bias), ("cross", cross), ("taste", taste)):
        require(0 <= value < np.inf, f"0 <= {name}", **{name: value})
    rng = np.random.default_rng([seed, 0x636F6E])
    gender, age, place = (rng.integers(n, size=people) for n in (2, len(_AGES), len(_PLACES)))
    interest = rng.uniform(-1.0, 1.0, people).round(2)
    topic, length = rng.integers(len(_TOPICS), size=items), rng.uniform(-1.0, 1.0, items).round(2)
    persons = np.column_stack([_one_hot(gender, 2), _one_hot(age, len(_AGES)), _one_hot(place, 3), interest])
    things = np.column_stack([_one_hot(topic, len(_TOPICS)), length])
    effects = rng.normal(0.0, cross, (persons.shape[1], things.shape[1]))
    odds = base + rng.normal(0.0, bias, items) + persons @ effects @ things.T
    odds += taste * np.outer(rng.normal(size=people), rng.normal(size=items))
    contexts: list[Features] = [
        {"gender": "FM"[g], "age": _AGES[a], "place": _PLACES[p], "interest": float(x)}
        for g, a, p, x in zip(gender, age, place, interest, strict=True)
    ]
    features: list[Features] = [{"topic": _TOPICS[t], "length": float(x)} for t, x in zip(topic, length, strict=True)]
    return ContextualProblem(
        "synthetic",
        Site(items, slots, segments=people),
        tuple(contexts),
        tuple(features),
        1.0 / (1.0 + np.exp(-odds)),
        tuple(_TOPICS[t] for t in topic),
        min(memory, max(0, items - slots)),
    )


@problem
def unequal(
    *, items: int = 1000, people: int = 1000, slots: int = 10, base: float = -4.0, seed: int = 0
) -> ContextualProblem:
    """Made up too, of items that differ very much and people that differ little; nothing is shown twice to a person.

    ``synthetic`` with ``bias=1.5``, ``cross=0.3``, ``taste=0`` and a memory of all items: to find the few good items
    is what matters, and one may be shown to a person once.
    """
    return synthetic(
        items=items, people=people, slots=slots, memory=items, base=base, bias=1.5, cross=0.3, taste=0.0, seed=seed
    )


def _one_hot(values: npt.NDArray[np.int64], size: int) -> Floats:
    return np.eye(size)[values]


def _numbers(path: Path, delimiter: str | None = None) -> Floats:
    with path.open(encoding="utf-8") as file:
        return np.loadtxt(file, delimiter=delimiter, ndmin=2)


@problem
def jester(*, folder: Path, above: float = 5.0, slots: int = 5, memory: int = 40) -> ContextualProblem:
    """Jokes that people rated from −10 to 10, all of them: nothing is made up.

    The context is a person's ratings of the ten jokes that Jester shows first, a fifth of each; the items are the other
    jokes, their features the text. A joke rated higher than ``above`` is rewarded, whenever it is shown.

    Data: eigentaste.berkeley.edu/dataset, as ratings.csv (a row for each who rated all) and jokes.txt (a line a joke)
    """
    ratings = _numbers(folder / "ratings.csv", ",")
    texts = (folder / "jokes.txt").read_text(encoding="utf-8").splitlines()
    require(ratings.shape[1] == len(texts), "there is a text for each joke", jokes=ratings.shape[1], texts=len(texts))
    others = np.setdiff1d(np.arange(len(texts)), _GAUGE)
    return ContextualProblem(
        "jester",
        Site(others.size, slots, segments=len(ratings)),
        tuple({f"joke {j + 1}": float(row[j]) / 5.0 for j in _GAUGE} for row in ratings),
        tuple({"text": texts[j]} for j in others),
        (ratings[:, others] > above).astype(np.float64),
        memory=memory,
    )


@problem
def coat(*, folder: Path, least: int = 4, slots: int = 4, memory: int = 20) -> ContextualProblem:
    """Coats that people rated from 1 to 5, some of them: a person is only shown coats that they rated.

    Each person rated 24 coats of their own choice and 16 random ones. A coat rated ``least`` or better is rewarded,
    whenever it is shown; a coat that the person never rated is not shown to them, since nobody knows. So all rewards
    are real, and no model of the ratings favours a policy that is made like it; but the choice is among 40 coats or a
    few less.
    Features are what the data have: gender, age, place and interest in fashion of people; gender, type, colour and
    front page of coats.

    Data: www.cs.cornell.edu/~schnabts/mnar (the Coat Shopping dataset: *.ascii and *_features_map.txt)
    """
    chosen, given = (_numbers(folder / f"{name}.ascii") for name in ("train", "test"))
    ratings = np.where(given > 0, given, chosen)  # a few coats were rated twice: the random one counts
    return ContextualProblem(
        "coat",
        Site(ratings.shape[1], slots, segments=len(ratings)),
        _mapped(folder, "user"),
        _mapped(folder, "item"),
        np.where(ratings > 0, ratings >= least, np.nan),
        memory=memory,
    )


def _mapped(folder: Path, whose: str) -> tuple[Features, ...]:
    """Binary columns as words: ``age:over 60`` is the feature ``age``, and the word is ``over-60``."""
    names = (folder / f"{whose}_features_map.txt").read_text(encoding="utf-8").split("\n")
    columns = [name.replace(" ", "-").partition(":")[::2] for name in names if name]
    table = _numbers(folder / f"{whose}_features.ascii")
    require(table.shape[1] == len(columns), "each column has a name", columns=table.shape[1], names=len(columns))
    return tuple({columns[j][0]: columns[j][1] for j in np.flatnonzero(row).tolist()} for row in table)


@problem
def upworthy(
    *, folder: Path, items: int = 500, arrivals: int = 100, impressions: int = 30, slots: int = 4
) -> ContextualProblem:
    """Headlines as they came, week by week; several are of one story.

    ``items`` headlines are there at a time. After ``impressions`` for each of them, on average, the oldest ``arrivals``
    have left and as many have come, so that a headline gets about that many while it is there. A headline's rate is
    what the archive's random test found, from some 3,000 impressions; its group is the story, its feature the text.
    Nothing is known of the people.

    Data: osf.io/jd64p, as early.parquet with the columns week, story, headline, impressions, clicks
    """
    with needs_extra("lab"):
        import polars as pl
    file = folder / "early.parquet"
    if not file.is_file():
        raise FileNotFoundError(2, "no such file", str(file))
    try:
        frame = pl.read_parquet(file, columns=["week", "story", "headline", "impressions", "clicks"])
    except pl.exceptions.PolarsError as error:
        raise InputError(f"{file} must have the columns of the archive, but: {error}") from None
    frame = frame.sort("week", maintain_order=True)
    n, s = frame["impressions"].to_numpy().astype(np.float64), frame["clicks"].to_numpy().astype(np.float64)
    rates = (s + SHRINK * s.sum() / n.sum()) / (n + SHRINK)
    return ContextualProblem(
        "upworthy",
        Site(items, slots, arrivals=arrivals, day=arrivals * impressions),
        ({},),
        tuple({"text": text} for text in frame["headline"].to_list()),
        rates[None],
        tuple(f"story-{story}" for story in frame["story"].to_list()),
    )
