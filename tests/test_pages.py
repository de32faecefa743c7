"""Several arms a round, feedback late or in batches, against a slow model that keeps the whole story."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from hellinger import policies
from hellinger.lab import simulate
from rewards import rewards_of

MEANS = [0.2, 0.7, 0.5, 0.65, 0.1]


def slow(
    policy: str, *, horizon: int, init: int, slots: int, batch: int, delay: int, seed: int
) -> tuple[list[list[int]], float]:
    """Choices by round and the sum of rewards: what is known is looked up in the story at every round."""
    rule = policies.policy(policy).at_horizon(horizon)
    reward, _ = rewards_of("bernoulli", MEANS, seed=seed)
    story: list[tuple[int, int, float]] = []  # round, arm, reward
    choices: list[list[int]] = []
    for step in range(1, horizon + 1):
        reading = step - (step - 1) % batch  # the last round that began with a reading
        known = [(arm, got) for when, arm, got in story if when < reading - delay]
        shown = [sum(arm == i for _, arm, _ in story) for i in range(len(MEANS))]
        lacking = [i for i in range(len(MEANS)) if shown[i] < init]
        if lacking:
            ranking = lacking + [i for i in range(len(MEANS)) if i not in lacking]
        else:
            pulls = [sum(arm == i for arm, _ in known) for i in range(len(MEANS))]
            sums = [sum(got for arm, got in known if arm == i) for i in range(len(MEANS))]
            index = rule.index(sums, pulls, t=len(known) + 1)
            ranking = sorted(range(len(MEANS)), key=lambda i: (-index[i], i))
        choices.append(ranking[:slots])
        for arm in choices[-1]:
            story.append((step, arm, reward(arm, sum(each == arm for _, each, _ in story))))
    return choices, sum(got for _, _, got in story)


@pytest.mark.parametrize(("slots", "batch", "delay"), [*itertools.product((1, 2, 3, 5), (1, 4), (0, 3))])
@pytest.mark.parametrize("init", [0, 1, 3])
def test_pages_follow_the_story(slots: int, batch: int, delay: int, init: int) -> None:
    setting = {"horizon": 40, "init": init, "slots": slots, "batch": batch, "delay": delay, "seed": 11}
    choices, total = slow("hellinger-ucb", **setting)
    result = simulate("hellinger-ucb", means=MEANS, runs=1, ties="first", checkpoints=5000, **setting)  # type: ignore[arg-type]
    shown = np.zeros(len(MEANS))
    best = sorted(MEANS)[-slots:]
    regret = 0.0
    for step, chosen in enumerate(choices):
        shown[chosen] += 1
        regret += sum(best) - sum(MEANS[arm] for arm in chosen)
        assert result.pulls[0, step].tolist() == shown.tolist(), f"round {step + 1}"
        assert result.regret[0, 0, step] == pytest.approx(regret, abs=1e-12)
    assert result.reward[0, 0] == total


@pytest.mark.parametrize(("arms", "slots", "init"), [(3, 2, 2), (5, 3, 4), (7, 7, 2), (5, 4, 1)])
def test_every_arm_has_its_initial_plays(arms: int, slots: int, init: int) -> None:
    rounds = init * -(-arms // slots)
    means = np.linspace(0.1, 0.9, arms)
    result = simulate("hellinger-ucb", means=means, horizon=rounds, runs=3, slots=slots, init=init)
    assert (result.pulls[0, -1] >= init).all()
    with pytest.raises(ValueError, match="initial plays"):
        simulate("hellinger-ucb", means=means, horizon=rounds - 1, runs=3, slots=slots, init=init)


def test_a_policy_that_draws_ranks_anew_each_round() -> None:
    # nothing is read before round 51: one that kept its ranking would show the same two arms throughout
    result = simulate("uniform", means=MEANS, horizon=50, runs=4, slots=2, delay=50, init=0)
    assert (result.pulls[0, -1] > 10).all()
    kept = simulate("hellinger-ucb", means=MEANS, horizon=50, runs=1, slots=2, delay=50, init=0, ties="first")
    assert kept.pulls[0, -1].tolist() == [50, 50, 0, 0, 0]


def test_all_arms_shown_leave_nothing_to_regret() -> None:
    result = simulate("hellinger-ucb", means=MEANS, horizon=30, runs=2, slots=5)
    assert np.abs(result.regret).max() < 1e-12
