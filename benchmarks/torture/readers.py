"""The readers: a poller as it is shipped, and the simpler forms that come to mind first, which lose rows."""

from __future__ import annotations

from typing import Any, Protocol

import sqlalchemy as sa

from benchmarks.torture.plan import Plan
from poller import Batch, Poller
from poller.ports import Bound
from poller.sources import SqlSource
from poller.stores import MemoryStore

Version = tuple[int, int]
"""A key and the number of its version."""


class Reader(Protocol):
    """What is polled."""

    def poll(self) -> list[Version]: ...
    def restart(self) -> None: ...
    def close(self) -> None: ...


class Shipped:
    """`Poller.tick` over `SqlSource`. A restart is a new process as far as the source can tell: only the document
    stays."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._store = MemoryStore()
        self._seen: list[Version] = []
        self.bounds: dict[str, int] = {}
        self.last: Bound | None = None
        self._open()

    def _open(self) -> None:
        column = {"xid8+pk": "xid", "integer+pk": "id"}.get(self._plan.kind, "updated_at")
        self._source = SqlSource(
            self._plan.url,
            table="torture",
            cursor_column=column,
            cursor_kind=self._plan.kind,
            pk_columns=["id"],
            bound=self._plan.bound,
            bound_margin=self._plan.margin,
            bound_wait="0s",
        )
        self._poller = Poller(
            "torture", source=self._source, store=self._store, app_name="bench", batch_size=1000, observers=()
        )

    def poll(self) -> list[Version]:
        self._seen = []
        result = self._poller.tick(self._take)
        if result.bound is not None:
            self.last = result.bound
            name = result.bound.kind + (" held" if result.bound.held_by else "")
            self.bounds[name] = self.bounds.get(name, 0) + 1
        return self._seen

    def _take(self, batch: Batch) -> None:
        self._seen.extend((row["id"], row["n"]) for row in batch)

    def restart(self) -> None:
        self._source.close()
        self._open()

    def close(self) -> None:
        self._source.close()


_PAGE = (
    "select id, n, updated_at from torture where (updated_at > :at or (updated_at = :at and id > :id))"
    " and updated_at < {bound} order by updated_at, id limit 5000"
)
_ACTIVITY = (
    "select least(min(least(xact_start, case when state = 'active' then query_start end)), {clock})"
    " from pg_stat_activity where pid <> pg_backend_pid() and datname = current_database() and usesysid is not null"
)


# The same with the clock in the select list, which is read after the scan. A moment's pause between the two makes the
# race show in seconds; a busy machine makes such pauses by itself.
_WIDENED = (
    "select least(s.oldest, clock_timestamp()) from (select min(least(xact_start, case when state = 'active'"
    " then query_start end)) as oldest from pg_stat_activity where pid <> pg_backend_pid()"
    " and datname = current_database() and usesysid is not null) s"
    " cross join lateral (select pg_sleep(0.02), s.oldest) as pause"
)


class Control:
    """A reader that must lose rows: `select-list` (the clock is evaluated after the scan), `one-statement` (sample and
    page share a snapshot), `trx-started` (MariaDB: trx_started less 2 s)."""

    def __init__(self, plan: Plan) -> None:
        self._control = plan.control
        engine = sa.create_engine(plan.url, poolclass=sa.NullPool, isolation_level="AUTOCOMMIT")
        self._connection = engine.connect()
        if plan.control == "trx-started":
            self._connection.exec_driver_sql("set time_zone = '+00:00'")
        self._at: Any = "1971-01-01"
        self._id = -1

    def poll(self) -> list[Version]:
        params: dict[str, Any] = {"at": self._at, "id": self._id}
        if self._control == "one-statement":
            sql = _PAGE.format(bound="(" + _ACTIVITY.format(clock="statement_timestamp()") + ")")
        else:
            sql = _PAGE.format(bound=":bound")
            params["bound"] = self._connection.execute(sa.text(self._sample())).scalar_one()
        rows = self._connection.execute(sa.text(sql), params).all()
        if rows:
            self._id, self._at = rows[-1].id, rows[-1].updated_at
        return [(row.id, row.n) for row in rows]

    def _sample(self) -> str:
        if self._control == "select-list":
            return _WIDENED
        return (
            "select least(coalesce(min(trx_started), now(6)), now(6)) - interval 2 second"
            " from information_schema.innodb_trx where trx_mysql_thread_id <> connection_id()"
        )

    def restart(self) -> None: ...

    def close(self) -> None:
        self._connection.close()


def reader(plan: Plan) -> Reader:
    """The reader that a plan asks for."""
    return Control(plan) if plan.control else Shipped(plan)
