"""Which Arrow type each type of PostgreSQL becomes, and the value that a row has for it.

The driver of ADBC is not asked for what it gets wrong: `oid` (as a signed integer of 32 bits), `money` (cents of an
unknown currency), arrays of several dimensions (flattened), intervals (an error where their nanoseconds overflow),
composite types and everything that it knows only as bytes. All of them are cast in the statement.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC
from typing import Any

from poller.sources.arrow import pyarrow
from poller.sources.postgresql.json import marks_json

_PLAIN = {
    16: "bool",
    17: "binary",
    19: "string",  # name
    20: "int64",
    21: "int16",
    23: "int32",
    25: "string",
    700: "float",
    701: "double",
    1042: "string",  # bpchar
    1043: "string",  # varchar
}
_MOMENTS = {1082: "date", 1083: "time", 1114: "timestamp", 1184: "timestamptz"}
_ARRAYS = {1000: "bool", 1005: "int16", 1007: "int32", 1009: "string", 1015: "string", 1016: "int64", 1022: "double"}
_OID = 26
_JSON = (114, 3802)
_CAST = {*_JSON, 1186, 1700, 2950}
"""Beside JSON: interval, numeric, uuid. Their CAST to text writes what the server sends to psycopg."""
_OUTPUT = "(output)"
_DAY = 86_400_000_000
_LIMITS = {
    "timestamp": (-62_135_596_800_000_000, 253_402_300_800_000_000),
    "date": (-719_162, 2_932_897),
    "time": (0, _DAY),
}
"""From the year 1 to the year 9999, and from 0:00 to before 24:00: what Python can hold. PostgreSQL's infinities lie
beyond, and ADBC passes them on as some number."""


@dataclass(frozen=True, slots=True)
class Kind:
    """How a column crosses.

    Attributes:
        oid: of its type. arrow: Arrow's type, by our own name. cast: the type of a CAST in the statement; empty where
            there is none. text: whether rows have what psycopg makes of that text. item: of a list, its values' type.
    """

    oid: int
    arrow: str
    cast: str = ""
    text: bool = False
    item: bool = False

    @classmethod
    def of(cls, oid: int) -> Kind:
        """For the oid of a type (pg_type.dat). Domains come as what they are made of."""
        if oid in _PLAIN:
            return cls(oid, _PLAIN[oid])
        if oid in _MOMENTS:
            return cls(oid, _MOMENTS[oid])
        if oid in _ARRAYS:
            return cls(oid, _ARRAYS[oid], item=True)
        if oid == _OID:
            return cls(oid, "int64", cast="bigint")
        return cls(oid, "string", cast="text" if oid in _CAST else _OUTPUT, text=oid not in _JSON)

    @property
    def type(self) -> Any:
        """Arrow's."""
        pa = pyarrow()
        match self.arrow:
            case "timestamptz":
                return pa.timestamp("us", tz="UTC")
            case "timestamp":
                return pa.timestamp("us")
            case "date":
                return pa.date32()
            case "time":
                return pa.time64("us")
            case "float":
                found = pa.float32()
            case "double":
                found = pa.float64()
            case "bool":
                found = pa.bool_()
            case name:
                found = getattr(pa, name)()
        return pa.list_(found) if self.item else found

    def select(self, column: str) -> str:
        """The column in the statement."""
        if self.cast == _OUTPUT:  # unlike a CAST, which some types define otherwise: inet's adds its mask
            # not IS NOT NULL: that is false for a composite value with a NULL in one of its fields
            return f"CASE WHEN {column} IS DISTINCT FROM NULL THEN concat({column}) END"
        return f"CAST({column} AS {self.cast})" if self.cast else column

    def is_beyond(self, column: Any) -> bool:
        """Whether the column holds a time that Python cannot hold, an infinity among them."""
        limits = _LIMITS.get(self.arrow.removesuffix("tz"))
        if limits is None or self.item:
            return False
        pc, pa = pyarrow().compute, pyarrow()
        number = pa.int32() if self.arrow == "date" else pa.int64()
        found = pc.min_max(column.cast(number))
        least, most = found["min"].as_py(), found["max"].as_py()
        return least is not None and not (limits[0] <= least and most < limits[1])


Load = Callable[[bytes], Any]


def python_values(column: Any, kind: Kind, load: Load | None, zone: str | None) -> list[Any]:
    """The values as psycopg gives them.

    Args:
        load: makes a value of the server's text, for the kinds that come so. zone: the session's time zone; None: UTC.
    """
    if kind.text or load is not None:
        return [None if value is None else _loaded(value, load) for value in column.to_pylist()]
    if kind.arrow == "float" and not kind.item:  # 1.1 and not 1.100000023841858: the digits that it has
        shortest = column.cast(pyarrow().string()).to_pylist()
        return [None if value is None else float(value) for value in shortest]
    if kind.arrow == "timestamptz":
        if zone:
            column = column.cast(pyarrow().timestamp("us", tz=zone))
        else:
            naive = column.cast(pyarrow().timestamp("us")).to_pylist()
            return [None if value is None else value.replace(tzinfo=UTC) for value in naive]
    found: list[Any] = column.to_pylist()
    return found


def loads_of(kinds: Sequence[Kind], columns: Sequence[Any], connection: Any) -> tuple[Load | None, ...]:
    """Of psycopg's connection, what makes values of the server's text, for the kinds that come so. Each is tried on the
    first value of its column: what it asks of the connection it asks now, and not when the handler wants rows."""
    from psycopg.adapt import Transformer
    from psycopg.pq import Format

    adapter = Transformer(connection)

    def load_of(kind: Kind, column: Any) -> Load | None:
        loader = adapter.get_loader(kind.oid, Format.TEXT)
        if not kind.text and not (kind.oid in _JSON and marks_json(loader)):
            return None
        load: Load = loader.load
        python_values(column.drop_null().slice(0, 1), kind, load, None)
        return load

    return tuple(map(load_of, kinds, columns))


def _loaded(text: str, load: Load | None) -> Any:
    """Text where Python has no such value, as in rows."""
    if load is None:
        return text
    try:
        return load(text.encode())
    except Exception:  # noqa: BLE001 - a loader that the user registered may raise anything
        return text


def several_dimensions(columns: Sequence[tuple[str, Kind]]) -> str:
    """A condition: one of these columns holds an array of several dimensions, which a list would show flattened. Empty
    where none could."""
    found = [f"coalesce(array_ndims({column}) > 1, false)" for column, kind in columns if kind.item]
    return " OR ".join(found)
