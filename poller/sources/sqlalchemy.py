"""`SqlSource`: a table or query of any SQLAlchemy database, read in (cursor, primary key) order."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, TypeVar

from sqlalchemy.engine import URL, Engine
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from poller.errors import SourceError
from poller.model.cursor import Cursor
from poller.model.durations import format_duration
from poller.model.fingerprint import SourceDescription
from poller.ports import Bound, Lag, Page, Row
from poller.sources import bounds
from poller.sources.checkup import Checkup, examine
from poller.sources.connect import Database, make_engine, read_url
from poller.sources.dialects import dialect_for
from poller.sources.faults import SCHEMA_FAULTS, Fault, Scrubber, Where, driver_text, to_error
from poller.sources.filters import check_filter, check_query, escape_colons
from poller.sources.identity import family_of, identify, place
from poller.sources.inspection import did_you_mean
from poller.sources.keys import idempotency_key
from poller.sources.options import read_options
from poller.sources.page import Relation
from poller.sources.parsing import parse_cursor
from poller.sources.session import Session

_T = TypeVar("_T")


class SqlSource:
    """Rows of a table, view or query, in the order of a cursor column and a key. Implements `poller.ports.Source`.

    Nothing is opened until the first read. One connection of its own is then held, in autocommit, until `close`.
    The keywords are the keys of `[pollers.NAME.source]` in `poller.toml`; durations are text (`"30s"`) or timedeltas.

    Raises (here): ConfigError naming the key that is wrong.
    """

    def __init__(
        self,
        url: str | URL | Engine,
        *,
        table: str | None = None,
        schema: str | None = None,
        query: str | None = None,
        columns: Sequence[str] | None = None,
        cursor_column: str,
        cursor_kind: str = "timestamp+pk",
        cursor_time_zone: str | None = None,
        allow_dst: bool = False,
        pk_columns: Sequence[str],
        filter: str | None = None,  # noqa: A002 - the key's name
        start_from: object = "beginning",
        on_null_cursor: str = "fail",
        query_timeout: str | timedelta = "30s",
        bound: str = "auto",
        bound_margin: str | timedelta = "1s",
        commit_delay: str | timedelta | None = None,
        bound_wait: str | timedelta = "5s",
        bound_ignore_users: Sequence[str] = (),
    ) -> None:
        self._options = options = read_options(
            table=table,
            schema=schema,
            query=query,
            columns=columns,
            cursor_column=cursor_column,
            cursor_kind=cursor_kind,
            cursor_time_zone=cursor_time_zone,
            allow_dst=allow_dst,
            pk_columns=pk_columns,
            filter=filter,
            start_from=start_from,
            on_null_cursor=on_null_cursor,
            query_timeout=query_timeout,
            bound=bound,
            bound_margin=bound_margin,
            commit_delay=commit_delay,
            bound_wait=bound_wait,
            bound_ignore_users=bound_ignore_users,
        )
        parsed = read_url(url)
        self._dialect = dialect = dialect_for(family_of(parsed))
        bounds.check(options.bound, options.cursor_kind, dialect.family)
        self._identity = identify(parsed)
        self._scrub = Scrubber.of(parsed)
        condition = None if filter is None else check_filter(filter, dialect.family)
        wrapped = None if query is None else check_query(query, dialect.family)
        engine = url if isinstance(url, Engine) else make_engine(parsed, dialect, options.query_timeout)
        quote = _quoter(engine)
        if wrapped is None:
            relation = Relation.table(table or "", schema, condition, quote, dialect)
        else:
            relation = Relation.query(wrapped, condition, dialect)
        self._session = Session(Database(engine, dialect, options.query_timeout), options, relation, quote)

    def __repr__(self) -> str:
        return f"SqlSource({self._options.what!r}, {place(self._identity)!r})"

    # ------------------------------------------------------------------------------------------------- ports.Source

    @property
    def query_timeout(self) -> timedelta:
        """How long each of its queries may take; a tick keeps its lease for the few of a page."""
        return self._options.query_timeout

    def describe(self) -> SourceDescription:
        """See `poller.ports.Source.describe`."""
        o = self._options
        return SourceDescription(
            database=self._identity,
            schema_name=o.schema,
            table=o.table,
            query=o.query,
            cursor_column=o.cursor_column,
            cursor_kind=o.cursor_kind,
            pk_columns=o.pk_columns,
            filter=o.filter,
        )

    def start(self) -> Cursor | None:
        """See `poller.ports.Source.start`. `now` in a table without rows is the beginning, where the form of its
        timestamps is not known yet (SQLite)."""
        wanted = self._options.start_from
        if wanted == "beginning":
            return None
        if wanted == "now":
            return self._guard(self._session.now)
        return self._guard(lambda: parse_cursor(self._session, wanted, None))

    def page(self, after: Cursor | None, limit: int, *, until: Cursor | None = None) -> Page:
        """See `poller.ports.Source.page`. Rows are plain dicts of the user's columns in select order.

        `until`: no row beyond it either; without a tiebreaker only rows below its value."""
        self._refuse_foreign(after)
        self._refuse_foreign(until)
        return self._guard(lambda: self._session.page(after, limit, until))

    def lag(self, after: Cursor | None, *, cap: int) -> Lag:
        """See `poller.ports.Source.lag`. Rows above the bound count too: they wait as well."""
        self._refuse_foreign(after)
        return self._guard(lambda: self._session.lag(after, cap))

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

    def close(self) -> None:
        """Close the connection and forget what was learned of the table. May be used again afterwards."""
        self._session.database.close()
        self._session.forget()

    # -------------------------------------------------------------------------- for the console, `check` and others

    def parse_cursor(self, value: str, pk: Mapping[str, str] | None) -> Cursor:
        """The cursor that a person typed: its text read by the database and given back in the column's own form.

        Every key column is required, except one that is the cursor column itself; without any key (None) the cursor
        means "at or after". Raises: SourceError naming a column.
        """
        return self._guard(lambda: parse_cursor(self._session, value, pk))

    def count_between(self, low: Cursor | None, high: Cursor | None, *, cap: int) -> tuple[int, bool]:
        """How many rows stand after `low` and up to `high` (None: the beginning), and whether `cap` cut the count."""
        self._refuse_foreign(low)
        self._refuse_foreign(high)
        return (0, False) if high is None else self._guard(lambda: self._session.count_between(low, high, cap))

    def null_cursors(self, cap: int) -> int:
        """How many rows have no cursor, counted up to `cap`."""
        return self._guard(lambda: self._session.null_cursors(cap))

    def bound(self) -> Bound:
        """The bound of this moment, as the next page would use it."""

        def work() -> Bound:
            known = self._session.learn()
            return self._session.to_come() if known is None else self._session.sample(known)

        return self._guard(work)

    def span(self, low: Cursor | None, high: Cursor | None, limit: int) -> Page:
        """Up to `limit` rows after `low` and up to `high`, whatever the bound is: for looking back over what was
        delivered (`poller recheck`), never for delivering."""
        self._refuse_foreign(low)
        self._refuse_foreign(high)
        return self._guard(lambda: self._session.span(low, high, limit))

    def checkup(self, after: Cursor | None, utcnow: Callable[[], datetime]) -> Checkup:
        """Everything that can be told about this source before it goes wrong. Reads only; raises nothing of ours.

        Args:
            after: where the checkpoint stands. utcnow: this machine's clock.
        """
        return examine(self._session, self._guard, after, utcnow)

    # ------------------------------------------------------------------------------------------------------- errors

    def _guard(self, work: Callable[[], _T]) -> _T:
        """Do the work; reads may be done again, once: on a new connection when the held one broke while idle, with the
        table looked at anew when it changed. Driver errors become ours, in one line and without secrets."""
        database = self._session.database
        may_retry = True
        while True:
            was_open, had_learned = database.is_open, self._session.known is not None
            try:
                return work()
            except DBAPIError as error:
                fault = self._dialect.classify(error)
                held = database.driver_connection()
                again = held is not None and self._dialect.recover(error, held)
                if not again:
                    database.close()
                    again = (fault is Fault.DISCONNECTED and was_open) or (fault in SCHEMA_FAULTS and had_learned)
                failure = None if again and may_retry else self._failure(fault, driver_text(error))
                self._session.forget()
            except SQLAlchemyError as error:
                database.close()
                failure = self._failure(Fault.OTHER, str(error))
            except OverflowError:  # a driver that looks at the numbers itself: SQLite's
                failure = self._failure(Fault.RANGE, "")
            if failure is not None:
                raise failure from None
            may_retry = False

    def _failure(self, fault: Fault, text: str) -> SourceError:
        detail = self._scrub(text).rstrip(".")
        o, known = self._options, self._session.known
        where = Where(what=o.what, place=place(self._identity), timeout=format_duration(o.query_timeout))
        error = to_error(fault, detail, where)
        if fault is Fault.NO_COLUMN:
            found = re.search(r"column:?\s+[\"'`]?(?:\w+\.)?(\w+)", detail, re.IGNORECASE)
            error.column = found[1] if found else ""
            if found and known is not None:
                error.next_step = f"{did_you_mean(found[1], known.names)} {error.next_step}".strip()
        return error

    def _refuse_foreign(self, cursor: Cursor | None) -> None:
        if cursor is None:
            return
        o = self._options
        given = None if cursor.tiebreaker is None else set(cursor.tiebreaker)
        if cursor.kind == o.cursor_kind and (given is None or given == set(o.pk_columns)):
            return
        have = f"{cursor.kind}, key {', '.join(cursor.tiebreaker or {})}"
        raise SourceError(
            f"{o.what}: the cursor {cursor} is of another kind or key ({have}) than is configured"
            f" ({o.cursor_kind}, key {', '.join(o.pk_columns)}).",
            table=o.what,
            next_step="Restore `cursor_kind` and `pk_columns`, or reset the poller.",
        )


def _quoter(engine: Engine) -> Callable[[str], str]:
    """Quotes a name where it needs it, ready for `sqlalchemy.text`, which doubles percents and reads colons itself."""
    preparer = engine.dialect.identifier_preparer
    doubles = bool(getattr(preparer, "_double_percents", False))

    def quote(name: str) -> str:
        quoted = preparer.quote(name)
        return escape_colons(quoted.replace("%%", "%") if doubles else quoted)

    return quote
