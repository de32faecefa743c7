"""Variants estimated from each other's traffic: coverage at all times, and the way from a service to the sentence."""

from __future__ import annotations

import json
import sqlite3
import time
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from hellinger import cli
from hellinger.client import CheckedVariants, Client, Feedback
from hellinger.evaluate.parts import LogPart, RankingFilters, VariantColumns
from hellinger.evaluate.selfcheck import HEAVIEST, SelfChecks, check_file
from hellinger.ledger import recovery
from hellinger.ledger.snapshot import encode
from hellinger.serve import selfcheck
from hellinger.serve.selfcheck import check_log
from hellinger.store import open_store
from served import serving, settings_of

ITEMS, PLACES, TIMES = 12, 3, (100, 300, 1000, 2000)


def chances(scores: np.ndarray, share: float) -> np.ndarray:
    """Of each item at each place: by scores, equal ones in random order, and a share of pages drawn from all."""
    found = np.zeros((ITEMS, PLACES))
    for place, score in enumerate(-np.sort(-scores)[:PLACES]):
        found[scores == score, place] = 1.0 / np.count_nonzero(scores == score)
    return share / ITEMS + (1.0 - share) * found


def pages(scores: np.ndarray, share: float, count: int, rng: np.random.Generator) -> np.ndarray:
    drawn = rng.random((count, 1)) < share
    keys = np.where(drawn, 0.0, -scores) + 1e-9 * rng.random((count, ITEMS))
    return np.argsort(keys, axis=1)[:, :PLACES]


PAIRS: dict[str, tuple[Any, Any, float, float]] = {
    "ties": (lambda r: np.round(6 * r) / 6, lambda r: np.round(3 * r) / 3, 0.0, 0.5),
    "a share": (lambda r: r, lambda r: -r, 0.3, 0.5),
    "few": (lambda r: np.round(4 * r) / 4, lambda r: r * 0.0, 0.0, 0.1),
    "nothing in common": (lambda r: r, lambda r: -r, 0.0, 0.5),
}


def part(seed: int, name: str, count: int) -> tuple[LogPart, dict[str, float]]:
    """Rankings of two variants, and what a shared place of each earns in truth, times their number."""
    one, other, share, split = PAIRS[name]
    rng = np.random.default_rng([seed, len(name)])
    rates = rng.beta(2, 6, ITEMS)
    rank = np.argsort(np.argsort(rates)) / (ITEMS - 1.0)
    scores = {"one": np.asarray(one(rank)), "two": np.asarray(other(rank))}
    tables = {variant: chances(values, share) for variant, values in scores.items()}
    first = rng.random(count) < split
    shown = np.where(first[:, None], *(pages(scores[v], share, count, rng) for v in ("one", "two"))).ravel()
    position = np.tile(np.arange(PLACES), count)
    looks = 1.0 / (1.0 + position)
    reward = (rng.random(shown.size) < rates[shown] * looks).astype(float)
    own = np.repeat(first, PLACES)
    columns = {
        v: VariantColumns(np.full(shown.size, s), tables[v][shown, position], own if v == "one" else ~own)
        for v, s in (("one", split), ("two", 1.0 - split))
    }
    truth = {}
    for v, u in (("one", "two"), ("two", "one")):
        shared = (tables[v] <= HEAVIEST * tables[u]) & (tables[u] > 0.0)
        truth[v] = float((tables[v] * shared * rates[:, None] / (1.0 + np.arange(PLACES))).sum())
    mixed = split * columns["one"].chance + (1 - split) * columns["two"].chance
    none = np.zeros(shown.size, bool)
    starts = np.arange(0, shown.size, PLACES)
    at, eligible = np.zeros(count, np.int64), np.full(count, float(ITEMS))
    others = columns, eligible, RankingFilters.none(count), np.full(shown.size, -1)
    return LogPart(starts, at, shown, position + 1, reward, mixed, none, none, *others), truth


@pytest.mark.parametrize("name", PAIRS)
def test_both_intervals_cover_at_all_times(name: str) -> None:
    """200 logs, each looked at four times: at most one in twenty may be missed at any of them, or told to differ."""
    missed = differ = answered = 0
    for seed in range(200):
        log, truth = part(seed, name, TIMES[-1])
        checks = SelfChecks(["one", "two"], slots=PLACES, most=1.0)
        wrong = apart = False
        for begin, end in zip((0, *TIMES), TIMES, strict=False):
            checks.add(log.cut(begin, end))
            for found in checks.found():
                if found.refusal:
                    continue
                answered += 1
                own = np.repeat(log.variants[found.variant].own[log.first][:end], PLACES)
                columns = log.variants[found.variant]
                rest = log.propensity[: own.size] - columns.share[: own.size] * columns.chance[: own.size]
                others = rest / (1.0 - columns.share[: own.size])
                shared = own & (columns.chance[: own.size] <= HEAVIEST * others) & (others > 0)
                places = shared.sum() / (own.sum() / PLACES)
                value = truth[found.variant] / places
                wrong |= not found.low <= value <= found.high
                wrong |= not found.measured_low <= value <= found.measured_high
                apart |= found.agrees is False
        missed, differ = missed + wrong, differ + apart
    assert missed <= 10
    assert differ <= 10
    assert (answered == 0) == (name == "nothing in common")


def test_wrong_chances_are_noticed() -> None:
    log, _ = part(1, "a share", 2000)
    wrong = dict(log.variants)
    wrong["two"] = wrong["two"]._replace(chance=np.minimum(1.0, 0.02 + 0.5 * wrong["two"].chance[::-1]))
    checks = SelfChecks(["one", "two"], slots=PLACES, most=1.0)
    for _ in range(4):
        checks.add(log._replace(variants=wrong))
    found = {each.variant: each for each in checks.found()}
    assert found["two"].agrees is False or found["one"].agrees is False
    assert any("do not agree" in each.sentence for each in found.values())


# From a service --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("served")
    variants = {"ours": "hellinger-ucb", "drawn": "thompson"}
    rng = np.random.default_rng(3)
    with serving(folder, variants=variants, random_share=0.2, next_share=0.3, seed=5) as service:
        with Client(service.url) as client:
            client.add_items([f"i{j}" for j in range(8)])
            for _ in range(250):
                ranking = client.rank(3)
                for item in ranking.items:
                    if rng.random() < 0.05 + 0.05 * int(item.id[1:]):
                        client.feedback([Feedback(ranking.ranking_id, item.id)])
        yield service.url, folder


def test_the_command_asks_a_running_service(served: tuple[str, Path], tmp_path: Path) -> None:
    url, _ = served
    (tmp_path / "scores.csv").write_text("item,score\n" + "".join(f"i{j},{j}\n" for j in range(8)))
    arguments = ["evaluate", "--service", url, "--variants", "--scores", str(tmp_path / "scores.csv"), "--json"]
    done = CliRunner().invoke(cli.app, arguments)
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert found["log"]["rankings"] == 250
    assert found["log"]["rows_without_propensity"] == 0  # Thompson's too
    assert [each["policy"] for each in found["fixed"]] == ["scores.csv", "variant ours", "variant drawn"]
    for each in found["fixed"][1:]:
        ips = each["estimates"][0]
        assert ips["estimator"] == "ips"
        assert ips["low"] < found["log"]["reward_per_ranking"] < ips["high"]
        assert ips["mean_weight"] == pytest.approx(1.0, abs=0.2)
    assert {each["variant"] for each in found["self_check"]} == {"ours", "drawn"}
    for each in found["self_check"]:
        assert each["agrees"] is True, each["sentence"]
    plain = CliRunner().invoke(cli.app, ["evaluate", "--service", url, "--policies", "hellinger-ucb"])
    assert plain.exit_code == 0, plain.output
    assert "Policies that learn" in plain.output


def test_a_file_that_was_gone_through_again(served: tuple[str, Path], tmp_path: Path, monkeypatch: Any) -> None:
    url, _ = served
    with Client(url) as client:
        for form in ("parquet", "jsonl"):
            client.export_file(tmp_path / f"log.{form}", form=form, retrace=True)
    frame = pl.read_parquet(tmp_path / "log.parquet")
    assert frame["propensity"].null_count() == frame["balanced"].null_count() == 0
    parts = frame.select("ranking_id", "position", "propensity", "balanced", "variant", "variants").to_dicts()
    for row in parts:
        each = {one["variant"]: one for one in row["variants"]}
        assert each[row["variant"]]["chance"] == row["propensity"]
        assert sum(one["share"] * one["chance"] for one in each.values()) == pytest.approx(row["balanced"])
    outputs = []
    for form in ("parquet", "jsonl"):
        arguments = ["evaluate", str(tmp_path / f"log.{form}"), "--variants", "--out", str(tmp_path / form)]
        done = CliRunner().invoke(cli.app, arguments)
        assert done.exit_code == 0, done.output
        assert "self-check: ours estimated from others' traffic" in " ".join(done.output.split())
        found = json.loads((tmp_path / form / "results.json").read_text(encoding="utf-8"))
        outputs.append({name: found[name] for name in ("fixed", "self_check")})
        assert "from the others" in (tmp_path / form / "report.html").read_text(encoding="utf-8")
    assert outputs[0] == outputs[1]


# By the service --------------------------------------------------------------------------------------


def checked(client: Client) -> CheckedVariants:
    """Have a check made, and wait for it."""
    found = client.self_check()
    while found.state == "running":
        time.sleep(0.05)
        found = client.self_check(begin=False)
    return found


def test_the_service_answers_with_its_last_check(served: tuple[str, Path], tmp_path: Path) -> None:
    url, _ = served
    with Client(url) as client:
        before = client.self_check(begin=False)
        assert (before.state, before.at, before.variants) == ("none", None, ())
        found = checked(client)
        assert found.state == "ready", found.reason
        assert found.rankings == 250
        assert found.since is not None
        assert found.at is not None
        assert found.since < found.at
        again = client.self_check()  # nothing has happened since
        assert again == found
        client.export_file(tmp_path / "log.parquet", retrace=True)
    _, checks = check_file(tmp_path / "log.parquet")
    assert [each.variant for each in found.variants] == ["ours", "drawn"]
    for told, one in zip(found.variants, checks, strict=True):
        assert told.sentence == one.sentence
        assert told.agrees is one.agrees is True
    assert httpx.get(f"{url}/v1/experiments/nobody/self-check").status_code == 404


def test_the_newest_rankings_are_checked_from_any_snapshot(served: tuple[str, Path], tmp_path: Path) -> None:
    """The window is folded up to its beginning: from nothing, or from a snapshot, to the same answer."""
    _, folder = served
    settings = settings_of(
        folder, variants={"ours": "hellinger-ucb", "drawn": "thompson"}, random_share=0.2, next_share=0.3, seed=5
    )
    with sqlite3.connect(folder / "log.db") as source, sqlite3.connect(tmp_path / "log.db") as copy:
        source.backup(copy)
    store = open_store(f"sqlite:///{tmp_path}/log.db")
    try:
        plain = check_log(store, settings, 100)
        assert plain["rankings"] == 100
        assert "100.00 % of" in plain["chances"]
        assert {row["rankings"] + row["others"] for row in plain["variants"]} == {100}
        ledger = recovery.recover_at(store, 120)
        assert ledger.seq == 120
        store.save_snapshot(ledger.seq, encode(ledger))
        for saved in (120, store.last()):  # before the window, and beyond its beginning
            if saved > 120:
                recovery.take_snapshot(store)
            assert check_log(store, settings, 100) | {"at": 0} == plain | {"at": 0}
        whole = check_log(store, settings, 10_000)
        assert whole["rankings"] == 250
    finally:
        store.close()


def test_an_empty_log_has_nothing_to_check(tmp_path: Path) -> None:
    with (
        serving(tmp_path, variants={"ours": "hellinger-ucb", "other": "ucb1"}) as service,
        Client(service.url) as client,
    ):
        found = checked(client)
        assert (found.state, found.rankings, found.variants) == ("ready", 0, ())


def test_a_check_that_fails_says_so_and_one_under_way_ends_with_the_service(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with (
        serving(tmp_path, variants={"ours": "hellinger-ucb", "other": "ucb1"}) as service,
        Client(service.url) as client,
    ):
        checking = service.app.state.self_check
        monkeypatch.setattr(checking, "_database", f"sqlite:///{tmp_path}/nothing.db")
        found = checked(client)
        assert found.state == "failed"
        assert found.reason == "the self-check failed with status 2"  # an address is the log's alone
        assert "no database at sqlite:///" in caplog.text
        assert client.self_check().state == "failed"  # not again at once
        monkeypatch.setattr(checking, "_database", f"sqlite:///{tmp_path}/log.db")
        monkeypatch.setattr(selfcheck, "REST", 0.0)
        monkeypatch.setattr(selfcheck, "SHARE", 1e9)
        assert client.self_check().state == "running"
    assert checking._failed == "the self-check was given up: the service is stopping"
