"""Ctrl-C: every command ends within a second, and says what it leaves behind and how to go on."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

from rich.console import Console
from rich.markup import escape

__all__ = ["discarding", "keeping", "prompt_interrupts"]

_STATUS = 130
"""Exit status of a command that SIGINT ended, as shells have it."""
_GRACE = 0.6
"""Seconds that a command has to end by itself before it is ended."""
_kept: list[str] = []
_unfinished: list[Path] = []
_said = threading.Lock()
_console = Console(stderr=True)


def _say() -> None:
    if _said.acquire(blocking=False):
        _console.show_cursor()
        left = f"; {_kept[-1]}" if _kept else ""
        _console.print(f"stopped{escape(left)}", highlight=False, soft_wrap=True)


def _end() -> NoReturn:
    _say()
    for child in multiprocessing.active_children():
        child.kill()
    for path in _unfinished:
        path.unlink(missing_ok=True)
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
    os._exit(_STATUS)


def _unraisable(problem: Any) -> None:
    """Leave out interrupts that reached a callback of the compiler: the watching thread ends the process."""
    if not isinstance(problem.exc_value, KeyboardInterrupt):
        sys.__unraisablehook__(problem)


@contextlib.contextmanager
def keeping(what: str) -> Iterator[None]:
    """Have an interrupt of this block say what is kept and how to go on."""
    _kept.append(what)
    try:
        yield
    except KeyboardInterrupt:
        _say()
        raise
    finally:
        _kept.remove(what)


@contextlib.contextmanager
def discarding(path: Path) -> Iterator[None]:
    """Remove a file at the end of this block if it is still there, however the process ends."""
    _unfinished.append(path)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
        _unfinished.remove(path)


@contextlib.contextmanager
def prompt_interrupts() -> Iterator[None]:
    """End this process soon after SIGINT even if the main thread is inside a compiler or waits for others.

    Python raises ``KeyboardInterrupt`` in the main thread between two steps of the interpreter, and a step may be
    seconds of machine code; a simulation also waits for the runs under way. So a thread reads the signals' own pipe.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    _said.acquire(blocking=False)
    _said.release()
    ended = threading.Event()
    reading, writing = socket.socketpair()
    writing.setblocking(False)

    def watch() -> None:
        with reading:
            while numbers := reading.recv(64):
                if signal.SIGINT not in numbers or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
                    continue  # who handles the signal, as an event loop does, ends in its own order
                if not ended.wait(_GRACE):
                    _end()

    sys.unraisablehook = _unraisable
    before = signal.set_wakeup_fd(writing.fileno(), warn_on_full_buffer=False)
    watching = threading.Thread(target=watch, name="interrupts", daemon=True)
    watching.start()
    try:
        yield
    except SystemExit as ending:  # what Typer makes of the interrupt
        if ending.code == _STATUS:
            _end()  # the interpreter's own end would wait for the runs under way
        raise
    finally:
        ended.set()
        sys.unraisablehook = sys.__unraisablehook__
        signal.set_wakeup_fd(before)
        writing.close()
        watching.join(1.0)  # a forked process that still runs would keep the pipe open
