"""A policy as the user holds it: a name, its arguments, a family, and the rule they make."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from hellinger import families
from hellinger._jit import explained, inline, is_own, jit
from hellinger._spec import expand_spec, format_spec, parse_spec
from hellinger.errors import InputError, require
from hellinger.policies import _registry, _rule
from hellinger.policies._registry import REQUIRED, Entry
from hellinger.policies._rule import Floats, Rule
from hellinger.policies.balls import Ball
from hellinger.policies.forgetting import FORGETTING, forgetting
from hellinger.policies.levels import Level
from hellinger.policies.prior import Prior, fit_prior

__all__ = ["Policy", "PolicyLike", "policy"]


PolicyLike: TypeAlias = "str | Policy | Rule | Ball | Level | type[Rule | Ball | Level] | Callable[..., Any]"
"""What :func:`policy` makes a policy of."""


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
    entry
        How it is made, and from which arguments.
    family
        What rewards are.
    rule
        The compiled side, shared by bandit, simulator and pool.
    """

    def __init__(self, entry: Entry, arguments: dict[str, object], family: families.Family, rule: Rule) -> None:
        self.entry = entry
        self.name = entry.name
        self.arguments = arguments
        self.family = family
        self.rule = rule
        self.own = is_own(rule)
        """Whether rule and family are the library's own, so that what they declare holds by construction."""

    @property
    def spec(self) -> str:
        """The text that makes this policy again: ``policy(p.spec, family=p.family)``.

        Where the policy is made of your own rule or function, which has no name in specs, it is only a label.
        """
        return format_spec(self.name, self.arguments)

    @property
    def random(self) -> bool:
        """Whether the index is drawn, so that ``rng`` is needed."""
        return self.rule.random

    @property
    def remembers(self) -> bool:
        """Whether its choices depend on the order of rewards, and not on their sums and numbers alone."""
        return self.rule.remembers

    def begin(self, arms: int) -> Policy:
        """The same policy at the first round, with room for what it remembers of so many arms; itself if nothing."""
        if not self.remembers:
            return self
        return Policy(self.entry, self.arguments, self.family, self.ready().rule.begin(arms))

    @property
    def memory(self) -> dict[str, npt.NDArray[Any]]:
        """What it remembers, by name; empty where it scores counts."""
        fields: dict[str, Any] = self.rule._asdict() if self.remembers else {}  # type: ignore[attr-defined]
        return {name: value for name, value in fields.items() if isinstance(value, np.ndarray)}

    def observe(self, arm: int, reward: float, t: float) -> None:
        """Let it see what came of playing an arm at round t, where it remembers more than counts."""
        _rule.observe(self.rule, arm, reward, t)

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
        return Policy(self.entry, arguments, self.family, self.rule.at_horizon(horizon))

    def ready(self, horizon: float | None = None) -> Policy:
        """The same policy, with this horizon if one is given; refused where it still lacks one it needs."""
        chosen = self if horizon is None else self.at_horizon(horizon)
        if chosen.needs_horizon:
            raise InputError(f"{self.name} needs the horizon: give horizon= (or anytime=true, where it takes it)")
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
        if self.remembers:
            raise InputError(
                f"{self.spec} chooses by rewards in their order, not by sums and pulls: play it by Bandit or simulate"
            )
        sums, pulls = np.asarray(sums, np.float64), np.asarray(pulls, np.float64)
        if sums.ndim != 1 or sums.shape != pulls.shape:
            raise InputError(
                f"sums and pulls must be one-dimensional and of one length, but got {sums.shape} and {pulls.shape}"
            )
        self.check_counts(sums, pulls)
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
            raise InputError(f"{self.name} draws at random: give rng=, a numpy.random.Generator")
        require(prior is None or rule.learns_prior, "prior goes with a policy that learns one", policy=self.spec)
        if rule.learns_prior:
            rule = rule.given(fit_prior(sums, pulls) if prior is None else prior)
        _rule.fill(rule, sums, pulls, t, rng if rule.random else None, out)
        if not self.own:
            self.check_numbers(sums, pulls, t, out)

    def check_counts(self, sums: Floats, pulls: Floats) -> None:
        """Refuse counts that the family cannot have given."""
        low, high = self.family.mean_bounds
        bad = _first_bad(sums, pulls, low, high)
        if bad >= 0:
            raise InputError(
                f"`0 <= pulls` and `{low:g} <= sums/pulls <= {high:g}` must hold for {self.family}, "
                f"but got sums={sums[bad]!r} and pulls={pulls[bad]!r} at position {bad}"
            )

    def check_numbers(self, sums: Floats, pulls: Floats, t: float, index: Floats) -> None:
        """Refuse an index that is NaN, which a rule of the user's may give: in a ranking it compares with nothing."""
        bad = np.flatnonzero(np.isnan(index))
        if bad.size:
            raise InputError(
                f"an index must be a number, but {self.spec} gives NaN for a reward sum of {sums[bad[0]]:g} in "
                f"{pulls[bad[0]]:g} plays at t={t:g}"
            )

    def __repr__(self) -> str:
        return f"policy({self.spec!r}, family={self.family})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Policy) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[object, ...]:
        # not the rule: a tuple's equality does not see the class of a ball or a level
        arguments = self.entry.parameters | FORGETTING | self.arguments
        return (self.name, self.entry.make, self.family, tuple(sorted(arguments.items())))


def policy(
    spec: PolicyLike, *, family: str | families.Family | type[families.Family] | None = None, **arguments: Any
) -> Policy:
    """Make a policy from its name, from a spec with arguments, or from a rule of your own.

    Parameters
    ----------
    spec
        ``"hellinger-ucb"``, ``"kl-ucb(c=3)"``, …; see ``hellinger policies``. Or your own: a :class:`Rule` or its
        class; a function from a family and keyword arguments to a rule, ``make(family, *, …)``; an index function
        ``f(s, n, t)`` or ``f(s, n, t, arms)`` of an arm's reward sum, its plays, the round and the number of arms, all
        of them numbers; a :class:`Ball` or :class:`Level`, which stands for ``ucb`` with it.
    family
        A family, its class or its spec, as ``"gamma(shape=2)"``; if not given the rule's own, or Bernoulli.
    **arguments
        The policy's own, instead of or beside those in the spec. Beside them every policy takes one of these, for
        rewards that change in time: ``window``, the plays that count, the last ones; ``discount``, the factor by which
        a play counts less after each further one; ``detect``, the chance of a false alarm that is aimed at: an arm is
        forgotten when a test says that its rewards have changed.

    Examples
    --------
    >>> policy("kl-ucb(c=3)")
    policy('kl-ucb(c=3)', family=Bernoulli())
    >>> policy("hellinger-ucb", c=1)
    Traceback (most recent call last):
        ...
    hellinger.errors.InputError: `0 < c <= 1/2` must hold, but got c=1
    >>> policy(lambda s, n, t: s / n + (t / n) ** 0.25).index([3, 8], [10, 40], t=51).round(4).tolist()
    [1.8028, 1.2626]
    """
    given = bool(arguments)
    if isinstance(spec, Policy):
        if family is None and not given:
            return spec
        family = spec.family if family is None else family
        entry, arguments = spec.entry, spec.arguments | arguments
    elif isinstance(spec, Rule):
        entry = _unnamed(type(spec))
        family = spec.family if family is None else family
        fields: dict[str, object] = dict(zip(spec._fields, spec, strict=True))  # type: ignore[attr-defined, call-overload]
        arguments = {key: value for key, value in fields.items() if key != "family"} | arguments
    else:
        if isinstance(spec, Ball) or _is_class(spec, Ball):
            spec, arguments = "ucb", {"ball": spec} | arguments
        elif isinstance(spec, Level) or _is_class(spec, Level):
            spec, arguments = "ucb", {"level": spec} | arguments
        if isinstance(spec, str):
            if len(expand_spec(spec)) > 1:
                raise InputError(f"a sweep must stand where several policies are taken, but got {spec!r} for one")
            name, written = parse_spec(spec)
            doubled = written.keys() & arguments.keys()
            require(not doubled, "an argument is given once", twice=sorted(doubled))
            entry, arguments = _registry.find(name), written | arguments
        else:
            entry = _unnamed(spec)
    chosen = families.get("bernoulli" if family is None else family)
    parameters = FORGETTING | entry.parameters
    unknown = arguments.keys() - parameters.keys()
    if unknown:
        takes = ", ".join(parameters)
        raise InputError(f"{entry.name} takes these arguments: {takes}; but got {', '.join(sorted(unknown))}")
    missing = [key for key, default in parameters.items() if default is REQUIRED and key not in arguments]
    require(not missing, f"{entry.name} is given all its arguments", missing=missing)
    for key, value in arguments.items():
        _check_kind(entry.name, key, value, parameters[key])
    memory = {key: value for key, value in arguments.items() if key in FORGETTING and key not in entry.parameters}
    own = {key: value for key, value in arguments.items() if key not in memory}
    rule = spec if isinstance(spec, Rule) and chosen is spec.family and not given else entry.make(chosen, **own)
    require(isinstance(rule, Rule), f"{entry.name} makes a hellinger.Rule", made=rule)
    rule = forgetting(rule, entry.name, **memory)
    made = Policy(entry, {key: _named_part(value) for key, value in arguments.items()}, chosen, rule)
    if not made.own:
        _check_compiles(entry.name, rule)
    return made


def _unnamed(thing: Any) -> Entry:
    """The entry of a user's own rule, whose label must be no policy's name: a label would else be read as that one."""
    entry = _registry.entry_of(thing)
    name = entry.name.lower()  # as specs are read
    if _registry.is_taken(name) and _registry.find(name).make is not entry.make:
        raise InputError(f"your policy's name must be its own, but {entry.name!r} is already a policy's: rename yours")
    return entry


def _is_class(thing: object, base: type) -> bool:
    return isinstance(thing, type) and issubclass(thing, base)


def _named_part(value: object) -> object:
    """The name of a ball or level that was given as its class, so that the spec can be read again."""
    return value.name if isinstance(value, type) and issubclass(value, (Ball, Level)) else value


def _check_compiles(name: str, rule: Rule) -> None:
    """Compile a rule that is not the library's own now, so that its errors are raised here."""
    low, high = rule.family.mean_bounds
    mean = min(max(low, 0.0) + 0.5, high)
    rng = np.random.default_rng(0) if rule.random else None
    try:
        with explained(f"{name}, a policy of your own,"):
            _rule.fill(rule, np.array([10.0 * mean]), np.array([10.0]), 1000.0, rng, np.empty(1))
    except NotImplementedError:
        raise InputError(
            f"{name} must be made of whole parts, but one lacks a method: a rule has _score or _fill, a ball _upper, "
            "a level _level, a family _log_partition and _mean"
        ) from None


def _check_kind(name: str, key: str, value: object, default: object) -> None:
    """Reject a word where a number belongs, and NaN anywhere, before any arithmetic meets them."""
    if isinstance(default, bool):
        fits, kind = isinstance(value, bool), "true or false"
    elif isinstance(default, str):
        part: type = {"ball": Ball, "level": Level}.get(key, str)
        fits, kind = isinstance(value, (str, part)) or _is_class(value, part), "a name"
    elif default is REQUIRED or not isinstance(default, (int, float, type(None))):
        return  # a user's rule may take anything
    else:
        fits = (value is None and default is None) or (
            isinstance(value, (int, float)) and not isinstance(value, bool) and not math.isnan(value)
        )
        kind = "a number"
    if not fits:
        raise InputError(f"{name}: `{key}` must be {kind}, but got {key}={value!r}")
