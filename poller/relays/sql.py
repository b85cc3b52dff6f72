"""Rows into a table of another database, each once: an upsert through the fenced sink.

The whole batch goes in one go. Only where the database refuses it, row by row, each behind a savepoint, so that those
that are refused are named and the others are done.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from poller import forks
from poller.errors import ConfigError, PollerError
from poller.handler.batch import Batch
from poller.model.finding import Finding, error
from poller.ports import Row
from poller.relays.base import Relay
from poller.relays.messages import TookTooLong, retry_later
from poller.relays.sql_settings import SqlSettings

if TYPE_CHECKING:
    from sqlalchemy import Connection
    from sqlalchemy.exc import SQLAlchemyError

    from poller.relays.sql_target import Target, Upsert

__all__ = ["SqlRelay", "SqlSettings"]

CONFLICT_PAUSE = 1.0
"""Seconds until a batch comes again that stood in the way of another transaction."""


class NotTaken(PollerError):
    """The database does not take the batch, and which row is at fault is not known."""


class _Named:
    """The rows of a batch that failed so far. A later one with the same key in the table waits with them: else the
    earlier one would replace it when it comes again."""

    def __init__(self, batch: Batch, upsert: Upsert) -> None:
        self._batch = batch
        self._upsert = upsert
        self._keys: set[str] = set()

    def fail(self, row: Row, why: str) -> None:
        self._keys.add(self._upsert.key_of(row))
        self._batch.fail(row, why)

    def waits(self, row: Row) -> bool:
        """Whether an earlier row of its key failed; it is named too then."""
        if not self._keys or self._upsert.key_of(row) not in self._keys:
            return False
        self._batch.fail(row, "an earlier row of the same key failed")
        return True


class SqlRelay(Relay[SqlSettings]):
    """Writes each batch in one transaction; lanes have connections of their own."""

    exact_values = True

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
        except (SQLAlchemyError, OSError) as refused:  # the latter: of a file that the URL names
            failed = self._judged(refused, target)
        else:
            return
        raise failed  # the driver's own error may quote rows

    def checkup(self) -> list[Finding]:
        """Whether the database can be reached, verifies itself, and has the table."""
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
        from poller.sinks.sql import fenced

        upsert = target.upsert(tuple(batch.rows[0]))
        with target.engine.begin() as connection, fenced(connection, batch) as fresh:
            values = self._values(batch, upsert, fresh)
            if not values or self._in_one_go(connection, upsert, [one for _, one in values]):
                return
            self._row_by_row(batch, connection, upsert, values)

    @staticmethod
    def _values(batch: Batch, upsert: Upsert, rows: Sequence[Row]) -> list[tuple[Row, dict[str, Any]]]:
        """The rows as the table takes them; one with a value that the database does not have is named."""
        from poller.relays.sql_values import Unstorable

        found, named = [], _Named(batch, upsert)
        for row in rows:
            if named.waits(row):
                continue
            try:
                found.append((row, upsert.values(row)))
            except Unstorable as wrong:
                named.fail(row, str(wrong))
            except Exception as wrong:  # noqa: BLE001 - a type of the driver's, or of the user's own
                named.fail(row, f"a value of the row cannot be stored ({type(wrong).__name__})")
        return found

    @staticmethod
    def _in_one_go(connection: Connection, upsert: Upsert, values: list[dict[str, Any]]) -> bool:
        """Whether the database took all of them; else none is written. Raises: SQLAlchemyError, where it is no row's
        fault."""
        from sqlalchemy.exc import SQLAlchemyError

        from poller.relays.sql_errors import fault_of

        try:
            with connection.begin_nested():
                for piece in upsert.pieces(values):
                    connection.execute(upsert.statement, piece)
        except SQLAlchemyError as refused:
            if fault_of(refused) != "row":
                raise
            return False
        return True

    @staticmethod
    def _row_by_row(
        batch: Batch, connection: Connection, upsert: Upsert, values: Sequence[tuple[Row, dict[str, Any]]]
    ) -> None:
        """Each that the database takes; the others are named. Raises: as `_in_one_go`."""
        from sqlalchemy.exc import SQLAlchemyError

        from poller.relays.sql_errors import described, fault_of

        named = _Named(batch, upsert)
        for row, one in values:
            if named.waits(row):
                continue
            try:
                with connection.begin_nested():
                    connection.execute(upsert.statement, one)
            except SQLAlchemyError as refused:
                if fault_of(refused) != "row":
                    raise
                named.fail(row, described(refused))

    def _judged(self, failed: SQLAlchemyError | OSError, target: Target) -> Exception:
        """What is raised instead, without the driver's own words: they may quote rows."""
        from poller import tls
        from poller.relays.sql_errors import described, fault_of, said_of_tls

        fault, said = fault_of(failed), described(failed)
        if fault == "conflict":
            return retry_later(f"another transaction of the {target.place} stood in the way: {said}", CONFLICT_PAUSE)
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
