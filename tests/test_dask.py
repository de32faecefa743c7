"""A real cluster, a scheduler and two worker processes on this machine, gives the numbers of a local run."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from hellinger.cli import _app
from hellinger.lab import _simulate, simulate
from hellinger.world import runs

pytest.importorskip("distributed", reason="distributed is not installed: the extra `cluster` brings it")

# its own: sockets it leaves to the garbage collector, and a port of a dashboard that is taken
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:distributed"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

POLICIES = ["hellinger-ucb", "thompson", "bayes-ucb"]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def start(folder: Path, module: str, *words: str) -> subprocess.Popen[bytes]:
    path = os.pathsep.join(filter(None, sys.path))
    return subprocess.Popen(
        [sys.executable, "-m", f"distributed.cli.{module}", *words],
        env=os.environ | {"PYTHONPATH": path},
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def stop(processes: list[subprocess.Popen[bytes]]) -> None:
    for process in processes:
        process.kill()
    for process in processes:
        process.wait(30)


@pytest.fixture(scope="module")
def scheduler(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[int], str]]:
    """Start a scheduler with so many workers; give its address."""
    running: list[subprocess.Popen[bytes]] = []
    folder = tmp_path_factory.mktemp("dask")

    def begin(workers: int) -> str:
        address = f"127.0.0.1:{free_port()}"
        host, _, port = address.partition(":")
        running.append(start(folder, "dask_scheduler", "--host", host, "--port", port, "--no-dashboard"))
        for _ in range(workers):
            words = (f"tcp://{address}", "--nthreads", "1", "--no-nanny", "--no-dashboard", "--host", host)
            running.append(start(folder, "dask_worker", *words))
        return address

    yield begin
    stop(running)


@pytest.fixture(scope="module")
def cluster(scheduler: Callable[[int], str]) -> str:
    """The address of a cluster whose two workers have reported."""
    from distributed import Client

    address = scheduler(2)
    with Client(f"tcp://{address}", timeout=60, set_as_default=False) as client:
        client.wait_for_workers(2, timeout=60)
    return address


def test_the_same_numbers_as_locally(cluster: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(_simulate, "_STEPS_A_BLOCK", 1500)  # ten blocks for each policy
    setting = {"means": [0.2, 0.5, 0.4], "horizon": 300, "runs": 50, "seed": 3}
    away = simulate(POLICIES, engine=f"dask://{cluster}", resume=tmp_path, **setting)  # type: ignore[arg-type]
    here = simulate(POLICIES, **setting)  # type: ignore[arg-type]
    for name in ("regret", "pulls", "reward"):
        assert np.array_equal(getattr(away, name), getattr(here, name))
    assert len(list(tmp_path.glob("*.npz"))) == 30


def test_both_workers_play(cluster: str) -> None:
    from distributed import Client

    with Client(f"tcp://{cluster}", timeout=30, set_as_default=False) as client:
        assert len(client.run(os.getpid)) == 2
        assert len(set(client.run(os.getpid).values()) | {os.getpid()}) == 3


def test_workers_with_other_sources_are_refused(cluster: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hellinger._jit.DIGEST", "another")
    with pytest.raises(ValueError, match="must have this version of hellinger"):
        simulate("ucb1", means=[0.5], horizon=10, runs=1, engine=f"dask://{cluster}")


def test_a_cluster_without_workers_is_refused(scheduler: Callable[[int], str]) -> None:
    from distributed import Client

    address = scheduler(0)
    Client(f"tcp://{address}", timeout=60, set_as_default=False).close()  # it listens now
    with pytest.raises(ValueError, match="the cluster must have a worker"):
        simulate("ucb1", means=[0.5], horizon=10, runs=1, engine=runs.dask(address, timeout=1.0))


def test_an_unreachable_cluster_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(runs.dask, "__kwdefaults__", {"timeout": 1.0})
    address = f"127.0.0.1:{free_port()}"
    with pytest.raises(ValueError, match=f"must be reachable, but dask://{address} is not"):
        simulate("ucb1", means=[0.5], horizon=10, runs=1, engine=f"dask://{address}")
    words = ["simulate", "--means", "0.5,0.4", "--engine", f"dask://{address}", "--out", str(tmp_path / "out")]
    monkeypatch.setattr(sys, "argv", ["hellinger", *words])
    monkeypatch.setattr("warnings.showwarning", lambda *_, **__: None)
    with pytest.raises(SystemExit) as stopped:
        _app.run()
    out, err = capsys.readouterr()
    assert (stopped.value.code, out) == (2, "")
    assert err.count("\n") == 1
    assert "must be reachable" in err
    assert list(tmp_path.iterdir()) == []
