"""The library: score arms, drive a bandit, keep a pool of new items."""

from __future__ import annotations

import numpy as np

import hellinger


def main() -> None:
    """Three small jobs."""
    policy = hellinger.policy("hellinger-ucb")
    clicks, impressions = np.array([0, 1, 3, 30]), np.array([0, 1, 10, 100])
    print("upper bounds:", policy.index(clicks, impressions, t=112).round(4))

    rates = np.array([0.05, 0.02, 0.04])
    rng = np.random.default_rng(0)
    bandit = hellinger.Bandit("hellinger-ucb", arms=["a", "b", "c"], seed=0)
    for _ in range(3000):
        arm = bandit.select()
        bandit.update(arm, float(rng.random() < rates[bandit.arms.index(arm)]))
    print("plays:", dict(zip(bandit.arms, bandit.pulls.astype(int).tolist(), strict=True)))

    pool = hellinger.Pool("cold-start", seed=0)
    pool.add([f"story-{j}" for j in range(10_000)])
    for _ in range(200):
        for item in pool.serve(20):
            if rng.random() < 0.02:
                pool.record(str(item.id), rewards=1)
    print("best of the pool:", [item.id for item in pool.rank(3)])


if __name__ == "__main__":
    main()
