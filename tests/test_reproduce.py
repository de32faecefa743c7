"""The paper's simulations again: what is written, what is claimed, and what happens to nonsense."""

from __future__ import annotations

import base64
import json
import re
import subprocess
import sys
from dataclasses import replace
from html import unescape
from pathlib import Path

import numpy as np
import pytest

from hellinger import policy, simulate
from hellinger.lab import Result
from hellinger.lab._folder import whole_folder
from hellinger.lab.claims import Claim, latency_claims, setting_claims
from hellinger.lab.latency import BASELINE, Latency, measure_latency, numpy_kl_index, warm_counts
from hellinger.lab.report import render_report
from hellinger.lab.reproduce import INIT, POLICIES, SETTINGS, Reproduction, reproduce

FIGURES = [f"{what}_{setting.name}" for setting in SETTINGS for what in ("regret", "average", "final")]
FIGURES += ["latency", "rewards", "leads"]


TOLD: list[tuple[str, float | None]] = []


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Reproduction:
    folder = tmp_path_factory.mktemp("out") / "new" / "folder"
    return reproduce(folder, runs=3, seed=5, sites=2, items=600, say=lambda what, done: TOLD.append((what, done)))


def test_files(made: Reproduction) -> None:
    expected = {f"{name}.{kind}" for name in FIGURES for kind in ("png", "svg")} | {"report.html", "results.json"}
    assert {file.name for file in made.folder.iterdir()} == expected
    assert [file.name for file in made.folder.parent.iterdir()] == ["folder"]


def test_results_are_those_of_the_simulator(made: Reproduction) -> None:
    record = json.loads((made.folder / "results.json").read_text(encoding="utf-8"))
    assert record == made.record
    assert (record["runs"], record["seed"], record["horizon"], record["init"], record["c"]) == (3, 5, 10_000, 3, 0.27)
    assert record["figures"] == FIGURES
    for setting, kept in zip(SETTINGS, record["settings"], strict=True):
        assert kept.keys() == {
            "setting", "family", "means", "lai_robbins", "consistency_threshold", "policies", "play_s"
        }  # fmt: skip
        fresh = simulate(POLICIES, means=setting.means, family=setting.name, horizon=10_000, runs=3, seed=5, init=INIT)
        assert kept["policies"] == fresh.summary()
    assert {(row["method"], row["arms"]) for row in record["latency"]} == {
        (method, arms) for method in (*POLICIES, BASELINE) for arms in (100, 1_000, 10_000, 100_000)
    }
    assert all(0 < row["q05_ms"] <= row["median_ms"] <= row["q95_ms"] for row in record["latency"])
    keys = [claim["key"] for claim in record["claims"]]
    assert len(set(keys)) == len(keys)


def test_report_has_every_claim_and_every_figure_inside(made: Reproduction) -> None:
    report = (made.folder / "report.html").read_text(encoding="utf-8")
    text = re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]+>", "", report)))
    for claim in made.claims:
        assert f'<tr id="{claim.key}">' in report
        for part in (claim.claim, claim.authors, claim.ours, claim.verdict, claim.note):
            assert part.replace("`", "") in text
    images = dict(
        re.findall(r'<figure id="(\w+)"(?: class="wide")?><img src="data:image/svg\+xml;base64,([^"]+)"', report)
    )
    assert list(images) == FIGURES
    for name, data in images.items():
        assert base64.b64decode(data) == (made.folder / f"{name}.svg").read_bytes()
    assert "$" not in text
    assert not re.findall(r'(?:src|href)="(?!data:|#)', report)


def test_progress_names_what_is_done(made: Reproduction) -> None:
    del made
    said = list(dict.fromkeys(what for what, _ in TOLD))
    for word in (
        "compiling kl-ucb for poisson rewards",
        "playing the bernoulli setting",
        "playing two months of traffic on 600 items",
        "timing",
        "drawing",
        "report",
    ):
        assert any(word in what for what in said), word
    shares = [done for what, done in TOLD if what == "playing the poisson setting" and done is not None]
    assert shares == sorted(shares)
    assert shares[-1] == 1.0


def test_report_names_a_command_that_can_be_typed(made: Reproduction) -> None:
    usual = {"runs": 2_000, "sites": 4, "items": 10_000}
    assert "hellinger reproduce --runs 2000 --seed 5<" in render_report(made.record | usual, made.claims, [])
    assert "--runs 3 --seed 5 --sites 2 --items 600<" in render_report(made.record, made.claims, [])
    full = render_report(made.record | usual | {"full": True, "sites": 10}, made.claims, [])
    assert "--runs 2000 --seed 5 --full<" in full


# Claims ----------------------------------------------------------------------------------------------


def setting(name: str, made: Reproduction, **finals: float) -> dict[str, Claim]:
    """Claims about a result in which each policy's regret ends, in every run, near a number; log in time."""
    base = made.results[name]
    t = np.log(base.checkpoints) / np.log(10_000)
    spread = np.array([0.99, 1.0, 1.01])[:, None]
    regret = np.stack([finals[spec.replace("-", "_")] * spread * t for spec in base.policies])
    return {claim.key: claim for claim in setting_claims(name, replace(base, regret=regret))}


def test_claims_hold_where_the_numbers_are_the_authors(made: Reproduction) -> None:
    claims = setting("bernoulli", made, hellinger_ucb=88.0, kl_ucb=121.0, ucb1=500.0)
    assert claims["bernoulli-hellinger-ucb"].verdict == "agrees"
    assert claims["bernoulli-hellinger-ucb"].ours == "88.0 ± 0.5"
    assert claims["bernoulli-kl-ucb"].verdict == "agrees"
    assert claims["bernoulli-order"].verdict == "agrees"
    assert claims["bernoulli-order"].ours.startswith("−33.0")
    assert claims["bernoulli-logarithmic"].verdict == "agrees"
    assert claims["bernoulli-box"].verdict == "agrees"
    assert claims["bernoulli-ucb1"].verdict == "agrees"
    assert "notebook" not in " ".join(claims)


def test_claims_fail_where_the_numbers_are_others(made: Reproduction) -> None:
    claims = setting("poisson", made, hellinger_ucb=120.0, kl_ucb=110.0, ucb1=50.0)
    for key in ("hellinger-ucb", "kl-ucb", "order", "box", "ucb1"):
        assert claims[f"poisson-{key}"].verdict == "differs", key
    assert claims["poisson-early"].verdict == "differs"


def test_a_worse_tail_is_told(made: Reproduction) -> None:
    base = made.results["bernoulli"]
    finals = np.array([[50.0, 50.0, 400.0], [100.0] * 3, [500.0] * 3])
    regret = finals[:, :, None] * np.log(base.checkpoints) / np.log(10_000)
    claims = {claim.key: claim for claim in setting_claims("bernoulli", replace(base, regret=regret))}
    assert claims["bernoulli-box"].verdict == "partly"
    assert "worst 400 and 100" in claims["bernoulli-box"].ours
    assert "worse" in claims["bernoulli-box"].note


def test_the_paper_promises_less_than_lai_and_robbins_allow(made: Reproduction) -> None:
    for name, constant, least in (("bernoulli", "15.66", "17.45"), ("poisson", "14.79", "15.79")):
        (claim,) = [claim for claim in made.claims if claim.key == f"{name}-optimal"]
        assert claim.verdict == "differs"
        assert constant in claim.ours
        assert least in claim.ours


@pytest.mark.parametrize(("kl", "verdict"), [(0.4, "differs"), (12.0, "agrees")])
def test_latency_is_judged_by_the_limit(kl: float, verdict: str) -> None:
    rows = [
        Latency(name, 10_000, ms, ms, ms, 9) for name, ms in (("hellinger-ucb", 0.1), ("ucb1", 0.1), (BASELINE, 9.0))
    ]
    claims = {claim.key: claim for claim in latency_claims([*rows, Latency("kl-ucb", 10_000, kl, kl, kl, 9)])}
    assert claims["latency-iterative"].verdict == verdict
    assert claims["latency-closed-form"].verdict == "agrees"


def test_the_notebook_plays_the_poisson_index_on_bernoulli_rewards(made: Reproduction) -> None:
    (kept,) = [row for row in made.record["notebook"] if row["policy"] == "kl-ucb"]
    (right,) = [row for row in made.record["settings"][0]["policies"] if row["policy"] == "kl-ucb"]
    assert kept["mean_regret"] != right["mean_regret"]
    assert kept["mean_reward"] == int(kept["mean_reward"] * 3 + 0.5) / 3  # rewards are whole clicks


# Latency ---------------------------------------------------------------------------------------------


def test_numpy_bisection_is_kl_ucb() -> None:
    sums, pulls = warm_counts(500)
    sums[:3], pulls[:3] = [0.0, 4.0, 1.0], [7.0, 4.0, 1.0]
    t = float(pulls.sum() + 1)
    np.testing.assert_allclose(numpy_kl_index(sums, pulls, t), policy("kl-ucb").index(sums, pulls, t), atol=1e-11)


def test_warm_counts_are_counts() -> None:
    sums, pulls = warm_counts(2_000, seed=1)
    assert ((sums >= 0) & (sums <= pulls)).all()
    assert pulls.min() >= 1
    assert pulls.max() <= 500
    assert 0.01 < sums.sum() / pulls.sum() < 0.025


def test_every_method_is_timed_often_enough() -> None:
    rows = measure_latency(["ucb1"], sizes=[8, 40], seconds=0.0, least=3)
    assert [(row.method, row.arms, row.calls) for row in rows] == [
        ("ucb1", 8, 3), ("ucb1", 40, 3), (BASELINE, 8, 3), (BASELINE, 40, 3)
    ]  # fmt: skip


# Nonsense --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("runs", [0, 1, -5])
def test_runs_must_be_two_or_more(tmp_path: Path, runs: int) -> None:
    with pytest.raises(ValueError, match=rf"2 <= runs.*runs={runs}"):
        reproduce(tmp_path / "out", runs=runs)
    assert not list(tmp_path.iterdir())


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "hellinger", "reproduce", *arguments],
        capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip


@pytest.mark.parametrize(("where", "word"), [("file", "is a file"), ("file/inside", "can be written")])
def test_folder_must_be_writable(tmp_path: Path, where: str, word: str) -> None:
    (tmp_path / "file").write_text("mine", encoding="utf-8")
    with pytest.raises(ValueError, match=word):
        reproduce(tmp_path / where, runs=2)
    assert [file.name for file in tmp_path.iterdir()] == ["file"]
    assert (tmp_path / "file").read_text(encoding="utf-8") == "mine"


def test_command_refuses_nonsense_in_one_line(tmp_path: Path) -> None:
    done = command("--runs", "0", "--out", str(tmp_path / "new"))
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr == "error: `2 <= runs, a whole number` must hold, but got runs=0\n"
    assert not list(tmp_path.iterdir())


def test_command_prints_json_alone(made: Reproduction, tmp_path: Path) -> None:
    site = ("--sites", "2", "--items", "600")
    done = command("--runs", "3", "--seed", "5", *site, "--out", str(tmp_path / "out"), "--json")
    assert done.returncode == 0, done.stderr
    printed = json.loads(done.stdout)
    assert printed == json.loads((tmp_path / "out" / "results.json").read_text(encoding="utf-8"))
    for fresh, kept in zip(printed["settings"], made.record["settings"], strict=True):
        assert fresh["policies"] == kept["policies"]
    assert printed["production"] == made.record["production"]
    assert "playing the bernoulli setting" in done.stderr


def test_folder_is_whole_or_absent(tmp_path: Path) -> None:
    def fail() -> None:
        with whole_folder(tmp_path / "a" / "b") as partial:
            (partial / "half").write_text("half", encoding="utf-8")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert not list(tmp_path.iterdir())
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "old").write_text("old", encoding="utf-8")
    with whole_folder(kept) as partial:
        (partial / "new").write_text("new", encoding="utf-8")
    assert {file.name for file in kept.iterdir()} == {"old", "new"}
    assert [file.name for file in tmp_path.iterdir()] == ["kept"]


def test_result_is_saved_as_before(made: Reproduction, tmp_path: Path) -> None:
    result = made.results["poisson"]
    again = Result.load(result.save(tmp_path / "deep" / "result"))
    np.testing.assert_array_equal(again.regret, result.regret)
