"""Levels: how much confidence an arm is given, as a function of its pulls, the time and the crowd.

A new level is one function here: ``f(extra, n, t, arms, horizon)`` under the decorator ``@level``. It
becomes a NamedTuple class of the same name, so that compiled code is specialised to it, and is at
once available with every ball. ``horizon`` is T, or t where the level is used anytime.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

from hellinger._jit import Component, helper
from hellinger.errors import UnknownNameError, require
from hellinger.policies._names import note_name

__all__ = [
    "Level",
    "ada",
    "available",
    "constant",
    "ellipsoid",
    "get",
    "level",
    "log",
    "loglog",
    "moss",
    "plus",
    "plusplus",
    "remaining",
    "sparse",
]


class _Parameters(NamedTuple):
    scale: float
    extra: float
    horizon: float


class Level(Component, _Parameters):
    """scale · f(extra, n, t, arms, horizon), never negative.

    A level of your own is a function under the decorator :func:`level`, or a subclass of this with a ``name`` and a
    method ``_level(n, t, arms)``.
    """

    __slots__ = ()
    name: ClassVar[str]
    summary: ClassVar[str] = ""
    uses_horizon: ClassVar[bool] = False
    crowded: ClassVar[bool] = False
    """``arms`` is not K but ADA-UCB's effective number of competitors, Σⱼ min(1, √(Nⱼ/Nᵢ))."""
    monotone: ClassVar[bool] = False
    """Whether level/n falls with n and the level never falls with t: only then do pool and simulator use shortcuts."""

    def __init_subclass__(cls) -> None:
        """Note the level's name, which must be its own."""
        super().__init_subclass__()
        if "name" in vars(cls):
            note_name("level", _LEVELS, cls.name, cls)

    def _level(self, n: float, t: float, arms: float) -> float:
        raise NotImplementedError


_LEVELS: dict[str, type[Level]] = {}


def level(
    *, uses_horizon: bool = False, crowded: bool = False, monotone: bool = False
) -> Callable[[Callable[..., float]], type[Level]]:
    """Make a level of a function; :class:`Level` says what the flags mean."""

    def decorate(function: Callable[..., float]) -> type[Level]:
        compiled = helper(function)

        def _level(self: Level, n: float, t: float, arms: float) -> float:
            horizon = self.horizon if self.horizon > 0.0 else t
            value = self.scale * compiled(self.extra, n, t, arms, horizon)
            return 0.0 if value < 0.0 else value

        namespace: dict[str, Any] = {
            "__slots__": (),
            "__module__": function.__module__,
            "__qualname__": function.__qualname__,
            "__doc__": function.__doc__,
            "_level": _level,
            "name": function.__name__,
            "summary": (function.__doc__ or "").strip().split("\n")[0],
            "uses_horizon": uses_horizon,
            "crowded": crowded,
            "monotone": monotone,
        }
        return type(function.__name__, (Level,), namespace)

    return decorate


@level(monotone=True)
def constant(extra: float, n: float, t: float, arms: float, horizon: float) -> float:
    """1, whatever the time: LinUCB (Li et al. 2010, algorithm 1) has ½α²."""
    return 1.0


@level(monotone=True)
def ellipsoid(extra: float, n: float, t: float, arms: float, horizon: float) -> float:
    """½(√(extra·log(20(1 + t))) + 1)²: C²UCB, for extra weights of unit length at most, at 95 % confidence."""
    root = math.sqrt(extra * math.log(20.0 * (1.0 + t))) + 1.0
    return 0.5 * root * root


@level(monotone=True)
def log(extra: float, n: float, t: float, arms: float, horizon: float) -> float:
    """log t: UCB1 (Auer et al. 2002, fig. 1) and, times c, Hellinger-UCB (Yang et al., eq. 3.3)."""
    return math.log(t)


@level(monotone=True)
def loglog(extra: float, n: float, t: float, arms: float, horizon: float) -> float:
    """log t + extra·log log t: KL-UCB (Garivier & Cappé 2011, algorithm 1)."""
    plain = math.log(t)
    return plain + extra * math.log(plain) if plain > 1.0 else plain


@level(monotone=True)
def plus(extra: float, n: float, t: float, arms: float, horizon: float) -> float:
    """log⁺(t/n): kl-UCB⁺ (Garivier & Cappé 2011, section 5; Ménard & Garivier 2017, eq. 3)."""
    return math.log(max(1.0, t / n))


@level(uses_horizon=True, monotone=True)
def moss(extra: float, n: float, t: float, arms: float, horizon: float) -> float:
    """log⁺(T/(K·n)): MOSS (Audibert & Bubeck 2009, eq. 5); with t for T it suits a cold-start pool."""
    return math.log(max(1.0, horizon / (arms * n)))


@level(uses_horizon=True, monotone=True)
def sparse(extra: float, n: float, t: float, arms: float, horizon: float) -> float:
    """log(e² + T/(K·n)): MOSS's level that never falls below 2, for arms scored with a prior's pseudo-counts."""
    return math.log(math.e * math.e + horizon / (arms * n))


@level(monotone=True)
def remaining(extra: float, n: float, t: float, arms: float, horizon: float) -> float:
    """log(1 + t/n), with the plays still to come for t: about a finite-horizon Gittins index (Lattimore 2016)."""
    return math.log1p(t / n)


@level(uses_horizon=True, monotone=True)
def plusplus(extra: float, n: float, t: float, arms: float, horizon: float) -> float:
    """log⁺(y·(1 + (log⁺ y)²)), y = T/(K·n): kl-UCB⁺⁺ (Ménard & Garivier 2017, eq. 6)."""
    y = horizon / (arms * n)
    plain = math.log(max(1.0, y))
    return math.log(max(1.0, y * (1.0 + plain * plain)))


@level(uses_horizon=True, crowded=True, monotone=True)
def ada(extra: float, n: float, t: float, arms: float, horizon: float) -> float:
    """log((y+e)·√log(y+e)), y = T/Hᵢ, Hᵢ = Σⱼ min(Nᵢ, √(NᵢNⱼ)): ADA-UCB (Lattimore 2018, algorithm 1)."""
    y = horizon / (arms * n) + math.e
    return math.log(y) + 0.5 * math.log(math.log(y))


def available() -> dict[str, type[Level]]:
    """Every level by name."""
    return dict(sorted(_LEVELS.items()))


def get(
    name: str | type[Level] | Level,
    *,
    scale: float = 1.0,
    extra: float = 0.0,
    horizon: float | None = None,
    anytime: bool = False,
) -> Level:
    """Return the level of that name or class; without a horizon one that needs it waits for it, unless anytime.

    A level passes through unchanged: it has a scale, extra and horizon of its own.
    """
    if isinstance(name, Level):
        plain = (scale, extra, horizon, anytime) == (1.0, 0.0, None, False)
        require(plain, "a level given as such has its own scale, extra and horizon", level=name)
        return name
    if isinstance(name, str) and name not in _LEVELS:
        raise UnknownNameError("level", name, list(_LEVELS))
    cls = _LEVELS[name] if isinstance(name, str) else name
    require(0 < scale < math.inf, "0 < scale", scale=scale)
    require(0 <= extra < math.inf, "0 <= extra", extra=extra)
    require(horizon is None or 1 <= horizon < math.inf, "1 <= horizon", horizon=horizon)
    if not cls.uses_horizon or anytime:
        horizon = 0.0
    return cls(float(scale), float(extra), math.nan if horizon is None else float(horizon))
