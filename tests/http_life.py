"""Random lives of a small pool over plain HTTP: items that come, change, expire and return while feedback comes in.

The invariant: a service with nothing under way ranks by what its log says. Its numbers are compared with the log's fold
(``hellinger check --service``), and those before a kill with those after the restart.
"""

from __future__ import annotations

import json
import random
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hellinger.engine.drafts import WRITER
from hellinger.engine.picture import differences
from hellinger.events import Event, new_token, now
from hellinger.ledger import recovery
from hellinger.store import open_store
from live import Launcher, LostError, Service, hang_up

__all__ = ["HttpLife"]

NAMES = [f"item-{n}" for n in range(12)]
TAGS: list[list[str]] = [[], ["x"], ["x", "y"], ["z"]]
MORE: list[dict[str, Any]] = [
    {},
    {"group": "story-1"},
    {"group": ["sport", "story-2"], "features": {"length": 2, "genre": ["drama"]}},
    {"features": {"length": 7, "genre": ["comedy", "drama"]}},
]
CONTEXTS: list[dict[str, Any] | None] = [None, {"age": 31, "city": "Rome"}, {"age": 62, "likes": ["sport", "art"]}]
KINDS = ["click", "like", "share"]
WEIGHTS = {"like": 0.5, "share": 0.25}
SEGMENTS = [None, None, "tablet", "phone"]
RESTARTS = 5
"""Restarts of which one finds the log as it was."""

Action = Callable[[random.Random, Service], int | None]
Pools = dict[tuple[str, str], dict[str, Any]]
"""What pools rank by, by variant and segment."""


class HttpLife:
    """One service or two on one database, and users who do whatever there is. The same seed gives the same plan."""

    def __init__(self, seed: int, launcher: Launcher, folder: Path, database: str, *, replicas: int = 1) -> None:
        self.seed = seed
        self.rng = rng = random.Random(seed)
        policies = ["hellinger-ucb", "kl-ucb", "ucb1", "cold-start", "thompson"]
        variants = {"one": "cold-start", "two": rng.choice(policies)}
        self.settings: dict[str, object] = {
            "variants": ", ".join(f"{name}={spec}" for name, spec in variants.items()),
            "learning": rng.choice(["isolated", "shared"]),
            "counting": rng.choice(["served", "served", "confirmed"]),
            "random_share": rng.choice([0.0, 0.0, 0.2]),
            "near_ties": rng.choice([0.0, 0.0, 0.1]),
            "next_share": rng.choice([0.0, 0.0, 0.5]),
            "positions": rng.choice(["learned", "learned", "none", "1, 0.6, 0.3"]),
            "lifetimes": rng.choice([True, True, False]),
            "graduate_after": rng.choice(["none", "none", 200]),
            "segment_enough": rng.choice(["none", 0, 50]),
            "weights": json.dumps(WEIGHTS),
            "request_cache": rng.choice([1, 20, 1000]),
            "snapshot_every_events": rng.choice([1000, 100_000]),
            "poll_ms": rng.choice([10, 100]),
            "attribution_hours": rng.choice([0.0005, 24]),  # some feedback is late
            "seed": seed,
        }
        self.launcher = launcher
        self.database = database
        self.services = [Service(launcher, folder, database, **self.settings) for _ in range(replicas)]
        self.rankings: list[tuple[str, list[str]]] = []
        self.given: dict[tuple[str, str, str], None] = {}
        """Feedback that was acknowledged as accepted."""
        self.done: dict[str, int] = {}
        self._turn = threading.Lock()
        self._stop = threading.Event()
        self._wrong: list[BaseException] = []
        self.compacted = False

    def live(self, rounds: int, seconds: float) -> dict[str, int]:
        """Live so many rounds, each of so many seconds and an end; what was done, by kind."""
        try:
            for service in self.services:
                service.start()
            self.services[0].add(*NAMES[:6])
            for number in range(rounds):
                self._play(number, seconds)
                self._quiet()
                self._compare()
                if self.rng.random() < 0.4:
                    self._compact()
                    self._compare()
                self._restart(self.rng.choice(self.services))
            for service in self.services:
                service.stop()
            checked = self.launcher.told("check", "--database", self.database)
            assert checked["ok"], checked
            self._all_logged()
        except BaseException as error:
            error.add_note(f"in the HTTP life of seed {self.seed}: {self.settings}")
            raise
        finally:
            for service in self.services:
                service.kill()
            hang_up()
        return self.done

    # What users do ------------------------------------------------------------------------------------

    def _play(self, number: int, seconds: float) -> None:
        self._stop.clear()
        users = [
            threading.Thread(target=self._user, args=(random.Random(f"{self.seed}/{number}/{user}"),))
            for user in range(4)
        ]
        for user in users:
            user.start()
        for _ in range(3):
            time.sleep(seconds / 3)
            self._forget()
        if self.rng.random() < 0.5:  # in the middle of it all
            service = self.rng.choice(self.services)
            service.kill()
            hang_up()
            time.sleep(0.05)
            service.start()
        self._stop.set()
        for user in users:
            user.join()
        if self._wrong:
            raise self._wrong[0]

    def _forget(self) -> None:
        """Forget what has left, as a service would after ``forget_hours``; more of it than there is, and twice."""
        with closing(open_store(self.database)) as store:
            left = list(recovery.recover(store).catalogue.left)
            fields = {"since": [*left, *left, *range(20)], "writer": WRITER}
            store.append([Event.of(f"forget/{new_token()}", "forget", now(), fields)], store.last())
        with self._turn:
            self.done["forgotten"] = self.done.get("forgotten", 0) + len(left)

    def _user(self, rng: random.Random) -> None:
        actions: dict[Action, int] = {
            self._rank: 8,
            self._feedback: 8,
            self._seen: 2,
            self._describe: 4,
            self._state: 2,
            self._import: 1,
            self._ramp: 1,
            self._start_or_end: 1,
        }
        try:
            self._act(rng, actions)
        except BaseException as error:
            self._wrong.append(error)
        finally:
            hang_up()

    def _act(self, rng: random.Random, actions: dict[Action, int]) -> None:
        while not self._stop.is_set():
            (action,) = rng.choices(list(actions), list(actions.values()))
            service = rng.choice(self.services)
            try:
                answer = action(rng, service)
            except LostError:
                time.sleep(0.02)
                continue
            if answer is not None:
                # of two who change experiments at the same time one comes too late
                late = answer in (409, 422) and action in (self._ramp, self._start_or_end)
                assert answer in (200, 404, 503) or late, f"{action.__name__}: {answer}"
                with self._turn:
                    key = f"{action.__name__[1:]} {answer}"
                    self.done[key] = self.done.get(key, 0) + 1

    def _rank(self, rng: random.Random, service: Service) -> int:
        body: dict[str, Any] = {"k": rng.randint(1, 5), "segment": rng.choice(SEGMENTS)}
        body |= {"user": rng.choice([None, "ada", "bob"]), "placement": rng.choice([None, "front"])}
        body |= {"context": rng.choice(CONTEXTS)}
        if rng.random() < 0.2:
            body["exclude"] = rng.choices(NAMES, k=2)
        answer = service.post("/v1/rank", body)
        if answer.status == 200:
            with self._turn:
                self.rankings.append((answer.body["ranking_id"], [each["id"] for each in answer.body["items"]]))
        return answer.status

    def _pick(self, rng: random.Random) -> tuple[str, str] | None:
        with self._turn:
            recent = self.rankings[-8:] if rng.random() < 0.7 else self.rankings[-500:]
        if not recent:
            return None
        name, items = rng.choice(recent)
        return (name, rng.choice(items)) if items else None

    def _feedback(self, rng: random.Random, service: Service) -> int | None:
        events = [
            (*picked, rng.choice(KINDS))
            for picked in (self._pick(rng) for _ in range(rng.choice([1, 1, 5])))
            if picked is not None
        ]
        if not events:
            return None
        body = {"events": [{"ranking_id": name, "item": item, "kind": kind} for name, item, kind in events]}
        answer = service.post("/v1/feedback", body)
        if answer.status == 200:
            assert answer.body["unknown"] == 0, answer.body
            assert answer.body["rejected"] == [], answer.body
            if answer.body["accepted"] == len(set(events)):
                with self._turn:
                    self.given.update(dict.fromkeys(events))
        return answer.status

    def _seen(self, rng: random.Random, service: Service) -> int | None:
        picked = self._pick(rng)
        if picked is None:
            return None
        body = {"events": [{"ranking_id": picked[0], "item": picked[1]}]}
        return service.post("/v1/impressions", body).status

    def _describe(self, rng: random.Random, service: Service) -> int:
        items = []
        for name in set(rng.choices(NAMES, k=rng.randint(1, 3))):
            item: dict[str, Any] = {"id": name, "tags": rng.choice(TAGS)} | rng.choice(MORE)
            ahead = rng.choice([None, None, 0.05, 0.3, 3600.0, -1.0])
            if ahead is not None:
                item["expires_at"] = datetime.fromtimestamp(time.time() + ahead, UTC).isoformat()
            items.append(item)
        return service.post("/v1/items", {"items": items}).status

    def _state(self, rng: random.Random, service: Service) -> int:
        name, what = rng.choice(NAMES), rng.choice(["hide", "unhide", "unhide", "delete"])
        if what == "delete":
            return service.ask("DELETE", f"/v1/items/{name}").status
        return service.post(f"/v1/items/{name}/{what}", {}).status

    def _import(self, rng: random.Random, service: Service) -> int:
        n = rng.choice([1, 10, 150])
        row = {"item": rng.choice(NAMES), "impressions": n, "rewards": n // 5}
        body = {"batch": f"{rng.getrandbits(40)}", "segment": rng.choice(SEGMENTS), "rows": [row]}
        body |= {"variant": rng.choice([None, "one"])}  # the others may have stopped
        return service.post("/v1/counts", body).status

    def _ramp(self, rng: random.Random, service: Service) -> int:
        """Give the variants other weights, or have a third one for a while."""
        names = rng.choice([["one", "two"], ["one", "two"], ["one", "two", "three"], ["one"]])
        body: dict[str, Any] = {"weights": {name: rng.choice([1, 2, 9]) for name in names}}
        if "three" in names or rng.random() < 0.3:
            body["variants"] = {
                "three": rng.choice(["ucb1", "cold-start", "cold-start(model=logistic)"]),
                "two": "ucb1",
            }
        return service.post("/v1/experiments/main/phases", body).status

    def _start_or_end(self, rng: random.Random, service: Service) -> int:
        """Start an experiment on a part of the traffic, or end the one that runs."""
        running = [
            each for each in service.get("/v1/experiments").body["experiments"][1:] if each["state"] == "running"
        ]
        if running:
            return service.post(f"/v1/experiments/{running[0]['name']}/end", {"why": "life"}).status
        body: dict[str, Any] = {"name": f"life-{rng.getrandbits(30)}", "variants": {"a": "ucb1", "b": "cold-start"}}
        body |= {"share": rng.choice([0.3, 1.0]), "placement": rng.choice([None, "front"])}
        body |= {"split": rng.choice(["random", "sticky"]), "learning": rng.choice(["isolated", "shared"])}
        body |= {"begin": rng.choice(["empty", "common"]), "holdout": rng.choice([None, "uniform", "fixed"])}
        return service.post("/v1/experiments", body).status

    # What must hold -----------------------------------------------------------------------------------

    def _quiet(self) -> None:
        """Wait until what is due has been done: items expired, priors fitted, replicas in step."""
        before: list[Any] = []
        until = time.monotonic() + 60
        while time.monotonic() < until:
            time.sleep(0.35)
            seqs = [service.get("/v1/experiments/main").body["events"] for service in self.services]
            ready = [service.get("/health/ready").body for service in self.services]
            calm = all(each["status"] == "ready" and each["waiting"] == 0 for each in ready)
            if calm and len(set(seqs)) == 1 and seqs == before:
                return
            before = seqs
        raise AssertionError(f"never quiet: {before} {ready}")

    def _compare(self) -> None:
        for service in self.services:
            checked = self.launcher.told("check", "--database", self.database, "--service", service.url)
            assert checked["ok"], checked["differences"]
            log = service.said()
            assert "Traceback" not in log, log[-5000:]
        self._compare_phases()

    def _compare_phases(self) -> None:
        """All services have the same phases, and every ranking was shared out by the weights of its own."""
        told = [self._phases(service) for service in self.services]
        assert all(each == told[0] for each in told)
        plans = {phase["seq"]: phase for phase in told[0]}
        made: dict[int, dict[str, int]] = {seq: {} for seq in plans}
        with closing(open_store(self.database)) as store:
            after = 0
            while events := store.read(after, 1000):
                after = events[-1].seq
                for event in events:
                    if event.kind == "rank":
                        fields = event.fields
                        weights, variant = plans[fields["phase"]]["weights"], fields["variant"]
                        assert abs(fields["chance"] - weights[variant] / sum(weights.values())) < 1e-12
                        made[fields["phase"]][variant] = made[fields["phase"]].get(variant, 0) + 1
        assert made == {seq: plan["requests"] for seq, plan in plans.items()}

    @staticmethod
    def _phases(service: Service) -> list[dict[str, Any]]:
        """Of all experiments."""
        names = [each["name"] for each in service.get("/v1/experiments").body["experiments"]]
        return [phase for name in names for phase in service.get(f"/v1/experiments/{name}/phases").body["phases"]]

    def _restart(self, service: Service) -> None:
        """What it ranks by is the same before and after, at the same place in the log.

        Where the log went on meanwhile it is restarted again: time itself writes events, as of the traffic once a
        minute is over, and a fit may take its while.
        """
        end = service.kill if self.rng.random() < 0.7 else service.stop
        for _ in range(RESTARTS):
            before = self._portrait(service)
            end()
            hang_up()
            service.start()
            self._quiet()
            after = self._portrait(service)
            if before[0] == after[0]:
                wrong = _unlike(before[1], after[1])
                assert before == after, f"running: before the restart; by the log: after it: {wrong}"
                return
        raise AssertionError(f"every restart wrote to the log: {self._since(before[0])}")

    def _portrait(self, service: Service) -> tuple[int, Pools]:
        """What it ranks by, and the place in the log that it is of."""
        while True:
            with urllib.request.urlopen(f"{service.url}/v1/state", timeout=60) as answer:
                lines = [json.loads(line) for line in answer]
            if len({line["seq"] for line in lines}) == 1:
                break
            self._quiet()  # the log went on between two pools
        pools = [line["pool"] for line in lines if "pool" in line]
        return lines[0]["seq"], {(pool["variant"], pool["segment"]): pool for pool in pools}

    def _since(self, place: int) -> list[tuple[int, str, dict[str, Any]]]:
        """What the log has after a place."""
        with closing(open_store(self.database)) as store:
            return [(event.seq, event.kind, event.fields) for event in store.read(place, 100)]

    def _compact(self) -> None:
        """Compact almost everything: rankings stay for as long as feedback may come."""
        self.compacted = True
        self.launcher.told("compact", "--database", self.database, "--retention-days", "0.00001")

    def _all_logged(self) -> None:
        """The log has no event twice, and every acknowledged feedback where nothing was compacted."""
        with closing(open_store(self.database)) as store:
            keys = Counter(event.key for event in store.read(0, 10**9))
        assert max(keys.values()) == 1
        missing = [key for name, item, kind in self.given if (key := f"{name}/{kind}/{item}") not in keys]
        assert self.compacted or not missing


def _unlike(before: Pools, after: Pools) -> list[str]:
    """What differs between two portraits."""
    there = [f"pool {key} in one only" for key in sorted(before.keys() ^ after.keys())]
    return there + [
        text for key in sorted(before.keys() & after.keys()) for text in differences(before[key], after[key])
    ]
