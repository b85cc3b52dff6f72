"""Whether an UPDATE of a row changes its cursor: where nothing does, changed rows are never delivered."""

from __future__ import annotations

from poller.model.finding import Finding, ok, warn
from poller.sources.checkup.subject import Subject
from poller.sources.columns import Column
from poller.sources.columns.moments import TextForm
from poller.sources.stamping import Origin, Reading, promises_updates, read

NEW_ROWS_ONLY = "new rows only"


def updates(subject: Subject) -> list[Finding]:
    """What in the database changes the cursor's column when its row is updated; where nothing does although the
    column's name or type promises it, the statement that adds it."""
    o, found = subject.options, subject.origin
    name = o.cursor_column
    if found.table is None:
        return []  # an expression, or a definition that may not be read: the check of the time zone names it
    by = [rule.what for rule in found.rules if rule.updates]
    if by and all(rule.sql is None and not rule.firm for rule in found.rules if rule.updates):
        who = ", ".join(dict.fromkeys(by))
        return [ok("updates", f"{who} may change {name} with an UPDATE: it cannot be read; make sure that it does")]
    if by or o.cursor_kind == "rowversion+pk":
        return [ok("updates", f"an UPDATE changes {name}: {', '.join(dict.fromkeys(by)) or 'it is a rowversion'}")]
    if o.cursor_kind != "xid8+pk" and not promises_updates(name):
        return [ok("updates", f"{NEW_ROWS_ONLY}: {name} stays as it is when a row is updated")]
    unseen = f" Its {found.hidden} cannot be seen by this user." if found.hidden else ""
    return [
        warn(
            "updates",
            f"Nothing in the database changes {name} when a row is updated (no trigger, no ON UPDATE, no generated"
            f" expression): UPDATEs that do not set it themselves are never delivered.{unseen}",
            touching(subject, found) or f"Let a trigger set {name} at every UPDATE.",
        )
    ]


def touching(subject: Subject, found: Origin) -> str:
    """The statements that give the column a new value at every UPDATE; empty where none is sure to."""
    value = _value(subject, found)
    schema = _schema(subject, found)
    table, name = schema + subject.name(found.table or ""), subject.name(f"{found.table}_set_{found.column}"[:60])
    changed = subject.checks.on_update(subject, found, table)
    if changed or not value:
        return changed
    return subject.checks.trigger(subject, found, schema=schema, name=name, value=value)


def _schema(subject: Subject, found: Origin) -> str:
    """The table's schema and a dot, where a person would write it: it was configured, or the table was not."""
    o = subject.options
    needed = found.schema is not None and (o.schema_name is not None or found.table != o.table)
    return f"{subject.name(found.schema or '')}." if needed else ""


def _value(subject: Subject, found: Origin) -> str:
    """What the trigger sets: the column's DEFAULT, or else the present time in the column's zone."""
    if subject.options.cursor_kind == "xid8+pk":
        return "pg_current_xact_id()"
    if found.table != subject.options.table and not subject.checks.keys_keep_names:
        return ""  # the key's columns may have other names in the table
    for rule in found.rules:
        if rule.is_default and rule.sql and read(rule.sql, subject.family)[0] in {Reading.FIXED, Reading.SESSION}:
            return f"({rule.sql.strip()})" if subject.checks.quotes_defaults else rule.sql.strip()
    known = subject.session.table.learn()
    if known is None:
        return ""
    if known.cursor.form is not None:
        return _strftime(known.cursor.form) if str(subject.options.zone or "UTC") == "UTC" else ""
    return now_in(subject, known.cursor)


def _strftime(form: TextForm) -> str:
    """SQLite's present time in the form of the column's texts; empty where SQLite cannot write that form."""
    if not form.separator:
        return "date('now')"
    if not form.seconds or form.zone not in {"", "Z", "+00:00"}:
        return ""
    seconds = "%f" if form.digits else "%S"
    more = "0" * max(0, form.digits - 3)
    return f"strftime('%Y-%m-%d{form.separator}%H:%M:{seconds}{more}{form.zone}', 'now')"


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
