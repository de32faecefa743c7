"""A bandit that chooses among models, after Felício et al. 2017: each model is an arm, an impression's reward its own.

They choose for one person of whom nothing is known, among models that exist already. Here all people share a bandit,
since a person comes too seldom to tell models apart, and every model learns from every page, whoever filled it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from hellinger.bandit import Bandit
from hellinger.errors import require
from hellinger.policies import Policy
from hellinger.world.contextual import ContextualProblem, PagePlayer

__all__ = ["ModelChooser"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


class ModelChooser(PagePlayer):
    """Lets one of several players fill each page.

    Parameters
    ----------
    problem
        What it plays.
    policy
        By which it chooses.
    players
        Among whom; they are its own from now on.
    seed
        For ties and draws.
    """

    def __init__(
        self, problem: ContextualProblem, policy: Policy, players: Sequence[PagePlayer], *, seed: int = 0
    ) -> None:
        super().__init__(problem)
        require(len(players) > 0, "there is a model to choose", models=len(players))
        self._players = players
        self.bandit = Bandit(policy, arms=len(players), seed=seed)
        """Its arms are the players."""
        self._here = np.arange(problem.site.items)
        self._shown: dict[tuple[int, int], deque[int]] = {}

    def fill(self, person: int, slots: int, free: npt.NDArray[np.bool_]) -> Ints:
        """The chosen player's page."""
        chosen = int(self.bandit.select())
        page = self._players[chosen].fill(person, slots, free)
        for item in self._here[page].tolist():
            self._shown.setdefault((person, item), deque()).append(chosen)
        return page

    def learn(self, places: Ints, rewards: Floats, people: Ints) -> None:
        """The bandit learns who was right, and every player what was earned."""
        chosen = [
            self._shown[pair].popleft() for pair in zip(people.tolist(), self._here[places].tolist(), strict=True)
        ]
        self.bandit.update_many(chosen, rewards)
        for player in self._players:
            player.learn(places, rewards, people)

    def renew(self, places: Ints, items: Ints) -> None:
        """New items are at these places."""
        super().renew(places, items)
        gone = set(self._here[places].tolist())
        self._shown = {pair: arms for pair, arms in self._shown.items() if pair[1] not in gone and arms}
        self._here[places] = items
        for player in self._players:
            player.renew(places, items)
