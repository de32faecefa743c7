"""Steps of the simulator, one core against one core in the same run: a NumPy loop, river, mabwiser, pymab.

The floor. A step of Hellinger-UCB on K arms needs K indices (see index.py), K comparisons, one random word and two
updates; the floor printed is K times the compiled index of index.py's floor. With many arms the lazy player touches a
few cells a step, whatever K: its floor is two indices (the arm's new bound, the exact index of the best) and a few
cache lines.

``--others`` times the policies that remember the order of rewards, forget, or weigh arms against each other, each
beside its nearest relative that does not; nothing has to be installed for it.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import numpy.typing as npt

from _results import Results
from _timing import console, fastest, show, verdict
from hellinger.lab import PAPER_BERNOULLI, Problem, parse_means
from hellinger.lab._block import Block, Setting
from hellinger.policies import policy

HERE = Path(__file__).parent
PEERS = HERE.parent / ".venv-peers"
PYTHON = str(PEERS / "bin" / "python")
HORIZON = 10_000
SPECS = ("hellinger-ucb", "kl-ucb", "ucb1", "thompson", "imed", "kl-ucb++", "moss", "bayes-ucb")
NAMES = {
    "hellinger-ucb": "Hellinger-UCB",
    "ucb1": "UCB1",
    "kl-ucb": "KL-UCB",
    "kl-ucb++": "KL-UCB⁺⁺",
    "imed": "IMED",
    "thompson": "Thompson",
    "bayes-ucb": "Bayes-UCB",
}
PEER_NAMES = {
    "NumPy loop, Hellinger-UCB": "a plain NumPy loop, Hellinger-UCB",
    "river UCB": "river, UCB",
    "river Thompson": "river, Thompson",
    "mabwiser UCB1": "mabwiser, UCB1",
    "pymab KL-UCB": "pymab (Rust), KL-UCB",
}
OTHERS = {
    "agrawal": "ucb1",
    "kl-ucb(window=1000)": "kl-ucb",
    "kl-ucb(discount=0.998)": "kl-ucb",
    "kl-ucb(detect=0.05)": "kl-ucb",
    "constant-space": "kl-ucb",
    "empirical-kl-ucb": "kl-ucb",
    "empirical-imed": "imed",
    "exp3": "thompson",
    "exp3s": "thompson",
    "rexp3": "thompson",
    "ids": "thompson",
}
"""Policies of other kinds, and a relative of each among the first ones."""
STARS = "binomial(n=4)"
"""Rewards with five levels, as ratings have them."""
ELSEWHERE = (
    "For orientation, published on a similar core: C++ banditlib UCB 105, KL-UCB 3,400, Thompson 1,750; "
    "Rust banditbench UCB1 140, Hellinger-UCB 3,510, Thompson 807; JAX with 1,000 runs in a batch UCB1 72."
)


def ours(
    spec: str,
    *,
    means: object = PAPER_BERNOULLI,
    horizon: int = HORIZON,
    player: str = "auto",
    family: str = "bernoulli",
) -> float:
    """Nanoseconds a step of one policy on one thread."""
    problem = Problem.make(np.asarray(means), family)
    setting = Setting(horizon, player=player)
    block = Block(policy(spec, family=family).at_horizon(horizon), problem, setting, np.array([horizon]), 0, 1)
    block._replace(setting=setting._replace(horizon=2 * problem.means.size), checkpoints=np.array([1, 2])).play()
    return fastest(block.play, seconds=1.0 if horizon <= 10 * HORIZON else 0.01) / horizon * 1e9


def numpy_loop(steps: int) -> float:
    """Hellinger-UCB as a researcher writes it: NumPy over the arms, Python over time."""
    means = np.array(PAPER_BERNOULLI)
    rng = np.random.default_rng(0)
    sums, pulls = (rng.random(means.size) < means).astype(float), np.ones(means.size)
    regret = np.zeros(steps + 1)
    started = time.process_time()
    for t in range(means.size + 1, steps + 1):
        p = sums / pulls
        rho = np.exp(-0.27 * math.log(t) / pulls)
        index = np.where(rho <= np.sqrt(p), 1.0, (np.sqrt(p) * rho + np.sqrt((1 - p) * (1 - rho**2))) ** 2)
        arm = np.argmax(index)
        sums[arm] += rng.random() < means[arm]
        pulls[arm] += 1
        regret[t] = regret[t - 1] + means.max() - means[arm]
    return (time.process_time() - started) / steps * 1e9


def peers() -> dict[str, float]:
    """Time the neighbours in an environment of their own, built once."""
    if not (PEERS / "ready").exists():
        console.print("Installing river, mabwiser and pymab for comparison …")
        subprocess.run([sys.executable, "-m", "venv", str(PEERS)], check=True)
        install = [PYTHON, "-m", "pip", "install", "--quiet", "--requirement", str(HERE / "peers.txt")]
        subprocess.run(install, check=True)
        (PEERS / "ready").touch()
    command = [PYTHON, str(HERE / "peers.py"), ",".join(map(str, PAPER_BERNOULLI))]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def time_others(results: Results) -> None:
    """The table of policies of other kinds."""
    hundred = np.linspace(0.01, 0.1, 100)
    stars = np.linspace(1.5, 3.0, 10)

    def timed(spec: str, means: npt.ArrayLike, family: str = "bernoulli") -> float:
        slow = spec == "ids" and np.size(means) > 10  # else it alone would take minutes
        return ours(spec, means=means, family=family, horizon=HORIZON // (20 if slow else 1))

    plain = {spec: (timed(spec, PAPER_BERNOULLI), timed(spec, hundred)) for spec in dict.fromkeys(OTHERS.values())}
    rows = []
    for spec, relative in OTHERS.items():
        few, many = timed(spec, PAPER_BERNOULLI), timed(spec, hundred)
        words = [f"{few:,.0f}", f"{many:,.0f}", f"`{relative}`"]
        rows.append([f"`{spec}`", *words, f"{few / plain[relative][0]:,.1f}", f"{many / plain[relative][1]:,.1f}"])
        if spec == "ids":
            results.value("ids", few / 1e3, "µs")
    for spec in ("empirical-kl-ucb", "empirical-imed"):
        results.value(f"{spec.replace('-', '_')}_stars", timed(spec, stars, STARS) / 1e3, "µs", 1)
    columns = ["ns a round", "10 arms", "100 arms", "its relative", "times as long, 10 arms", "100 arms"]
    show("Policies of other kinds, one core", tuple(columns), [tuple(row) for row in rows])
    results.table("rounds", columns, rows)
    results.write()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--others", action="store_true", help="only the policies of other kinds")
    Results.option(parser)
    options = parser.parse_args()
    results = Results(options.results)
    if options.others:
        time_others(results)
        return
    steps = {spec: ours(spec) for spec in SPECS}
    longer = {spec: ours(spec, horizon=10 * HORIZON) for spec in SPECS}
    others = {"NumPy loop, Hellinger-UCB": numpy_loop(20_000), **peers()}
    show(
        "Ten Bernoulli arms, one core, ns a step (targets are for the first column)",
        ("what", f"{HORIZON:,} steps", f"{10 * HORIZON:,} steps"),
        [(f"hellinger: {name}", f"{ns:,.0f}", f"{longer[name]:,.0f}") for name, ns in steps.items()]
        + [(name, f"{ns:,.0f}", "") for name, ns in others.items()],
    )
    h, kl = steps["hellinger-ucb"], steps["kl-ucb"]
    console.print("Hellinger against a NumPy loop: ", verdict(others["NumPy loop, Hellinger-UCB"] / h, 300))
    console.print("Hellinger against river's UCB:  ", verdict(others["river UCB"] / h, 80))
    console.print("Hellinger against mabwiser:     ", verdict(others["mabwiser UCB1"] / h, 600))
    console.print("KL-UCB over Hellinger:          ", verdict(kl / h, 8, at_most=True))
    console.print("KL-UCB against pymab's (Rust):  ", verdict(others["pymab KL-UCB"] / kl, 20))
    console.print("Thompson against river's:       ", verdict(others["river Thompson"] / steps["thompson"], 25))
    console.print(f"[dim]{ELSEWHERE}[/]")
    console.print()

    many = parse_means("beta(1.6,100)x10000")
    rows, scan, short = [], {}, {"hellinger-ucb": "hellinger", "kl-ucb": "kl", "ucb1": "ucb1"}
    for spec in ("hellinger-ucb", "kl-ucb", "ucb1"):
        scan[spec] = ours(spec, means=many, horizon=30_000, player="scan")
        lazy = ours(spec, means=many, horizon=1_000_000)
        hundred = ours(spec, means=many[:100], horizon=1_000_000)
        results.value(f"{short[spec]}_many", lazy, "ns")
        results.value(f"{short[spec]}_scan", scan[spec] / lazy)
        if spec == "hellinger-ucb":
            results.value("hellinger_hundred", hundred)
        rows.append((spec, f"{hundred:,.0f}", f"{lazy:,.0f}", f"{scan[spec]:,.0f}", verdict(scan[spec] / lazy, 50)))
    columns = ("ns a step", "K = 100", "K = 10,000", "K = 10,000, scanning all", "ratio")
    show("Many arms, 1,000,000 steps (30,000 where all are scanned)", columns, rows)

    ours_named = [[NAMES[spec], f"{steps[spec]:,.0f}", f"{longer[spec]:,.0f}"] for spec in NAMES]
    results.table(
        "rounds",
        ["", f"{HORIZON:,} rounds", f"{10 * HORIZON:,} rounds"],
        ours_named + [[name, f"{others[key]:,.0f}", ""] for key, name in PEER_NAMES.items()],
    )
    for name in ("hellinger-ucb", "kl-ucb", "thompson"):
        results.value(name.partition("-")[0], steps[name], "ns")
    results.value("river", others["river UCB"] / 1e3, "µs", 1)
    results.value("river_thompson", others["river Thompson"] / 1e3, "µs", 1)
    results.write()


if __name__ == "__main__":
    main()
