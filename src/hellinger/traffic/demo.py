"""The service, a catalogue and its users in one process, for a look around: what ``hellinger demo`` runs."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import uvicorn

from hellinger.client import AsyncClient, Retry
from hellinger.engine.allocation import SETTINGS, Allocation
from hellinger.engine.service import make_desk
from hellinger.engine.settings import Settings
from hellinger.errors import InputError, require
from hellinger.events import now
from hellinger.ledger import recovery
from hellinger.ledger.snapshot import encode
from hellinger.serve.app import create_app
from hellinger.serve.keys import Keys
from hellinger.store import open_store
from hellinger.traffic.driver import Driver, Pace
from hellinger.traffic.months import Log, Played, Progress, play
from hellinger.traffic.tally import SentCounts
from hellinger.world.laws import from_stories
from hellinger.world.users import DAY, UserModel, World

__all__ = ["OURS", "PAPER", "PERSONAL", "Demo", "Scene", "bind"]

PAPER = ("hellinger-ucb", "kl-ucb", "ucb1")
"""The algorithms of the paper."""
OURS = "cold-start"
"""The algorithm of this project, beside them."""
PERSONAL = "personal", "cold-start(model=logistic)"
"""The same with a model of who is asking: its name, and what it is."""


class Scene(NamedTuple):
    """What the demo shows.

    Attributes
    ----------
    visits
        Pages a day while months are played: 60 days of them give each of 5,000 items some 36 impressions with each
        of five variants, about where the paper's algorithms differ most.
    rate
        Pages a second from then on.
    """

    items: int = 5_000
    law: str = "bimodal"
    days: float = 60.0
    visits: float = 750.0
    rate: float = 2.0
    seed: int = 0
    users: UserModel = UserModel(eta=0.3, abort=0.0, arrivals=10.0, taste=5.0)

    def check(self) -> Scene:
        """Return this, or raise where it makes no sense."""
        require(self.items >= 1, "1 <= items", items=self.items)
        require(0 <= self.days <= 3650, "0 <= days <= 3650", days=self.days)
        require(self.rate > 0, "0 < rate", rate=self.rate)
        require(self.visits > 0, "0 < visits", visits=self.visits)
        return self


class Demo:
    """A service on an embedded database in a folder, and the world that visits it.

    Parameters
    ----------
    folder
        Where the database is; an existing one is continued.
    scene
        What to show.
    variants
        Algorithms that share the traffic, as a service's setting; unless given, the paper's and ``cold-start``,
        without and with context, compared with the last of the paper's.
    """

    def __init__(self, folder: Path, scene: Scene, *, variants: Any = None) -> None:
        self.scene = scene.check()
        given: dict[str, Any] = {"variants": variants, "title": "Hellinger demo"}
        if variants is None:
            title = f"Hellinger demo: the paper's three and our {OURS}, without and with context"
            plain = {name: name for name in (*PAPER, OURS)}
            given = {"variants": plain | dict([PERSONAL]), "control": PAPER[-1], "title": title}
        self.settings = Settings(
            database=f"sqlite:///{folder.absolute()}/hellinger.db",
            seed=scene.seed,
            log_level="warning",
            log_format="text",
            **given,
        )
        self.begun = (folder / "hellinger.db").exists()
        """Whether the database was there already."""
        start = now() - round(scene.days * DAY)
        users = scene.users._replace(visits=scene.visits)
        self.world = World(users, from_stories(scene.law), items=scene.items, seed=scene.seed, start=start)

    def fast_forward(self, progress: Progress | None = None) -> Played:
        """Play the scene's days up to now, through the code that serves requests, and leave a snapshot."""
        store = open_store(self.settings.database, exclusive=True)
        try:
            ledger = recovery.recover(store, cache=self.settings.request_cache)
            desk = make_desk(self.settings, ledger, store.secret())
            log = Log(ledger.seq, store)
            if not ledger.phases:
                plan = Allocation.given(self.settings).draft(self.world.start, after=0, by=SETTINGS)
                desk.commit_own([log.place(plan)])
            until = self.world.start + round(self.scene.days * DAY)
            played = play(self.world, desk, until, log=log, progress=progress)
            store.save_snapshot(ledger.seq, encode(ledger))
        finally:
            store.close()
        return played

    @contextlib.asynccontextmanager
    async def service(self, listener: socket.socket) -> AsyncIterator[None]:
        """Serve on a socket, in this event loop."""
        shell = create_app(self.settings, Keys())
        config = uvicorn.Config(shell, http="httptools", ws="none", lifespan="on", log_config=None, access_log=False)
        server = _Server(config)
        task = asyncio.create_task(server.serve(sockets=[listener]), name="server")
        try:
            while not server.started:
                if task.done():
                    raise InputError("the service could not start; the log above says why")
                await asyncio.sleep(0.02)
            yield
        finally:
            if server.started:
                shell.app.state.live.end()  # a page that is open would keep the server waiting
            server.should_exit = True
            await task

    def traffic(
        self,
        client: AsyncClient,
        *,
        requests: int | None = None,
        fresh: bool,
        progress: Callable[[SentCounts], None] | None = None,
    ) -> Driver:
        """UserModel from now on: gently, or so many pages as fast as it goes; items are added first if ``fresh``."""
        live = Pace(rate=self.scene.rate) if requests is None else Pace(requests=requests, connections=8)
        visits = self.scene.rate * 86_400 if requests is None else self.world.users.visits
        self.world.resume(self.world.users._replace(visits=visits, rhythm=0.0), now())
        return Driver(client, self.world, live, add=fresh, progress=progress)

    @staticmethod
    def client(address: str) -> AsyncClient:
        """A client of the demo's service."""
        return AsyncClient(address, retry=Retry(times=20), timeout=30.0)


class _Server(uvicorn.Server):
    """uvicorn's, which leaves signals to the demo."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def bind(host: str, port: int, *, tries: int = 50) -> socket.socket:
    """A socket at this port, or at the next that is free."""
    for number in range(port, min(port + tries, 65_536)):
        listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((host, number))
            listener.listen(128)
        except OSError as error:
            listener.close()
            if error.errno not in (errno.EADDRINUSE, errno.EACCES) or port == 0:
                raise
        else:
            return listener
    raise InputError(f"a port from {port} on must be free, but {tries} are taken: choose with --port")
