"""What a model of rewards is: a link, and how its weights are laid out and learned."""

from __future__ import annotations

import inspect
import math
from typing import Any, ClassVar, NamedTuple, TypeAlias

from hellinger._spec import format_spec, parse_spec
from hellinger.errors import InputError, UnknownNameError, require
from hellinger.families import Family

__all__ = ["MODELS", "Link", "Model", "ModelLike", "make"]


class Link(NamedTuple):
    """A model's compiled side: the family whose natural parameter is linear, and the means it may give."""

    family: Family
    low: float
    high: float
    peak: float


MODELS: dict[str, type[Model]] = {}


class Model:
    """A regression of rewards on who is asking and what is shown: η = an item's level + weights·features, mean μ(η).

    A model of your own is a subclass with a ``name``, a ``reference`` and a ``family``, whose mean ψ′ is the inverse
    link.

    Parameters
    ----------
    shared
        Weights that all items share: one for each feature of an item, of a person, and for each pair of them.
    per_item
        Weights of each item's own, for each feature of a person. An item's level is its own in any case.
    scale
        Standard deviation of a weight before anything is known, in units of the natural parameter; where it is learned,
        what it begins with.
    strength, mean
        Pseudo-observations of an item before its first: how many, and their mean. Learned from all items if not given.
    learn
        Whether the spread of the weights is learned: by empirical Bayes, after 16, 20, 25, … events.
    columns, item_columns
        The most columns of an encoded person and of an encoded item.
    """

    name: ClassVar[str]
    reference: ClassVar[str]
    family: ClassVar[Family]
    low: ClassVar[float] = -math.inf
    """The least and the greatest mean it gives: beyond, the natural parameter is not finite, or no longer a number."""
    high: ClassVar[float] = math.inf
    peak: ClassVar[float] = math.inf
    """The variance of a reward rises with its mean up to here, and not beyond."""

    def __init_subclass__(cls) -> None:
        """Note the model's name, which must be its own."""
        super().__init_subclass__()
        if "name" in vars(cls):
            there = MODELS.get(cls.name, cls)
            if (there.__module__, there.__qualname__) != (cls.__module__, cls.__qualname__):
                raise InputError(
                    f"a model's name must be its own, but {cls.name!r} is that of {there.__qualname__} too"
                )
            MODELS[cls.name] = cls

    def __init__(
        self,
        *,
        shared: bool = True,
        per_item: bool = False,
        scale: float = 0.1,
        strength: float | None = None,
        mean: float | None = None,
        learn: bool = True,
        columns: int = 16,
        item_columns: int = 32,
    ) -> None:
        for name, flag in (("shared", shared), ("per_item", per_item), ("learn", learn)):
            require(isinstance(flag, bool), f"{name} is true or false", **{name: flag})
        require(_number(scale) and 0 < scale < math.inf, "0 < scale", scale=scale)
        require(strength is None or (_number(strength) and 0 < strength < math.inf), "0 < strength", strength=strength)
        inside = mean is None or (_number(mean) and self.low <= mean <= self.high and math.isfinite(mean))
        require(inside, f"{self.low:g} <= mean <= {self.high:g}", mean=mean)
        for name, most, columns_ in (("columns", 64, columns), ("item_columns", 128, item_columns)):
            whole = isinstance(columns_, int) and not isinstance(columns_, bool)
            require(whole and 0 <= columns_ <= most, f"0 <= {name} <= {most}", **{name: columns_})
        self.shared, self.per_item, self.learn = shared, per_item, learn
        self.scale = float(scale)
        self.strength = None if strength is None else float(strength)
        self.mean = None if mean is None else float(mean)
        self.columns, self.item_columns = columns, item_columns
        self.link = Link(self.family, self.low, self.high, self.peak)

    @property
    def arguments(self) -> dict[str, Any]:
        """What it was made with."""
        return {name: getattr(self, name) for name in _DEFAULTS}

    @property
    def weights(self) -> int:
        """The most weights that all items share: their covariance has so many rows."""
        return (1 + self.columns) * (1 + self.item_columns) if self.shared else 0

    @property
    def spec(self) -> str:
        """The text that makes this model again: ``models.get(m.spec)``."""
        given = {key: value for key, value in self.arguments.items() if value != _DEFAULTS[key]}
        return format_spec(self.name, given)

    def __repr__(self) -> str:
        return f"model({self.spec!r})"

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and isinstance(other, Model) and self.arguments == other.arguments

    def __hash__(self) -> int:
        return hash((type(self), *self.arguments.values()))


_SIGNATURE = inspect.signature(Model.__init__).parameters.values()
_DEFAULTS: dict[str, Any] = {each.name: each.default for each in _SIGNATURE if each.kind is each.KEYWORD_ONLY}

ModelLike: TypeAlias = str | Model | type[Model]
"""What :func:`get` makes a model of."""


def make(model: ModelLike, arguments: dict[str, Any]) -> Model:
    """The model of this spec or class; a model passes through unchanged."""
    if isinstance(model, Model):
        require(not arguments, "arguments go with a model's name", model=model, arguments=sorted(arguments))
        return model
    if isinstance(model, type):
        require(issubclass(model, Model), "a model's class is a subclass of hellinger.models.Model", got=model)
        cls, written = model, dict[str, Any]()
    else:
        require(isinstance(model, str), "a model is a spec, a Model or its class", model=model)
        name, written = parse_spec(model)
        if name not in MODELS:
            raise UnknownNameError("model", name, list(MODELS))
        cls = MODELS[name]
    given = written | arguments
    unknown = given.keys() - _DEFAULTS.keys()
    if unknown:
        takes = ", ".join(_DEFAULTS)
        raise InputError(f"{cls.name} takes these arguments: {takes}; but got {', '.join(sorted(unknown))}")
    return cls(**given)


def _number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
