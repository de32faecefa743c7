"""KL-UCB-switch: a KL ball while an arm is young, a Gaussian one afterwards."""

from __future__ import annotations

from typing import NamedTuple

from hellinger.families import Family
from hellinger.policies import _dispatch as d
from hellinger.policies import balls, levels
from hellinger.policies._registry import named
from hellinger.policies._rule import Rule

__all__ = ["Switch"]


class _Parameters(NamedTuple):
    family: Family
    young: balls.Ball
    old: balls.Ball
    level: levels.Level


class Switch(_Parameters, Rule):
    """``young``'s ball up to (T/K)^(1/5) pulls, ``old``'s beyond."""

    __slots__ = ()

    @property
    def horizon(self) -> float:
        """That of the level."""
        return self.level.horizon

    @property
    def rising(self) -> bool:
        """At a fixed horizon time does not matter; anytime, an arm may turn young again."""
        return self.level.horizon != 0.0

    @property
    def monotone(self) -> bool:
        """No: the index may jump where the ball changes."""
        return False

    def at_horizon(self, horizon: float) -> Rule:
        """Set the level's horizon, unless anytime."""
        if self.level.horizon == 0.0:
            return self
        return self._replace(level=self.level._replace(horizon=float(horizon)))

    def _score(self, s: float, n: float, t: float, arms: float) -> float:
        if n == 0.0:
            return d.ceiling(self.old, self.family)
        radius = d.level(self.level, n, t, arms) / n
        horizon = self.level.horizon if self.level.horizon > 0.0 else t
        if n <= (horizon / arms) ** 0.2:
            return d.upper(self.young, self.family, s / n, radius)
        return d.upper(self.old, self.family, s / n, radius)


@named("kl-ucb-switch")
def kl_ucb_switch(
    family: Family, *, variance: float = 0.25, horizon: float | None = None, anytime: bool = False
) -> Rule:
    """KL-UCB-switch, minimax and asymptotically optimal at once.

    Formula: max{q : KL(m ‖ q) ≤ log⁺(T/(K·n))/n} up to (T/K)^(1/5) pulls, then m + √(2·variance·log⁺(T/(K·n))/n).
    Reference: Garivier, Hadiji, Ménard & Stoltz 2022, eqs. 7 to 10.
    """
    name = "plusplus" if anytime else "moss"
    chosen = levels.get(name, horizon=horizon, anytime=anytime)
    return Switch(family, balls.KullbackLeibler(), balls.get("gaussian", variance=variance), chosen)
