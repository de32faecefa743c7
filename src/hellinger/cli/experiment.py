"""``hellinger experiment``: how the variants of a running service stand, and how traffic is shared between them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from hellinger.cli._app import JsonFlag, app, console, emit
from hellinger.cli._service import reached
from hellinger.errors import needs_extra

if TYPE_CHECKING:
    from hellinger.client import ExperimentPhase, ExperimentSummary

__all__ = ["add", "best", "end", "experiment_table", "list_experiments", "promote", "ramp", "show", "start", "stop"]

experiment = typer.Typer(
    help="Look at the experiments of a running service, and start, change and end them.", no_args_is_help=True
)
app.add_typer(experiment, name="experiment")

_MAIN = "main"
_HERE = "http://127.0.0.1:8000"
_Url = Annotated[str, typer.Option(envvar="HELLINGER_URL", help="Address of the service.")]
_Reader = Annotated[str | None, typer.Option(envvar="HELLINGER_KEY", help="A key that may read.")]
_Admin = Annotated[str | None, typer.Option(envvar="HELLINGER_KEY", help="A key with the role admin.")]
_Name = Annotated[str, typer.Option("--experiment", "-e", help="Which experiment; the first one is 'main'.")]
_Begin = Annotated[
    str, typer.Option(help="New variants begin 'empty', or from the 'common' counts of all variants so far.")
]
_Why = Annotated[str, typer.Option(help="A note for readers of the log.")]
_Shadow = Annotated[
    str, typer.Option("--shadow", help="Candidates that rank unseen, as in 'new = kl-ucb(c=3)', instead of a share.")
]


@experiment.command()
def show(
    name: Annotated[str, typer.Argument(help="Which experiment.")] = _MAIN,
    url: _Url = _HERE,
    key: _Reader = None,
    control: Annotated[str | None, typer.Option(help="Variant the others are compared with.")] = None,
    watch: Annotated[float, typer.Option(help="Ask again every so many seconds, until Ctrl-C.", min=0)] = 0.0,
    json: JsonFlag = False,
) -> None:
    """Print how the variants of an experiment stand: what the service's page says, in words and figures.

    Rates are of rankings whose reward is final. Intervals hold at every moment together, with 95 % confidence: look as
    often as you like.
    """
    with reached(url, key) as client:
        raw = client.experiment(name, control=control).raw
        if json:
            emit(raw)
            return
        console.print(experiment_table(raw))
        if watch:
            with Live(console=console, transient=False) as live:
                try:
                    while True:
                        live.update(experiment_table(client.experiment(name, control=control).raw))
                        time.sleep(watch)
                except KeyboardInterrupt:
                    return


@experiment.command()
def best(
    name: Annotated[str, typer.Argument(help="Which experiment.")] = _MAIN,
    k: Annotated[int, typer.Option("--k", "-k", help="How many items are wanted.", min=1, max=1000)] = 20,
    delta: Annotated[float, typer.Option(help="Chance with which the answer may be wrong.")] = 0.05,
    epsilon: Annotated[float, typer.Option(help="A rate so much below the k-th best is good enough.")] = 0.0,
    variant: Annotated[str | None, typer.Option(help="Count this variant's impressions alone.")] = None,
    url: _Url = _HERE,
    key: _Reader = None,
    json: JsonFlag = False,
) -> None:
    """Print which items have the highest rates, and which of them are certain, however often one asks."""
    with reached(url, key) as client:
        found = client.best_items(name, k=k, delta=delta, epsilon=epsilon, variant=variant)
        if json:
            emit(asdict(found))
            return
        if found.best:
            table = Table("item", "sure")
            for words in ("rate", "from", "to", "impressions"):
                table.add_column(words, justify="right")
            for row in found.best:
                rates = ("" if value is None else f"{100 * value:.2f} %" for value in (row.rate, row.low, row.high))
                table.add_row(row.id, "certain" if row.certain else "open", *rates, f"{row.impressions:,.0f}")
            console.print(table)
        console.print(" ".join([found.sentence, *found.notes]))


@experiment.command("list")
def list_experiments(
    name: Annotated[str, typer.Argument(help="List the phases of this experiment.")] = "",
    url: _Url = _HERE,
    key: _Reader = None,
    json: JsonFlag = False,
) -> None:
    """List the experiments, or the phases of one: times in which weights and variants stayed the same."""
    with reached(url, key) as client:
        if name:
            _print_phases(client.phases(name), json)
        else:
            _print_experiments(client.experiments(), json)


@experiment.command()
def start(
    name: Annotated[str, typer.Argument(help="Its name: small letters, digits, - and _.")],
    variants: Annotated[str, typer.Argument(help="Policies, or name = policy: 'cold-start, new = kl-ucb(c=3)'.")],
    weights: Annotated[str, typer.Option(help="As in 'cold-start=9, new=1'; all 1 if not given.")] = "",
    share: Annotated[float, typer.Option(help="Of the traffic, or of its placement's.", min=0, max=1)] = 1.0,
    placement: Annotated[str, typer.Option(help="Takes rankings with this placement only.")] = "",
    control: Annotated[str, typer.Option(help="Variant the others are compared with; the last if not given.")] = "",
    split: Annotated[str, typer.Option(help="'random' for each request, or 'sticky' for each user.")] = "random",
    learning: Annotated[
        str,
        typer.Option(help="'isolated': from its own rankings; 'shared': from all. As the settings say if not given."),
    ] = "",
    holdout: Annotated[str, typer.Option(help="A variant that does not learn: 'uniform' or 'fixed' order.")] = "",
    holdout_share: Annotated[float, typer.Option(help="Of the experiment's traffic.", min=0, max=1)] = 0.05,
    guardrail: Annotated[str, typer.Option(help="A kind of feedback to watch, as 'hide'.")] = "",
    shadow: _Shadow = "",
    begin: _Begin = "empty",
    why: _Why = "",
    url: _Url = _HERE,
    key: _Admin = None,
    json: JsonFlag = False,
) -> None:
    """Start an experiment on its share of the traffic, or on a placement; 'main' has what is left."""
    with needs_extra("serve"):
        from hellinger.engine.settings import named_specs

    choices: dict[str, Any] = {"split": split, "learning": learning, "holdout": holdout, "begin": begin}
    others: dict[str, Any] = {"placement": placement, "control": control, "guardrail": guardrail, "why": why}
    asked = {option: value for option, value in (choices | others).items() if value}
    with reached(url, key) as client:
        started = client.start_experiment(
            name,
            named_specs(variants),
            weights=_weights(weights) if weights else None,
            shadows=named_specs(shadow) if shadow else None,
            share=share,
            holdout_share=holdout_share,
            **asked,
        )
        _print_experiments(started, json)


@experiment.command()
def ramp(
    weights: Annotated[str, typer.Argument(help="As in 'cold-start=9, ucb1=1'; variants left out stop.")],
    name: _Name = _MAIN,
    why: _Why = "",
    url: _Url = _HERE,
    key: _Admin = None,
    json: JsonFlag = False,
) -> None:
    """Give every variant its weight from now on, on all replicas of the service; what was learned stays."""
    with reached(url, key) as client:
        _print_phases(client.change_experiment(name, weights=_weights(weights), why=why), json)


@experiment.command()
def add(
    variant: Annotated[str, typer.Argument(help="Name of the new variant, or of one that gets another policy.")] = "",
    policy: Annotated[
        str, typer.Argument(help="Its policy, as in 'hellinger-ucb(c=0.3)'; its name if not given.")
    ] = "",
    weight: Annotated[float, typer.Option(help="Its weight, beside those of the others.", min=0)] = 1.0,
    shadow: _Shadow = "",
    begin: _Begin = "empty",
    name: _Name = _MAIN,
    why: _Why = "",
    url: _Url = _HERE,
    key: _Admin = None,
    json: JsonFlag = False,
) -> None:
    """Add a variant to the traffic, or a shadow; 'uniform' and 'fixed' are policies that do not learn.

    A shadow ranks what the variants rank, unseen, and learns from what they show.
    """
    from hellinger.experiment.names import full_name

    if bool(variant) == bool(shadow):
        raise typer.BadParameter("give the name of a variant, or --shadow, and not both")
    if shadow:
        with needs_extra("serve"):
            from hellinger.engine.settings import named_specs
        with reached(url, key) as client:
            _print_phases(client.change_experiment(name, shadows=named_specs(shadow), why=why), json)
        return
    asked: dict[str, Any] = {"variants": {variant: policy or variant}, "begin": begin, "why": why}
    _change(url, key, json, name, lambda phase: phase.weights | {full_name(name, variant): weight}, **asked)


@experiment.command()
def stop(
    variant: Annotated[str, typer.Argument(help="The variant that is to have no more traffic.")],
    name: _Name = _MAIN,
    why: _Why = "",
    url: _Url = _HERE,
    key: _Admin = None,
    json: JsonFlag = False,
) -> None:
    """Stop a variant, whose traffic the others share by their weights; or a shadow."""
    from hellinger.experiment.names import full_name

    with reached(url, key) as client:
        shadow = full_name(name, variant)
        if shadow in client.phases(name)[-1].shadows:
            _print_phases(client.change_experiment(name, shadows={shadow: None}, why=why), json)
            return

    def others(phase: ExperimentPhase) -> dict[str, float]:
        stopped = _known(name, variant, phase)
        return {each: weight for each, weight in phase.weights.items() if each != stopped}

    _change(url, key, json, name, others, why=why)


@experiment.command()
def promote(
    variant: Annotated[str, typer.Argument(help="The variant or shadow that is to have all traffic.")],
    weight: Annotated[float, typer.Option(help="Not all: so much, beside the weights of the others.", min=0)] = 0.0,
    name: _Name = _MAIN,
    why: _Why = "",
    url: _Url = _HERE,
    key: _Admin = None,
    json: JsonFlag = False,
) -> None:
    """Give a variant all traffic of its experiment: that one is decided. A shadow keeps what it has learned."""

    def chosen(phase: ExperimentPhase) -> dict[str, float]:
        own = _known(name, variant, phase)
        return phase.weights | {own: weight} if weight else {own: 1.0}

    _change(url, key, json, name, chosen, why=why)


@experiment.command()
def end(
    name: Annotated[str, typer.Argument(help="The experiment that is to end; not 'main'.")],
    why: _Why = "",
    url: _Url = _HERE,
    key: _Admin = None,
    json: JsonFlag = False,
) -> None:
    """End an experiment: 'main' has its traffic again, and its figures stay."""
    with reached(url, key) as client:
        _print_phases(client.end_experiment(name, why=why), json)


def _change(
    url: str,
    key: str | None,
    json: bool,
    name: str,
    weights: Callable[[ExperimentPhase], dict[str, float]],
    **more: Any,
) -> None:
    """Change the phase in force, and none that somebody else begins meanwhile."""
    with reached(url, key) as client:
        phase = client.phases(name)[-1]
        _print_phases(client.change_experiment(name, weights=weights(phase), after=phase.seq, **more), json)


def _weights(text: str) -> dict[str, float]:
    pairs = [part.rpartition("=") for part in text.split(",") if part.strip()]
    try:
        return {name.strip(): float(weight) for name, _, weight in pairs}
    except ValueError:
        raise typer.BadParameter(f"weights are written as in 'cold-start=9, ucb1=1', but got {text!r}") from None


def _known(name: str, variant: str, phase: ExperimentPhase) -> str:
    from hellinger.experiment.names import full_name

    known = {**phase.variants, **phase.shadows}
    if (full := full_name(name, variant)) not in known:
        raise typer.BadParameter(f"the variant must be one of {', '.join(known)}, but got {variant!r}")
    return full


def _print_experiments(experiments: Sequence[ExperimentSummary], json: bool) -> None:
    if json:
        emit({"experiments": [asdict(each) for each in experiments]})
        return
    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in ("experiment", "state", "since", "traffic", "variants and their shares", "rankings"):
        table.add_column(name, justify="right" if name == "rankings" else "left", no_wrap=name in ("since", "traffic"))
    for each in experiments:
        where = f"{each.traffic:.0%}" + (f" of {each.placement}" if each.placement else "")
        share = "the rest" if each.name == _MAIN and len(experiments) > 1 else where
        table.add_row(each.name, each.state, each.since or "–", share, _shares(each), f"{each.requests:,}")
    console.print(table)


def _shares(plan: ExperimentSummary | ExperimentPhase) -> str:
    whole = sum(plan.weights.values())
    shares = ", ".join(f"{name} {plan.weights[name] / whole:.1%}" for name in plan.variants)
    shadows = "".join(f", shadow {name}" for name in plan.shadows)
    return f"{shares} ({plan.split}){shadows}"


def _print_phases(phases: Sequence[ExperimentPhase], json: bool) -> None:
    if json:
        emit({"phases": [asdict(phase) for phase in phases]})
        return
    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in ("since", "by", "variants and their shares", "rankings", "why"):
        table.add_column(name, justify="right" if name == "rankings" else "left", no_wrap=name == "since")
    for phase in phases:
        plan = "ended" if phase.ended else _shares(phase)
        table.add_row(phase.since, phase.by, plan, f"{sum(phase.requests.values()):,}", phase.why)
    console.print(table)


def experiment_table(raw: Mapping[str, Any]) -> Group:
    """The leaderboard as the terminal shows it."""
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("variant", style="cyan", no_wrap=True)
    wide, several = console.width >= 100, len(raw["variants"]) > 1
    names = [*(["requests"] if wide else []), "impressions", "reward", "rate", "95 % interval"]
    for name in names + ([f"over {raw['control']}", "best"] if several else []):
        table.add_column(name, justify="right")
    for row in raw["variants"]:
        table.add_row(
            row["variant"],
            *([f"{row['requests']:,}"] if wide else []),
            f"{row['impressions']:,}",
            f"{row['reward']:,.10g}",
            "–" if row["rate"] is None else f"{row['rate']:.3%}",
            f"{row['low']:.3%} … {row['high']:.3%}",
            *([_lift(row), f"{row['probability_best']:.1%}"] if several else []),
        )
    lines: list[Any] = [Text(raw["sentence"], style="bold"), *([Text(raw["next"])] if raw["next"] else []), Text()]
    lines.append(table)
    check = raw["sample_ratio"]
    if check is not None and check["alarm"]:
        lines += [
            Text(),
            Text(f"The split is off: {check['worst']} has {check['share']:.1%} of requests.", style="red"),
        ]
    if raw["open_requests"]:
        count = "1 ranking" if raw["open_requests"] == 1 else f"{raw['open_requests']:,} rankings"
        note = f"{count} may still be rewarded, and so in no rate, interval or lift yet."
        lines += [Text(), Text(note, style="dim")]
    if raw["guardrail"] is not None:
        lines += [Text(), _guardrail_table(raw["guardrail"])]
    for row in raw.get("shadows", ()):
        lines += [Text(), *_shadow_lines(row)]
    return Group(*lines)


def _shadow_lines(row: Mapping[str, Any]) -> list[Text]:
    """What there is to say of a shadow."""
    head = Text.assemble("shadow ", (row["shadow"], "cyan"), f" ({row['policy']}): ", (row["sentence"], "bold"))
    if not row["settled_requests"]:
        return [head]
    share = "" if row["share"] is None else f" ({row['share']:.0%} of all)"
    told = (
        f"It ranked {row['requests']:,} rankings{share}; {row['same']:.0%} of what was shown it would have shown too."
    )
    if row["rate"] is None:
        return [head, Text(told)]
    rate = f"Rate {row['rate']:.3%} ({row['low']:.3%} … {row['high']:.3%}), of what was shown {row['logged']:.3%}."
    return [head, Text(told), Text(rate), Text(f"It rests on: {row['assumption']}.", style="dim")]


def _guardrail_table(guardrail: Mapping[str, Any]) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column(f"guardrail: {guardrail['kind']}", style="cyan", no_wrap=True)
    for name in ("count", "rate", "interval", "over control"):
        table.add_column(name, justify="right")
    for row in guardrail["variants"]:
        style = "red" if row["alarm"] else None
        rate = "–" if row["rate"] is None else f"{row['rate']:.3%}"
        ends = f"{row['low']:.3%} … {row['high']:.3%}"
        table.add_row(row["variant"], f"{row['count']:,.0f}", rate, ends, _lift(row), style=style)
    return table


def _lift(row: dict[str, Any]) -> str:
    if row["lift"] is None:
        return "–"
    low = "" if row["lift_low"] is None else f"{row['lift_low']:+.0%}"
    high = "∞" if row["lift_high"] is None else f"{row['lift_high']:+.0%}"
    return f"{row['lift']:+.1%} ({low} … {high})"
