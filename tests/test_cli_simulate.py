"""``hellinger simulate`` and ``hellinger show``: what they print, what they refuse, and what they leave behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from hellinger.cli import _app
from hellinger.cli._app import console
from hellinger.cli._service import answering
from hellinger.cli.experiment import experiment_table
from hellinger.client import UnreachableError
from hellinger.errors import InputError
from hellinger.lab import Result, simulate

Answer = tuple[int, str, str]
Command = Callable[..., Answer]

EXAMPLE = [
    "--family",
    "bernoulli",
    "--means",
    "0.1,0.05,0.02",
    "--policies",
    "hellinger-ucb,kl-ucb,ucb1",
    "--seed",
    "0",
]
QUICK = ["--horizon", "300", "--runs", "20"]


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Run a command in this process, as the console script does."""

    def run(*words: str) -> Answer:
        monkeypatch.setattr(sys, "argv", ["hellinger", *words])
        monkeypatch.setattr("warnings.showwarning", lambda *_, **__: None)
        capsys.readouterr()
        try:
            _app.run()
            status = 0
        except SystemExit as stop:
            status = int(stop.code or 0)
        out, err = capsys.readouterr()
        return status, out, err

    return run


def test_example_prints_one_object(command: Command) -> None:
    status, out, err = command("simulate", *EXAMPLE, *QUICK, "--json")
    assert status == 0
    assert err in ("", "compiling for this machine, once: up to a minute\n")  # the first time it does
    assert out.count("\n") == 1
    answer = json.loads(out)
    assert list(answer) == ["policies", "wall_s", "steps_per_s"]
    assert [row["policy"] for row in answer["policies"]] == ["hellinger-ucb", "kl-ucb", "ucb1"]
    for row in answer["policies"]:
        assert list(row) == ["policy", "mean_regret", "sem", "q25", "median", "q75", "mean_reward"]
        assert all(isinstance(value, float) for key, value in row.items() if key != "policy")
    assert answer["wall_s"] > 0
    assert answer["steps_per_s"] == pytest.approx(3 * 300 * 20 / answer["wall_s"])
    expected = simulate(["hellinger-ucb", "kl-ucb", "ucb1"], means=[0.1, 0.05, 0.02], horizon=300, runs=20)
    assert [row["mean_regret"] for row in answer["policies"]] == [row["mean_regret"] for row in expected.summary()]


def test_example_prints_a_table(command: Command) -> None:
    status, out, _ = command("simulate", *EXAMPLE, *QUICK)
    assert status == 0
    assert "Regret after 300 rounds, 20 runs, 3 arms, bernoulli" in out
    for word in ("hellinger-ucb", "kl-ucb", "ucb1", "best"):
        assert word in out


def test_a_row_of_the_table_is_a_line(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    for width, median in ((80, False), (120, True)):
        monkeypatch.setattr(console, "width", width)
        _, out, _ = command("simulate", "--means", "beta(1.6,100)x1000", "--horizon", "60000", "--runs", "2")
        rows = out.splitlines()[1:5]
        assert [row.split()[0] for row in rows] == ["policy", "hellinger-ucb", "kl-ucb", "ucb1"]
        assert ("median" in rows[0]) == median


def test_one_ranking_that_waits_is_one() -> None:
    row = {"variant": "a", "requests": 1, "impressions": 2, "reward": 1, "rate": None, "low": 0.0, "high": 1.0}
    raw = {"variants": [row], "control": "a", "sentence": "Too early.", "next": "", "sample_ratio": None}
    with console.capture() as captured:
        console.print(experiment_table(raw | {"open_requests": 1, "guardrail": None}))
    assert "1 ranking may still be rewarded" in captured.get()


def test_a_slow_service_is_not_a_missing_one() -> None:
    for cause, words in (
        (httpx.ReadTimeout(""), "has not answered within 120 s"),
        (httpx.ConnectError(""), "no service"),
    ):
        with pytest.raises(InputError, match=words), answering("http://127.0.0.1:9"):
            raise UnreachableError("the service must answer") from cause


def test_arguments_of_policies_arrive(command: Command) -> None:
    chosen = "hellinger-ucb(c=0.3),hellinger-ucb(c=0.5)"
    _, out, _ = command("simulate", "--policies", chosen, "--means", "0.5,0.4", *QUICK, "--json")
    rows = json.loads(out)["policies"]
    assert [row["policy"] for row in rows] == ["hellinger-ucb(c=0.3)", "hellinger-ucb(c=0.5)"]
    assert rows[0]["mean_regret"] < rows[1]["mean_regret"]


def test_means_from_a_law_and_from_a_file(command: Command, tmp_path: Path) -> None:
    words = ["--policies", "hellinger-ucb", "--horizon", "400", "--runs", "2", "--json"]
    status, out, _ = command("simulate", "--means", "beta(1.6,100)x200", *words)
    assert status == 0
    from hellinger.lab import parse_means

    file = tmp_path / "means.csv"
    file.write_text("\n".join(map(repr, parse_means("beta(1.6,100)x200").tolist())))
    status, again, _ = command("simulate", "--means", str(file), *words)
    assert status == 0
    assert json.loads(out)["policies"] == json.loads(again)["policies"]


def test_slots_batch_and_delay_arrive(command: Command) -> None:
    words = ["--slots", "2", "--batch", "5", "--delay", "3", "--ties", "first", "--json"]
    _, out, _ = command("simulate", "--means", "0.1,0.2,0.3", "--policies", "hellinger-ucb", *QUICK, *words)
    expected = simulate(
        "hellinger-ucb", means=[0.1, 0.2, 0.3], horizon=300, runs=20, slots=2, batch=5, delay=3, ties="first"
    )
    assert json.loads(out)["policies"][0]["mean_regret"] == expected.summary()[0]["mean_regret"]


def test_out_keeps_result_figure_and_parts(command: Command, tmp_path: Path) -> None:
    out = tmp_path / "new" / "folder"
    status, printed, _ = command("simulate", *EXAMPLE, *QUICK, "--out", str(out))
    assert status == 0
    assert "Written to" in printed
    assert (out / "regret.png").read_bytes()[:4] == b"\x89PNG"
    assert list((out / "parts").glob("*.npz"))
    assert not [file for file in tmp_path.rglob("*") if "partial" in file.name]
    assert Result.load(out).runs == 20
    _, shown, _ = command("show", str(out), "--json")
    _, again, _ = command("simulate", *EXAMPLE, *QUICK, "--out", str(out), "--json")
    assert json.loads(shown)["policies"] == json.loads(again)["policies"]
    _, table, _ = command("show", str(out))
    assert table.splitlines()[:5] == printed.splitlines()[:5]


def test_recorded_rewards(command: Command, tmp_path: Path) -> None:
    table = np.random.default_rng(0).random((200, 4)) < [0.1, 0.5, 0.3, 0.2]
    file = tmp_path / "table.csv"
    file.write_text("a,b,c,d\n" + "\n".join(",".join(map(str, row)) for row in table.astype(int).tolist()))
    status, out, _ = command("simulate", "--rewards", str(file), "--slots", "3", "--runs", "5", "--json")
    assert status == 0
    best = np.sort(table.sum(axis=0))[-3:].sum()
    for row in json.loads(out)["policies"]:
        assert row["mean_reward"] + row["mean_regret"] == pytest.approx(best)


# Bad input -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "rule"),
    [
        (["--runs", "0"], "1 <= runs"),
        (["--horizon", "0"], "1 <= horizon"),
        (["--horizon", "2"], "the initial plays fit in the horizon"),
        (["--init", "200"], "the initial plays fit in the horizon"),
        (["--means", "0.1,1.5"], "0 <= mean <= 1"),
        (["--means", "-1,2", "--family", "poisson"], "0 <= mean < inf"),
        (["--means", "no-such-file"], "a file"),
        (["--means", "beta(1)x3"], "beta takes 2 numbers"),
        (["--policies", "ucb2"], "unknown policy 'ucb2'"),
        (["--policies", "ucb1(d=2)"], "ucb1 takes these arguments"),
        (["--policies", ""], "at least one policy"),
        (["--policies", "hellinger-ucb(c=2)"], "0 < c"),
        (["--family", "cauchy"], "unknown family"),
        (["--slots", "9"], "slots <= arms"),
        (["--seed", "-1"], "0 <= seed"),
        (["--ties", "last"], "ties"),
        (["--engine", "spark://x:1"], "engine is local or dask"),
        (["--engine", "dask://127.0.0.1:"], "dask://host:port"),
        (["--workers", "0"], "1 <= workers"),
    ],
)
def test_refused_in_one_line(command: Command, tmp_path: Path, words: list[str], rule: str) -> None:
    status, out, err = command("simulate", *EXAMPLE, *QUICK, "--out", str(tmp_path / "new" / "out"), *words)
    assert (status, out) == (2, "")
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert rule in err
    assert list(tmp_path.iterdir()) == []


def test_a_file_in_the_place_of_the_folder(command: Command, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("precious")
    for target in (file, file / "below"):
        status, out, err = command("simulate", *EXAMPLE, *QUICK, "--out", str(target))
        assert (status, out) == (2, "")
        assert "must be a folder that can be written to" in err
        assert err.count("\n") == 1
    assert [each.name for each in tmp_path.iterdir()] == ["file"]
    assert file.read_text() == "precious"


def test_what_was_there_stays(command: Command, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    status, _, _ = command("simulate", *EXAMPLE, "--runs", "0", "--out", str(tmp_path))
    assert status == 2
    assert [each.name for each in tmp_path.iterdir()] == ["notes.txt"]


@pytest.mark.parametrize("damage", ["missing", "cut", "text"])
def test_show_refuses_a_corrupt_result(command: Command, tmp_path: Path, damage: str) -> None:
    folder = simulate("ucb1", means=[0.3, 0.6], horizon=10, runs=2).save(tmp_path / "kept")
    file = folder / "regret.parquet"
    if damage == "missing":
        file.unlink()
    else:
        file.write_bytes(file.read_bytes()[:50] if damage == "cut" else b"text")
    status, out, err = command("show", str(folder))
    assert (status, out) == (2, "")
    assert "must hold a result that Result.save wrote" in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("content", "rule"),
    [
        ("a,b\n1,x\n", "CSV of numbers"),
        ("", "CSV of numbers"),
        ("a,b\n", "table of rounds and arms"),
        ("1,0\n1\n0,1,1\n", "rewards"),
        ("0,2\n1,0\n", "0 <= reward <= 1"),
        ("0,\n1,0\n", "every cell is a number"),
    ],
)
def test_tables_refused(command: Command, tmp_path: Path, content: str, rule: str) -> None:
    file = tmp_path / "table.csv"
    file.write_text(content)
    status, out, err = command("simulate", "--rewards", str(file), "--out", str(tmp_path / "out"))
    assert (status, out) == (2, "")
    assert rule in err
    assert err.count("\n") == 1
    assert [each.name for each in tmp_path.iterdir()] == ["table.csv"]


def test_options_without_a_meaning_are_refused(command: Command, tmp_path: Path) -> None:
    file = tmp_path / "table.csv"
    file.write_text("0,1\n1,0\n")
    for words in (["--horizon", "10"], ["--batch", "2"], ["--means", "0.1"], ["--init", "1"]):
        status, _, err = command("simulate", "--rewards", str(file), *words)
        assert status == 2
        assert words[0] in err
    status, _, err = command("simulate", "--rewards", str(tmp_path))
    assert status == 2
    assert "--rewards is a file" in err


# Killed ----------------------------------------------------------------------------------------------


def start(*words: str) -> subprocess.Popen[bytes]:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    code = (
        "from hellinger.lab import _simulate; _simulate._STEPS_A_BLOCK = 20_000; from hellinger.cli import main; main()"
    )
    return subprocess.Popen(
        [sys.executable, "-c", code, "simulate", *words],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def test_killed_and_started_again_gives_the_same(tmp_path: Path, command: Command) -> None:
    words = ["--means", "0.5,0.4,0.3", "--policies", "thompson", "--horizon", "20000", "--runs", "150", "--json"]
    parts = tmp_path / "out" / "parts"
    process = start(*words, "--out", str(tmp_path / "out"))
    try:
        limit = time.monotonic() + 120
        while len(list(parts.glob("*.npz"))) < 3:
            assert time.monotonic() < limit, "nothing was kept"
            assert process.poll() is None, "finished before it could be killed"
            time.sleep(0.001)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    before = {file.name: file.stat().st_mtime_ns for file in parts.glob("*.npz")}
    assert 3 <= len(before) < 150
    again = start(*words, "--out", str(tmp_path / "out"))
    printed, _ = again.communicate(timeout=120)
    assert again.returncode == 0
    after = {file.name: file.stat().st_mtime_ns for file in parts.glob("*.npz")}
    assert len(after) == 150
    assert before.items() <= after.items()
    rows: list[dict[str, Any]] = json.loads(printed)["policies"]
    _, whole, _ = command("simulate", *words)
    assert rows == json.loads(whole)["policies"]
    assert np.isfinite(Result.load(tmp_path / "out").regret).all()


# Contextual problems ---------------------------------------------------------------------------------

MADE_UP = ["--problem", "synthetic(items=20, people=9, slots=2, memory=5)", "--horizon", "40", "--runs", "2"]


def test_a_contextual_problem_is_played_kept_and_shown(command: Command, tmp_path: Path) -> None:
    words = ("simulate", *MADE_UP, "--policies", "cold-start,uniform", "--workers", "1")
    status, out, _ = command(*words, "--out", str(tmp_path / "out"))
    assert status == 0
    assert "Regret after 40 pages, 2 runs, 20 items" in out
    assert (tmp_path / "out" / "regret.png").stat().st_size > 10_000
    status, shown, _ = command("show", str(tmp_path / "out"))
    assert (status, shown.splitlines()[:5]) == (0, out.splitlines()[:5])
    status, out, _ = command(*words, "--json", "--slots", "3")
    assert status == 0
    answer = json.loads(out)
    assert [row["policy"] for row in answer["policies"]] == ["cold-start", "uniform"]
    assert answer["steps_per_s"] == pytest.approx(2 * 2 * 40 / answer["wall_s"])


@pytest.mark.parametrize(
    ("words", "rule"),
    [
        ((*MADE_UP, "--means", "0.1,0.2"), "`--problem` must stand without --means"),
        ((*MADE_UP, "--init", "3"), "`--problem` must stand without --init"),
        (("--problem", "coat", "--data", "nowhere"), "there must be the file nowhere/coat/train.ascii"),
        (("--data", "here"), "data stands with a problem"),
        ((*MADE_UP, "--runs", "0"), "1 <= runs"),
    ],
)
def test_a_contextual_problem_takes_no_more_than_it_can_use(command: Command, words: list[str], rule: str) -> None:
    status, out, err = command("simulate", *words)
    assert (status, out) == (2, "")
    assert rule in " ".join(err.split())
