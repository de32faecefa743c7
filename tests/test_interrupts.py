"""Ctrl-C: commands end, whatever they are doing, and say what was kept."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest


def _listens(pid: int) -> bool:
    """Whether a process has imported all it needs, and handles signals: it has the socket that wakes it then."""
    with contextlib.suppress(OSError):  # files come and go
        return any(str(file.readlink()).startswith("socket:") for file in Path(f"/proc/{pid}/fd").iterdir())
    return False


def _interrupted(folder: Path, *words: str, after: float = 1.0) -> tuple[int, str]:
    """Interrupt a command that runs for long, as a terminal does: the whole group of processes."""
    process = subprocess.Popen(
        [sys.executable, "-m", "hellinger", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        cwd=folder,
    )
    try:
        while not _listens(process.pid):
            assert process.poll() is None
            time.sleep(0.05)
        time.sleep(after)  # somewhere between compiling and the work itself
        assert process.poll() is None
        os.killpg(process.pid, signal.SIGINT)
        said, _ = process.communicate(timeout=20)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    return process.returncode, said


@pytest.mark.parametrize(
    ("words", "kept"),
    [
        (["simulate", "--horizon", "1e9", "--runs", "4"], "--out FOLDER keeps finished parts"),
        (["simulate", "--horizon", "1e9", "--runs", "4", "--out", "here"], "finished parts are in here"),
        (["coldstart", "--out", "here"], "finished runs are in here"),
        (["reproduce", "--runs", "1e6"], "nothing was written"),
        (["demo", "--days", "3650", "--port", "0"], "--keep FOLDER keeps the database"),
    ],
    ids=["simulate", "simulate-out", "coldstart", "reproduce", "demo"],
)
def test_what_was_kept(tmp_path: Path, words: list[str], kept: str) -> None:
    for after in (1.0, 4.0, 16.0):  # a slow machine may not have begun yet: then there is nothing to say
        status, said = _interrupted(tmp_path, *words, after=after)
        assert status == 130
        if said.splitlines()[-1] != "stopped":
            break
    assert said.splitlines()[-1].startswith("stopped; ")
    assert kept in said
    assert "Traceback" not in said


def test_a_service_that_is_not_ready_or_is(tmp_path: Path) -> None:
    status, said = _interrupted(tmp_path, "serve", "--port", "0", "--log-format", "text")
    assert status in (0, 130)  # 130 where it was still compiling
    assert "stopped" in said.splitlines()[-1]
