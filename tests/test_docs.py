"""The documents keep up with the code: everything that exists is in the reference, and links lead somewhere."""

from __future__ import annotations

import html
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import typer

import hellinger
import pages
from hellinger import cli, evaluate, experiment, families, lab, policies, pool, theory
from hellinger.engine.settings import Settings, Shown
from hellinger.identification import rates
from hellinger.policies import balls, levels

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
DESIGN = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")
REFERENCE = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")

_FENCED = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


def _section(title: str) -> str:
    match = re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", REFERENCE, re.DOTALL | re.MULTILINE)
    assert match is not None, f"the reference has no section {title!r}"
    return match[1]


def _commands() -> list[str]:
    group = typer.main.get_command(cli.app)
    return sorted(getattr(group, "commands"))  # noqa: B009 - typed as a plain command


@pytest.mark.parametrize("name", families.available())
def test_family_is_documented(name: str) -> None:
    row = next((line for line in _section("Families").splitlines() if line.startswith(f"| `{name}` |")), None)
    assert row is not None, f"family {name!r} has no row in docs/reference.md"
    assert f"`{families.available()[name].__name__}(" in row


@pytest.mark.parametrize("name", policies.available())
def test_policy_is_documented_with_its_arguments(name: str) -> None:
    row = next((line for line in _section("Policies").splitlines() if line.startswith(f"| `{name}` |")), None)
    assert row is not None, f"policy {name!r} has no row in docs/reference.md"
    documented = dict(re.findall(r"`(\w+)(?:=([^`]*))?`", row.split("|")[-3]))
    assert documented.keys() == policies.available()[name].parameters.keys()
    for key, default in policies.available()[name].parameters.items():
        if default is None:
            assert documented[key] == ""
        elif isinstance(default, (bool, str)):
            assert documented[key] == str(default).lower()
        else:
            assert float(documented[key]) == default


@pytest.mark.parametrize("name", levels.available())
def test_level_is_documented(name: str) -> None:
    assert f"\n| `{name}` |" in _section("Levels"), f"level {name!r} has no row in docs/reference.md"


@pytest.mark.parametrize("name", [ball.name for ball in balls.Ball.__subclasses__()])
def test_ball_is_documented(name: str) -> None:
    assert f"\n| `{name}` |" in _section("Balls"), f"ball {name!r} has no row in docs/reference.md"


@pytest.mark.parametrize("name", _commands())
def test_command_is_documented(name: str) -> None:
    assert f"\n| `hellinger {name}" in _section("Command line"), f"command {name!r} has no row in docs/reference.md"


@pytest.mark.parametrize("shown", Settings().show(), ids=lambda shown: shown.name)
def test_setting_is_documented(shown: Shown) -> None:
    default = "none" if shown.default is None else str(shown.default).lower()
    if isinstance(shown.default, dict):
        default = ", ".join(shown.default)
    elif isinstance(shown.default, str):
        default = shown.default
    row = f"| `{shown.name}` | {f'`{default}`' if default else ''} | {shown.description} |"
    assert row in _section("Settings").splitlines(), f"docs/reference.md must have the row {row}"


@pytest.mark.parametrize("name", theory.__all__)
def test_theory_is_documented(name: str) -> None:
    assert f"\n| `{name}` |" in _section("Theory"), f"theory.{name} has no row in docs/reference.md"


@pytest.mark.parametrize("name", hellinger.__all__)
def test_public_name_is_documented(name: str) -> None:
    assert re.search(rf"^\| `hellinger\.{name}\b", _section("Top level"), re.MULTILINE), f"hellinger.{name} has no row"


@pytest.mark.parametrize("name", [*pool.__all__, *(n for n in dir(hellinger.Pool) if not n.startswith("_"))])
def test_pool_is_documented(name: str) -> None:
    assert re.search(rf"\b{name}\b", _section("Pool")), f"pool's {name} is not in docs/reference.md"


@pytest.mark.parametrize("name", experiment.__all__)
def test_experiment_is_documented(name: str) -> None:
    assert re.search(rf"\b{name}\b", _section("Experiment")), f"experiment's {name} is not in docs/reference.md"


@pytest.mark.parametrize("name", evaluate.__all__)
def test_evaluate_is_documented(name: str) -> None:
    assert re.search(rf"\b{name}\b", _section("Evaluate")), f"evaluate's {name} is not in docs/reference.md"


@pytest.mark.parametrize("name", [n for n in dir(hellinger.Bandit) if not n.startswith("_")])
def test_bandit_method_is_documented(name: str) -> None:
    assert re.search(rf"\b{name}\b", _section("Bandit")), f"Bandit.{name} is not in docs/reference.md"


@pytest.mark.parametrize("name", [n for n in dir(hellinger.Identification) if not n.startswith("_")])
def test_identification_method_is_documented(name: str) -> None:
    assert re.search(rf"\b{name}\b", _section("Identification")), f"Identification.{name} is not in docs/reference.md"


@pytest.mark.parametrize("rate", rates.available().values(), ids=rates.available())
def test_rate_is_documented(rate: type[rates.Rate]) -> None:
    row = next(line for line in _section("Identification").splitlines() if line.startswith(f"| `{rate.name}` |"))
    assert rate.formula.removesuffix(", t the round") in row, f"the formula of {rate.name} is not in docs/reference.md"
    assert rate.reference
    assert rate.__doc__


@pytest.mark.parametrize("name", sorted({*lab.__all__, *(n for n in dir(lab.Result) if not n.startswith("_"))}))
def test_laboratory_is_documented(name: str) -> None:
    assert re.search(rf"\b{name}\b", _section("Laboratory")), f"{name} is not in docs/reference.md"


@pytest.mark.parametrize("name", [n for n in dir(families.Family) if not n.startswith("_")])
def test_family_method_is_documented(name: str) -> None:
    inner = {"cases", "typical_means", "name", "reference", "integer", "posterior", "posterior_quantile"}
    assert name in inner or re.search(rf"`{name}\b", _section("Families")), f"Family.{name} is not in docs/reference.md"


def test_every_room_is_in_the_design() -> None:
    layers = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"][0]["layers"]
    rooms = re.search(r"^## The rooms\n(.*?)(?=^## )", DESIGN, re.DOTALL | re.MULTILINE)
    assert rooms is not None
    rows = [re.findall(r"`(\w+)`", line.split("|")[1]) for line in rooms[1].splitlines() if line.startswith("| `")]
    assert rows == [[room.strip() for room in layer.split("|")] for layer in layers]


def test_every_dependency_has_its_reason_in_the_design() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *(one for extra in project["optional-dependencies"].values() for one in extra)]
    names = {re.split(r"[^A-Za-z0-9_-]", one)[0] for one in wanted}
    reasons = DESIGN[DESIGN.index("## Dependencies") :].lower()
    assert {name for name in names if name.lower() not in reasons} == set()


def test_reference_names_nothing_that_does_not_exist() -> None:
    for title, known in (
        ("Families", set(families.available())),
        ("Policies", set(policies.available())),
        ("Levels", set(levels.available())),
        ("Balls", {ball.name for ball in balls.Ball.__subclasses__()}),
        ("Theory", set(theory.__all__)),
    ):
        named = set(re.findall(r"^\| `([\w+-]+)` \|", _section(title), re.MULTILINE))
        inner = set(dir(families.Family)) if title == "Families" else set()
        assert named - inner <= known, title


# Links -----------------------------------------------------------------------------------------------


def _anchors(page: Path) -> set[str]:
    """Anchors of a page's headings, as GitHub and MkDocs make them."""
    text = _FENCED.sub("", page.read_text(encoding="utf-8"))
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_relative_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"`[^`\n]*`", "", _FENCED.sub("", page.read_text(encoding="utf-8")))
    for target in _LINK.findall(text):
        if "://" in target or target.startswith("mailto:"):
            continue
        path, _, anchor = target.partition("#")
        goal = (page.parent / path).resolve() if path else page
        assert goal.exists(), f"{page.name} links to {target}, which does not exist"
        if anchor:
            assert anchor in _anchors(goal), f"{page.name} links to {target}, which has no such heading"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_formulas_end_on_the_line_they_begin(page: Path) -> None:
    # GitHub and MkDocs differ on inline formulas across lines, and both drop a backslash before punctuation
    text = _FENCED.sub("", page.read_text(encoding="utf-8"))
    text = re.sub(r"\$\$.*?\$\$", "", text, flags=re.DOTALL)
    for line in text.splitlines():
        assert line.count("$") % 2 == 0, f"{page.name}: {line}"
        for formula in re.findall(r"\$([^$]+)\$", line):
            assert not re.search(r"\\[^A-Za-z]", formula), f"{page.name}: {formula}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_make_targets_exist(page: Path) -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    named = set(re.findall(r"(?:`|^)make ([a-z]+)", page.read_text(encoding="utf-8"), re.MULTILINE))
    assert named <= targets


# Tables ----------------------------------------------------------------------------------------------


def _cells(line: str) -> int:
    """Columns of a row of a table: bars that are neither escaped nor part of code."""
    return len(re.findall(r"(?<!\\)\|", re.sub(r"`[^`]*`", "", line))) - 1


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_lines_with_bars_are_tables(page: Path) -> None:
    lines = ["", *_FENCED.sub("", page.read_text(encoding="utf-8")).splitlines(), ""]
    for number, line in enumerate(lines):
        if not line.startswith("|"):
            continue
        if not lines[number - 1].startswith("|"):
            assert lines[number - 1] == "", f"{page.name}: an empty line must stand before {line}"
            assert re.fullmatch(r"\|(:?-+:?\|)+", lines[number + 1]), f"{page.name}: no line of dashes below {line}"
            columns = _cells(line)
        assert _cells(line) == columns, f"{page.name}: {columns} cells are wanted in {line}"


# The site --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    environ = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    built = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stdout + built.stderr
    return folder


def _prose(page: Path) -> str:
    """What a page of the site shows, its code left out."""
    text = re.sub(r"<(script|style|pre|code)\b.*?</\1>", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    return html.unescape(re.sub(r"<[^>]*>", "", text))


def test_the_site_has_the_api(site: Path) -> None:
    text = (site / "api.html").read_text(encoding="utf-8")
    assert all(f"hellinger.{name}" in text for name in ("Bandit", "theory", "client"))
    assert "<blockquote>" not in text, "an example outside of a section is code too"


def test_the_site_fetches_nothing(site: Path) -> None:
    for page in site.glob("*.html"):
        text = page.read_text(encoding="utf-8")
        fetched = re.search(r"<(?:script|link|img|iframe)[^>]*(?:src|href)=[\"']?(?:https?:)?//[^>]*>", text)
        assert fetched is None, fetched


def test_the_site_shows_no_markup(site: Path) -> None:
    for page in site.glob("*.html"):
        text = _prose(page)
        for raw in (
            r":(?:attr|class|data|exc|func|meth|mod):",
            r"\.\. math::",
            r"\\[a-zA-Z(\[]",
            r"\$",
            r"\|---",
            "<!--",
        ):
            found = re.search(f".*{raw}.*", text)
            assert found is None, f"{page.name}: {found}"
    theory = (site / "theory.html").read_text(encoding="utf-8")
    assert theory.count("<math") > 100
    assert theory.count('display="block"') == theory.count('<div style="overflow-x: auto"><math')  # on a phone


def test_a_formula_that_cannot_be_shown_is_refused() -> None:
    assert "<mo>∑" in html.unescape(pages.formula(r"\sum_i \Big\lbrace x \Big\rbrace", "block"))
    with pytest.raises(ValueError, match="nosuch"):
        pages.formula(r"\nosuch{x}", "inline")


def test_the_site_is_searched_from_a_file(site: Path) -> None:
    assert (site / "search" / "search_index.js").read_text(encoding="utf-8").startswith("var __index = {")
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    chromium = Path("/usr/bin/chromium")
    if not chromium.exists():
        pytest.skip(f"there is no {chromium}")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=str(chromium), args=["--no-sandbox"])
        page = browser.new_page()
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.set_default_timeout(120_000)  # the machine may have other tests to run
        page.goto((site / "index.html").as_uri())
        page.get_by_label("Search").first.fill("Bhattacharyya")
        page.wait_for_selector(".md-search-result__item a[href*='theory.html']", state="attached")
        browser.close()
    assert all(url.startswith(("file:", "data:", "about:")) for url in asked)
