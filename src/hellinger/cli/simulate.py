"""``hellinger simulate``: any policies on any problem; ``hellinger show``: what came of it."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from hellinger._spec import split_specs
from hellinger.cli._app import JsonFlag, app, console, emit, progress_console
from hellinger.cli._interrupt import keeping
from hellinger.cli._numbers import whole
from hellinger.errors import InputError, needs_extra, require

if TYPE_CHECKING:
    from hellinger.lab import Result

__all__ = ["emit_result", "print_result", "show", "simulate", "tracked"]


@contextlib.contextmanager
def tracked(what: str, *, quiet: bool = False, compiles: bool = True) -> Iterator[Callable[[int, int], None]]:
    """Show a progress bar on standard error, and give the function that moves it.

    Work that ``compiles`` may be long in coming to its first step, and says so.
    """
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    hidden = quiet or not progress_console.is_terminal  # elsewhere a bar would only leave empty lines
    with Progress(*columns, console=progress_console, transient=True, disable=hidden) as bar:
        task = bar.add_task(f"{what} (compiling what is new)" if compiles else what, total=None)

        def move(done: int, total: int) -> None:
            waiting = compiles and not done
            bar.update(task, completed=done, total=total, description=f"{what} (compiling)" if waiting else what)

        yield move


@app.command()
def simulate(
    context: typer.Context,
    policies: Annotated[
        str, typer.Option(help="Policies, separated by commas; arguments in parentheses: 'kl-ucb(c=3)'.")
    ] = "hellinger-ucb,kl-ucb,ucb1",
    means: Annotated[
        str,
        typer.Option(
            help="True means: '0.1,0.05', a law 'beta(1.6,100)x10000', a file; or how they change: "
            "'piecewise(arms=10,changes=5)', 'drift(arms=10,variation=1)', 'seasonal(arms=2,cycles=1.5)'."
        ),
    ] = "0.1,0.05,0.05,0.05,0.02,0.02,0.02,0.01,0.01,0.01",
    problem: Annotated[
        str | None,
        typer.Option(
            help="Instead of means, a site where people and items have features: 'synthetic', 'jester', 'coat' or "
            "'upworthy', arguments in parentheses. See below."
        ),
    ] = None,
    data: Annotated[
        Path | None, typer.Option(help="Folder with the folders jester, coat and upworthy; 'data' if not given.")
    ] = None,
    family: Annotated[str, typer.Option(help="Family of rewards: see `hellinger families`.")] = "bernoulli",
    horizon: Annotated[
        int | None,
        typer.Option(help="Rounds in a run; 10,000, or 2,000 pages of a problem.", parser=whole(most=10**15)),
    ] = None,
    runs: Annotated[int | None, typer.Option(help="Runs; 200, or 10 of a problem.", parser=whole())] = None,
    init: Annotated[int, typer.Option(help="Plays every arm is given first.", parser=whole())] = 1,
    seed: Annotated[int, typer.Option(help="The same seed gives the same numbers, anywhere.", parser=whole())] = 0,
    slots: Annotated[
        int | None, typer.Option(help="Arms played a round; 1, or the slots of a problem's page.", parser=whole())
    ] = None,
    batch: Annotated[int, typer.Option(help="Rounds between two readings of feedback.", parser=whole())] = 1,
    delay: Annotated[int, typer.Option(help="Rounds before feedback can be read.", parser=whole())] = 0,
    ties: Annotated[str, typer.Option(help="'random' (a new order of arms each run) or 'first'.")] = "random",
    rewards: Annotated[
        Path | None, typer.Option(help="Play on a recorded CSV instead: a row a round, a column an arm.")
    ] = None,
    engine: Annotated[str, typer.Option(help="'local', or 'dask://host:port'.")] = "local",
    workers: Annotated[
        int | None, typer.Option(help="Threads of the local engine; all cores if not given.", parser=whole())
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for the result, its figures, and finished parts to resume from."),
    ] = None,
    json: JsonFlag = False,
) -> None:
    """Play policies against each other on one problem, with the same rewards for each.

    Regret is that of the true means; its mean, standard error and quantiles are over runs. Interrupt it and
    call it again with the same --out: what is finished is not computed again.

    Examples
    --------
      hellinger simulate --means 0.1,0.05,0.02 --policies hellinger-ucb,kl-ucb,ucb1 --horizon 10000

      hellinger simulate --means 'beta(1.6,100)x10000' --slots 20 --batch 10 --horizon 5000 --runs 10

      hellinger simulate --rewards table.csv --slots 3

    Where means change, regret is against the best arm of the moment. Every policy can forget: by window=…, discount=…
    or detect=….

      hellinger simulate --means 'piecewise(arms=5,changes=4)' --policies 'kl-ucb,kl-ucb(detect=0.05),exp3s(changes=4)'

    With --problem every page is for a person and shows items; something is known of both. Rounds are pages, and regret
    is against an oracle that knows what each person likes.

      hellinger simulate --problem 'synthetic(items=500)' --policies 'cold-start(model=logistic),cold-start'

      hellinger simulate --problem upworthy --data ~/data --policies 'cold-start(groups=true),cold-start' --horizon 9000

    A policy knows counts alone, unless model=… gives it a model of people and items, groups=true the items' groups, or
    features=true what items are, for their priors. Filters learn from all that anybody earned: latent-factors and
    pairwise; choose-model lets a bandit choose among them and any policies.

      hellinger simulate --problem synthetic --policies 'pairwise,choose-model(models=(latent-factors,cold-start))'

    synthetic: people and items made up (items, people, slots, memory, base, bias, cross, taste, seed).
    jester: jokes, every rating known (above, slots, memory). coat: coats that each person rated (least, slots, memory).
    upworthy: headlines that come and go, in groups by story (items, arrivals, impressions, slots).
    docs/lab.md says what these mean and where the data are.
    """
    from hellinger import lab

    chosen = split_specs(policies)
    if rewards is not None:
        names = ("means", "problem", "data", "horizon", "init", "batch", "delay", "engine", "workers")
        _refuse(context, "rewards", "the table says what is played", *names)
        require(rewards.is_file(), "--rewards is a file", rewards=str(rewards))
    elif problem is not None:
        _refuse(context, "problem", "the problem says what is played", "means", "family", "init", "ties")
    usual = (10_000, 200) if problem is None else (2_000, 10)
    horizon = usual[0] if horizon is None else horizon
    runs = usual[1] if runs is None else runs
    if out is not None:
        with needs_extra("lab"):  # now, not after the last run
            import matplotlib  # noqa: F401
            import polars  # noqa: F401
    kept = f"finished parts are in {out}, and the same command goes on from there" if out and not rewards else ""
    note = kept or "nothing was kept: --out FOLDER keeps finished parts, to go on from"
    with keeping(note), _folder(out), tracked("playing", quiet=json) as progress:
        if rewards is not None:
            result = lab.replay_table(
                chosen,
                rewards,
                family=family,
                slots=1 if slots is None else slots,
                runs=runs,
                seed=seed,
                ties=ties,
                progress=progress,
            )
        else:
            result = lab.simulate(
                chosen,
                means=means if problem is None else None,
                problem=problem,
                data=data,
                family=family,
                horizon=horizon,
                runs=runs,
                init=init,
                seed=seed,
                slots=slots,
                batch=batch,
                delay=delay,
                ties=ties,
                engine=engine,
                workers=workers,
                resume=None if out is None else out / "parts",
                progress=progress,
            )
        if out is not None:
            result.save(out)
            result.plot_regret(path=out / "regret.png")
    if json:
        emit_result(result)
        return
    print_result(result)
    if out is not None:
        console.print(f"Written to [cyan]{escape(str(out))}[/].", highlight=False)


@app.command()
def show(
    folder: Annotated[Path, typer.Argument(help="The folder that --out named.")],
    json: JsonFlag = False,
) -> None:
    """Print the table of a result that was written before."""
    from hellinger.lab import Result

    result = Result.load(folder)
    if json:
        emit_result(result)
        return
    print_result(result)


def _refuse(context: typer.Context, option: str, why: str, *names: str) -> None:
    """Reject options that another leaves without a meaning, rather than pass over them."""
    sources = {name: context.get_parameter_source(name) for name in names}
    given = [name for name, source in sources.items() if source is not None and source.name == "COMMANDLINE"]
    if given:
        raise InputError(f"`--{option}` must stand without --{', --'.join(given)}: {why}")


@contextlib.contextmanager
def _folder(folder: Path | None) -> Iterator[None]:
    """Make a folder for results; if nothing comes of them, take away what was made and stayed empty."""
    if folder is None:
        yield
        return
    made = [each for each in (folder / "parts", folder, *folder.parents) if not each.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise InputError(f"`--out` must be a folder that can be written to, but {str(folder)!r}: {error}") from None
    try:
        yield
    except BaseException:
        for each in made:
            with contextlib.suppress(OSError):
                each.rmdir()
        raise


def emit_result(result: Result) -> None:
    """Print one object: a row for each policy, and the time it took."""
    rows = [{key: value for key, value in row.items() if key != "q99"} for row in result.summary()]
    rate = result.steps / result.wall_s if result.wall_s > 0 else 0.0
    emit({"policies": rows, "wall_s": result.wall_s, "steps_per_s": rate})


def print_result(result: Result) -> None:
    """Print a table of final regrets, best first, each against the best with a paired interval."""
    rows = sorted(result.summary(), key=lambda row: float(row["mean_regret"]))
    best = rows[0]["policy"]
    setting = result.setting
    table = Table(
        title=f"Regret after {setting.horizon:,} {'pages' if result.problem else 'rounds'}, {result.runs:,} runs, "
        f"{result.means.size:,} {'items' if result.problem else 'arms'}, {result.problem or result.family}",
        title_justify="left",
        box=None,
        pad_edge=False,
        header_style="bold",
        padding=(0, 2, 0, 0),
    )
    table.add_column("policy", style="cyan", no_wrap=True)
    wide = console.width >= 100  # a row has one line: where there is no room, the quartiles stand for the median
    for name in ("mean ± s.e.", *(["median"] if wide else []), "25–75 %", "99 %", "reward", "behind the best"):
        table.add_column(name, justify="right")
    for row in rows:
        gap = "best"
        if row["policy"] != best:
            difference = result.difference(row["policy"], best)
            gap = f"{difference.mean:,.1f} ± {difference.high - difference.mean:.1f}"
            gap += "" if difference.clear else " (?)"
        table.add_row(
            row["policy"],
            f"{row['mean_regret']:,.1f} ± {row['sem']:.1f}",
            *([f"{row['median']:,.1f}"] if wide else []),
            f"{row['q25']:,.0f}–{row['q75']:,.0f}",
            f"{row['q99']:,.0f}",
            f"{row['mean_reward']:,.0f}",
            gap,
        )
    console.print(table)
    speed = result.steps / result.wall_s if result.wall_s > 0.05 else 0.0
    rate = f"{speed / 1e6:,.1f} million" if speed >= 1e5 else f"{speed:,.0f}"
    note = f", {rate} rounds a second" if speed else ""
    console.print(
        "[dim]Behind the best: run by run on the same rewards, ± 95 %; (?) where that is not clearly more than 0.[/]",
        highlight=False,
    )
    console.print(f"[dim]{result.wall_s:.2f} s{note}[/]", highlight=False)
