"""What a file of the blob relay holds: JSON Lines or Parquet."""

from __future__ import annotations

import base64
import gzip
import io
from collections.abc import Sequence
from typing import Any

from poller.errors import PollerError
from poller.handler.batch import Batch
from poller.relays.messages import json_bytes, readable


def empty_file(name: str, columns: str) -> bytes:
    """A file without rows, in the format that its name says, which readers accept."""
    if name.endswith(".parquet"):
        return _written(_unpacked(columns).empty_table(), "none")
    return gzip.compress(b"", mtime=0) if name.endswith(".gz") else b""


class JsonLines:
    """A row as one line of JSON, in UTF-8.

    Args:
        batch: whose rows may be written. Those that have no JSON are rejected, and not among `rows`.
        compressed: with gzip, the same bytes of the same rows each time.
    """

    def __init__(self, batch: Batch, *, compressed: bool) -> None:
        self.suffix = ".jsonl.gz" if compressed else ".jsonl"
        self.content_type = "application/gzip" if compressed else "application/x-ndjson"
        self._compressed = compressed
        positions = {id(row): position for position, row in enumerate(batch.rows)}
        self.rows: dict[int, dict[str, Any]] = {positions[id(row)]: values for row, values in readable(batch)}

    def columns(self, known: str) -> str:
        """Nothing is kept: JSON says of each value what it is."""
        return known

    def encode(self, positions: Sequence[int], columns: str) -> bytes:  # noqa: ARG002
        """A file with these rows."""
        lines = b"".join(json_bytes(self.rows[position]) + b"\n" for position in positions)
        return gzip.compress(lines, mtime=0) if self._compressed else lines


class Parquet:
    """A Parquet file of `batch.table`. A column has the same type in all files of a poller, which the ledger keeps; one
    of which no value was seen yet has the type `null`, until there is one. A new column comes at the end.

    Raises: ConfigError, where the source does not have `format = "arrow"`.
    """

    suffix = ".parquet"
    content_type = "application/vnd.apache.parquet"

    def __init__(self, batch: Batch, *, compressed: bool) -> None:
        self._table = batch.table
        self._compression = "gzip" if compressed else "snappy"
        self.rows = range(len(batch))

    def columns(self, known: str) -> str:
        """The schema as the ledger keeps it, with the columns of this batch."""
        return base64.b64encode(self._merged(known).serialize().to_pybytes()).decode()

    def encode(self, positions: Sequence[int], columns: str) -> bytes:
        """A file with these rows. Raises: PollerError, where a column's values do not have its type any more."""
        import pyarrow as pa

        schema = _unpacked(columns)
        part = self._table.take(pa.array(positions, pa.int64()))
        arrays = []
        for field in schema:
            column = part.column(field.name) if field.name in part.schema.names else pa.nulls(len(part), field.type)
            arrays.append(self._cast(column, field))
        return _written(pa.Table.from_arrays(arrays, schema=schema), self._compression)

    def _merged(self, known: str) -> Any:
        import pyarrow as pa

        own = {field.name: field for field in self._table.schema}
        fields = []
        for field in _unpacked(known) if known else ():
            newer = own.pop(field.name, field)
            fields.append(newer.with_nullable(True) if pa.types.is_null(field.type) else field)
        return pa.schema([*fields, *(field.with_nullable(True).remove_metadata() for field in own.values())])

    @staticmethod
    def _cast(column: Any, field: Any) -> Any:
        import pyarrow as pa

        if column.type == field.type:
            return column
        try:
            return column.cast(field.type)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            pass
        raise PollerError(
            f'The column "{field.name}" is of the type {column.type} now, and {field.type} in the files landed so far.',
            next_step="Cast it in the source (query = ...), or land the new type under another path.",
        )


def _unpacked(columns: str) -> Any:
    import pyarrow as pa

    return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(columns)))


def _written(table: Any, compression: str) -> bytes:
    import pyarrow.parquet as parquet

    written = io.BytesIO()
    parquet.write_table(table, written, compression=compression)
    return written.getvalue()
