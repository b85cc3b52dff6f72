"""The statements that fix a column, in the database's own SQL."""

from __future__ import annotations

from poller.sources.checkup.subject import Subject
from poller.sources.columns import Column


def fill_with_now(subject: Subject, column: Column) -> str:
    """The statement that sets missing times to the present, in the column's zone, whatever the zone of the session that
    runs it; empty where there is none. A time of another zone would lie above the bound, or below the checkpoint, where
    it is never read."""
    now = now_in(subject, column)
    if not now:
        return ""
    name = subject.name(column.name)
    return f"UPDATE {subject.table} SET {name} = {now} WHERE {name} IS NULL;"  # noqa: S608 - shown, not run


def now_in(subject: Subject, column: Column) -> str:
    """An expression for the present time in the column's zone, whatever the session's; empty where there is none."""
    return subject.checks.now(column, str(subject.options.zone or "UTC"))
