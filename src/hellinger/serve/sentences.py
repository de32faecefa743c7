"""What the service says of an experiment beyond the readout's own sentence."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from hellinger.engine.best import BestQuestion, BestStanding
from hellinger.experiment import display_name
from hellinger.ledger import TimeSeries

__all__ = ["STICKY", "best_items", "complete", "next_step"]

STICKY = (
    "Users keep their variant, but rankings of an older version do not say whose they are: "
    "the intervals are too narrow where users differ."
)
"""The warning about a sticky split whose users are not known."""
FEW = 3
"""Days, or hours, that each half of the time has at least where rates of the two are compared."""
REWARDED = 100
"""Rewards that a variant has at least in each half."""


def complete(
    result: dict[str, Any], series: TimeSeries, running: Collection[str], *, window: int, unknown_users: bool
) -> None:
    """Add to a readout's sentence what follows from time: rankings that are not final, and who closes in."""
    verdict, waiting = result["verdict"], result["open_requests"]
    if verdict == "empty" and waiting:
        result["verdict"] = "early"
        result["sentence"] = (
            f"Too early to say: a ranking counts here once its reward is final, {_span(window)} after it was made, "
            f"and {waiting:,} {'wait' if waiting > 1 else 'waits'} for that."
        )
    if verdict in ("leader", "order"):
        ranked = [row["variant"] for row in result["variants"]]
        result["sentence"] += _closing_in(series, [name for name in ranked if name in running])
    if unknown_users and verdict in ("order", "leader", "open"):
        result["sentence"] += " " + STICKY


def next_step(result: Mapping[str, Any], running: Collection[str]) -> str:
    """What to do now; nothing where there is nothing to decide."""
    verdict, guardrail = result["verdict"], result["guardrail"]
    if verdict == "split":
        return "Find out why traffic is not shared as intended; until then decide nothing."
    if guardrail is not None and guardrail["alarm"]:
        return f"Stop the variants with more {guardrail['kind']}, or decide that what they earn is worth it."
    if verdict in ("leader", "order"):
        first = result["variants"][0]["variant"]
        if len(running) == 1 and first not in running:
            return f"{display_name(first)} has stopped; bring it back if its lead is large enough to matter."
        best = display_name(next(row["variant"] for row in result["variants"] if row["variant"] in running))
        if len(running) == 1:
            return ""
        return f"Promote {best} if its lead is large enough to matter; go on if a slower learner is worth waiting for."
    if verdict == "open":
        return "Go on; stop too if the lift's interval is within what would not matter."
    return "" if verdict == "single" else "Go on."


def best_items(found: BestStanding, asked: BestQuestion) -> str:
    """How sure the best items are, in words."""
    sure, wanted = f"{100 * (1 - asked.delta):.4g} % confidence", asked.best
    which = "the best" if not asked.epsilon else f"the best, or at most {100 * asked.epsilon:.3g} points below them"
    if found.items <= wanted:
        return f"There is nothing to choose: {_items(found.items)} for {wanted:,} places."
    if found.certain >= wanted:
        these = "This item is" if wanted == 1 else f"These {wanted:,} are"
        return f"{these} {which}, of {_items(found.items)}, with {sure}."
    places = wanted - found.certain
    rest = "the place is" if wanted == 1 else f"{places:,} {'place is' if places == 1 else 'places are'}"
    said = "" if wanted == 1 else f" {found.certain:,} of {wanted:,} are certain to be among {which}, with {sure};"
    text = f"Not yet:{said} {rest} open to {_items(found.contending)}{f', with {sure}' if wanted == 1 else ''}."
    if found.unsettled > 0.1 * found.impressions:
        waiting = f"{found.unsettled:,.0f} of {found.impressions:,.0f} impressions"
        text += f" Up to {waiting} may still be rewarded, and are taken as if they were where that speaks against it."
    return text


def _items(number: int) -> str:
    return f"{number:,} {'item' if number == 1 else 'items'}"


def _span(milliseconds: int) -> str:
    """A length of time in words."""
    for unit, length in (("day", 86_400_000), ("hour", 3_600_000), ("minute", 60_000)):
        if milliseconds >= 2 * length or milliseconds == length:
            number = milliseconds / length
            return f"{number:.3g} {unit}{'' if number == 1 else 's'}"
    return f"{milliseconds / 1000:.3g} seconds"


def _closing_in(series: TimeSeries, ranked: list[str]) -> str:
    """Who was much further behind the first in the first half of the time than in the second, in words."""
    steps = series.steps["day"] if len(series.steps["day"]) >= 2 * FEW else series.steps["hour"]
    order = sorted(steps)
    if len(order) < 2 * FEW:
        return ""
    middle = len(order) // 2
    sentences = []
    for name in ranked[1:]:
        then, lately = (_behind(steps, half, ranked[0], name) for half in (order[:middle], order[middle:]))
        if then is not None and lately is not None and then > 0.0 and lately < 2.0 / 3.0 * then:
            gaps = [f"{100 * max(0.0, gap):.2g} %" for gap in (then, lately)]
            who = display_name(name)
            sentences.append(
                f" {who} closes in: {gaps[0]} behind in the first half of the time, {gaps[1]} in the second."
            )
    return "".join(sentences)


def _behind(steps: Mapping[int, Mapping[str, list[float]]], some: list[int], first: str, other: str) -> float | None:
    """How far below the first's rate the other's was; None where too little was rewarded."""
    rates = []
    for name in (first, other):
        cells = [steps[step][name] for step in some if name in steps[step]]
        impressions, reward = (sum(cell[place] for cell in cells) for place in (1, 2))
        if reward < REWARDED:
            return None
        rates.append(reward / impressions)
    return 1.0 - rates[1] / rates[0]
