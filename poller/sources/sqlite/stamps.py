"""SQLite: its functions return UTC; only the modifier 'localtime' means the zone of the machine that writes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from functools import partial

from sqlalchemy.engine import Connection

from poller.sources.columns import quoted
from poller.sources.sqlite.bound import definition, within
from poller.sources.stamping import (
    ColumnOrigin,
    Stamp,
    StampRule,
    Watched,
    Words,
    by_default,
    by_generation,
    by_trigger,
    of_name,
    traced,
    without_comments,
)

WORDS = Words(
    utc=r"\bcurrent_(?:timestamp|date)\b|'now'|\b(?:datetime|date|julianday|unixepoch)\s*\(\s*\)",
    session=r"(?!)",
    known="strftime datetime date time julianday unixepoch coalesce ifnull max min cast nullif",
    other=r"'utc'|'[+-]\d",
    earlier=r"\bcurrent_date\b|\bdate\s*\(|'start of",
    local="localtime",
)

_HEAD = re.compile(r"(?P<head>.*?)\bbegin\b(?P<body>.*)", re.IGNORECASE | re.DOTALL)


def origin(connection: Connection, watched: Watched) -> ColumnOrigin:
    """The column behind the cursor. Raises what the driver raises."""
    return traced(watched, partial(_view, connection), partial(_table, connection))


def _view(connection: Connection, schema: str | None, name: str) -> str | None:
    kind, sql = definition(connection, schema, name)
    return sql if kind == "view" else None


def _table(connection: Connection, schema: str | None, table: str, column: str) -> ColumnOrigin | None:
    described = connection.exec_driver_sql(f"PRAGMA {within(schema)}table_xinfo({quoted(table)})").mappings().all()
    row = next((one for one in described if str(one["name"]).lower() == column.lower()), None)
    if row is None:
        return None
    name = str(row["name"])
    found: list[StampRule] = []
    if int(row["hidden"]) in (2, 3):
        found.append(by_generation(None))
    elif row["dflt_value"] is not None:
        found.append(by_default(row["dflt_value"]))
    triggers = f"SELECT name, sql FROM {within(schema)}sqlite_master WHERE type = 'trigger'"  # noqa: S608 - quoted
    for one in connection.exec_driver_sql(f"{triggers} AND tbl_name = ? COLLATE NOCASE ORDER BY name", (table,)):
        found += _trigger(str(one[0]), str(one[1]), name, table)
    return ColumnOrigin(schema, table, name, found, kind=str(row["type"]))


def _trigger(name: str, sql: str, column: str, table: str) -> list[StampRule]:
    found = _HEAD.fullmatch(without_comments(sql))
    if found is None:
        return []
    head = found["head"].upper()
    event = re.search(r"\b(INSERT|UPDATE|DELETE)\b", head.partition(name.upper())[2])
    firm = " WHEN " not in head and " OF " not in head
    events = event[1] if event else ""
    return by_trigger(name, found["body"], column, events, to_new=False, firm=firm, tables=[table])


def server(connection: Connection, watched: Watched, found: ColumnOrigin, at: Sequence[datetime]) -> list[Stamp]:
    """The zone of SQLite's functions. Used where nothing stamps the column: then the application does, by any clock."""
    return [Stamp("UTC", "SQLite's own clock", dict.fromkeys(at, 0), assumed=True)]


def offsets(connection: Connection, zone: str, at: Sequence[datetime]) -> dict[datetime, int] | None:
    """Of 'localtime' by SQLite itself: this machine's, assumed to be the writers' too."""
    if zone != WORDS.local:
        return of_name(zone, at)
    sql = "SELECT CAST(round((julianday(?, 'localtime') - julianday(?)) * 86400) AS INTEGER)"
    texts = [f"{one:%Y-%m-%d %H:%M:%S}" for one in at]
    return {
        one: int(connection.exec_driver_sql(sql, (text, text)).scalar_one())
        for one, text in zip(at, texts, strict=True)
    }
