"""Capture in SQLite: four triggers of one table, made in one transaction.

The trigger that was created last fires first, so ours are created again whenever another one came after them. A blob is
{"hex": ...} in a change and a real {"real": ...}: JSON has no blobs, and its numbers would lose digits.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy.engine import Connection
from sqlalchemy.exc import DBAPIError

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
    transaction,
)
from poller.databases.sqlite.ddl import SqliteSite, literal

_CHANGE_BYTES, _WRITE_MICROSECONDS = 70, 1.0
"""The cost of a change without its rows, measured on SQLite 3.40: 8 columns, 10,000 rows by one statement."""


class SqliteCapture:
    """See `poller.databases.capture.Capture`."""

    def __init__(self, connection: Connection, wanted: CaptureRequest) -> None:
        self._connection = connection
        self._wanted = wanted
        self._quote = Quoter(connection, literal)

    def plan(self) -> CapturePlan:
        """See `Capture.plan`."""
        with transaction(self._connection, "BEGIN"):
            return self._planned()

    def install(self) -> CapturePlan:
        """See `Capture.install`."""
        with self._writing():
            plan = self._planned()
            for statement in plan.statements:
                run(self._connection, statement)
        return plan

    def remove(self, *, changes: bool) -> Removed:
        """See `Capture.remove`."""
        with self._writing():
            site = self._site()
            if site.registered is None:
                raise common.not_installed(site.table, self._wanted.poller)
            there = not site.registered.removed
            for name in site.wanted:
                run(self._connection, f"DROP TRIGGER IF EXISTS {self._quote(name)}")
            row = f"WHERE change_table = {literal(site.changes_name)}"
            if changes:
                run(self._connection, f"DROP TABLE IF EXISTS {site.changes}")
                run(self._connection, f"DELETE FROM poller_captures {row}")  # noqa: S608
                if not run(self._connection, "SELECT 1 FROM poller_captures LIMIT 1").all():
                    run(self._connection, "DROP TABLE poller_captures")
            elif there and site.changes_there:
                run(self._connection, f"INSERT INTO {site.changes} (op) VALUES ('X')")  # noqa: S608
                now = "strftime('%Y-%m-%dT%H:%M:%fZ', 'now')"
                run(self._connection, f"UPDATE poller_captures SET removed_at = {now} {row}")  # noqa: S608
        return Removed(site.table, site.changes_name, there, changes)

    @contextmanager
    def record(self, most: int) -> Iterator[Record]:
        """See `Capture.record`."""
        with transaction(self._connection, "BEGIN"):
            site = self._site()
            if site.registered is None or site.registered.removed:
                raise common.not_installed(site.table, self._wanted.poller)
            newest = run(self._connection, f"SELECT coalesce(max(id), 0) FROM {site.changes}").scalar_one()  # noqa: S608
            yield Record(
                table=site.table,
                changes=site.changes_name,
                key=site.key,
                since=site.registered.columns_since,
                replaces=True,
                rows_of_changes=self._changes(site, newest - most),
                rows=self._rows(site),
            )

    def _changes(self, site: SqliteSite, after: int) -> Iterator[ChangeRow]:
        columns, encoding = "SELECT id, op, CAST(old AS BLOB), CAST(new AS BLOB) FROM", self._encoding()
        found: Any = run(self._connection, f"{columns} {site.changes} WHERE id > {after} ORDER BY id")
        for row in found:
            yield ChangeRow(row[0], row[1], _text(row[2], encoding), _text(row[3], encoding))

    def _rows(self, site: SqliteSite) -> Iterator[str]:
        row, encoding = site.row("t", site.captured), self._encoding()
        for (found,) in run(self._connection, f"SELECT CAST({row} AS BLOB) FROM {self._quote(site.table)} AS t"):  # noqa: S608
            yield _text(found, encoding) or "{}"

    def _encoding(self) -> str:
        """That of texts in the file."""
        return str(run(self._connection, "PRAGMA encoding").scalar_one())

    def _site(self) -> SqliteSite:
        return SqliteSite(self._connection, self._wanted, self._quote)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """A transaction that has the write lock. Raises: Busy; Refusal, if the file may not be written."""
        run(self._connection, f"PRAGMA busy_timeout = {int(common.LOCK_SECONDS * 1000)}")
        try:
            with transaction(self._connection, "BEGIN IMMEDIATE"):
                yield
        except DBAPIError as error:
            said = str(error.orig)
            if "locked" in said:
                raise Busy from None
            if "readonly" in said:
                raise CaptureRefusal(
                    f"{self._wanted.table}: this user may not write the database file, and so may not create triggers.",
                    next_step="Run the command as a user who may. Nothing was changed.",
                ) from None
            raise

    def _planned(self) -> CapturePlan:
        site = self._site()
        site.check()
        standing, gap = site.standing()
        return CapturePlan(
            table=site.table,
            changes=site.changes_name,
            key=site.key,
            columns=tuple(site.captured),
            old=site.old,
            standing=standing,
            gap=gap,
            statements=tuple(site.statements(gap)),
            warnings=tuple(site.warnings()),
            cost=self._cost(site),
        )

    def _cost(self, site: SqliteSite) -> Cost:
        part = f"(SELECT * FROM {self._quote(site.table)} LIMIT {common.SAMPLED}) AS t"  # noqa: S608
        results, times = [], []
        for sample in ("count(*)", f"avg(length({site.row('t', site.captured)}))"):
            began = time.perf_counter()
            results.append(run(self._connection, f"SELECT {sample} FROM {part}").scalar_one())  # noqa: S608
            times.append(time.perf_counter() - began)
        return common.estimated(
            results[0],
            results[1] or 0,
            max(0.0, times[1] - times[0]),
            len(site.captured),
            old=site.old,
            change=_CHANGE_BYTES,
            write=_WRITE_MICROSECONDS,
        )


def _text(value: bytes | None, encoding: str) -> str | None:
    """JSON that may hold what is not a text in its encoding."""
    if value is None:
        return None
    return value.decode(encoding, "surrogateescape" if encoding == "UTF-8" else "surrogatepass")
