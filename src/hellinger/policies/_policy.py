"""A policy as the user holds it: a name, its arguments, a family, and the rule they make."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from hellinger import families
from hellinger._jit import inline, jit
from hellinger._spec import format_spec, parse_spec
from hellinger.errors import UnknownNameError, require
from hellinger.policies import _registry, _rule
from hellinger.policies._rule import Floats, Rule
from hellinger.policies.prior import Prior, fit_prior

__all__ = ["Policy", "policy"]


@inline
def _impossible(s: float, n: float, low: float, high: float) -> bool:
    return (n < 0.0) | (n == math.inf) | ((n > 0.0) & ((s < low * n) | (s > high * n)))


@jit
def _first_bad(sums: Floats, pulls: Floats, low: float, high: float) -> int:
    """Position of the first arm whose pulls are negative or whose mean lies outside, or −1."""
    bad = 0
    for i in range(sums.size):  # no way out of the loop, so that it vectorises
        bad += 1 if _impossible(sums[i], pulls[i], low, high) else 0
    if bad:
        for i in range(sums.size):
            if _impossible(sums[i], pulls[i], low, high):
                return i
    return -1


class Policy:
    """An index policy: arms are ranked by :meth:`index`, largest first. Made by :func:`policy`.

    Attributes
    ----------
    name, arguments
        As in the spec.
    family
        What rewards are.
    rule
        The compiled side, shared by bandit, simulator and pool.
    """

    def __init__(self, name: str, arguments: dict[str, object], family: families.Family, rule: Rule) -> None:
        self.name = name
        self.arguments = arguments
        self.family = family
        self.rule = rule

    @property
    def spec(self) -> str:
        """The text that makes this policy again: ``policy(p.spec, family=p.family)``."""
        return format_spec(self.name, self.arguments)

    @property
    def random(self) -> bool:
        """Whether the index is drawn, so that ``rng`` is needed."""
        return self.rule.random

    @property
    def needs_horizon(self) -> bool:
        """Whether a horizon must still be given."""
        return math.isnan(self.rule.horizon)

    def at_horizon(self, horizon: float) -> Policy:
        """The same policy with its horizon set; itself where it has none or is anytime."""
        require(1 <= horizon < math.inf, "1 <= horizon", horizon=horizon)
        if self.rule.horizon == 0.0:
            return self
        arguments = self.arguments | {"horizon": horizon}
        return Policy(self.name, arguments, self.family, self.rule.at_horizon(horizon))

    def ready(self, horizon: float | None = None) -> Policy:
        """The same policy, with this horizon if one is given; refused where it still lacks one it needs."""
        chosen = self if horizon is None else self.at_horizon(horizon)
        if chosen.needs_horizon:
            raise ValueError(f"{self.name} needs the horizon: give horizon= (or anytime=true, where it takes it)")
        return chosen

    def index(
        self,
        sums: npt.ArrayLike,
        pulls: npt.ArrayLike,
        t: float | None = None,
        *,
        horizon: float | None = None,
        rng: np.random.Generator | None = None,
        prior: Prior | None = None,
    ) -> Floats:
        """Index of each arm.

        Parameters
        ----------
        sums, pulls
            Reward sum and number of plays of each arm, one-dimensional; pulls may be fractional.
        t
            The round about to be played, 1 for the first; ``pulls.sum() + 1`` if not given.
        horizon
            Number of rounds to be played, for policies that need it and were not given it before.
        rng
            Source of randomness, for policies that draw.
        prior
            What was learned before, for policies that learn a prior; what these counts give if not given. With
            ``pool.prior`` this is the index of ``pool.scores``, to the bit where counts are whole numbers.
        """
        sums, pulls = np.asarray(sums, np.float64), np.asarray(pulls, np.float64)
        if sums.ndim != 1 or sums.shape != pulls.shape:
            raise ValueError(
                f"sums and pulls must be one-dimensional and of one length, but got {sums.shape} and {pulls.shape}"
            )
        low, high = self.family.mean_bounds
        bad = _first_bad(sums, pulls, low, high)
        if bad >= 0:
            raise ValueError(
                f"`0 <= pulls` and `{low:g} <= sums/pulls <= {high:g}` must hold for {self.family}, "
                f"but got sums={sums[bad]!r} and pulls={pulls[bad]!r} at position {bad}"
            )
        t = float(pulls.sum() + 1.0) if t is None else float(t)
        require(t >= 1, "1 <= t", t=t)
        if prior is not None:
            prior.check()
        out = np.empty(sums.size)
        self.fill(np.ascontiguousarray(sums), np.ascontiguousarray(pulls), t, rng, out, horizon=horizon, prior=prior)
        return out

    def fill(
        self,
        sums: Floats,
        pulls: Floats,
        t: float,
        rng: np.random.Generator | None,
        out: Floats,
        *,
        horizon: float | None = None,
        prior: Prior | None = None,
    ) -> None:
        """:meth:`index` into an array, with nothing checked but what the policy needs."""
        rule = self.ready(horizon).rule
        if rule.random and rng is None:
            raise ValueError(f"{self.name} draws at random: give rng=, a numpy.random.Generator")
        require(prior is None or rule.learns_prior, "prior goes with a policy that learns one", policy=self.spec)
        if rule.learns_prior:
            rule = rule.given(fit_prior(sums, pulls) if prior is None else prior)
        _rule.fill(rule, sums, pulls, t, rng if rule.random else None, out)

    def __repr__(self) -> str:
        return f"policy({self.spec!r}, family={self.family})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Policy) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[object, ...]:
        # not the rule: a tuple's equality does not see the class of a ball or a level
        arguments = _registry.available()[self.name].parameters | self.arguments
        return (self.name, self.family, tuple(sorted(arguments.items())))


def policy(spec: str | Policy, *, family: str | families.Family | None = None, **arguments: Any) -> Policy:
    """Make a policy from its name, or from a spec with arguments.

    Parameters
    ----------
    spec
        ``"hellinger-ucb"``, ``"kl-ucb(c=3)"``, …; see ``hellinger policies``.
    family
        A family or its spec, as ``"gamma(shape=2)"``; Bernoulli if not given.
    **arguments
        The policy's own, instead of or beside those in the spec.

    Examples
    --------
    >>> policy("kl-ucb(c=3)")
    policy('kl-ucb(c=3)', family=Bernoulli())
    >>> policy("hellinger-ucb", c=1)
    Traceback (most recent call last):
        ...
    ValueError: `0 < c <= 1/2` must hold, but got c=1
    """
    if isinstance(spec, Policy):
        if family is None and not arguments:
            return spec
        family = spec.family if family is None else family
        arguments = spec.arguments | arguments
        spec = spec.name
    name, written = parse_spec(spec)
    doubled = written.keys() & arguments.keys()
    require(not doubled, "an argument is given once", twice=sorted(doubled))
    arguments = written | arguments
    entries = _registry.available()
    if name not in entries:
        raise UnknownNameError("policy", name, list(entries))
    chosen = families.get("bernoulli" if family is None else family)
    entry = entries[name]
    unknown = arguments.keys() - entry.parameters.keys()
    if unknown:
        takes = ", ".join(entry.parameters) or "none"
        raise ValueError(f"{name} takes these arguments: {takes}; but got {', '.join(sorted(unknown))}")
    for key, value in arguments.items():
        _check_kind(name, key, value, entry.parameters[key])
    return Policy(name, arguments, chosen, entry.make(chosen, **arguments))


def _check_kind(name: str, key: str, value: object, default: object) -> None:
    """Reject a word where a number belongs, and NaN anywhere, before any arithmetic meets them."""
    if isinstance(default, bool):
        fits, kind = isinstance(value, bool), "true or false"
    elif isinstance(default, str):
        fits, kind = isinstance(value, str), "a name"
    else:
        fits = (value is None and default is None) or (
            isinstance(value, (int, float)) and not isinstance(value, bool) and not math.isnan(value)
        )
        kind = "a number"
    if not fits:
        raise ValueError(f"{name}: `{key}` must be {kind}, but got {key}={value!r}")
