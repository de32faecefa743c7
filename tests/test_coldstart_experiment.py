"""The cold-start experiment: same world for every policy, sound comparisons, a report that stands alone."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from hellinger.cli import app
from hellinger.lab import coldstart_report as report
from hellinger.lab.coldstart import (
    LIFETIMES,
    LIMIT,
    OURS,
    ColdStartPlan,
    ColdStartResult,
    compare,
    limit_of,
    run,
    tasks,
)
from hellinger.world.site import Site

SMALL = ColdStartPlan(
    items=300, slots=5, pages=2, impressions=(5, 20), seeds=2, laws=("beta",), arrivals=30,
    policies=("oracle", "hellinger-ucb", "thompson, learned prior", OURS),
)  # fmt: skip


def test_results_are_reproducible_and_complete() -> None:
    results = run(SMALL, workers=1)
    assert results == run(SMALL, workers=1)
    assert {(r.policy, r.arrivals, r.impressions) for r in results} == {
        (name, arrivals, impressions)
        for name in SMALL.policies
        for arrivals in (False, True)
        for impressions in (5, 20)
    }
    clicks = {(r.policy, r.arrivals, r.impressions): np.mean(r.clicks) for r in results}
    for arrivals in (False, True):
        assert clicks["oracle", arrivals, 20] == max(clicks[name, arrivals, 20] for name in SMALL.policies)
        assert clicks[OURS, arrivals, 20] > clicks["hellinger-ucb", arrivals, 20]
    assert clicks["oracle", False, 5] < clicks["oracle", False, 20]


@pytest.mark.parametrize("workers", [1, 2])
def test_what_was_done_before_an_end_is_not_done_again(tmp_path: Path, workers: int) -> None:
    class EndError(Exception):
        pass

    def end(done: int, _total: int) -> None:
        if done == 7:
            raise EndError

    folder = tmp_path / "new" / "parts"
    with pytest.raises(EndError):
        run(SMALL, workers=workers, progress=end, resume=folder)
    files = sorted(folder.iterdir())
    assert len(files) == 7
    files[6].write_bytes(files[6].read_bytes()[:30])
    moves: list[tuple[int, int]] = []
    results = run(SMALL, workers=1, progress=lambda *each: moves.append(each), resume=folder)
    total = len(list(tasks(SMALL)))
    assert moves == [(done, total) for done in range(6, total + 1)]
    assert results == run(SMALL, workers=1)
    moves.clear()
    assert run(SMALL, progress=lambda *each: moves.append(each), resume=folder) == results
    assert moves == [(total, total)]
    other = SMALL._replace(pages=1)  # runs of another plan are not taken for these
    assert run(other, workers=1, resume=folder) == run(other, workers=1) != results


def test_a_comparison_with_no_clicks_is_refused() -> None:
    with pytest.raises(ValueError, match="ucb1"):
        compare(
            [ColdStartResult("beta", False, "ucb1", 1, (0.0, 0.0)), ColdStartResult("beta", False, OURS, 1, (1.0, 2.0))]
        )


def test_comparisons_are_paired() -> None:
    results = [
        ColdStartResult("beta", False, "ucb1", 100, (100.0, 200.0, 400.0)),
        ColdStartResult("beta", False, OURS, 100, (150.0, 300.0, 600.0)),
    ]
    first, _ = compare(results)
    assert (first.ratio, first.low, first.high) == pytest.approx((1.5, 1.5, 1.5))
    assert first.verdict == "ahead"
    noisy = [results[0], results[1]._replace(clicks=(50.0, 400.0, 600.0))]
    assert compare(noisy)[0].verdict == "within noise"


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"seeds": 1}, "seeds=1"),
        ({"items": 5}, "items=5"),
        ({"laws": ("normal",)}, "normal"),
        ({"policies": ("best",)}, "best"),
        ({"impressions": (0,)}, "impressions"),
        ({"arrivals": 301}, "arrivals=301"),
    ],
)
def test_plans_that_make_no_sense(changes: dict[str, object], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        SMALL._replace(**changes).check()  # type: ignore[arg-type]


def test_targets_are_judged_where_they_apply() -> None:
    results = [
        ColdStartResult("beta", False, "kl-ucb", 100, (100.0, 101.0)),
        ColdStartResult("beta", False, "hellinger-ucb", 100, (130.0, 131.0)),
        ColdStartResult("beta", False, OURS, 100, (225.0, 226.0)),
        ColdStartResult("beta", True, "kl-ucb", 100, (100.0, 101.0)),
        ColdStartResult("beta", True, OURS, 100, (100.0, 101.0)),
    ]
    assert [(t["policy"], t["met"]) for t in report.targets(results)] == [("kl-ucb", True), ("hellinger-ucb", False)]


def test_the_command_writes_a_report_that_stands_alone(tmp_path: Path) -> None:
    small = [
        "--items",
        "150",
        "--slots",
        "5",
        "--pages",
        "1",
        "--impressions",
        "10",
        "--seeds",
        "2",
        "--laws",
        "beta",
    ]
    command = ["coldstart", *small, "--arrivals", "20", "--workers", "1", "--out", str(tmp_path)]
    result = CliRunner().invoke(app, [*command, "--json"])
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    assert json.loads((tmp_path / "results.json").read_text()) == told
    named = {c["policy"] for c in told["comparisons"]}
    assert named >= {"ucb1", "kl-ucb", "hellinger-ucb", "thompson", "oracle", LIMIT, LIFETIMES}
    assert {c["of_limit"] for c in told["comparisons"] if c["policy"] == LIMIT} == {1.0}
    page = (tmp_path / "report.html").read_text()
    assert "data:image/svg+xml;base64," in page
    assert "http" not in page
    assert "<th>÷ limit</th>" in page
    text = CliRunner().invoke(app, command)
    assert text.exit_code == 0, text.output
    assert {"cold-start", LIMIT, LIFETIMES, "÷ limit"} <= _words(text.stdout)


def _words(shown: str) -> set[str]:
    """Cells of the tables that a command shows."""
    return {cell.strip() for line in shown.splitlines() for cell in line.split("  ")}


def test_the_limit_is_a_line_and_a_share_of_every_other() -> None:
    results = run(SMALL._replace(policies=(LIMIT, OURS, LIFETIMES)), workers=1)
    assert {r.policy for r in results} == {LIMIT, OURS, LIFETIMES}
    most = {(r.arrivals, r.impressions): r.clicks for r in results if r.policy == LIMIT}
    assert all(len(set(clicks)) == 1 for clicks in most.values())
    site = Site(300, 10, arrivals=30, day=30 * 20)
    assert most[True, 20][0] == limit_of("beta", site, 20) < most[False, 20][0]
    for c in compare(results):
        assert c.of_limit == pytest.approx(c.clicks / most[c.arrivals, c.impressions][0])
    assert compare([r for r in results if r.policy != LIMIT])[0].of_limit is None


def test_who_knows_lifetimes_plays_alike_where_nobody_leaves() -> None:
    clicks = {
        (r.policy, r.arrivals, r.impressions): r.clicks
        for r in run(SMALL._replace(policies=(OURS, LIFETIMES)), workers=1)
    }
    assert clicks[OURS, False, 20] == clicks[LIFETIMES, False, 20]
    assert clicks[OURS, True, 20] != clicks[LIFETIMES, True, 20]
