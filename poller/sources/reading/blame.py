"""Which value a driver failed on, where it does not hand it over as text either: looked for column by column, then row
by row, so that the error names both."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from sqlalchemy.exc import SQLAlchemyError

from poller.errors import SourceError
from poller.sources.columns.inspection import Inspection
from poller.sources.dialects.unreadable import CONVERSION_ERRORS
from poller.sources.options import Options
from poller.sources.reading.page import Range

if TYPE_CHECKING:
    from poller.sources.reading.session import Session


def unreadable(session: Session, known: Inspection, stretch: Range, limit: int, error: BaseException) -> SourceError:
    """The error for a page that the driver failed on with `error`: the column, and the row's key."""
    options = session.options
    order = [options.cursor_column, *options.pk_columns]

    def fails(columns: Sequence[str], rows: int) -> bool:
        try:
            session.database.run(*session.statements_of(columns).select(stretch, rows))
        except (SQLAlchemyError, *CONVERSION_ERRORS) as failed:
            if session.database.dialect.conversion_breaks:
                session.database.close()
            if not session.database.dialect.unreadable(failed):
                raise
            return True
        return False

    if session.database.dialect.conversion_breaks:
        session.database.close()
    if fails(order, limit):  # without them there is no page to look at one by one
        return unread_position(options, error)
    others = [name for name in options.columns or known.names if name not in order]
    wrong = next((name for name in others if fails([*order, name], limit)), None)
    row = ""
    if wrong is not None:
        row = f" of the row {_row(session, stretch, _first(lambda n: fails([*order, wrong], n), limit))}"
    column = wrong or options.cursor_column
    return SourceError(
        f"{options.what}: column {column}{row} holds {_unread(error)}.",
        table=options.what,
        column=column,
        next_step="Correct it, leave the column out with `columns`, or write a `query` that casts it to text.",
    )


def unread_position(options: Options, error: BaseException) -> SourceError:
    """The error where the driver failed with `error` on a value that a cursor is made of: those cannot be left out."""
    names = list(dict.fromkeys([options.cursor_column, *options.pk_columns]))
    return SourceError(
        f"{options.what}: one of the columns {', '.join(names)} holds {_unread(error)}.",
        table=options.what,
        next_step="Correct it, leave the row out with a `filter`, or write a `query` that casts the column to text.",
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


def _row(session: Session, stretch: Range, number: int) -> str:
    """Cursor and key of a stretch's row, as they are shown everywhere."""
    order = [session.options.cursor_column, *session.options.pk_columns]
    found = session.database.run(*session.statements_of(order).select(stretch, number))
    plan = session.plan(found.names)
    return str(plan.cursor(found.rows[-1]))
