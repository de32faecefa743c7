"""Snapshots: a pool in one file, with a checksum over everything.

The file is a magic word, the length of a JSON header, the header, the arrays it lists one after the other, and
the BLAKE2b digest of all before it. Arrays are stored as they are in memory (little-endian), cells included, so
that a restored pool ranks, breaks ties and goes on exactly as the saved one would have.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import struct
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hellinger.errors import InputError, require
from hellinger.models import ModelLike, Regression
from hellinger.policies import PolicyLike, Prior
from hellinger.policies import policy as make_policy
from hellinger.policies.effects import Rows
from hellinger.pool._features import Descriptions
from hellinger.pool._layout import CELL, COUNT, GROUP, ITEM, NONE, ItemArrays
from hellinger.pool._tree import CLASSES, MEMBER, TREE_NODE
from hellinger.pool.departures import Departure, Leaving
from hellinger.pool.window import Bucket

if TYPE_CHECKING:
    from hellinger.families import Family
    from hellinger.pool.pool import Pool

__all__ = ["load", "save"]

_MAGIC = b"HELPOOL1"
_FORMAT = 12
_RECORDS = {"items": ITEM, "cells": CELL, "groups": GROUP, "member": MEMBER, "nodes": TREE_NODE}
_NODE_7 = np.dtype([(name, TREE_NODE[name]) for name in TREE_NODE.names or () if name != "factors"], align=True)
_CLASSES = {7: 1855, 8: 1806, 9: 1806, 10: 1806, 11: 1887}
"""Strata that were classes in older formats."""
_DIGEST = 32


def save(pool: Pool[Any], path: Path) -> None:
    """Write a pool; the file appears whole or not at all."""
    store, window = pool._store, pool._window
    arrays: dict[str, Any] = store.state._asdict()
    arrays["items"] = store.items
    arrays |= pool._members.arrays(len(store))
    if window is not None:
        for number, bucket in enumerate(window.all()):
            arrays |= {f"bucket{number}.{field}": values for field, values in bucket._asdict().items()}
    if pool._described is not None:
        arrays |= pool._described.arrays(len(store))
    arrays["lives"] = pool._members.lives.of(0, len(store) if pool._members.lives.known else 0)
    if pool._levels is not None:
        arrays["levels"] = pool._levels.table(len(store))
    learned = None
    if pool._context is not None:
        learned, parts = pool._context.regression.state()
        arrays |= {f"model.{name}": values for name, values in parts.items()}
    header = {
        "format": _FORMAT,
        "policy": pool.policy.spec,
        "family": pool.policy.family.spec,
        "seed": pool.seed,
        "ties": pool.ties,
        "half_life": pool.half_life,
        "leaving": pool.leaving._asdict(),
        "time": pool.time,
        "rounds": pool._rounds,
        "present": pool._present,
        "scale": pool._scale,
        "version": pool._version,
        "reason": pool._reason,
        "grouped": store.grouped,
        "next_seq": store.next_seq,
        "numbered_by_id": store.numbered_by_id,
        "names": store.ids.names,
        "tag_sets": pool._tags.state(),
        "departures": pool._departures,
        "members": pool._members.state(),
        "described": None if pool._described is None else pool._described.state(),
        "learning": pool.learning,
        "model": learned,
        "due": pool._due if pool._due < math.inf else None,
        "weighted": pool._checks.weighted,
        "prior": None if pool.prior is None else pool.prior.state(),
        "since": pool._since,
        "window": None
        if window is None
        else {
            "length": window.length,
            "buckets": window.buckets,
            "started": window.started,
            "held": len(window.all()),
            "owed": list(pool._window_owed.items()),
        },
        "arrays": [[name, _kind(name, array), list(array.shape)] for name, array in arrays.items()],
    }
    text = json.dumps(header).encode()
    digest = hashlib.blake2b(digest_size=_DIGEST)
    part = path.with_name(path.name + ".part")
    with part.open("wb") as file:
        for piece in (_MAGIC, struct.pack("<Q", len(text)), text, *(array.tobytes() for array in arrays.values())):
            digest.update(piece)
            file.write(piece)
        file.write(digest.digest())
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)


def load(path: Path, family: Family | None, policy: PolicyLike | None = None, model: ModelLike | None = None) -> Pool:
    """Read a pool; a file that is not exactly what :func:`save` wrote is refused."""
    from hellinger.pool.pool import Pool

    data = memoryview(path.read_bytes())
    if len(data) < len(_MAGIC) + 8 + _DIGEST or data[: len(_MAGIC)] != _MAGIC:
        raise InputError(f"a snapshot must begin with {_MAGIC.decode()}, but {path} does not: it is no pool's snapshot")
    body = data[:-_DIGEST]
    if hashlib.blake2b(body, digest_size=_DIGEST).digest() != data[-_DIGEST:]:
        raise InputError(f"a snapshot's checksum must match its items, but {path} is damaged")
    (length,) = struct.unpack_from("<Q", data, len(_MAGIC))
    start = len(_MAGIC) + 8
    header = json.loads(bytes(data[start : start + length]))
    if header["format"] not in (*_CLASSES, _FORMAT):
        raise InputError(f"a snapshot must have format {_FORMAT}, but {path} has {header['format']!r}")
    arrays: dict[str, Any] = {}
    start += length
    for name, kind, shape in header["arrays"]:
        dtype = _NODE_7 if (name, header["format"]) == ("nodes", 7) else _RECORDS.get(name) or np.dtype(kind)
        size = int(np.prod(shape)) * dtype.itemsize
        arrays[name] = np.frombuffer(body[start : start + size], dtype).reshape(shape).copy()
        start += size
    if header["format"] < 10:
        rule = "a snapshot of a pool with a model has format 10 at least"
        require(header["model"] is None, rule, format=header["format"], path=str(path))
    if header["format"] < _FORMAT:
        _from_older(header["format"], header["members"], arrays)
    window = header["window"]
    pool = Pool(
        header["policy"] if policy is None else make_policy(policy, family=family),
        family=family or header["family"],
        seed=header["seed"],
        ties=header["ties"],
        half_life=header["half_life"],
        leaving=Leaving(**header["leaving"]),
        window=window and window["length"],
        buckets=window["buckets"] if window else 24,
        learn=header["learning"],
        weighted=header.get("weighted", False),
        model=model if model is not None or header["model"] is None else header["model"]["model"],
    )
    require(
        (pool._context is None) == (header["model"] is None), "model goes with a snapshot that has one", model=model
    )
    same = pool.policy.spec == header["policy"]
    require(same, "policy is the one of the snapshot", policy=pool.policy.spec, snapshot=header["policy"])
    store = pool._store
    store.state = ItemArrays(*(arrays[field] for field in ItemArrays._fields))
    store.grouped, store.next_seq = header["grouped"], header["next_seq"]
    store.numbered_by_id = header["numbered_by_id"]
    store.hidden = int(store.items["hidden"].sum())
    store.ids.rebuilt(store.state.items, int(store.state.meta[COUNT]), header["names"])
    pool.time, pool._rounds, pool._scale = header["time"], header["rounds"], header["scale"]
    pool._version, pool._reason, pool._present = header["version"], header["reason"], header["present"]
    pool._tags.restore(header["tag_sets"], store.items["tags"])
    pool._members.restore(header["members"], arrays["member"], arrays["nodes"])
    if header.get("described") is not None:
        rows = Rows(*(arrays[f"described.{field}"] for field in Rows._fields))
        pool._described = Descriptions.restored(header["described"], rows)
    if pool._levels is not None:
        pool._levels.restore(arrays["levels"])
    pool._departures = [Departure(*departure) for departure in header["departures"]]
    if "lives" in arrays:
        pool._members.lives.restore(arrays["lives"])
    if header["format"] < _FORMAT:
        store.regroup(grouped=store.grouped)
    if pool.prior is not None:
        pool.prior = Prior.from_state(header["prior"])  # the items have their strata already
        pool._since = header["since"]
        if header["format"] < _FORMAT:
            pool._members.restore_lives(store)
    if pool._context is not None and pool.model is not None:
        parts = {name.removeprefix("model."): array for name, array in arrays.items() if name.startswith("model.")}
        pool._context.regression = Regression.from_state(pool.model, header["model"], parts)
        pool._since, pool._due = header["since"], math.inf if header["due"] is None else header["due"]
    if pool._window is not None:
        buckets = [
            Bucket(*(arrays[f"bucket{number}.{field}"] for field in Bucket._fields)) for number in range(window["held"])
        ]
        # keys of strings are hashes, which differ from one process to the next
        of_seq = dict(zip(store.items["seq"].tolist(), store.items["key"].tolist(), strict=True))
        pool._window.restore([b._replace(key=_keys(b, of_seq)) for b in buckets], window["started"])
        pool._window_owed = {int(seq): owed for seq, owed in window["owed"]}
    return pool


def _from_older(number: int, members: dict[str, Any], arrays: dict[str, Any]) -> None:
    """Bring groups to the present format: other strata were classes, and in 7 none had a factor; strata are found anew.

    Those of a pool with a model are all the same one.
    """
    if number == 7:
        nodes = np.zeros(arrays["nodes"].size, TREE_NODE)
        for name in _NODE_7.names or ():
            nodes[name] = arrays["nodes"][name]
        nodes["factors"] = nodes["items"].astype(np.int64) << 16
        arrays["nodes"] = nodes
        arrays["member"]["step"] = 0
    more = CLASSES - _CLASSES[number]
    strata = arrays["nodes"]["stratum"]
    strata[strata != NONE] += more
    members["own"] = [stratum + more for stratum in members["own"]]
    arrays["items"]["stratum"] = 0


def _keys(bucket: Bucket, of_seq: dict[int, int]) -> Any:
    return np.array(
        [of_seq.get(seq, key) for seq, key in zip(bucket.seq.tolist(), bucket.key.tolist(), strict=True)], np.int64
    )


def _kind(name: str, array: Any) -> str:
    return "record" if name in _RECORDS else str(array.dtype.str)
