"""Clients that put a service under load, and know exactly what it must have counted when all is said and done.

Each client keeps an account of its own requests. What it got no answer to, it asks again under the same name when it
is told to :meth:`Client.settle`; then its account is exact again.
"""

from __future__ import annotations

import random
import threading
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

from live import Answer, LostError, Service, hang_up, until

__all__ = ["WEIGHTS", "Client", "Crowd", "Seen", "stable"]

WEIGHTS = {"click": 0.25, "like": 0.5, "comment": 1.0, "scroll": 0.0}
KINDS = list(WEIGHTS)


def stable(count: int = 40) -> list[str]:
    """Items that stay from beginning to end."""
    return [f"stable-{j}" for j in range(count)]


class Seen:
    """One ranking as a client knows it."""

    def __init__(self, name: str, variant: str, items: list[str]) -> None:
        self.name = name
        self.variant = variant
        self.items = items
        self.given: set[tuple[str, str]] = set()
        """Item and kind of the feedback that was taken in."""
        self.seen: set[str] = set()

    def rewards(self) -> dict[str, float]:
        """What each of its items has earned."""
        sums: dict[str, float] = defaultdict(float)
        for item, kind in self.given:
            sums[item] += WEIGHTS[kind]
        return {item: min(1.0, total) for item, total in sums.items()}


class Client:
    """One who asks for rankings, tells what became of them, and keeps the catalogue moving; on one thread."""

    def __init__(
        self, number: int, services: Sequence[Service], *, confirmed: bool = False, keyed: bool = True
    ) -> None:
        self.number = number
        self.services = services
        self.confirmed = confirmed
        self.keyed = keyed
        self.rng = random.Random(number)
        self.rankings: list[Seen] = []
        self.past: list[Seen] = []
        """Rankings that no more feedback is given for."""
        self.lost = 0
        """Rankings asked for without a key, of which no answer came."""
        self.refused = 0
        """Answers 503."""
        self.answered = 0
        self.imported: list[tuple[str | None, str, int, float]] = []
        self.own: list[str] = []
        self._count = 0
        self._unanswered: list[Callable[[], None]] = []

    def _fresh(self, what: str) -> str:
        self._count += 1
        return f"{what}-{self.number}-{self._count}"

    def _post(self, path: str, body: object, *, key: str | None = None) -> Any:
        answer: Answer = self.rng.choice(self.services).post(path, body, key=key)
        if answer.status == 503:
            assert answer.headers["retry-after"] == "1", answer
            self.refused += 1
            raise LostError("refused for now")
        assert answer.status == 200, (path, body, answer)
        self.answered += 1
        return answer.body

    def _surely(self, act: Callable[[], None]) -> None:
        """Do something, again later if no answer comes."""
        try:
            act()
        except LostError:
            self._unanswered.append(act)
            raise

    def settle(self) -> None:
        """Ask again what was not answered."""
        while self._unanswered:
            self._unanswered[0]()
            del self._unanswered[0]

    def retire(self) -> None:
        """Give no more feedback for the rankings so far."""
        self.past += self.rankings
        self.rankings = []

    def act(self) -> None:
        """Do one thing or another."""
        choice = self.rng.random()
        if choice < 0.4 or not self.rankings:
            self._rank()
        elif choice < 0.85:
            self._feedback()
        elif choice < 0.9:
            self._import()
        elif not self._unanswered:  # what is to be asked again must not meet what came after it
            self._churn()

    # Rankings -----------------------------------------------------------------------------------------

    def _rank(self) -> None:
        body: dict[str, Any] = {"k": self.rng.randint(1, 6), "segment": self.rng.choice([None, "a", "b"])}
        if self.rng.random() < 0.5:
            body["among"] = self.rng.sample(stable(), 12)
        if not self.keyed:
            try:
                self._ranked(self._post("/v1/rank", body))
            except LostError:
                self.lost += 1
                raise
            return
        key = self._fresh("key")
        self._surely(lambda: self._ranked(self._post("/v1/rank", body, key=key)))

    def _ranked(self, answer: Any) -> None:
        items = [item["id"] for item in answer["items"]]
        self.rankings.append(Seen(answer["ranking_id"], answer["variant"], items))

    # What became of them ------------------------------------------------------------------------------

    def _feedback(self) -> None:
        chosen: list[tuple[Seen, str, str]] = []
        for _ in range(self.rng.choice([1, 1, 3, 10])):
            # the newest mostly, and now and then one from before some crash
            ranking = self.rankings[-1 - min(int(self.rng.expovariate(0.1)), len(self.rankings) - 1)]
            if self.rng.random() < 0.2:
                ranking = self.rng.choice(self.rankings)
            if ranking.items:
                chosen.append((ranking, self.rng.choice(ranking.items), self.rng.choice(KINDS)))
        if self.confirmed and self.rng.random() < 0.5:
            self._surely(lambda: self._confirm([(ranking, item) for ranking, item, _ in chosen]))
        else:
            self._surely(lambda: self._tell(chosen, again=False))
            if self.rng.random() < 0.3:
                self._surely(lambda: self._tell(chosen, again=True))

    def _tell(self, chosen: list[tuple[Seen, str, str]], *, again: bool) -> None:
        if not chosen:
            return
        events = [{"ranking_id": ranking.name, "item": item, "kind": kind} for ranking, item, kind in chosen]
        answer = self._post("/v1/feedback", {"events": events})
        known = {(ranking.name, item, kind) for ranking, item, kind in chosen if (item, kind) in ranking.given}
        new = {(ranking.name, item, kind) for ranking, item, kind in chosen} - known
        assert answer["unknown"] == answer["late"] == 0, answer
        assert answer["rejected"] == [], answer
        assert answer["accepted"] + answer["duplicate"] == len(chosen), answer
        assert answer["accepted"] <= len(new), answer
        if again:
            assert answer["accepted"] == 0, answer
        for ranking, item, kind in chosen:
            ranking.given.add((item, kind))
            ranking.seen.add(item)

    def _confirm(self, chosen: list[tuple[Seen, str]]) -> None:
        if not chosen:
            return
        events = [{"ranking_id": ranking.name, "item": item} for ranking, item in chosen]
        answer = self._post("/v1/impressions", {"events": events})
        assert answer["accepted"] + answer["duplicate"] == len(chosen), answer
        for ranking, item in chosen:
            ranking.seen.add(item)

    # The catalogue ------------------------------------------------------------------------------------

    def _import(self) -> None:
        batch, variant = self._fresh("batch"), self.rng.choice([None, "kl-ucb"])
        items = self.rng.sample(stable(), 3)
        rows = [{"item": item, "impressions": self.rng.randint(1, 9), "rewards": 0.5} for item in items]

        def bring() -> None:
            answer = self._post("/v1/counts", {"batch": batch, "variant": variant, "rows": rows})
            assert answer["accepted"] == (0 if answer["duplicate"] else 3), answer
            self.imported += [(variant, row["item"], row["impressions"], 0.5) for row in rows]  # type: ignore[misc]

        self._surely(bring)

    def _churn(self) -> None:
        if self.own and self.rng.random() < 0.5:
            item = self.own.pop(self.rng.randrange(len(self.own)))
            self._surely(lambda: self._delete(item))
        else:
            item = f"own-{self.number}-{self.rng.randrange(20)}"
            if item not in self.own:
                self.own.append(item)
            tags = self.rng.sample(["x", "y", "z"], 2)
            self._surely(lambda: self._post("/v1/items", {"items": [{"id": item, "tags": tags}]}))

    def _delete(self, item: str) -> None:
        answer = self.rng.choice(self.services).ask("DELETE", f"/v1/items/{item}")
        if answer.status == 503:
            raise LostError("refused for now")
        assert answer.status in (200, 404), answer


class Crowd:
    """Clients at work at the same time, each on its thread, until somebody stops them or the service is gone."""

    def __init__(self, clients: Sequence[Client]) -> None:
        self.clients = clients
        self._threads: list[threading.Thread] = []
        self._stop = threading.Event()
        self._errors: list[BaseException] = []

    def begin(self, *, stubborn: bool = False) -> None:
        """Set to work; ``stubborn`` clients go on where no answer comes."""
        self._stop.clear()
        self._threads = [threading.Thread(target=self._work, args=(client, stubborn)) for client in self.clients]
        for thread in self._threads:
            thread.start()

    def _work(self, client: Client, stubborn: bool) -> None:
        try:
            while not self._stop.is_set():
                try:
                    client.act()
                except LostError:
                    if not stubborn:
                        return
                    self._stop.wait(0.02)
        except BaseException as error:
            self._errors.append(error)
        finally:
            hang_up()

    @property
    def answered(self) -> int:
        """How many answers they have had."""
        return sum(client.answered for client in self.clients)

    def work(self, answers: int) -> None:
        """Wait until they have had so many more answers."""
        goal = self.answered + answers
        until(lambda: self.answered >= goal or not any(thread.is_alive() for thread in self._threads))

    def end(self) -> None:
        """Let them finish what they are at."""
        self._stop.set()
        for thread in self._threads:
            thread.join()
        for error in self._errors:
            raise error

    def settle(self) -> None:
        """Have everything answered that was not."""
        for client in self.clients:
            client.settle()

    # What must have been counted ----------------------------------------------------------------------

    def rankings(self) -> list[Seen]:
        """Every ranking that was answered."""
        return [ranking for client in self.clients for ranking in client.past + client.rankings]

    def totals(self) -> dict[str, tuple[float, float, float]]:
        """Requests, impressions and reward of each variant."""
        sums: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0])
        for client in self.clients:
            for ranking in client.past + client.rankings:
                cell = sums[ranking.variant]
                cell[0] += 1
                cell[1] += len(ranking.seen) if client.confirmed else len(ranking.items)
                cell[2] += sum(ranking.rewards().values())
            for variant, _, n, s in client.imported:
                if variant is not None:
                    sums[variant][1] += n
                    sums[variant][2] += s
        return {variant: (cell[0], cell[1], cell[2]) for variant, cell in sums.items()}

    def counts(self) -> dict[str, dict[str, tuple[float, float]]]:
        """Impressions and rewards of each stable item, in all ("") and by variant."""
        sums: dict[tuple[str, str], list[float]] = defaultdict(lambda: [0.0, 0.0])
        for client in self.clients:
            for ranking in client.past + client.rankings:
                earned = ranking.rewards()
                for item in ranking.seen if client.confirmed else ranking.items:
                    for variant in ("", ranking.variant):
                        sums[item, variant][0] += 1
                        sums[item, variant][1] += earned.get(item, 0.0)
            for named, item, n, s in client.imported:
                for variant in {"", named or ""}:
                    sums[item, variant][0] += n
                    sums[item, variant][1] += s
        variants = ("", "hellinger-ucb", "kl-ucb", "ucb1")
        return {item: {v: (sums[item, v][0], sums[item, v][1]) for v in variants} for item in stable()}

    def agrees(self, service: Service) -> None:
        """Require that a service has counted exactly this."""
        found = service.counts()
        for item, expected in self.counts().items():
            assert found[item] == expected, (item, found[item], expected)
        totals = {name: cell for name, cell in service.totals().items() if any(cell)}
        assert totals == {name: cell for name, cell in self.totals().items() if any(cell)}
        for client in self.clients:
            mine = {item for item in found if item.startswith(f"own-{client.number}-")}
            assert mine == set(client.own)
