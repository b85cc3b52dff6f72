"""SQLite: rows below the cursor whose timestamp has another form than the column's.

Text is sorted as text. `2026-01-05 10:00:01` sorts below every `2026-01-05T...`: a cursor of that day has passed it,
and no page finds it. So such rows are searched: by index seeks for the other separators of that day, and among all rows
of the cursor's day and the day before. What makes a row one of these is part of each search: a search that took some
rows and looked at them afterwards would not see past those that the filter omits, or that are of the form.
"""

# ruff: noqa: S608 - names are quoted, the filter was checked, values are bound

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

from poller.errors import SourceError
from poller.model.cursor import Cursor
from poller.sources.columns import CursorColumn, TextForm, quoted
from poller.sources.connection import Database
from poller.sources.options import ReadOptions
from poller.sources.page import Relation

EVERY = 60.0
"""Seconds from one look to the next."""
MINUTES = 3
"""The number of minutes up to the cursor's that are searched for texts without seconds, which sort before the minute's
others."""
_LAST = "\U0010ffff"
_YEAR, _TWO = "[0-9]" * 4, "[0-9]" * 2
_WHOLE = len("2026-01-01T00:00:00")


class FormWatch:
    """Searches rows of another form at the first page after a cursor, and then at most every `EVERY` seconds.

    Args:
        quote: a name as the database quotes it. monotonic: seconds since some fixed instant.
    """

    def __init__(
        self,
        database: Database,
        options: ReadOptions,
        relation: Relation,
        quote: Callable[[str], str],
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database = database
        self._options = options
        self._relation = relation
        self._quote = quote
        self._monotonic = monotonic
        self._looked: float | None = None

    def look_at_times(self, column: CursorColumn, after: Cursor | None) -> None:
        """Look, when it is time. From the beginning (None) pages find every row themselves.

        Raises: SourceError, at every page, while there is such a row."""
        now = self._monotonic()
        if after is None or (self._looked is not None and now - self._looked < EVERY):
            return
        self.look(column, after)
        self._looked = now

    def look(self, column: CursorColumn, after: Cursor) -> None:
        """Look now for rows whose time has another form than `column.form`.

        Raises: SourceError naming both forms, a row, and the statement that fixes it."""
        if column.form is None or not self._options.is_timed:
            return
        for sql, params in self.statements(column.form, after):
            for value, *key in self._database.run(sql, params).rows:
                names = dict(zip(self._options.pk_columns, key, strict=True))
                raise mixed_forms(self._options, column.form, value, names)

    def statements(self, form: TextForm, after: Cursor) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """The queries: of one such row, its cursor and its key."""
        relation = self._relation
        column, *keys = (
            f"{relation.alias}.{self._quote(name)}" for name in (self._options.cursor_column, *self._options.pk_columns)
        )
        selected = ", ".join([f"{column} AS poller_form", *keys])
        odd, of_form = is_odd(form, column)
        wanted = f"{odd} AND {relation.condition}" if relation.condition else odd
        limited = self._database.dialect.limited
        seeks = list(_seeks(form, after.value))
        where = " OR ".join(f"({column} >= :l{i} AND {column} < :h{i})" for i in range(len(seeks)))
        params = {f"{end}{i}": value for i, seek in enumerate(seeks) for end, value in zip("lh", seek, strict=True)}
        yield limited(selected, f"FROM {relation.sql} WHERE ({where}) AND {wanted}", 1), params | of_form
        below = f"FROM {relation.sql} WHERE {column} <= :v AND {column} >= :low AND {wanted}"
        yield limited(selected, below, 1), {"v": after.value, "low": min(_days(after.value)), **of_form}


def is_odd(form: TextForm, column: str) -> tuple[str, dict[str, str]]:
    """The condition for a value that is not a text of the form (`TextForm.pattern` in SQL), and what it binds."""
    text = f"{_YEAR}-{_TWO}-{_TWO}"
    if form.separator:
        text += form.separator + ":".join([_TWO] * (3 if form.seconds else 2))
    params = {"form": f"{text}.{'[0-9]' * form.digits}{form.zone}" if form.digits else text + form.zone}
    odd = f"{column} NOT GLOB :form"  # first, and mostly all that is compared
    if form.varies:
        fraction = f"substr({column}, {_WHOLE + 2}, length({column}) - {_WHOLE + 1 + len(form.zone)})"
        odd += f" AND {column} NOT GLOB :whole AND ({column} NOT GLOB :parted OR {fraction} GLOB '*[^0-9]*')"
        params |= {"whole": text + form.zone, "parted": f"{text}.[0-9]*{form.zone}"}
    return f"(typeof({column}) <> 'text' OR {odd})", params


def _days(text: str) -> list[str]:
    """The day of a cursor, the day before and the day after: another zone may be a day off."""
    try:
        day = date.fromisoformat(text[:10])
        return [(day + timedelta(days=days)).isoformat() for days in (-1, 0, 1)]
    except (ValueError, OverflowError):
        return [text[:10]]


def _seeks(form: TextForm, text: str) -> Iterator[tuple[str, str]]:
    """Where texts of other forms sort, from one text up to another: none of the column's own form sorts there."""
    for day in _days(text):
        if form.separator:
            yield day, day + form.separator
            yield day + chr(ord(form.separator) + 1), day + _LAST
        else:
            yield day + "\x01", day + _LAST
    if not form.seconds:
        return
    with contextlib.suppress(ValueError, OverflowError):  # not a date of Python's; before its first there is nothing
        minute = datetime.fromisoformat(text[:16])
        for back in range(MINUTES):
            start = (minute - timedelta(minutes=back)).isoformat(form.separator, "minutes")
            yield start, start + ":"


def mixed_forms(options: ReadOptions, form: TextForm, value: object, key: Mapping[str, Any]) -> SourceError:
    """The error for a row whose timestamp has another form than its column's others."""
    other = TextForm.of(value) if isinstance(value, str) else None
    name = options.cursor_column
    row = ", ".join(f"{part}={text}" for part, text in key.items() if part != name)
    step = "Write all of them in one form, or leave the odd ones out with a `filter`."
    fix = None if other is None else _fix(options, form, other)
    if fix is not None:
        step = (
            f"Run: {fix}; Then use `poller reset-to-cursor` to go back to before the first of these rows, which the"
            " checkpoint may have passed, and make every writer use one form."
        )

    def message(quoted: str) -> str:
        return (
            f"column {name} holds times in two forms: {form} and, in the row {row},"
            f" {other or quoted}. They are sorted as text, so such rows are skipped."
        )

    return options.error(
        message(repr(str(value)[:40])),
        without_values=message("no time"),
        column=name,
        next_step=step,
    )


def _fix(options: ReadOptions, form: TextForm, other: TextForm) -> str | None:
    """The statement that rewrites the other form's rows in the column's form, or the reverse where that loses less of a
    time; None where their meaning is not known."""
    if _loses(form, other):
        form, other = other, form
    unclear = bool(form.zone) != bool(other.zone) and options.zone not in {None, UTC}
    if options.table is None or unclear or _loses(form, other):
        return None
    table = ".".join(quoted(part) for part in (options.schema_name, options.table) if part is not None)
    column = quoted(options.cursor_column)
    alike = replace(other, separator=form.separator, digits=form.digits if form.varies else other.digits)
    if alike == form and form.separator:
        value = f"substr({column}, 1, 10) || '{form.separator}' || substr({column}, 12)"
    else:
        value = _rewritten(form, column)
    return f"UPDATE {table} SET {column} = {value} WHERE {_is_written(form, other, column)}"


def _loses(form: TextForm, other: TextForm) -> bool:
    """True if a time of the other form would lose its hours, seconds or milliseconds in this one."""
    if other.separator and not form.separator:
        return True
    return (other.seconds and not form.seconds) or form.digits < min(other.digits, 3)


def _rewritten(form: TextForm, column: str) -> str:
    """A time of any form in the column's form, by SQLite's functions: UTC, milliseconds."""
    offset = form.offset()
    minutes = 0 if offset is None else round(offset.total_seconds() / 60)
    shift = f", '{minutes:+d} minutes'" if minutes else ""
    pattern = "%Y-%m-%d" + (f"{form.separator}%H:%M" if form.separator else "")
    if form.seconds:
        pattern += ":%f" if form.digits else ":%S"
    value = f"strftime('{pattern}', {column}{shift})"
    if form.digits and form.digits != 3:
        value = f"substr({value} || '{'0' * max(0, form.digits - 3)}', 1, {20 + form.digits})"
    return f"{value} || '{form.zone}'" if form.zone else value


def _is_written(form: TextForm, other: TextForm, column: str) -> str:
    """The condition for the other form's rows."""
    if other.separator != form.separator:
        return f"substr({column}, 11, 1) = '{other.separator}'"
    if other.zone != form.zone:
        return f"{column} LIKE '%{other.zone}'" if other.zone else f"{column} NOT LIKE '%{form.zone}'"
    length = len(str(other))
    return f"length({column}) = {length}"
