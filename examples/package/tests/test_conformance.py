"""hellinger's own suite on what this package adds."""

from __future__ import annotations

import hellinger
from hellinger.testing import check_policy


def test_the_policy_conforms() -> None:
    check_policy("optimist")
    check_policy("optimist(bonus=2)", family="poisson")


def test_the_policy_is_found_and_ranks_a_pool() -> None:
    assert hellinger.policies.available()["optimist"].package == "hellinger-example"
    pool = hellinger.Pool("optimist")
    pool.add(["a", "b", "c"], [10, 20, 30], [1, 8, 3])
    assert [row.id for row in pool.rank(3)] == ["b", "a", "c"]
    assert "grouped" in pool.explain()


def test_the_family_is_found_and_has_its_bounds() -> None:
    family = hellinger.families.get("rate(exposure=24)")
    assert abs(family.hellinger_upper(0.5, 0.01) - hellinger.families.Poisson().hellinger_upper(0.5, 0.01 / 24)) < 1e-9
    index = hellinger.policy("hellinger-ucb", family=family).index([6.0], [10], t=100)
    assert index.round(6).tolist() == [0.768057]
