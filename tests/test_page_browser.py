"""The page in a real browser, against a real service: drawn, live, found, locked, read aloud, and on a phone."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

import hellinger
from hellinger import figures
from hellinger.client import CountRow, Feedback
from hellinger.engine.allocation import Allocation
from hellinger.engine.settings import Settings
from hellinger.experiment import Split
from hellinger.serve.keys import new_key
from running import VARIANTS, Begun, Running, fill, serving

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed")

CHROMIUM = Path("/usr/bin/chromium")
pytestmark = pytest.mark.skipif(not CHROMIUM.exists(), reason=f"there is no {CHROMIUM}")

SHOWN_TOO = "Of what was shown, it would have shown too"
VIEWS = {"overview": "#/", "pool": "#/pool", "health": "#/health"}
WAIT = 30_000


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("browser")
    url = f"sqlite:///{folder}/log.db"
    fill(Settings(database=url, variants=VARIANTS, seed=1, graduate_after=60), requests=500, items=60, days=5)
    flags = ["--variants", ", ".join(VARIANTS), "--graduate-after", "60", "--control", "ucb1"]
    with serving(folder, "--database", url, *flags) as service:
        yield service


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=str(CHROMIUM), args=["--no-sandbox"])
        yield browser
        browser.close()


class Watched:
    """A page whose console and requests are looked at when the test is over."""

    def __init__(self, browser: Any, url: str, **context: Any) -> None:
        self.url = url
        self.context = browser.new_context(**context)
        self.page = self.context.new_page()
        self.page.set_default_timeout(WAIT)
        self.said: list[str] = []
        self.asked: list[str] = []
        self.allowed: re.Pattern[str] | None = None
        self.page.on("console", lambda message: self._hear(message.type, message.text))
        self.page.on("pageerror", lambda error: self.said.append(f"error: {error}"))
        self.context.on("request", lambda request: self.asked.append(request.url))

    def _hear(self, kind: str, text: str) -> None:
        if kind in ("error", "warning") and not (self.allowed and self.allowed.search(text)):
            self.said.append(f"{kind}: {text}")

    def open(self, hash_: str = "#/") -> Any:
        self.page.goto(f"{self.url}/{hash_}")
        self.page.wait_for_selector("#status[data-state=live]")
        return self.page

    def close(self) -> None:
        self.context.close()
        assert self.said == []
        strangers = [url for url in self.asked if not url.startswith((f"{self.url}/", "data:", "blob:"))]
        assert strangers == []


@pytest.fixture
def watched(running: Running, browser: Any, request: pytest.FixtureRequest) -> Iterator[Watched]:
    found = Watched(browser, running.url, **getattr(request, "param", {}))
    yield found
    found.close()


def points(page: Any, chart: str) -> list[int]:
    """How many points each curve of a chart has."""
    page.wait_for_selector(f"#{chart}[data-drawn]")
    drawn = "chart => document.getElementById(chart).data.map(trace => trace.y.filter(y => y !== null).length)"
    found: list[int] = page.evaluate(drawn, chart)
    return found


def said(text: str) -> str:
    """A text without what keeps it from being broken."""
    return text.replace("\u00a0", " ").replace("\u2060", "")


def sentence(page: Any) -> str:
    """The headline and what follows it, as the service has it."""
    spoken = [page.locator(f"#{part}").inner_text() for part in ("sentence", "more")]
    return said(" ".join(filter(None, spoken)))


def ids(page: Any) -> list[str]:
    found: list[str] = page.locator("#pool-table tbody th a").all_inner_texts()
    return found


# Overview ------------------------------------------------------------------------------------------------


def test_the_overview_is_drawn_with_data(watched: Watched) -> None:
    page = watched.open()
    assert len(points(page, "curve")) == 3
    assert min(points(page, "curve")) > 50
    assert min(points(page, "rate")) >= 5
    assert page.locator("#curve path.js-line").count() == 3  # and not only handed over
    told = httpx.get(f"{watched.url}/v1/experiments/main").json()
    assert sentence(page) == told["sentence"]
    assert page.locator("#next").inner_text().replace("\u2060", "") == told["next"]
    rows = page.locator("#board tbody tr")
    assert rows.count() == 3
    for number, row in enumerate(sorted(told["variants"], key=lambda row: -row["rate"])):
        shown = rows.nth(number).inner_text()
        assert row["variant"] in shown
        assert f"{row['impressions']:,}" in shown
        assert f"{100 * row['rate']:.1f}"[:3] in shown
    assert "control" in rows.filter(has_text="ucb1").last.inner_text()
    assert page.locator("#board .interval").count() == 5  # three rates, two lifts
    assert page.locator("#share li").count() == 3


def test_algorithms_have_the_colours_of_the_figures(watched: Watched) -> None:
    page = watched.open()
    points(page, "curve")
    drawn = dict(page.evaluate("document.getElementById('curve').data.map(trace => [trace.name, trace.line.color])"))
    assert drawn == figures.colours(list(VARIANTS))
    # neither who leads nor a name of one's own changes them
    variants = [
        {"variant": "mine", "policy": "cold-start"},
        *({"variant": name} for name in ("moss", "ucb1", "ada-ucb")),
    ]
    script = page.locator("script[type=module]").get_attribute("src").replace("app.js", "charts.js")
    chosen = "async ([script, variants]) => (await import(script)).colours(variants)"
    found = page.evaluate(chosen, [script, variants])
    assert page.evaluate(chosen, [script, variants[::-1]]) == found
    assert found["mine"] == figures.colours(["cold-start"])["cold-start"]
    assert len(set(found.values())) == 4


LINES = """name => {
  const text = document.getElementById('sentence').firstChild;
  const range = document.createRange();
  const start = text.data.indexOf(name);
  range.setStart(text, start);
  range.setEnd(text, start + name.length);
  return new Set([...range.getClientRects()].filter(part => part.width).map(part => part.top)).size;
}"""
"""On how many lines a name in the sentence is."""


def test_the_sentence_breaks_in_no_name(watched: Watched) -> None:
    page = watched.open()
    told = httpx.get(f"{watched.url}/v1/experiments/main").json()
    names = [name.replace("-", "-\u2060") for name in ("Hellinger-UCB", "KL-UCB") if name in told["sentence"]]
    assert names
    for width in range(280, 800, 20):
        page.set_viewport_size({"width": width, "height": 800})
        assert {page.evaluate(LINES, name) for name in names} == {1}, width


def test_a_long_title_does_not_touch_the_edge(watched: Watched) -> None:
    page = watched.open()
    page.locator(".brand span").evaluate(
        "title => title.textContent = 'A title too long for a row with links, on some'"
    )
    for width in range(360, 1200, 60):
        page.set_viewport_size({"width": width, "height": 800})
        assert page.locator(".brand > :first-child").evaluate("logo => logo.getBoundingClientRect().top") >= 8, width


def test_one_algorithm_is_compared_with_nothing(browser: Any, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/log.db"
    fill(Settings(database=url, seed=1), requests=200, items=60, days=5)
    with serving(tmp_path, "--database", url) as service:
        watched = Watched(browser, service.url)
        page = watched.open()
        points(page, "curve")
        colour = page.evaluate("document.getElementById('curve').data.map(trace => trace.line.color)")
        assert colour == list(figures.colours(["cold-start"]).values())
        wanted = r"Cold-start ranks all traffic; its reward rate is \d+ % \(\d+–\d+ %\)\."
        assert re.fullmatch(wanted, sentence(page))
        board = [cell.inner_text() for cell in page.locator("#board thead th").all() if cell.is_visible()]
        assert board == ["Algorithm", "Impressions", "Reward", "Rate", "95 % interval"]
        assert page.locator("#board tbody tr").locator("th, td").count() == len(board)
        for versus in ("#control", "#share"):
            assert page.locator(versus).is_hidden()
        assert "Lift" not in page.locator("#overview").inner_text()
        # nor are there other experiments, or phases, to tell of
        for several in ("#timeline", "#phases", "#past", "#crumb", "#guardrail"):
            assert page.locator(several).is_hidden()
        assert page.evaluate("document.getElementById('curve').layout.shapes") == []
        watched.close()


def test_a_ranking_shows_on_the_page_by_itself(watched: Watched) -> None:
    page = watched.open()
    page.wait_for_selector("#curve[data-drawn]")

    def impressions() -> int:
        cells = page.locator("#board tbody tr td:nth-child(2)").all_inner_texts()
        return sum(int(cell.replace(",", "")) for cell in cells)

    before = impressions()
    ranked = httpx.post(f"{watched.url}/v1/rank", json={"k": 7}).json()
    httpx.post(
        f"{watched.url}/v1/feedback",
        json={"events": [{"ranking_id": ranked["ranking_id"], "item": ranked["items"][0]["id"]}]},
    )
    page.wait_for_function(
        "wanted => [...document.querySelectorAll('#board tbody tr')]"
        ".reduce((sum, row) => sum + Number(row.cells[1].textContent.replaceAll(',', '')), 0) >= wanted",
        arg=before + 7,
    )
    # the curve ends where the table is
    page.wait_for_function(
        "() => { const curves = document.getElementById('curve').data.map(trace => [trace.name, trace.y.at(-1)]);"
        " const traces = Object.fromEntries(curves);"
        " return [...document.querySelectorAll('#board tbody tr')].every(row =>"
        " traces[row.cells[0].textContent] === Number(row.cells[2].textContent.replaceAll(',', ''))); }"
    )


def test_another_control_can_be_chosen(watched: Watched) -> None:
    page = watched.open()
    page.select_option("#control", "hellinger-ucb")
    page.wait_for_function(
        "() => [...document.querySelectorAll('#board tbody tr')]"
        ".find(row => row.cells[0].textContent === 'hellinger-ucb').cells[5].textContent === 'control'"
    )
    page.wait_for_timeout(2500)  # messages that come later keep to it
    assert page.locator("#control").input_value() == "hellinger-ucb"
    assert "control" in page.locator("#board tbody tr", has_text="hellinger-ucb").inner_text()


def test_range_and_step_change_what_is_drawn(watched: Watched) -> None:
    page = watched.open()
    everything = points(page, "curve")[0]
    page.get_by_role("radio", name="2 days").check(force=True)
    page.wait_for_function(f"() => document.getElementById('curve').data[0].y.length < {everything}")
    days = points(page, "rate")[0]
    page.get_by_role("radio", name="All").check(force=True)
    page.get_by_role("radio", name="Hour", exact=True).check(force=True)
    page.wait_for_function(f"() => document.getElementById('rate').data[0].y.length > {days}")
    page.get_by_role("region", name="Cumulative reward").get_by_text("The figures as a table").click()
    page.wait_for_function("() => document.querySelectorAll('#curve-table tbody tr').length === 60")


# Experiments and phases --------------------------------------------------------------------------------------

EVEN = {"cold-start": 1.0, "ucb1": 1.0}
DAY = 24 * 3_600_000


class Past(NamedTuple):
    """A service with experiments and phases behind it, and keys."""

    url: str
    admin: str
    read: str


@pytest.fixture(scope="module")
def past(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Past]:
    folder = tmp_path_factory.mktemp("past")
    url = f"sqlite:///{folder}/log.db"
    given = {"cold-start": 1.0, "ucb1": 9.0}
    settings = Settings(
        database=url, variants={name: name for name in EVEN}, variant_weights=given, control="ucb1", seed=1
    )
    main = Allocation.given(settings)
    wide = {"sidebar:thompson": "thompson", "sidebar:ucb1": "ucb1"}
    sidebar = Allocation(wide, dict.fromkeys(wide, 1.0), share=0.4, window=DAY)
    loud = {"loud:a": "ucb1", "loud:b": "ucb1"}
    guarded = Allocation(loud, dict.fromkeys(loud, 1.0), share=0.3, window=DAY, guardrail="hide", control="loud:b")
    phases = [
        Begun(0, main, "settings"),
        Begun(1, sidebar, "bob", "more exploration", "sidebar"),
        Begun(3, main._replace(weights=EVEN), "ann", "no harm so far"),
        Begun(5, guarded, "ann", "", "loud"),
        Begun(7, sidebar._replace(ended=True), "bob", "no difference", "sidebar"),
    ]
    fill(settings, requests=1500, items=40, days=12, phases=phases, hides={"loud:a": 0.2, "loud:b": 0.01})
    admin, _ = new_key(folder / "keys.toml", name="ann", role="admin")
    read, _ = new_key(folder / "keys.toml", name="eve", role="read")
    flags = ["--variants", ", ".join(EVEN), "--variant-weights", json.dumps(given)]
    flags += ["--control", "ucb1", "--keys-file", "keys.toml"]
    with serving(folder, "--database", url, *flags) as service:
        yield Past(service.url, admin, read)


def keyed(browser: Any, url: str, token: str) -> Watched:
    """A page of somebody with a key."""
    watched = Watched(browser, url)
    watched.context.add_init_script(f"sessionStorage.setItem('hellinger.key', '{token}')")
    return watched


def buttons(page: Any) -> list[str]:
    found: list[str] = page.locator("#actions button").all_inner_texts()
    return found


def test_phases_are_marked_and_told_of(browser: Any, past: Past) -> None:
    watched = keyed(browser, past.url, past.read)
    page = watched.open()
    points(page, "curve")
    shapes, annotations = page.evaluate(
        "(({shapes, annotations}) => [shapes, annotations])(document.getElementById('curve').layout)"
    )
    assert len(shapes) == len(annotations) == 1  # the first phase is the beginning
    assert said(annotations[0]["text"]) == "cold-start 10 % → 50 %"
    assert "by ann: no harm so far" in annotations[0]["hovertext"]
    rows = [said(row) for row in page.locator("#phases tbody tr").all_inner_texts()]
    assert len(rows) == 2
    assert all(part in rows[0] for part in ("cold-start 10 % → 50 %", "ann", "no harm so far"))
    assert page.locator("#experiments a").all_inner_texts() == ["main", "loud", "sidebar"]
    assert page.locator("#experiments li").nth(0).locator(".segment").count() == 2
    assert "cold-start 10 %, ucb1 90 %" in said(page.locator("#experiments .segment").first.get_attribute("title"))
    assert "rankings older than 24 hours" in page.locator("#settled").inner_text()
    watched.close()


def test_rates_have_a_calm_line_beside_the_daily_one(browser: Any, past: Past) -> None:
    watched = keyed(browser, past.url, past.read)
    page = watched.open()
    points(page, "rate")
    drawn = page.evaluate("document.getElementById('rate').data.map(t => [t.name, t.line.width, t.y])")
    assert sorted((name, width) for name, width, _ in drawn) == [
        ("cold-start", 1),
        ("cold-start", 2.5),
        ("ucb1", 1),
        ("ucb1", 2.5),
    ]
    own = {"Authorization": f"Bearer {past.read}"}
    days = httpx.get(f"{past.url}/v1/experiments/main/series", params={"resolution": "day"}, headers=own).json()
    column = days["variants"]["ucb1"]
    calm = next(y for name, width, y in drawn if (name, width) == ("ucb1", 2.5))
    assert calm[9] == pytest.approx(100 * sum(column["reward"][3:10]) / sum(column["impressions"][3:10]))
    assert "7 days" in page.locator("#rate-note").inner_text()
    watched.close()


def test_an_ended_experiment_stays_readable(browser: Any, past: Past) -> None:
    watched = keyed(browser, past.url, past.admin)
    page = watched.open()
    page.locator("#past-table a", has_text="sidebar").click()
    page.wait_for_selector("#crumb:not([hidden])")
    page.wait_for_selector("#curve[data-drawn]")
    page.wait_for_function("() => document.getElementById('curve').data.some(trace => trace.name === 'thompson')")
    assert page.evaluate("location.hash") == "#/experiment/sidebar"
    assert page.locator("#crumb-state").inner_text().startswith("ended ")
    names = page.locator("#board tbody .name").all_inner_texts()
    assert sorted(names) == ["thompson", "ucb1"]  # without the experiment's name before them
    colour = page.evaluate("document.getElementById('curve').data.map(trace => [trace.name, trace.line.color])")
    assert dict(colour) == figures.colours(["thompson", "ucb1"])
    assert "bob" in page.locator("#phases tbody tr", has_text="ends").inner_text()
    assert "no difference" in page.locator("#past-table").inner_text()
    assert buttons(page) == ["New experiment"]
    page.wait_for_selector("#status[data-state=live]")
    assert serious(page) == []
    page.locator("#crumb a").click()
    page.wait_for_function("() => document.getElementById('curve').data.some(trace => trace.name === 'cold-start')")
    watched.close()


def test_an_address_of_no_experiment_says_so(browser: Any, past: Past) -> None:
    watched = keyed(browser, past.url, past.read)
    watched.allowed = re.compile("404")
    watched.page.goto(f"{past.url}/#/experiment/nothing")
    watched.page.wait_for_function("() => document.getElementById('sentence').textContent.includes('no such')")
    assert "'nothing'" in watched.page.locator("#overview-state").inner_text()
    watched.page.locator("#overview-state a").click()
    watched.page.wait_for_selector("#board tbody tr")
    watched.page.wait_for_selector("#status[data-state=live]")
    watched.close()


def test_the_guardrail_raises_its_alarm(browser: Any, past: Past) -> None:
    watched = keyed(browser, past.url, past.read)
    page = watched.open("#/experiment/loud")
    alarm = page.locator("#guardrail-alarm")
    alarm.wait_for()
    assert "hide is more frequent than with b, with a by at least +" in alarm.inner_text()
    assert page.locator("#guardrail-table tbody tr", has_text="no alarm").count() == 0
    assert page.locator("#guardrail-table td.alarm").inner_text() == "alarm"
    assert "Guardrail: hide" in page.locator("#more").inner_text()
    assert serious(page) == []
    watched.close()


def test_who_may_only_read_sees_no_buttons(browser: Any, past: Past) -> None:
    watched = keyed(browser, past.url, past.read)
    page = watched.open()
    page.wait_for_selector("#phases tbody tr")
    assert buttons(page) == []
    watched.close()
    watched = keyed(browser, past.url, past.admin)
    page = watched.open()
    page.wait_for_selector("#actions button")
    assert buttons(page) == [
        "Change shares",
        "Add an algorithm",
        "Add a shadow",
        "Stop an algorithm",
        "Promote an algorithm",
        "New experiment",
    ]
    watched.close()


def press(page: Any, button: str, act: str, words: str, **fields: str) -> None:
    """Press a button, fill its dialog in, see that it says what will happen, and have it done."""
    page.get_by_role("button", name=button).click()
    dialog = page.locator("#ask")
    for name, value in fields.items():
        field = dialog.locator(f"[name='{name}']")
        if field.evaluate("field => field.tagName") == "SELECT":
            field.select_option(value)
        else:
            field.fill(value)
    assert words in said(dialog.locator("#ask-words").inner_text())
    dialog.get_by_role("button", name=act).click()


def phases_of(url: str, token: str, name: str = "main") -> list[dict[str, Any]]:
    own = {"Authorization": f"Bearer {token}"}
    found: list[dict[str, Any]] = httpx.get(f"{url}/v1/experiments/{name}/phases", headers=own).json()["phases"]
    return found


def test_an_admin_changes_experiments_by_buttons(browser: Any, tmp_path: Path) -> None:
    token, _ = new_key(tmp_path / "keys.toml", name="ann", role="admin")
    own = {"Authorization": f"Bearer {token}"}
    with serving(tmp_path, "--variants", "cold-start, ucb1", "--keys-file", "keys.toml") as service:
        url = service.url
        httpx.post(f"{url}/v1/items", json={"items": [{"id": name} for name in "abc"]}, headers=own)
        for _ in range(20):
            httpx.post(f"{url}/v1/rank", json={"k": 2}, headers=own)
        watched = keyed(browser, url, token)
        watched.allowed = re.compile("409|422")
        page = watched.open()
        page.wait_for_selector("#actions button")
        assert page.locator("#timeline").is_hidden()

        words = "cold-start 50 % → 90 %, ucb1 50 % → 10 %"
        press(page, "Change shares", "Change shares", words, **{"cold-start": "90", "ucb1": "10", "why": "it leads"})
        page.wait_for_selector("#phases tbody tr >> text=cold-start 50 % → 90 %")
        last = phases_of(url, token)[-1]
        assert (last["by"], last["why"], last["weights"]) == ("ann", "it leads", {"cold-start": 90, "ucb1": 10})
        assert "it leads" in page.locator("#phases").inner_text()

        words = "mine joins: from now on cold-start 81 %, ucb1 9 %, mine 10 %"
        press(page, "Add an algorithm", "Add it", words, policy="kl-ucb(c=3)", variant="mine", share="10")
        page.wait_for_selector("#phases tbody tr >> text=mine joins with 10 %")
        press(page, "Stop an algorithm", "Stop it", "ucb1 stops", variant="ucb1")
        page.wait_for_selector("#phases tbody tr >> text=ucb1 stops")
        page.wait_for_selector("#board tr.former >> text=ucb1")

        # somebody else is faster: the service's reason is shown, and nothing is done
        page.get_by_role("button", name="Promote an algorithm").click()
        weights = {"cold-start": 1.0, "mine": 1.0}
        httpx.post(f"{url}/v1/experiments/main/phases", json={"weights": weights}, headers=own)
        page.locator("#ask-act").click()
        page.wait_for_function("() => document.getElementById('ask-error').textContent.includes('another began')")
        assert phases_of(url, token)[-1]["weights"] == weights
        page.locator("#ask-cancel").click()
        press(page, "Promote an algorithm", "Promote it", "cold-start ranks all traffic", variant="cold-start")
        page.wait_for_selector("#phases tbody tr >> text=mine stops")
        assert phases_of(url, token)[-1]["variants"] == {"cold-start": "cold-start"}

        words = "sidebar starts with 20 % of the rankings in side, shared evenly by 2 algorithms: ucb1, new"
        asked = {"name": "sidebar", "policies": "ucb1\nnew = nothing", "share": "20", "placement": "side"}
        press(page, "New experiment", "Start it", words, **asked)
        page.wait_for_function("() => document.getElementById('ask-error').textContent.includes('nothing')")
        page.locator("[name=policies]").fill("ucb1\nnew = kl-ucb(c=3)")
        assert serious(page) == []
        page.locator("#ask-act").click()
        words = "lab starts with 10 % of all rankings, shared as ucb1 75 %, kl-ucb 25 %. Before that 8 % are a holdout"
        policies = {"policies": "3 ucb1\nkl-ucb", "control": "ucb1", "holdout": "uniform", "holdout_share": "8"}
        press(page, "New experiment", "Start it", words, name="lab", **policies)
        page.wait_for_selector("#experiments a >> text=lab")
        lab = phases_of(url, token, "lab")[-1]
        assert lab["control"] == "lab:ucb1"
        assert lab["variants"]["lab:holdout"] == "uniform"
        whole = sum(lab["weights"].values())
        shares = {name: weight / whole for name, weight in lab["weights"].items()}
        assert shares == pytest.approx({"lab:ucb1": 0.69, "lab:kl-ucb": 0.23, "lab:holdout": 0.08})

        page.locator("#experiments a", has_text="sidebar").click()
        page.wait_for_selector("#actions button >> text=End the experiment")
        press(page, "End the experiment", "End it", "sidebar ends for good", why="a test")
        page.wait_for_selector("#past-table >> text=a test")
        assert phases_of(url, token, "sidebar")[-1]["ended"]
        watched.close()


def test_a_shadow_has_a_card_with_what_it_would_have_earned(
    browser: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Overlap, its rate with the interval, and whether it is safe to promote: as the API has them."""
    numbers = itertools.count()
    monkeypatch.setattr("hellinger.engine.desk.new_request", lambda _: f"ranking-{next(numbers):016}")
    url = f"sqlite:///{tmp_path}/log.db"
    settings = Settings(database=url, variants={"now": "uniform"}, seed=1, positions="none")
    main = Allocation.given(settings)
    shadowed = main._replace(shadows={"better": "cold-start", "same": "uniform"}).check()
    phases = [Begun(0, main, "settings"), Begun(0, shadowed, "ann", "is it better?")]
    fill(settings, requests=900, items=12, days=6, k=4, phases=phases)
    admin, _ = new_key(tmp_path / "keys.toml", name="ann", role="admin")
    read, _ = new_key(tmp_path / "keys.toml", name="eve", role="read")
    flags = ["--database", url, "--variants", "now = uniform", "--positions", "none", "--keys-file", "keys.toml"]
    with serving(tmp_path, *flags) as service:
        own = {"Authorization": f"Bearer {read}"}
        told = httpx.get(f"{service.url}/v1/experiments/main", headers=own).json()["shadows"]
        better, same = (next(row for row in told if row["shadow"] == name) for name in ("better", "same"))
        assert better["safe"]
        assert better["sentence"].startswith("Safe to promote: at least +")
        assert not same["safe"]
        for token, width in ((admin, 1280), (read, 360)):
            watched = keyed(browser, service.url, token)
            page = watched.page
            page.set_viewport_size({"width": width, "height": 800})
            watched.open()
            page.wait_for_selector("#shadows:not([hidden]) .model")
            cards = page.locator("#shadows .model")
            assert cards.count() == 2
            for row, number in ((better, 0), (same, 1)):
                card, text = cards.nth(number), said(cards.nth(number).inner_text())
                assert card.locator("h3 .name").inner_text() == row["shadow"]
                assert said(row["sentence"]) in text
                assert card.locator("p.strong").count() == row["safe"]
                figures_ = {
                    said(each.locator("dt").inner_text()): said(each.locator("dd").inner_text())
                    for each in card.locator("dl > div").all()
                }
                assert figures_["Rankings that it ranked too"] == "900, 100 % of all"
                overlap = re.match(r"([\d.]+) % \(([\d.]+) % in the same place\)", figures_[SHOWN_TOO])
                assert overlap is not None
                assert float(overlap[1]) == pytest.approx(100 * row["same"], abs=0.6)
                assert float(overlap[2]) == pytest.approx(100 * row["same_place"], abs=0.6)
                rate = [float(each) for each in re.findall(r"([\d.]+) ?%", figures_["Rate that it would have had"])]
                expected = [100 * row[name] for name in ("rate", "low", "high")]
                assert rate == pytest.approx(expected, abs=0.06)
                assert card.locator("dd svg, dd .interval").count() >= 1
                assert card.get_by_role("button", name=f"Promote {row['shadow']}").count() == (token is admin)
            assert serious(page) == []
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            watched.close()


def test_a_broken_split_raises_the_alarm(browser: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"sqlite:///{tmp_path}/log.db"
    settings = Settings(database=url, variants={name: name for name in EVEN}, seed=1)
    even = Allocation.given(settings)
    with monkeypatch.context() as broken:
        choose = Split.choose
        broken.setattr(Split, "choose", lambda split, rng: choose(split, rng) if rng.random() < 0.6 else ("ucb1", 0.5))
        phases = [Begun(0, even, "settings"), Begun(1, even._replace(control="ucb1"), "ann")]
        fill(settings, requests=800, items=10, days=4, k=2, phases=phases)
    with serving(tmp_path, "--database", url, "--variants", ", ".join(EVEN)) as service:
        watched = Watched(browser, service.url)
        page = watched.open()
        alarm = page.locator("#ratio")
        alarm.wait_for()
        assert re.search(
            r"not what it should be, in phase 2 \(.* intended: cold-start 50 %, ucb1 50 %\): "
            r"(cold-start|ucb1) got \S+ % of it where 50 % was intended \(p < 0.0001\)",
            said(alarm.inner_text()),
        )
        assert serious(page) == []
        watched.close()


def test_a_store_that_is_away_is_said_and_found_again(browser: Any, tmp_path: Path) -> None:
    database, aside = tmp_path / "log.db", tmp_path / "aside.db"
    with serving(tmp_path, "--database", f"sqlite:///{database}") as service:
        httpx.post(f"{service.url}/v1/items", json={"items": [{"id": name} for name in "abc"]})
        watched = Watched(browser, service.url)
        page = watched.open()
        assert page.locator("#degraded").is_hidden()
        database.rename(aside)
        assert httpx.post(f"{service.url}/v1/rank", json={"k": 2}).status_code == 200
        page.wait_for_selector("#degraded:not([hidden])")
        assert "feedback is refused" in page.locator("#degraded").inner_text()
        aside.rename(database)
        page.wait_for_selector("#degraded", state="hidden")
        watched.close()


# Pool ----------------------------------------------------------------------------------------------------


def test_positions_are_shown_with_what_they_change(browser: Any, tmp_path: Path) -> None:
    with serving(tmp_path, "--positions", "1, 0.7, 0.5") as service:
        httpx.post(f"{service.url}/v1/items", json={"items": [{"id": name} for name in "abc"]})
        assert httpx.post(f"{service.url}/v1/rank", json={"k": 3}).status_code == 200
        watched = Watched(browser, service.url)
        page = watched.open("#/pool")
        page.wait_for_selector("#positions:not([hidden])")
        said = "An impression at position 3 counts as 0.50 (as set); all 3 impressions so far count as 2."
        page.wait_for_function("said => document.getElementById('positions-sentence').textContent === said", arg=said)
        page.wait_for_selector("#positions-chart[data-drawn=true]")
        page.locator("#positions summary").click()
        rows = page.locator("#positions-table tbody tr").all_inner_texts()
        assert [row.split("\t")[-1] for row in rows] == ["1.00", "0.70", "0.50"]
        watched.close()


def test_what_a_model_has_learned_is_shown_and_who_asked_is_not(browser: Any, tmp_path: Path) -> None:
    with serving(tmp_path, "--variants", "personal = cold-start(model=logistic)") as service:
        items = [{"id": f"i{n}", "features": {"topic": ("sport", "art")[n % 2]}} for n in range(8)]
        httpx.post(f"{service.url}/v1/items", json={"items": items})
        for number in range(30):
            asked = {
                "k": 4,
                "user": f"ada{number % 9}",
                "context": {"likes": ("sport", "art")[number % 2], "height": 171.25},
            }
            ranking = httpx.post(f"{service.url}/v1/rank", json=asked).json()
            liked = [each["id"] for each in ranking["items"] if int(each["id"][1:]) % 2 == number % 2]
            events = [{"ranking_id": ranking["ranking_id"], "item": item} for item in liked]
            if events:
                httpx.post(f"{service.url}/v1/feedback", json={"events": events})
        watched = Watched(browser, service.url, viewport={"width": 360, "height": 740})
        page = watched.open()
        page.wait_for_selector("#models:not([hidden]) [data-model][data-drawn]")
        assert "likes=sport × topic=sport" in page.locator("#models tbody th").all_inner_texts()
        assert "impressions of 8 items" in page.locator("#models-body .note").first.inner_text()
        assert "171.25" not in page.content()
        assert serious(page) == []
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
        watched.close()


def test_the_best_items_are_shown(browser: Any, tmp_path: Path) -> None:
    with serving(tmp_path, "--variants", "cold-start, ucb1") as service:
        with hellinger.Client(service.url) as client:
            client.add_items(f"i{n}" for n in range(12))
            client.import_counts("before", [CountRow(f"i{n}", 500, 5 * n) for n in range(12)], variant="cold-start")
            client.rank(3)
        for width in (360, 1280):
            watched = Watched(browser, service.url, viewport={"width": width, "height": 800})
            page = watched.open()
            page.select_option("#best-wanted", "5")
            # twelve rows, of the twenty asked for at first, may be there before these
            five = "#best-rows:not(:has(tr:nth-child(6))) tr:nth-child(5)"
            page.wait_for_selector(five, state="attached", timeout=60_000)
            told = said(page.locator("#best-sentence").inner_text())
            assert told.startswith("Not yet: 0 of 5 are certain to be among the best, with 95 % confidence;")
            assert "may still be rewarded" in told
            page.click("#best-which summary")
            assert "i11" in page.locator("#best-rows tr").first.inner_text()
            assert page.locator("#best-rows tr").count() == 5
            assert serious(page) == []
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            watched.close()


def test_what_groups_tell_is_shown(browser: Any, tmp_path: Path) -> None:
    with serving(tmp_path, "--variants", "cold-start, ucb1") as service:
        items = [{"id": f"i{n}", "group": ["news", f"story-{n // 4}"]} for n in range(60)]
        httpx.post(f"{service.url}/v1/items", json={"items": items})
        with hellinger.Client(service.url) as client:
            rows = [CountRow(f"i{n}", 500, 60 if n // 4 == 3 else 5) for n in range(60)]
            client.import_counts("before", rows, variant="cold-start")
        assert httpx.post(f"{service.url}/v1/rank", json={"k": 3}).status_code == 200
        for width in (360, 1280):
            watched = Watched(browser, service.url, viewport={"width": width, "height": 800})
            page = watched.open()
            page.wait_for_selector("[data-groups=cold-start] tbody tr", timeout=60_000)
            assert page.locator("#groups .model").count() == 1  # ucb1 learns nothing from groups
            first = page.locator("#groups tbody tr").first.inner_text()
            assert "news › story-3" in first
            assert "2,00" in first
            told = said(page.locator("#groups .note").first.inner_text())
            assert told.startswith("Of what makes click rates differ, ")
            assert page.locator("#groups .variance li").count() >= 2
            assert serious(page) == []
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            watched.close()


def test_variants_are_checked_on_demand(browser: Any, tmp_path: Path) -> None:
    with serving(tmp_path, "--variants", "hellinger-ucb, cold-start", "--random-share", "0.5") as service:
        with hellinger.Client(service.url) as client:
            client.add_items([f"i{n}" for n in range(6)])
            for n in range(500):
                ranking = client.rank(3)
                client.feedback([Feedback(ranking.ranking_id, ranking.ids[n % 3])])
        for width in (1280, 360):
            watched = Watched(browser, service.url, viewport={"width": width, "height": 800})
            page = watched.open()
            if width == 1280:
                page.wait_for_selector("#selfcheck:not([hidden])")
                assert page.locator("#selfcheck-note").inner_text().startswith("Each algorithm can be estimated")
                page.click("#selfcheck-now")
                page.wait_for_selector("#selfcheck-now:disabled")
            # who comes later sees what was found
            page.wait_for_selector("[data-check=cold-start]", timeout=120_000)
            told = said(page.locator("[data-check=hellinger-ucb]").inner_text())
            assert re.search(r"^hellinger-ucb\s*Agree\s*estimated from others' traffic: \d.* measured \d", told)
            assert "500 rankings since" in page.locator("#selfcheck-note").inner_text()
            assert page.locator("#selfcheck-now").is_enabled()
            assert serious(page) == []
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            watched.close()


def test_contents_are_sorted_searched_and_paged(watched: Watched) -> None:
    page = watched.open("#/pool")
    page.wait_for_selector("#pool-table tbody tr")

    def numbers(column: int) -> list[float]:
        cells = page.locator(f"#pool-table tbody td:nth-of-type({column})").all_inner_texts()
        return [float(cell.replace(",", "").removesuffix(" %").replace("–", "nan")) for cell in cells]

    assert len(ids(page)) == 25
    assert numbers(2) == sorted(numbers(2), reverse=True)
    for column, name in ((3, "Reward"), (4, "Rate")):
        page.get_by_role("button", name=name).click()
        page.wait_for_selector(f"th[aria-sort=descending] >> text={name}")
        assert numbers(column) == sorted(numbers(column), reverse=True), name
        assert page.locator("th[aria-sort]").count() == 1
    page.get_by_role("button", name="Rate").click()
    page.wait_for_selector("th[aria-sort=ascending]")
    assert numbers(4) == sorted(numbers(4))
    page.get_by_role("button", name="Next").click()
    page.wait_for_function("() => document.getElementById('pages').textContent.startsWith('26–50 of 60')")
    assert len(set(ids(page))) == 25
    page.get_by_role("searchbox", name="Search ids").fill("0042")
    page.wait_for_function("() => document.querySelectorAll('#pool-table tbody tr').length === 1")
    assert ids(page) == ["item-0042"]
    page.get_by_role("searchbox", name="Search ids").fill("no such thing")
    page.wait_for_selector("#pool-state:not([hidden])")
    assert "no such thing" in page.locator("#pool-state").inner_text()


def test_filters_show_what_they_say(watched: Watched) -> None:
    page = watched.open("#/pool")
    page.wait_for_selector("#pool-table tbody tr")
    for name, state in (("Graduated", "graduated"), ("Newest", "shown")):
        page.get_by_role("radio", name=name).check(force=True)
        total = httpx.get(f"{watched.url}/v1/items", params={"state": state, "limit": 1}).json()["total"]
        assert total
        page.wait_for_function(f"() => document.getElementById('pages').textContent.endsWith('of {total}')")
    for name in ("Retired", "Hidden", "Expired"):
        page.get_by_role("radio", name=name).check(force=True)
        page.wait_for_function("() => document.getElementById('pages').textContent === 'None'")
        assert page.locator("#pool-state").is_visible()
    page.get_by_role("radio", name="Rising").check(force=True)
    page.wait_for_function("() => document.getElementById('show-note').textContent.includes('20 impressions')")


def test_a_content_tells_its_story(watched: Watched) -> None:
    page = watched.open("#/pool")
    page.wait_for_selector("#pool-table tbody tr")
    name = ids(page)[0]
    page.locator("#pool-table tbody a").first.press("Enter")
    drawer = page.locator("dialog[open]")
    drawer.wait_for()
    assert drawer.get_by_role("heading", level=2).inner_text() == name
    page.wait_for_selector("dialog .chart[data-drawn]")
    row = httpx.get(f"{watched.url}/v1/items/{name}").json()
    drawn = page.evaluate("document.querySelector('dialog .chart').data.flatMap(t => t.y).reduce((a, b) => a + b, 0)")
    assert drawn == row["impressions"]
    assert "Added" in drawer.locator(".marks").inner_text()
    assert page.evaluate("location.hash") == f"#/pool/{name}"
    page.keyboard.press("Escape")
    page.wait_for_selector("dialog", state="hidden")
    page.wait_for_function("() => location.hash === '#/pool'")  # a dialog tells that it closed a moment later
    page.wait_for_function("name => document.activeElement.textContent === name", arg=name)  # one goes on from there


@pytest.mark.parametrize("name", ["%", "50%25%", "nobody"])
def test_an_address_of_no_item_says_so(watched: Watched, name: str) -> None:
    watched.allowed = re.compile("404")
    page = watched.open(f"#/pool/{name}")
    alert = page.locator("dialog[open] [role=alert]")
    alert.wait_for()
    assert alert.inner_text() == "There is no such item. It may have been deleted, or have expired days ago."
    assert page.locator("#drawer-title").inner_text() == name
    assert "Loading" not in page.locator("dialog[open]").inner_text()
    page.keyboard.press("Escape")
    page.wait_for_function("() => location.hash === '#/pool'")
    page.wait_for_selector("#pool-table tbody tr")


def test_names_are_never_read_as_html(watched: Watched) -> None:
    name = "<img src=x onerror=alert(1)>"
    httpx.post(
        f"{watched.url}/v1/items", json={"items": [{"id": name, "tags": ["<b>tag</b>"], "metadata": {"<i>": "<u>"}}]}
    )
    page = watched.open("#/pool")
    page.get_by_role("searchbox").fill("<img")
    page.wait_for_function("() => document.querySelectorAll('#pool-table tbody tr').length === 1")
    assert ids(page) == [name]
    page.locator("#pool-table tbody a").click()
    page.wait_for_selector("dialog .marks")
    assert page.locator("#pool-table img, dialog img, dialog b, dialog u").count() == 0
    httpx.delete(f"{watched.url}/v1/items/{name}")


# Health --------------------------------------------------------------------------------------------------


def test_health_is_told_and_drawn(watched: Watched) -> None:
    httpx.post(f"{watched.url}/v1/rank", json={"k": 3})
    page = watched.open("#/health")
    page.wait_for_function("() => document.getElementById('health-sentence').textContent.includes('within 10 ms')")
    assert page.locator("#tiles dt").count() == 8
    assert len(points(page, "latency")) == 2
    page.wait_for_function("() => document.getElementById('flow').data.some((trace) => trace.y.length > 1)")
    assert page.locator("#spread tbody tr").count() == 6
    shapes = page.evaluate("document.getElementById('latency').layout.shapes.map(shape => shape.y0)")
    assert shapes == [10]


# Who may look, and what if nobody answers ---------------------------------------------------------------------


def test_a_key_is_asked_for_and_kept_out_of_addresses(browser: Any, tmp_path: Path) -> None:
    token, _ = new_key(tmp_path / "keys.toml", name="page", role="read")
    with serving(tmp_path, "--keys-file", "keys.toml") as service:
        watched = Watched(browser, service.url)
        watched.allowed = re.compile("401")  # browsers write every refusal to the console
        page = watched.page
        page.goto(service.url)
        key = page.get_by_label("Key", exact=True)
        key.fill("hk_wrong")
        key.press("Enter")
        page.wait_for_function("() => document.getElementById('gate-error').textContent.includes('not in force')")
        key.fill(token)
        page.get_by_role("button", name="Open").click()
        page.wait_for_selector("#status[data-state=live]")
        assert page.locator("#gate").is_hidden()
        assert "No traffic yet" in page.locator("#sentence").inner_text()  # the service is new
        assert "/v1/rank" in page.locator("#overview-state").inner_text()
        page.reload()
        page.wait_for_selector("#status[data-state=live]")
        assert all(token not in url for url in watched.asked)
        assert page.evaluate("[localStorage.length, sessionStorage.length]") == [0, 1]
        page.get_by_role("button", name="Forget key").click()
        page.wait_for_selector("#gate:not([hidden])")
        assert page.evaluate("sessionStorage.length") == 0
        watched.close()


def test_a_lost_connection_is_said_and_found_again(browser: Any, tmp_path: Path) -> None:
    with serving(tmp_path) as service:
        watched = Watched(browser, service.url)
        watched.allowed = re.compile("ERR_CONNECTION_REFUSED|ERR_INCOMPLETE_CHUNKED|ERR_CONNECTION_RESET")
        page = watched.open()
    page.wait_for_selector("#status[data-state=lost]")
    page.wait_for_selector("#lost:not([hidden])")
    assert "as of" in page.locator("#lost").inner_text()
    with serving(tmp_path, "--port", service.url.rpartition(":")[2]) as again:
        assert again.url == service.url
        page.wait_for_selector("#status[data-state=live]")
        page.wait_for_selector("#lost", state="hidden")
        watched.close()


# For everybody -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize(
    "watched", [{"color_scheme": "light"}, {"color_scheme": "dark"}], ids=["light", "dark"], indirect=True
)
def test_axe_finds_nothing_serious(watched: Watched, view: str) -> None:
    page = watched.open(VIEWS[view])
    if view == "pool":
        page.wait_for_selector("#pool-table tbody tr")
    else:
        page.wait_for_selector({"overview": "#rate", "health": "#flow"}[view] + "[data-drawn]")
    assert serious(page) == []
    if view == "pool":
        page.locator("#pool-table tbody a").first.click()
        page.wait_for_selector("dialog .marks")
        assert serious(page) == []


def serious(page: Any) -> list[str]:
    found = axe.Axe().run(page).response["violations"]
    return [
        f"{each['id']}: {node['html'][:120]}"
        for each in found
        if each["impact"] in ("serious", "critical")
        for node in each["nodes"]
    ]


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("watched", [{"viewport": {"width": 360, "height": 740}}], ids=["360px"], indirect=True)
def test_a_phone_scrolls_only_down(watched: Watched, view: str) -> None:
    page = watched.open(VIEWS[view])
    page.wait_for_timeout(500)
    assert page.evaluate("document.documentElement.scrollWidth") == 360
    if view == "pool":
        page.locator("#pool-table tbody a").first.click()
        page.wait_for_selector("dialog .marks")
        assert page.evaluate("document.querySelector('dialog').scrollWidth") <= 360


def test_colours_can_be_chosen_and_stay(watched: Watched) -> None:
    page = watched.open()
    ground = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(ground)
    button = page.get_by_role("button", name=re.compile("Colours"))
    button.click()
    assert page.evaluate(ground) == light
    button.click()
    assert button.get_attribute("aria-label") == "Colours: dark"
    dark = page.evaluate(ground)
    assert dark != light
    page.reload()
    page.wait_for_selector("#status[data-state=live]")
    assert page.evaluate(ground) == dark


def test_the_keyboard_reaches_everything(watched: Watched) -> None:
    page = watched.open()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    page.keyboard.press("Enter")
    page.wait_for_function("() => document.activeElement.id === 'main'")
    page.locator("nav a", has_text="Pool").focus()
    page.keyboard.press("Enter")
    page.wait_for_selector("#pool-table tbody tr")
    page.wait_for_selector("nav a[aria-current=page] >> text=Pool")
    page.get_by_role("radio", name="All").focus()
    page.keyboard.press("ArrowRight")
    page.wait_for_selector("th[aria-sort=descending] >> text=Added")
