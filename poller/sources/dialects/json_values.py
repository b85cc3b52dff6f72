"""JSON as psycopg returns it: parsed, by `orjson` where it is installed (extra `speed`), or as the server's text.

Both parsers give the same values. What orjson reads differently or not at all is left to the standard library's: 19
digits and more, which become a float where they do not fit into 64 bits, half surrogate pairs, numbers beyond the
largest float, deep nesting.
"""

from __future__ import annotations

import contextlib
import importlib
import json
from collections.abc import Callable
from typing import Any, cast

orjson: Any = None
with contextlib.suppress(ImportError):
    orjson = importlib.import_module("orjson")

_LOADERS = {"json": (114, "JsonLoader"), "jsonb": (3802, "JsonbLoader")}
"""Oids (pg_type.dat) and psycopg's loaders of them."""
_ZEROS = bytes.maketrans(b"123456789", b"0" * 9)
_MANY_DIGITS = b"0" * 19


def as_text(adapters: Any) -> None:
    """Let this connection return the server's text."""
    from psycopg.types.string import TextLoader

    for name in _LOADERS:
        adapters.register_loader(name, TextLoader)


def faster(connection: Any) -> None:
    """Let this connection parse with orjson, unless that is not installed, or JSON is parsed by another function than
    psycopg's standard one."""
    if orjson is None:
        return
    for oid, name in _LOADERS.values():
        loader = connection.adapters.get_loader(oid, 0)
        if getattr(loader, "__name__", "") != name or getattr(loader, "_loads", None) is not json.loads:
            return
    from psycopg.types.json import set_json_loads

    set_json_loads(cast("Callable[[str | bytes], Any]", _loads), connection)  # its loader passes bytes


def _loads(data: bytes) -> Any:
    """Of this module: for a function made per connection psycopg would keep new classes for ever."""
    if _MANY_DIGITS in data.translate(_ZEROS):
        return json.loads(data)
    try:
        return orjson.loads(data)
    except ValueError:
        return json.loads(data)
