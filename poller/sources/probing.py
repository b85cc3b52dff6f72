"""The question whether rows wait: to many sources over one connection, with the page's own statement for one row.

The types of a source's columns are given, as its state document has them, so that nothing is inspected; where it has
none, the table is, once it has a row. The bound is taken once for all sources of a database for which it is the same.

An answer is a hint. A worker that acts on it reads a page, below a bound of its own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

import sqlalchemy as sa
from sqlalchemy.engine import URL, Engine
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from poller.databases.tokens import NoToken
from poller.entra import Identity
from poller.errors import ConfigError, SourceError, SourceUnavailable
from poller.model.cursor import Cursor
from poller.ports import Bound
from poller.sources.columns import CursorColumn, Family
from poller.sources.connection import Database, engine_of, make_pool
from poller.sources.current_bound import CurrentBound
from poller.sources.database import Dialect
from poller.sources.facts import Inspection, read_columns
from poller.sources.faults import Fault
from poller.sources.options import OF_SERVER, ReadOptions
from poller.sources.page import Relation, Statements
from poller.sources.rows import CONVERSION_ERRORS
from poller.sources.table import Learned
from poller.sources.user_sql.checked import calls_functions

_T = TypeVar("_T")
VIEWS_EVERY = 60.0
"""Seconds for which it is known which names are views'."""
_NO_DATABASE = frozenset({Fault.UNREACHABLE, Fault.LOGIN, Fault.NO_DATABASE})


class NoAnswer(Exception):
    """The database did not say whether rows wait. `everywhere`: nor will it for any other source, now; `unasked`: since
    this process got no connection to it."""

    def __init__(self, *, everywhere: bool, unasked: bool = False) -> None:
        super().__init__()
        self.everywhere = everywhere
        self.unasked = unasked


@dataclass(frozen=True)
class ProbeSubject:
    """What the statements over one source are made of. `url`: the database, or an engine that was given; `identity`:
    signs in there, instead of a password."""

    url: URL | Engine
    dialect: Dialect
    options: ReadOptions
    relation: Relation
    quote: Callable[[str], str]
    identity: Identity | None = None

    @property
    def database(self) -> Hashable:
        """Equal for all that one `RowProbe` can ask."""
        return self.url, self.identity


@dataclass(frozen=True)
class Prepared:
    """A source whose statement can be made. `way`: for all that share it the bound is the same. `may_set`: what is read
    may call functions of the users', which may change settings of the session."""

    subject: ProbeSubject
    known: Inspection
    statements: Statements
    way: Hashable
    may_set: bool


class RowProbe:
    """One connection to one database. Used by one thread at a time.

    It comes out of a pool of its own, so that no look waits for a page of a source. The pool has its share of the
    server's connections as all others have (`poller.databases.pools`): one that rests may be closed for another
    database. What was learned of the bound outlives it.

    Args:
        first: any of the sources; all others are of its `database`. timeout: of each statement. patience: how long it
            waits for a connection.
    """

    def __init__(self, first: ProbeSubject, timeout: timedelta, patience: timedelta) -> None:
        url, dialect = first.url, first.dialect
        pool = None
        if not isinstance(url, Engine):
            pool = make_pool(url, dialect, timeout, 1, first.identity, of=object())
        if pool is not None:
            pool.looks = True
        engine = engine_of(url, pool, dialect, timeout, first.identity)
        self._database = Database(engine, dialect, timeout, pool=pool, patience=patience)
        self._bounds: dict[Hashable, tuple[CurrentBound, Prepared]] = {}
        self._views: dict[str | None, tuple[frozenset[str], float]] = {}
        """Those of a schema, and when they were asked for."""

    def prepare(self, subject: ProbeSubject, stored: object, kind: str | None) -> Prepared | None:
        """What is asked of a source; None if its table has no row that would show its types, so that none waits.

        Args:
            stored: the facts, with the types, as its document has them. kind: of the bound that its worker took, if
                it is known.
        Raises: NoAnswer.
        """
        o, may_set = subject.options, self._may_set(subject)
        read = read_columns(stored, o.cursor_column, o.pk_columns)
        if read is not None:
            known: Inspection | None = Inspection(names=(), cursor=read[0], keys=read[1], provable=True)
        else:
            table = Learned(self._database, o, subject.relation, subject.quote)
            has_rows = self._answered(may_set, lambda: self._has_rows(subject))
            known = self._answered(may_set, table.learn) if has_rows else None
        if known is None:
            return None
        statements = Statements(subject.dialect, subject.quote, subject.relation, known.cursor, known.keys, ())
        return Prepared(subject, known, statements, _way(o, known.cursor, kind), may_set)

    def _may_set(self, subject: ProbeSubject) -> bool:
        """See `Prepared`: a filter, a query, or a view may."""
        o, dialect = subject.options, subject.dialect
        calls = calls_functions(o.filter, o.query, dialect.family)
        if calls or o.capture or dialect.is_file or dialect.is_untried:
            return calls
        views, asked = self._views.get(o.schema_name, (frozenset[str](), float("-inf")))
        if time.monotonic() - asked >= VIEWS_EVERY:
            views = self._asked(lambda: frozenset(self._view_names(o.schema_name)))
            self._views[o.schema_name] = views, time.monotonic()
        return o.table in views

    def _view_names(self, schema: str | None) -> list[str]:
        return sa.inspect(self._database.connection()).get_view_names(schema=schema)

    def _has_rows(self, subject: ProbeSubject) -> bool:
        """True if there is any row that has a cursor: needs no types."""
        o = subject.options
        unknown = [CursorColumn(name, Family.TEXT) for name in (o.cursor_column, *o.pk_columns)]
        statements = Statements(subject.dialect, subject.quote, subject.relation, unknown[0], unknown[1:], ())
        (every,) = statements.ranges(None, None)
        ask = statements.any_of(every)
        return bool(self._database.run(*ask).rows)

    def bound(self, one: Prepared) -> Bound:
        """The present bound of all sources that are read in this one's way. Raises: NoAnswer."""
        if one.way not in self._bounds:
            self._bounds[one.way] = CurrentBound(self._database, one.subject.options), one
        taken, first = self._bounds[one.way]
        try:
            return self._answered(first.may_set, lambda: taken.sample(first.known, first.statements))
        except NoAnswer as none:
            if not none.everywhere:  # what `first` reads may be gone
                del self._bounds[one.way]
            raise

    def waits(self, one: Prepared, after: Cursor | None, bound: Bound | None) -> bool:
        """True if a row waits after a cursor and below a bound; without one (None), anywhere after it. Raises:
        NoAnswer."""
        below, inclusive = (None, False) if bound is None else (bound.value, bound.inclusive)

        def ask() -> bool:
            ranges = one.statements.ranges(after, below, inclusive=inclusive)
            return any(self._database.run(*one.statements.any_of(each)).rows for each in ranges)

        return self._answered(one.may_set, ask)

    def rest(self) -> None:
        """Nothing more is asked for now: another database may need the connection."""
        with self._database.using:
            self._database.rest()

    def close(self) -> None:
        """Close the connection. May be used again afterwards."""
        for bound, _ in self._bounds.values():
            bound.close()
        self._database.close()

    def _answered(self, may_set: bool, work: Callable[[], _T]) -> _T:
        """Do the work; once more on a new connection, if the held one broke while idle. What its functions set in
        the session is undone: the next one asks in it too."""
        try:
            return self._asked(work)
        finally:
            if may_set:
                with self._database.using:
                    self._database.restore()

    def _asked(self, work: Callable[[], _T]) -> _T:
        with self._database.using:
            self._database.begin_work()
            try:
                return work()
            except (SQLAlchemyError, *CONVERSION_ERRORS) as error:
                fault = self._fault(error)
            except (SourceError, ConfigError) as error:
                away = not self._database.is_open
                unasked = away and self._database.pool is not None and isinstance(error, SourceUnavailable)
                raise NoAnswer(everywhere=away, unasked=unasked) from None
            if fault is Fault.DISCONNECTED and self._database.rested:
                self._database.renew()
                try:
                    return work()
                except (SQLAlchemyError, *CONVERSION_ERRORS) as error:
                    fault = self._fault(error)
                except (SourceError, ConfigError):
                    fault = Fault.OTHER
            raise NoAnswer(everywhere=fault in _NO_DATABASE) from None

    def _fault(self, error: Exception) -> Fault:
        self._database.discard()
        if isinstance(error, NoToken):
            return Fault.LOGIN
        if not isinstance(error, DBAPIError):
            return Fault.OTHER
        return self._database.dialect.classify(error)


def _way(o: ReadOptions, cursor: CursorColumn, kind: str | None) -> Hashable:
    """Sources with the same have the same bound. Where it is not known which kind of bound a table gets (a foreign one
    gets another), or the bound is of a table's own numbers, the table is part of it."""
    own = None if kind is not None and (o.is_timed or o.cursor_kind in OF_SERVER) else (o.schema_name, o.table, o.query)
    column = (cursor.family, cursor.sql_type, cursor.digits, cursor.form)
    delays = (o.settle, o.delay, o.extra_delay)
    return (
        own, kind, o.bound, o.cursor_kind, o.cursor_time_zone, delays, o.bound_ignore_users, column
    )  # fmt: skip
