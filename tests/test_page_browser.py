"""The page in a real browser, against a real service: drawn, live, found, locked, read aloud, and on a phone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from hellinger import figures
from hellinger.engine.settings import Settings
from hellinger.serve.keys import new_key
from running import VARIANTS, Running, fill, serving

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed")

CHROMIUM = Path("/usr/bin/chromium")
pytestmark = pytest.mark.skipif(not CHROMIUM.exists(), reason=f"there is no {CHROMIUM}")

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
    spoken = page.locator("#sentence").inner_text().replace("\u00a0", " ").replace("\u2060", "")
    assert spoken == told["sentence"]
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


def test_one_algorithm_is_compared_with_nothing(browser: Any, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/log.db"
    fill(Settings(database=url, seed=1), requests=200, items=60, days=5)
    with serving(tmp_path, "--database", url) as service:
        watched = Watched(browser, service.url)
        page = watched.open()
        points(page, "curve")
        colour = page.evaluate("document.getElementById('curve').data.map(trace => trace.line.color)")
        assert colour == list(figures.colours(["cold-start"]).values())
        sentence = page.locator("#sentence").inner_text().replace("\u00a0", " ").replace("\u2060", "")
        assert re.fullmatch(r"Cold-start ranks all traffic; its reward rate is \d+ % \(\d+–\d+ %\)\.", sentence)
        board = [cell.inner_text() for cell in page.locator("#board thead th").all() if cell.is_visible()]
        assert board == ["Algorithm", "Impressions", "Reward", "Rate", "95 % interval"]
        assert page.locator("#board tbody tr").locator("th, td").count() == len(board)
        for versus in ("#control", "#share"):
            assert page.locator(versus).is_hidden()
        assert "Lift" not in page.locator("#overview").inner_text()
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
    page.get_by_text("The figures as a table").click()
    page.wait_for_function("() => document.querySelectorAll('#curve-table tbody tr').length === 60")


# Pool ----------------------------------------------------------------------------------------------------


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
def test_an_address_of_no_content_says_so(watched: Watched, name: str) -> None:
    watched.allowed = re.compile("404")
    page = watched.open(f"#/pool/{name}")
    told = page.locator("dialog[open] [role=alert]")
    told.wait_for()
    assert f"must be that of a content, but got '{name}'" in told.inner_text()
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
    assert max(points(page, "flow")) > 1
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
