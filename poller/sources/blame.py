"""Finds the value that a driver cannot return even as text: column by column, then row by row, so that the error names
both."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlalchemy.exc import SQLAlchemyError

from poller.errors import SourceError
from poller.sources.connection import Database
from poller.sources.database import Records
from poller.sources.keys import ReadPlan
from poller.sources.options import Options
from poller.sources.values import CONVERSION_ERRORS

Read = Callable[[Sequence[str], int], Records]
"""Reads these columns of up to this many rows of the failed page again. Raises what the driver raises."""


def unreadable(
    database: Database,
    options: Options,
    names: Sequence[str],
    limit: int,
    error: BaseException,
    *,
    read: Read,
    plan: Callable[[Sequence[str]], ReadPlan],
) -> SourceError:
    """The error for a page that the driver failed on with `error`: the column, and the row's key.

    Args:
        names: the table's columns. limit: of the page. plan: where the cursor's parts are in records of columns.
    """
    order = [options.cursor_column, *options.pk_columns]

    def fails(columns: Sequence[str], rows: int) -> bool:
        try:
            read(columns, rows)
        except (SQLAlchemyError, *CONVERSION_ERRORS) as failed:
            if database.dialect.conversion_breaks:
                database.discard()
            if not database.dialect.unreadable(failed):
                raise
            return True
        return False

    def row_at(number: int) -> str:
        """Cursor and key of the page's row, as messages show them."""
        found = read(order, number)
        return str(plan(found.names).cursor(found.rows[-1]))

    if database.dialect.conversion_breaks:
        database.discard()
    if fails(order, limit):  # without these there is no page to search
        return unread_position(options, error)
    others = [name for name in options.columns or names if name not in order]
    wrong = next((name for name in others if fails([*order, name], limit)), None)
    row = ""
    if wrong is not None:
        row = f" of the row {row_at(_first(lambda n: fails([*order, wrong], n), limit))}"
    column = wrong or options.cursor_column
    return SourceError(
        f"{options.what}: column {column}{row} holds {_unread(error)}.",
        table=options.what,
        column=column,
        next_step="Correct it, leave the column out with `columns`, or write a `query` that casts it to text.",
    )


def unread_position(options: Options, error: BaseException) -> SourceError:
    """The error where the driver failed with `error` on a value of the cursor or the key, which cannot be left out."""
    names = list(dict.fromkeys([options.cursor_column, *options.pk_columns]))
    return SourceError(
        f"{options.what}: one of the columns {', '.join(names)} holds {_unread(error)}.",
        table=options.what,
        next_step="Correct it, leave the row out with a `filter`, or write a `query` that casts the column to text.",
    )


def setting_changed(options: Options, why: str) -> SourceError:
    """The error if a setting of the session, which `why` names, is not as the source made it."""
    return SourceError(
        f"{options.what}: {why}.",
        table=options.what,
        next_step="A function that the rows call sets it, or a pooler between: let the function set it in the SET"
        " clause of its definition, or read the table itself.",
    )


def _unread(error: BaseException) -> str:
    kind = type(getattr(error, "orig", None) or error).__name__
    return f"a value that the database's driver cannot read ({kind})"


def _first(fails: Callable[[int], bool], limit: int) -> int:
    """The least number of rows that fails, where `limit` does."""
    low = 0
    while limit - low > 1:
        middle = (low + limit) // 2
        low, limit = (low, middle) if fails(middle) else (middle, limit)
    return limit
