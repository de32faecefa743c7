"""``hellinger traffic``: users who visit a running service, click, and are counted."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from hellinger.cli._app import JsonFlag, app, console, emit, progress_console
from hellinger.cli._interrupt import keeping
from hellinger.cli._numbers import whole
from hellinger.cli._service import answering
from hellinger.errors import needs_extra

if TYPE_CHECKING:
    from hellinger.traffic import Driver, Pace, Report, SentCounts, World

__all__ = ["traffic"]

_USERS, _MISHAPS, _PACE = "Users", "Mishaps", "Pace"


@app.command("traffic")
def traffic(
    url: Annotated[
        str, typer.Argument(envvar="HELLINGER_URL", help="Address of the service.")
    ] = "http://127.0.0.1:8000",
    key: Annotated[str | None, typer.Option(envvar="HELLINGER_KEY", help="A key that may write.")] = None,
    items: Annotated[
        int | None,
        typer.Option(
            help="Items to begin with; 1,000, or all of the file.", parser=whole(1, 10**7), show_default=False
        ),
    ] = None,
    csv: Annotated[
        Path | None,
        typer.Option(help="Your items: item,ctr or item,impressions,clicks.", exists=True, dir_okay=False),
    ] = None,
    law: Annotated[str, typer.Option(help="Law of made-up click rates: beta, heavy-tailed or bimodal.")] = "bimodal",
    arrivals: Annotated[float, typer.Option(help="Items that come, and oldest that expire, in a simulated day.")] = 0.0,
    seed: Annotated[int, typer.Option(help="What users and clicks are drawn from.", parser=whole(0))] = 0,
    rate: Annotated[
        float | None, typer.Option(help="Pages a second; as fast as it goes if not given.", rich_help_panel=_PACE)
    ] = None,
    requests: Annotated[
        int | None, typer.Option(help="Stop after so many pages.", parser=whole(0), rich_help_panel=_PACE)
    ] = None,
    seconds: Annotated[float | None, typer.Option(help="Stop after so long.", min=0, rich_help_panel=_PACE)] = None,
    connections: Annotated[
        int, typer.Option(help="Requests under way at once, at most.", parser=whole(most=10**5), rich_help_panel=_PACE)
    ] = 8,
    day: Annotated[
        float | None,
        typer.Option(
            help="Pages in a simulated day; those of a real one at --rate, else 100,000.", rich_help_panel=_PACE
        ),
    ] = None,
    slots: Annotated[
        int, typer.Option("--slots", "-k", help="Slots of a page.", parser=whole(), rich_help_panel=_USERS)
    ] = 20,
    users: Annotated[
        int, typer.Option(help="How many there are.", parser=whole(most=10**8), rich_help_panel=_USERS)
    ] = 5000,
    pages: Annotated[float, typer.Option(help="Pages of a visit, on average.", rich_help_panel=_USERS)] = 3.0,
    memory: Annotated[
        int,
        typer.Option(
            help="Items seen last that a user is not shown again.", parser=whole(most=10**6), rich_help_panel=_USERS
        ),
    ] = 40,
    eta: Annotated[
        float, typer.Option(help="Position j is looked at with probability j^−eta.", rich_help_panel=_USERS)
    ] = 0.5,
    like: Annotated[float, typer.Option(help="Chance of a like after a click.", rich_help_panel=_USERS)] = 0.1,
    comment: Annotated[float, typer.Option(help="Chance of a comment after a click.", rich_help_panel=_USERS)] = 0.03,
    delay: Annotated[
        float, typer.Option(help="Seconds until word of a click arrives, on average.", rich_help_panel=_USERS)
    ] = 5.0,
    slow: Annotated[
        float, typer.Option(help="Chance that it takes ten minutes or so instead.", rich_help_panel=_MISHAPS)
    ] = 0.05,
    duplicate: Annotated[float, typer.Option(help="Chance that it arrives twice.", rich_help_panel=_MISHAPS)] = 0.02,
    abandon: Annotated[
        float, typer.Option(help="Chance that nobody looks at a page.", rich_help_panel=_MISHAPS)
    ] = 0.05,
    abort: Annotated[
        float, typer.Option(help="Chance that a request is cut before its answer.", rich_help_panel=_MISHAPS)
    ] = 0.005,
    weights: Annotated[
        str | None, typer.Option(help="The service's points by kind, as like=0.5, where not 1: for --verify.")
    ] = None,
    verify: Annotated[
        bool, typer.Option("--verify", help="Compare what was sent with what was counted; exit 1 if they differ.")
    ] = False,
    json: JsonFlag = False,
) -> None:
    """Send a running service the traffic of a site: users visit, look, click, come back; items come and go.

    Items are made up, with click rates from a law, or read from your own figures (--csv), and added to the service
    first. Users come in sessions and are not shown again what they saw last. They look at the upper positions more than
    at the lower (--eta), click by the item's own rate, and word of it arrives after a while, sometimes twice,
    sometimes in the wrong order. The same --seed sends the same users.

    At the end it prints what it sent. --verify asks the service for its counts and compares them number by number, for
    every variant and every item; nobody else may send traffic meanwhile. Ctrl-C ends it in good order.

    Try: hellinger serve in one terminal, then hellinger traffic --requests 2000 --verify in another.
    """
    with needs_extra("serve"):
        import uvloop

        from hellinger.engine._setting_text import pairs
        from hellinger.traffic import Pace, UserModel, World, from_csv, from_law
    visits = day if day is not None else (rate * 86_400 if rate is not None else 100_000.0)
    site_users = UserModel(
        visits=visits,
        k=slots,
        users=users,
        pages=pages,
        memory=memory,
        rhythm=0.0,
        eta=eta,
        like=like,
        comment=comment,
        delay=delay,
        slow=slow,
        duplicate=duplicate,
        abandon=abandon,
        abort=abort,
        arrivals=arrivals,
    ).check()
    pace = Pace(rate, connections, requests, seconds).check()
    supply = from_csv(csv, law=law) if csv is not None else from_law(law)
    most = items if items is not None else (10**9 if csv is not None else 1000)
    with keeping("nothing was sent"):
        world = World(site_users, supply, items=most, seed=seed, start=time.time_ns() // 1_000_000)
    points = {kind: float(value) for kind, value in pairs(weights).items()} if weights else None
    note = "what was sent is counted by the service; the same command sends it anew"
    with keeping(note), answering(url), asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        report = runner.run(_drive(url, key, world, pace, points, verify, quiet=json))
    if json:
        emit(_as_json(report))
    else:
        _show(report)
    if report.differences:
        raise typer.Exit(1)


async def _drive(
    url: str, key: str | None, world: World, pace: Pace, points: dict[str, float] | None, verify: bool, *, quiet: bool
) -> Report:
    from hellinger.client import AsyncClient
    from hellinger.traffic import Driver

    with answering(url) as options:
        async with AsyncClient(url, key, **options) as client:
            await client.experiment()  # an address or key that is wrong need not be tried for long
    with _telling(pace, quiet) as tell:
        async with AsyncClient(url, key, connections=pace.connections) as client:
            driver = Driver(client, world, pace, weights=points, verify=verify, progress=tell)
            with stoppable(driver):
                return await driver.run()


@contextlib.contextmanager
def stoppable(driver: Driver) -> Iterator[None]:
    """Let the first Ctrl-C end the traffic in good order, and the second at once."""
    loop = asyncio.get_running_loop()
    task = asyncio.current_task()

    def ask() -> None:
        driver.stop()
        loop.remove_signal_handler(signal.SIGINT)
        if task is not None:
            loop.add_signal_handler(signal.SIGINT, task.cancel)
        progress_console.print("[dim]ending; Ctrl-C again to end at once[/]", highlight=False)

    loop.add_signal_handler(signal.SIGINT, ask)
    try:
        yield
    except asyncio.CancelledError:
        raise typer.Exit(130) from None
    finally:
        loop.remove_signal_handler(signal.SIGINT)


@contextlib.contextmanager
def _telling(pace: Pace, quiet: bool) -> Iterator[Callable[[SentCounts], None]]:
    """A line with a bar that says how fast it goes, a few times a second."""
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    quiet = quiet or not progress_console.is_terminal
    with Progress(*columns, console=progress_console, transient=True, disable=quiet) as bar:
        total = pace.requests if pace.requests is not None else pace.seconds
        task = bar.add_task("adding items", total=total)
        began = last = time.monotonic()
        before = 0

        def tell(sent: SentCounts) -> None:
            nonlocal last, before, began
            now = time.monotonic()
            done = len(sent.latencies)
            if done == 1:
                began = last = now
            if now - last < 0.25:
                return
            rate, last, before = (done - before) / (now - last), now, done
            spent = " · ".join(f"{name} {value:.1f} ms" for name, value in sent.percentiles(2000).items())
            completed = done if pace.requests is not None else now - began
            bar.update(task, completed=completed, description=f"{done:,} pages · {rate:,.0f}/s · {spent}")

        yield tell


def _as_json(report: Report) -> dict[str, Any]:
    sent = report.sent.as_json()
    rate = sent["requests"] / report.seconds if report.seconds > 0 else 0.0
    return sent | {
        "seconds": round(report.seconds, 3),
        "requests_per_s": round(rate, 1),
        "verified": None if report.differences is None else not report.differences,
        "differences": report.differences or [],
    }


def _show(report: Report) -> None:
    sent = _as_json(report)
    answers = sent["answers"]
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in sent["feedback"].items()) or "none"
    spent = ", ".join(f"{name} {value:g} ms" for name, value in sent["latency_ms"].items())
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="dim", no_wrap=True)
    table.add_column()
    table.add_row("pages", f"{sent['requests']:,} in {sent['seconds']:.1f} s, {sent['requests_per_s']:,.0f} a second")
    table.add_row(
        "", f"{sent['abandoned']:,} abandoned, {sent['aborted']:,} aborted ({sent['resolved']:,} asked again)"
    )
    table.add_row("impressions", f"{sent['impressions']:,}")
    table.add_row("feedback", f"{kinds}; {sent['repeated']:,} sent twice")
    table.add_row("", ", ".join(f"{answers[name]:,} {name}" for name in answers))
    table.add_row("items", f"{sent['added']:,} added, {sent['expired']:,} expired")
    table.add_row("latency", spent or "–")
    if sent["failures"]:
        table.add_row("failures", f"[red]{sent['failures']:,} calls given up after all retries[/]")
    console.print(table, highlight=False)
    variants = Table(box=None, header_style="bold", pad_edge=False)
    variants.add_column("variant", style="cyan", no_wrap=True)
    for name in ("requests", "impressions", "rewards"):
        variants.add_column(f"{name} sent", justify="right")
    for name, row in sent["variants"].items():
        variants.add_row(name, *(f"{row[what]:,g}" for what in ("requests", "impressions", "rewards")))
    console.print()
    console.print(variants, highlight=False)
    if report.differences is None:
        return
    console.print()
    if not report.differences:
        console.print("[green]verified:[/] the service counted exactly what was sent", highlight=False)
    else:
        console.print(f"[red]{len(report.differences):,} numbers differ:[/]", highlight=False)
        for line in report.differences[:20]:
            console.print(f"  {line}", highlight=False, markup=False)
