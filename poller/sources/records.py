"""Checks of a page's records before any is delivered: a cursor or a key whose text does not lead back to its row would
deliver the same rows for ever, or skip some. So would a key that is not unique, and rows without a cursor are never
read: those are searched in the table."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from decimal import Decimal
from itertools import islice
from operator import eq, itemgetter
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import SQLAlchemyError

from poller.errors import SourceError
from poller.sources.columns import MOMENTS, CursorColumn, Family, TextForm
from poller.sources.connection import Database
from poller.sources.database import Dialect, Records
from poller.sources.facts import Inspection
from poller.sources.options import ReadOptions
from poller.sources.page import Query
from poller.sources.rows import CONVERSION_ERRORS, ReadPlan
from poller.sources.sqlite.forms import mixed_forms

PROBE = 10_000
"""The number of rows that are checked where no constraint proves the key, and up to how many NULL cursors are
counted."""


_TYPES: dict[Family, tuple[type, ...]] = {
    Family.INTEGER: (int, Decimal),
    Family.TEXT: (str,),
    Family.BYTES: (bytes, bytearray, memoryview),
}
"""What a driver returns for a family; for the others any exact value."""


def refuse_bad_records(
    known: Inspection,
    options: ReadOptions,
    dialect: Dialect,
    records: Sequence[Sequence[Any]],
    plan: ReadPlan,
    names: Sequence[str],
) -> None:
    """Return if reading can continue from every record's cursor and key.

    Args:
        plan: where a cursor's parts are in a record; names: the user's columns, the first of a record.

    Raises: SourceError naming the table and the column.
    """
    if not records:
        return
    if any(key.nullable is not False for key in known.keys):
        for _, place in plan.places:
            if type(None) in _kinds(records, place):
                raise bad_key(options, "is NULL in some rows")
    if not known.provable:
        identities = plan.identities(records)
        if any(map(eq, identities, islice(identities, 1, None))):  # neighbours
            raise bad_key(options, "is the same in several rows")
    _refuse_other_types(known, options, dialect, records, plan, names)
    _refuse_odd_moments(known, options, dialect, records, plan)


def refuse_escaped(options: ReadOptions, found: Records, plan: ReadPlan) -> None:
    """Return if no text with invalid UTF-8 is part of a cursor or a key: escaped, it is another text.

    Raises: SourceError naming the column and the value."""
    parts = {place: name for name, place in plan.places} | {plan.text_at: options.cursor_column}
    for row, place in sorted(found.escaped):
        if place in parts:
            before = f"column {parts[place]} holds "
            after = ", which is not valid UTF-8, and would not lead back."
            raise options.error(
                f"{before}{found.rows[row][place][:40]!r}{after}",
                without_values=f"{before}a text{after}",
                column=parts[place],
                next_step="Correct it, or leave the row out with a `filter`.",
            )


def bad_key(options: ReadOptions, why: str) -> SourceError:
    """The error for a key that does not identify rows."""
    names = ", ".join(options.pk_columns)
    return options.error(
        f"the key {names} {why}, and rows could be skipped.",
        column=options.pk_columns[0],
        next_step="Name columns in `pk_columns` that are never NULL and unique together.",
    )


def refuse_bad_keys(database: Database, options: ReadOptions, checks: Sequence[tuple[str, Query]]) -> None:
    """Return if none of the checks (`Statements.bad_keys`) finds a row. Raises: SourceError."""
    found = database.run(sa.select(*(query.scalar_subquery() for _, query in checks))).rows[0]
    for (what, _), count in zip(checks, found, strict=True):
        if count:
            raise bad_key(options, "is NULL in some rows" if what == "NULL" else "is the same in several rows")


def refuse_nulls(options: ReadOptions, count: int) -> None:
    """Return if every row has a cursor. Raises: SourceError with the number of others, counted up to `PROBE`."""
    if count:
        many = f"{count} rows have" if count > 1 else "1 row has"
        many = f"at least {many}" if count == PROBE else many
        raise options.error(
            f"{many} no {options.cursor_column} (NULL) and would never be read.",
            column=options.cursor_column,
            next_step='Fill them in, or leave them out with on_null_cursor = "skip" or a `filter`.',
        )


def _refuse_other_types(
    known: Inspection,
    options: ReadOptions,
    dialect: Dialect,
    records: Sequence[Sequence[Any]],
    plan: ReadPlan,
    names: Sequence[str],
) -> None:
    """Where types belong to values, each value; elsewhere the first shows whether the driver returns bytes for text."""
    places = {known.cursor: names.index(known.cursor.name)}
    places |= {key: place for key, (_, place) in zip(known.keys, plan.places, strict=True)}
    for column, place in places.items():
        wanted = _TYPES.get(column.family)
        if wanted is None:
            continue
        looked_at = records if dialect.types_belong_to_values else records[:1]
        for kind in _kinds(looked_at, place):
            if not issubclass(kind, wanted):
                if column.form is not None and column.name == options.cursor_column:
                    raise odd_value(options, next(r[place] for r in records if type(r[place]) is kind))
                raise _other_type(options, column, kind)


def _other_type(options: ReadOptions, column: CursorColumn, kind: type) -> SourceError:
    return options.error(
        f"column {column.name} holds {column.family.value} values, and one of type {kind.__name__}:"
        " they do not sort together, and the same rows would be delivered for ever.",
        column=column.name,
        next_step="Store all of them as one type, or leave the odd ones out with a `filter`; where all came as bytes,"
        " remove the option in `url` that asks the driver for them.",
    )


def odd_value(options: ReadOptions, value: object, column: str | None = None) -> SourceError:
    """The error for a value unlike the others of its column (the cursor's, unless another is given)."""
    name = column or options.cursor_column

    def message(quoted: str) -> str:
        return (
            f"column {name} holds {quoted}, which has another form than its other values or is not a date; such rows"
            " do not sort by time."
        )

    return options.error(
        message(repr(str(value)[:40])),
        without_values=message("a value"),
        column=name,
        next_step="Write all of them in one form, or leave the odd ones out with a `filter`.",
    )


def _refuse_odd_moments(
    known: Inspection, options: ReadOptions, dialect: Dialect, records: Sequence[Sequence[Any]], plan: ReadPlan
) -> None:
    form = known.cursor.form
    if form is not None and options.is_timed:
        odd = _odd_record(form, records, plan.text_at)
        if odd is not None:
            raise mixed_forms(options, form, odd[plan.text_at], {name: odd[place] for name, place in plan.places})
    if not dialect.holds_impossible_dates:
        return
    places = {known.cursor: plan.text_at} if plan.exact is None else {}  # what is exact is a date
    places |= {key: place for key, (_, place) in zip(known.keys, plan.places, strict=True)}
    for column, place in places.items():
        if column.family in MOMENTS:
            impossible = _impossible(record[place] for record in records)
            if impossible is not None:
                raise odd_value(options, impossible, column.name)


def _odd_record(form: TextForm, records: Sequence[Sequence[Any]], place: int) -> Sequence[Any] | None:
    """The first record whose text has another form. All are looked at in one go, and one by one where that fails."""
    one = form.pattern()
    texts = list(map(itemgetter(place), records))
    if set(map(type, texts)) == {str}:
        together = "\n".join(texts)
        every = re.compile(rf"(?:{one.pattern}\n)*{one.pattern}", re.ASCII)
        if together.count("\n") == len(texts) - 1 and every.fullmatch(together):
            return None
    return next((r for r in records if not one.fullmatch(str(r[place]))), None)


def _kinds(records: Sequence[Sequence[Any]], place: int) -> set[type]:
    """The types that a column of a page holds."""
    return set(map(type, map(itemgetter(place), records)))


def _impossible(texts: Iterable[Any]) -> str | None:
    """The first text that is not a date: a CAST of it may be NULL, and no row comes after NULL."""
    read = datetime.fromisoformat
    for text in texts:
        if type(text) is not str:
            return "(no text)" if text is None else str(text)
        try:
            read(text)
        except ValueError:
            return text
    return None


# -------------------------------------------------------------------------------------------------- what cannot be read
# Finds the value that a driver cannot return even as text: column by column, then row by row, so that the error names
# both.

Read = Callable[[Sequence[str], int], Records]
"""Reads these columns of up to this many rows of the failed page again. Raises what the driver raises."""


def unreadable(
    database: Database,
    options: ReadOptions,
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
    return options.error(
        f"column {column}{row} holds {_unread(error)}.",
        column=column,
        next_step="Correct it, leave the column out with `columns`, or write a `query` that casts it to text.",
    )


def unread_position(options: ReadOptions, error: BaseException) -> SourceError:
    """The error where the driver failed with `error` on a value of the cursor or the key, which cannot be left out."""
    names = list(dict.fromkeys([options.cursor_column, *options.pk_columns]))
    return options.error(
        f"one of the columns {', '.join(names)} holds {_unread(error)}.",
        next_step="Correct it, leave the row out with a `filter`, or write a `query` that casts the column to text.",
    )


def setting_changed(options: ReadOptions, why: str) -> SourceError:
    """The error if a setting of the session, which `why` names, is not as the source made it."""
    return options.error(
        f"{why}.",
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
