"""A world whose poller has several lanes: a table with an ordering key, and a log of what its handler did and when."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from poller import Batch, Handler
from poller.model.cursor import Cursor
from poller.model.document import State, decode
from poller.model.row_ids import id_of_values
from poller.ports import Page
from tests.integration.runner.fakes import InspectableTable, World, Worlds, add, settled, stamp_of

LANES = 5
NOTHING: Callable[[Batch], None] = lambda batch: None  # noqa: E731


class KeyedTable(InspectableTable):
    """A table whose pages say of each row its `customer`, where that is the ordering key. `reading`: called with each
    page that is read, before it is given."""

    can_order = True
    reading: Callable[[], None] | None = None

    def page(self, after: Cursor | None, limit: int, *, lag_cap: int | None = None) -> Page:
        return self._keyed(super().page(after, limit))

    def span(self, low: Cursor | None, high: Cursor | None, limit: int) -> Page:
        return self._keyed(super().span(low, high, limit))

    def _keyed(self, page: Page) -> Page:
        if self.reading is not None:
            self.reading()
        keys = self.ordering_key
        ordering = [{key: str(row[key]) for key in keys} for row in page.rows] if keys else None
        return Page([dict(row) for row in page.rows], page.cursors, page.bound, ordering)


@dataclass
class Call:
    """One call of the handler: its rows, its lane, and from when to when it ran; `end` None: it did not return.
    `done`: the rows that it did."""

    rows: list[tuple[int, str]]
    lane: int
    begin: float
    batch: Batch
    end: float | None = None
    done: frozenset[tuple[int, str]] = frozenset()

    @property
    def ids(self) -> list[int]:
        return [number for number, _ in self.rows]


@dataclass
class Laned:
    """The world with what its handler did, call by call.

    `done`: the rows of calls that returned and did not name them, each with its version. `lost`: rows that a document
    passed which were neither done nor listed in it.
    """

    world: World
    table: KeyedTable
    calls: list[Call] = field(default_factory=list)
    done: set[tuple[int, str]] = field(default_factory=set)
    lost: list[tuple[int, str]] = field(default_factory=list)

    def watch(self) -> None:
        """Look at each document that is written."""
        write = self.world.wire.write

        def watched(name: str, body: bytes, **how: Any) -> Any:
            if name.startswith("state/"):
                self._look(decode(body, location=name))
            return write(name, body, **how)

        self.world.wire.write = watched  # type: ignore[method-assign]

    def _look(self, state: State) -> None:
        at = state.checkpoint.cursor
        if at is None or at.tiebreaker is None:
            return
        place = (at.value, at.tiebreaker["id"])
        listed = {
            ((row.cursor.tiebreaker or {}).get("id"), row.cursor.value) for row in (*state.aside, *state.quarantine)
        }
        for row in self.world.table.rows:
            version = (row["id"], row["updated_at"])
            if (row["updated_at"], row["id"]) <= place and version not in self.done and version not in listed:
                self.lost.append(version)

    def handler(self, then: Callable[[Batch], Any] = NOTHING, *, seconds: Mapping[int, float] | None = None) -> Handler:
        """A handler that takes a tenth of a second, or so long as one of its rows takes, and then does that."""

        def handle(batch: Batch) -> Any:
            rows = [(row["id"], row["updated_at"]) for row in batch]
            call = Call(rows, batch.standing.lane, self.world.runtime.monotonic(), batch)
            self.calls.append(call)
            self.world.runtime.sleep(max(((seconds or {}).get(number, 0.1) for number in call.ids), default=0.1))
            said = then(batch)
            call.end = self.world.runtime.monotonic()
            named = {failure.position for failure in batch.failures}
            keys = {one["itemIdentifier"] for one in (said or {}).get("batchItemFailures", ())}
            named |= {at for at, row in enumerate(batch) if batch.key(row) in keys}
            call.done = frozenset(row for at, row in enumerate(rows) if at not in named)
            self.done |= call.done
            return said

        return handle

    @property
    def delivered(self) -> list[int]:
        """The rows of calls that returned, in the order of their ends."""
        ended = sorted((call for call in self.calls if call.end is not None), key=lambda call: call.end or 0.0)
        return [number for call in ended for number in call.ids]

    @property
    def begun(self) -> list[int]:
        """The rows handed over, in order, repetitions included."""
        return [number for call in self.calls for number in call.ids]

    @property
    def checkpoint(self) -> int:
        """The row at which it stands."""
        cursor = self.world.state.checkpoint.cursor
        return 0 if cursor is None or cursor.tiebreaker is None else int(cursor.tiebreaker["id"])

    def at_once(self) -> int:
        """How many calls ran at the same time."""
        ends = [(call.begin, 1) for call in self.calls]
        ends += [(call.end, -1) for call in self.calls if call.end is not None]
        most = now = 0
        for _, step in sorted(ends, key=lambda one: (one[0], one[1])):
            now += step
            most = max(most, now)
        return most

    def overtaken(self, key: Callable[[int], object]) -> list[tuple[tuple[int, str], tuple[int, str]]]:
        """Pairs of rows of one key of which the later one was handed over, in another call, before the earlier one was
        done. A version that was never handed over has gone."""
        order: dict[object, set[tuple[str, int]]] = defaultdict(set)
        done: dict[tuple[int, str], float] = {}
        for call in self.calls:
            for number, at in call.rows:
                order[key(number)].add((at, number))
            for row in call.done:
                done[row] = min(call.end or 0.0, done.get(row, float("inf")))
        found = []
        for call in self.calls:
            for number, at in call.rows:
                for before, other in order[key(number)]:
                    row = other, before
                    if (before, other) < (at, number) and row not in call.rows and done.get(row, 1e9) > call.begin:
                        found.append((row, (number, at)))
        return found


def laned(worlds: Worlds, rows: int, *, customers: int = 0, **options: Any) -> Laned:
    """So many rows that wait for a poller with five lanes. `customers`: so many ordering keys."""
    options = {"concurrency": LANES, "batch_size": 2, **options}
    if customers:
        options["ordering_key"] = ("customer",)
    world = worlds(**options)
    world.table = table = KeyedTable(world.runtime)
    table.ordering_key = options.get("ordering_key", ())
    world.worker = world.another()
    settled(world)
    add(world, 1, rows)
    for row in table.rows:
        row["customer"] = f"c{row['id'] % customers}" if customers else ""
    made = Laned(world, table)
    made.watch()
    return made


def lane_of(number: int, lanes: int = LANES) -> int:
    """The lane of a row whose ordering key are its key columns."""
    return int(id_of_values({"id": number}), 16) % lanes


def in_lane(lane: int, count: int, rows: Iterable[int] = range(1, 1000)) -> list[int]:
    """The first rows of a lane."""
    return [number for number in rows if lane_of(number) == lane][:count]


def customer_in(lane: int, lanes: int = LANES) -> str:
    """A customer whose rows are of this lane."""
    names = (f"customer-{number}" for number in range(1000))
    return next(name for name in names if int(id_of_values({"customer": name}), 16) % lanes == lane)


def moved(laned: Laned, number: int, place: int, **values: Any) -> None:
    """A row is changed, and stands where the row of that number would."""
    row = next(row for row in laned.world.table.rows if row["id"] == number)
    row.update(values, updated_at=stamp_of(place))
