"""Starts services as processes of their own, quickly: everything is imported and compiled once, and each is a fork.

Reads one JSON object a line: ``{"start": [arguments of hellinger], "log": file}`` is answered by the process's number,
``{"poll": number}`` by its exit status, null while it runs.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from pathlib import Path


def warm() -> None:
    """Do once what every service would do at its start."""
    import alembic.runtime.environment
    import psycopg
    import sqlalchemy.dialects.postgresql
    import sqlalchemy.dialects.sqlite
    import uvicorn.protocols.http.httptools_impl
    import uvloop

    import hellinger.cli
    import hellinger.serve.app
    from hellinger.engine.service import make_desk
    from hellinger.engine.settings import Settings
    from hellinger.ledger import Ledger

    names = ("hellinger-ucb", "kl-ucb", "ucb1", "cold-start")
    make_desk(Settings(variants=dict(zip(names, names, strict=True))), Ledger(), b"")
    assert all((alembic, psycopg, sqlalchemy, uvicorn, uvloop, hellinger))


def start(arguments: list[str], log: str) -> int:
    """Fork, and be ``hellinger`` with these arguments in the child."""
    number = os.fork()
    if number:
        return number
    status = 1
    try:
        os.setsid()
        out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        for stream in (1, 2):
            os.dup2(out, stream)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        sys.argv = ["hellinger", *arguments]
        from hellinger.cli import main

        main()
        status = 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def main() -> None:
    """Obey until the input ends."""
    warm()
    print("ready", flush=True)
    ended: dict[int, int] = {}
    for line in sys.stdin:
        order = json.loads(line)
        if "start" in order:
            answer: int | None = start(order["start"], order["log"])
        else:
            number = order["poll"]
            if number not in ended:
                done, status = os.waitpid(number, os.WNOHANG)
                if done:
                    ended[number] = os.waitstatus_to_exitcode(status)
            answer = ended.get(number)
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    sys.path[:] = [path for path in sys.path if Path(path or ".").resolve() != Path(__file__).parent]
    main()
