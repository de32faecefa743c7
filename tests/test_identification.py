"""Identification: what is asked and answered, that errors are as rare as promised, and that all paths agree."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from typer.testing import CliRunner

from hellinger import Identification, families, theory
from hellinger.cli import app
from hellinger.identification import rates
from hellinger.identification.finder import make_race
from hellinger.identification.race import schedule
from hellinger.lab import identification as lab
from hellinger.lab._block import reward_streams
from hellinger.testing._suite import refused
from hellinger.theory.samples import _hardness

BERNOULLI = families.Bernoulli()
MEANS = np.array([0.9, 0.75, 0.4, 0.3, 0.1])


def drive(finder: Identification, means: Any = MEANS, seed: int = 3) -> Identification:
    rng = np.random.default_rng(seed)
    while not finder.done:
        for arm in finder.ask():
            finder.tell(arm, float(finder.family.sample(float(means[cast("int", arm)]), rng)))
    assert finder.ask() == []
    return finder


# Rates ------------------------------------------------------------------------------------------------


def test_the_mixture_constant_is_its_definition() -> None:
    """T(x) with h̃ as a minimum over z, found by a solver, and h⁻¹ checked by h."""
    for x in (0.5, 1.0, 3.0, 6.0, 20.0):
        u = rates._h_inverse(1.0 + x)
        assert u >= 1.0
        assert u - math.log(u) == pytest.approx(1.0 + x, rel=1e-13)
        y = 0.5 * (u + math.log(2.0 * math.pi**2 / 6.0))
        least = minimize_scalar(
            lambda z, y=y: z * (y - math.log(math.log(z))),
            bounds=(1.0 + 1e-9, 1.5),
            method="bounded",
            options={"xatol": 1e-12},
        )
        assert rates._mixture_constant(x) == pytest.approx(2.0 * least.fun, rel=1e-6)
        assert rates._mixture_constant(x) <= 2.0 * least.fun + 1e-9


def test_the_beta_rate_is_a_likelihood_ratio() -> None:
    """n·KL(m ‖ q) ≤ threshold exactly where the mixture's likelihood is at most K/δ times that of q."""
    rate = rates.get("beta", family=BERNOULLI, scale=1.0, arms=4, delta=0.1)
    for s, n in ((0.0, 3.0), (7.0, 7.0), (30.0, 100.0)):
        for q in (0.05, 0.3, 0.8):
            excess = n * BERNOULLI.kl(s / n, q) - rate._threshold(s, n, 1.0)
            mixed = math.lgamma(1 + s) + math.lgamma(1 + n - s) - math.lgamma(2 + n)
            ratio = mixed - s * math.log(q) - (n - s) * math.log1p(-q) - math.log(4 / 0.1)
            assert excess == pytest.approx(ratio, abs=1e-10)


def test_published_rates() -> None:
    lucb1 = rates.get("lucb1", family=BERNOULLI, scale=1.0, arms=10, delta=0.1)
    assert lucb1._threshold(1.0, 2.0, 7.0) == pytest.approx(math.log(1.25 * 10 * 7**4 / 0.1))
    kl_lucb = rates.get("kl-lucb", family=BERNOULLI, scale=0.5, arms=10, delta=0.1)
    y = math.log(405.5 * 10 * 7**1.1 / 0.1)
    assert kl_lucb._threshold(1.0, 2.0, 7.0) == pytest.approx(0.5 * (y + math.log(y)))


@pytest.mark.parametrize("rate", ["beta", "mixture"])
@pytest.mark.parametrize("half", [False, True], ids=["clicks", "halves"])
def test_intervals_hold_at_all_times(rate: str, half: bool) -> None:
    """The true mean is outside at any time in fewer than δ of 400 runs; also where rewards are 0, ½ and 1."""
    chosen = rates.get(rate, family=BERNOULLI, scale=1.0, arms=1, delta=0.1)
    mean = 0.3
    n = np.arange(1.0, 301.0)
    clicks = np.random.default_rng(1).random((2, 400, 300)) < mean
    rewards = clicks.mean(axis=0) if half else clicks[0].astype(float)
    sums = np.cumsum(rewards, axis=1)
    level = np.array([[chosen._threshold(s, k + 1.0, 1.0) for k, s in enumerate(row)] for row in sums.tolist()])
    ever = (n * BERNOULLI.kl(sums / n, mean) > level).any(axis=1)
    assert ever.mean() <= 0.1


# Asking and telling -----------------------------------------------------------------------------------


@pytest.mark.parametrize("ball", ["kl", "hellinger", "gaussian"])
def test_the_best_are_found(ball: str) -> None:
    finder = drive(Identification(5, best=2, delta=0.1, ball=ball, seed=1))
    assert finder.best == [0, 1]
    lower, upper = finder.bounds()
    assert lower[:2].min() >= upper[2:].max()
    assert repr(finder) == f"Identification(2 of 5 arms, delta=0.1, {finder.samples:,} samples, done)"


def test_the_hellinger_ball_is_wider() -> None:
    """2B ≤ KL, so half of the level holds all of the KL ball."""
    kl, twin = (Identification(3, delta=0.1, ball=ball, seed=1) for ball in ("kl", "hellinger"))
    for finder in (kl, twin):
        finder.tell_many([0, 0, 0, 1, 1, 1, 2, 2, 2], [1, 1, 0, 0, 0, 1, 0, 0, 0])
    assert (twin.bounds()[0] <= kl.bounds()[0]).all()
    assert (twin.bounds()[1] >= kl.bounds()[1]).all()


def test_asking() -> None:
    finder = Identification(["a", "b", "c"], delta=0.1, seed=2)
    assert finder.ask() == ["a", "b", "c"]
    finder.tell("b", 1.0)
    assert finder.ask() == ["a", "c"]
    assert finder.bounds()[1].tolist()[::2] == [1.0, 1.0]
    finder.tell_many(["a", "c"], [0.0, 0.0])
    assert finder.best == ["b"]
    asked = finder.ask()
    assert asked[0] == "b"
    assert asked == finder.ask(), "asked again, it answers the same"
    assert not finder.done


def test_epsilon_lets_equal_arms_be() -> None:
    finder = drive(Identification(3, best=1, delta=0.1, epsilon=0.2, seed=1), [0.8, 0.8, 0.1])
    assert finder.best[0] in (0, 1)


@pytest.mark.parametrize("family", ["poisson", "gaussian(sigma=0.5)", "exponential"])
def test_other_families(family: str) -> None:
    finder = drive(Identification(3, best=1, delta=0.1, family=family, seed=1), [3.0, 1.0, 0.5])
    assert finder.best == [0]
    assert finder.state()["rate"] == "mixture"


def test_a_budget_is_kept() -> None:
    assert schedule(4, 100).tolist() == [16, 21, 31]
    finder = Identification(5, best=2, budget=300, seed=4)
    assert finder.ask() == [0, 1, 2, 3, 4]
    drive(finder)
    assert sorted(finder.best) == [0, 1]
    assert finder.samples <= 300
    assert "budget=300" in repr(finder)


def test_no_more_than_the_budget() -> None:
    """Rewards that nobody asked for count too; when they have spent it, the answer is by what is known."""
    finder = Identification(3, best=2, budget=30, seed=1)
    finder.tell_many([0] * 29, [1] * 29)
    assert finder.ask() == [1], "one is left"
    with pytest.raises(ValueError, match=r"as many rewards as the budget.*budget=30, rewards=31"):
        finder.tell_many([1, 2], [1, 1])
    assert finder.samples == 29
    finder.tell(2, 1)
    assert finder.done
    assert finder.ask() == []
    assert sorted(map(int, finder.best)) == [0, 2]
    again = Identification.from_state(finder.state())
    assert (again.done, again.best) == (True, finder.best)


def test_best_so_far_keeps_what_is_decided() -> None:
    """An arm that was rejected is not among the best, whatever rewards come for it later."""
    finder = Identification(4, best=1, budget=200, seed=1)
    while not finder._decided:
        for arm in finder.ask():
            finder.tell(arm, float(arm != 0))
    (rejected,) = finder._decided
    finder.tell_many([rejected] * 40, [1.0] * 40)
    assert finder.arms[rejected] == 0
    assert 0 not in finder.best


@pytest.mark.parametrize(
    "arguments", [{"delta": 0.2}, {"delta": 0.2, "ball": "hellinger", "epsilon": 0.1}, {"budget": 90}]
)
def test_a_saved_one_goes_on(arguments: dict[str, Any], tmp_path: Path) -> None:
    finder = Identification(["x", "y", "z", 7], best=2, seed=5, **arguments)
    rng = np.random.default_rng(0)
    for _ in range(9):
        for arm in finder.ask():
            finder.tell(arm, float(rng.random() < 0.5))
    finder.save(tmp_path / "finder.json")
    again = Identification.load(tmp_path / "finder.json")
    assert again.state() == finder.state() == json.loads(json.dumps(finder.state()))
    assert (again.ask(), again.best, repr(again)) == (finder.ask(), finder.best, repr(finder))


def test_a_family_that_no_spec_names_is_given_again(tmp_path: Path) -> None:
    class Coin(families.Bernoulli):
        name = "two-sided"

    finder = Identification(3, rate="mixture", family=Coin())
    finder.tell(0, 1.0)
    finder.save(tmp_path / "finder.json")
    with pytest.raises(ValueError, match="unknown family 'two-sided'"):
        Identification.load(tmp_path / "finder.json")
    again = Identification.load(tmp_path / "finder.json", family=Coin())
    assert isinstance(again.family, Coin)
    assert again.state() == finder.state()


# Simulation -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rate", ["beta", "kl-lucb"])
def test_simulated_runs_are_what_a_finder_does(rate: str) -> None:
    """The compiled run makes the same plays as the class, reward for reward."""
    race = make_race(BERNOULLI, arms=5, best=2, delta=0.1, ball="kl", rate=rate)
    streams = reward_streams(np.uint64(9), np.uint64(0), np.arange(5))
    pulls, order = np.zeros(5), np.empty(5, np.int64)
    assert lab.play_race(race, 0.0, MEANS, streams, 10**6, pulls, order)
    finder = Identification(5, best=2, delta=0.1, rate=rate)
    finder._ties = np.arange(5)
    while not finder.done:
        for arm in finder.ask():
            finder.tell(arm, _reward(streams, int(arm), finder.pulls[int(arm)]))
    assert finder.pulls.tolist() == pulls.tolist()
    assert finder.best == order[:2].tolist()


def test_simulated_searches_are_what_a_finder_does() -> None:
    streams = reward_streams(np.uint64(3), np.uint64(0), np.arange(5))
    pulls = np.zeros(5)
    found = lab.play_search(BERNOULLI, 2, schedule(5, 200), MEANS, streams, pulls)
    finder = Identification(5, best=2, budget=200)
    finder._ties = np.arange(5)
    while not finder.done:
        for arm in finder.ask():
            finder.tell(arm, _reward(streams, int(arm), finder.pulls[int(arm)]))
    assert finder.pulls.tolist() == pulls.tolist()
    assert sorted(finder.best) == sorted(found.tolist())


def _reward(streams: Any, arm: int, n: float) -> float:
    sums, pulls = np.zeros(5), np.full(5, n)
    lab._draw(BERNOULLI, MEANS, streams, arm, sums, pulls)
    return float(sums[arm])


def test_errors_are_as_rare_as_promised_and_samples_above_the_bound() -> None:
    means = [0.6, 0.5, 0.3, 0.3]
    results = lab.identify(means, delta=0.2, balls=["kl", "hellinger"], runs=400, seed=2)
    least = theory.least_samples(means, delta=0.2)
    for result in results:
        assert result.wrong <= 0.2 * result.runs
        assert result.unfinished == 0
        assert result.samples - 3 * result.error > least
    assert results[0].samples < results[1].samples
    assert lab.identify(means, delta=0.2, balls=["kl"], runs=400, seed=2, workers=1) == results[:1]
    (search,) = lab.identify(means, budget=2000, runs=400, seed=2)
    assert search.wrong <= 0.05 * search.runs
    assert search.samples <= 2000


def test_runs_are_given_up() -> None:
    (result,) = lab.identify([0.5, 0.499], balls=["kl"], runs=3, most=100)
    assert (result.unfinished, result.wrong, result.samples) == (3, 0, 100)


# The lower bound --------------------------------------------------------------------------------------


def test_least_samples_of_two_gaussian_arms() -> None:
    """T* = 8σ²/Δ²."""
    kl = float(BERNOULLI.kl(0.1, 0.9))
    got = theory.least_samples([1.0, 0.6], delta=0.1, family="gaussian(sigma=0.5)")
    assert got == pytest.approx(8 * 0.25 / 0.16 * kl, rel=2e-6)


@pytest.mark.parametrize(
    ("means", "shares"),
    [
        ([0.5, 0.45, 0.43, 0.4], [0.417, 0.390, 0.136, 0.057]),
        ([0.3, 0.21, 0.2, 0.19, 0.18], [0.336, 0.251, 0.177, 0.132, 0.104]),
    ],
)
def test_shares_are_those_of_garivier_and_kaufmann(means: list[float], shares: list[float]) -> None:
    """They print the best shares of both problems to three digits."""
    _, got = _hardness(BERNOULLI, np.array(means), 1)
    assert got == pytest.approx(shares, abs=1.5e-3)


def test_least_samples_of_several_is_a_maximum() -> None:
    """No shares drawn at random are better than what was found, and those found reach it."""
    means = np.array([0.8, 0.7, 0.5, 0.4, 0.2])
    most, shares = _hardness(BERNOULLI, means, 2)

    def value(w: Any) -> float:
        pairs = []
        for a in range(2):
            for b in range(2, 5):
                middle = (w[a] * means[a] + w[b] * means[b]) / (w[a] + w[b])
                pairs.append(w[a] * BERNOULLI.kl(means[a], middle) + w[b] * BERNOULLI.kl(means[b], middle))
        return float(min(pairs))

    assert value(shares) == pytest.approx(most, rel=2e-6)
    rng = np.random.default_rng(0)
    near = np.abs(shares * (1 + 0.1 * rng.standard_normal((200, 5))))
    for w in [*rng.dirichlet(np.ones(5), 200), *(near / near.sum(axis=1, keepdims=True))]:
        assert value(w) <= most
    assert theory.least_samples([0.5, 0.5, 0.1]) == math.inf
    assert theory.least_samples([0.5, 0.1], delta=0.7) == 0.0


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: Identification(3, best=3), ["1 <= best < arms", "best=3"]),
        (lambda: Identification(3, delta=0.0), ["0 < delta < 1", "0.0"]),
        (lambda: Identification(3, epsilon=-1), ["0 <= epsilon", "-1"]),
        (lambda: Identification(["a", "a"]), ["differ", "a"]),
        (lambda: Identification(3, rate="beta", family="poisson"), ["family bernoulli", "Poisson"]),
        (lambda: Identification(3, rate="alpha"), ["rate", "beta"]),
        (lambda: Identification(3, ball="gaussian", family="poisson"), ["bounded or Gaussian", "Poisson"]),
        (lambda: Identification(3, budget=3), ["arms < budget", "3"]),
        (lambda: Identification(3, budget=30, delta=0.1), ["without a budget", "0.1"]),
        (lambda: Identification(3, budget=30).bounds(), ["fixed confidence", "30"]),
        (lambda: Identification(3).tell(9, 1.0), ["one of those present", "9"]),
        (lambda: Identification(3).tell(0, 2.0), ["0 <= reward <= 1", "2.0"]),
        (lambda: Identification(3, best=math.nan), ["1 <= best < arms", "nan"]),  # type: ignore[arg-type]
        (lambda: Identification(3, budget=math.nan), ["arms < budget", "nan"]),  # type: ignore[arg-type]
        (lambda: Identification(3, budget=30, ball="kl"), ["without a budget", "ball='kl'"]),
        (lambda: Identification(3, seed=-1), ["0 <= seed", "-1"]),
        (lambda: Identification(3).tell(0, np.float64(2.0)), ["0 <= reward <= 1", "got 2.0"]),
        (lambda: Identification.from_state({}), ["format"]),
        (lambda: Identification.from_state(Identification(3).state() | {"sums": [0.0]}), ["one sum and one count"]),
        (lambda: theory.least_samples([0.5]), ["at least two"]),
        (lambda: lab.identify([0.5, 0.5], runs=1), ["larger means", "0.5"]),
        (lambda: lab.identify([0.5, 0.3], budget=90, delta=0.1), ["without a budget", "0.1"]),
        (lambda: lab.identify([0.5, 0.3], budget=90, rates=["beta"]), ["without a budget", "beta"]),
    ],
)
def test_errors(call: Callable[[], Any], words: list[str]) -> None:
    refused(call, *words)


def test_the_command(tmp_path: Path) -> None:
    words = ["identify", "--means", "0.9,0.5,0.1", "--delta", "0.2", "--balls", "kl", "--runs", "20"]
    shown = CliRunner().invoke(app, words)
    assert shown.exit_code == 0, shown.output
    assert "kl, beta" in shown.output
    assert "0 of 20" in shown.output
    drawn = CliRunner().invoke(app, [*words, "--plot", str(tmp_path / "samples.svg"), "--json"])
    found = json.loads(drawn.output)
    assert found["lower_bound"] == theory.least_samples([0.9, 0.5, 0.1], delta=0.2)
    assert [method["wrong"] for method in found["methods"]] == [0]
    assert "lower bound" in (tmp_path / "samples.svg").read_text("utf-8")
    search = json.loads(CliRunner().invoke(app, [*words[:3], "--budget", "60", "--runs", "5", "--json"]).output)
    assert search["lower_bound"] is None
    assert search["methods"][0]["samples"] <= 60
