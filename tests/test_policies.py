"""The conformance suite over every policy there is, with every family it makes sense for."""

from __future__ import annotations

import math

import pytest

from hellinger import families, policies, policy
from hellinger.policies import balls, levels
from hellinger.testing.policies import check_policy, policy_checks


def sensible(name: str, family: families.Family) -> bool:
    if name == "thompson":
        return family.posterior is not None
    if name == "laplace-thompson":
        return family._natural_bounds() == (-math.inf, math.inf)
    if name == "bayes-ucb":
        return family.posterior_quantile
    if name in ("cold-start", "ids"):
        return family.name == "bernoulli"
    if name.startswith(("exp3", "rexp3", "empirical")):
        return math.isfinite(family.mean_bounds[1] - family.mean_bounds[0])
    return True


# one case of each family: another case runs the same compiled code
FAMILIES = [next(family.cases()) for family in families.available().values()]
PAIRS = [(name, family) for name in policies.available() for family in FAMILIES if sensible(name, family)]
FORGETFUL = ["ucb1(window=500)", "kl-ucb(discount=0.99)", "hellinger-ucb(detect=0.05)"]
GRID = [f"ucb(ball={ball.name}, level={level})" for ball in balls.Ball.__subclasses__() for level in levels.available()]


@pytest.mark.parametrize(("name", "family"), PAIRS, ids=lambda value: getattr(value, "spec", value))
def test_conformance(name: str, family: families.Family) -> None:
    for check_name, check in policy_checks().items():
        if check_name != "arguments_arrive" or family.name in ("bernoulli", "poisson"):
            check(policy(name, family=family))


@pytest.mark.parametrize("family", ["bernoulli", "poisson", "gaussian"])
@pytest.mark.parametrize("spec", FORGETFUL)
def test_policies_that_forget(spec: str, family: str) -> None:
    check_policy(spec, family=family)


@pytest.mark.parametrize("spec", GRID)
@pytest.mark.parametrize("anytime", [False, True])
def test_every_ball_with_every_level(spec: str, anytime: bool) -> None:
    for check_name, check in policy_checks().items():
        if check_name != "arguments_arrive":
            check(policy(spec, anytime=anytime))
