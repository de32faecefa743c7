"""A log gone through again: at each of its rankings, what every variant would have shown, and with what chance.

A ranking's place in the log says what it knew (``through``), so the desk that made it can be made again: the log is
folded as far as that, and the rankings between that place and its own count as the service counted them before the log
had them. Then every variant is asked for the chance of what was shown. Nothing has to be logged for that.

It is exact for the rankings of one process. Where several serve, each knew of the others' rankings a moment later than
here. How often the chances of a ranking's own variant are those that were logged is counted: they are the proof.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from hellinger.engine.chances import VariantChances
from hellinger.engine.desk import Desk
from hellinger.engine.drafts import Query
from hellinger.events import Logged, logged_chances
from hellinger.ledger import MAIN, Request, spoken_of

__all__ = ["Retrace", "Retraced"]

_EQUAL = 1e-9
"""Relative difference of chances that are the same."""


class Retraced(NamedTuple):
    """A ranking of the log, with what each variant of its experiment would have shown."""

    name: str
    fields: dict[str, Any]
    variant: str
    shares: dict[str, float]
    """Of the traffic, for each variant of the experiment."""
    chances: dict[str, list[float | None]]
    """By each of them, of each item shown at its place; None where it is not known."""

    @property
    def propensities(self) -> list[float | None]:
        """The chance of each place given the variant: as logged, or where the policy draws, as it would have been."""
        logged = logged_chances(self.fields)
        return self.chances[self.variant] if logged is None else logged

    @property
    def balanced(self) -> list[float | None]:
        """The chance of each place over the split of the traffic: Σ share·chance; None where one of them is not known.

        A variant's own part is as logged.
        """
        parts = self.chances | {self.variant: self.propensities}
        columns = zip(*(parts[name] for name in self.shares), strict=True)
        return [_mixed(column, self.shares.values()) for column in columns]

    def at(self, place: int) -> list[dict[str, Any]]:
        """Share and chance of each variant, at a place counted from 0."""
        parts = self.chances | {self.variant: self.propensities}
        return [{"variant": name, "share": share, "chance": parts[name][place]} for name, share in self.shares.items()]


def _mixed(column: Sequence[float | None], shares: Iterable[float]) -> float | None:
    known = [share * chance for share, chance in zip(shares, column, strict=True) if chance is not None]
    return sum(known) if len(known) == len(column) else None


class Retrace:
    """Follows a log from where a desk stands, event by event.

    Parameters
    ----------
    desk
        As the service makes it, of the fold of the log before.
    thread
        Finds what the log has of rankings, as ``Store.thread`` does.
    """

    def __init__(self, desk: Desk, thread: Callable[[list[str]], Iterable[Logged]]) -> None:
        self._desk, self._thread = desk, thread
        self._chances = VariantChances(desk)
        self._waiting: list[Logged] = []
        """Events that no ranking knew of yet."""
        self.rankings = 0
        self.same = self.compared = 0
        """Of how many rankings the chances of their own variant are as logged, and of how many there were any."""
        self.unlike = 0
        """Rankings by rules that are not those of the desk, as by other settings."""

    @property
    def seq(self) -> int:
        """The place in the log that the next events come after."""
        return self._waiting[-1].seq if self._waiting else self._desk.ledger.seq

    @property
    def error(self) -> float:
        """The largest error of a chance that is not exact."""
        return self._chances.error

    @property
    def says(self) -> str:
        """How far the chances can be trusted, in words."""
        words = f"{self.rankings:,} rankings gone through again"
        if self.compared:
            words += f"; {100 * self.same / self.compared:.2f} % of {self.compared:,} have the chances that were logged"
        if self.unlike:
            words += f"; {self.unlike:,} were made by other settings or another version"
        if self.error:
            words += f"; chances of policies that draw are known to {100 * self.error:.2g} %"
        if self._chances.rare:
            words += (
                f"; {self._chances.rare:,} places had an item that no draw had there, whose chance is an upper guess"
            )
        return words

    def follow(self, events: Iterable[Logged], *, first: int = 0, last: int | None = None) -> list[Retraced]:
        """Go on with the next events of the log; the rankings among them that were made between two times."""
        found = []
        for event in events:
            if event.kind == "rank":
                wanted = event.at >= first and (last is None or event.at < last)
                ranking = self._ranking(event, event.fields, wanted=wanted)
                if ranking is not None:
                    found.append(ranking)
            self._waiting.append(event)
        return found

    def _ranking(self, event: Logged, fields: dict[str, Any], *, wanted: bool) -> Retraced | None:
        desk = self._desk
        self._commit(int(fields["through"]))
        while desk.state.dates.due(event.at):
            desk.state.expire(event.at)
        desk.finish()
        found = self._asked(event, fields) if wanted and fields["variant"] in desk.variants else None
        desk.adopt(event.key, Request.of(event.at, fields))
        return found

    def _commit(self, through: int) -> None:
        """Apply the log up to a place."""
        count = next((j for j, event in enumerate(self._waiting) if event.seq > through), len(self._waiting))
        if not count:
            return
        events, self._waiting = self._waiting[:count], self._waiting[count:]
        desk, requests = self._desk, self._desk.ledger.requests
        with requests.pinned(spoken_of(events)):
            desk.commit(events, self._thread(desk.ledger.missing(events)))
        desk.ledger.models.learn()
        desk.finish()

    def _asked(self, event: Logged, fields: dict[str, Any]) -> Retraced:
        desk, experiment = self._desk, fields.get("experiment", MAIN)
        self.rankings += 1
        own = fields["variant"]
        weights = desk.routing.shares(experiment)
        shares = weights if own in weights else {own: 1.0}
        slot_of = desk.ledger.catalogue.slots.get
        slots = [slot_of(item, -1) for item in fields["items"]]
        query = Query(
            fields.get("k", len(slots)),
            fields["user"],
            fields["segment"],
            fields.get("exclude", ()),
            fields.get("tags"),
            fields.get("among"),
            fields.get("placement"),
            fields.get("context"),
        )
        unknown: list[float | None] = [None] * len(slots)
        whole = "k" in fields and "asked" not in fields  # else the log does not say all that was filtered by
        chances = {
            name: self._chances.of(name, query, slots, made=name == own) if whole and slots else unknown
            for name in shares
        }
        self._compare(fields, chances[own])
        return Retraced(event.key, fields, own, shares, chances)

    def _compare(self, fields: dict[str, Any], found: list[float | None]) -> None:
        self.unlike += fields["version"] != self._desk.versions[fields["variant"]]
        logged = logged_chances(fields)
        if logged is None or not logged:
            return
        self.compared += 1
        pairs = zip(logged, found, strict=True)
        self.same += all(a is None or b is None or abs(a - b) <= _EQUAL * a for a, b in pairs)
