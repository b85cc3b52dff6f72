"""Documents as rows of a table, in any database that SQLAlchemy knows; SQLite is the embedded default.

A conditional write is one statement, `UPDATE ... WHERE name = ? AND tag = ?`, which succeeds if it changes a row; so
the database's locking decides between two writers. The tag is a new random number. The server's time is the database's
clock, read by the same statement. The first write creates missing tables.

Not promised: time limits with other drivers than SQLite's, psycopg, psycopg2 and PyMySQL.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    Engine,
    Row,
    Table,
    case,
    delete,
    func,
    insert,
    null,
    select,
    update,
)
from sqlalchemy import inspect as inspect_database
from sqlalchemy.exc import DBAPIError, IntegrityError, SQLAlchemyError

from poller import forks, tls
from poller.databases import tokens
from poller.databases.errors import says_no_table
from poller.databases.urls import abandon
from poller.errors import ConfigError, StoreError, StoreUnavailable, WriteConflict
from poller.model.finding import Finding
from poller.model.limits import LARGEST_BODY, LARGEST_TRAIL, LONGEST_LINE, longest_line, newest_lines
from poller.ports import DEFAULT_TIMEOUT, Found, Missing, Timeout, Unchanged, Written
from poller.stores.sql.engine import Watchdog, describe, engine_for, is_absent, limit_lock_wait, rights
from poller.stores.sql.errors import UNSURE, NotConnected, translate, without_access
from poller.stores.sql.schema import schema_for

_LINES = LARGEST_TRAIL // LONGEST_LINE
"""Lines of a trail that are asked for at once, whatever is in them."""
_T = TypeVar("_T")
_PREFIX = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,19}")


class SqlStore:
    """A `StateStore` in the tables `{prefix}_documents` and `{prefix}_log`; safe to call from several threads.

    Args:
        url_or_engine: a SQLAlchemy URL (`sqlite:///state.db`), or an engine, which `close` leaves open.
        prefix: of the tables' names.
        directory: of a relative SQLite path; the working directory when None.
        identity: with whose tokens a URL without a password signs in, as `[state] identity`.
        utcnow: this machine's clock, which is SQLite's too; the real one when None.

    Raises: ConfigError (not a URL, no such driver, not a table's name, an identity that cannot be used there).
    """

    def __init__(
        self,
        url_or_engine: str | Engine,
        *,
        prefix: str = "poller",
        directory: Path | None = None,
        identity: bool | str = False,
        utcnow: Callable[[], datetime] | None = None,
    ) -> None:
        if _PREFIX.fullmatch(prefix) is None:
            raise ConfigError(
                f"{prefix!r} cannot begin the name of a table.",
                key="state.prefix",
                next_step="Use at most 20 letters, digits and underscores, the first not a digit.",
            )
        self._utcnow = utcnow or partial(datetime.now, UTC)
        self._owned = isinstance(url_or_engine, str)
        if isinstance(url_or_engine, str):
            self._engine = engine_for(url_or_engine, directory or Path.cwd(), identity)
        else:
            self._engine = url_or_engine.execution_options(isolation_level="AUTOCOMMIT")
        forks.before(self._leave_nothing_open)
        forks.in_child(self._reset_after_fork)
        dialect = self._engine.dialect
        self._schema = schema_for(dialect.name, prefix)
        stored = self._schema.documents.c.body
        self._substring = func.substring if dialect.name == "mssql" else func.substr
        self._body: ColumnElement[Any] = self._cut(stored, LARGEST_BODY + 1).label("body")
        self._update_returns = dialect.update_returning
        self._insert_returns = dialect.insert_returning
        self._place = f"table {prefix}_documents of {describe(self._engine.url)}"
        self._log_place = f"table {prefix}_log of {describe(self._engine.url)}"

    def _leave_nothing_open(self) -> None:
        """Before a fork: SQLite's locks are per process, and are lost when a file is open across it. Connections in use
        by other threads stay open; a child process forgets them."""
        if self._owned and self._engine.dialect.name == "sqlite":
            self._engine.dispose()

    def _reset_after_fork(self) -> None:
        """In a child process: leave the parent's connections to it, in the pool and out of it."""
        abandon(self._engine)

    def read(
        self, name: str, *, unless: str | None = None, timeout: Timeout | None = None
    ) -> Found | Unchanged | Missing:
        """See `StateStore.read`: one SELECT, without the body when the tag is `unless`."""
        documents, clock = self._schema.documents, self._schema.clock
        body = self._body
        if unless is not None:
            body = case((documents.c.tag == unless, null()), else_=body).label("body")
        wanted = select(documents.c.tag, body, documents.c.modified_at, clock.now.label("now"))

        def ask(connection: Connection) -> Found | Unchanged | Missing:
            row = connection.execute(wanted.where(documents.c.name == name)).one_or_none()
            if row is None:
                return Missing(self._now(connection))
            now = clock.to_utc(row.now)
            if row.tag == unless:
                return Unchanged(now)
            return Found((row.body or "").encode()[: LARGEST_BODY + 1], row.tag, now, clock.to_utc(row.modified_at))

        def nothing() -> Missing:
            if is_absent(self._engine):
                return Missing(self._utcnow())  # the clock of SQLite is this machine's
            return Missing(self._reading(name, self._now, lambda: None, timeout))

        return self._reading(name, ask, nothing, timeout)

    def write(self, name: str, body: bytes, *, if_tag: str | None, timeout: Timeout | None = None) -> Written:
        """See `StateStore.write`: one INSERT or UPDATE. Raises: ValueError, too, when `body` is not UTF-8."""
        documents, clock = self._schema.documents, self._schema.clock
        tag = uuid4().hex
        values: dict[str, Any] = {"tag": tag, "body": body.decode("utf-8"), "modified_at": clock.now}

        def create(connection: Connection) -> Written:
            statement = insert(documents).values(name=name, **values)
            if not self._insert_returns:
                connection.execute(statement)
                return self._written(connection, name, tag)
            return self._answer(tag, connection.execute(statement.returning(documents.c.modified_at)).one())

        def replace(connection: Connection) -> Written:
            same = (documents.c.name == name) & (documents.c.tag == if_tag)
            statement = update(documents).where(same).values(**values)
            if not self._update_returns:
                if connection.execute(statement).rowcount != 1:
                    raise self._conflict(name)
                return self._written(connection, name, tag)
            row = connection.execute(statement.returning(documents.c.modified_at)).one_or_none()
            if row is None:
                raise self._conflict(name)
            return self._answer(tag, row)

        if if_tag is not None:
            return self._writing(name, replace, timeout, without_tables=self._conflict(name))
        return self._writing(name, create, timeout, duplicate=self._conflict(name))

    def remove(self, name: str, *, if_tag: str, timeout: Timeout | None = None) -> None:
        """See `StateStore.remove`: one DELETE."""
        documents = self._schema.documents
        statement = delete(documents).where((documents.c.name == name) & (documents.c.tag == if_tag))

        def leave_none(connection: Connection) -> None:
            if connection.execute(statement).rowcount != 1:
                raise self._conflict(name)

        self._writing(name, leave_none, timeout, without_tables=self._conflict(name))

    def append(self, name: str, line: str, *, timeout: Timeout | None = None) -> None:
        """See `StateStore.append`: one INSERT."""
        if "\n" in line:
            raise ValueError("a line of a log document contains no line break")
        statement = insert(self._schema.log).values(name=name, line=line, written_at=self._schema.clock.now)
        self._writing(name, lambda connection: connection.execute(statement.inline()), timeout)

    def lines(self, name: str, *, limit: int | None = None) -> list[str]:
        """See `StateStore.lines`: one SELECT, and with a limit one for each `_LINES` lines. The database cuts them."""
        return newest_lines(self._newest_lines(name, limit), limit)

    def _newest_lines(self, name: str, limit: int | None) -> Iterator[str]:
        log = self._schema.log
        page = None if limit is None else min(limit, _LINES)
        line = self._cut(log.c.line, longest_line(limit))
        wanted = select(log.c.id, line).where(log.c.name == name).order_by(log.c.id.desc()).limit(page)
        older = wanted
        while True:

            def ask(connection: Connection, older: Any = older) -> list[tuple[int, str]]:
                return [(number, text or "") for number, text in connection.execute(older)]

            found: list[tuple[int, str]] = self._reading(name, ask, list)
            yield from (text for _, text in found)
            if page is None or len(found) < page:
                return
            older = wanted.where(log.c.id < found[-1][0])

    def names(self, prefix: str) -> Iterator[str]:
        """See `StateStore.names`."""
        found: set[str] = set()
        for table in (self._schema.documents, self._schema.log):
            wanted = select(table.c.name).where(table.c.name.startswith(prefix, autoescape=True)).distinct()

            def ask(connection: Connection, wanted: Any = wanted) -> list[str]:
                return list(connection.execute(wanted).scalars())

            found.update(self._reading(prefix, ask, list))
        # LIKE ignores case in some databases.
        return iter(sorted(name for name in found if name.startswith(prefix)))

    def checkup(self, name: str, *, exists: bool = True) -> list[Finding]:  # noqa: ARG002 - the same for all documents
        """Check that the connection verifies the server, and who may read a file, for `poller check`."""
        return [
            *tls.of_database(self._engine.url, os.environ),
            *tokens.findings(self._engine),
            *rights(self._engine),
        ]

    def locate(self, name: str) -> str:
        """See `StateStore.locate`."""
        return f"document {name} in {self._log_place if name.endswith('.jsonl') else self._place}"

    @property
    def backend(self) -> str:
        """Which kind of database it is in, as SQLAlchemy names it: `sqlite`, `postgresql`, ..."""
        return self._engine.dialect.name

    def close(self) -> None:
        """See `StateStore.close`; an engine that was passed in stays open."""
        if self._owned:
            self._engine.dispose()

    def _reading(
        self,
        name: str,
        ask: Callable[[Connection], _T],
        nothing: Callable[[], _T],
        timeout: Timeout | None = None,
    ) -> _T:
        """One query; `nothing` where the tables or the file do not exist: reading creates neither."""
        if is_absent(self._engine):
            return nothing()
        try:
            return self._ask(ask, name, timeout, again=True)
        except SQLAlchemyError as error:
            if not self._tables_are_missing(error):
                raise self._translated(error, name, reading=True) from None
        return nothing()

    def _writing(
        self,
        name: str,
        change: Callable[[Connection], _T],
        timeout: Timeout | None,
        *,
        duplicate: StoreError | None = None,
        without_tables: StoreError | None = None,
    ) -> _T:
        """Sent once; after creating the tables, once more. `duplicate`, `without_tables`: what to raise then."""
        for attempt in (1, 2):
            try:
                return self._ask(change, name, timeout)
            except IntegrityError as error:
                raise duplicate or self._translated(error, name) from None
            except SQLAlchemyError as error:
                if attempt == 2 or not self._tables_are_missing(error):
                    raise self._translated(error, name) from None
                if without_tables is not None:
                    raise without_tables from None
                self._create_tables(name)
        raise AssertionError("unreachable")

    def _ask(self, work: Callable[[Connection], _T], name: str, timeout: Timeout | None, *, again: bool = False) -> _T:
        """Ask once, within the time limit. `again`: once more where a pooled connection broke while it was idle."""
        chosen = timeout or DEFAULT_TIMEOUT
        watchdog = Watchdog(chosen.connect + chosen.read)
        pooled = False
        try:
            with self._connected() as connection:
                pooled, connection.info["used"] = connection.info.get("used", False), True
                raw = connection.connection.dbapi_connection
                limit_lock_wait(self._engine.dialect.name, raw, chosen)
                try:
                    watchdog.watch(raw)
                except RuntimeError as error:
                    raise StoreUnavailable(
                        f"No request was sent to {self.locate(name)}: its watchdog could not start: {error}.",
                        document=name,
                        next_step="Let this process start one more thread.",
                    ) from None
                return work(connection)
        except SQLAlchemyError as error:
            if watchdog.expired:
                raise StoreUnavailable(
                    f"No answer came for {self.locate(name)} within {watchdog.seconds:g} s.",
                    document=name,
                    next_step=f"Check whether the database is overloaded, or a lock is held.{'' if again else UNSURE}",
                ) from None
            if not (again and pooled and _is_broken(error)):
                raise
        finally:
            watchdog.stop()
        return self._ask(work, name, timeout)

    def _connected(self) -> Connection:
        """A connection. Raises: NotConnected."""
        try:
            return self._engine.connect()
        except SQLAlchemyError as error:
            raise NotConnected(error) from None

    def _cut(self, column: Column[Any], length: int) -> ColumnElement[Any]:
        """A text's beginning: what is longer does not travel."""
        found: ColumnElement[Any] = self._substring(column, 1, length, type_=column.type)
        return found

    def _written(self, connection: Connection, name: str, tag: str) -> Written:
        documents = self._schema.documents
        ours = select(documents.c.modified_at).where((documents.c.name == name) & (documents.c.tag == tag))
        row = connection.execute(ours).one_or_none()
        # No row: another process has written since, and the time of our write no longer matters.
        return self._answer(tag, row) if row is not None else Written(tag, self._now(connection), None)

    def _answer(self, tag: str, row: Row[Any]) -> Written:
        at = self._schema.clock.to_utc(row.modified_at)
        return Written(tag, at, at)

    def _now(self, connection: Connection) -> datetime | None:
        clock = self._schema.clock
        return clock.to_utc(connection.execute(select(clock.now.label("now"))).scalar_one())

    def _tables_are_missing(self, error: SQLAlchemyError) -> bool:
        """By the database's error, since another process may have created them meanwhile; else by looking."""
        if not isinstance(error, DBAPIError) or error.connection_invalidated:
            return False
        return says_no_table(error) or not all(map(self._exists, (self._schema.documents, self._schema.log)))

    def _exists(self, table: Table) -> bool:
        try:
            with self._engine.connect() as connection:
                return inspect_database(connection).has_table(table.name)
        except SQLAlchemyError:
            return True  # unknown: the original error is the one to report

    def _create_tables(self, name: str) -> None:
        for table in (self._schema.documents, self._schema.log):
            try:
                with self._engine.connect() as connection:
                    table.create(connection, checkfirst=True)
            except SQLAlchemyError as error:
                # Another process may have created it between the check and ours: each database has its own error then.
                if _is_broken(error) or not self._exists(table):
                    raise self._translated(error, name, reading=True) from None

    def _conflict(self, name: str) -> WriteConflict:
        return WriteConflict(f"{self.locate(name)} is not the version this write was for.", document=name)

    def _translated(self, error: SQLAlchemyError, name: str, *, reading: bool = False) -> StoreError:
        place, identity = self.locate(name), tokens.identity_of(self._engine)
        if identity is not None and (unsigned := without_access(error, place, name, identity)) is not None:
            return unsigned
        password = self._engine.url.password
        return translate(error, place, name, secret=str(password) if password else None, reading=reading)


def _is_broken(error: SQLAlchemyError) -> bool:
    return isinstance(error, DBAPIError) and error.connection_invalidated
