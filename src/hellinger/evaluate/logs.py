"""Logs as files: our export (Parquet, JSON lines, CSV) and Open Bandit's CSV, read part by part."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from hellinger.errors import InputError, needs_extra, require
from hellinger.evaluate.evaluator import SLACK

__all__ = ["LogFile", "LogPart", "Survey", "VariantColumns", "read_items", "survey"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

_ROWS = 250_000
"""Rows that are in memory at once."""
_OURS = {"ranking_id": "ranking", "at": "at", "item": "item", "position": "position", "reward": "reward"}
_OPEN_BANDIT = {"timestamp": "at", "item_id": "item", "position": "position", "click": "reward"}
_FORMS = ".parquet (an export), .jsonl (an export) or .csv (Open Bandit, or an export's columns)"


class VariantColumns(NamedTuple):
    """A variant that shared the traffic, row by row."""

    share: Floats
    """Of the traffic; 0 where it had none."""
    chance: Floats
    """With which it would have shown the row's item there; NaN where it is not known, or had no traffic."""
    own: npt.NDArray[np.bool_]
    """Whether the row is of a ranking of its own."""


class LogPart(NamedTuple):
    """Some whole rankings. The rows of a ranking are next to each other."""

    first: Ints
    """The first row of each ranking."""
    at: Ints
    """When each ranking was made, in milliseconds since 1970."""
    item: Ints
    """A number for each row's item: its place in the log's ``names``."""
    position: Ints
    reward: Floats
    propensity: Floats
    """NaN where it is not known."""
    drawn: npt.NDArray[np.bool_]
    """Whether the row's ranking was drawn at random."""
    explored: npt.NDArray[np.bool_]
    """Whether the row's place was given to one of the items that follow."""
    variants: dict[str, VariantColumns]
    """Of a log gone through again: the variants that shared the traffic."""

    @property
    def sizes(self) -> Ints:
        """Rows of each ranking."""
        return np.diff(self.first, append=self.item.size)

    @property
    def ranking(self) -> Ints:
        """The number of each row's ranking."""
        return np.repeat(np.arange(self.first.size), self.sizes)

    def cut(self, begin: int, end: int) -> LogPart:
        """The rankings from one number to before another."""
        last = int(self.first[end]) if end < self.first.size else self.item.size
        rows = slice(int(self.first[begin]), last)
        first = self.first[begin:end]
        columns = self.item[rows], self.position[rows], self.reward[rows], self.propensity[rows], self.drawn[rows]
        variants = {
            name: VariantColumns(found.share[rows], found.chance[rows], found.own[rows])
            for name, found in self.variants.items()
        }
        return LogPart(first - first[0], self.at[begin:end], *columns, self.explored[rows], variants)


class LogFile:
    r"""A log on disk.

    Parameters
    ----------
    path
        The file; its name's ending says what it is.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "log.csv")
    ...     _ = path.write_text("item_id,position,click,propensity_score\n5,1,0,0.5\n7,2,1,0.25\n")
    ...     log = LogFile(path)
    ...     rankings = sum(part.first.size for part in log.parts())
    >>> log.kind, log.names, rankings
    ('Open Bandit', ['5', '7'], 2)
    """

    def __init__(self, path: str | Path) -> None:
        with needs_extra("lab"):
            import polars as pl
        self.path = Path(path)
        if not self.path.is_file():
            raise InputError(f"the log must be a file, {_FORMS}, but there is no file {str(path)!r}")
        self._frame = _scanned(self.path)
        try:
            schema = self._frame.collect_schema()
        except (pl.exceptions.PolarsError, OSError) as error:
            raise InputError(f"{str(path)!r} cannot be read: {str(error).splitlines()[0]}") from None
        columns = set(schema.names())
        self.kind = "Open Bandit" if "propensity_score" in columns else "export"
        wanted = {"item_id", "position", "click"} if self.kind == "Open Bandit" else set(_OURS) - {"at"}
        if missing := wanted - columns:
            raise InputError(
                f"a log must have the columns {', '.join(sorted(wanted))}, but {str(path)!r} lacks "
                f"{', '.join(sorted(missing))}"
            )
        self._columns = columns
        self._dated = schema.get("timestamp") if self.kind == "Open Bandit" else schema.get("at")
        listed = isinstance(schema.get("variants"), pl.List)  # JSON lines without any are of no type
        self.retraced = self.kind == "export" and listed and "variant" in columns
        """Whether the log was gone through again for the chances of every variant."""
        self.whole = self.kind == "Open Bandit" or "eligible" in columns
        """Whether propensities are over the order of ties, as later versions of the service have them."""
        self.names: list[str] = []
        """Items, in the order in which they first come."""
        self._codes: dict[str, int] = {}

    def parts(self) -> Iterator[LogPart]:
        """Rankings in the order of the file, some at a time."""
        import polars as pl

        left: Any = None
        before = 0
        heads: list[npt.NDArray[np.uint64]] = []
        try:
            for frame in self._selected().collect_batches(chunk_size=_ROWS, maintain_order=True):
                whole = frame if left is None else pl.concat([left, frame])
                # the last ranking may go on in the next part
                last = whole["ranking"].ne_missing(whole["ranking"][-1]).to_numpy().nonzero()[0]
                cut = int(last[-1]) + 1 if last.size else 0
                left = whole.slice(cut)
                if cut:
                    part = self._part(whole.slice(0, cut), before)
                    heads.append(self._heads(whole, part))
                    before += cut
                    yield part
        except pl.exceptions.PolarsError as error:
            raise InputError(f"{str(self.path)!r} cannot be read: {str(error).splitlines()[0]}") from None
        if left is not None and len(left):
            part = self._part(left, before)
            heads.append(self._heads(left, part))
            yield part
        self._require_adjacent(heads)

    def _heads(self, frame: Any, part: LogPart) -> npt.NDArray[np.uint64]:
        """A hash of each ranking's name; of Open Bandit none, where a row is a ranking."""
        first = part.first if self.kind == "export" else part.first[:0]
        return np.asarray(frame["ranking"].gather(first).hash().to_numpy(), np.uint64)

    def _require_adjacent(self, heads: list[npt.NDArray[np.uint64]]) -> None:
        """Each ranking begins once."""
        import polars as pl

        begun = np.concatenate(heads) if heads else np.zeros(0, np.uint64)
        known, first = np.unique(begun, return_index=True)
        if known.size < begun.size:
            back = begun[np.setdiff1d(np.arange(begun.size), first)[0]]
            names = self._selected().select("ranking").filter(pl.col("ranking").hash() == back)
            name = names.head(1).collect()["ranking"][0]
            require(False, "rows of a ranking are next to each other", ranking_that_returns=name)

    def _selected(self) -> Any:
        """The columns that are used, under one set of names."""
        import polars as pl

        names = _OPEN_BANDIT if self.kind == "Open Bandit" else _OURS
        chosen = [pl.col(old).alias(new) for old, new in names.items() if old in self._columns and new != "at"]
        propensity = "propensity_score" if self.kind == "Open Bandit" else "propensity"
        chance: Any = pl.lit(None, pl.Float64)
        if propensity in self._columns:
            chance = pl.col(propensity).cast(pl.Float64)
        if self.retraced and "balanced" in self._columns:  # over the split of the traffic
            chance = pl.coalesce(pl.col("balanced").cast(pl.Float64), chance)
            chosen += [pl.col("variants"), pl.col("variant")]
        chosen.append(chance.alias("propensity"))
        for old, new in (("random", "drawn"), ("explored", "explored")):
            chosen.append((pl.col(old) if old in self._columns else pl.lit(False)).alias(new))
        chosen.append(self._time())
        frame = self._frame.select(chosen)
        if self.kind == "Open Bandit":  # a row is an impression of its own
            frame = frame.with_row_index("ranking")
        return frame.with_columns(pl.col("item").cast(pl.String), pl.col("reward").cast(pl.Float64))

    def _time(self) -> Any:
        import polars as pl

        column = pl.col("timestamp" if self.kind == "Open Bandit" else "at")
        if self._dated is None:
            return pl.lit(0, pl.Int64).alias("at")
        if self._dated == pl.String:
            column = column.str.to_datetime(time_zone="UTC", strict=False).dt.epoch("ms")
        elif self._dated.is_temporal():
            column = column.dt.epoch("ms")
        return column.cast(pl.Int64).fill_null(0).alias("at")

    def _part(self, frame: Any, before: int) -> LogPart:
        """Rows of whole rankings, with so many rows before; errors count rows from 1."""
        import polars as pl

        for column in ("ranking", "item", "position", "reward"):
            missing = frame[column].is_null()
            require(not missing.any(), f"every row has its {column}", row=before + 1 + int(missing.arg_max() or 0))
        position = frame["position"].cast(pl.Int64).to_numpy()
        propensity = frame["propensity"].fill_null(float("nan")).to_numpy()
        chances = np.isnan(propensity) | (propensity > 0.0) & (propensity <= 1.0 + SLACK)
        for name, values, right, rule in (
            ("position", position, position >= 1, "positions begin with 1"),
            ("propensity", propensity, chances, "0 < propensity <= 1"),
        ):
            row = int(np.argmin(right))
            require(bool(right[row]), rule, **{name: values[row].item()}, row=before + 1 + row)

        new = (frame["ranking"] != frame["ranking"].shift(1)).fill_null(True).to_numpy()
        first = np.flatnonzero(new)
        unique = frame.select(pl.col("item").unique(maintain_order=True))
        for name in unique["item"].to_list():
            if name not in self._codes:
                self._codes[name] = len(self.names)
                self.names.append(name)
        codes = unique.with_columns(code=pl.Series([self._codes[name] for name in unique["item"]], dtype=pl.Int64))
        items = frame.select("item").join(codes, on="item", how="left", maintain_order="left")["code"].to_numpy()
        return LogPart(
            first,
            frame["at"].to_numpy()[first],
            items.astype(np.int64),
            position,
            frame["reward"].to_numpy(),
            propensity,
            frame["drawn"].fill_null(False).to_numpy(),
            frame["explored"].fill_null(False).to_numpy(),
            _variants(frame) if self.retraced else {},
        )


def _variants(frame: Any) -> dict[str, VariantColumns]:
    """The variants of each row as columns."""
    import polars as pl

    found = {}
    listed = frame.select("variants").with_row_index("row").explode("variants").drop_nulls("variants")
    listed = listed.select("row", *(pl.col("variants").struct.field(name) for name in ("variant", "share", "chance")))
    for (name,), rows in listed.partition_by("variant", as_dict=True, include_key=False, maintain_order=True).items():
        share, chance = np.zeros(len(frame)), np.full(len(frame), np.nan)
        at = rows["row"].to_numpy()
        share[at] = rows["share"].to_numpy()
        chance[at] = rows["chance"].cast(pl.Float64).fill_null(float("nan")).to_numpy()
        found[str(name)] = VariantColumns(share, chance, (frame["variant"] == name).fill_null(False).to_numpy())
    return found


def _scanned(path: Path) -> Any:
    import polars as pl

    kind = path.suffix.lower()
    if kind == ".parquet":
        return pl.scan_parquet(path)
    if kind in (".jsonl", ".ndjson", ".json"):
        return pl.scan_ndjson(path, infer_schema_length=10_000)
    if kind == ".csv":
        return pl.scan_csv(path, infer_schema_length=10_000)
    raise InputError(f"a log's name must end in {_FORMS}, but got {path.name!r}")


@dataclass
class Survey:
    """What a log is like, from one reading."""

    kind: str
    whole: bool = True
    """Whether propensities are over the order of ties."""
    rankings: int = 0
    rows: int = 0
    reward: float = 0.0
    names: list[str] = field(default_factory=list)
    slots: int = 1
    """The last position."""
    longest: int = 1
    """The most rows of a ranking."""
    most: float = 1.0
    """The most reward of a row."""
    begin: int = 0
    end: int = 0
    """When the first and the last ranking were made, in milliseconds since 1970."""
    unknown: int = 0
    """Rows without a propensity."""
    least: float = 1.0
    """The least propensity."""
    certain: int = 0
    """Rows whose propensity is 1: nothing else could have been there."""
    variants: dict[str, float] = field(default_factory=dict)
    """Variants that shared the traffic of a log gone through again, each with its least share."""
    explored: tuple[float, float] = (0.0, 0.0)
    """Rows and rewards of places that were given to one of the items that follow."""
    drawn_rewards: Floats = field(default_factory=lambda: np.zeros(0))
    """Rewards and rows of each position among rankings drawn at random."""
    drawn_rows: Floats = field(default_factory=lambda: np.zeros(0))
    born: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    """The ranking in which each item was first and last shown."""
    gone: Ints = field(default_factory=lambda: np.zeros(0, np.int64))

    @property
    def items(self) -> int:
        """Different items."""
        return len(self.names)

    @property
    def days(self) -> float:
        """How long it is."""
        return max(self.end - self.begin, 0) / 86_400_000

    @property
    def lacks(self) -> list[str]:
        """What the log does not say, or not well enough, in words."""
        found = []
        if self.unknown:
            share = 100 * self.unknown / max(self.rows, 1)
            found.append(f"{share:.0f} % of the rows have no propensity: their rankings are left out of weights")
        if self.rows and self.certain == self.rows - self.unknown and self.unknown < self.rows:
            found.append(
                "every propensity is 1: nothing was drawn at random, so that weights say nothing of other policies "
                "(set random_share)"
            )
        if self.variants:
            found.append(
                f"propensities are over the split of the traffic between {', '.join(self.variants)}: every variant's "
                "rankings speak of each"
            )
        if not self.whole and self.rows:
            found.append(
                "it was made by an older version: propensities are given the order of ties, whose chance is not used"
            )
        if self.kind == "export" and self.rows:
            found.append(
                "which items could have been shown is not logged: an item is taken to be there from its first to its "
                "last impression, whatever filters a request had"
            )
        return found

    def looks(self) -> Floats | None:
        """The chance of a look at each position relative to the first, from rankings drawn at random, if these suffice.

        A position must have had 30 rewards, or looks are given up to the one before.
        """
        if not self.drawn_rows.size or self.drawn_rewards[0] < _ENOUGH:
            return None
        rates = self.drawn_rewards / np.maximum(self.drawn_rows, 1.0)
        few = np.flatnonzero(self.drawn_rewards < _ENOUGH)
        known = int(few[0]) if few.size else rates.size
        return np.asarray(rates[:known] / rates[0]) if known == self.slots else None


_ENOUGH = 30


def survey(log: LogFile) -> Survey:
    """Read a log once, to know what is in it."""
    out = Survey(log.kind, log.whole)
    most, least = 0.0, np.inf
    born: dict[int, int] = {}
    gone = np.zeros(0, np.int64)
    earned, shown = np.zeros(0), np.zeros(0)
    for part in log.parts():
        if not out.rankings:
            out.begin = int(part.at[0])
        out.end = max(out.end, int(part.at[-1]))
        sizes = part.sizes
        out.longest = max(out.longest, int(sizes.max()))
        out.slots = max(out.slots, out.longest, int(part.position.max()))
        known = np.isfinite(part.propensity)
        out.unknown += int((~known).sum())
        out.certain += int((part.propensity == 1.0).sum())
        if known.any():
            least = min(least, float(part.propensity[known].min()))
        most = max(most, float(part.reward.max()))
        number = np.repeat(np.arange(out.rankings, out.rankings + part.first.size), sizes)
        items, where = np.unique(part.item, return_index=True)
        for item, row in zip(items.tolist(), where.tolist(), strict=True):
            born.setdefault(item, int(number[row]))
        gone = np.concatenate([gone, np.zeros(max(0, len(log.names) - gone.size), np.int64)])
        gone[part.item] = number
        for name, columns in part.variants.items():
            some = columns.share[columns.share > 0.0]
            out.variants[name] = min(out.variants.get(name, 1.0), float(some.min(initial=1.0)))
        rows, earned_there = out.explored
        out.explored = rows + int(part.explored.sum()), earned_there + float(part.reward[part.explored].sum())
        if part.drawn.any():
            size = max(out.slots, earned.size)
            earned = np.pad(earned, (0, size - earned.size))
            shown = np.pad(shown, (0, size - shown.size))
            earned += np.bincount(part.position[part.drawn] - 1, part.reward[part.drawn], size)
            shown += np.bincount(part.position[part.drawn] - 1, minlength=size)
        out.rankings += part.first.size
        out.rows += part.item.size
        out.reward += float(part.reward.sum())
    require(out.rankings > 0, "the log has rankings", path=str(log.path))
    out.names = list(log.names)
    out.most = max(1.0, most)
    out.least = least if np.isfinite(least) else 1.0
    out.born = np.array([born[item] for item in range(len(log.names))], np.int64)
    out.gone, out.drawn_rewards, out.drawn_rows = gone, earned, shown
    return out


def read_items(path: str | Path) -> Any:
    """A table of items: the columns ``item`` and ``score``, or ``item``, ``chance`` and perhaps ``position``."""
    with needs_extra("lab"):
        import polars as pl
    file = Path(path)
    if not file.is_file():
        raise InputError(f"scores must be a CSV with the columns item and score, but there is no file {str(path)!r}")
    try:
        frame = pl.read_csv(
            file, schema_overrides={"item": pl.String, "item_id": pl.String}, infer_schema_length=10_000
        )
    except (pl.exceptions.PolarsError, OSError) as error:
        raise InputError(f"{str(path)!r} cannot be read: {str(error).splitlines()[0]}") from None
    if "item_id" in frame.columns and "item" not in frame.columns:
        frame = frame.rename({"item_id": "item"})
    if "item" not in frame.columns or not {"score", "chance"} & set(frame.columns):
        raise InputError(
            f"scores must have the columns item and score, or item, position and chance, but {str(path)!r} has "
            f"{', '.join(frame.columns)}"
        )
    value = "score" if "score" in frame.columns else "chance"
    numbers = frame[value].cast(pl.Float64, strict=False)
    bad = int(numbers.is_null().sum()) + int((~numbers.fill_null(0.0).is_finite()).sum())
    require(bad == 0, f"every {value} is a number", rows_that_are_not=bad)
    return frame.with_columns(numbers.alias(value))
