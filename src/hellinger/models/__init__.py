"""Models of rewards by features: a mean and an effective number of pulls for each person and item.

>>> from hellinger import models
>>> models.get("logistic(shared=true, per_item=false)")
model('logistic')
>>> sorted(models.available())
['linear', 'logistic', 'poisson']
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
from typing import Any

from hellinger.models._base import MODELS, Model, ModelLike, make
from hellinger.models.encoder import Encoder, Features, check_features, hashed
from hellinger.models.regression import Effect, Regression

__all__ = [
    "Effect",
    "Encoder",
    "Features",
    "Model",
    "ModelLike",
    "Regression",
    "available",
    "check_features",
    "get",
    "hashed",
]


@functools.cache
def _discover() -> None:
    """Import the modules of this package, which name the library's models."""
    for module in pkgutil.iter_modules(__path__):
        if not module.name.startswith("_"):
            importlib.import_module(f"{__name__}.{module.name}")


def available() -> dict[str, type[Model]]:
    """Every model by name: the library's, and those defined since."""
    _discover()
    return dict(sorted(MODELS.items()))


def get(model: ModelLike, **arguments: Any) -> Model:
    """Make a model from its name, a spec with arguments, or its class; a model passes through unchanged.

    >>> get("linear", strength=5).spec
    'linear(strength=5.0)'
    >>> get("linar")
    Traceback (most recent call last):
        ...
    hellinger.errors.UnknownNameError: unknown model 'linar': it must be one of linear, ...; did you mean linear?
    """
    _discover()
    return make(model, arguments)
