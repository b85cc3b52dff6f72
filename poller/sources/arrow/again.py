"""Values of rows that were read earlier, as the texts of their page's table.

A row that was kept elsewhere has Python's values, or texts of them: `1E-30`, `[1, 5)`, a list of UUIDs. PostgreSQL
writes the text of a column, as for a page: it reads each value as the column's type. Without it the text is psycopg's.
"""

# ruff: noqa: S608 - names are the server's own, values are bound

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any

from poller.sources.arrow.kinds import Kind
from poller.sources.arrow.values import as_text

Run = Callable[[str, Mapping[str, Any]], Any]
Record = tuple[Any, ...]
_RANGES = {3904, 3906, 3908, 3910, 3912, 3926, 4451, 4532, 4533, 4534, 4535, 4536}
"""Oids of the built-in ranges and multiranges (pg_type.dat): none has a text in which `None` is a value."""
_ENDLESS = re.compile(r"(?<=[\[(])None(?=,)|, None(?=[\])])")
"""The `None` of a range without an end, as psycopg's `str` writes it."""


def with_texts(rows: Sequence[Mapping[str, Any]], kinds: Mapping[str, Kind], run: Run | None) -> list[Record]:
    """The rows' values, with texts in the columns that come as text. `run`: asks the server; None: it is not asked."""
    names = list(rows[0])
    columns = {name: [row[name] for row in rows] for name in names}
    written = {name: kind for name, kind in kinds.items() if kind.arrow == "string" and kind.cast and name in columns}
    for name, kind in written.items():
        columns[name] = [None if value is None else _text(value, kind) for value in columns[name]]
    asked = {name: kind for name, kind in written.items() if kind.text}
    if run is not None and asked:
        columns.update(_of_server({name: columns[name] for name in asked}, asked, run))
    return list(zip(*columns.values(), strict=True))


def _of_server(columns: Mapping[str, list[str | None]], kinds: Mapping[str, Kind], run: Run) -> dict[str, list[Any]]:
    """Texts as the server writes values of these types."""
    oids = ", ".join(f"({at}, {kind.oid})" for at, kind in enumerate(kinds.values()))
    # -1 and not NULL: a cast to the type of that name keeps all bits, or characters
    types = run(f"SELECT format_type(o, -1) FROM (VALUES {oids}) AS t(n, o) ORDER BY n", {}).rows
    cast = [f"CAST(v.c{at} AS {str(name).replace(':', chr(92) + ':')})" for at, (name,) in enumerate(types)]
    chosen = ", ".join(kind.select(one) for kind, one in zip(kinds.values(), cast, strict=True))
    given = ", ".join(f"CAST(:c{at} AS text[])" for at in range(len(kinds)))
    named = ", ".join(f"c{at}" for at in range(len(kinds)))
    sql = f"SELECT {chosen} FROM unnest({given}) WITH ORDINALITY AS v({named}, n) ORDER BY v.n"
    found = run(sql, {f"c{at}": values for at, values in enumerate(columns.values())}).rows
    return {name: list(values) for name, values in zip(kinds, zip(*found, strict=True), strict=True)}


def _text(value: Any, kind: Kind) -> str:
    """A text that the server reads as a value of the type."""
    if isinstance(value, str):
        return _ENDLESS.sub(lambda found: "," if found[0][0] == "," else "", value) if kind.oid in _RANGES else value
    if not kind.text:  # JSON, of a row that was kept with its parsed value
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, dict):
        return ", ".join(f"{_quoted(name)}=>{_quoted(one)}" for name, one in value.items())  # hstore
    if isinstance(value, (list, tuple, timedelta)) or type(value).__module__.startswith("psycopg"):
        return _dumped(value)
    return as_text(value)


def _quoted(text: str | None) -> str:
    if text is None:
        return "NULL"
    escaped = str(text).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _dumped(value: Any) -> str:
    from psycopg.adapt import PyFormat, Transformer

    try:
        found = Transformer().get_dumper(value, PyFormat.TEXT).dump(value)
        return str(value) if found is None else bytes(found).decode()
    except Exception:  # noqa: BLE001 - of a type that psycopg does not know, or with values of several types
        return str(value)
