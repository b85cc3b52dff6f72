"""Tables in files, for a look."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

from poller.ports import Row
from poller.sources.arrow import pyarrow
from poller.sources.arrow.values import Built


def table_of(rows: Sequence[Row]) -> Any:
    """Rows as a table, by the types of their values. Raises: ConfigError, SourceError."""
    names = list(rows[0]) if rows else []
    return Built([tuple(row.values()) for row in rows], names, {}, "the rows").arrow()


def as_bytes(table: Any, ending: str) -> bytes:
    """A table as Parquet (`.parquet`) or in Arrow's file format. Raises: ConfigError where pyarrow is not installed."""
    pa = pyarrow()
    sink = pa.BufferOutputStream()
    if ending == ".parquet":
        importlib.import_module("pyarrow.parquet").write_table(table, sink)
    else:
        with pa.ipc.new_file(sink, table.schema) as out:
            out.write_table(table)
    found: bytes = sink.getvalue().to_pybytes()
    return found
