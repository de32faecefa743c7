"""A pool that looks at everything: what the real one must agree with."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from hellinger import Pool
from hellinger.pool import Ranked


@dataclass
class Content:
    n: float = 0.0
    s: float = 0.0
    tags: frozenset[str] = frozenset()
    hidden: bool = False


@dataclass
class Model:
    """Contents in order of age, and the round."""

    contents: dict[int | str, Content] = field(default_factory=dict)
    rounds: float = 0.0

    def index(self, pool: Pool) -> npt.NDArray[np.float64]:
        """Every content's index, by the policy's own array method."""
        n = np.array([content.n for content in self.contents.values()])
        s = np.array([content.s for content in self.contents.values()])
        t = self.rounds + 1.0
        if pool.prior is not None:
            return pool.policy.index(s, n, prior=pool.prior)
        rng = np.random.default_rng([pool.seed, pool._version])
        return pool.policy.index(s, n, t=t, rng=rng)

    def check(
        self,
        pool: Pool,
        ranked: list[Ranked],
        k: int,
        index: npt.NDArray[np.float64],
        *,
        exclude: Iterable[int | str] = (),
        tags: Iterable[str] | None = None,
        among: Iterable[int | str] | None = None,
    ) -> None:
        """The ranking is that of a sort of all eligible contents."""
        wanted = None if tags is None else set(tags)
        left = None if among is None else set(among)
        eligible = [
            (name, score, content)
            for (name, content), score in zip(self.contents.items(), index.tolist(), strict=True)
            if not content.hidden
            and name not in set(exclude)
            and (wanted is None or wanted & content.tags)
            and (left is None or name in left)
        ]
        best = sorted(eligible, key=lambda entry: -entry[1])[:k]  # stable: the oldest of equals comes first
        assert [content.score for content in ranked] == [score for _, score, _ in best]
        assert len({content.id for content in ranked}) == len(ranked)
        truth = {name: (score, content.n, content.s) for name, score, content in eligible}
        assert all(truth[r.id] == (r.score, r.impressions, r.rewards) for r in ranked)
        if pool.ties == "oldest":
            assert [content.id for content in ranked] == [name for name, _, _ in best]
