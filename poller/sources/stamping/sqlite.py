"""SQLite: its functions return UTC; only the modifier 'localtime' means the zone of the machine that writes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime

from sqlalchemy.engine import Connection

from poller.sources.columns.uniqueness import quoted
from poller.sources.stamping import rules
from poller.sources.stamping.expressions import LOCAL, without_comments
from poller.sources.stamping.following import follow
from poller.sources.stamping.rules import Origin, Rule, Watched
from poller.sources.stamping.zones import Stamp, of_name

_HEAD = re.compile(r"(?P<head>.*?)\bbegin\b(?P<body>.*)", re.IGNORECASE | re.DOTALL)


def origin(connection: Connection, watched: Watched) -> Origin:
    """The column behind the cursor. Raises what the driver raises."""

    def view(schema: str | None, name: str) -> str | None:
        sql = f"SELECT sql FROM {_in(schema)}sqlite_master WHERE type = 'view' AND name = ? COLLATE NOCASE"  # noqa: S608
        found = connection.exec_driver_sql(sql, (name,)).first()
        return None if found is None else str(found[0] or "")

    at = follow("sqlite", watched.schema, watched.table, watched.query, watched.column, view)
    column = None if at.table is None else _column(connection, at.schema, at.table, at.column)
    if at.table is None or column is None:
        return Origin(None, None, "", [rules.expression("the column's expression", at.sql)])
    name, kind, made, hidden = column
    found: list[Rule] = []
    if hidden in (2, 3):
        found.append(rules.generated(None))
    elif made is not None:
        found.append(rules.default(made))
    triggers = f"SELECT name, sql FROM {_in(at.schema)}sqlite_master WHERE type = 'trigger'"  # noqa: S608 - quoted
    for one in connection.exec_driver_sql(f"{triggers} AND tbl_name = ? COLLATE NOCASE ORDER BY name", (at.table,)):
        found += _trigger(str(one[0]), str(one[1]), name, at.table)
    return Origin(at.schema, at.table, name, found, kind=kind)


def _column(
    connection: Connection, schema: str | None, table: str, column: str
) -> tuple[str, str, str | None, int] | None:
    for row in connection.exec_driver_sql(f"PRAGMA {_in(schema)}table_xinfo({quoted(table)})").mappings():
        if str(row["name"]).lower() == column.lower():
            return str(row["name"]), str(row["type"]), row["dflt_value"], int(row["hidden"])
    return None


def _trigger(name: str, sql: str, column: str, table: str) -> list[Rule]:
    found = _HEAD.fullmatch(without_comments(sql))
    if found is None:
        return []
    head = found["head"].upper()
    event = re.search(r"\b(INSERT|UPDATE|DELETE)\b", head.partition(name.upper())[2])
    firm = " WHEN " not in head and " OF " not in head
    events = event[1] if event else ""
    return rules.trigger(name, found["body"], column, events, to_new=False, firm=firm, tables=[table])


def _in(schema: str | None) -> str:
    return "" if schema is None else f"{quoted(schema)}."


def server(
    connection: Connection, watched: Watched, found: Origin, at: Sequence[datetime]  # noqa: ARG001 - one interface
) -> list[Stamp]:  # fmt: skip
    """The zone of SQLite's functions. Used where nothing stamps the column: then the application does, by any clock."""
    return [Stamp("UTC", "SQLite's own clock", dict.fromkeys(at, 0), assumed=True)]


def offsets(connection: Connection, zone: str, at: Sequence[datetime]) -> dict[datetime, int] | None:
    """Of 'localtime' by SQLite itself: this machine's, assumed to be the writers' too."""
    if zone != LOCAL:
        return of_name(zone, at)
    sql = "SELECT CAST(round((julianday(?, 'localtime') - julianday(?)) * 86400) AS INTEGER)"
    texts = [f"{one:%Y-%m-%d %H:%M:%S}" for one in at]
    return {
        one: int(connection.exec_driver_sql(sql, (text, text)).scalar_one())
        for one, text in zip(at, texts, strict=True)
    }
