"""The readers: a poller as it is shipped, and the simpler forms that come to mind first, which lose rows."""

from __future__ import annotations

import random
import threading
from collections.abc import Mapping
from typing import Any, Protocol

import sqlalchemy as sa

from benchmarks.torture.plan import Plan
from poller import Batch, Poller
from poller.ports import Bound, Page
from poller.sources import SqlSource
from poller.stores import MemoryStore
from tests.support.bounds import reading_as

ENDS = 0.1
"""How often a poller beside ends after a page."""
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
        self.again = 0
        self.counted = 0
        self.last: Bound | None = None
        self._over = threading.Event()
        self._beside = [threading.Thread(target=self._sample, args=(number,)) for number in range(plan.beside)]
        self._open()
        for thread in self._beside:
            thread.start()

    def _sample(self, number: int) -> None:
        """What another poller of this process does: samples and pages, at its own times; now and then it ends, and
        another begins with what one of those before remembered."""
        source, chance = self._source_of_plan(), random.Random(number)
        memories: list[Mapping[str, Any]] = [{}]
        try:
            while not self._over.wait(chance.uniform(0, self._plan.poll)):
                source.page(None, 1)
                if chance.random() < ENDS:
                    memories.append(source.remember() or {})
                    source.close()
                    source = self._source_of_plan()
                    source.recall(chance.choice(memories[-3:]))
        finally:
            source.close()

    def _open(self) -> None:
        self._source = self._source_of_plan()
        self._count(self._source)
        self._poller = Poller(
            "torture",
            source=self._source,
            store=self._store,
            app_name="bench",
            batch_size=self._plan.batch_size,
            page_size=self._plan.page_size,
            observers=(),
        )

    def _count(self, source: SqlSource) -> None:
        """Count the full pages below a bound that served before, and the looks that a count of none has ended."""
        first, read = source.page, source.next_page
        below: list[object] = []

        def counted(*args: Any, **options: Any) -> Page:
            page = read(*args, **options)
            self.again += bool(below) and below[-1] == (page.bound.value, page.bound.clock)
            below[:] = [(page.bound.value, page.bound.clock)]
            return page

        def looked(*args: Any, **options: Any) -> Page:
            page = first(*args, **options)
            self.counted += page.lag is not None
            return page

        source.next_page = counted  # type: ignore[method-assign]
        source.page = looked  # type: ignore[method-assign]

    def _source_of_plan(self) -> SqlSource:
        column = {"xid8+pk": "xid", "integer+pk": "id"}.get(self._plan.kind, "updated_at")
        settle: dict[str, Any] = {"settle": self._plan.settle} if self._plan.settle else {}
        url, bound = reading_as(self._plan.bound, self._plan.url)
        if self._plan.pooler:
            url = sa.make_url(url).set(port=self._plan.pooler).render_as_string(hide_password=False)
        return SqlSource(
            url,
            table="torture",
            cursor_column=column,
            cursor_kind=self._plan.kind,
            pk_columns=["id"],
            bound=bound,
            **settle,
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
        self._over.set()
        for thread in self._beside:
            thread.join()
        self._source.close()


_PAGE = (
    "select id, n, updated_at from torture where (updated_at > :at or (updated_at = :at and id > :id))"
    " and updated_at < {bound} order by updated_at, id limit 5000"
)
_OLDEST = (
    "select min(least(xact_start, case when state = 'active' then query_start end)) as oldest{more}"
    " from pg_stat_activity where pid <> pg_backend_pid() and datname = current_database() and usesysid is not null"
)
# In both a moment's pause makes the race show in seconds; a busy machine makes such pauses by itself. The clock in the
# select list is read after the scan:
_SELECT_LIST = (
    f"select least(s.oldest, clock_timestamp()) from ({_OLDEST.format(more='')}) s"
    " cross join lateral (select pg_sleep(0.02), s.oldest) as pause"
)
# In one statement with the page the scan is later than the page's snapshot:
_ONE_STATEMENT = (
    "(select least(s.oldest, statement_timestamp()) from (select pg_sleep(0.02)::text as over) as pause"
    f" cross join lateral ({_OLDEST.format(more=', pause.over')}) s)"
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
            sql = _PAGE.format(bound=_ONE_STATEMENT)
        else:
            sql = _PAGE.format(bound=":bound")
            params["bound"] = self._connection.execute(sa.text(self._sample())).scalar_one()
        rows = self._connection.execute(sa.text(sql), params).all()
        if rows:
            self._id, self._at = rows[-1].id, rows[-1].updated_at
        return [(row.id, row.n) for row in rows]

    def _sample(self) -> str:
        if self._control == "select-list":
            return _SELECT_LIST
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
