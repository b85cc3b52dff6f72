"""Pruning: what the databases have in common. A database's folder has `capture.PRUNING`.

Rows are deleted from the lowest number on, a chunk in each transaction. Of a change table the same transaction says up
to where it was pruned, so that a reader that is behind stops instead of going on behind the hole. Two that prune the
same change table wait for each other at its row of `poller_captures`.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from poller.databases.capture import CAPTURES, SAMPLED, CaptureRefusal, run, transaction

CHANGE_BYTES = 70
"""The bytes that a change takes beside its rows, if the size of a table is estimated."""


@dataclass(frozen=True, slots=True)
class Rules:
    """How one database is pruned.

    Attributes:
        chunk: rows of one transaction. spared: the newest rows of all, which are never deleted.
        session, begin: statements at first, and of each transaction. lock: locks the row of `poller_captures`.
        older: true for a change that is older than `:age` seconds. size: bytes of the table `:schema`, `:table`; None
            if the database does not say: then that of a change table is estimated from its newest changes.
    """

    chunk: int
    spared: int
    session: tuple[str, ...]
    begin: tuple[str, ...]
    lock: bool
    older: str
    size: str | None


@dataclass(frozen=True, slots=True)
class PrunedTable:
    """Which table is pruned, and by which number.

    Attributes:
        column: the number by which its readers follow it, in this order rows are deleted.
    """

    schema: str | None
    table: str
    column: str

    def __str__(self) -> str:
        return self.table if self.schema is None else f"{self.schema}.{self.table}"


@dataclass(frozen=True, slots=True)
class Deletable:
    """What may be deleted.

    Attributes:
        through: rows up to this number. kept: but none of these numbers. age: and only changes that are older; None: of
            any age.
    """

    through: int
    kept: frozenset[int]
    age: timedelta | None


@dataclass(frozen=True, slots=True)
class Chunk:
    """What one transaction deleted: how many rows, all up to `last`; `full`: there may be more."""

    rows: int
    last: int
    full: bool


class Pruning:
    """Prunes one table, on a connection in autocommit.

    Attributes:
        captured: True if it is a change table, whose readers look at `pruned_through`.
        pruned_through: up to which change it was pruned before; 0: never.
    Raises: Refusal, if there is no such table; what the driver raises.
    """

    def __init__(self, connection: Connection, rules: Rules, table: PrunedTable) -> None:
        self._connection = connection
        self._rules = rules
        self._named = table
        for statement in rules.session:
            run(connection, statement)
        look = sa.inspect(connection)
        if not look.has_table(table.table, schema=table.schema):
            raise CaptureRefusal(
                f"{table}: there is no such table that this database user can see.",
                next_step="Look at `table` and `schema` of the poller's source.",
            )
        columns: list[sa.ColumnClause[Any]] = [sa.column(name) for name in (table.column, "at", "old", "new")]
        self._table = sa.table(table.table, *columns, schema=table.schema)
        self._column: sa.ColumnClause[Any] = self._table.c[table.column]
        self._captures = sa.table(CAPTURES, sa.column("change_table"), sa.column("pruned_through"), schema=table.schema)
        found = self._registered() if look.has_table(CAPTURES, schema=table.schema) else None
        self.captured = found is not None
        self.pruned_through = found or 0

    def count(self, what: Deletable) -> int:
        """The number of rows that may be deleted now. Raises what the driver raises."""
        counting = sa.select(sa.func.count()).select_from(self._table).where(*self._wanted(self._spared(what)))
        older = self._older(what)
        return int(self._connection.execute(counting if older is None else counting.where(older)).scalar_one())

    def check_rights(self) -> None:
        """Raises what the driver raises, if this user may not prune and the database says so before it deletes."""
        none = sa.text("1 = 0")
        statements: list[Any] = [self._table.delete().where(none)]
        if self.captured:
            same: Any = sa.literal_column("pruned_through")
            statements.append(sa.update(self._captures).where(none).values(pruned_through=same))
        for statement in statements:
            self._connection.exec_driver_sql(f"EXPLAIN {statement.compile(self._connection)}")

    def bytes(self) -> int | None:
        """The table's size with its indexes; None if it is not known. Raises what the driver raises."""
        if self._rules.size is None:
            return self._estimated() if self.captured else None
        given = {"schema": self._named.schema, "table": self._named.table}
        found = self._connection.execute(sa.text(self._rules.size), given).scalar()
        return None if found is None else int(found)

    def _estimated(self) -> int:
        columns = (self._table.c.old, self._table.c.new)
        length = sum((sa.func.coalesce(sa.func.length(one), 0) for one in columns), sa.literal(CHANGE_BYTES))
        newest = sa.select(length.label("size")).order_by(self._column.desc()).limit(SAMPLED).subquery()
        average = self._connection.execute(sa.select(sa.func.avg(newest.c.size))).scalar() or 0
        last = self._connection.execute(sa.select(sa.func.max(self._column))).scalar() or 0
        return round(average * max(0, int(last) - (self._registered() or 0)))

    def delete(self, what: Deletable, after: int | None) -> Chunk | None:
        """Delete a chunk of the rows behind `after` in one transaction; None if none may be deleted. Raises what the
        driver raises; then nothing was deleted."""
        with transaction(self._connection, *self._rules.begin):
            through = self._registered(lock=self._rules.lock) if self.captured else 0
            if through is None:
                raise CaptureRefusal(
                    f"{self._named}: it is not a change table any more.", next_step="Run the command again."
                )
            wanted = self._wanted(self._spared(what))
            wanted += [] if after is None else [self._column > after]
            older = self._older(what)
            chosen = [self._column] if older is None else [self._column, older]
            page = sa.select(*chosen).where(*wanted).order_by(self._column).limit(self._rules.chunk)
            found = self._connection.execute(page).all()
            old = [row[0] for row in found] if older is None else _while_old(found)
            if not old:
                return None
            deleted = self._connection.execute(self._table.delete().where(*wanted, self._column <= old[-1]))
            if self.captured:
                mine = self._captures.c.change_table == self._named.table
                raised = sa.update(self._captures).where(mine).values(pruned_through=max(through, int(old[-1])))
                self._connection.execute(raised)
        return Chunk(deleted.rowcount, int(old[-1]), len(old) == self._rules.chunk)

    def _spared(self, what: Deletable) -> Deletable:
        if not self._rules.spared:
            return what
        newest = self._connection.execute(sa.select(sa.func.max(self._column))).scalar() or 0
        return Deletable(min(what.through, int(newest) - self._rules.spared), what.kept, what.age)

    def _wanted(self, what: Deletable) -> list[sa.ColumnElement[bool]]:
        kept: Collection[int] = sorted(what.kept)
        return [self._column <= what.through, *([self._column.not_in(kept)] if kept else [])]

    def _older(self, what: Deletable) -> sa.TextClause | None:
        if what.age is None:
            return None
        return sa.text(f"({self._rules.older})").bindparams(age=int(what.age.total_seconds()))

    def _registered(self, *, lock: bool = False) -> int | None:
        asked = sa.select(self._captures.c.pruned_through).where(self._captures.c.change_table == self._named.table)
        found = self._connection.execute(asked.with_for_update() if lock else asked).scalar()
        return None if found is None else int(found)


def _while_old(found: Collection[Any]) -> list[Any]:
    """The numbers before the first row that is not old enough: what is left begins there."""
    old = []
    for number, is_old in found:
        if not is_old:
            break
        old.append(number)
    return old
