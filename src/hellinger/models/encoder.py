"""Features of a person or an item as numbers: columns that are found as events come."""

from __future__ import annotations

import functools
import hashlib
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from numbers import Real
from typing import Any, NamedTuple, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from hellinger.errors import InputError, require
from hellinger.policies.effects import Named, column_key

__all__ = ["Encoder", "Features", "Scaling", "check_features", "hashed"]

Features: TypeAlias = Mapping[str, float | str | Sequence[str] | None]
"""What is known of a person or an item: numbers, words, texts and lists of words, by key."""

MOST_KEYS = 64
MOST_ENTRIES = 100
LONGEST_KEY, LONGEST_CATEGORY, LONGEST_TEXT = 100, 200, 10_000
_MOST_COLUMNS = 1024
MOST_LEFT_OUT = 20
"""Names of features without a column that are remembered."""
_FAR = 4.0
"""Standard deviations beyond which a number says no more."""

_WORD, _BLANK = re.compile(r"\w+"), re.compile(r"\s")


class Scaling(NamedTuple):
    """Mean and spread of a number so far, and those in use: they are taken over at counts 2, 4, 8, … of values."""

    values: int = 0
    mean: float = 0.0
    squares: float = 0.0
    used_mean: float = 0.0
    used_spread: float = 0.0

    def after(self, value: float) -> Scaling:
        """The same with one value more."""
        count = self.values + 1
        step = value - self.mean
        mean = self.mean + step / count
        squares = self.squares + step * (value - mean)
        if count > 1 and count & (count - 1) == 0:
            return Scaling(count, mean, squares, mean, math.sqrt(squares / count))
        return Scaling(count, mean, squares, self.used_mean, self.used_spread)

    def of(self, values: Any) -> Any:
        """Values in standard deviations from the mean; 0 while there is none."""
        if not self.used_spread > 0.0:
            return 0.0 * values
        if isinstance(values, float):  # the same, twenty times as fast
            return min(max((values - self.used_mean) / self.used_spread, -_FAR), _FAR)
        return np.clip((values - self.used_mean) / self.used_spread, -_FAR, _FAR)


class Encoder:
    """Features as a vector; what it knows is a function of the features it was given to learn, in their order.

    A word is a category, with a column ``key=word`` of its own from the first time it is learned. A list of words is
    several of them, 1/√count each. A string with blanks is a text, whose words are hashed into a few columns,
    ``key#0``, ``key#1``, …. A number has one column, in standard deviations from the mean so far; ``True`` and
    ``False`` are words. What is missing, None, not finite, or was never learned is no information: zeros.

    Parameters
    ----------
    columns
        The most columns; features that would need more are no information, and their names are in ``left_out``.
    words
        Columns for each key that has texts.

    Examples
    --------
    >>> encoder = Encoder()
    >>> encoder.learn([{"age": 30, "city": "Rome"}, {"age": 50, "city": "Oslo"}])
    >>> encoder.names
    ['age', 'city=Rome', 'city=Oslo']
    >>> encoder.encode({"age": 60, "city": "Oslo", "shoes": "red"}).tolist()
    [2.0, 0.0, 1.0]
    >>> encoder.encode({"age": None, "city": "Paris"}).tolist()
    [0.0, 0.0, 0.0]
    """

    def __init__(self, columns: int = 32, words: int = 8) -> None:
        whole = all(isinstance(each, (int, np.integer)) and not isinstance(each, bool) for each in (columns, words))
        require(whole and 0 <= columns <= _MOST_COLUMNS, f"0 <= columns <= {_MOST_COLUMNS}", columns=columns)
        require(whole and 1 <= words <= _MOST_COLUMNS, f"1 <= words <= {_MOST_COLUMNS}", words=words)
        self.columns, self.words = int(columns), int(words)
        self.names: list[str] = []
        """What each column is."""
        self.scalings: dict[str, Scaling] = {}
        """Of each key with numbers that has a column."""
        self.epoch = 0
        """Rises whenever features may be encoded otherwise than before: by a new column or another scaling."""
        self.left_out: list[str] = []
        """What found no column, the first of it: keys of features that say nothing, ``city=…`` for words of a key."""
        self._place: dict[tuple[str, str | None], int] = {}

    def __len__(self) -> int:
        return len(self.names)

    def __repr__(self) -> str:
        return f"Encoder(columns={self.columns}, words={self.words}, {len(self)} in use)"

    def learn(self, many: Iterable[Features]) -> None:
        """Give columns to what is new, and let numbers enter their scaling; all or none."""
        found = [list(_parts(features)) for features in many]
        for part in (part for parts in found for part in parts):
            if part.kind == "number":
                self._learn_number(part.key, part.value)
            elif part.kind == "text":
                self._open((part.key, None), [f"{part.key}#{j}" for j in range(self.words)], part.key)
            else:
                self._open((part.key, part.word), [f"{part.key}={part.word}"], f"{part.key}=…")

    def encode(self, features: Features) -> npt.NDArray[np.float64]:
        """These features as a vector of all columns. Changes nothing."""
        encoded: npt.NDArray[np.float64] = self.matrix([features])[0]
        return encoded

    def matrix(self, many: Sequence[Features]) -> npt.NDArray[np.float64]:
        """The vectors of several, one a row. Changes nothing."""
        out = np.zeros((len(many), len(self)))
        for row, features in zip(out, many, strict=True):
            for part in _parts(features):
                if part.kind == "number":
                    scaling = self.scalings.get(part.key)
                    if scaling is not None:
                        row[self._place["", part.key]] = scaling.of(part.value)
                elif part.kind == "text":
                    place = self._place.get((part.key, None))
                    if place is not None:
                        bucket, sign = _hashed(part.word, self.words)
                        row[place + bucket] += sign * part.value
                else:
                    place = self._place.get((part.key, part.word))
                    if place is not None:
                        row[place] = part.value
        return out

    def numbers(self, features: Features) -> dict[str, float]:
        """The numbers among these features, as they are: what has to be encoded anew when a scaling changes."""
        return {part.key: part.value for part in _parts(features) if part.kind == "number"}

    def place(self, key: str) -> int:
        """The column of a key with numbers."""
        return self._place["", key]

    def _learn_number(self, key: str, value: float) -> None:
        if self._open(("", key), [key], key):
            before = self.scalings.get(key, Scaling())
            after = self.scalings[key] = before.after(value)
            self.epoch += after[3:] != before[3:]

    def _open(self, what: tuple[str, str | None], names: list[str], called: str) -> bool:
        """Whether this has columns, new ones if there is room."""
        if what in self._place:
            return True
        if len(self) + len(names) > self.columns:
            if len(self.left_out) < MOST_LEFT_OUT and called not in self.left_out:
                self.left_out.append(called)
            return False
        self._place[what] = len(self)
        self.names += names
        self.epoch += 1
        return True

    def state(self) -> dict[str, Any]:
        """Everything, as JSON can hold it exactly; :meth:`from_state` makes it again."""
        return {
            "columns": self.columns,
            "words": self.words,
            "names": list(self.names),
            "places": [[*what, place] for what, place in self._place.items()],
            "scalings": {key: list(scaling) for key, scaling in self.scalings.items()},
            "epoch": self.epoch,
            "left_out": list(self.left_out),
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Return the encoder that gave this state."""
        try:
            made = cls(state["columns"], state["words"])
            made.names = [str(name) for name in state["names"]]
            made._place = {(key, word): int(place) for key, word, place in state["places"]}
            made.scalings = {key: Scaling(int(row[0]), *map(float, row[1:])) for key, row in state["scalings"].items()}
            made.epoch = int(state["epoch"])
            made.left_out = [str(name) for name in state.get("left_out", ())]  # an older state has none
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
        if value is None:
            continue
        if isinstance(value, str):
            yield from _words(key, value)
        elif isinstance(value, (bool, np.bool_)):
            yield _Part("category", key, str(bool(value)).lower(), 1.0)
        elif isinstance(value, (float, int, Real, np.number)):
            number = float(value)
            if math.isfinite(number) and abs(number) < 1e100:
                yield _Part("number", key, "", number)
        elif isinstance(value, (Sequence, set, frozenset, np.ndarray)) and not isinstance(value, (bytes, bytearray)):
            entries = list(value)
            rule = f"a feature's list has at most {MOST_ENTRIES} entries"
            require(len(entries) <= MOST_ENTRIES, rule, key=key, entries=len(entries))
            for entry in entries:
                if not isinstance(entry, str):
                    raise InputError(f"a feature's list must have strings only, but {key!r} has {entry!r}")
            # a set has no order of its own
            distinct = sorted({entry.strip() for entry in entries} - {""})
            for entry in distinct:
                yield _Part("category", key, _short(key, entry), 1.0 / math.sqrt(len(distinct)))
        else:
            raise InputError(
                f"a feature must be a number, a string or a list of strings, but {key!r} is {value!r:.120}"
            )


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
