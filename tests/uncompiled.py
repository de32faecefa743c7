"""Run as a program, without the compiler: every policy on every family, by each player, in seconds.

Prints a line for each combination that fails; compiling them all would take minutes.
"""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np
from scipy import special

from hellinger import families, policies
from hellinger.lab import Result, simulate

_LOG = math.log


def log(x: float) -> float:
    """Logarithm as compiled code has it."""
    return -math.inf if x == 0.0 else _LOG(x)


def interpret() -> None:
    """Put Python functions in the place of those that only compiled code can call."""
    math.log = log  # type: ignore[assignment]
    for module in map(sys.modules.get, filter(lambda name: name.startswith("hellinger.families."), sys.modules)):
        for name in ("betaincinv", "gammaincinv", "gammainccinv", "ndtri"):
            if hasattr(module, name):
                plain = getattr(special, name)
                setattr(module, name, lambda *given, plain=plain: plain(*given[:-1]))


MEANS = np.linspace(0.2, 0.7, 5)
"""Within every family's domain."""
MANY = np.random.default_rng(0).beta(1.0, 3.0, 40)
SATURATED = np.repeat([1.0, 0.999, 0.0], [8, 8, 2])
"""Arms that never fail keep an index of exactly 1: every choice among them is a tie."""


def differing(policy: str, family: families.Family, scan: Result, **setting: Any) -> str | None:
    """In what the other players differ from the full scan, if in anything."""
    for player in ("leader", "lazy", "pages"):
        other = simulate(policy, family=family, player=player, workers=1, **setting)
        for name in ("regret", "pulls", "reward"):
            if not np.array_equal(getattr(scan, name), getattr(other, name)):
                return f"{player} differs from scan in {name}"
    return None


def applicable(policy: str, family: families.Family) -> bool:
    """Whether the policy takes this family."""
    try:
        policies.policy(policy, family=family)
    except ValueError:
        return False
    return True


def check(policy: str, family: families.Family, **setting: Any) -> str | None:
    """What is wrong, if anything, with one policy on one family."""
    scan = simulate(policy, family=family, player="scan", workers=1, **setting)
    if not np.isfinite(scan.regret).all() or (np.diff(scan.regret, axis=-1) < 0).any():
        return "regret must be finite and never fall"
    if not (scan.pulls.sum(axis=-1) == scan.checkpoints).all():
        return "every round plays one arm"
    return differing(policy, family, scan, **setting)


def main() -> int:
    """Check every combination; return how many were played."""
    played = 0
    for family in (families.get(name) for name in families.available()):
        for policy in policies.available():
            if not applicable(policy, family):
                continue
            settings: list[dict[str, Any]] = [{"means": MEANS, "horizon": 40, "runs": 2}]
            if family.name == "bernoulli" and policies.policy(policy).at_horizon(9).rule.rising:
                settings.append({"means": MANY, "horizon": 200, "runs": 1})
                settings.append({"means": SATURATED, "horizon": 60, "runs": 1, "init": 0})
                settings.append({"means": SATURATED, "horizon": 90, "runs": 1, "ties": "first", "init": 3})
            for setting in settings:
                wrong = check(policy, family, **setting)
                played += 1
                if wrong:
                    sys.stdout.write(f"{policy} on {family.name}, {setting['means'].size} arms: {wrong}\n")
    return played


if __name__ == "__main__":
    interpret()
    with np.errstate(all="ignore"):
        sys.stdout.write(f"{main()} played\n")
