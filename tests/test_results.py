"""Numbers in the documents are those of ``docs/results``, which commands write and ``make figures`` puts there."""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path
from typing import Any

import pytest

import figures
import soak
from _results import Results
from results import COMMANDS

ROOT = Path(__file__).parent.parent

FOUND = figures.load(ROOT / "docs" / "results")
PAGES = figures.pages(ROOT)
TEXTS = {page: page.read_text(encoding="utf-8") for page in PAGES}
FENCED = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)

each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
each_file = pytest.mark.parametrize("name", FOUND)


def value(file: str, name: str) -> float:
    return float(FOUND[file]["values"][name]["value"])


# Documents -------------------------------------------------------------------------------------------


@each_page
def test_a_document_has_what_the_results_have(page: Path) -> None:
    assert figures.rewritten(TEXTS[page], FOUND) == TEXTS[page], f"{page.name} differs from docs/results: make figures"


@each_page
def test_a_document_has_no_measured_number_of_its_own(page: Path) -> None:
    assert figures.unmarked(TEXTS[page]) == []


@each_page
def test_a_document_has_no_measured_table_of_its_own(page: Path) -> None:
    # most cells of a table of measurements are numbers; a limit or a setting stands alone in its row
    text = re.sub(r"<!--(table|set).*?<!--/(table)?-->", "", FENCED.sub("", TEXTS[page]), flags=re.DOTALL)
    text = re.sub(r"<!--=.*?<!--/-->", "marked", text)
    for table in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
        cells = [cell.strip() for line in table.splitlines()[2:] for cell in line.strip("|").split("|")]
        numbers = [cell for cell in cells if re.match(r"[−+*]*\d[\d.,]*\b", cell)]
        assert len(numbers) < 0.4 * len(cells), table


@each_page
def test_marks_are_whole_and_begin_no_line(page: Path) -> None:
    # a comment at the beginning of a line is a block to GitHub, and what follows on the line is not Markdown
    text = FENCED.sub("", TEXTS[page])
    assert len(re.findall(r"<!--(?:=|set-->)", text)) == text.count("<!--/-->")
    assert text.count("<!--table ") == text.count("<!--/table-->")
    assert re.findall(r"^ *(?:- )?<!--=.*", text, re.MULTILINE) == []
    assert re.findall(r"^<!--set-->.+", text, re.MULTILINE) == []


# Results ---------------------------------------------------------------------------------------------


def test_every_command_has_its_results() -> None:
    assert FOUND.keys() == COMMANDS.keys()


@each_file
def test_results_are_of_the_command_that_would_be_run(name: str) -> None:
    # a shorter run is good for trying out, and not for publishing
    assert FOUND[name]["command"] == f"python benchmarks/{COMMANDS[name].words}", f"make results ONLY={name}"


@each_file
def test_results_say_where_and_when_and_no_more(name: str) -> None:
    found = FOUND[name]
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", found["date"])
    assert re.fullmatch(r"\d+ cores, \d+ GB of memory, [^/]+", found["machine"])
    assert found["versions"].keys() >= {"python", "hellinger", "numpy"}
    text = (ROOT / "docs" / "results" / f"{name}.json").read_text(encoding="utf-8")
    assert not re.search(r"/(?:home|mnt|opt|root|tmp|usr|var|work)/|https?:", text)


@each_file
def test_no_result_is_unused(name: str) -> None:
    shown = {used for text in TEXTS.values() for file, used in figures.names(text) if file == name}
    assert {*FOUND[name]["values"], *FOUND[name]["tables"]} - shown == set()
    links = " ".join(TEXTS.values())
    assert all(f"img/{picture}.png" in links for picture in FOUND[name]["pictures"])


def test_pictures_are_drawn_from_the_results() -> None:
    folder = ROOT / "docs" / "img"
    record = json.loads((folder / figures.DRAWN).read_text(encoding="utf-8"))
    wanted = {name: figures.source(drawing) for name, drawing in figures.drawn(FOUND).items()}
    assert {name: entry["source"] for name, entry in record.items()} == wanted, "make figures"
    for name, entry in record.items():
        assert figures.digest((folder / name).read_bytes()) == entry["picture"], f"{name} was not drawn by make figures"


# What is promised in words ---------------------------------------------------------------------------


def test_rankings_are_answered_within_ten_milliseconds() -> None:
    """Alone. Beside an export and an open page fewer spells are: the documents say how many."""
    assert value("service", "rank_ratio") >= 0.6
    assert value("service", "good") >= 9
    assert value("service", "context_good") >= 9
    assert value("service", "p99") < 10
    assert value("service", "disk") < 10


def test_a_pool_is_ranked_in_microseconds_whatever_its_size() -> None:
    assert value("pool", "rank_first") < 30
    assert value("pool", "rank_last") < 2 * value("pool", "rank_first")
    assert value("pool", "bytes_most") <= 100


def test_a_model_ranks_in_time_and_earns_the_most() -> None:
    assert value("models", "rank_ten_thousand") <= 1
    assert value("models", "rank_million") <= 15
    assert value("models", "update") <= 50
    rows = {row[0]: int(row[-1].replace(",", "")) for row in FOUND["models"]["tables"]["clicks"][1:]}
    model = rows.pop("**`cold-start`, logistic model**")
    assert all(model > other for other in rows.values())


def test_a_copy_catches_up_in_a_minute() -> None:
    assert value("catchup", "in_step") <= 60
    assert value("catchup_million", "in_step") <= 60


def test_memory_stays() -> None:
    assert value("soak", "ratio") <= 1.2
    missed = "the aim of 1.10 was missed" in TEXTS[ROOT / "docs" / "operations.md"]
    assert missed == (value("soak", "ratio") > 1.1)
    assert value("soak", "log_rankings") >= value("soak", "rankings")
    assert value("soak", "log_clicks") == value("soak", "clicks")


def test_cold_start_gets_the_most_clicks() -> None:
    assert value("coldstart", "behind") == 0
    assert [value("coldstart", name) > 1.15 for name in ("hellinger", "kl", "thompson")] == [True] * 3


def test_a_thousand_looks_raise_no_false_alarm() -> None:
    for row in FOUND["false_alarms"]["tables"]["situations"][1:]:
        assert not any("**" in cell for cell in row) or row[1] in ("by impression", "all rankings", "pooled", "by page")
    for row in FOUND["false_alarms"]["tables"]["peeks"][1:]:
        assert "**" not in row[2] + row[4]


# The tool --------------------------------------------------------------------------------------------


def _results(tmp_path: Path) -> dict[str, Any]:
    results = Results(tmp_path / "speed.json", "python benchmarks/speed.py")
    results.value("rank", 10.349, "µs", 1)
    results.value("less", -1234.5)
    results.value("words", "none of 3")
    results.table("sizes", ["", "10 items"], [["`rank`", "1.0 µs"]])
    results.write()
    return figures.load(tmp_path)


def test_a_document_is_rewritten(tmp_path: Path) -> None:
    found = _results(tmp_path)
    text = "It takes <!--=speed.rank-->?<!--/--> (<!--=speed.less--><!--/-->, <!--=speed.words--><!--/-->)."
    once = figures.rewritten(f"{text}\n\n<!--table speed.sizes-->\n<!--/table-->\n", found)
    assert once == (
        "It takes <!--=speed.rank-->10.3 µs<!--/--> (<!--=speed.less-->−1,234<!--/-->, "
        "<!--=speed.words-->none of 3<!--/-->).\n\n"
        "<!--table speed.sizes-->\n\n|  | 10 items |\n|---|---|\n| `rank` | 1.0 µs |\n\n<!--/table-->\n"
    )
    assert figures.rewritten(once, found) == once
    assert figures.names(once) == {("speed", name) for name in ("rank", "less", "words", "sizes")}
    assert found["speed"]["values"]["rank"] == {"value": 10.349, "text": "10.3 µs"}


@pytest.mark.parametrize("name", ["speed.nothing", "other.rank"])
def test_a_name_that_no_result_has_is_an_error(tmp_path: Path, name: str) -> None:
    with pytest.raises(KeyError, match=r"docs/results/\w+\.json"):
        figures.rewritten(f"It takes <!--={name}-->1 s<!--/-->.", _results(tmp_path))


@pytest.mark.parametrize("text", ["in 12 s.", "8.7 µs", "1,045 MB", "20 to 40 ms", "9,000 a second", "1.84 times"])
def test_a_measured_number_is_found(text: str) -> None:
    assert len(figures.unmarked(f"It has {text}")) == 1


@pytest.mark.parametrize(
    "text",
    ["`10 s`", "<!--set-->10 ms<!--/-->", "<!--=a.b-->3 s<!--/-->", "3 segments", "$t = 9 s$"],
)
def test_other_numbers_are_let_be(text: str) -> None:
    assert figures.unmarked(f"It has {text}") == []


def test_a_soak_reports_memory_of_the_days_before_it_kills(tmp_path: Path) -> None:
    options = argparse.Namespace(minutes=1, days=4, kill_days=1, seed=1, items=30_000, segments=40)
    found = soak.Soak(options, tmp_path)
    found.memory = [1000.0, 1200.0, 1500.0, 750.0, 5.0]
    found.waits["a kill"] = [0.001, 0.003]
    results = Results(tmp_path / "soak.json")
    found.report(results)
    results.write()
    published = figures.load(tmp_path)["soak"]
    assert {name: entry["text"] for name, entry in published["values"].items()} == {
        "days": "4",
        "first": "1,000 MB",
        "settled": "1,500 MB",
        "least": "750 MB",
        "most": "750 MB",
        "last": "750 MB",
        "ratio": "0.50 times",
        "kills": "0",
        "exports": "0",
        "refused": "0",
    }
    assert published["tables"]["waits"][1] == ["a kill", "2", "2.0", "3.0", "3.0"]


def test_pictures_are_redrawn_where_results_have_changed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from hellinger.figures import Place

    for folder in ("results", "img"):
        (tmp_path / "docs" / folder).mkdir(parents=True)
    (tmp_path / "README.md").write_text("![a picture](docs/img/order.png)\n")
    for mean, drawn in ((1.0, True), (1.0, False), (2.0, True)):
        results = Results(tmp_path / "docs" / "results" / "order.json", "python benchmarks/order.py")
        places = [Place("ucb1", mean, mean - 0.1, mean + 0.1), Place("kl-ucb", 0.5, 0.4, 0.6, 0.9)]
        results.picture("order", "draw_ranking", places=places, title="Order")
        results.write()
        capsys.readouterr()
        figures.main(tmp_path)
        assert ("drawn: docs/img/order.png" in capsys.readouterr().out) == drawn
    assert (tmp_path / "docs" / "img" / "order.png").read_bytes()[:4] == b"\x89PNG"
