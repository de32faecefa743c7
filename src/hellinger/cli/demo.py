"""``hellinger demo``: the service, a catalogue and users, in one command."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hellinger.cli._app import JsonFlag, app, console, emit
from hellinger.cli._interrupt import keeping
from hellinger.cli._numbers import whole
from hellinger.cli._stages import stages
from hellinger.cli.experiment import experiment_table
from hellinger.errors import needs_extra

if TYPE_CHECKING:
    from hellinger.traffic.demo import Demo

__all__ = ["demo"]


@app.command("demo")
def demo(
    port: Annotated[
        int, typer.Option(help="Port of the page; the next free one if it is taken.", parser=whole(0, 65535))
    ] = 8000,
    keep: Annotated[
        Path | None, typer.Option(help="Folder to keep the database in; an existing one is resumed.")
    ] = None,
    headless: Annotated[
        int | None,
        typer.Option(help="Play so many pages over HTTP, print how the variants stand, and stop.", parser=whole(0)),
    ] = None,
    items: Annotated[int, typer.Option(help="Items in the catalogue.", parser=whole(1, 10**7))] = 5_000,
    variants: Annotated[
        str | None,
        typer.Option(help="Algorithms that share the traffic; the paper's three and ours by default."),
    ] = None,
    days: Annotated[
        float | None, typer.Option(help="Simulated days played before it opens; 60, or none with --headless.")
    ] = None,
    visits: Annotated[float, typer.Option(help="Pages in each of those days.")] = 750.0,
    rate: Annotated[float, typer.Option(help="Pages a second from then on.")] = 2.0,
    seed: Annotated[int, typer.Option(help="What users and clicks are drawn from.", parser=whole(0))] = 0,
    json: JsonFlag = False,
) -> None:
    """Watch algorithms share the traffic of a made-up site: two months at once, then live on a page.

    A service on an embedded database (a temporary one, unless you --keep it), 5,000 items in stories, of which nobody
    knows the click rates, and readers with tastes who visit, look and click. Two months are played in seconds, through
    the code that serves requests, only faster than the clock; then the page opens and goes on live until Ctrl-C.

    For scripts: hellinger demo --headless 200 --json
    """
    with needs_extra("serve"):
        from hellinger.traffic.demo import OURS, PAPER, PERSONAL, Demo, Scene
    past = days if days is not None else (60.0 if headless is None else 0.0)
    scene = Scene(items=items, days=past, visits=visits, rate=rate, seed=seed).check()
    note = "nothing was kept: --keep FOLDER keeps the database, to go on from"
    if keep is not None:
        note = f"{keep} has what was played; the same command goes on live from there"
    with keeping(note), _folder(keep) as folder:
        made = Demo(folder, scene, variants=variants)
        if variants is None and not json:
            paper = f"{', '.join(PAPER[:-1])} and {PAPER[-1]}"
            ours = f"{OURS} is ours, {PERSONAL[0]} is the same for who is asking"
            console.print(f"{paper} are the paper's; {ours}", highlight=False, soft_wrap=True)
        if past and not made.begun:
            _fast_forward(made, quiet=json)
        readout = _run(made, port, headless, quiet=json)
        if headless is None:
            console.print(f"stopped; {note}", highlight=False, markup=False, soft_wrap=True)
        elif json:
            emit(readout)
        else:
            console.print(experiment_table(readout))


@contextlib.contextmanager
def _folder(keep: Path | None) -> Iterator[Path]:
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
        yield keep
        return
    with tempfile.TemporaryDirectory(prefix="hellinger-demo-") as made:
        yield Path(made)


def _fast_forward(demo: Demo, *, quiet: bool) -> None:
    scene, began = demo.scene, time.perf_counter()
    with stages() if not quiet else contextlib.nullcontext(lambda _what, _done: None) as say:
        say("getting ready", None)
        first, span = demo.world.start, scene.days * 86_400_000
        played = demo.fast_forward(lambda at: say(f"playing {scene.days:g} days", (at - first) / span))
    if not quiet:
        spent = time.perf_counter() - began
        shown = f"{scene.days:g} days: {played.requests:,} pages, {played.impressions:,} impressions"
        console.print(
            f"{shown}, {played.feedback:,} clicks, likes and comments, in {spent:.0f} s",
            highlight=False,
            soft_wrap=True,
        )


def _run(demo: Demo, port: int, headless: int | None, *, quiet: bool) -> dict[str, Any]:
    with needs_extra("serve"):
        import uvloop

        from hellinger.serve.logs import configure
        from hellinger.serve.run import address
        from hellinger.traffic.demo import bind

    configure(level=demo.settings.log_level, form=demo.settings.log_format)
    listener = bind(demo.settings.host, 0 if headless is not None else port)
    try:
        where = address(listener)
        if headless is None and not where.endswith(f":{port}"):
            console.print(f"port {port} is taken", highlight=False)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(_live(demo, listener, where, headless, quiet=quiet))
    finally:
        listener.close()


async def _live(demo: Demo, listener: Any, where: str, headless: int | None, *, quiet: bool) -> dict[str, Any]:
    fresh = not demo.begun and not demo.scene.days
    async with demo.service(listener), demo.client(where) as client:
        driver = demo.traffic(client, requests=headless, fresh=fresh)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, driver.stop)
        try:
            if headless is None:
                console.print(f"\n  open [bold cyan]{where}[/]   (Ctrl-C ends it)\n", highlight=False)
            await driver.run()
            return dict((await client.experiment()).raw)
        finally:
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.remove_signal_handler(number)
