"""Logs as files: our export (Parquet, JSON lines, CSV) and Open Bandit's CSV, read part by part."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Union

import numpy as np
import numpy.typing as npt

from hellinger.errors import InputError, needs_extra, require
from hellinger.evaluate.evaluator import SLACK
from hellinger.evaluate.parts import LogPart, RankingFilters, VariantColumns
from hellinger.world.tops import ItemLists

if TYPE_CHECKING:
    import polars

__all__ = ["LogFile", "LogSource"]

LogSource = Union[str, Path, "polars.DataFrame", "polars.LazyFrame"]
"""A file's path, or a frame."""

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

_ROWS = 200_000
"""Rows that are in memory at once."""
_OURS = {"ranking_id": "ranking", "at": "at", "item": "item", "position": "position", "reward": "reward"}
_OPEN_BANDIT = {"timestamp": "at", "item_id": "item", "position": "position", "click": "reward"}
_LISTS = ("exclude", "tags", "among")
_FORMS = ".parquet (an export), .jsonl (an export) or .csv (Open Bandit, or an export's columns)"


class LogFile:
    r"""A log on disk, or as a Polars frame.

    Parameters
    ----------
    source
        The file, whose name's ending says what it is; or a Polars ``DataFrame`` or ``LazyFrame`` with the columns of an
        export, or of Open Bandit.

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

    A frame may be lazy: two rankings of two items, in the columns that an export must have.

    >>> import polars as pl
    >>> frame = pl.DataFrame({"ranking_id": [1, 1, 2, 2], "item": list("abba"), "position": [1, 2, 1, 2]})
    >>> log = LogFile(frame.lazy().with_columns(reward=pl.lit(0.0)))
    >>> [part.first.tolist() for part in log.parts()], log.names
    ([[0], [0]], ['a', 'b'])
    """

    def __init__(self, source: LogSource) -> None:
        with needs_extra("lab"):
            import polars as pl
        self.name = str(source) if isinstance(source, (str, Path)) else f"a {type(source).__name__}"
        """The file's name, or what else it is."""
        try:
            self._frame = source.lazy() if isinstance(source, (pl.DataFrame, pl.LazyFrame)) else _scanned(source)
            schema = self._frame.collect_schema()
        except (pl.exceptions.PolarsError, OSError) as error:
            raise InputError(f"{self.name!r} cannot be read: {str(error).splitlines()[0]}") from None
        columns = set(schema.names())
        self._parquet = isinstance(source, (str, Path)) and Path(source).suffix.lower() == ".parquet"
        self.kind = "Open Bandit" if "propensity_score" in columns else "export"
        wanted = {"item_id", "position", "click"} if self.kind == "Open Bandit" else set(_OURS) - {"at"}
        if missing := wanted - columns:
            raise InputError(
                f"a log must have the columns {', '.join(sorted(wanted))}, but {self.name!r} lacks "
                f"{', '.join(sorted(missing))}"
            )
        self._columns = columns
        self._dated = schema.get("timestamp") if self.kind == "Open Bandit" else schema.get("at")
        listed = isinstance(schema.get("variants"), pl.List)  # JSON lines without any are of no type
        self.retraced = self.kind == "export" and listed and "variant" in columns
        """Whether the log was gone through again for the chances of every variant."""
        self._lists = [name for name in _LISTS if isinstance(schema.get(name), (pl.List, pl.Null))]
        self.whole = self.kind == "Open Bandit" or "eligible" in columns
        """Whether propensities are over the order of ties, as later versions of the service have them."""
        self.names: list[str] = []
        """Items, in the order in which they first come."""
        self._codes: dict[str, int] = {}

    def rows(self) -> int:
        """How many rows it has, quickly counted; 0 where it cannot be read."""
        import polars as pl

        try:
            return int(self._frame.select(pl.len()).collect().item())
        except (pl.exceptions.PolarsError, OSError):  # which reading it will tell better
            return 0

    def parts(self, *, lists: bool = True) -> Iterator[LogPart]:
        """Rankings in the order of the file, some at a time; without ``lists`` those of filters are left empty."""
        import polars as pl

        left: Any = None
        before = 0
        heads: list[npt.NDArray[np.uint64]] = []
        try:
            for frame in self._frames():
                whole = frame if left is None else pl.concat([left, frame])
                # the last ranking may go on in the next part
                last = whole["ranking"].ne_missing(whole["ranking"][-1]).to_numpy().nonzero()[0]
                cut = int(last[-1]) + 1 if last.size else 0
                left = whole.slice(cut)
                if cut:
                    part = self._part(whole.slice(0, cut), before, lists)
                    heads.append(self._heads(whole, part))
                    before += cut
                    yield part
        except pl.exceptions.PolarsError as error:
            raise InputError(f"{self.name!r} cannot be read: {str(error).splitlines()[0]}") from None
        if left is not None and len(left):
            part = self._part(left, before, lists)
            heads.append(self._heads(left, part))
            yield part
        self._require_adjacent(heads)

    def _frames(self) -> Iterator[Any]:
        """The columns that are used, some rows at a time."""
        chosen = self._selected()
        if not self._parquet:
            yield from chosen.collect_batches(chunk_size=_ROWS, maintain_order=True)
            return
        # Polars reads a file ahead of who takes its batches, a gigabyte of a large one; it finds any rows of Parquet
        for begin in range(0, self.rows(), _ROWS):
            yield chosen.slice(begin, _ROWS).collect()

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
        own = pl.col("propensity") if "propensity" in self._columns else pl.lit(None)
        chosen.append(own.cast(pl.Float64).alias("own"))  # given the variant, whose ties they are
        # null stands for an infinite score, which JSON has no word for
        score = pl.col("score").cast(pl.Float64).fill_null(math.inf) if "score" in self._columns else pl.lit(math.nan)
        chosen.append(score.alias("score"))
        for old, new in (("random", "drawn"), ("explored", "explored")):
            chosen.append((pl.col(old) if old in self._columns else pl.lit(False)).alias(new))
        eligible = pl.col("eligible") if "eligible" in self._columns else pl.lit(None)
        chosen.append(eligible.cast(pl.Float64).alias("eligible"))
        chosen += [pl.col(name).cast(pl.List(pl.String)) for name in self._lists]
        for name in ("filtered", "cut"):
            chosen.append((pl.col(name).fill_null(False) if name in self._columns else pl.lit(False)).alias(name))
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

    def _part(self, frame: Any, before: int, lists: bool) -> LogPart:
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
            frame["eligible"].fill_null(float("nan")).to_numpy()[first],
            self._filters(frame, first, lists),
            _ties(frame, new, position),
        )

    def _filters(self, frame: Any, first: Ints, lists: bool) -> RankingFilters:
        """Filters of rankings, which the first row of each has."""
        heads = frame.select("filtered", "cut", *self._lists)[first]
        given = {name: heads[name].is_not_null().to_numpy() for name in self._lists}
        some = heads["filtered"].to_numpy() | np.logical_or.reduce([*given.values(), np.zeros(first.size, bool)])
        listed = np.logical_or.reduce([*given.values(), ~some])  # an older export says only that there was a filter
        unclear = heads["cut"].to_numpy() | ~listed | given.get("tags", False)
        found = {name: self._coded(heads[name]) for name in self._lists if lists and given[name].any()}
        exclude, among = (found.get(name) or ItemLists.none(first.size) for name in ("exclude", "among"))
        return RankingFilters(some, unclear, exclude, among)

    def _coded(self, column: Any) -> ItemLists:
        """Lists of items by their numbers, without those that the log never shows."""
        import polars as pl

        codes = pl.DataFrame({"item": self.names, "code": range(len(self.names))}, schema_overrides={"code": pl.Int64})
        listed = pl.DataFrame({"item": column}).with_row_index("ranking").explode("item")
        known = listed.join(codes, on="item", how="inner", maintain_order="left")
        sizes = np.bincount(known["ranking"].to_numpy(), minlength=column.len())
        starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        return ItemLists(column.is_not_null().to_numpy(), starts, known["code"].to_numpy().astype(np.int64))


def _ties(frame: Any, new: npt.NDArray[np.bool_], position: Ints) -> Ints:
    """The number of each row's tie, −1 for none.

    A tie is a run of m equal scores in one ranking, each of whose rows could have been elsewhere in it: an item of a
    tie is at a place with a chance of at most 1/m, whatever else was drawn at random.
    """
    score, own = frame["score"].to_numpy(), frame["own"].fill_null(math.inf).to_numpy()
    apart = frame["drawn"].fill_null(False).to_numpy() | frame["explored"].fill_null(False).to_numpy()
    follows = (score[1:] == score[:-1]) & (position[1:] == position[:-1] + 1) & ~new[1:] & ~apart[1:] & ~apart[:-1]
    run = np.cumsum(np.append(True, ~follows)) - 1
    starts = np.flatnonzero(np.append(True, ~follows))
    sizes = np.diff(starts, append=score.size)
    random = (sizes > 1) & (np.maximum.reduceat(own, starts) * sizes <= 1.0 + SLACK)
    return np.where(random[run], run, -1)


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


def _scanned(source: str | Path) -> Any:
    import polars as pl

    path = Path(source)
    if not path.is_file():
        raise InputError(f"the log must be a file, {_FORMS}, but there is no file {str(source)!r}")
    kind = path.suffix.lower()
    if kind == ".parquet":
        return pl.scan_parquet(path)
    if kind in (".jsonl", ".ndjson", ".json"):
        return _scanned_lines(path)
    if kind == ".csv":
        return pl.scan_csv(path, infer_schema_length=10_000)
    raise InputError(f"a log's name must end in {_FORMS}, but got {path.name!r}")


def _scanned_lines(path: Path) -> Any:
    """JSON lines, of which only the columns that are used are parsed.

    A column that is null in the first lines has no type there, and one of whole numbers may have others later.
    """
    import polars as pl

    schema = pl.scan_ndjson(path, infer_schema_length=10_000).collect_schema()
    if "propensity_score" in schema:
        return pl.scan_ndjson(path, infer_schema_length=10_000)
    shares = pl.Struct({"variant": pl.String, "share": pl.Float64, "chance": pl.Float64})
    known: dict[str, Any] = dict.fromkeys(_LISTS, pl.List(pl.String)) | {"variant": pl.String}
    known |= dict.fromkeys(("propensity", "balanced", "eligible", "score", "reward"), pl.Float64)
    known |= dict.fromkeys(("random", "explored", "filtered", "cut"), pl.Boolean)
    if schema.get("variants") != pl.Null:  # where no line has any there are none
        known["variants"] = pl.List(shares)
    used = {name: known.get(name, kind) for name, kind in schema.items() if name in known or name in _OURS}
    return pl.scan_ndjson(path, schema=used)
