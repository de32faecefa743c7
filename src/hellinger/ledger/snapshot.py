"""A ledger as bytes and back: JSON and Parquet, so that other tools can read it too."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator

import numpy as np
import orjson
import polars as pl

from hellinger.errors import require
from hellinger.ledger.departed import Departed
from hellinger.ledger.errors import OutdatedError
from hellinger.ledger.ledger import Ledger
from hellinger.ledger.looks import ZONES, Looks
from hellinger.ledger.modelled import Modelled
from hellinger.ledger.series import TimeSeries

__all__ = ["VERSION", "decode", "encode"]

VERSION = 6
PART = 1 << 20


def encode(ledger: Ledger) -> Iterator[bytes]:
    """The ledger in parts of at most 1 MiB. Requests are not in it: the log has them."""
    catalogue = ledger.catalogue
    learned = {name: model.encode() for name, model in ledger.models.of.items()}
    slots = catalogue.present()
    slots = slots[np.argsort(catalogue["since"][slots])]
    place = np.full(len(catalogue.ids), -1)
    place[slots] = np.arange(slots.size)
    names = pl.Series("id", [catalogue.ids[slot] for slot in slots.tolist()], dtype=pl.String)
    features = pl.Series("features", list(map(catalogue.features.get, slots.tolist())), dtype=pl.String)
    columns = [pl.Series(column, array[slots]) for column, array in catalogue.columns.items()]
    items = pl.DataFrame([names, features, *columns])
    header = {
        "version": VERSION,
        "seq": ledger.seq,
        "tag_sets": catalogue.tags.values,
        "groups": catalogue.groups.values,
        "departed": ledger.departed.as_json(),
        "models": {name: about for name, (about, _) in learned.items()},
        "phases": ledger.phases,
        "series": ledger.series.as_json(),
        "gone": {
            variant: {str(place[slot]): why for slot, why in slots.items() if place[slot] >= 0}
            for variant, slots in ledger.gone.items()
        },
        "priors": [(variant, segment, *prior) for (variant, segment), prior in ledger.priors.items()],
        "curve": ledger.curve,
        "pace": ledger.pace,
        "looks": ledger.looks.as_json(),
        "counts": [
            (variant, segment, counts.total(), counts.late.tolist())
            for (variant, segment), counts in ledger.counts.items()
        ],
    }
    frames = [_parquet(items)]
    for counts in ledger.counts.values():
        owner, n, s, late = counts.entries()
        places = np.full(owner.size, -1)
        there = np.flatnonzero((owner >= 0) & ((n != 0) | (s != 0)))
        places[there] = place[owner[there]]
        rows = np.argsort(places, kind="stable")[np.count_nonzero(places < 0) :]
        zones = {
            f"zone{zone}": late[rows, zone - 1]
            for zone in range(1, len(ZONES))
            if len(late) and late[rows, zone - 1].any()
        }
        frames.append(_parquet(pl.DataFrame({"slot": places[rows], "n": n[rows], "s": s[rows], **zones})))
    for block in (orjson.dumps(header), *frames, *(data for _, data in learned.values())):
        whole = len(block).to_bytes(8, "big") + block
        for start in range(0, len(whole), PART):
            yield whole[start : start + PART]


def decode(parts: Iterable[bytes], *, cache: int = 100_000, anew: bool = False) -> Ledger:
    """The ledger of these parts.

    Where another version's models are in it, ``OutdatedError``; with ``anew`` they begin again, from the counts.
    """
    blocks = _blocks(b"".join(parts))
    header = orjson.loads(next(blocks))
    require(header["version"] <= VERSION, f"a snapshot's version <= {VERSION}", version=header["version"])
    ledger = Ledger(cache=cache)
    ledger.seq, ledger.format = header["seq"], header["version"]
    ledger.saved = ledger.seq
    catalogue = ledger.catalogue
    items = pl.read_parquet(io.BytesIO(next(blocks)))
    for name, array in catalogue.columns.items():  # an older snapshot does not have all of them
        column = items[name].to_numpy() if name in items.columns else np.zeros(items.height)
        catalogue.columns[name] = column.astype(array.dtype)
    features = items["features"].to_list() if "features" in items.columns else ()
    catalogue.restore(items["id"].to_list(), header["tag_sets"], header.get("groups", ()), features)
    for variant, segment, rounds, *late in header["counts"]:
        frame = pl.read_parquet(io.BytesIO(next(blocks)))
        slots, n, s = (frame[name].to_numpy() for name in ("slot", "n", "s"))
        if header["version"] == 1 and segment:  # where all traffic of a variant was the sum of its segments
            total = ledger.counts_in(variant)
            total.add(slots, n, s, rounds - float(n.sum()))
        counts = ledger.counts_in(variant, segment)
        counts.add(slots, n, s, rounds - float(n.sum()))
        if late and any(late[0]):  # an older snapshot has none
            zones = [f"zone{zone}" for zone in range(1, len(ZONES))]
            none = np.zeros(slots.size, np.int32)
            columns = [frame[name].to_numpy() if name in frame.columns else none for name in zones]
            counts.set_behind(slots, np.stack(columns, axis=1), late[0])
    ledger.gone = {v: {int(slot): why for slot, why in slots.items()} for v, slots in header["gone"].items()}
    ledger.priors = {(variant, segment): (seq, prior) for variant, segment, seq, prior in header.get("priors", ())}
    for phase in header.get("phases", []):
        ledger.begin_phase(phase)
    ledger.departed = Departed.of_json(header.get("departed", {}))
    ledger.series = TimeSeries.of(header["series"])
    if "curve" in header:
        ledger.curve = header["curve"][0], header["curve"][1]
        ledger.looks = Looks.of(header["looks"])
    for name, about in header.get("models", {}).items():  # one that begins anew counts by the curve
        data = next(blocks)
        try:
            ledger.models.of[name] = Modelled.decode(about, data)
        except OutdatedError:
            if not anew:
                raise
            ledger.models.begin_anew(name, about)
    if "pace" in header:
        ledger.pace = header["pace"][0], header["pace"][1]
    return ledger


def _parquet(frame: pl.DataFrame) -> bytes:
    out = io.BytesIO()
    frame.write_parquet(out, compression="zstd", compression_level=1)
    return out.getvalue()


def _blocks(data: bytes) -> Iterator[bytes]:
    start = 0
    while start < len(data):
        size = int.from_bytes(data[start : start + 8], "big")
        yield data[start + 8 : start + 8 + size]
        start += 8 + size
