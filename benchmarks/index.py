"""One pass of indices over 10,000 warm arms, one core: ours against vectorised NumPy, as ratios in one run.

The floor. An arm's Hellinger/Bernoulli index needs two quotients (s/n and level/n), one exponential and one square
root; streaming s, n and the index through memory is 24 bytes. KL-UCB/Bernoulli by two Halley steps needs three
exponentials, two logarithms, one square root and seven quotients. The floor printed below is a compiled loop that does
just those operations on the same arrays and nothing else (no level, no ends, no unplayed arms).
"""

from __future__ import annotations

import argparse
import math
import os
import subprocess
import sys

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import numpy.typing as npt

import hellinger
from _results import Results
from _timing import console, fastest, show, verdict
from hellinger._jit import jit
from hellinger._numerics import expm1x, phi

Floats = npt.NDArray[np.float64]
ARMS = 10_000


def warm_arms() -> tuple[Floats, Floats]:
    rng = np.random.default_rng(0)
    pulls = rng.integers(1, 500, ARMS).astype(float)
    return rng.binomial(pulls.astype(int), 0.05).astype(float), pulls


def numpy_hellinger(s: Floats, n: Floats, t: float, c: float = 0.27) -> Floats:
    """The same formula, with as few passes and temporaries as NumPy allows."""
    m = s / n
    e = np.expm1((-2.0 * c * math.log(t)) / n)
    rho2 = 1.0 + e
    q = m * (m - 1.0)
    q *= rho2
    q *= e
    np.sqrt(q, out=q)
    q *= 2.0
    saturated = rho2 <= m
    rho2 *= m
    q += rho2
    m -= 1.0
    m *= e
    q += m
    q[saturated] = 1.0
    return q


def numpy_kl_bisection(s: Floats, n: Floats, t: float, steps: int = 40) -> Floats:
    """KL-UCB as a careful user of NumPy writes it."""
    p = np.clip(s / n, 1e-15, 1.0 - 1e-15)
    radius = math.log(t) / n
    constant = p * np.log(p) + (1.0 - p) * np.log1p(-p)
    low, high = p.copy(), np.full_like(p, 1.0 - 1e-16)
    for _ in range(steps):
        middle = 0.5 * (low + high)
        inside = constant - p * np.log(middle) - (1.0 - p) * np.log1p(-middle) <= radius
        low = np.where(inside, middle, low)
        high = np.where(inside, high, middle)
    return low


@jit
def hellinger_floor(s: Floats, n: Floats, out: Floats) -> None:
    for i in range(out.size):
        e, _ = expm1x(3.7 / n[i])
        out[i] = math.sqrt(s[i] / n[i]) + e


@jit
def kl_floor(s: Floats, n: Floats, out: Floats) -> None:
    for i in range(out.size):
        p = s[i] / n[i]
        inverse = 1.0 / (p + 1e-9)
        v = math.sqrt(1.4 / n[i] / (1.0 - p))
        e, ex = expm1x(v)
        v = (ex + phi(v)) * inverse / (1.0 + e)
        e, ex = expm1x(v)
        v = (ex + phi(v)) / (1.0 + e)
        e, _ = expm1x(v)
        out[i] = e


def first_call() -> float:
    """Seconds for import plus one index in a new process, once this machine has run it before."""
    code = (
        "import time; t = time.process_time(); import hellinger;"
        "hellinger.policy('hellinger-ucb').index([1, 0], [2, 1]); print(time.process_time() - t)"
    )
    runs = [subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True) for _ in range(4)]
    return min(float(run.stdout) for run in runs[1:])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    Results.option(parser)
    results = Results(parser.parse_args().results)
    s, n = warm_arms()
    t = 1e6
    out = np.empty(ARMS)
    policies = {name: hellinger.policy(name) for name in ("hellinger-ucb", "kl-ucb", "ucb1", "thompson", "imed")}
    rng = np.random.default_rng(1)
    ours = {name: fastest(lambda p=p: p.index(s, n, t, rng=rng)) for name, p in policies.items()}  # type: ignore[misc]
    numpy_h = fastest(lambda: numpy_hellinger(s, n, t))
    numpy_kl = fastest(lambda: numpy_kl_bisection(s, n, t))
    floor_h = fastest(lambda: hellinger_floor(s, n, out))
    floor_kl = fastest(lambda: kl_floor(s, n, out))
    gap_h = np.abs(numpy_hellinger(s, n, t) / policies["hellinger-ucb"].index(s, n, t) - 1.0).max()
    gap_kl = np.abs(numpy_kl_bisection(s, n, t) / policies["kl-ucb"].index(s, n, t) - 1.0).max()

    def row(name: str, seconds: float, note: str = "") -> tuple[str, ...]:
        return (name, f"{seconds / ARMS * 1e9:,.2f}", f"{ARMS / seconds / 1e6:,.1f}", note)

    show(
        f"Policy.index over {ARMS:,} warm Bernoulli arms, one core",
        ("what", "ns an arm", "million arms a second", ""),
        [
            *(row(f"hellinger: {name}", seconds) for name, seconds in ours.items()),
            row("NumPy: Hellinger, same formula", numpy_h, f"differs by {gap_h:.1e}"),
            row("NumPy: KL, 40 bisections", numpy_kl, f"differs by {gap_kl:.1e}"),
            row("floor: Hellinger's exponential, root and quotients", floor_h),
            row("floor: KL's exponentials, logarithms, root and quotients", floor_kl),
        ],
    )
    h, kl = ours["hellinger-ucb"], ours["kl-ucb"]
    console.print("Hellinger against NumPy:        ", verdict(numpy_h / h, 1.5))
    console.print("KL against NumPy's bisection:   ", verdict(numpy_kl / kl, 10.0))
    console.print("KL over Hellinger:              ", verdict(kl / h, 15.0, at_most=True))
    console.print(f"Hellinger over its floor:        {h / floor_h:.2f}×   KL over its floor: {kl / floor_kl:.2f}×")
    seconds = first_call()
    met = "[green]met[/]" if seconds <= 1.0 else "[red]missed[/]"
    console.print(f"Import plus one index, new process: {seconds:.2f} s (target ≤ 1 s) {met}")
    results.value("hellinger_pass", 1e6 * h, "µs")
    results.value("hellinger_gain", numpy_h / h, "times", 1)
    results.value("hellinger_arm", 1e9 * h / ARMS, "ns", 1)
    results.value("numpy_arm", 1e9 * numpy_h / ARMS, "ns", 1)
    results.value("kl_pass", 1e3 * kl, "ms", 2)
    results.value("kl_gain", numpy_kl / kl, "times")
    results.value("bisection_pass", 1e3 * numpy_kl, "ms", 1)
    results.write()


if __name__ == "__main__":
    main()
