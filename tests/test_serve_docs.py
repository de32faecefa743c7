"""The service's page has every route and field there is, and its examples work against a real service."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hellinger.engine.settings import Settings
from hellinger.serve import models
from hellinger.serve.app import create_app
from hellinger.serve.export import SCHEMA
from hellinger.serve.keys import Keys
from served import Served, serving

DOCS = Path(__file__).parent.parent / "docs"
PAGE = (DOCS / "service.md").read_text(encoding="utf-8")


def examples(page: str) -> list[tuple[str, str]]:
    """Language and text of each."""
    text = (DOCS / page).read_text(encoding="utf-8")
    return re.findall(r"^```(sh|python)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


def operations() -> list[tuple[str, str, dict[str, Any]]]:
    paths = create_app(Settings(), Keys()).app.openapi()["paths"]
    return [(method.upper(), path, told) for path, methods in paths.items() for method, told in methods.items()]


OPERATIONS = operations()


@pytest.mark.parametrize(("method", "path", "told"), OPERATIONS, ids=[f"{m} {p}" for m, p, _ in OPERATIONS])
def test_route_is_documented(method: str, path: str, told: dict[str, Any]) -> None:
    row = next((line for line in PAGE.splitlines() if line.startswith(f"| `{method} {path}` |")), None)
    assert row is not None, f"{method} {path} has no row in docs/service.md"
    assert row.split("|")[2].strip() == told.get("x-role", "open")
    for parameter in told.get("parameters", ()):
        if parameter["in"] == "query":
            assert f"`{parameter['name']}`" in row, parameter["name"]
        elif parameter["in"] == "header":
            assert parameter["name"].lower() in PAGE.lower()


def test_no_route_is_documented_that_is_not_there() -> None:
    named = set(re.findall(r"^\| `([A-Z]+ /[^`]*)` \|", PAGE, re.MULTILINE))
    assert named == {f"{method} {path}" for method, path, _ in OPERATIONS}


@pytest.mark.parametrize(
    "name",
    sorted(
        {
            *SCHEMA,
            *models.VariantRow.model_fields,
            *models.ExperimentAnswer.model_fields,
            *models.RankBody.model_fields,
            *models.FeedbackEvent.model_fields,
            *models.FeedbackAnswer.model_fields,
            *models.NewItemBody.model_fields,
            *models.SeriesColumnAnswer.model_fields,
        }
    ),
)
def test_field_is_documented(name: str) -> None:
    assert f"`{name}`" in PAGE or f'"{name}"' in PAGE, f"{name} is not in docs/service.md"


@pytest.mark.parametrize("name", sorted(set(re.findall(r"`(\w+) = [\"\d]", PAGE))))
def test_settings_named_exist(name: str) -> None:
    assert name in Settings.model_fields


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("docs")) as started:
        yield started


def tried(page: str, served: Served, folder: Path) -> list[tuple[str, str]]:
    """All examples of a page in their order, as a reader would try them: each command, and what it prints."""
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    address = served.url.removeprefix("http://")
    environ = os.environ | {"HELLINGER_URL": served.url}
    ranking_id = ""
    answers: list[tuple[str, str]] = []
    for language, text in examples(page):
        text = text.replace("localhost:8000", address)
        if language == "python":
            exec(compile(text, page, "exec"), {})
            continue
        for command in text.replace("\\\n", " ").splitlines():
            filled = command.replace("RANKING_ID", ranking_id).replace("curl -s", "curl -sS --fail-with-body", 1)
            if filled.startswith("hellinger "):
                filled = f"{sys.executable} -m {filled}"
            done = subprocess.run(
                filled, shell=True, cwd=folder, env=environ, capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, (command, done.stdout, done.stderr)
            answers.append((command, done.stdout))
            if "/v1/rank" in command:
                ranking_id = json.loads(done.stdout)["ranking_id"]
    return answers


def test_the_examples_work(served: Served, tmp_path: Path) -> None:
    answers = tried("service.md", served, tmp_path)
    assert len(answers) >= 20
    first = {
        route: answer for command, answer in reversed(answers) for route in re.findall(r"/(?:v1/)?[a-z]+", command)
    }
    assert json.loads(first["/v1/items"]) == {"added": 3, "updated": 0, "unchanged": 0}
    assert json.loads(first["/v1/feedback"])["accepted"] == 1
    assert json.loads(first["/v1/counts"])["accepted"] == 1
    keyed = [answer for command, answer in answers if "Idempotency-Key" in command]
    assert len(keyed) == 2
    assert keyed[0] == keyed[1]
    assert (tmp_path / "rows.jsonl").read_text().count("\n") >= 3
    assert (tmp_path / "rows.parquet").read_bytes().startswith(b"PAR1")


def test_an_experiment_runs_from_start_to_decision(served: Served, tmp_path: Path) -> None:
    answers = dict(tried("run-experiment.md", served, tmp_path))
    shown = next(answer for command, answer in answers.items() if command.startswith("hellinger experiment show"))
    assert "sidebar:patient" in shown
    ended = next(answer for command, answer in answers.items() if command.startswith("hellinger experiment end"))
    assert "decided: see main" in " ".join(ended.split())
