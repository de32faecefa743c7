"""Nanoseconds a step of other libraries on ten Bernoulli arms; run by lab.py in an environment of its own."""

from __future__ import annotations

import json
import random
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

warnings.simplefilter("ignore")
MEANS = [float(mean) for mean in sys.argv[1].split(",")]


def timed(play: Callable[[int], Any], steps: int) -> float:
    play(steps // 10)
    started = time.process_time()
    play(steps)
    return (time.process_time() - started) / steps * 1e9


def river(policy: Any) -> Callable[[int], None]:
    def play(steps: int) -> None:
        rng = random.Random(0)
        arms = list(range(len(MEANS)))
        for _ in range(steps):
            arm = policy.pull(arms)
            policy.update(arm, rng.random() < MEANS[arm])

    return play


def mabwiser(steps: int) -> None:
    from mabwiser.mab import MAB, LearningPolicy

    rng = random.Random(0)
    arms = list(range(len(MEANS)))
    mab = MAB(arms, LearningPolicy.UCB1(alpha=1.0))
    mab.fit(arms, [0] * len(arms))
    for _ in range(steps):
        arm = mab.predict()
        mab.partial_fit([arm], [int(rng.random() < MEANS[arm])])


def pymab(name: str) -> Callable[[int], None]:
    import pymab as library
    from pymab import policies

    def play(steps: int) -> None:
        environment = library.BanditEnvironment(means=MEANS, reward_model=library.BernoulliReward())
        policy = getattr(policies, name)(n_arms=len(MEANS))
        config = library.ExperimentConfig(horizon=1000, n_replicates=max(1, steps // 1000), seed=0)
        library.Experiment(environment=environment, policies={name: policy}, config=config).run()

    return play


def main() -> None:
    from river import bandit, proba

    found = {
        "river UCB": timed(river(bandit.UCB(delta=1.0, seed=0)), 20_000),
        "river Thompson": timed(river(bandit.ThompsonSampling(reward_obj=proba.Beta(), seed=0)), 10_000),
        "mabwiser UCB1": timed(mabwiser, 3_000),
        "pymab KL-UCB": timed(pymab("KLUCBPolicy"), 100_000),
        "pymab UCB": timed(pymab("UCBPolicy"), 100_000),
        "pymab Thompson": timed(pymab("BernoulliThompsonSamplingPolicy"), 100_000),
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
