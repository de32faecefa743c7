"""The demo, as a script and as a user run it."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from typer.testing import CliRunner

import hellinger
from hellinger import cli
from hellinger.ledger import recovery
from hellinger.store import open_store
from hellinger.traffic.demo import OURS, PAPER, PERSONAL, Demo, Scene, bind
from hellinger.world.laws import TOPICS

TITLE = "Hellinger demo: the paper's three and our cold-start, without and with context"
COMMAND = [sys.executable, "-m", "hellinger", "demo"]


def test_headless_prints_what_the_service_says_of_the_experiment() -> None:
    done = subprocess.run([*COMMAND, "--headless", "200", "--json", "--items", "2000"], capture_output=True, check=True)
    told = json.loads(done.stdout)
    assert {row["variant"] for row in told["variants"]} == {*PAPER, OURS, PERSONAL[0]}
    assert (told["control"], told["title"]) == ("ucb1", TITLE)
    assert sum(row["requests"] for row in told["variants"]) == 200
    assert sum(row["impressions"] for row in told["variants"]) == 4000
    assert sum(row["reward"] for row in told["variants"]) > 0
    assert {"sentence", "control", "sample_ratio", "title", "items"} <= told.keys()
    assert 2000 <= told["items"] < 2020  # some arrive meanwhile


def test_headless_with_months_before_it_prints_a_table(tmp_path: Path) -> None:
    options = ["--items", "300", "--days", "2", "--visits", "150", "--variants", "thompson,kl-ucb", "--keep"]
    first = CliRunner().invoke(cli.app, ["demo", "--headless", "20", *options, str(tmp_path)])
    assert first.exit_code == 0, first.output
    assert "2 days: " in first.stdout
    assert "kl-ucb" in first.stdout
    assert "ours" not in first.stdout
    # kept, it goes on without playing the days again
    again = CliRunner().invoke(cli.app, ["demo", "--headless", "20", "--json", *options, str(tmp_path)])
    told = json.loads(again.stdout)
    pages = sum(row["requests"] for row in told["variants"])
    assert 140 < pages < 640  # 2 · 150 and 2 · 20: as many as come
    store = open_store(f"sqlite:///{tmp_path}/hellinger.db")
    try:
        ledger = recovery.recover(store)
        assert sum(cell[0] for cell in ledger.series.totals.values()) == pages
        assert len(ledger.series.steps["day"]) >= 2
        assert recovery.check(store) == []
    finally:
        store.close()


def test_one_variant_has_no_columns_to_compare_with(tmp_path: Path) -> None:
    options = ["--items", "50", "--variants", "ucb1", "--keep", str(tmp_path)]
    said = CliRunner().invoke(cli.app, ["demo", "--headless", "20", *options]).stdout
    assert "a ranking counts here once its reward is final" in " ".join(said.split())
    assert "95 % interval" in said
    assert "over" not in said
    assert "best" not in said


def test_the_same_seed_plays_the_same_months(tmp_path: Path) -> None:
    found = []
    for name in ("one", "other"):
        folder = tmp_path / name
        folder.mkdir()
        demo = Demo(folder, Scene(items=200, days=1, visits=200, seed=7))
        demo.world.start = 1_700_000_000_000  # hours of the day decide how many come
        demo.world.resume(demo.world.users, demo.world.start)
        demo.fast_forward()
        store = open_store(demo.settings.database)
        found.append(recovery.recover(store).series.totals)
        store.close()
    assert found[0] == found[1]


def test_who_asks_is_learned_from_and_stories_are_groups(tmp_path: Path) -> None:
    scene = Scene(items=400, days=12, visits=300, users=Scene().users._replace(users=200))
    demo = Demo(tmp_path, scene)
    demo.world.resume(demo.world.users, 1_700_000_000_000)  # hours of the day decide how many come
    demo.fast_forward()
    store = open_store(demo.settings.database)
    ledger = recovery.recover(store)
    store.close()
    assert ledger.catalogue.group_of(0)[0].startswith("story-")
    rate = {name: reward / shown for name, (_, shown, reward) in ledger.series.totals.items()}
    assert min(rate["personal"], rate["cold-start"]) > max(rate[name] for name in PAPER)
    model = ledger.models.of["personal"]
    effects = {each.name: each.effect for each in model.pool.effects()}
    crosses = {(a, b): effects.get(f"likes={a} × topic={b}", 0.0) for a in TOPICS for b in TOPICS}
    liked, others = ([effect for (a, b), effect in crosses.items() if (a == b) is same] for same in (True, False))
    assert sum(liked) / len(liked) > sum(others) / len(others) + 0.5
    assert ledger.priors["cold-start", ""][1]["prior"]["shares"]


def test_it_opens_on_a_free_port_and_ends_with_ctrl_c() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        options = ["--port", str(port), "--items", "200", "--days", "1", "--visits", "100", "--rate", "50"]
        child = subprocess.Popen([*COMMAND, *options], stdout=subprocess.PIPE, text=True, env=os.environ)
        try:
            assert child.stdout is not None
            said = ""
            while "open" not in said:
                line = child.stdout.readline()
                assert line, "it ended before it opened"
                said += line
            assert (
                "kl-ucb and ucb1 are the paper's; cold-start is ours, personal is the same for who is asking\n" in said
            )
            assert f"port {port} is taken" in said
            address = re.search(r"http://127\.0\.0\.1:(\d+)", said)
            assert address is not None
            assert int(address[1]) > port
            with hellinger.Client(address[0]) as client:
                first = sum(row.requests for row in client.experiment().variants)
                while sum(row.requests for row in client.experiment().variants) == first:
                    pass  # it goes on live
            with httpx.stream("GET", f"{address[0]}/v1/stream") as page:
                assert page.status_code == 200
                child.send_signal(signal.SIGINT)
                assert child.wait(60) == 0  # a page that is still open does not hold it up
            child.stdout.close()
        finally:
            child.kill()
            child.wait()


def test_a_port_that_is_taken_gives_way_to_the_next() -> None:
    with bind("127.0.0.1", 0) as first:
        port = first.getsockname()[1]
        with bind("127.0.0.1", port) as second:
            assert second.getsockname()[1] > port
        with pytest.raises(ValueError, match="must be free, but 1 are taken"):
            bind("127.0.0.1", port, tries=1)


@pytest.mark.parametrize("wrong", [{"items": 0}, {"days": -1}, {"rate": 0}, {"visits": 0}])
def test_a_scene_that_makes_no_sense_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Scene(**wrong).check()  # type: ignore[arg-type]
