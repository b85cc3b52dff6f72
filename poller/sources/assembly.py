"""What a source is made of, by its URL and its options. Opens nothing."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass

from sqlalchemy.engine import URL, Engine

from poller.databases import pools, tokens
from poller.errors import ConfigError
from poller.model.fingerprint import SourceDescription
from poller.sources.captured import Captured
from poller.sources.connection import Database
from poller.sources.database import dialect_for
from poller.sources.engines import make_engine, make_pool, quoter, read_url
from poller.sources.faults import Scrubber
from poller.sources.guard import Guard
from poller.sources.identity import family_of, identify
from poller.sources.options import ReadOptions, check_bound
from poller.sources.page import Relation
from poller.sources.probing import ProbeSubject
from poller.sources.session import SourceSession
from poller.sources.user_sql.checked import calls_functions, checked_sql


@dataclass(frozen=True, slots=True)
class Assembly:
    """The parts.

    Attributes:
        options: those by which it is read: of a captured table those of its change table.
        session: its reads. another: makes a session with a connection of its own. guard: of `session`.
        subject: for the question whether rows wait. description: what the configuration says of the source.
    """

    options: ReadOptions
    session: SourceSession
    another: Callable[[], SourceSession]
    guard: Guard
    subject: ProbeSubject
    description: SourceDescription


def assemble(url: str | URL | Engine, o: ReadOptions, connections: int) -> Assembly:
    """The parts of a source.

    Args:
        o: its options. connections: of its pool.
    Raises: ConfigError naming the key that is wrong.
    """
    parsed = read_url(url)
    dialect = dialect_for(family_of(parsed))
    check_bound(o.bound, o.cursor_kind, dialect.family)
    place = identify(parsed)
    given_options = o
    if o.capture:
        o = o.of_changes(dialect.changes(o.table or "", o.schema_name, str).name)
    condition, wrapped = checked_sql(o.filter, o.query, dialect.family, o.cursor_column)

    if not 1 <= connections <= pools.MOST:
        raise ConfigError(
            f"`connections` is {connections}, not a number from 1 to {pools.MOST}.",
            key="connections",
            next_step=f"Leave it out for {pools.DEFAULT}.",
        )
    may_set = calls_functions(o.filter, o.query, dialect.family)
    given = isinstance(url, Engine)
    identity = tokens.chosen(o.identity, os.environ, key="identity")
    if given and identity is not None:
        raise ConfigError(
            "`identity` goes with a URL, not with an Engine, which signs in in its own way.",
            key="identity",
            next_step="Give the URL, or remove `identity`.",
        )
    pool = None if given else make_pool(parsed, dialect, o.query_timeout, connections, identity)
    if pool is not None and o.format == "arrow" and dialect.has_adbc:
        pool.each = 2  # ADBC's stands beside it

    def engine() -> Engine:
        if isinstance(url, Engine):
            return url
        return make_engine(parsed, dialect, o.query_timeout, identity) if pool is None else pool.engine

    first = engine()
    quote = quoter(first)
    if wrapped is None:
        relation = Relation.table(o.table or "", o.schema_name, condition, quote)
    else:
        relation = Relation.query(wrapped, condition)

    def session(on: Engine) -> SourceSession:
        database = Database(on, dialect, o.query_timeout, form="parsed" if o.parses_json else "text", pool=pool)
        database.may_set = may_set
        tables = None if o.format == "rows" else dialect.tables(o.what, own_engine=not given)
        captured = None
        if o.capture:
            changes = dialect.changes(given_options.table or "", o.schema_name, quote)
            captured = Captured(changes, database, relation.alias, given_options.columns)
        return SourceSession(database, o, relation, quote, tables, captured)

    subject = ProbeSubject(url if isinstance(url, Engine) else parsed, dialect, o, relation, quote, identity)
    first_session = session(first)
    description = SourceDescription(
        database=place,
        schema_name=o.schema_name,
        table=o.table,
        query=o.query,
        cursor_column=o.cursor_column,
        cursor_kind=o.cursor_kind,
        pk_columns=o.pk_columns,
        filter=o.filter,
        left_open=dialect.left_open(parsed, place, o),
    )
    if o.capture:
        description = description.of_capture(given_options.table or "")
    return Assembly(
        options=o,
        session=first_session,
        another=lambda: session(engine()),
        guard=Guard(first_session, o, place, Scrubber.of(parsed)),
        subject=subject,
        description=description,
    )
