"""One real poller over a real table, whose handler fails as told, under a clock that is passed in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import create_engine, text

from poller import Batch, Poller, RetryLater, TickResult
from poller.model.document import State, decode
from poller.observability import PollerEvent
from poller.ports import Found, Runtime, StateStore
from poller.sources import SqlSource
from poller.stores import MemoryStore
from tests.integration.runner.clockwork import Clockwork

STATE = "state/shop/orders.json"


@dataclass
class Call:
    """One call of the handler: the ids and versions of its rows, and whether it was made again by itself."""

    ids: tuple[int, ...]
    versions: tuple[int, ...]
    retry: bool
    replay: bool
    done: tuple[int, ...] = ()
    """The ids of those that it reported done."""


@dataclass
class Downstream:
    """What the handler calls.

    Attributes:
        bad: ids of rows that it never takes. named: the handler names them instead of raising.
        down: it takes nothing; asks: the handler raises `RetryLater` then.
        calls: what was handed over, in order.
    """

    bad: set[int] = field(default_factory=set)
    named: bool = False
    down: bool = False
    asks: bool = False
    calls: list[Call] = field(default_factory=list)

    def __call__(self, batch: Batch) -> None:
        rows = list(batch)
        ids = tuple(row["id"] for row in rows)
        call = Call(ids, tuple(row["changed"] for row in rows), batch.retry, batch.replay)
        self.calls.append(call)
        if self.down and self.asks:
            raise RetryLater("down", after="2s")
        if self.down:
            raise ConnectionError("down")
        bad = [row for row in rows if row["id"] in self.bad]
        if bad and not self.named:
            raise ValueError("no such customer")
        for row in bad:
            batch.fail(row, "no such customer")
        call.done = tuple(id_ for id_ in ids if id_ not in self.bad)

    @property
    def done(self) -> list[int]:
        """Ids in the order in which they were done, repetitions included."""
        return [id_ for call in self.calls for id_ in call.done]


class Bench:
    """Args:
    url: of the database; a table `orders` is made there.
    store, runtime: where the state is kept, in memory where None; whose clock it goes by.
    options: of the poller.
    """

    def __init__(
        self, url: str, *, store: StateStore | None = None, runtime: Runtime | None = None, **options: Any
    ) -> None:
        self.runtime = runtime or Clockwork()
        self.store = store or MemoryStore(self.runtime)
        self.downstream = Downstream()
        self.events: list[PollerEvent] = []
        self._engine = create_engine(url)
        self._changed = 0
        self.execute(
            "CREATE TABLE orders (id bigint PRIMARY KEY, customer_id bigint, note text, changed bigint NOT NULL)"
        )
        source = SqlSource(
            url,
            table="orders",
            cursor_column="changed",
            cursor_kind="integer+pk",
            pk_columns=["id"],
            bound="none",
        )
        settings: dict[str, Any] = {"retry_backoff": "1s", "retry_backoff_max": "8s", "max_attempts": 2, **options}
        self.poller = Poller(
            "orders",
            source=source,
            store=self.store,
            app_name="shop",
            observers=[self.events.append],
            runtime=self.runtime,
            **settings,
        )

    # --- the table -------------------------------------------------------------------------------------------------

    def execute(self, statement: str, *rows: Mapping[str, Any]) -> None:
        """One transaction."""
        with self._engine.begin() as connection:
            connection.execute(text(statement), list(rows) or None)

    def insert(self, ids: Iterable[int], *, customer: int | None = None, note: str = "") -> None:
        """Rows, one after the other; each its own customer where None."""
        rows = []
        for id_ in ids:
            self._changed += 1
            rows.append({"id": id_, "customer": customer or id_, "note": note, "changed": self._changed})
        if rows:
            self.execute("INSERT INTO orders VALUES (:id, :customer, :note, :changed)", *rows)

    def touch(self, id_: int) -> int:
        """The row is written again: it moves to the end. Its new version."""
        self._changed += 1
        self.execute("UPDATE orders SET changed = :changed WHERE id = :id", {"id": id_, "changed": self._changed})
        return self._changed

    def delete(self, *ids: int) -> None:
        self.execute("DELETE FROM orders WHERE id = :id", *({"id": id_} for id_ in ids))

    # --- the poller ------------------------------------------------------------------------------------------------

    def tick(self) -> TickResult:
        return self.poller.tick(self.downstream)

    def run(self, seconds: int, *, every: float = 1.0) -> list[str]:
        """Ticks for so long; their outcomes."""
        outcomes: list[str] = []
        for _ in range(int(seconds / every)):
            outcomes.append(self.tick().outcome)
            self.runtime.sleep(every)
        return outcomes

    @property
    def state(self) -> State:
        """The document as it stands."""
        found = self.store.read(STATE)
        assert isinstance(found, Found)
        return decode(found.body, location=STATE)

    @property
    def waits(self) -> tuple[int, int]:
        """How many rows are aside, and how many wait for a person."""
        return len(self.state.aside), len(self.state.quarantine)

    def statuses(self) -> list[str]:
        """Of all records, in no order."""
        records = self.poller._runner.context.records
        return sorted(record.status for record in map(records.read, records.ids()) if record is not None)

    def emitted(self, name: str) -> list[PollerEvent]:
        """The events of one name."""
        return [event for event in self.events if event.name == name]

    def close(self) -> None:
        self.poller.close()
        self._engine.dispose()
