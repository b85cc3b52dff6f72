"""The statements that fix a column, in the database's own SQL. They are shown, never run: an administrator runs them in
another session, which may have another time zone.
"""

from __future__ import annotations

import re

from sqlalchemy.exc import DBAPIError

from poller.sources.checkup.subject import Subject
from poller.sources.columns import Column, Family

_QUOTED = r"'(?:[^'\\]|\\.|'')*'"
_NULLS = re.compile(rf"({_QUOTED})| DEFAULT NULL\b| NULL\b", re.DOTALL)
"""The parts of a definition about NULL, outside of its texts."""
_COMPUTED = re.compile(r" (?:CHECK|AS|GENERATED ALWAYS AS) ?\(")


def set_not_null(subject: Subject, column: str) -> str:
    """The statement that forbids NULL in a column and changes nothing else, or what to do where there is none."""
    name, table = subject.name(column), subject.table
    match subject.family:
        case "postgresql":
            return f"ALTER TABLE {table} ALTER COLUMN {name} SET NOT NULL;"
        case "mysql":
            defined = _defined(subject, column)
            if not defined:
                return f"Forbid NULL in {column}: ALTER TABLE ... MODIFY with its whole definition and NOT NULL."
            subject.not_null = f"{defined} NOT NULL"
            return f"ALTER TABLE {table} MODIFY {subject.not_null};"
        case "mssql":
            found = subject.inspector.get_columns(subject.options.table or "", schema=subject.options.schema_name)
            kind = next((c["type"] for c in found if c["name"] == column), None)
            type_name = "" if kind is None else kind.compile(subject.session.database.engine.dialect) + " "
            return f"ALTER TABLE {table} ALTER COLUMN {name} {type_name}NOT NULL;"
        case _:
            return f"Create the table again with {column} NOT NULL: SQLite cannot add that to a column."


def _defined(subject: Subject, column: str) -> str:
    """A column's definition as SHOW CREATE TABLE writes it, without its parts about NULL: MODIFY replaces the whole
    definition, so a default or an ON UPDATE left out would be lost. Empty where it is unknown or cannot be parsed."""
    definition = definition_of(subject, subject.table, column)
    return with_default(_NULLS.sub(lambda found: found[1] or "", definition)) if definition else ""


def definition_of(subject: Subject, table: str, column: str) -> str:
    """MariaDB and MySQL: a column's definition as SHOW CREATE TABLE writes it; empty where it is computed or unknown.
    `table`: quoted."""
    try:
        records = subject.run("SHOW CREATE TABLE " + table.replace(":", "\\:"))
    except DBAPIError:
        return ""
    starts = tuple(f"{quote}{column.replace(quote, quote * 2)}{quote} " for quote in ("`", '"'))
    for line in str(records.rows[0][1]).splitlines()[1:]:
        definition = line.strip().removesuffix(",")
        if definition.startswith(starts):
            return "" if _COMPUTED.search(re.sub(_QUOTED, "''", definition)) else definition
    return ""


def with_default(definition: str) -> str:
    """The definition with a default of the present time. Without one some servers insert 0000-00-00, which lies below
    every checkpoint, into a TIMESTAMP that may not be NULL, and into a DATETIME with ON UPDATE."""
    stamp = re.match(r"""(?:`.*?`|".*?") (?:timestamp|datetime)(\(\d\))?""", definition)
    bare = re.sub(_QUOTED, "''", definition)
    if stamp is None or " DEFAULT " in bare or (" datetime" in stamp[0] and " ON UPDATE " not in bare.upper()):
        return definition
    at = stamp.end()
    return f"{definition[:at]} DEFAULT CURRENT_TIMESTAMP{stamp[1] or ''}{definition[at:]}"


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
    zone = str(subject.options.zone or "UTC")
    digits = f"({column.digits})" if column.digits else ""
    naive, zoned = column.family is Family.TIMESTAMP, column.family is Family.TIMESTAMPTZ
    match subject.family:
        case "postgresql" if zoned:
            return "CURRENT_TIMESTAMP"
        case "postgresql" if naive:
            return f"CURRENT_TIMESTAMP AT TIME ZONE '{zone}'"
        case "mysql" if zoned:
            return f"CURRENT_TIMESTAMP{digits}"
        case "mysql" if naive and zone == "UTC":
            return f"UTC_TIMESTAMP{digits}"
        case "mssql" if zoned:
            return "SYSDATETIMEOFFSET()"
        case "mssql" if naive and zone == "UTC":
            return "SYSUTCDATETIME()"
        case _:
            return ""
