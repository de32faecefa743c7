"""What every policy must do. Each check takes a policy and raises ``AssertionError`` where it fails."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from hellinger.bandit import Bandit
from hellinger.families import Family
from hellinger.policies import Policy, PolicyLike, Prior, available, balls, fit_prior, levels
from hellinger.policies import policy as make_policy
from hellinger.policies.forgetting import FORGETTING
from hellinger.testing._suite import Floats, found_in, refused

__all__ = ["check_policy", "histories", "policy_checks"]

_HORIZON = 5000.0
_ARMS = 6
_FORGET: dict[str, tuple[float, float, float]] = {
    "window": (100, 7, 0.5),
    "discount": (0.98, 0.5, 1.5),
    "detect": (0.05, 1e-9, 1.0),
}
"""Two values of each argument by which policies forget, and one that has no meaning."""


def check_policy(policy: PolicyLike, *, family: str | Family | None = None) -> None:
    """Run the whole suite on a policy: one of the library's, or a rule or function of your own.

    >>> check_policy(lambda s, n, t: s / n + (t / n) ** 0.25)
    """
    made = make_policy(policy, family=family)
    for check in policy_checks().values():
        check(made)


check_policy.suite = True  # type: ignore[attr-defined]


def policy_checks() -> dict[str, Callable[[Policy], None]]:
    """Return every check by name."""
    return found_in(globals())


def histories(family: Family, *, seed: int, count: int, arms: int = _ARMS) -> Iterator[tuple[Floats, Floats]]:
    """Yield reward sums and pulls such as the family gives: young and old arms, all-zero ones, the best."""
    rng = np.random.default_rng(seed)
    low, high = family.mean_bounds
    typical = family.typical_means()
    typical = np.sort(typical[(typical > low) & (typical < high)])
    core = typical[(np.abs(typical) >= 1e-3) & (np.abs(typical) <= 1e3)]
    for _ in range(count):
        pulls = np.floor(10.0 ** rng.uniform(0.0, 3.0, arms))
        means = rng.choice(core, arms) * rng.uniform(0.8, 1.0, arms)
        if family.integer:
            sums = np.minimum(np.round(means * pulls), high * pulls)
        else:
            sums = means * pulls
        yield sums, pulls


def _ready(policy: Policy) -> Policy:
    return policy.at_horizon(_HORIZON) if policy.needs_horizon else policy


def _rng(policy: Policy, seed: int = 0) -> np.random.Generator | None:
    return np.random.default_rng(seed) if policy.random else None


def check_every_arm_is_tried(policy: Policy) -> None:
    """No arm is left out for good, unless the rule says that it leaves out the hopeless."""
    if not policy.rule.thorough:
        return
    bandit = Bandit(_ready(policy), arms=4, seed=3)
    sums, pulls = next(histories(policy.family, seed=1, count=1, arms=4))
    rewards = sums / pulls
    for _ in range(300):
        arm = int(bandit.select())
        bandit.update(arm, rewards[arm])
    assert (bandit.pulls > 0).all(), f"every arm must be tried, but pulls are {bandit.pulls.tolist()}"


def check_memory(policy: Policy) -> None:
    """A policy that remembers goes on from where it was saved, gives numbers, and says that counts are not enough."""
    policy = _ready(policy)
    if not policy.remembers:
        assert not policy.memory
        return
    sums, pulls = next(histories(policy.family, seed=12, count=1, arms=4))
    refused(lambda: policy.index(sums, pulls, rng=_rng(policy)), "rewards in their order", policy.spec)
    bandit, rewards = Bandit(policy, arms=4, seed=5), sums / pulls
    for step in range(120):
        assert not np.isnan(bandit.index()).any(), f"no index may be NaN, but one is after {step} plays"
        arm = int(bandit.select())
        bandit.update(arm, rewards[arm])
    again = Bandit.from_state(bandit.state(), policy=policy, family=policy.family)
    for _ in range(40):
        arms = [int(each.select()) for each in (bandit, again)]
        assert arms[0] == arms[1], f"a saved bandit must choose as the one that went on, but {arms}"
        for each in (bandit, again):
            each.update(arms[0], rewards[arms[0]])
    refused(lambda: bandit.add("new"), "stay once one was played")


def _forgets(policy: Policy) -> dict[str, Any]:
    """What it forgets by, where it does."""
    own = policy.entry.parameters
    return {key: value for key, value in policy.arguments.items() if key in FORGETTING and key not in own}


def check_forgetting(policy: Policy) -> None:
    """A policy that scores counts takes a window, discount or test for changes, and follows a change; no other does."""
    policy, given = _ready(policy), _forgets(policy)
    if not given:
        if policy.remembers or policy.rule.learns_prior:
            for key, (value, *_) in _FORGET.items():
                refused(partial(_forgetting, policy, key, value), f"`{key}` must go with")
        else:
            assert _forgetting(policy, "window", 7).remembers, "a policy that forgets must say that it remembers"
        return
    for key in given:
        usual, other, wrong = _FORGET[key]
        played = [_swap(_forgetting(policy, key, value)) for value in (usual, other)]
        assert policy.random or played[0] != played[1], f"changing {key} must change some choice"
        for value in (usual, other):
            _play_decimals(_forgetting(policy, key, value))
        last = sum(played[0][-100:])
        followed = policy.random or last > 50
        assert followed, f"{policy.spec} must follow the best arm, but plays it {last} times in the last 100 rounds"
        refused(partial(_forgetting, policy, key, wrong), key, f"{wrong:g}")
        second = next(each for each in _FORGET if each != key)
        refused(partial(_forgetting, policy, second, _FORGET[second][0]), "one of window, discount and detect")


def _forgetting(policy: Policy, key: str, value: float) -> Policy:
    arguments: dict[str, Any] = {key: value}
    return make_policy(policy, **arguments)


def _swap(policy: Policy) -> list[int]:
    """The arms that it plays where the first earns more than the second for 300 rounds, and then less for 600."""
    bandit, played = Bandit(policy, arms=2, seed=2), list[int]()
    for step in range(900):
        played.append(int(bandit.select()))
        bandit.update(played[-1], 0.5 if played[-1] == 1 else 0.9 if step < 300 else 0.1)
    return played


def _play_decimals(policy: Policy) -> None:
    """Let it see rewards whose sums are rounded: what is left of them must still be what rewards can give."""
    low, high = policy.family.mean_bounds
    bandit, rng = Bandit(policy, arms=3, seed=4), np.random.default_rng(4)
    for step in range(200):
        index = bandit.index()
        assert not np.isnan(index).any(), f"no index may be NaN, but of {policy.spec} one is after {step} plays"
        bandit.update(bandit.select(), min(max(float(rng.choice([0.0, 0.1, 0.2, 0.3, 0.7])), low), high))


def check_monotone(policy: Policy) -> None:
    """Where the rule claims it, the index rises with the sum and falls with the pulls."""
    policy = _ready(policy)
    if not policy.rule.monotone:
        return
    low, high = policy.family.mean_bounds
    top = min(high, 30.0)
    bottom = max(low, -30.0)
    s = np.linspace(8.0 * bottom, 8.0 * top, 25)
    index = policy.index(s, np.full(25, 8.0), t=1000)
    assert not _rises(index[::-1]), "the index must not fall with the sum"
    n = np.arange(1.0, 41.0)
    for total in (0.0, 0.6, 1.0):
        if bottom <= 0.0 and total <= top:
            index = policy.index(np.full(40, total), n, t=1000)
            assert not _rises(index), "the index must not rise with the pulls"


def _rises(index: Floats) -> bool:
    """Whether it ever does, but for rounding."""
    finite = np.minimum(index, 1e300)
    return bool((np.diff(finite) > 1e-12 * np.abs(finite[:-1])).any())


def check_permutation(policy: Policy) -> None:
    """A deterministic index does not depend on the order of arms."""
    policy = _ready(policy)
    if policy.random or policy.remembers:
        return
    for sums, pulls in histories(policy.family, seed=2, count=3):
        pulls[0] = sums[0] = 0.0
        order = np.random.default_rng(3).permutation(sums.size)
        index = policy.index(sums, pulls, t=2000)
        np.testing.assert_array_equal(policy.index(sums[order], pulls[order], t=2000), index[order])


def check_unplayed_arms_come_first(policy: Policy) -> None:
    """A deterministic policy without a prior ranks an arm never played no lower than any other."""
    policy = _ready(policy)
    if policy.random or policy.rule.learns_prior or policy.remembers:
        return
    for sums, pulls in histories(policy.family, seed=4, count=3):
        sums[2] = pulls[2] = 0.0
        index = policy.index(sums, pulls)
        assert index[2] == index.max(), f"the arm never played must come first, but indices are {index.tolist()}"


def check_prior(policy: Policy) -> None:
    """A policy that learns a prior has the one that the counts give, or the one given; any other takes none."""
    policy = _ready(policy)
    if policy.remembers:
        return
    if not policy.rule.learns_prior:
        refused(lambda: policy.index([0.0], [0.0], rng=_rng(policy), prior=Prior()), "learns one", policy.spec)
        return
    for sums, pulls in histories(policy.family, seed=11, count=3):
        index = policy.index(sums, pulls)
        np.testing.assert_array_equal(policy.index(sums, pulls, prior=fit_prior(sums, pulls)), index)
        assert (policy.index(sums, pulls, prior=Prior()) != index).any()


def check_no_nan(policy: Policy) -> None:
    """Indices are numbers at every round, with arms never played, at the ends of the means, and alone."""
    policy = _ready(policy)
    if policy.remembers:
        return
    low, high = policy.family.mean_bounds
    for sums, pulls in histories(policy.family, seed=5, count=3):
        pulls[:2] = sums[:2] = 0.0
        if low > -math.inf:
            sums[2] = low * pulls[2]
        if high < math.inf:
            sums[3] = high * pulls[3]
        for t in (1.0, 2.0, 3.0, 1e3, 1e9):
            index = policy.index(sums, pulls, t, rng=_rng(policy))
            assert not np.isnan(index).any(), f"no index may be NaN, but at t={t:g} they are {index.tolist()}"
        assert not np.isnan(policy.index(np.zeros(3), np.zeros(3), rng=_rng(policy))).any()
        assert policy.index(sums[4:5], pulls[4:5], rng=_rng(policy)).shape == (1,)
    assert policy.index([], [], rng=_rng(policy)).shape == (0,)


def check_time(policy: Policy) -> None:
    """Without t, it is the round after the plays."""
    policy = _ready(policy)
    if policy.remembers:
        return
    sums, pulls = next(histories(policy.family, seed=6, count=1))
    default = policy.index(sums, pulls, rng=_rng(policy))
    np.testing.assert_array_equal(default, policy.index(sums, pulls, pulls.sum() + 1, rng=_rng(policy)))


def check_spec(policy: Policy) -> None:
    """The spec makes the policy again, with and without a horizon, where the policy has a name in specs."""
    named = policy.name in available()
    for each in (policy, _ready(policy)):
        again = make_policy(each.spec, family=each.family) if named else _make(each, **each.arguments)
        assert again == each, f"{each.spec!r} must make {each!r}, but makes {again!r}"
        assert hash(again) == hash(each)
        assert again.spec == each.spec
        assert each.name in repr(each)
        assert str(each.family) in repr(each)


def _make(policy: Policy, **arguments: Any) -> Policy:
    """The policy with these arguments and otherwise its defaults; it forgets as it did."""
    plain = Policy(policy.entry, {}, policy.family, policy.rule)
    return make_policy(plain, family=policy.family, **(_forgets(policy) | arguments))


def check_horizon(policy: Policy) -> None:
    """A horizon is asked for where it is needed, and is the same wherever it is given."""
    sums, pulls = next(histories(policy.family, seed=7, count=1))
    if policy.remembers:
        if policy.needs_horizon:
            refused(lambda: Bandit(policy), "needs the horizon")
        return
    if not policy.needs_horizon:
        index = policy.index(sums, pulls, rng=_rng(policy))
        if policy.rule.horizon == 0.0:
            np.testing.assert_array_equal(policy.at_horizon(77.0).index(sums, pulls, rng=_rng(policy)), index)
        return
    refused(lambda: policy.index(sums, pulls), "needs the horizon")
    refused(lambda: Bandit(policy), "needs the horizon")
    refused(lambda: policy.at_horizon(0.5), "1 <= horizon", "0.5")
    refused(lambda: policy.index(sums, pulls, horizon=-3), "1 <= horizon", "-3")
    at = policy.at_horizon(_HORIZON)
    assert not at.needs_horizon
    index = at.index(sums, pulls)
    np.testing.assert_array_equal(policy.index(sums, pulls, horizon=_HORIZON), index)
    np.testing.assert_array_equal(make_policy(policy, horizon=_HORIZON).index(sums, pulls), index)


def check_randomness(policy: Policy) -> None:
    """A policy that draws needs a generator and follows its seed; any other needs none."""
    policy = _ready(policy)
    if policy.remembers:
        return
    sums, pulls = next(histories(policy.family, seed=8, count=1))
    if not policy.random:
        np.testing.assert_array_equal(policy.index(sums, pulls), policy.index(sums, pulls))
        return
    refused(lambda: policy.index(sums, pulls), "rng")
    rng = np.random.default_rng(14)
    few = [rng.integers(0, 6, pulls.size).astype(np.float64) for _ in range(20)]
    young = [(np.floor(n * rng.permutation(sums / pulls)), n) for n in few]
    differ = False
    for counts in ((sums, pulls), *young):  # among old arms a policy may have no choice left
        drawn = [policy.index(*counts, rng=np.random.default_rng(seed)) for seed in range(60)]
        np.testing.assert_array_equal(policy.index(*counts, rng=np.random.default_rng(1)), drawn[1])
        differ = differ or any((drawn[0] != other).any() for other in drawn)
    assert differ, "different seeds must give different indices"


def check_errors(policy: Policy) -> None:
    """The error for impossible counts states the rule, the value and the position."""
    policy = _ready(policy)
    if policy.remembers:
        return
    sums, pulls = next(histories(policy.family, seed=9, count=1))
    low, high = policy.family.mean_bounds

    def index(sums: Any = sums, pulls: Any = pulls, t: float | None = None) -> Floats:
        return policy.index(sums, pulls, t, rng=_rng(policy))

    refused(lambda: index(pulls=-pulls), "0 <= pulls", "position 0")
    refused(lambda: index(sums=sums[:3]), "one length", "(3,)")
    refused(lambda: index(sums=[sums], pulls=[pulls]), "one-dimensional")
    refused(lambda: index(t=0), "1 <= t", "0")
    if low > -math.inf:
        refused(lambda: index(sums=(low - 1.0) * pulls), f"{low:g} <= sums/pulls")
    if high < math.inf:
        refused(lambda: index(sums=(high + 1.0) * pulls), f"sums/pulls <= {high:g}")


# Arguments --------------------------------------------------------------------------------------------


def _game(policy: Policy) -> list[int]:
    """The arms that a policy plays in a game."""
    sums, pulls = next(histories(policy.family, seed=13, count=1, arms=3))
    bandit, rewards, played = Bandit(policy, arms=3, seed=2, ties="first"), sums / pulls, list[int]()
    for step in range(200):
        played.append(int(bandit.select()))
        bandit.update(played[-1], rewards[(played[-1] + step // 100) % 3])
    return played


def _alternatives(key: str, default: object) -> list[Any]:
    """Values of an argument that ought to give different choices."""
    if isinstance(default, bool):
        return [False, True]
    if key == "ball":
        return list(balls.available())
    if key == "level":
        return list(levels.available())
    if default is None:
        return [_HORIZON, 3e5] if key == "horizon" else [None, 0.3]
    if isinstance(default, int):
        return [default, default + default // 3 + 1]
    assert isinstance(default, (int, float)), f"no alternative is known for {key}={default!r}"
    return [default, 1.3 * default + 0.05]


def check_arguments_arrive(policy: Policy) -> None:
    """Changing any argument changes some index, beside at least one choice of the others."""
    parameters = policy.entry.parameters
    for key in parameters:
        others = {other: _alternatives(other, default) for other, default in parameters.items() if other != key}
        fewest_first = sorted(
            itertools.product(*others.values()),
            key=lambda values: sum(value != first[0] for value, first in zip(values, others.values(), strict=True)),
        )
        contexts = (dict(zip(others, values, strict=True)) for values in fewest_first)
        found = any(_differ(policy, key, context, parameters[key]) for context in contexts)
        assert found, f"changing {key} must change some index of {policy.name}"


def _differ(policy: Policy, key: str, context: dict[str, Any], default: object) -> bool:
    made = [_make(policy, **context, **{key: value}) for value in _alternatives(key, default)]
    if policy.remembers:
        return any(len({tuple(play(_ready(each))) for each in made}) > 1 for play in (_game, _swap))
    for seed, (sums, pulls) in enumerate(histories(policy.family, seed=10, count=40 if policy.random else 2)):
        t = pulls.sum() + 1
        first, *rest = (_ready(each).index(sums, pulls, t, rng=_rng(each, seed)) for each in made)
        if any((first != other).any() for other in rest):
            return True
    return False
