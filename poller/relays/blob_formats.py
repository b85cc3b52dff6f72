"""What a file of the blob relay holds: JSON Lines or Parquet."""

from __future__ import annotations

import base64
import gzip
import io
from collections.abc import Mapping, Sequence
from typing import Any

from poller.errors import PollerError
from poller.handler.batch import Batch
from poller.model.captured import OLD
from poller.relays.messages import json_bytes, json_text, plain_value, readable
from poller.relays.ordering import chosen


def empty_file(name: str, columns: str) -> bytes:
    """A file without rows, in the format that its name says, which readers accept."""
    if name.endswith(".parquet"):
        return _written(_unpacked(columns).remove_metadata().empty_table(), "none")
    return gzip.compress(b"", mtime=0) if name.endswith(".gz") else b""


_PATH = b"path"
"""Under which the ledger's schema says where its files are; the files themselves do not."""


class JsonLines:
    """A row as one line of JSON, in UTF-8.

    Args:
        batch: whose rows may be written. Those that have no JSON are rejected, and not among `rows`.
        columns: of the relay.
        compressed: with gzip, the same bytes of the same rows each time.
    """

    def __init__(self, batch: Batch, columns: Mapping[str, str], *, compressed: bool) -> None:
        self.suffix = ".jsonl.gz" if compressed else ".jsonl"
        self.content_type = "application/gzip" if compressed else "application/x-ndjson"
        self._compressed = compressed
        positions = {id(row): position for position, row in enumerate(batch.rows)}
        found = readable(batch, columns)
        self.rows = {positions[id(row)]: chosen(values, columns) for row, values in found}

    def columns(self, known: str) -> str:
        """Nothing is kept: JSON says of each value what it is."""
        return known

    def encode(self, positions: Sequence[int], columns: str) -> bytes:  # noqa: ARG002
        """A file with these rows."""
        lines = b"".join(json_bytes(self.rows[position]) + b"\n" for position in positions)
        return gzip.compress(lines, mtime=0) if self._compressed else lines


class Parquet:
    """A Parquet file of `batch.table`. A column has the same type in all files of a poller under one `path`, which the
    ledger keeps, or from some file on a wider one; one without a value so far has the type `null`, until there is
    one. A new column comes at the end.

    Raises: ConfigError, if the source does not have `format = "arrow"`, or rows lack one of the relay's columns.
    """

    suffix = ".parquet"
    content_type = "application/vnd.apache.parquet"

    def __init__(self, batch: Batch, columns: Mapping[str, str], path: str, *, compressed: bool) -> None:
        table = _with_old_as_text(batch.table)
        if columns:  # asked of one mapping for all rows: whether there are such columns
            chosen(dict.fromkeys(table.schema.names), columns)
            table = table.select([*columns.values()]).rename_columns([*columns])
        self._table = table
        self._path = path.encode()
        self._compression = "gzip" if compressed else "snappy"
        self.rows = range(len(batch))

    def columns(self, known: str) -> str:
        """The schema as the ledger keeps it, with the columns of this batch."""
        return base64.b64encode(self._merged(known).serialize().to_pybytes()).decode()

    def encode(self, positions: Sequence[int], columns: str) -> bytes:
        """A file with these rows. Raises: PollerError, if a column's values do not have its type any more."""
        import pyarrow as pa

        schema = _unpacked(columns).remove_metadata()
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
        schema = _unpacked(known) if known else pa.schema([])
        if (schema.metadata or {}).get(_PATH, self._path) != self._path:
            schema = pa.schema([])  # the files of another path have types of their own
        for field in schema:
            newer = own.pop(field.name, field)
            fields.append(newer.with_nullable(True) if _holds(newer.type, field.type) else field)
        fields += [field.with_nullable(True).remove_metadata() for field in own.values()]
        return pa.schema(fields, metadata={_PATH: self._path})

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
            f'The column "{field.name}" is of the type {column.type} now, and {field.type} in the files so far.',
            next_step="Cast it in the source (query = ...), or set another path: its files have types of their own.",
        )


def _with_old_as_text(table: Any) -> Any:
    """The table with the old row of a change as JSON text: as a struct it would have another type in each batch."""
    import pyarrow as pa
    import pyarrow.types as types

    at = table.schema.get_field_index(OLD)
    if at < 0 or not (types.is_struct(table.schema.field(at).type) or types.is_map(table.schema.field(at).type)):
        return table
    texts = [None if one is None else json_text(plain_value(dict(one))) for one in table.column(at).to_pylist()]
    return table.set_column(at, OLD, pa.array(texts, pa.string()))


def _holds(newer: Any, older: Any) -> bool:
    """True if a column of the newer type holds all that one of the older type can."""
    import pyarrow.types as types

    if types.is_null(older):
        return True
    alike = any(kind(newer) and kind(older) for kind in (types.is_signed_integer, types.is_floating))
    return alike and newer.bit_width > older.bit_width


def _unpacked(columns: str) -> Any:
    import pyarrow as pa

    return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(columns)))


def _written(table: Any, compression: str) -> bytes:
    import pyarrow.parquet as parquet

    written = io.BytesIO()
    parquet.write_table(table, written, compression=compression)
    return written.getvalue()
