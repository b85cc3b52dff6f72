"""Cursors as people type them: read by the database, returned in the column's own form."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from sqlalchemy.exc import DBAPIError

from poller.config.suggestions import did_you_mean
from poller.errors import SourceError
from poller.model.cursor import Cursor, KeyValue
from poller.sources.columns import MOMENTS, NUMBERS, RENDERED_BY_DATABASE, CursorColumn, Family, TextForm, iso_text
from poller.sources.connection import Database
from poller.sources.facts import Inspection
from poller.sources.faults import Fault
from poller.sources.options import ReadOptions
from poller.sources.page import Statements
from poller.sources.rows import parse_key


@dataclass(frozen=True, slots=True)
class ColumnReader:
    """Reads a typed text as a value of a column.

    Attributes:
        database: asked what the text means. statements: over what is known of the table.
    """

    database: Database
    options: ReadOptions
    statements: Statements


def parse_cursor(reader: ColumnReader, known: Inspection | None, value: str, pk: Mapping[str, str] | None) -> Cursor:
    """A cursor of a value and the key's parts; without parts (None) it means "at or after".

    Args:
        known: what was learned of the table; None while its types are not known for lack of a row.

    Raises: SourceError naming the column that does not accept its text, or the key column that is missing.
    """
    options = reader.options
    if known is None:
        if pk is not None:
            raise options.error(
                "there is no row, so no cursor can be checked.",
                next_step="Use `poller reset-to-beginning`.",
            )
        return Cursor(kind=options.cursor_kind, value=_of_unknown_column(reader, value.strip()))
    text = column_text(reader, known.cursor, value)
    if pk is None:
        return Cursor(kind=options.cursor_kind, value=text)
    for name in pk:
        if name not in options.pk_columns:
            raise options.error(
                f"{name!r} is not a key column.",
                column=name,
                next_step=did_you_mean(name, options.pk_columns),
            )
    tiebreaker: dict[str, KeyValue] = {}
    for key in known.keys:
        if key.name not in pk and key.name != known.cursor.name:
            raise options.error(
                f"the key column {key.name} is missing.",
                column=key.name,
                next_step=f"Give all of: {', '.join(options.pk_columns)}.",
            )
        tiebreaker[key.name] = _key_value(reader, key, pk.get(key.name, text))
        if key.name == known.cursor.name and str(tiebreaker[key.name]) != text:
            raise options.error(
                f"{key.name} is the cursor column, and its two values differ: {text} and {tiebreaker[key.name]}.",
                column=key.name,
                next_step="Give it once.",
            )
    return Cursor(kind=options.cursor_kind, value=text, tiebreaker=tiebreaker)


def parse_keys(reader: ColumnReader, known: Inspection, pk: Mapping[str, str]) -> dict[str, KeyValue]:
    """The key of a row, by column, from its typed parts. Raises: SourceError naming the column that does not accept its
    text."""
    return {key.name: _key_value(reader, key, pk[key.name]) for key in known.keys}


def settle(reader: ColumnReader, cursor: Cursor, column: CursorColumn) -> Cursor:
    """A cursor that was stored before the column's form was known, in that form: texts are compared as texts, and
    another text with the same meaning may sort elsewhere. Other cursors are returned unchanged.

    Raises: SourceError naming the column, if it does not hold such values.
    """
    if cursor.tiebreaker is not None:
        return cursor
    if reader.options.is_timed:
        done = _DATE if column.family is Family.DATE else _RENDERED
        done = done if column.form is None else column.form.pattern()
    else:
        done = _INTEGER if column.family in NUMBERS else _ANYTHING
    if done.fullmatch(cursor.value):
        return cursor
    return cursor.model_copy(update={"value": column_text(reader, column, cursor.value)})


_RENDERED = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6,}Z?", re.ASCII)
_FRACTION = re.compile(r"\.(\d+)", re.ASCII)
_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_INTEGER = re.compile(r"-?\d+", re.ASCII)
_ANYTHING = re.compile(r".*", re.DOTALL)


def _of_unknown_column(reader: ColumnReader, text: str) -> str:
    """While there is no row: what `settle` will be able to read, whatever the column turns out to be."""
    options = reader.options
    if options.cursor_kind == "integer+pk" and not _INTEGER.fullmatch(text):
        raise _refused(reader, options.cursor_column, text, "integers")
    if not options.is_timed:
        return text
    form = TextForm.of(text)
    if form is None:
        raise _refused(reader, options.cursor_column, text, "timestamps")
    if (
        form.zone and not reader.database.dialect.types_belong_to_values
    ):  # a naive column would drop it without any error
        raise options.error(
            f"there is no row yet, so it is unknown whether column {options.cursor_column} has a time"
            f" zone, and {text!r} names one.",
            column=options.cursor_column,
            next_step="Write it without: as the column holds it, in UTC where the column has a zone.",
        )
    return text


def column_text(reader: ColumnReader, column: CursorColumn, text: str) -> str:
    """A text as the column itself would render the value it means."""
    text = text.strip()
    kind = "timestamps" if column.family in MOMENTS or column.form else f"{column.family.value} values"
    if column.form is not None:
        return _in_form(reader, column, column.form, text)
    try:
        text = _with_zone(reader, column, text)
        bound = reader.database.dialect.bind(text, column)
        found = reader.database.run(reader.statements.round_trip(column), {"v": bound}).rows[0][0]
    except DBAPIError as error:
        if reader.database.dialect.classify(error) is not Fault.VALUE:
            raise
        found = None
    except ValueError:
        found = None
    if found is None:
        raise _refused(reader, column.name, text, kind)
    return str(found)


def _key_value(reader: ColumnReader, key: CursorColumn, text: str) -> KeyValue:
    if key.family in RENDERED_BY_DATABASE or key.form is not None:
        return column_text(reader, key, text) if key.family is not Family.TEXT else text
    try:
        return parse_key(text, key)
    except ValueError as error:
        raise reader.options.error(
            f"{error}.",
            column=key.name,
            next_step="Write the value as the table shows it.",
        ) from None


def _with_zone(reader: ColumnReader, column: CursorColumn, text: str) -> str:
    """Zoned columns: a text without a zone means UTC. Naive columns take no zone, which would be dropped silently."""
    if column.family not in MOMENTS:
        return text
    moment: datetime | None = None
    with contextlib.suppress(ValueError):
        moment = datetime.fromisoformat(text)
    if moment is None:
        if not reader.database.dialect.knows_other_times:
            raise ValueError(text)
        return text  # an infinity, a year before 1: PostgreSQL refuses what it does not take
    if column.family is not Family.TIMESTAMPTZ:
        if moment.tzinfo is not None:
            raise reader.options.error(
                f"column {column.name} has no time zone, and {text!r} names one.",
                column=column.name,
                next_step="Write it without, as the column holds it.",
            )
        return text
    if moment.tzinfo is None:
        return text + ("Z" if len(text) > len("2026-01-01") else "T00:00:00Z")
    return text if text.endswith("Z") else iso_text(moment.astimezone(UTC), column.digits, zoned=True)


def _in_form(reader: ColumnReader, column: CursorColumn, form: TextForm, text: str) -> str:
    """SQLite: the stored text's own form, or what can be written in it."""
    as_it_stands = form.pattern().fullmatch(text) is not None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        if as_it_stands:  # not a date of Python's, but of the column's form
            return text
        raise _refused(reader, column.name, text, "timestamps") from None
    if as_it_stands and not form.varies:
        return text
    offset = form.offset()
    if moment.tzinfo is not None:
        if offset is None:
            raise _refused(reader, column.name, text, "timestamps without a zone")
        moment = (moment.astimezone(UTC) + offset).replace(tzinfo=None)
    if not form.varies:
        return form.render(moment)
    fraction = _FRACTION.search(text)
    return _in_digits(reader, column, form, moment, fraction=fraction[1] if fraction else "")


def _in_digits(reader: ColumnReader, column: CursorColumn, form: TextForm, moment: datetime, *, fraction: str) -> str:
    """Fractions may differ in length from row to row, and text is compared as text: typed shorter than in a row, a time
    would sort before that row, and typed longer after it. So it is written as that row writes it; without such a row in
    the digits of the form, and in more digits only where they are not zero."""
    whole = replace(form, digits=0, zone="").render(moment)

    def written(digits: str) -> str:
        return f"{whole}.{digits}{form.zone}" if digits else whole + form.zone

    usual = written(fraction.rstrip("0").ljust(form.digits, "0"))
    typed = written(fraction)
    if typed == usual or column.name != reader.options.cursor_column:
        return usual
    held = reader.database.run(reader.statements.holding(), {"v": typed}).rows[0][0]
    return typed if held else usual


def _refused(reader: ColumnReader, column: str, text: str, kind: str) -> SourceError:
    return reader.options.error(
        f"column {column} holds {kind}, and {text!r} is not one.",
        column=column,
        next_step="Write it as the table shows it, for example 2026-04-07T01:23:45.123456 for a timestamp.",
    )
