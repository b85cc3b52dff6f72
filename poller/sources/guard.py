"""One piece of work on a source's connection: repeated if that may help, with driver errors translated."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable
from typing import TypeVar

from sqlalchemy.exc import DBAPIError, PendingRollbackError, SQLAlchemyError

from poller import once
from poller.databases import tokens
from poller.databases.urls import place
from poller.errors import PollerError, SourceError, SourceUnavailable
from poller.model.durations import format_duration
from poller.model.fingerprint import DatabaseIdentity
from poller.sources.faults import (
    QUOTING_FAULTS,
    SCHEMA_FAULTS,
    Fault,
    Scrubber,
    Where,
    driver_code,
    driver_text,
    to_error,
)
from poller.sources.inspection import did_you_mean
from poller.sources.options import ReadOptions
from poller.sources.records import setting_changed, unread_position
from poller.sources.rows import CONVERSION_ERRORS
from poller.sources.session import SourceSession

_T = TypeVar("_T")
SHOWN = "Read as a role with BYPASSRLS or as the table's owner, or read a view of such a role that hides no row."
"""What to do about row level security."""
_MISFITS = ("SQLSTATE 22", "SQLSTATE 23")
"""A value that a type does not take, or that breaks the rule of a domain."""


class Guard:
    """Of one session of a source. Used by one thread at a time, but for the one that reads ahead.

    Args:
        identity: of the database, for messages. scrub: removes the URL's secrets from them.
    """

    def __init__(
        self, session: SourceSession, options: ReadOptions, identity: DatabaseIdentity, scrub: Scrubber
    ) -> None:
        self._session = session
        self._options = options
        self._identity = identity
        self._scrub = scrub

    def of(self, session: SourceSession) -> Guard:
        """The same for another session of the source."""
        return Guard(session, self._options, self._identity, self._scrub)

    def __call__(self, work: Callable[[], _T], keep: Callable[[_T], bool] = lambda _: False) -> _T:
        """Do the work; reads may be done again, once: on a new connection when the one in use broke while it rested,
        with the table looked at again when it changed; and once with what the driver cannot convert as text. Driver
        errors become ours, in one line and without secrets. `keep`: whether the connection is of use after this."""
        with self._session.database.using:
            try:
                return self._guarded(work, keep)
            except PollerError:
                self._session.database.rest()
                raise
            except BaseException:
                self._session.database.discard_borrowed()  # interrupted: its state is not known
                raise

    def _guarded(self, work: Callable[[], _T], keep: Callable[[_T], bool]) -> _T:
        database = self._session.database
        may_retry = True
        while True:
            database.begin_work()
            had_learned = self._session.table.known is not None
            try:
                done = work()
                database.end_work(keep=keep(done))
                return done
            except SourceError as error:
                self._session.bounding.drop()
                if not self._session.error_text:
                    error.hide_values()
                raise
            except (SQLAlchemyError, NotImplementedError, *CONVERSION_ERRORS) as error:
                self._session.bounding.drop()
                if database.read_leniently(error):
                    continue
                if isinstance(error, DBAPIError | PendingRollbackError):
                    fault = self._fault_of(error)
                    hidden = self._hidden_by(fault, error)
                    database.discard()
                    if fault is Fault.DISCONNECTED:
                        database.renew()
                    again = (fault is Fault.DISCONNECTED and database.rested) or (
                        fault in SCHEMA_FAULTS and had_learned
                    )
                    failure = None if again and may_retry else self._failure(fault, error, hidden)
                    if failure is None:
                        once.forget()
                    self._session.table.forget()
                elif isinstance(error, SQLAlchemyError):
                    database.discard()
                    failure = self._unsigned(error) or self._failure(Fault.OTHER, error)
                else:
                    failure = self._unread(error)
            if failure is not None:
                database.end_work(failed=True)
                raise failure from None
            may_retry = False

    def _unread(self, error: BaseException) -> SourceError:
        """The error if the driver failed on a value."""
        if isinstance(error, NotImplementedError):  # psycopg's, of a form of times that it does not read
            self._session.database.discard()
            return setting_changed(self._options, str(error).partition(":")[0])  # the rest is the value
        if isinstance(error, OverflowError):  # a driver that looks at the numbers itself: SQLite's
            return self._failure(Fault.RANGE, error)
        return unread_position(self._options, error)

    def _fault_of(self, error: DBAPIError | PendingRollbackError) -> Fault:
        """The latter is said of a connection that broke before, if that was taken for a lack of privileges."""
        return self._session.database.dialect.classify(error) if isinstance(error, DBAPIError) else Fault.DISCONNECTED

    def _hidden_by(self, fault: Fault, error: DBAPIError | PendingRollbackError) -> str:
        """See `Dialect.hidden_by`."""
        if fault is Fault.FORBIDDEN and isinstance(error, DBAPIError):
            with contextlib.suppress(Exception):  # the server has said enough
                return self._session.database.dialect.hidden_by(error, self._session.database.run)
        return ""

    def _failure(self, fault: Fault, failed: BaseException, hidden: str = "") -> SourceError:
        if fault in QUOTING_FAULTS and not self._session.error_text:
            detail = driver_code(failed)
        else:
            text = driver_text(failed) if isinstance(failed, DBAPIError) else str(failed)
            detail = self._scrub(text).rstrip(".")
        o, known = self._options, self._session.table.known
        identity = tokens.identity_of(self._session.database.engine)
        if identity is not None and fault is Fault.UNREACHABLE and tokens.speaks_of_token(detail):
            fault = Fault.LOGIN
        if hidden:
            return SourceError(f"{o.what}: {hidden}, so no row is read.", table=o.what, next_step=SHOWN)
        captured = self._session.captured
        if captured is not None and driver_code(failed).startswith(_MISFITS):
            return captured.unreadable(detail)
        where = Where(o.what, place(self._identity), format_duration(o.query_timeout), str(identity or ""))
        error = to_error(fault, detail, where)
        if fault is Fault.NO_COLUMN:
            found = re.search(r"column:?\s+[\"'`]?(?:\w+\.)?(\w+)", detail, re.IGNORECASE)
            error.column = found[1] if found else ""
            if found and known is not None:
                error.next_step = f"{did_you_mean(found[1], known.names)} {error.next_step}".strip()
        return error

    def _unsigned(self, failed: SQLAlchemyError) -> SourceError | None:
        """The error if no token is available."""
        if not isinstance(failed, tokens.NoToken):
            return None
        what = self._options.what
        return SourceUnavailable(f"{what}: {failed.message}.", table=what, next_step=failed.next_step)
