"""The grid: the largest mean within a ball whose radius is a level over the pulls."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from hellinger.errors import require, warn
from hellinger.families import Family
from hellinger.policies import _dispatch as d
from hellinger.policies import balls, levels
from hellinger.policies._registry import named
from hellinger.policies._rule import Floats, Rule

__all__ = ["Ucb"]


class _Parameters(NamedTuple):
    family: Family
    ball: balls.Ball
    level: levels.Level


class Ucb(_Parameters, Rule):
    """max{q : ball(sum/n, q) ≤ level/n}; an arm never played has the largest q of all."""

    __slots__ = ()

    @property
    def relative(self) -> bool:  # type: ignore[override]
        """Only where the level looks at all counts."""
        return self.level.crowded

    @property
    def rising(self) -> bool:
        """Every level of the library's rises with t, unless it looks at all counts; a user's, if it says so."""
        return self.monotone

    @property
    def monotone(self) -> bool:
        """Where ball and level are, and the level does not look at all counts."""
        return self.ball.monotone and self.level.monotone and not self.relative

    @property
    def horizon(self) -> float:
        """That of the level."""
        return self.level.horizon

    def at_horizon(self, horizon: float) -> Rule:
        """Set the level's horizon, unless it is anytime or has none."""
        if self.level.horizon == 0.0:
            return self
        return self._replace(level=self.level._replace(horizon=float(horizon)))

    def _score(self, s: float, n: float, t: float, arms: float) -> float:
        q = d.upper(self.ball, self.family, s / n, d.level(self.level, n, t, arms) / n)
        return d.ceiling(self.ball, self.family) if n == 0.0 else q


class CrowdedUcb(Ucb):
    """The same for a level that weighs each arm against all others, in one sort of the counts."""

    __slots__ = ()

    def _fill(self, sums: Floats, pulls: Floats, t: float, arms: float, rng: Any, out: Floats) -> None:
        # Σⱼ min(1, √(Nⱼ/Nᵢ)) = #{Nⱼ ≥ Nᵢ} + Σ_{Nⱼ < Nᵢ} √Nⱼ / √Nᵢ
        order = np.argsort(pulls)
        below = 0.0
        i = 0
        while i < order.size:
            n = pulls[order[i]]
            j = i
            while j < order.size and pulls[order[j]] == n:
                j += 1
            rivals = (order.size - i) + below / math.sqrt(n)
            for k in range(i, j):
                out[order[k]] = d.score(self, sums[order[k]], n, t, rivals)
            below += (j - i) * math.sqrt(n)
            i = j


def grid(family: Family, ball: balls.Ball, level: levels.Level) -> Ucb:
    """Return the rule for this ball and this level."""
    return (CrowdedUcb if level.crowded else Ucb)(family, ball, level)


def _hellinger_scale(c: float) -> float:
    require(0 < c <= 0.5, "0 < c <= 1/2", c=c)
    if c <= 0.25:
        warn(
            f"c={c:g} is outside (1/4, 1/2]: a Hellinger ball this small explores less than the Lai–Robbins "
            "bound allows on some problems, so that some runs never leave a wrong arm"
        )
    return c


@named("ucb")
def ucb(
    family: Family,
    *,
    ball: str | type[balls.Ball] | balls.Ball = "hellinger",
    level: str | type[levels.Level] | levels.Level = "log",
    scale: float = 1.0,
    extra: float = 0.0,
    variance: float = 1.0,
    horizon: float | None = None,
    anytime: bool = False,
) -> Rule:
    """Any ball with any level, as ``ucb(ball=hellinger, level=moss, scale=0.27, anytime=true)``.

    Formula: max{q : ball(m, q) ≤ scale·level/n}.
    Reference: the common form of the policies below.
    """
    chosen = levels.get(level, scale=scale, extra=extra, horizon=horizon, anytime=anytime)
    return grid(family, balls.get(ball, variance=variance), chosen)


@named("hellinger-ucb")
def hellinger_ucb(family: Family, *, c: float = 0.27) -> Rule:
    """Hellinger-UCB, the paper's policy.

    Formula: max{q : B(m, q) ≤ c·log t/n}, c in (¼, ½].
    Reference: Yang, Wang & Mullhaupt, Hellinger-UCB, eq. 3.3 and algorithm 1.
    """
    return grid(family, balls.Hellinger(), levels.get("log", scale=_hellinger_scale(c)))


@named("hellinger-ucb+")
def hellinger_ucb_plus(family: Family, *, c: float = 0.27) -> Rule:
    """Hellinger ball with the level of KL-UCB⁺.

    Formula: max{q : B(m, q) ≤ c·log⁺(t/n)/n}.
    Reference: kl-UCB⁺ (Garivier & Cappé 2011, section 5) with the ball of Hellinger-UCB, eq. 3.3.
    """
    return grid(family, balls.Hellinger(), levels.get("plus", scale=_hellinger_scale(c)))


@named("hellinger-ucb++")
def hellinger_ucb_plusplus(
    family: Family, *, c: float = 0.27, horizon: float | None = None, anytime: bool = False
) -> Rule:
    """Hellinger ball with the level of KL-UCB⁺⁺.

    Formula: max{q : B(m, q) ≤ c·log⁺(y(1 + log⁺²y))/n}, y = T/(K·n).
    Reference: kl-UCB⁺⁺ (Ménard & Garivier 2017, eq. 6) with the ball of Hellinger-UCB, eq. 3.3.
    """
    chosen = levels.get("plusplus", scale=_hellinger_scale(c), horizon=horizon, anytime=anytime)
    return grid(family, balls.Hellinger(), chosen)


@named("ucb1")
def ucb1(family: Family, *, variance: float = 1.0) -> Rule:
    """UCB1, whatever the family.

    Formula: m + √(2·variance·log t/n), variance 1.
    Reference: Auer, Cesa-Bianchi & Fischer 2002, figure 1.
    """
    return grid(family, balls.get("gaussian", variance=variance), levels.get("log"))


@named("agrawal")
def agrawal(family: Family, *, variance: float = 0.25) -> Rule:
    """Agrawal's index of the sample mean; variance ¼ for rewards in [0, 1], σ² for normal ones.

    Formula: m + √(2·variance·(log t + log log t)/n).
    Reference: Agrawal 1995, section 4.
    """
    return grid(family, balls.get("gaussian", variance=variance), levels.get("loglog", extra=1.0))


@named("kl-ucb")
def kl_ucb(family: Family, *, c: float = 0.0) -> Rule:
    """KL-UCB; c = 3 is the proof's, 0 the practice's.

    Formula: max{q : KL(m ‖ q) ≤ (log t + c·log log t)/n}.
    Reference: Garivier & Cappé 2011, algorithm 1.
    """
    require(0 <= c < math.inf, "0 <= c", c=c)
    return grid(family, balls.KullbackLeibler(), levels.get("loglog", extra=c))


@named("kl-ucb+")
def kl_ucb_plus(family: Family) -> Rule:
    """KL-UCB⁺, whose level shrinks with the arm's own pulls.

    Formula: max{q : KL(m ‖ q) ≤ log⁺(t/n)/n}.
    Reference: Garivier & Cappé 2011, section 5; Cappé et al. 2013.
    """
    return grid(family, balls.KullbackLeibler(), levels.get("plus"))


@named("kl-ucb++")
def kl_ucb_plusplus(family: Family, *, horizon: float | None = None, anytime: bool = False) -> Rule:
    """KL-UCB⁺⁺, minimax and asymptotically optimal at a known horizon.

    Formula: max{q : KL(m ‖ q) ≤ log⁺(y(1 + log⁺²y))/n}, y = T/(K·n).
    Reference: Ménard & Garivier 2017, eq. 6.
    """
    chosen = levels.get("plusplus", horizon=horizon, anytime=anytime)
    return grid(family, balls.KullbackLeibler(), chosen)


@named("moss")
def moss(family: Family, *, variance: float = 0.5, horizon: float | None = None, anytime: bool = False) -> Rule:
    """MOSS, minimax optimal at a known horizon for rewards in [0, 1].

    Formula: m + √(2·variance·log⁺(T/(K·n))/n), variance ½.
    Reference: Audibert & Bubeck 2009, eq. 5.
    """
    chosen = levels.get("moss", horizon=horizon, anytime=anytime)
    return grid(family, balls.get("gaussian", variance=variance), chosen)


@named("moss-anytime")
def moss_anytime(family: Family, *, alpha: float = 1.35) -> Rule:
    """MOSS without a horizon.

    Formula: m + √((1 + α)/2·log⁺(t/(K·n))/n).
    Reference: Degenne & Perchet 2016, algorithm 1.
    """
    require(0 <= alpha < math.inf, "0 <= alpha", alpha=alpha)
    chosen = levels.get("moss", scale=(1.0 + alpha) / 2.0, anytime=True)
    return grid(family, balls.get("gaussian", variance=0.5), chosen)


@named("ada-ucb")
def ada_ucb(family: Family, *, variance: float = 1.0, horizon: float | None = None, anytime: bool = False) -> Rule:
    """ADA-UCB, whose level looks at every arm's count.

    Formula: m + √(2·variance·loḡ(T/Hᵢ)/n), Hᵢ = Σⱼ min(Nᵢ, √(NᵢNⱼ)), loḡ(x) = log((x+e)√log(x+e)).
    Reference: Lattimore 2018, algorithm 1.
    """
    chosen = levels.get("ada", horizon=horizon, anytime=anytime)
    return grid(family, balls.get("gaussian", variance=variance), chosen)


@named("linucb")
def linucb(family: Family, *, alpha: float = 1.0) -> Rule:
    """LinUCB: with a linear model the one of the literature, with any other, or none, its form.

    Formula: m + α/√n; with a linear model 1/n is x′Σx.
    Reference: Li, Chu, Langford & Schapire 2010, algorithms 1 and 2.
    """
    require(0 < alpha < math.inf, "0 < alpha", alpha=alpha)
    return grid(family, balls.get("gaussian"), levels.get("constant", scale=0.5 * alpha * alpha))


@named("c2ucb")
def c2ucb(family: Family, *, dimension: float = 1.0) -> Rule:
    """C²UCB: LinUCB for several places, with a width that grows with time as its theorem has it.

    Formula: m + (√(d·log(20(1 + t))) + 1)/√n, d weights; with a linear model 1/n is x′Σx.
    Reference: Qin, Chen & Zhu 2014, algorithm 1; Abbasi-Yadkori, Pál & Szepesvári 2011, theorem 2.
    """
    require(0 < dimension < math.inf, "0 < dimension", dimension=dimension)
    return grid(family, balls.get("gaussian"), levels.get("ellipsoid", extra=dimension))
