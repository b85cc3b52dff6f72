"""What is asked of each database, and in which order: the fence, and the ledger behind it.

The fence is a row with the highest token that has written. A writer locks it first: shared where its token
is there already, so that the lanes of a tenure run beside each other; exclusively to raise it. So a raise waits for
every transaction under a lower token, what those have applied is seen afterwards, and later ones are fenced.
Rows that were tried before under the same token want it exclusively too: an earlier transaction with them may still be
on its way to its commit, although its client is gone or got no answer.

What is read after the lock must not be older than the lock:

- PostgreSQL lets a session that shares a row's lock pass those that wait to have it alone, for ever where lanes
overlap. So an
  advisory lock, whose queue is fair, stands before the row's, shared or exclusive as that is.
- PostgreSQL, READ COMMITTED: each statement sees what was committed before it began.
- PostgreSQL, REPEATABLE READ and SERIALIZABLE: the first statement fixes what is seen before it waits for a lock. A
  raise that waited for a stale owner would not see what that one has applied, and apply it again. So the wait is a
  transaction of its own, and the fence is locked once more, shared, by the first statement of the next.
- MariaDB and MySQL: what is seen is fixed by the first plain SELECT, and that is behind the lock. The fence is
  raised by an upsert, since `FOR UPDATE` of a row that is missing lets two wait for each other.
- SQLite: who writes has the database; one upsert does it all.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

from sqlalchemy import (
    BigInteger,
    Connection,
    Delete,
    Insert,
    Row,
    Select,
    Table,
    Update,
    bindparam,
    delete,
    func,
    insert,
    literal_column,
    select,
    update,
)
from sqlalchemy.exc import DBAPIError

from poller.databases.errors import codes
from poller.errors import PollerError
from poller.sinks import driver
from poller.sinks.ledger import LedgerRow
from poller.sinks.schema import LedgerTables, tables_for

Names = Mapping[str, str]
"""`app`, `poller`, `shard`, and for the ledger `part`."""
_CONFLICTS = {"40001", "40P01"}
_RAISES = 20
"""So often the raise in a transaction of its own is tried where another raises at the same moment."""


class Fencing(Protocol):
    """How one family of databases is asked for the fence."""

    def enter(self, connection: Connection, names: Names, token: int, *, stands: bool, shared: bool) -> int:
        """Lock the fence, raised to `token` where it stood lower, until the transaction ends.

        Args:
            stands: whether the fence is believed to be at `token`. shared: whether others of this token may have it
                too.
        Returns: the token that is there; a higher one is nothing to go on under.
        """
        ...


class PostgreSqlFencing:
    """See the module."""

    def __init__(self, tables: LedgerTables) -> None:
        from sqlalchemy.dialects.postgresql import insert as upsert

        fence = tables.fence
        raising = upsert(fence)
        self._raise = raising.on_conflict_do_update(
            index_elements=[fence.c.app, fence.c.poller, fence.c.shard],
            set_={"token": raising.excluded.token},
            where=fence.c.token < raising.excluded.token,
        )
        isolation = func.current_setting(literal_column("'transaction_isolation'"))
        look = _of(fence, select(fence.c.token, isolation))
        self._shared, self._alone = look.with_for_update(read=True), look.with_for_update()
        number = bindparam("gate", type_=BigInteger)
        self._gate_shared = select(func.pg_advisory_xact_lock_shared(number))
        self._gate_alone = select(func.pg_advisory_xact_lock(number))

    def enter(self, connection: Connection, names: Names, token: int, *, stands: bool, shared: bool) -> int:
        """See `Fencing.enter`."""
        found = self._look(connection, names, shared=shared) if stands else None
        if found is None or found[0] < token:
            driver.roll_back(connection)
            self._raise_alone(connection, names, token)
            found = self._look(connection, names, shared=shared)
        if found is not None and not shared and found[1] != "read committed":
            driver.commit(connection)
            found = self._look(connection, names, shared=True)
        if found is None:
            raise PollerError(
                "The row of poller_fence was deleted while it was asked for.", next_step="Leave it there."
            )
        return int(found[0])

    def _look(self, connection: Connection, names: Names, *, shared: bool) -> Row[int, str] | None:
        """Lock the row, and what is in it; None if there is none."""
        connection.execute(self._gate_shared if shared else self._gate_alone, {"gate": _gate(names)})
        return connection.execute(self._shared if shared else self._alone, names).one_or_none()

    def _raise_alone(self, connection: Connection, names: Names, token: int) -> None:
        for attempt in range(_RAISES):
            try:
                connection.execute(self._gate_alone, {"gate": _gate(names)})
                connection.execute(self._raise, {**names, "token": token})
                driver.commit(connection)
            except DBAPIError as error:
                driver.roll_back(connection)
                if attempt + 1 == _RAISES or codes(error.orig)[0] not in _CONFLICTS:
                    raise
            else:
                return


def _gate(names: Names) -> int:
    """The number of a poller's advisory lock in its database."""
    whose = "/".join(["poller_fence", *(names[name] for name in ("app", "poller", "shard"))])
    return int.from_bytes(hashlib.sha256(whose.encode()).digest()[:8], signed=True)


class MySqlFencing:
    """See the module."""

    def __init__(self, tables: LedgerTables) -> None:
        from sqlalchemy.dialects.mysql import insert as upsert

        fence = tables.fence
        raising = upsert(fence)
        self._raise = raising.on_duplicate_key_update(token=func.greatest(fence.c.token, raising.inserted.token))
        look = _of(fence, select(fence.c.token))
        self._shared, self._alone = look.with_for_update(read=True), look.with_for_update()

    def enter(self, connection: Connection, names: Names, token: int, *, stands: bool, shared: bool) -> int:
        """See `Fencing.enter`."""
        found = connection.execute(self._shared if shared else self._alone, names).scalar() if stands else None
        if found is None or found < token:
            connection.execute(self._raise, {**names, "token": token})
            found = connection.execute(self._alone, names).scalar_one()
        return int(found)


class SqliteFencing:
    """See the module."""

    def __init__(self, tables: LedgerTables) -> None:
        from sqlalchemy.dialects.sqlite import insert as upsert

        fence = tables.fence
        raising = upsert(fence)
        self._raise = raising.on_conflict_do_update(
            index_elements=[fence.c.app, fence.c.poller, fence.c.shard],
            set_={"token": func.max(fence.c.token, raising.excluded.token)},
        ).returning(fence.c.token)

    def enter(
        self,
        connection: Connection,
        names: Names,
        token: int,
        *,
        stands: bool,  # noqa: ARG002 - it costs as much to raise it
        shared: bool,  # noqa: ARG002 - there is one writer
    ) -> int:
        """See `Fencing.enter`."""
        return int(connection.execute(self._raise, {**names, "token": token}).scalar_one())


@dataclass(frozen=True, slots=True)
class LedgerStatements:
    """All that one family of databases is asked. Each changes one row of the ledger, found by its whole key."""

    tables: LedgerTables
    fencing: Fencing
    entries: Select[Any]
    is_there: Select[Any]
    add: Insert
    become: Update
    rewrite: Update
    drop: Delete

    def read(self, connection: Connection, names: Names) -> list[LedgerRow]:
        """The ledger of a part."""
        return [LedgerRow(*row) for row in connection.execute(self.entries, names)]

    def write(self, connection: Connection, names: Names, entry: LedgerRow, replaced: Sequence[int]) -> None:
        """Add an entry, in the place of others."""
        values = {name: getattr(entry, name) for name in ("id", "lane", "generation", "token", "through", "row_keys")}
        if not replaced:
            connection.execute(self.add, {**names, **values})
            return
        first, *others = replaced
        changed = {**_prefixed(names), "the_id": first, **values}
        connection.execute(self.become, changed)
        self.remove(connection, names, others)

    def remove(self, connection: Connection, names: Names, ids: Sequence[int]) -> None:
        """Delete entries."""
        if ids:
            connection.execute(self.drop, [{**_prefixed(names), "the_id": one} for one in ids])

    def shrink(self, connection: Connection, names: Names, id_: int, row_keys: bytes) -> bool:
        """Keep fewer keys in an entry; whether it is there."""
        done = connection.execute(self.rewrite, {**_prefixed(names), "the_id": id_, "row_keys": row_keys})
        return done.rowcount == 1

    def has(self, connection: Connection, names: Names, id_: int) -> bool:
        """True if an entry is there."""
        return connection.execute(self.is_there, {**names, "id": id_}).first() is not None


@lru_cache
def statements_for(family: str) -> LedgerStatements:
    """What a family of databases (`schema.FAMILIES`) is asked."""
    tables = tables_for(family)
    applied = tables.applied
    fencing: dict[str, type[Any]] = {
        "postgresql": PostgreSqlFencing,
        "mysql": MySqlFencing,
        "sqlite": SqliteFencing,
    }
    one = _whole_key(applied)
    content = ("id", "lane", "generation", "token", "through", "row_keys")
    return LedgerStatements(
        tables,
        fencing[family](tables),
        entries=_of(applied, select(*(applied.c[name] for name in content)), "part"),
        is_there=_of(applied, select(applied.c.id), "part", "id"),
        add=insert(applied),
        become=update(applied).where(one).values({name: bindparam(name) for name in content}),
        rewrite=update(applied).where(one).values(row_keys=bindparam("row_keys")),
        drop=delete(applied).where(one),
    )


def _of(table: Table, wanted: Select[Any], *more: str) -> Select[Any]:
    for name in ("app", "poller", "shard", *more):
        wanted = wanted.where(table.c[name] == bindparam(name))
    return wanted


def _whole_key(applied: Table) -> Any:
    key = applied.c.id == bindparam("the_id")
    for name in ("app", "poller", "shard", "part"):
        key &= applied.c[name] == bindparam(f"the_{name}")
    return key


def _prefixed(names: Names) -> dict[str, Any]:
    """UPDATE keeps the columns' own names for what it sets."""
    return {f"the_{name}": value for name, value in names.items()}
