"""The floor of `format = "arrow"`: a keyset page to a table by ADBC, by hand, and no state."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import adbc_driver_postgresql.dbapi as adbc
import sqlalchemy as sa

from benchmarks.full_page.table import COLUMNS
from benchmarks.throughput.systems import turns

plan = turns.asked()
address = sa.make_url(plan["url"]).set(drivername="postgresql")
connection = adbc.connect(address.render_as_string(hide_password=False), autocommit=True)
places: dict[tuple[str, int], Any] = {}


def page(table: str, batch: int, after: Any) -> Any:
    """With literals: bound parameters would keep the driver from COPY."""
    columns = ", ".join([*COLUMNS, "payload"] if table.endswith("_json") else COLUMNS)
    where = f"where (updated_at, id) > ('{after[0].isoformat()}', {after[1]})" if after else ""
    with connection.cursor() as cursor:
        cursor.execute(f"select {columns} from {table} {where} order by updated_at, id limit {batch}")
        return cursor.fetch_arrow_table()


def turn(table: str, batch: int, rows: int, tally: turns.Tally) -> None:
    for _ in range(rows // batch):
        found = page(table, batch, places.get((table, batch)))
        ids = found["id"]
        places[table, batch] = found["updated_at"][-1].as_py(), ids[-1].as_py()
        tally.count(ids[0].as_py(), ids[-1].as_py(), len(ids))


turns.serve(turn, version=f"adbc-driver-postgresql {version('adbc-driver-postgresql')}, pyarrow {version('pyarrow')}")
