"""Capture in MariaDB and MySQL: three triggers of one table, made while it is locked for writers.

No statement here that makes or drops something is part of a transaction, so an installation that fails drops what it
made. Its triggers are made under LOCK TABLES: no write meets some of them without the others.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy.engine import Connection
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from poller.databases import capture as common
from poller.databases.capture import (
    Busy,
    CapturePlan,
    CaptureRefusal,
    CaptureRequest,
    ChangeRow,
    Cost,
    Quoter,
    Record,
    Removed,
    run,
)
from poller.databases.errors import codes
from poller.databases.mysql.site import MySqlSite, literal
from poller.databases.urls import use_utf8mb4

_BUSY = frozenset({1205, 1213, 3572})
_DENIED = frozenset({1044, 1142, 1143, 1227, 1370})
_BINARY_LOG = 1419
_CHANGE_BYTES, _WRITE_MICROSECONDS = 90, 5.0
"""The cost of a change without its rows, measured on MariaDB 10.11: 8 columns, 10,000 rows by one statement."""
_CAPTURES = """CREATE TABLE IF NOT EXISTS {captures} (change_table varchar(64) NOT NULL PRIMARY KEY,
  source varchar(64) NOT NULL, source_made datetime NULL, key_columns longtext NOT NULL, columns longtext NOT NULL,
  with_old tinyint NOT NULL, excluded longtext NOT NULL, accepted longtext NOT NULL,
  columns_since bigint unsigned NOT NULL DEFAULT 0, made_at timestamp(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
  removed_at datetime(6) NULL, pruned_through bigint unsigned NOT NULL DEFAULT 0)
  ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"""
_CHANGES = """CREATE TABLE {changes} (id bigint unsigned NOT NULL AUTO_INCREMENT PRIMARY KEY,
  at timestamp(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6), op char(1) CHARACTER SET ascii NOT NULL,
  old longtext CHARACTER SET utf8mb4 NULL, new longtext CHARACTER SET utf8mb4 NULL) ENGINE = InnoDB"""


class MySqlCapture:
    """See `poller.databases.capture.Capture`."""

    def __init__(self, connection: Connection, wanted: CaptureRequest) -> None:
        self._connection = connection
        self._wanted = wanted
        self._quote = quote = Quoter(connection, literal)
        use_utf8mb4(connection.connection.dbapi_connection)
        quotes = ",ANSI_QUOTES" if quote("a").startswith('"') else ""  # as the server has it by default
        run(connection, f"SET SESSION sql_mode = 'STRICT_TRANS_TABLES{quotes}'")  # triggers keep it

    def plan(self) -> CapturePlan:
        """See `Capture.plan`."""
        return self._planned(self._site())

    def install(self) -> CapturePlan:
        """See `Capture.install`."""
        with self._alone():
            site = self._site()
            plan = self._planned(site)
            if plan.standing == "absent":  # denied to a user who could not take back what fails
                run(self._connection, f"DROP TABLE IF EXISTS {self._quote(site.schema, 'poller_no_table')}")
            try:
                for statement in plan.statements:
                    run(self._connection, statement)
            except BaseException:
                with contextlib.suppress(SQLAlchemyError):
                    run(self._connection, "UNLOCK TABLES")
                if plan.standing == "absent":
                    self._undo(site)
                elif plan.standing == "removed":
                    self._drop_triggers(site)
                raise
        return plan

    def _undo(self, site: MySqlSite) -> None:
        """Drop what the installation made before it failed. Raises nothing of the driver's."""
        self._drop_triggers(site)
        with contextlib.suppress(SQLAlchemyError):
            run(self._connection, f"DROP TABLE IF EXISTS {site.changes}")
        if not site.captures_there:
            with contextlib.suppress(SQLAlchemyError):
                run(self._connection, f"DROP TABLE {site.captures}")
        else:
            with contextlib.suppress(SQLAlchemyError):
                row = f"WHERE change_table = {literal(site.changes_name)}"
                run(self._connection, f"DELETE FROM {site.captures} {row}")  # noqa: S608

    def _drop_triggers(self, site: MySqlSite) -> None:
        """Drop our triggers of this table. Raises nothing of the driver's."""
        for statement in site.triggers_dropped():
            with contextlib.suppress(SQLAlchemyError):
                run(self._connection, statement)

    def remove(self, *, changes: bool) -> Removed:
        """See `Capture.remove`."""
        with self._alone():
            site = self._site()
            if site.registered is None:
                raise common.not_installed(site.what, self._wanted.poller)
            there = not site.registered.removed
            row = f"WHERE change_table = {literal(site.changes_name)}"
            for statement in site.strays_dropped():
                run(self._connection, statement)
            if site.changes_there:
                run(self._connection, _locks(site))
            try:
                if there and site.changes_there:  # first: a reader may see no triggers
                    run(self._connection, f"INSERT INTO {site.changes} (op) VALUES ('X')")  # noqa: S608
                    run(self._connection, f"UPDATE {site.captures} SET removed_at = now(6) {row}")  # noqa: S608
                for statement in site.triggers_dropped():
                    run(self._connection, statement)
            finally:
                run(self._connection, "UNLOCK TABLES")
            if changes:
                run(self._connection, f"DROP TABLE IF EXISTS {site.changes}")
                run(self._connection, f"DELETE FROM {site.captures} {row}")  # noqa: S608
                if not run(self._connection, f"SELECT 1 FROM {site.captures} LIMIT 1").all():  # noqa: S608
                    run(self._connection, f"DROP TABLE {site.captures}")
        return Removed(site.what, f"{site.schema}.{site.changes_name}", there, changes)

    @contextmanager
    def record(self, most: int) -> Iterator[Record]:
        """See `Capture.record`."""
        run(self._connection, "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        run(self._connection, "START TRANSACTION WITH CONSISTENT SNAPSHOT")
        try:
            site = self._site()
            if site.registered is None or site.registered.removed:
                raise common.not_installed(site.what, self._wanted.poller)
            newest = run(self._connection, f"SELECT coalesce(max(id), 0) FROM {site.changes}").scalar_one()  # noqa: S608
            yield Record(
                table=site.what,
                changes=f"{site.schema}.{site.changes_name}",
                key=site.key,
                since=site.registered.columns_since,
                replaces=False,
                rows_of_changes=self._changes(site, newest - most),
                rows=self._rows(site),
            )
        finally:
            with contextlib.suppress(SQLAlchemyError):
                run(self._connection, "ROLLBACK")

    def _changes(self, site: MySqlSite, after: int) -> Iterator[ChangeRow]:
        while True:
            where = f"WHERE id > {after} ORDER BY id LIMIT {common.PAGE}"
            page = run(self._connection, f"SELECT id, op, old, new FROM {site.changes} {where}").all()  # noqa: S608
            yield from (ChangeRow._make(row) for row in page)
            if len(page) < common.PAGE:
                return
            after = page[-1][0]

    def _rows(self, site: MySqlSite) -> Iterator[str]:
        streamed = self._connection.execution_options(stream_results=True, max_row_buffer=common.PAGE)
        found: Any = run(streamed, f"SELECT {site.row('t', site.captured)} FROM {site.source} AS t")  # noqa: S608
        for (text,) in found:
            yield text if isinstance(text, str) else text.decode()

    def _site(self) -> MySqlSite:
        return MySqlSite(self._connection, self._wanted, self._quote)

    def _planned(self, site: MySqlSite) -> CapturePlan:
        site.check()
        standing, gap = site.standing()
        return CapturePlan(
            table=site.what,
            changes=f"{site.schema}.{site.changes_name}",
            key=site.key,
            columns=tuple(site.captured),
            old=site.old,
            standing=standing,
            gap=gap,
            statements=tuple(self._statements(site, gap)),
            warnings=tuple(site.warnings()),
            cost=self._cost(site),
        )

    def _statements(self, site: MySqlSite, gap: str | None) -> Iterator[str]:
        if not site.captures_there:
            yield _CAPTURES.format(captures=site.captures)
        if site.registered is None:  # an installation that is interrupted is gone on with
            yield self._registration(site, "now(6)")
        if not site.changes_there:
            yield _CHANGES.format(changes=site.changes)
        yield from site.strays_dropped()
        yield _locks(site)
        if gap is not None:  # first: once the triggers are there, nothing shows it any more
            yield f"INSERT INTO {site.changes} (op) VALUES ('X')"  # noqa: S608
        yield from site.triggers_made()
        yield self._registration(site)
        yield "UNLOCK TABLES"

    def _registration(self, site: MySqlSite, removed: str = "NULL") -> str:
        before = site.registered
        since = "0" if before is None else str(before.columns_since)
        if before is not None and common.retyped(before.columns, site.columns):
            since = f"(SELECT coalesce(max(id), 0) FROM {site.changes})"  # noqa: S608
        values = {
            "change_table": literal(site.changes_name),
            "source": literal(site.table),
            "source_made": "NULL" if site.made is None else literal(str(site.made)),
            "key_columns": literal(json.dumps(site.key)),
            "columns": literal(json.dumps(site.columns)),
            "with_old": str(int(site.old)),
            "excluded": literal(json.dumps(site.excluded)),
            "accepted": literal(json.dumps(site.accepted)),
            "columns_since": since,
            "removed_at": removed,
        }
        names = [self._quote(name) for name in values]
        changed = ", ".join(f"{name} = VALUES({name})" for name in names[1:])
        return (
            f"INSERT INTO {site.captures} ({', '.join(names)}) VALUES ({', '.join(values.values())}) "  # noqa: S608
            f"ON DUPLICATE KEY UPDATE {changed}"
        )

    def _cost(self, site: MySqlSite) -> Cost:
        columns = ", ".join(map(self._quote, site.captured))  # an invisible one is in no *
        part = f"(SELECT {columns} FROM {site.source} LIMIT {common.SAMPLED}) AS t"  # noqa: S608
        results, times = [], []
        for sample in ("count(*)", f"avg(octet_length({site.row('t', site.captured)}))"):
            began = time.perf_counter()
            results.append(run(self._connection, f"SELECT {sample} FROM {part}").scalar_one())  # noqa: S608
            times.append(time.perf_counter() - began)
        return common.estimated(
            results[0],
            float(results[1] or 0),
            max(0.0, times[1] - times[0]),
            len(site.captured),
            old=site.old,
            change=_CHANGE_BYTES,
            write=_WRITE_MICROSECONDS,
        )

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """One installation at a time, which waits a short time for writers. Raises: Busy; Refusal, if the server
        denies a right."""
        run(self._connection, f"SET SESSION lock_wait_timeout = {max(1, round(common.LOCK_SECONDS))}")
        run(self._connection, f"SET SESSION innodb_lock_wait_timeout = {max(1, round(common.LOCK_SECONDS))}")
        seconds = max(1, round(common.LOCK_SECONDS))
        if not run(self._connection, f"SELECT get_lock('poller capture', {seconds})").scalar_one():
            raise Busy
        try:
            yield
        except DBAPIError as error:
            number = codes(error.orig)[1]
            if number in _BUSY:
                raise Busy from None
            if number == _BINARY_LOG:
                raise CaptureRefusal(
                    f"{self._wanted.table}: the user may not create triggers (1419): the server writes a binary log.",
                    next_step="Set log_bin_trust_function_creators = 1, or use a user with SUPER: --url-env SETTING.",
                ) from None
            if number in _DENIED:
                raise CaptureRefusal(
                    f"{self._wanted.table}: the user may not create triggers ({number}): CREATE, DROP, TRIGGER, LOCK "
                    "TABLES, SELECT, INSERT, UPDATE and DELETE on the database are needed.",
                    next_step="Grant them, or name a setting with the URL of a user who has them: --url-env SETTING.",
                ) from None
            raise
        finally:
            with contextlib.suppress(SQLAlchemyError):
                run(self._connection, "SELECT release_lock('poller capture')")


def _locks(site: MySqlSite) -> str:
    return f"LOCK TABLES {site.source} WRITE, {site.changes} WRITE, {site.captures} WRITE"
