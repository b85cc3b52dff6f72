"""What a table offers a poller: which column could be its cursor, which columns its key. For `poller init`."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Inspector
from sqlalchemy.exc import DBAPIError, NoSuchTableError, SAWarning, SQLAlchemyError

from poller.config.suggestions import did_you_mean
from poller.databases.kinds import KINDS
from poller.databases.urls import family_of, identify, place
from poller.entra import Identity
from poller.errors import SourceError
from poller.sources import stamping
from poller.sources.columns import TextForm
from poller.sources.connection import Database, make_engine, read_url
from poller.sources.database import dialect_for
from poller.sources.faults import Scrubber, Where, driver_text, to_error
from poller.sources.user_sql import escape_colons

_NAMES = ("updated_at", "modified_at", "changed_at", "last_modified", "last_updated", "updated", "modified")
_CREATED = ("created_at", "inserted_at", "created", "inserted", "timestamp", "ts")
_TIMEOUT = timedelta(seconds=10)


@dataclass(frozen=True)
class Candidate:
    """One column that rows could be followed by.

    Attributes:
        column: its name. kind: as `cursor_kind`. needs_zone: whether it holds times without a zone.
    """

    column: str
    kind: str
    needs_zone: bool = False


@dataclass(frozen=True)
class Proposal:
    """What one table offers, the best first.

    Attributes:
        cursors: columns that could be the cursor. key: the primary key, or else a unique set of columns; may be empty.
        columns: all of the table's. capture: True if triggers can record its changes (docs/capture.md).
    """

    table: str
    schema: str | None
    cursors: Sequence[Candidate]
    key: Sequence[str]
    columns: Sequence[str] = field(default=())
    capture: bool = False


class Catalogue:
    """The tables of one database, looked at once. Use it as a context manager.

    Args:
        identity: signs in, instead of a password.
    Raises: ConfigError naming `url` (no URL, no driver) or `identity`, SourceUnavailable.
    """

    def __init__(self, url: str, schema: str | None = None, identity: Identity | None = None) -> None:
        parsed = read_url(url)
        self._dialect = dialect_for(family_of(parsed))
        who = str(identity or "")
        self._where = Where(what="the database", place=place(identify(parsed)), timeout="10s", identity=who)
        self._scrub = Scrubber.of(parsed)
        self._schema = schema
        self._database = Database(make_engine(parsed, self._dialect, _TIMEOUT, identity), self._dialect, _TIMEOUT)
        try:
            self._inspector: Inspector = sa.inspect(self._database.connection())
            found = self._inspector.get_table_names(schema=schema)
            self.views = self._inspector.get_view_names(schema=schema)
        except SQLAlchemyError as error:
            self._database.close()
            raise self._translated(error) from None
        self.tables = sorted(name for name in found if not name.startswith("poller_"))

    def __enter__(self) -> Catalogue:
        return self

    def __exit__(self, *_: object) -> None:
        self._database.close()

    def propose(self, table: str) -> Proposal:
        """What a table or view offers. Raises: SourceError, if there is none."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", SAWarning)
                columns = self._inspector.get_columns(table, schema=self._schema)
            if not columns:
                raise NoSuchTableError(table)
            key, is_primary = self._key(table, {c["name"]: c for c in columns})
            cursors = self._cursors(table, columns, key)
        except NoSuchTableError:
            known = [*self.tables, *self.views]
            raise SourceError(
                f"There is no table or view {table!r} that this database user can see.",
                table=table,
                next_step=did_you_mean(table, known),
            ) from None
        except SQLAlchemyError as error:
            raise self._translated(error) from None
        capture = is_primary and bool(KINDS[self._dialect.family].capture)
        return Proposal(table, self._schema, cursors, key, [c["name"] for c in columns], capture)

    def stamps(self, table: str, column: str) -> list[stamping.Stamp]:
        """The zones in which the database stamps a column that has none. Raises: SourceError."""
        cursor = stamping.Watched(self._dialect.family, self._schema, table, None, column)
        try:
            return stamping.stamps(self._database, cursor, stamping.origin(self._database, cursor))
        except SQLAlchemyError as error:
            raise self._translated(error) from None

    def _key(self, table: str, columns: dict[str, Any]) -> tuple[list[str], bool]:
        """The key, and whether it is the primary one."""
        primary, unique = self._dialect.unique_sets(self._inspector, table, self._schema)
        if primary and primary in unique:
            return primary, True
        firm = [names for names in unique if names and not any(columns[name].get("nullable") for name in names)]
        return min(firm, key=len, default=[]), False

    def _cursors(self, table: str, columns: Sequence[Any], key: Sequence[str]) -> list[Candidate]:
        found = [cursor for column in columns if (cursor := self._timed(table, column)) is not None]
        found.sort(key=lambda cursor: _rank(cursor.column))
        numbers = [c["name"] for c in columns if c["name"] in key and isinstance(c["type"], sa.Integer)]
        if len(key) == 1 and numbers:
            found.append(Candidate(numbers[0], "integer+pk"))
        return found

    def _timed(self, table: str, column: Any) -> Candidate | None:
        name, kind = column["name"], column["type"]
        if self._dialect.types_belong_to_values:
            form = self._text_form(table, name)
            return None if form is None else Candidate(name, "timestamp+pk", needs_zone=not form.zone)
        if isinstance(kind, sa.DateTime | sa.TIMESTAMP):
            return Candidate(name, "timestamp+pk", needs_zone=not self._dialect.is_instant(kind))
        return None

    def _text_form(self, table: str, column: str) -> TextForm | None:
        """SQLite has no type for a time: what its first value looks like decides."""
        quote = self._database.engine.dialect.identifier_preparer.quote
        chosen, relation = quote(column), quote(table)
        sql = f"SELECT {chosen} FROM {relation} WHERE {chosen} IS NOT NULL LIMIT 1"  # noqa: S608 - quoted names
        with contextlib.suppress(DBAPIError):
            rows = self._database.run(escape_colons(sql)).rows
            if rows:
                return TextForm.of(rows[0][0]) if isinstance(rows[0][0], str) else None
        return TextForm.of("2026-01-01 00:00:00") if _rank(column) < len(_NAMES + _CREATED) else None

    def _translated(self, error: SQLAlchemyError) -> SourceError:
        if isinstance(error, DBAPIError):
            return to_error(self._dialect.classify(error), self._scrub(driver_text(error)).rstrip("."), self._where)
        return SourceError(f"The database cannot be looked at: {self._scrub(str(error))}.")


def _rank(name: str) -> int:
    """How much a name promises: that it grows with every change, that it is when a row was made, nothing."""
    folded = name.lower()
    known = _NAMES + _CREATED
    for place_, word in enumerate(known):
        if folded == word:
            return place_
    return next((place_ for place_, word in enumerate(known) if len(word) > 2 and word in folded), len(known))
