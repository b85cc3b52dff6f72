"""`SqlSource`: a table or query of any SQLAlchemy database, read in (cursor, primary key) order."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack

from sqlalchemy.engine import URL, Engine
from sqlalchemy.exc import DBAPIError, PendingRollbackError, SQLAlchemyError

from poller import forks, once
from poller.config import PollerConfig, SourceKeywords, SourceOptions
from poller.config.keywords import signature
from poller.config.problems import located
from poller.config.suggestions import did_you_mean
from poller.databases import pools, tokens
from poller.databases.urls import family_of, identify, place
from poller.entra import Identity
from poller.errors import ConfigError, PollerError, SourceError, SourceUnavailable
from poller.model.cursor import Cursor
from poller.model.durations import format_duration
from poller.model.fingerprint import DatabaseIdentity, SourceDescription
from poller.ports import Bound, InspectableSource, Lag, Page, Row, Table
from poller.sources.captured import Captured
from poller.sources.columns import parse_utc
from poller.sources.connection import Database, engine_of, make_pool, quoter, read_url
from poller.sources.database import Form, ResolvedNames, dialect_for
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
from poller.sources.options import ReadOptions, check_bound, read_options
from poller.sources.page import Relation
from poller.sources.probing import ProbeSubject
from poller.sources.records import setting_changed, unread_position
from poller.sources.rows import CONVERSION_ERRORS, idempotency_key
from poller.sources.session import SourceSession
from poller.sources.snapshots import Snapshots
from poller.sources.table import Learned
from poller.sources.user_sql.checked import calls_functions, checked_sql

if TYPE_CHECKING:
    from poller.sources.checkup import Checkup


class SqlSource(InspectableSource):
    """Rows of a table, view or query, in the order of a cursor column and a key. Implements `poller.ports.Source`.

    Nothing is opened until the first read. Sources made from URLs of one database and user share a pool of at most
    `connections` connections in this process (of several numbers the highest counts): one is borrowed for a page, kept
    through a run of full pages while no other borrower waits for it, and given back. The sessions are in autocommit and
    read-only. With an Engine, and on SQLite, one connection of its own is held until `close`.
    The options are the keys of `[pollers.NAME.source]` in `poller.toml` (docs/configuration.md); durations are text
    (`"30s"`) or timedeltas.

    Raises (here): ConfigError naming the key that is wrong.
    """

    can_order = True
    _poller = ""

    def __init__(
        self, url: str | URL | Engine, *, connections: int = pools.DEFAULT, **options: Unpack[SourceKeywords]
    ) -> None:
        given = o = read_options(options)
        parsed = read_url(url)
        dialect = dialect_for(family_of(parsed))
        check_bound(o.bound, o.cursor_kind, dialect.family)
        if o.capture:
            o = o.of_changes(dialect.changes(o.table or "", o.schema_name, str).name)
        condition, wrapped = checked_sql(o.filter, o.query, dialect.family, o.cursor_column)
        identity = _identity(url, o, connections)
        has_engine = isinstance(url, Engine)
        pool = None if has_engine else make_pool(parsed, dialect, o.query_timeout, connections, identity)
        if pool is not None and o.format == "arrow" and dialect.has_adbc:
            pool.each = 2  # ADBC's stands beside it
        at = url if isinstance(url, Engine) else parsed
        engine = engine_of(at, pool, dialect, o.query_timeout, identity)
        quote = quoter(engine)
        if wrapped is None:
            relation = Relation.table(o.table or "", o.schema_name, condition, quote)
        else:
            relation = Relation.query(wrapped, condition)
        self._given, self._options, self._pool = given, o, pool
        self.subject = ProbeSubject(at, dialect, o, relation, quote, identity)
        """What a `probing.RowProbe` needs to ask whether rows wait, on a connection of its own."""
        self._session = self._opened(engine)
        where = identify(parsed)
        self._guard = Guard(self._session, where, Scrubber.of(parsed))
        description = SourceDescription(
            database=where,
            schema_name=o.schema_name,
            table=o.table,
            query=o.query,
            cursor_column=o.cursor_column,
            cursor_kind=o.cursor_kind,
            pk_columns=o.pk_columns,
            filter=o.filter,
            left_open=dialect.left_open(parsed, where, o),
        )
        self._description = description.of_capture(given.table or "") if o.capture else description
        self._snapshots = Snapshots(self._session) if o.capture else None
        self._said: ResolvedNames | None = None
        self.captured = o.capture
        self._mind_forks()

    def _opened(self, engine: Engine) -> SourceSession:
        """The reads, on a connection of their own."""
        on, o = self.subject, self._options
        form: Form = "parsed" if o.parses_json else "text"
        database = Database(engine, on.dialect, o.query_timeout, form=form, pool=self._pool)
        database.may_set = calls_functions(o.filter, o.query, on.dialect.family)
        tables = captured = None
        if o.format == "arrow":
            tables = on.dialect.tables(o.what, own_engine=not isinstance(on.url, Engine))
        if o.capture:
            changes = on.dialect.changes(self._given.table or "", o.schema_name, on.quote)
            captured = Captured(changes, database, on.relation.alias, self._given.columns)
        return SourceSession(Learned(database, o, on.relation, on.quote, captured), tables)

    def another(self) -> Self:
        """One of the same rows with a connection of its own, for another thread. Shares an engine that was given, and
        the pool, whose connections stay open until this one is closed too."""
        if self._pool is not None:
            self._pool.join(self._session.database)
        other = copy(self)
        on, timeout = self.subject, self._options.query_timeout
        other._session = self._opened(engine_of(on.url, self._pool, on.dialect, timeout, on.identity))
        other._guard = self._guard.of(other._session)
        other._snapshots = Snapshots(other._session) if self.captured else None
        other._said, other._description = None, self._description.as_configured()
        other._name_poller()
        other.error_text, other.ordering_key, other.exact = self.error_text, self.ordering_key, self.exact
        other._mind_forks()
        return other

    def _name_poller(self) -> None:
        """Messages of its capture name the poller."""
        if self._session.captured is not None and self._poller:
            self._session.captured.changes.poller = self._poller

    def _mind_forks(self) -> None:
        forks.before(self._before_fork)
        forks.in_child(self._reset_after_fork)

    @classmethod
    def from_config(
        cls,
        config: PollerConfig,
        name: str,
        *,
        file: str = "",
        connections: int = pools.DEFAULT,
        dispatched: bool = False,
    ) -> Self:
        """The source that `[pollers.NAME.source]` of a file describes.

        Args:
            connections: of its pool. dispatched: whether a dispatcher asks its database too.
        Raises: ConfigError, with its place in the file, for an invalid URL or filter, or keys that contradict each
            other.
        """
        try:
            source = cls(connections=connections, **config.source.keywords())
        except ConfigError as error:
            raise located(error, f"pollers.{name}.source", file) from None
        source.error_text = config.error_text
        source._poller = name
        source._name_poller()
        pool = source._session.database.pool
        if pool is not None:
            pool.dispatched = pool.dispatched or dispatched
        return source

    def _before_fork(self) -> None:
        self._session.database.before_fork()

    def _reset_after_fork(self) -> None:
        """In a child process: connection and samples are the parent's, also while another of its threads uses them."""
        self._session.database.reset_after_fork()
        self._session.bounding.reset_after_fork()
        self._session.table.forget()

    def __repr__(self) -> str:
        return f"SqlSource({self._options.what!r}, {place(self._description.as_configured().database)!r})"

    @property
    def error_text(self) -> bool:
        """True if errors may quote what a row holds, as the database says it."""
        return self._session.error_text

    @error_text.setter
    def error_text(self, shown: bool) -> None:
        self._session.error_text = shown

    @property
    def ordering_key(self) -> tuple[str, ...]:
        """See `poller.ports.Source`."""
        captured = self._session.captured
        return self._session.table.ordering if captured is None else captured.ordering

    @ordering_key.setter
    def ordering_key(self, columns: tuple[str, ...]) -> None:
        self._session.table.order_by(columns)

    @property
    def exact(self) -> bool:
        """See `poller.ports.Source`."""
        return self._session.database.exact

    @exact.setter
    def exact(self, wanted: bool) -> None:
        self._session.database.exact = wanted

    # ------------------------------------------------------------------------------------------------- ports.Source

    @property
    def query_timeout(self) -> timedelta:
        """The time that each of its queries may take; a tick keeps its lease for the few of a page."""
        return self._options.query_timeout

    def describe(self) -> SourceDescription:
        """See `poller.ports.Source.describe`. What the configuration leaves to the server (a schema, a database) is
        known from the first read on."""
        said = self._session.table.whereabouts
        if said is not None and said is not self._said:
            self._said, self._description = said, self._description.resolved(said.said)
        return self._description

    def locate(self) -> SourceDescription:
        """`describe` with what the server says of the names in the configuration. Raises: SourceError."""
        if self.describe().left_open:
            self._guard(self._session.table.locate)
        return self.describe()

    def missing(self) -> SourceError | None:
        """Why the configured source cannot be read as it is configured: it cannot be reached, or has no such database,
        table or column; None if it can. Asks the server."""
        try:
            self._guard(self._session.table.learn)
        except SourceError as error:
            return error
        except ConfigError:
            return None
        return None

    @property
    def start_from(self) -> str:
        """`start_from` as configured, as text."""
        return self._options.start

    @property
    def starts_now(self) -> bool:
        """True if rows count from the first tick on only (`start_from = "now"`)."""
        return self._options.start == "now"

    def start(self) -> Cursor | None:
        """See `poller.ports.Source.start`. `now` in a table without rows is the beginning, if the form of its
        timestamps is not known yet (SQLite)."""
        wanted = self._options.start
        if self.captured and wanted == "snapshot":
            return self.begin_snapshot()
        if self.captured and wanted == "now":
            return self._guard(self._session.now_of_changes)
        if wanted == "beginning":
            return None
        if wanted == "now":
            return self._guard(self._session.now)
        try:
            return self._guard(lambda: self._session.table.parse_cursor(wanted, None))
        except SourceError as refused:
            if wanted not in refused.message:
                raise
            # What the file says may have come out of a setting, and is never repeated: only why it is none.
            said = refused.message.replace(repr(wanted), "`start_from`")
            if said == refused.message:  # it is quoted in another form
                said = f"{self._options.what}: `start_from` is not a value of column {self._options.cursor_column}."
            raise SourceError(
                said,
                table=refused.table,
                column=refused.column,
                next_step=refused.next_step,
            ) from None

    def begin_snapshot(self) -> Cursor | None:
        """See `poller.ports.Source.begin_snapshot`."""
        return None if self._snapshots is None else self._guard(self._snapshots.beginning)

    def page(
        self, after: Cursor | None, limit: int, *, lag_cap: int | None = None, until: Cursor | None = None
    ) -> Page:
        """See `poller.ports.Source.page`. Rows are plain dicts of the user's columns in select order.

        `until`: no row beyond it either; without a tiebreaker only rows below its value."""
        return self._page(after, limit, until, again=False, lag_cap=lag_cap)

    def _page(
        self, after: Cursor | None, limit: int, until: Cursor | None, *, again: bool, lag_cap: int | None
    ) -> Page:
        self._refuse_foreign(after, until)

        def work() -> Page:
            snapshots = self._snapshots
            if snapshots is not None and after is not None and after.snapshot is not None and until is None:
                return snapshots.page(after, limit, again=again)
            return self._session.page(after, limit, until, again=again, lag_cap=lag_cap)

        return self._guard(work, keep=lambda page: page.more or len(page.rows) >= limit)

    def next_page(
        self, after: Cursor | None, limit: int, *, lag_cap: int | None = None, until: Cursor | None = None
    ) -> Page:
        """See `poller.ports.Source.next_page`; `until` as for `page`."""
        return self._page(after, limit, until, again=True, lag_cap=lag_cap)

    def lag(self, after: Cursor | None, *, cap: int) -> Lag:
        """See `poller.ports.Source.lag`. Rows above the bound count too: they wait as well."""
        self._refuse_foreign(after)

        def work() -> Lag:
            if self._snapshots is not None and after is not None and after.snapshot is not None:
                return self._snapshots.lag(after, cap)
            return self._session.lag(after, cap)

        return self._guard(work)

    def key(self, row: Row, cursor: Cursor) -> str:  # noqa: ARG002 - the cursor holds the row's key, unchangeably
        """See `poller.ports.Source.key`."""
        o = self._options
        name = o.what if o.query is None else "query-" + hashlib.sha256(o.query.encode()).hexdigest()[:12]
        return idempotency_key(name, cursor)

    def remember(self) -> dict[str, Any] | None:
        """See `poller.ports.Source.remember`."""
        return self._session.bounding.remember()

    def recall(self, memory: Mapping[str, Any]) -> None:
        """See `poller.ports.Source.recall`."""
        self._session.bounding.recall(memory)

    def facts(self) -> dict[str, Any] | None:
        """See `poller.ports.Source.facts`."""
        return self._session.basis.facts()

    def rests_on(self, facts: Mapping[str, Any] | None) -> None:
        """See `poller.ports.Source.rests_on`."""
        self._session.basis.rest_on(facts)

    def dated(self, cursor: Cursor) -> datetime | None:
        """See `poller.ports.Source.dated`."""
        timed = self._options.is_timed
        return parse_utc(cursor.value, self._options.zone) if timed else None

    def close(self) -> None:
        """Close the connection, or give it back to the pool, which closes all of them with its last source; forget what
        was learned of the table. May be used again afterwards."""
        self._session.bounding.close()
        self._session.database.close()
        self._session.table.forget()

    # -------------------------------------------------------------------------- for the console, `check` and others

    def parse_cursor(self, value: str, pk: Mapping[str, str] | None) -> Cursor:
        """The cursor that a person typed: its text read by the database and given back in the column's own form.

        Every key column is required, except one that is the cursor column itself; without any key (None) the cursor
        means "at or after". Raises: SourceError naming a column.
        """
        return self._guard(lambda: self._session.table.parse_cursor(value, pk))

    def count_between(self, low: Cursor | None, high: Cursor | None, *, cap: int) -> tuple[int, bool]:
        """The number of rows after `low` and up to `high` (None: the beginning), and whether `cap` cut the count."""
        self._refuse_foreign(low, high)
        return (0, False) if high is None else self._guard(lambda: self._session.count_between(low, high, cap))

    def cursor_at(self, low: Cursor | None, high: Cursor, number: int) -> Cursor | None:
        """The cursor of the row with that number, from 1, of those after `low` and up to `high`; None without one."""
        self._refuse_foreign(low, high)
        return self._guard(lambda: self._session.cursor_at(low, high, number))

    def null_cursors(self, cap: int) -> int:
        """The number of rows that have no cursor, counted up to `cap`."""
        return self._guard(lambda: self._session.null_cursors(cap))

    def bound(self) -> Bound:
        """The bound of this moment, as the next page would use it."""

        def work() -> Bound:
            known = self._session.table.learn()
            return self._session.to_come() if known is None else self._session.sample(known)

        return self._guard(work)

    def span(self, low: Cursor | None, high: Cursor | None, limit: int) -> Page:
        """Up to `limit` rows after `low` and up to `high`, whatever the bound is, for looking back (`recheck`)."""
        self._refuse_foreign(low, high)
        return self._guard(lambda: self._session.span(low, high, limit))

    def row_of(self, pk: Mapping[str, str]) -> Page:
        """The row with this key as it is now, whatever the bound is: see `poller.tick.current_row`."""
        return self._guard(lambda: self._session.row_of(pk))

    def table_of(self, rows: Sequence[Row]) -> Table | None:
        """See `poller.ports.Source.table_of`."""
        session = self._session
        if self._options.format == "rows" or not rows:
            return None
        with contextlib.suppress(PollerError):  # the database need not answer: values have types too
            return self._guard(lambda: session.table_of(rows))
        return session.table_of(rows, asking=False)

    def clock(self) -> datetime:
        """See `poller.ports.InspectableSource.clock`."""
        return self._guard(self._session.clock)

    def cursor_before(self, moment: datetime) -> Cursor | None:
        """See `poller.ports.InspectableSource.cursor_before`."""
        return self._guard(lambda: self._session.cursor_before(moment))

    def checkup(self, after: Cursor | None, utcnow: Callable[[], datetime]) -> Checkup:
        """Everything that can be found out about this source before it goes wrong. Reads only; raises nothing of ours.
        `after`: where the checkpoint stands. `utcnow`: this machine's clock."""
        from poller.sources.checkup import examine

        exact, self.exact = self.exact, False
        try:
            with self._session.database.lasting():
                return examine(self._session, self._guard, after, utcnow)
        finally:
            self.exact = exact

    def _refuse_foreign(self, *cursors: Cursor | None) -> None:
        o = self._options
        for cursor in filter(None, cursors):
            given = set(o.pk_columns if cursor.tiebreaker is None else cursor.tiebreaker)
            if cursor.kind != o.cursor_kind or given != set(o.pk_columns):
                have = f"{cursor.kind}, key {', '.join(cursor.tiebreaker or {})}"
                raise o.error(
                    f"the cursor {cursor} is of another kind or key ({have}) than is configured"
                    f" ({o.cursor_kind}, key {', '.join(o.pk_columns)}).",
                    next_step="Restore `cursor_kind` and `pk_columns`, or reset the poller.",
                )


SqlSource.__signature__ = signature(SqlSource, SourceOptions)  # type: ignore[attr-defined]  # for help()


def _identity(url: str | URL | Engine, o: ReadOptions, connections: int) -> Identity | None:
    """Who signs in, if not with a password. Raises: ConfigError, also for a number of connections that none may
    have."""
    if not 1 <= connections <= pools.MOST:
        raise ConfigError(
            f"`connections` is {connections}, not a number from 1 to {pools.MOST}.",
            key="connections",
            next_step=f"Leave it out for {pools.DEFAULT}.",
        )
    identity = tokens.chosen(o.identity, os.environ, key="identity")
    if isinstance(url, Engine) and identity is not None:
        raise ConfigError(
            "`identity` goes with a URL, not with an Engine, which signs in in its own way.",
            key="identity",
            next_step="Give the URL, or remove `identity`.",
        )
    return identity


# ---------------------------------------------------------------------------------------------------- one piece of work
# Repeated if that may help, with driver errors translated, in this one place.

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

    def __init__(self, session: SourceSession, identity: DatabaseIdentity, scrub: Scrubber) -> None:
        self._session = session
        self._options = session.options
        self._identity = identity
        self._scrub = scrub

    def of(self, session: SourceSession) -> Guard:
        """The same for another session of the source."""
        return Guard(session, self._identity, self._scrub)

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
                if self._session.database.pool is not None:
                    self._session.database.discard()  # interrupted: its state is not known
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
            return o.error(f"{hidden}, so no row is read.", next_step=SHOWN)
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
