"""Features of a person or an item as numbers: columns that are found as events come."""

from __future__ import annotations

import functools
import hashlib
import itertools
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from numbers import Real
from typing import Any, NamedTuple, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from hellinger.errors import InputError, require
from hellinger.models._waiting import Waited, Waiting
from hellinger.policies.effects import Named, column_key

__all__ = ["MOST_KEYS", "Encoder", "Features", "Opened", "Scaling", "check_features", "hashed"]

Features: TypeAlias = Mapping[str, float | str | Sequence[str] | None]
"""What is known of a person or an item: numbers, words, texts and lists of words, by key."""

MOST_KEYS = 1000
"""Of one description; a service takes no more than its setting ``max_features``, which is less."""
MOST_ENTRIES = 100
LONGEST_KEY, LONGEST_CATEGORY, LONGEST_TEXT = 100, 200, 10_000
_MOST_COLUMNS, _MOST_ENOUGH = 1024, 100
MOST_LEFT_OUT = 20
"""Names of features without a column that are remembered."""
_FAR = 4.0
"""Standard deviations beyond which a number says no more."""
_REACH = 8.0
"""Standard deviations beyond which a value counts no more for mean and spread."""
_CALMER = 0.95
"""What a value within the bound leaves of its widening: one in fourteen beyond it keeps it as wide as it is."""
_FEW, _LONGEST = 4, 1 << 16
"""Values that a block must have to stand alone; values of the longest block, and the most that count beside one."""

_WORD, _BLANK = re.compile(r"\w+"), re.compile(r"\s")


class Scaling(NamedTuple):
    """Mean and spread of a number, taken over from its values block by block: after 2, 4, 8, … of them.

    A value counts only as far as ``_REACH`` spreads from the mean, so that no single one can move either by much. Each
    value beyond that bound doubles it, and those within bring it back, so that a lasting change is followed. A block
    that lies within a small part of the spread so far shows that what came before was no measure, and stands alone.
    """

    values: int = 0
    mean: float = 0.0
    squares: float = 0.0
    """Mean and squared differences of the block's values so far."""
    bound: float = 1.0
    """How many times as far as usually a value of the block may lie."""
    weight: int = 0
    """Values that those in use are of."""
    used_mean: float = 0.0
    used_spread: float = 0.0

    @property
    def used(self) -> tuple[float, float]:
        """The mean and spread in use."""
        return self.used_mean, self.used_spread

    def after(self, value: float) -> Scaling:
        """The same with one value more."""
        count, bound = self.values + 1, self.bound
        begun = _block(self.values)
        if self.used_spread > 0.0:
            far = _REACH * self.used_spread * bound
            within = self.used_mean - far <= value <= self.used_mean + far
            value = min(max(value, self.used_mean - far), self.used_mean + far)
            bound = max(1.0, bound * _CALMER) if within else 2.0 * bound
        size = count - begun
        step = value - self.mean
        mean = self.mean + step / size
        squares = self.squares + step * (value - mean)
        if count < 2 or _block(count) != count:
            return self._replace(values=count, mean=mean, squares=squares, bound=bound)
        spread = math.sqrt(squares / size)
        weight = min(self.weight, _LONGEST)
        if not weight or (size >= _FEW and 0.0 < spread < self.used_spread / _REACH):
            return Scaling(count, weight=size, used_mean=mean, used_spread=spread)
        share = size / (weight + size)
        apart = mean - self.used_mean
        square = (1.0 - share) * self.used_spread**2 + share * spread**2 + share * (1.0 - share) * apart**2
        return Scaling(count, 0.0, 0.0, 1.0, weight + size, self.used_mean + share * apart, math.sqrt(square))

    def of(self, values: Any) -> Any:
        """Values in standard deviations from the mean; 0 while there is none."""
        if not self.used_spread > 0.0:
            return 0.0 * values
        if isinstance(values, float):  # the same, twenty times as fast
            return min(max((values - self.used_mean) / self.used_spread, -_FAR), _FAR)
        return np.clip((values - self.used_mean) / self.used_spread, -_FAR, _FAR)


def _block(count: int) -> int:
    """After how many values the block began that the next one belongs to."""
    if count >= _LONGEST:
        return count - count % _LONGEST
    return 0 if count < 2 else 1 << (count.bit_length() - 1)


class Opened(NamedTuple):
    """What has got columns now, and was met before: where, and how much of it there was."""

    kind: str
    key: str
    column: int
    waited: Waited


class Encoder:
    """Features as a vector; what it knows is a function of the features it was given to learn, in their order.

    A word is a category, with a column ``key=word`` of its own. A list of words is several of them, 1/√count each. A
    string with blanks is a text, whose words are hashed into a few columns, ``key#0``, ``key#1``, …. A number has one
    column, in standard deviations from the mean so far; ``True`` and ``False`` are words. What is missing, None, not
    finite, or has no column is no information: zeros.

    Parameters
    ----------
    columns
        The most columns; features that would need more are no information, and their names are in ``left_out``.
    words
        Columns for each key that has texts.
    enough
        In how many places, which :meth:`learn` is told, a feature must have been met before it gets columns. Until then
        it is known by a hash alone, of the last 4,096.
    at_once
        Columns that are given at the first meeting all the same.
    remembers
        Whether to remember how much of a feature there was where it waited: :meth:`learn` then gives that back.

    Examples
    --------
    >>> encoder = Encoder()
    >>> _ = encoder.learn([{"age": 30, "city": "Rome"}, {"age": 50, "city": "Oslo"}])
    >>> encoder.names
    ['age', 'city=Rome', 'city=Oslo']
    >>> encoder.encode({"age": 60, "city": "Oslo", "shoes": "red"}).tolist()
    [2.0, 0.0, 1.0]
    >>> encoder.encode({"age": None, "city": "Paris"}).tolist()
    [0.0, 0.0, 0.0]
    """

    def __init__(
        self, columns: int = 32, words: int = 8, *, enough: int = 1, at_once: int = 0, remembers: bool = False
    ) -> None:
        for name, number, least in (("columns", columns, 0), ("words", words, 1), ("at_once", at_once, 0)):
            whole = isinstance(number, (int, np.integer)) and not isinstance(number, bool)
            require(
                whole and least <= number <= _MOST_COLUMNS, f"{least} <= {name} <= {_MOST_COLUMNS}", **{name: number}
            )
        whole = isinstance(enough, int) and not isinstance(enough, bool)
        require(whole and 1 <= enough <= _MOST_ENOUGH, f"1 <= enough <= {_MOST_ENOUGH}", enough=enough)
        self.columns, self.words, self.at_once = int(columns), int(words), int(at_once)
        self.names: list[str] = []
        """What each column is."""
        self.scalings: dict[str, Scaling] = {}
        """Of each key with numbers that has a column."""
        self.epoch = 0
        """Rises whenever features may be encoded otherwise than before: by a new column or another scaling."""
        self.left_out: list[str] = []
        """What found no column, the first of it: keys of features that say nothing, ``city=…`` for words of a key."""
        self.learned = 0
        """How many features it has learned from."""
        self._waiting = Waiting(enough, remembers=remembers)
        self._place: dict[Named, int] = {}

    def __len__(self) -> int:
        return len(self.names)

    def __repr__(self) -> str:
        return f"Encoder(columns={self.columns}, words={self.words}, {len(self)} in use)"

    def learn(self, many: Iterable[Features], places: Iterable[int] | None = None) -> list[Opened]:
        """Give columns to what was met often enough, and let numbers enter their scaling; all or none.

        ``places`` are where each of these features is met, each a place of its own if not given. What gets columns now
        and waited in a place that is remembered is returned.
        """
        found = [self._found(features) for features in many]
        opened = []
        for features, place in zip(found, itertools.count(self.learned) if places is None else places, strict=False):
            for what, amounts in features.items():
                waited = self._open(what, place, amounts)
                if waited:
                    opened.append(Opened(what.kind, what.key, self._place[what], waited))
                if what.kind == "number" and waited is not None:
                    self._scale(what.key, [*(each[0] for _, each in waited if each), amounts[0]])
        self.learned += len(found)
        return opened

    def encode(self, features: Features) -> npt.NDArray[np.float64]:
        """These features as a vector of all columns. Changes nothing."""
        encoded: npt.NDArray[np.float64] = self.matrix([features])[0]
        return encoded

    def matrix(self, many: Sequence[Features]) -> npt.NDArray[np.float64]:
        """The vectors of several, one a row. Changes nothing."""
        out = np.zeros((len(many), len(self)))
        for row, features in zip(out, many, strict=True):
            for what, amounts in self._found(features).items():
                place = self._place.get(what)
                if place is None:
                    continue
                if what.kind == "number":
                    row[place] = self.scalings[what.key].of(amounts[0])
                elif what.kind == "text":
                    row[place : place + self.words] = amounts
                else:
                    row[place] = amounts[0]
        return out

    def numbers(self, features: Features) -> dict[str, float]:
        """The numbers among these features, as they are: what has to be encoded anew when a scaling changes."""
        return {part.key: part.value for part in _parts(features) if part.kind == "number"}

    def place(self, key: str) -> int:
        """The column of a key with numbers."""
        return self._place[Named("number", key, "")]

    def _found(self, features: Features) -> dict[Named, list[float]]:
        """What has columns of its own, and what these features have in them; of a number itself."""
        found: dict[Named, list[float]] = {}
        for part in _parts(features):
            if part.kind == "text":
                bucket, sign = _hashed(part.word, self.words)
                row = found.setdefault(Named("text", part.key, ""), [0.0] * self.words)
                row[bucket] += sign * part.value
            else:
                found[Named(part.kind, part.key, part.word)] = [part.value]
        return found

    def _scale(self, key: str, values: Iterable[float]) -> None:
        before = after = self.scalings.get(key, Scaling())
        for value in values:
            after = after.after(value)
        self.scalings[key] = after
        self.epoch += after.used != before.used

    def _open(self, what: Named, place: int, amounts: list[float]) -> Waited | None:
        """Where this waited until now; None if it has no columns: it was met too seldom, or there is no room."""
        if what in self._place:
            return []
        kind, key, word = what
        names = [f"{key}#{j}" for j in range(self.words)] if kind == "text" else [f"{key}={word}" if word else key]
        needed = len(self) + len(names)
        waited: Waited | None = []
        if needed > self.at_once:
            waited = self._waiting.meet(column_key(*what), place, amounts)
            if waited is None:
                return None
        if needed > self.columns:
            called = f"{key}=…" if word else key
            if len(self.left_out) < MOST_LEFT_OUT and called not in self.left_out:
                self.left_out.append(called)
            return None
        self._place[what] = len(self)
        self.names += names
        self.epoch += 1
        return waited

    def state(self) -> dict[str, Any]:
        """Everything, as JSON can hold it exactly; :meth:`from_state` makes it again."""
        return {
            "columns": self.columns,
            "words": self.words,
            "enough": self._waiting.enough,
            "at_once": self.at_once,
            "remembers": self._waiting.remembers,
            "names": list(self.names),
            "places": [[*what, place] for what, place in self._place.items()],
            "scalings": {key: list(scaling) for key, scaling in self.scalings.items()},
            "epoch": self.epoch,
            "left_out": list(self.left_out),
            "learned": self.learned,
            "waiting": self._waiting.state(),
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Return the encoder that gave this state."""
        try:
            more = {name: state[name] for name in ("enough", "at_once", "remembers")}
            made = cls(state["columns"], state["words"], **more)
            made.names = [str(name) for name in state["names"]]
            made._place = {Named(*what): int(place) for *what, place in state["places"]}
            made.scalings = {key: Scaling(*row) for key, row in state["scalings"].items()}
            made.epoch, made.learned = int(state["epoch"]), int(state["learned"])
            made.left_out = [str(name) for name in state["left_out"]]
            made._waiting.restore(state["waiting"])
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"an encoder's state must be what Encoder.state() gave, but got {error!r}") from None
        return made


def check_features(features: Any) -> None:
    """Raise where these cannot be features: the error states the rule and the value."""
    list(_parts(features))


def hashed(features: Any) -> tuple[list[int], list[float], list[Named]]:
    """The columns that features have, by number; how much of each; and what they are.

    Every word, of a text too, is a column of its own, and a number is as it is: for a prior's effects, which are fitted
    to all items at once and need no columns beforehand.

    >>> hashed({"genre": ["drama", "crime"], "length": 4.2})[1:]
    ([0.7..., 0.7..., 4.2], [Named(kind='category', key='genre', word='crime'), ...])
    """
    parts = list(_parts(features))
    names = [Named(part.kind, part.key, part.word) for part in parts]
    return [column_key(*name) for name in names], [part.value for part in parts], names


class _Part(NamedTuple):
    kind: str
    key: str
    word: str
    value: float


def _parts(features: Any) -> Iterable[_Part]:
    """What features say, part by part: a number, a category, or a word of a text with its weight."""
    if not isinstance(features, Mapping):
        raise InputError(f"`features` must be a dict, but got {features!r}")
    require(len(features) <= MOST_KEYS, f"features have at most {MOST_KEYS} keys", keys=len(features))
    for key, value in features.items():
        if not (isinstance(key, str) and 0 < len(key) <= LONGEST_KEY):
            raise InputError(f"a feature's key must be a string of 1 to {LONGEST_KEY} characters, but got {key!r:.120}")
        _check_text(key)
        if value is None:
            continue
        if isinstance(value, str):
            _check_text(value)
            yield from _words(key, value)
        elif isinstance(value, (bool, np.bool_)):
            yield _Part("category", key, str(bool(value)).lower(), 1.0)
        elif isinstance(value, (float, int, Real, np.number)):
            number = _float(key, value)
            if math.isfinite(number) and abs(number) < 1e100:
                yield _Part("number", key, "", number)
        elif isinstance(value, (Sequence, set, frozenset, np.ndarray)) and not isinstance(value, (bytes, bytearray)):
            entries = list(value)
            rule = f"a feature's list has at most {MOST_ENTRIES} entries"
            require(len(entries) <= MOST_ENTRIES, rule, key=key, entries=len(entries))
            for entry in entries:
                if not isinstance(entry, str):
                    raise InputError(f"a feature's list must have strings only, but {key!r} has {entry!r}")
                _check_text(entry)
            # a set has no order of its own
            distinct = sorted({entry.strip() for entry in entries} - {""})
            for entry in distinct:
                yield _Part("category", key, _short(key, entry), 1.0 / math.sqrt(len(distinct)))
        else:
            raise InputError(
                f"a feature must be a number, a string or a list of strings, but {key!r} is {value!r:.120}"
            )


def _check_text(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InputError(f"text in features must be valid Unicode, but got {text!r:.120}") from None


def _float(key: str, value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        got = f"a whole number of {value.bit_length()} bits" if isinstance(value, int) else f"{value!r:.120}"
        raise InputError(f"a feature's number must be one that a float can hold, but {key!r} is {got}") from None


def _words(key: str, text: str) -> Iterable[_Part]:
    if len(text) > LONGEST_TEXT:
        require(False, f"a feature's text has at most {LONGEST_TEXT} characters", key=key, has=len(text))
    stripped = text.strip()
    if not _BLANK.search(stripped):
        return (_Part("category", key, _short(key, stripped), 1.0),) if stripped else ()
    words = sorted(set(_WORD.findall(stripped.lower())))
    return [_Part("text", key, word, 1.0 / math.sqrt(len(words))) for word in words]


def _short(key: str, word: str) -> str:
    if len(word) > LONGEST_CATEGORY:
        require(False, f"a category has at most {LONGEST_CATEGORY} characters", key=key, has=len(word))
    return word


@functools.lru_cache(1 << 16)
def _hashed(word: str, buckets: int) -> tuple[int, float]:
    """A column and a sign for a word, the same in every process."""
    number = int.from_bytes(hashlib.blake2b(word.encode(), digest_size=8).digest(), "little")
    return (number >> 1) % buckets, 1.0 if number & 1 else -1.0
