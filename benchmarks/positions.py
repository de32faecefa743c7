"""What it brings to count impressions by where they were shown: on a simulated site, with looks of j^−η at position j.

Every impression counts as one, or by the curve that the service's own estimator learns meanwhile, or by the true one.
Figures are expected clicks, so that the luck of single clicks does not count; players meet the same items.

``python benchmarks/positions.py --results FILE``: some minutes. With ``--model`` the same for a variant that knows who
asks and what items are, by a model.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from _results import Results
from hellinger.engine.positions import fit_curve, worth_of
from hellinger.lab.datasets import load_problem
from hellinger.ledger.looks import Looks, Worth, lacks_of, ties_of
from hellinger.policies import policy
from hellinger.pool import Pool
from hellinger.world.contextual import ContextualProblem, PersonPool
from hellinger.world.site import Clicks, Floats, Ints, Site, turns

SITE = Site(items=5_000, slots=20, batch=10, arrivals=100, day=20_000)
PAGES = 20_000
LAW = 1.6, 100.0
RANDOM = 0.03
ETAS = 0.0, 0.5, 1.0, 1.5
PROBLEM, MODEL_PAGES, MODEL_RANDOM = "unequal", 6_000, 0.1
"""What a model plays, for how long, and its share of random rankings: a model's own scores are seldom equal."""


class Curve:
    """What an impression is worth at each position: one, as given, or as learned from rewards in random order.

    It is learned as the service does.
    """

    def __init__(self, worth: Floats | None, *, learns: bool) -> None:
        self._given: list[float] = [] if worth is None else worth.tolist()
        self._learns = learns
        self._seen, self._fitted = Looks(), 0.0

    def worth(self, slots: int) -> Floats:
        """At each of so many positions."""
        return Worth(lacks_of(self._given) if self._given else None).of(slots)

    def learn(self, ties: int, rewards: Floats) -> bool:
        """Learn from what the positions of a page earned; whether impressions are worth something else now."""
        if not self._learns or not ties:
            return False
        for position in np.flatnonzero(rewards).tolist():
            self._seen.note(ties, position, float(rewards[position]))
        if self._seen.total < 1.1 * self._fitted + 5.0:
            return False
        self._fitted = self._seen.total
        before, self._given = self._given, worth_of(fit_curve(self._seen.rewards), self._given)
        return self._given != before


class PositionPlayer:
    """A pool that counts impressions by position; it learns the curve as the service does, where it has to.

    A share of the rankings is in random order, whichever way impressions are counted.
    """

    def __init__(self, curve: Curve, rates: Floats, looks: Floats, seed: int) -> None:
        self._pool: Pool[int] = Pool("cold-start", weighted=True)
        self._pool.add(np.arange(SITE.items))
        self._rng = np.random.default_rng([seed, 1])
        self._curve, self._worth = curve, curve.worth(SITE.slots)
        self._rates, self._looks = rates, looks
        self._shown, self._clicks = np.zeros((SITE.items, SITE.slots)), np.zeros(SITE.items)
        self._here = np.arange(SITE.items)
        self._ties = 0
        self.expected = 0.0
        """Clicks expected of all pages so far."""
        self.since: int | None = None
        """Pages after which a curve was first used."""
        self._pages = 0

    def choose(self, slots: int, segments: Ints) -> Ints:
        """The best, or some at random."""
        drawn = self._rng.random() < RANDOM
        seed = int(self._rng.integers(1 << 62))
        ids, scores = self._pool.pick(slots, seed=seed, count=False)
        if drawn:
            ids = self._rng.permutation(SITE.items)[:slots].tolist()
        self._ties = ties_of({"random": drawn, "scores": scores})
        places = np.array(ids)
        self.expected += segments.size * float(self._looks @ self._rates[self._here[places]])
        self._pages += segments.size
        return places[None]

    def record(self, places: Ints, impressions: int, rewards: Floats, segments: Ints) -> None:
        """Count these, and learn where clicks came in random order."""
        self._shown[places, np.arange(places.size)] += impressions
        self._clicks[places] += rewards
        self._pool.record_many(places, impressions * self._worth, rewards)
        if self._curve.learn(self._ties, rewards):
            self._worth = self._curve.worth(SITE.slots)
            self._recount()
            self.since = self._pages if self.since is None else self.since

    def _recount(self) -> None:
        """Count all impressions anew by another curve."""
        counts = self._shown @ self._worth
        self._pool.set_counts(np.arange(SITE.items), counts, self._clicks)
        self._pool.rounds = float(counts.sum())
        self._pool.learn()

    def renew(self, places: Ints, items: Ints) -> None:
        """Begin anew with these."""
        self._pool.remove(places)
        self._pool.add(places)
        self._here[places] = items
        self._shown[places], self._clicks[places] = 0.0, 0.0


class ModelPlayer(PersonPool):
    """The same by a model of people and items: what items were shown counts by another curve as in the service."""

    def __init__(self, problem: ContextualProblem, curve: Curve, looks: Floats, seed: int) -> None:
        super().__init__(problem, policy("cold-start"), model="logistic", seed=seed)
        self._rng = np.random.default_rng([seed, 1])
        self._curve, self._worth, self._looks = curve, curve.worth(problem.site.slots), looks
        self._shown = np.zeros((problem.site.items, problem.site.slots))
        self._ties = 0
        self.expected = 0.0
        self.since: int | None = None

    def fill(self, person: int, slots: int, free: npt.NDArray[np.bool_]) -> Ints:
        """The best for a person, or some at random."""
        drawn = self._rng.random() < MODEL_RANDOM
        places = super().fill(person, slots, free)
        scores = self._pool.scores(places, context=self._context(person)).tolist()
        if drawn:
            places = self._rng.permutation(np.flatnonzero(free))[:slots]
        self._ties = ties_of({"random": drawn, "scores": scores})
        self.expected += float(self._looks @ self.problem.rates[person, places])
        return places

    def learn(self, places: Ints, rewards: Floats, people: Ints) -> None:
        """Learn from a page."""
        self._shown[places, np.arange(places.size)] += 1
        context = self._context(int(people[0]))
        self._pool.record_many(places, self._worth, rewards, contexts=context)
        if self._curve.learn(self._ties, rewards):
            self._worth = self._curve.worth(places.size)
            counts = self._shown @ self._worth
            self._pool._reweigh(np.arange(counts.size), counts)
            self._pool.rounds = float(counts.sum())
            self.since = self._pages if self.since is None else self.since


Outcome = tuple[float, int | None]
"""Expected clicks of one run, and the page from which on a curve was used."""


def play(eta: float, how: str, seed: int) -> Outcome:
    """Play by counts."""
    impressions = PAGES * SITE.slots
    come = SITE.items + SITE.arrivals * (impressions // SITE.day + 1)
    rates = np.random.default_rng([seed, 0]).beta(*LAW, come)
    looks = np.arange(1.0, SITE.slots + 1.0) ** -eta
    player = PositionPlayer(Curve(looks if how == "true" else None, learns=how == "learned"), rates, looks, seed)
    for turn in turns(SITE, player, Clicks(rates, seed, eta=eta)):
        if turn.shown + turn.rewards.size >= impressions:
            break
    return player.expected, player.since


def play_model(eta: float, how: str, seed: int) -> Outcome:
    """Play by a model."""
    problem = load_problem(f"{PROBLEM}(seed={seed})")
    looks = np.arange(1.0, problem.site.slots + 1.0) ** -eta
    player = ModelPlayer(problem, Curve(looks if how == "true" else None, learns=how == "learned"), looks, seed)
    source = Clicks(problem.rates, seed, eta=eta)
    for number, _ in enumerate(turns(problem.site, player, source, seed=seed), 1):
        if number == MODEL_PAGES:
            break
    return player.expected, player.since


def compare(eta: float, runs: int, play: Callable[[float, str, int], Outcome]) -> dict[str, Any]:
    """Mean gains over counting every impression as one, with standard errors of the means."""
    clicks = {how: np.array([play(eta, how, seed)[0] for seed in range(runs)]) for how in ("none", "true")}
    learned = [play(eta, "learned", seed) for seed in range(runs)]
    clicks["learned"] = np.array([one for one, _ in learned])
    mean = clicks["none"].mean()
    gains = {how: (clicks[how] - clicks["none"]) / mean for how in ("true", "learned")}
    since = [page for _, page in learned if page is not None]
    return {
        "clicks": mean,
        "gain": {how: (gain.mean(), gain.std(ddof=1) / np.sqrt(runs)) for how, gain in gains.items()},
        "since": float(np.median(since)) if since else None,
        "used": len(since) / runs,
    }


def _share(gain: float, error: float) -> str:
    return f"{100 * gain:+.1f} % ± {100 * error:.1f}".replace("-", "−")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, help="40, and with --model 10")
    parser.add_argument("--model", action="store_true", help="by a model of people and items")
    Results.option(parser)
    given = parser.parse_args()
    results, rows = Results(given.results), []
    runs = given.runs or (10 if given.model else 40)
    for eta in ETAS:
        found = compare(eta, runs, play_model if given.model else play)
        (true, true_error), (learned, error) = found["gain"]["true"], found["gain"]["learned"]
        since = "never" if found["since"] is None else f"{found['since']:,.0f}"
        rows.append(
            [
                f"{eta:g}",
                f"{found['clicks']:,.0f}",
                _share(true, true_error),
                _share(learned, error),
                f"{100 * found['used']:.0f} %",
                since,
            ]
        )
        print(*rows[-1], sep="   ", flush=True)
        if eta:
            results.value(f"recovered_{eta:g}".replace(".", "_"), learned / true, digits=2)
    columns = ["η", "clicks, each counts one", "true curve", "learned curve", "runs that used one", "from page"]
    results.table("gains", columns, rows)
    results.value("runs", runs)
    results.write()


if __name__ == "__main__":
    main()
