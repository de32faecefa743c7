"""Families against 120-digit arithmetic, from their definitions (golden/make_families.py)."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hellinger import families
from hellinger.testing.families import condition, generic_bound

GOLDEN: list[dict[str, Any]] = json.loads((Path(__file__).parent / "golden" / "families.json").read_text("utf-8"))

Floats = np.ndarray[Any, np.dtype[np.float64]]


def relative_error(got: Floats, want: Floats, scale: Floats) -> float:
    """Largest |got − want|/scale; infinite where one is infinite and the other is not."""
    same = got == want
    with np.errstate(invalid="ignore"):
        error = np.where(same, 0.0, np.abs(got - want) / np.where(scale == 0.0, np.finfo(float).tiny, scale))
    return float(np.where(np.isnan(error), math.inf, error).max())


@pytest.fixture(params=GOLDEN, ids=lambda record: str(record["family"]))
def golden(request: pytest.FixtureRequest) -> tuple[families.Family, dict[str, Floats]]:
    return families.get(request.param["family"]), {
        key: np.array(value, float) for key, value in request.param.items() if isinstance(value, list)
    }


def test_every_case_of_every_family_has_golden_values() -> None:
    every = {case.spec for family in families.available().values() for case in family.cases()}
    assert every == {record["family"] for record in GOLDEN}


@pytest.mark.parametrize(("bound", "allowed"), [("hellinger_lower", 1e-14), ("kl_lower", 1e-12)])
def test_lower(golden: tuple[families.Family, dict[str, Floats]], bound: str, allowed: float) -> None:
    """To the digits of the mean: where a bound is next to nothing, it is a difference of such numbers."""
    family, values = golden
    got = getattr(family, bound)(values["mean"], values["radius"])
    scale = np.maximum(np.abs(values["mean"]), np.abs(values[bound]))
    assert relative_error(got, values[bound], scale) <= allowed


def bound_scale(family: families.Family, golden: dict[str, Floats], bound: str) -> Floats:
    """What a bound's error is relative to: the bound itself, where means are positive.

    Where means take both signs the bound passes through zero as the sum of m and a positive way; no
    rounding of that sum can be relative to the result, so it is relative to its larger term.
    """
    q = np.abs(golden[bound])
    return np.maximum(q, np.abs(golden["mean"])) if family.mean_bounds[0] < 0 else q


def test_hellinger_upper(golden: tuple[families.Family, dict[str, Floats]]) -> None:
    family, values = golden
    got = family.hellinger_upper(values["mean"], values["radius"])
    error = relative_error(got, values["hellinger_upper"], bound_scale(family, values, "hellinger_upper"))
    assert error <= 1e-14


def test_kl_upper(golden: tuple[families.Family, dict[str, Floats]]) -> None:
    family, values = golden
    got = family.kl_upper(values["mean"], values["radius"])
    error = relative_error(got, values["kl_upper"], bound_scale(family, values, "kl_upper"))
    assert error <= 1e-12


@pytest.mark.parametrize("distance", ["kl", "bhattacharyya"])
def test_distances(golden: tuple[families.Family, dict[str, Floats]], distance: str) -> None:
    family, values = golden
    got = getattr(family, distance)(values["p"], values["q"])
    assert relative_error(got, values[distance], values[distance]) <= 1e-13


@pytest.mark.parametrize("hellinger", [True, False], ids=["hellinger", "kl"])
def test_generic_solver(golden: tuple[families.Family, dict[str, Floats]], hellinger: bool) -> None:
    family, values = golden
    bound = "hellinger_upper" if hellinger else "kl_upper"
    arguments = (values["mean"], values["radius"], values[bound])
    sound = condition(family, *arguments, hellinger=hellinger) <= 100.0
    assert sound.mean() > 0.4
    values = {key: values[key][sound] for key in ("mean", "radius", bound)}
    got = generic_bound(family, values["mean"], values["radius"], bound)
    error = relative_error(got, values[bound], bound_scale(family, values, bound))
    assert error <= 1e-12
