"""A stored cursor compared with the column as it is now: after a change of its type the text may mean another place.

Continuing is safe where the column can have produced the text. Otherwise rows could be skipped without any error: then
reading stops, and says what was changed.
"""

from __future__ import annotations

import re

from poller.errors import SourceError
from poller.model.cursor import Cursor
from poller.sources.columns import Column, Family
from poller.sources.options import Options
from poller.sources.reading.inspection import Inspection

_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.(?P<fraction>\d+))?(?P<zone>Z?)", re.ASCII)
_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)


def refuse_changed(cursor: Cursor | None, known: Inspection, options: Options) -> None:
    """Return where the cursor fits. Raises: SourceError naming the column that was changed."""
    if cursor is None:
        return
    why = _moment_of_another_column(cursor, known.cursor, options)
    if why:
        raise _changed(options, known.cursor.name, cursor, why)
    for key in known.keys:
        value = (cursor.tiebreaker or {}).get(key.name)
        if (key.family is Family.INTEGER and isinstance(value, str)) or (
            key.family is Family.TEXT and isinstance(value, int)
        ):
            raise _changed(options, key.name, cursor, f"the column holds {key.family.value} values now")


def _moment_of_another_column(cursor: Cursor, column: Column, options: Options) -> str:
    """Why this text cannot have come from this column; empty where it can."""
    if options.cursor_kind != "timestamp+pk":
        return ""
    if column.form is not None:
        # Only for a row's own text: a `start_from` may have another form.
        fits = cursor.tiebreaker is None or column.form.pattern().fullmatch(cursor.value)
        return "" if fits else "the column's text is written in another form now"
    found = _MOMENT.fullmatch(cursor.value)
    if found is None:
        return ""  # an infinity, a year before 1, a date: the database refuses what it does not take
    if column.family is Family.DATE:
        return "the column holds dates now"
    if column.family is Family.TIMESTAMPTZ and not found["zone"]:
        return "the column has a time zone now, and had none"
    if column.family is Family.TIMESTAMP and found["zone"]:
        return "the column has no time zone now, and had one"
    lost = (found["fraction"] or "")[column.digits :]
    if options.table is not None and lost.strip("0"):
        return f"the column holds {column.digits} digits of a second now"
    return ""


def _changed(options: Options, column: str, cursor: Cursor, why: str) -> SourceError:
    return SourceError(
        f"{options.what}: the checkpoint {cursor} cannot have come from column {column} as it is now: {why}. Rows could"
        " be skipped.",
        table=options.what,
        column=column,
        next_step="Change the column back, or set the checkpoint with poller reset-to-cursor.",
    )
