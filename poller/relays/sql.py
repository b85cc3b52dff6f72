"""Rows into a table of another database, each once: an upsert through the fenced sink.

The whole batch goes in one go. Only where the database refuses it, row by row, each behind a savepoint, so that those
that are refused are named and the others are done. Changes of a captured table are carried out in their order: deletes
by key, and an emptied table where the settings allow it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import groupby
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from poller import forks
from poller.errors import ConfigError, PollerError
from poller.handler.batch import Batch
from poller.model.captured import CHANGE, OP
from poller.model.finding import Finding, error
from poller.ports import Row
from poller.relays.base import Relay
from poller.relays.messages import TookTooLong, retry_later
from poller.relays.sql_settings import SqlSettings

if TYPE_CHECKING:
    from sqlalchemy import Connection
    from sqlalchemy.exc import SQLAlchemyError

    from poller.relays.sql_target import Target
    from poller.relays.sql_upsert import RowStatement, SnapshotSweep, Upsert

__all__ = ["SqlRelay", "SqlSettings"]

CONFLICT_PAUSE = 1.0
"""Seconds until a batch comes again that was in the way of another transaction."""


class NotTaken(PollerError):
    """The database does not take the batch, and which row is at fault is not known."""


class _Named:
    """The rows of a batch that failed so far. A later one with the same key in the table waits with them: else the
    earlier one would replace it when it comes again. A change of all rows waits for each, and each waits for it."""

    def __init__(self, batch: Batch, upsert: Upsert) -> None:
        self._batch = batch
        self._upsert = upsert
        self._keys: set[str | None] = set()

    def fail(self, row: Row, why: str) -> None:
        self._keys.add(self._upsert.key_of(row))
        self._batch.fail(row, why)

    def waits(self, row: Row) -> bool:
        """True if an earlier row of its key failed; it is named too then."""
        if not self._keys:
            return False
        key = self._upsert.key_of(row)
        if key is not None and key not in self._keys and None not in self._keys:
            return False
        self.fail(row, "an earlier row of the same key failed")
        return True


def _is_change(row: Row) -> bool:
    """True for a row of a captured table; another table may have a column `_op` too."""
    return OP in row and CHANGE in row


class SqlRelay(Relay[SqlSettings]):
    """Writes each batch in one transaction; lanes have connections of their own."""

    exact_values = True
    knows_changes = True

    def __init__(
        self, settings: SqlSettings, *, environ: Mapping[str, str] | None = None, folder: Path | None = None
    ) -> None:
        super().__init__(settings, environ=environ, folder=folder)
        given = settings.url
        text = self.variable("url_env", settings.url_env or "") if given is None else given.get_secret_value()
        self._open = self._opening(text)
        self._reset_after_fork()
        forks.before(self._leave_nothing_open)
        forks.in_child(self._reset_after_fork)
        self._target: Target | None = self._open()

    def __call__(self, batch: Batch) -> None:
        """Raises: RetryLater (an outage), TookTooLong, NotTaken, ConfigError (the table is another one), Fenced."""
        from sqlalchemy.exc import SQLAlchemyError

        failed: Exception
        target = self._of_this_process()
        try:
            self._write(batch, target)
        except ConfigError as wrong:
            message = f"`relay.{wrong.key}` {wrong.message}" if wrong.key else wrong.message
            failed = ConfigError(message, key=wrong.key, next_step=wrong.next_step)
        except (SQLAlchemyError, OSError) as refused:  # the latter: of a file that the URL names
            failed = self._judged(refused, target)
        else:
            return
        raise failed  # the driver's own error may quote rows

    def checkup(self) -> list[Finding]:
        """Check that the database can be reached, verifies itself, and has the table."""
        return self._checked(lambda target: [*target.security(self.environ), *target.checkup()])

    def check_columns(self, columns: tuple[str, ...]) -> list[Finding]:
        """An error for a column that the table lacks, or that takes no value of a row."""
        return self._checked(lambda target: target.check_columns(columns))

    def _checked(self, look: Callable[[Target], list[Finding]]) -> list[Finding]:
        from sqlalchemy.exc import SQLAlchemyError

        target = self._of_this_process()
        try:
            return look(target)
        except ConfigError as wrong:
            return [error("relay", f"`relay.{wrong.key}` {wrong.message}", wrong.next_step)]
        except (SQLAlchemyError, OSError) as failed:
            judged = self._judged(failed, target)
            return [error("relay", f"{judged}.", "Look at the relay's url, and whether the server runs.")]

    def close(self) -> None:
        """See `Relay.close`."""
        if self._target is not None:
            self._target.close()

    # ---------------------------------------------------------------------------------------------------- the batch

    def _write(self, batch: Batch, target: Target) -> None:
        from poller.relays.sql_snapshot import OpenSnapshot
        from poller.sinks.sql import fenced

        upsert = target.upsert(tuple(batch.rows[0]))
        with target.engine.begin() as connection, fenced(connection, batch) as fresh:
            self._check_truncate(upsert, fresh, target)
            self._check_snapshot(connection, upsert, fresh, target)
            if upsert.delete is None or not fresh:
                self._carry_out(batch, connection, upsert, fresh, None)
                return
            snapshot = OpenSnapshot(connection, batch, target.name)
            before = None if upsert.sweep is None else snapshot.mark  # without a mark of this batch it is over
            after = self._carry_out(batch, connection, upsert, fresh, before)
            snapshot.become(after)
            if after is not None and upsert.sweep is not None:
                self._keep_failed(batch, connection, upsert, upsert.sweep, after)

    def _carry_out(
        self, batch: Batch, connection: Connection, upsert: Upsert, rows: Sequence[Row], snapshot: int | None
    ) -> int | None:
        """Write the rows; those that fail are named. Returns the mark of the snapshot that is open then."""
        steps = self._steps(batch, upsert, rows, snapshot)
        if steps and not self._in_one_go(connection, upsert, steps):
            steps = self._row_by_row(batch, connection, upsert, steps)
        return steps[-1].snapshot if steps else snapshot

    def _check_truncate(self, upsert: Upsert, rows: Sequence[Row], target: Target) -> None:
        """Raises: RetryLater, if the table was emptied and the target is not to be: nothing is written then."""
        if upsert.empty is not None and self.settings.on_truncate == "stop" and any(row[OP] == "T" for row in rows):
            raise retry_later(
                f'the source table was emptied (TRUNCATE), and on_truncate is "stop": the {target.place} is left as it '
                'is, and no later change is carried out. Set on_truncate = "delete" in the relay to empty it too'
            )

    def _check_snapshot(self, connection: Connection, upsert: Upsert, rows: Sequence[Row], target: Target) -> None:
        """Raises: RetryLater, if a snapshot begins and the target has rows that are not to be deleted."""
        from sqlalchemy import literal, select

        if not any(_is_change(row) and row[OP] == "B" for row in rows):
            return
        if upsert.empty is None:
            raise NotTaken(
                f'A snapshot of the source table begins, and mode is "insert": the {target.place} would have rows that '
                'are no changes. Set start_from to "beginning" or "now", and reset the poller there'
            )
        if self.settings.on_snapshot != "stop":
            return
        if connection.execute(select(literal(1)).select_from(upsert.empty.table).limit(1)).first() is not None:
            raise retry_later(
                f'a snapshot of the source table begins, and on_snapshot is "stop": the {target.place} has rows, and '
                'some of them may be in the source no longer. Empty it, or set on_snapshot = "sweep" in the relay'
            )

    @staticmethod
    def _steps(batch: Batch, upsert: Upsert, rows: Sequence[Row], snapshot: int | None) -> list[RowStatement]:
        """What is done for the rows; one with a value that the database does not have is named."""
        from poller.relays.sql_values import Unstorable

        named = _Named(batch, upsert)
        found: list[RowStatement] = []
        for row in rows:
            if named.waits(row):
                continue
            try:
                found.append(upsert.step(row, found[-1].snapshot if found else snapshot))
            except Unstorable as wrong:
                named.fail(row, str(wrong))
            except Exception as wrong:  # noqa: BLE001 - a type of the driver's, or of the user's own
                named.fail(row, f"a value of the row cannot be stored ({type(wrong).__name__})")
        return found

    @staticmethod
    def _in_one_go(connection: Connection, upsert: Upsert, steps: list[RowStatement]) -> bool:
        """True if the database took all of them; else none is written. Raises: SQLAlchemyError, if no row is at
        fault."""
        from sqlalchemy.exc import SQLAlchemyError

        from poller.relays.sql_errors import fault_of

        try:
            with connection.begin_nested():
                for _, alike in groupby(steps, lambda step: id(step.statement)):  # in order, as few as can be
                    some = list(alike)
                    statement = some[0].statement
                    if statement is None:
                        continue
                    for piece in upsert.pieces([one.values for one in some]):
                        connection.execute(statement, piece if some[0].values else None)
        except SQLAlchemyError as refused:
            if fault_of(refused) != "row":
                raise
            return False
        return True

    @staticmethod
    def _row_by_row(
        batch: Batch, connection: Connection, upsert: Upsert, steps: Sequence[RowStatement]
    ) -> list[RowStatement]:
        """Each that the database takes, which it returns; the others are named. Raises: as `_in_one_go`."""
        from sqlalchemy.exc import SQLAlchemyError

        from poller.relays.sql_errors import described, fault_of

        named = _Named(batch, upsert)
        done: list[RowStatement] = []
        for step in steps:
            if named.waits(step.row):
                continue
            try:
                if step.statement is not None:
                    with connection.begin_nested():
                        connection.execute(step.statement, step.values)
            except SQLAlchemyError as refused:
                if fault_of(refused) != "row":
                    raise
                named.fail(step.row, described(refused))
            else:
                done.append(step)
        return done

    @staticmethod
    def _keep_failed(batch: Batch, connection: Connection, upsert: Upsert, sweep: SnapshotSweep, mark: int) -> None:
        """What the table has of a row that failed stays at the end of the snapshot: the source has the row, and if it
        is discarded, then only this version of it. Raises: as `_in_one_go`."""
        from sqlalchemy.exc import SQLAlchemyError

        from poller.relays.sql_errors import fault_of

        for row in (batch.rows[failure.position] for failure in batch.failures):
            key: dict[str, Any] | None = None
            with suppress(Exception):  # no row of the table has such a key
                key = upsert.key(row) if row[OP] in "RIU" else None
            if key is None:
                continue
            try:
                with connection.begin_nested():
                    connection.execute(sweep.keep, {**key, "mark": mark})
            except SQLAlchemyError as refused:
                if fault_of(refused) != "row":
                    raise

    def _judged(self, failed: SQLAlchemyError | OSError, target: Target) -> Exception:
        """What is raised instead, without the driver's own words: they may quote rows."""
        from poller import tls
        from poller.relays.sql_errors import described, fault_of, said_of_tls

        fault, said = fault_of(failed), described(failed)
        if fault == "conflict":
            target.end_stalled()
            return retry_later(f"another transaction of the {target.place} is in the way: {said}", CONFLICT_PAUSE)
        target.forget()  # the table, or what the server takes at once, may be another when it is back
        if fault == "outage":
            step = f". {tls.repair(target.engine.url).removesuffix('.')}" if said_of_tls(failed) else ""
            return retry_later(f"the {target.place} is not available: {said}{step}")
        if fault == "slow":
            return TookTooLong(f"The {target.place}", "a batch", self.settings.timeout, said)
        return NotTaken(f"The {target.place} refused a batch: {said}")

    # ---------------------------------------------------------------------------------------------- the connection

    def _opening(self, text: str) -> Callable[[], Target]:
        def made() -> Target:
            from poller.relays.sql_target import Target

            return Target(text, self.settings, environ=self.environ, folder=self.folder)

        return made

    def _of_this_process(self) -> Target:
        with self._making:
            if self._target is None:
                self._target = self._open()
            return self._target

    def _leave_nothing_open(self) -> None:
        """Before a fork: SQLite's locks are per process."""
        if self._target is not None:
            self._target.before_a_fork()

    def _reset_after_fork(self) -> None:
        """In a child process: the connections are the parent's."""
        self._making = Lock()
        target: Target | None = getattr(self, "_target", None)
        if target is not None:
            target.abandon()
