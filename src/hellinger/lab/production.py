"""The paper's last figure: two months of traffic that three algorithms share, and the traffic its claims need.

The authors' traffic is not published. A simulated site stands in for it, and since nobody knows how much traffic
theirs had, the levels are scanned.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hellinger import figures
from hellinger.lab._ratio import paired_ratio
from hellinger.lab.claims import HELLINGER, KL, UCB1, Claim, Verdict
from hellinger.lab.sharing import Ratio, Rewards, Traffic, share

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["CLAIMED", "compile_policies", "drawings", "nearest", "plans", "production_claims", "reached", "record"]

CLAIMED = {KL: 1.33, UCB1: 2.0}
"""Hellinger-UCB's clicks over theirs, as section 5.4 has it."""
OURS = "cold-start"
KL_3 = "kl-ucb(c=3)"
POLICIES = (HELLINGER, KL, UCB1, OURS, KL_3)
LEVELS = (10, 30, 60, 100, 170, 220, 260, 300, 400, 600)
FULL = (3, *LEVELS, 1_000, 1_700, 3_000)
RENEWED = (10, 30, 100)
EARLY = 10

Range = tuple[float, float]

_LAWS = {
    "beta": "rates Beta(1.6, 100)",
    "heavy-tailed": "heavy-tailed rates",
    "bimodal": "one item in ten near 10 %",
}


def plans(*, seed: int = 0, sites: int | None = None, items: int = 10_000, full: bool = False) -> list[Traffic]:
    """The setting that claims are judged in, other laws of the click rates, and items that are all new every day.

    ``full`` goes from 3 to 3,000 impressions per item (1,000 with other laws), has new items for longer, and
    lets ``cold-start`` play everywhere.
    """
    count = sites if sites is not None else (10 if full else 4)
    some = POLICIES[: 4 if full else 3]
    other = FULL[:-2] if full else LEVELS[:-2]
    main = Traffic(POLICIES, FULL if full else LEVELS, sites=count, seed=seed, items=items)
    return [
        main,
        main._replace(law="heavy-tailed", policies=some, levels=other),
        main._replace(law="bimodal", policies=some, levels=other),
        main._replace(stay=1, days=10 if full else 4, policies=some, levels=(*RENEWED, 300) if full else RENEWED),
    ]


def compile_policies() -> None:
    """Compile what the simulated site needs, in this process, so that others need not each."""
    for spec in POLICIES:
        share([Traffic((spec,), (1,), days=2, stay=2, sites=2, items=60)], workers=1)


def setting(plan: Traffic) -> str:
    """A setting in words."""
    return _LAWS[plan.law] + (f", items stay {plan.stay} day{'s' * (plan.stay > 1)}" if plan.renewed else "")


# Levels ----------------------------------------------------------------------------------------------


def reached(ratios: Sequence[Ratio], claim: float) -> list[Range]:
    """Ranges of traffic levels in which the upper end of a ratio's interval is at or above what is claimed.

    Between levels by interpolation.
    """
    found: list[Range] = []
    begun: float | None = None
    for i, here in enumerate(ratios):
        inside = here.high >= claim
        if i > 0 and inside != (begun is not None):
            before = ratios[i - 1]
            share_ = (claim - before.high) / (here.high - before.high)
            at = math.exp((1 - share_) * math.log(before.level) + share_ * math.log(here.level))
            if begun is None:
                begun = at
            else:
                found.append((begun, at))
                begun = None
        elif inside and begun is None:
            begun = float(here.level)
    if begun is not None:
        found.append((begun, float(ratios[-1].level)))
    return found


def together(some: Sequence[Range], others: Sequence[Range]) -> list[Range]:
    """Where two sets of ranges overlap."""
    both = [(max(a, c), min(b, d)) for a, b in some for c, d in others]
    return [(low, high) for low, high in both if low <= high]


def nearest(rewards: Rewards) -> int:
    """The level at which the worse of the two claims comes nearest."""
    found = {rival: rewards.ratios(HELLINGER, rival) for rival in CLAIMED}
    off = [
        max(abs(math.log(found[rival][i].ratio / claim)) for rival, claim in CLAIMED.items())
        for i in range(len(rewards.plan.levels))
    ]
    return rewards.plan.levels[int(np.argmin(off))]


# Claims ----------------------------------------------------------------------------------------------


def production_claims(found: Sequence[Rewards]) -> Iterator[Claim]:
    """Claims about the online experiment; the first setting is the one they are judged in."""
    main, *others = found
    level = nearest(main)
    yield _order_claim(main, level)
    for rival in CLAIMED:
        yield _lead_claim(main, others, rival)
    yield _both_claim(main, others, level)
    yield _early_claim(main, level)


def _order_claim(main: Rewards, level: int) -> Claim:
    place = main.plan.levels.index(level)
    first, second = main.ratios(HELLINGER, KL)[place], main.ratios(KL, UCB1)[place]
    clicks = [f"{main.of(spec, level)[:, -1].mean():,.0f}" for spec in (HELLINGER, KL, UCB1)]
    holds = first.low > 1 and second.low > 1
    verdict: Verdict = "agrees" if holds else ("differs" if min(first.ratio, second.ratio) < 1 else "partly")
    return Claim(
        "production-order",
        "5.4",
        "Online, for two months: Hellinger-UCB gets the most clicks, KL-UCB fewer, UCB1 the fewest.",
        "in this order",
        f"{', '.join(clicks)} clicks at {level:,} impressions per item",
        verdict,
        f"Not the authors' traffic, which is not published, but {main.plan.sites} simulated sites of "
        f"{main.plan.items:,} items, {_LAWS[main.plan.law]}; the amount of traffic is unknown, so it is scanned.",
    )


def _lead_claim(main: Rewards, others: Sequence[Rewards], rival: str) -> Claim:
    claim, ratios = CLAIMED[rival], main.ratios(HELLINGER, rival)
    best = max(ratios, key=lambda ratio: ratio.ratio)
    where = reached(ratios, claim)
    elsewhere = [f"with {setting(each.plan)}: {_where(each, rival)}" for each in others]
    if rival == KL and KL_3 in main.plan.policies:
        elsewhere.append(
            "over KL-UCB with 3·log log t added to its level, which the paper's formula leaves open: "
            f"{_ranges(reached(main.ratios(HELLINGER, KL_3), claim), main.plan.levels)}"
        )
    share = f"{_percent(claim)} is reached {_ranges(where, main.plan.levels)}"
    return Claim(
        f"production-{rival}",
        "5.4",
        f"Online, for two months: Hellinger-UCB gets {_more(claim)} more clicks than {rival}.",
        _percent(claim),
        f"at most {_percent(best.ratio)} ({_percent(best.low)} to {_percent(best.high)}), at {best.level:,} "
        f"impressions per item; {share}",
        _verdict(where, main),
        f"Reached elsewhere: {'; '.join(elsewhere)}." if elsewhere else "",
    )


def _both_claim(main: Rewards, others: Sequence[Rewards], level: int) -> Claim:
    place = main.plan.levels.index(level)
    here = " and ".join(_percent(main.ratios(HELLINGER, rival)[place].ratio) for rival in CLAIMED)
    where = _both(main)
    elsewhere = [each for each in others if _both(each)]
    names = [f"with {setting(each.plan)}, {_ranges(_both(each), each.plan.levels)}" for each in elsewhere]
    return Claim(
        "production",
        "5.4",
        "Online, for two months: both of these at the same traffic.",
        " and ".join(_percent(claim) for claim in CLAIMED.values()),
        f"nearest at {level:,} impressions per item: {here}; both reached {_ranges(where, main.plan.levels)}",
        _verdict(where, main),
        "One unknown, the traffic, is chosen to fit two numbers: a level that has both shows that they can be true, "
        "not that they were." + (f" Both are also reached {'; '.join(names)}." if names else ""),
    )


def _early_claim(main: Rewards, level: int) -> Claim:
    day = min(EARLY, main.plan.days) - 1
    ours, theirs = main.of(HELLINGER, level), main.of(KL, level)
    lead = (ours - theirs).mean(axis=0)
    _, low, _ = paired_ratio(ours[:, day].tolist(), theirs[:, day].tolist())
    holds = low > 1 and lead[-1] > lead[day]
    return Claim(
        "production-early",
        "5.4",
        "Online: Hellinger-UCB gets more clicks early and then even more as learning goes on.",
        "a growing lead",
        f"{_clicks(lead[day])} clicks over KL-UCB after {day + 1} days and {_clicks(lead[-1])} after "
        f"{main.plan.days}, at {level:,} impressions per item",
        "agrees" if holds else ("partly" if lead[-1] > 0 else "differs"),
    )


def _verdict(where: Sequence[Range], rewards: Rewards) -> Verdict:
    """Whether what is claimed is reached at all levels, at some, or at none."""
    if not where:
        return "differs"
    return "agrees" if where[0] == (rewards.plan.levels[0], rewards.plan.levels[-1]) else "partly"


def _both(rewards: Rewards) -> list[Range]:
    one, two = (reached(rewards.ratios(HELLINGER, rival), claim) for rival, claim in CLAIMED.items())
    return together(one, two)


def _where(rewards: Rewards, rival: str) -> str:
    ratios = rewards.ratios(HELLINGER, rival)
    where = reached(ratios, CLAIMED[rival])
    if where:
        return _ranges(where, rewards.plan.levels)
    best = max(ratios, key=lambda ratio: ratio.ratio)
    return f"nowhere up to {rewards.plan.levels[-1]:,}, at most {_percent(best.ratio)} at {best.level:,}"


def _ranges(ranges: Sequence[Range], levels: Sequence[int]) -> str:
    """Ranges of levels in words; one that lasts to the end of the scan is left open."""
    if not ranges:
        return f"nowhere up to {levels[-1]:,}"
    ends = ["on" if high >= levels[-1] else f"to {high:,.0f}" for _, high in ranges]
    return " and ".join(f"from {low:,.0f} {end}" for (low, _), end in zip(ranges, ends, strict=True))


def _percent(ratio: float) -> str:
    return f"{100 * (ratio - 1):+.0f} %".replace("-", "−")


def _clicks(count: float) -> str:
    return f"{count:+,.0f}".replace("-", "−")


def _more(claim: float) -> str:
    return {1.33: "about 33 %", 2.0: "almost 100 %"}[claim]


# Figures ---------------------------------------------------------------------------------------------


def drawings(found: Sequence[Rewards]) -> Iterator[tuple[str, str, Figure]]:
    """Name, caption and figure: the paper's last one with ours beside it, and the leads at each level."""
    main = found[0]
    plan, level = main.plan, nearest(main)
    size = f"{plan.items:,} items, {level:,} impressions per item for each algorithm"
    caption = (
        f"The paper's figure 7, and with the policy cold-start as a fourth. Simulated: {size} in {plan.days} days, "
        f"{_LAWS[plan.law]}, pages of {plan.slots}, drawn uniformly for one algorithm each; counts refreshed every "
        f"{plan.pages} of its pages. Band: 95 % interval of the mean of {plan.sites} sites. Of the levels scanned, "
        "this is where the paper's claims come nearest."
    )
    panels = [
        ("the paper's three", [_reward(main, spec, level) for spec in (HELLINGER, KL, UCB1)]),
        ("and cold-start", [_reward(main, spec, level) for spec in (HELLINGER, KL, UCB1, OURS)]),
    ]
    yield "rewards", caption, figures.draw_rewards(panels, title=f"Two months of shared traffic: {size}")
    caption = (
        "How many more clicks Hellinger-UCB gets than its rivals, by traffic: impressions that each algorithm has for "
        "an item while it is there. Dotted: what the paper claims. Band: paired 95 % interval. Dashed: over KL-UCB "
        "with 3·log log t added to its level. The panel with items that stay a day covers "
        f"{found[-1].plan.days} days."
    )
    leads = [figures.LeadPanel(setting(each.plan), [_lead(each, rival) for rival in _rivals(each)]) for each in found]
    yield "leads", caption, figures.draw_leads(leads, title="Clicks of Hellinger-UCB over its rivals'")


def _rivals(rewards: Rewards) -> list[str]:
    return [rival for rival in (KL, UCB1, KL_3) if rival in rewards.plan.policies]


def _reward(rewards: Rewards, spec: str, level: int) -> figures.Reward:
    from scipy.stats import t as student

    clicks = rewards.of(spec, level)
    mean, count = clicks.mean(axis=0), len(clicks)
    half = float(student.ppf(0.975, count - 1)) * clicks.std(axis=0, ddof=1) / math.sqrt(count)
    return figures.Reward(spec, mean, np.maximum(mean - half, 0.0), mean + half)


def _lead(rewards: Rewards, rival: str) -> figures.Lead:
    level, ratio, low, high = np.array(rewards.ratios(HELLINGER, rival)).T
    return figures.Lead(rival, level, ratio, low, high, CLAIMED.get(rival), rival == KL_3)


# Numbers ---------------------------------------------------------------------------------------------


def record(found: Sequence[Rewards]) -> dict[str, Any]:
    """Everything, as JSON can hold it; day by day at the level that is drawn."""
    main, level = found[0], nearest(found[0])
    return {
        "claimed": dict(CLAIMED),
        "nearest_level": level,
        "settings": [
            {
                "plan": each.plan._asdict() | {k: list(getattr(each.plan, k)) for k in ("policies", "levels")},
                "clicks": {spec: each.clicks[:, i, :, -1].tolist() for i, spec in enumerate(each.plan.policies)},
                "hellinger_over": {
                    spec: [ratio._asdict() for ratio in each.ratios(HELLINGER, spec)]
                    for spec in each.plan.policies
                    if spec != HELLINGER
                },
                "reached": {rival: _ranges_in(each, rival) for rival in CLAIMED},
            }
            for each in found
        ],
        "days": {spec: main.of(spec, level).mean(axis=0).tolist() for spec in main.plan.policies},
    }


def _ranges_in(rewards: Rewards, rival: str) -> list[list[float]]:
    """Ranges of levels in which a claim is reached, as JSON has them."""
    return [list(each) for each in reached(rewards.ratios(HELLINGER, rival), CLAIMED[rival])]
