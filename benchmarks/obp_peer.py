"""Estimates of the Open Bandit Pipeline on a drawn log; run by evaluate.py in an environment of its own."""

from __future__ import annotations

import json
import sys
import time
import types
import warnings
from typing import Any

import numpy as np

ROWS, ITEMS = 20_000, 200


def log() -> dict[str, Any]:
    """A log of one item a row, and the policy to be evaluated as chances of every item."""
    rng = np.random.default_rng(1)
    rates = rng.beta(1.6, 40.0, ITEMS)
    logged, wanted = rng.dirichlet(np.full(ITEMS, 2.0)), rng.dirichlet(np.full(ITEMS, 2.0))
    item = rng.choice(ITEMS, ROWS, p=logged)
    model = np.clip(rates * rng.uniform(0.5, 1.5, ITEMS), 0.0, 1.0)
    return {
        "item": item,
        "reward": (rng.random(ROWS) < rates[item]).astype(float),
        "propensity": logged[item],
        "target": wanted[item],
        "chances": wanted,
        "model": model,
        "predicted": model[item],
        "predicted_target": np.full(ROWS, wanted @ model),
    }


def _stand_in(*names: str) -> None:
    """Empty modules: obp names types of a package of a gigabyte, and uses none of it here."""
    for name in names:
        module: Any = types.ModuleType(name)
        module.Tensor = module.Dataset = module.DataLoader = module.Module = type("Empty", (), {})
        sys.modules[name] = module
        parent, _, child = name.rpartition(".")
        if parent:
            setattr(sys.modules[parent], child, module)


def main() -> None:
    warnings.simplefilter("ignore")
    _stand_in("torch", "torch.nn", "torch.optim", "torch.utils", "torch.utils.data")
    from obp import ope  # type: ignore[import-not-found, unused-ignore]

    found = log()
    chances = np.tile(found["chances"][None, :, None], (ROWS, 1, 1))
    model = np.tile(found["model"][None, :, None], (ROWS, 1, 1))
    common = {"reward": found["reward"], "action": found["item"], "pscore": found["propensity"], "action_dist": chances}
    common["position"] = np.zeros(ROWS, int)
    modelled = common | {"estimated_rewards_by_reg_model": model}
    without = {"position": common["position"], "action_dist": chances, "estimated_rewards_by_reg_model": model}
    values = {
        "ips": ope.InverseProbabilityWeighting().estimate_policy_value(**common),
        "snips": ope.SelfNormalizedInverseProbabilityWeighting().estimate_policy_value(**common),
        "dm": ope.DirectMethod().estimate_policy_value(**without),
        "dr": ope.DoublyRobust().estimate_policy_value(**modelled),
        "switch_dr": ope.SwitchDoublyRobust(tau=5.0).estimate_policy_value(**modelled),
        "dr_os": ope.DoublyRobustWithShrinkage(lambda_=50.0).estimate_policy_value(**modelled),
    }
    began = time.perf_counter()
    ope.InverseProbabilityWeighting().estimate_interval(**common, n_bootstrap_samples=100, random_state=0)
    seconds = time.perf_counter() - began
    size = sum(each.nbytes for each in (found["reward"], found["item"], found["propensity"], chances))
    print(
        json.dumps({"values": {name: float(each) for name, each in values.items()}, "seconds": seconds, "bytes": size})
    )


if __name__ == "__main__":
    main()
