"""Machine code is kept on disk, for the next process and for no one else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

FIRST = """
import json, numpy as np
from hellinger import families
from hellinger.families import _kernels
f = families.get({family!r})
value = f.kl_upper(0.3, 0.1)
stats = _kernels.kl_upper.stats
print(json.dumps([value, sum(stats.cache_hits.values()), sum(stats.cache_misses.values())]))
"""
CUSTOM = """
import json, numpy as np
from hellinger import families
from hellinger.families import _kernels
f = families.ExponentialFamily(lambda t: np.exp(t), mean_bounds=(0, np.inf))
print(json.dumps([f.kl_upper(0.3, 0.1), sum(_kernels.kl_upper.stats.cache_hits.values()), 0]))
"""


def run(code: str, cache: Path) -> list[float]:
    """Run Python code that prints a list, with a cache folder of its own."""
    environment = os.environ | {"NUMBA_CACHE_DIR": str(cache)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    printed: list[float] = json.loads(done.stdout)
    return printed


def entries(cache: Path) -> list[Path]:
    return sorted(cache.rglob("*.nbc"))


def test_a_second_process_compiles_nothing(tmp_path: Path) -> None:
    code = FIRST.format(family="bernoulli")
    value, hits, misses = run(code, tmp_path)
    assert (hits, misses) == (0, 1)
    before = entries(tmp_path)
    assert len(before) == 1
    assert run(code, tmp_path) == [value, 1, 0]
    assert entries(tmp_path) == before


def test_processes_that_compile_at_once_do_not_mix_their_code(tmp_path: Path) -> None:
    names = ["bernoulli", "poisson", "exponential", "geometric"]
    with ThreadPoolExecutor() as pool:
        values = list(pool.map(lambda name: run(FIRST.format(family=name), tmp_path)[0], names))
    assert len(entries(tmp_path)) == len(names)
    for name, value in zip(names, values, strict=True):
        assert run(FIRST.format(family=name), tmp_path) == [value, 1, 0]


def test_a_custom_family_is_not_kept(tmp_path: Path) -> None:
    value, _, _ = run(CUSTOM, tmp_path)
    assert entries(tmp_path) == []
    assert run(CUSTOM, tmp_path) == [value, 0, 0]


def test_a_damaged_entry_is_compiled_anew(tmp_path: Path) -> None:
    code = FIRST.format(family="poisson")
    value, _, _ = run(code, tmp_path)
    (entry,) = entries(tmp_path)
    entry.write_bytes(b"")
    assert run(code, tmp_path) == [value, 0, 1]
    assert run(code, tmp_path) == [value, 1, 0]
