"""Capture in PostgreSQL: one function and a trigger for rows, a trigger for TRUNCATE, all in one transaction.

The function is SECURITY DEFINER: writers need no right on the change table. What it runs is qualified, and the settings
that decide how values become JSON are its own. It makes rows of `to_jsonb`, so no ALTER TABLE makes a writer fail.
A TRUNCATE of one partition fires no trigger of its parent, so each partition has one of its own, which writes a gap:
the keys are not known. A TRUNCATE of the parent fires the partitions' triggers too, after its own: those stay silent.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

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
    check_columns,
    run,
    transaction,
)
from poller.databases.errors import codes
from poller.databases.postgresql import facts as catalog
from poller.databases.postgresql.ddl import SETTINGS, gap_statements, row_of, statements
from poller.databases.postgresql.site import PostgreSqlSite, check, check_rights, literal

_BUSY = frozenset({"55P03", "40P01", "57014"})
_DENIED = "42501"
_CHANGE_BYTES, _WRITE_MICROSECONDS = 84, 7.0
"""The cost of a change without its rows, measured on PostgreSQL 15: 8 columns, 10,000 rows by one statement."""


_SHORTER = """SELECT set_config('lock_timeout', least({most}, greatest(1, floor(500 * extract(epoch FROM
  current_setting('deadlock_timeout')::interval))))::text, true)"""


class PostgreSqlCapture:
    """See `poller.databases.capture.Capture`."""

    def __init__(self, connection: Connection, wanted: CaptureRequest) -> None:
        self._connection = connection
        self._wanted = wanted
        self._quote = Quoter(connection, literal)

    def plan(self) -> CapturePlan:
        """See `Capture.plan`."""
        with transaction(self._connection, "BEGIN READ ONLY"):
            return self._planned(PostgreSqlSite(self._connection, self._wanted, self._quote))

    def install(self) -> CapturePlan:
        """See `Capture.install`."""
        with self._locking():
            site = PostgreSqlSite(self._connection, self._wanted, self._quote)
            plan = self._planned(site)
            self._spare_writers(site)
            for statement in plan.statements:
                run(self._connection, statement)
            self._revoke(PostgreSqlSite(self._connection, self._wanted, self._quote))
        return plan

    def _revoke(self, site: PostgreSqlSite) -> None:
        """Take what default privileges gave to others. Reading stays."""
        for kind, name in (("TABLE", site.changes), ("SEQUENCE", site.sequence), ("TABLE", site.captures)):
            for role, rights in catalog.writers(self._connection, name):
                run(self._connection, f"REVOKE {rights} ON {kind} {name} FROM {role}")
        for role in catalog.callers(self._connection, site.function):
            run(self._connection, f"REVOKE ALL ON FUNCTION {site.function}() FROM {role}")

    def _spare_writers(self, site: PostgreSqlSite) -> None:
        """Wait for a shorter time if more than one table is locked: a writer that waits for one of them and has
        another must not be the first to look for a deadlock, since the server ends who finds it."""
        before = site.registered
        if site.facts.partitions or (before is not None and before.oid != site.facts.oid):
            run(self._connection, _SHORTER.format(most=round(common.LOCK_SECONDS * 1000)))

    def remove(self, *, changes: bool) -> Removed:
        """See `Capture.remove`."""
        with self._locking():
            site = PostgreSqlSite(self._connection, self._wanted, self._quote)
            if site.registered is None:
                raise common.not_installed(site.facts.what, self._wanted.poller)
            self._spare_writers(site)
            there = catalog.function_of(self._connection, site.function) is not None
            if there:  # with its triggers, which only the table's owner may drop by themselves
                run(self._connection, f"DROP FUNCTION {site.function}() CASCADE")
            if not changes:
                if site.changes_there and not site.registered.removed:
                    for statement in gap_statements(site):
                        run(self._connection, statement)
                row = f"WHERE change_table = {literal(site.changes_name)} AND removed_at IS NULL"
                run(self._connection, f"UPDATE {site.captures} SET removed_at = now() {row}")  # noqa: S608
            else:
                run(self._connection, f"DROP TABLE IF EXISTS {site.changes}")
                row = f"WHERE change_table = {literal(site.changes_name)}"
                run(self._connection, f"DELETE FROM {site.captures} {row}")  # noqa: S608
                if not run(self._connection, f"SELECT 1 FROM {site.captures} LIMIT 1").all():  # noqa: S608
                    run(self._connection, f"DROP TABLE {site.captures}")
        return Removed(site.facts.what, site.changes_shown, there, changes)

    @contextmanager
    def record(self, most: int) -> Iterator[Record]:
        """See `Capture.record`."""
        with transaction(self._connection, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"):
            site = PostgreSqlSite(self._connection, self._wanted, self._quote)
            if site.registered is None or site.registered.removed:
                raise common.not_installed(site.facts.what, self._wanted.poller)
            for name, value in SETTINGS.items():
                run(self._connection, f"SET LOCAL {name} = {value}")
            run(self._connection, "SET LOCAL row_security = off")  # rows that a policy hides are an error
            newest = run(self._connection, f"SELECT coalesce(max(id), 0) FROM {site.changes}").scalar_one()  # noqa: S608
            yield Record(
                table=site.facts.what,
                changes=site.changes_shown,
                key=site.facts.key,
                since=site.registered.columns_since,
                replaces=False,
                rows_of_changes=self._changes(site, newest - most),
                rows=self._rows(site),
            )

    def _changes(self, site: PostgreSqlSite, after: int) -> Iterator[ChangeRow]:
        columns = "SELECT id, op::text, old::text, new::text FROM"
        while True:
            where = f"WHERE id > {after} ORDER BY id LIMIT {common.PAGE}"
            page = run(self._connection, f"{columns} {site.changes} {where}").all()
            yield from (ChangeRow._make(row) for row in page)
            if len(page) < common.PAGE:
                return
            after = page[-1][0]

    def _rows(self, site: PostgreSqlSite) -> Iterator[str]:
        row = row_of(site, "t.*")
        run(self._connection, f"DECLARE poller_rows NO SCROLL CURSOR FOR SELECT ({row})::text FROM {site.source} t")  # noqa: S608
        while page := run(self._connection, f"FETCH {common.PAGE} FROM poller_rows").all():
            yield from (text for (text,) in page)

    @contextmanager
    def _locking(self) -> Iterator[None]:
        """A transaction that waits a short time for locks, one at a time in the database. Raises: Busy; Refusal, if
        the server denies a right."""
        try:
            # READ COMMITTED: what was installed meanwhile is seen.
            with transaction(self._connection, "BEGIN ISOLATION LEVEL READ COMMITTED"):
                run(self._connection, f"SET LOCAL lock_timeout = '{common.LOCK_SECONDS}s'")
                run(self._connection, "SELECT pg_advisory_xact_lock(hashtext('poller capture'))")
                yield
        except DBAPIError as error:
            state = codes(error.orig)[0]
            if state in _BUSY:
                raise Busy from None
            if state == _DENIED:
                said = str(getattr(getattr(error.orig, "diag", None), "message_primary", None) or "a right is missing")
                raise CaptureRefusal(
                    f"{self._wanted.table}: the database denies it ({said}).",
                    next_step="Use the URL of a user who may: --url-env SETTING. Nothing was changed.",
                ) from None
            raise

    def _planned(self, site: PostgreSqlSite) -> CapturePlan:
        found, before = site.facts, site.registered
        check(found)
        check_rights(found)
        check_columns(found.what, list(found.columns), found.key, site.excluded)
        if before is None and (site.changes_there or site.function_there):
            raise common.foreign(found.what, site.changes_shown if site.changes_there else site.function)
        site.check_triggers()
        standing, gap = site.standing()
        return CapturePlan(
            table=found.what,
            changes=site.changes_shown,
            key=found.key,
            columns=tuple(name for name in found.columns if name not in site.excluded),
            old=site.old,
            standing=standing,
            gap=gap,
            statements=tuple(statements(site, gap)),
            warnings=tuple(site.warnings()),
            cost=self._cost(site),
        )

    def _cost(self, site: PostgreSqlSite) -> Cost:
        """By the first rows of the table, whose JSON is timed."""
        part = f"(SELECT * FROM {site.source} LIMIT {common.SAMPLED}) t"  # noqa: S608
        results, times = [], []
        for sample in ("count(*)", f"avg(pg_column_size({row_of(site, 't.*')}))"):
            began = time.perf_counter()
            results.append(run(self._connection, f"SELECT {sample} FROM {part}").scalar_one())  # noqa: S608
            times.append(time.perf_counter() - began)
        return common.estimated(
            results[0],
            float(results[1] or 0),
            max(0.0, times[1] - times[0]),
            len(site.facts.columns),
            old=site.old,
            change=_CHANGE_BYTES,
            write=_WRITE_MICROSECONDS,
        )
