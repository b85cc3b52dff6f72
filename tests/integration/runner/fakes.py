"""A world for the tick: a table in a list, a store that counts and breaks requests, and a clock moved by hand."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any, TypeVar

from poller import Batch, Handler, Poller, TickResult
from poller.errors import SourceError
from poller.model import transitions
from poller.model.cursor import Cursor
from poller.model.document import OperatorChange, State, decode, encode
from poller.model.fingerprint import SourceDescription
from poller.observability import (
    PollerEvent,
)
from poller.ports import Bound, Event, Found, InspectableSource, Lag, Page, Row, Source, SourceCheckup
from poller.stores import MemoryStore
from tests.integration.runner.clockwork import Clockwork
from tests.integration.runner.wire import STATE, Wire
from tests.support.documents import SOURCE, hold_to_schemas

COLD = Bound("observed", clock="2026-05-01T00:00:01.000000Z", reason="nothing is known yet", cold=True)
MEMORY = {"kind": "observed", "clock": "2026-05-01T00:00:01.000000Z", "samples": {"open": {}}}
LONGEST_WAIT = 300.0
"""Seconds: `retry_backoff_max`, where nothing else is set."""
E = TypeVar("E", bound=PollerEvent)


# --- the table


def stamp_of(number: int) -> str:
    """The timestamp of row `number`: three rows share each."""
    return f"2026-04-01T{number // 3 // 60:02d}:{number // 3 % 60:02d}:00.000000Z"


def row(number: int, *, at: str | None = None) -> dict[str, Any]:
    return {"id": number, "updated_at": at or stamp_of(number), "total": number * 10}


def cursor_of(one: Row) -> Cursor:
    return Cursor(kind="timestamp+pk", value=one["updated_at"], tiebreaker={"id": one["id"]})


class Table(Source):
    """A source over a list of rows, which tests may change at any time.

    `begin`: what `start_from` means. `faults`: raised by the next pages, one each (None: that page works).
    `page_seconds`: how long a page takes. `pages`: after which cursors it was asked. `below`: their bound; while its
    value is None and its kind not `none`, they are empty. `memory`: what it remembers; `recalled`: what it gets.
    """

    def __init__(self, runtime: Clockwork, rows: Sequence[dict[str, Any]] = ()) -> None:
        self.rows = list(rows)
        self.begin: Cursor | None = None
        self.description = SOURCE
        self.faults: deque[Exception | None] = deque()
        self.page_seconds = 0.0
        self.pages: list[Cursor | None] = []
        self.lags = 0
        self.starts = 0
        self.below = Bound("none")
        self.memory: dict[str, Any] | None = None
        self.recalled: list[Mapping[str, Any]] = []
        self._runtime = runtime

    def describe(self) -> SourceDescription:
        return self.description

    def start(self) -> Cursor | None:
        self.starts += 1
        return self.begin

    def page(self, after: Cursor | None, limit: int, *, lag_cap: int | None = None) -> Page:
        self.pages.append(after)
        if self.page_seconds:
            self._runtime.sleep(self.page_seconds)
        fault = self.faults.popleft() if self.faults else None
        if fault is not None:
            raise fault
        rows = self._after(after)[:limit]
        if self.below.value is None and self.below.kind != "none":
            rows = []
        return Page(rows, [cursor_of(one) for one in rows], self.below)

    def lag(self, after: Cursor | None, *, cap: int) -> Lag:
        self.lags += 1
        pending = len(self._after(after))
        return Lag(float(pending), min(pending, cap), pending > cap)

    def dated(self, cursor: Cursor) -> datetime | None:
        return datetime.fromisoformat(cursor.value)

    def key(self, row: Row, cursor: Cursor) -> str:
        return f"orders/{row['id']}/{cursor.value}"

    def remember(self) -> dict[str, Any] | None:
        return self.memory

    def recall(self, memory: Mapping[str, Any]) -> None:
        self.recalled.append(memory)

    def close(self) -> None: ...

    def _after(self, after: Cursor | None) -> list[dict[str, Any]]:
        ordered = sorted(self.rows, key=lambda one: (one["updated_at"], one["id"]))
        if after is None:
            return ordered
        if after.tiebreaker is None:
            return [one for one in ordered if one["updated_at"] >= after.value]
        place = (after.value, after.tiebreaker["id"])
        return [one for one in ordered if (one["updated_at"], one["id"]) > place]


class InspectableTable(Table, InspectableSource):
    """A table that also answers what operators ask (`poller.ports.InspectableSource`), as far as tests do ask."""

    def locate(self) -> SourceDescription:
        return self.description

    def missing(self) -> SourceError | None:
        return None

    def parse_cursor(self, value: str, pk: Mapping[str, str] | None) -> Cursor:
        raise NotImplementedError

    def count_between(self, low: Cursor | None, high: Cursor | None, *, cap: int) -> tuple[int, bool]:
        raise NotImplementedError

    def null_cursors(self, cap: int) -> int:
        raise NotImplementedError

    def span(self, low: Cursor | None, high: Cursor | None, limit: int) -> Page:
        last = (high.value, (high.tiebreaker or {})["id"]) if high else ("~", 0)
        rows = [one for one in self._after(low) if (one["updated_at"], one["id"]) <= last][:limit]
        return Page(rows, [cursor_of(one) for one in rows], self.below)

    def bound(self) -> Bound:
        raise NotImplementedError

    def checkup(self, after: Cursor | None, utcnow: Callable[[], datetime]) -> SourceCheckup:
        raise NotImplementedError


# --- all of it


@dataclass
class Seen:
    """What a handler was given."""

    rows: list[int]
    attempt: int
    token: int
    batch_id: str


class World:
    """One table, one document, and any number of workers that share them."""

    def __init__(self, rows: int = 0, **options: Any) -> None:
        self.runtime = Clockwork()
        self.store = MemoryStore(self.runtime)
        self.wire = Wire(self.store)
        self.wires = [self.wire]
        self.table = Table(self.runtime, [row(number) for number in range(1, rows + 1)])
        self.options = {"batch_size": 10, **options}
        self.events: list[PollerEvent] = []
        self.seen: list[Seen] = []

    @cached_property
    def worker(self) -> Poller:
        """The first worker."""
        return self.another()

    def another(self, *, wire: Wire | None = None, **options: Any) -> Poller:
        """One more worker, as another process would be."""
        if wire is not None and wire not in self.wires:
            self.wires.append(wire)
        return Poller(
            "orders",
            app_name="shop",
            source=self.table,
            store=wire or self.wire,
            observers=(self.events.append,),
            runtime=self.runtime,
            **{**self.options, **options},
        )

    def tick(
        self, handler: Handler | None = None, *, worker: Poller | None = None, stop: Event | None = None
    ) -> TickResult:
        return (worker or self.worker).tick(handler or self.take, stop=stop)

    def tick_when_due(self, handler: Handler | None = None, *, worker: Poller | None = None) -> TickResult:
        """A tick after the longest wait that a failure asks for."""
        self.runtime.sleep(LONGEST_WAIT)
        return self.tick(handler, worker=worker)

    def take(self, batch: Batch) -> None:
        """A handler that succeeds."""
        ids = [one["id"] for one in batch]
        self.seen.append(Seen(ids, batch.attempt, batch.fencing_token, batch.batch_id))

    def busy(self, seconds: float) -> Handler:
        """A handler that succeeds after so long."""

        def handle(batch: Batch) -> None:
            self.take(batch)
            self.runtime.sleep(seconds)

        return handle

    @property
    def delivered(self) -> list[int]:
        """The rows handed over, in order, repetitions included."""
        return [number for seen in self.seen for number in seen.rows]

    @property
    def state(self) -> State:
        """The document as it stands."""
        found = self.store.read(STATE)
        assert isinstance(found, Found), "there is no document"
        return decode(found.body, location=STATE)

    @property
    def body(self) -> bytes:
        found = self.store.read(STATE)
        assert isinstance(found, Found), "there is no document"
        return found.body

    def audit(self) -> list[dict[str, Any]]:
        """What the audit trail says, the oldest first."""
        return [json.loads(line) for line in self.store.lines("audit/shop/orders.jsonl")]

    def put(self, body: bytes, name: str = STATE) -> None:
        """Replace a document by hand."""
        found = self.store.read(name)
        self.store.write(name, body, if_tag=found.tag if isinstance(found, Found) else None)

    def change(self, transition: Callable[[State], State]) -> None:
        """Somebody else changes the document."""
        self.put(encode(transition(self.state)))

    def pause(self) -> None:
        """An operator pauses the poller."""
        record, now = self._record("pause"), self.runtime.utcnow()
        self.change(lambda state: transitions.pause(state, by="ann", reason="deploy", change=record, now=now))

    def cancel(self) -> None:
        """An operator cancels the tenure."""
        record, now = self._record("cancel"), self.runtime.utcnow()
        self.change(lambda state: transitions.cancel(state, by="ann", reason="wrong", change=record, now=now))

    def resume(self) -> None:
        """An operator resumes the poller."""
        record = self._record("resume")
        self.change(lambda state: transitions.resume(state, change=record, now=self.runtime.utcnow()))

    def _record(self, kind: str) -> OperatorChange:
        return OperatorChange(id=f"{kind}-1", kind=kind, by="ann")

    def begun(self) -> World:
        """After a first tick that found nothing, so that there is a document; counted from here."""
        rows, self.table.rows = self.table.rows, []
        self.tick()
        self.table.rows = rows
        self.wire.forget()
        self.events.clear()
        return self

    def take_over(self) -> None:
        """Another process takes the lease at this moment."""
        self.change(lambda state: transitions.acquire(state, owner_id="other/1", ttl=60.0, now=self.runtime.utcnow()))

    def delete(self, name: str = STATE) -> None:
        del self.store._documents[name]

    def emitted(self, kind: type[E]) -> list[E]:
        """The events of one kind."""
        return [event for event in self.events if isinstance(event, kind)]

    def names(self) -> list[str]:
        """The names of all events, in order."""
        return [event.name for event in self.events]

    def close(self) -> None:
        """End what still runs, and hold all that the workers wrote against its schemas."""
        self.runtime.close()
        for wire in self.wires:
            hold_to_schemas(wire.sent)


Worlds = Callable[..., World]
"""What the fixture `worlds` gives: it makes a world, and holds its documents to the schemas at the end."""


def raising(error: BaseException) -> Handler:
    def handle(batch: Batch) -> None:
        raise error

    return handle


class TableGone(SourceError):
    """A database's fault in a test."""


def settled(world: World) -> World:
    """After a first tick, which has more to do than others; requests are counted from here."""
    world.tick()
    world.wire.forget()
    world.seen.clear()
    return world


def add(world: World, first: int, count: int) -> None:
    world.table.rows += [row(number) for number in range(first, first + count)]


def once(world: World, kind: type[PollerEvent]) -> None:
    assert len(world.emitted(kind)) == 1, world.names()
