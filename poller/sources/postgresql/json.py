"""JSON and intervals as psycopg returns them: parsed, JSON by `orjson` where it is installed (extra `speed`); or as the
server's text, plain or marked as such.

Both parsers give the same values. What orjson reads differently or not at all is left to the standard library's: 19
digits and more, which become a float where they do not fit into 64 bits, half surrogate pairs, numbers beyond the
largest float, deep nesting.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import cache
from typing import Any, cast

from poller.ports import IntervalText, JsonText
from poller.sources.rows import JsonValues

orjson: Any = None
with contextlib.suppress(ImportError):
    orjson = importlib.import_module("orjson")

_LOADERS = {"json": (114, "JsonLoader"), "jsonb": (3802, "JsonbLoader")}
"""Oids (pg_type.dat) and psycopg's loaders of them."""
_INTERVAL = 1186
_ZEROS = bytes.maketrans(b"123456789", b"0" * 9)
_MANY_DIGITS = b"0" * 19


def as_text(adapters: Any) -> None:
    """Let this connection return the server's text."""
    from psycopg.types.string import TextLoader

    for name in _LOADERS:
        adapters.register_loader(name, TextLoader)


def as_marked_text(adapters: Any) -> None:
    """Let this connection return the server's text of JSON and intervals, marked as what it is."""
    loaders = _marking()
    for oid, _ in _LOADERS.values():
        adapters.register_loader(oid, loaders[JsonText])
    adapters.register_loader(_INTERVAL, loaders[IntervalText])


def parse_again(adapters: Any) -> None:
    """Let a connection that returned the server's text parse as those of the program do."""
    from psycopg import adapters as usual
    from psycopg.pq import Format
    from psycopg.types.string import TextLoader

    for oid, _ in _LOADERS.values():
        loader = usual.get_loader(oid, Format.TEXT)
        present = adapters.get_loader(oid, Format.TEXT)
        # By name: psycopg uses the compiled one, where it has that.
        texts = {TextLoader.__name__, _marking()[JsonText].__name__}
        if present is not None and loader is not None and present.__name__ in texts:
            adapters.register_loader(oid, loader)


def marks_json(loader: object) -> bool:
    """True if psycopg's loader marks JSON as such."""
    return isinstance(loader, _marking()[JsonText])


def check_intervals(adapters: Any) -> None:
    """Read intervals with psycopg's loader in Python, which fails on what a `timedelta` is not, so that they are
    returned as text: the compiled one counts days in 32 bits, so that 178,000,000 years become 1,500,000, and both
    take a month for 30 days and a year for 365. A user's own loader stays."""
    from psycopg.types.datetime import IntervalLoader

    standard = adapters.get_loader(_INTERVAL, 0)
    if standard is not None and standard.__name__ in {IntervalLoader.__name__, _marking()[IntervalText].__name__}:
        adapters.register_loader(_INTERVAL, _checking())


@cache
def _marking() -> dict[type, Any]:
    """Once: psycopg keeps each class."""
    from psycopg.adapt import Loader

    class JsonTextLoader(Loader):
        def load(self, data: Any) -> JsonText:
            return JsonText(bytes(data).decode())

    class IntervalTextLoader(Loader):
        def load(self, data: Any) -> IntervalText:
            return IntervalText(bytes(data).decode())

    return {JsonText: JsonTextLoader, IntervalText: IntervalTextLoader}


@cache
def _checking() -> Any:
    from psycopg.types.datetime import IntervalLoader

    class InPython(IntervalLoader):
        """A subclass, which psycopg does not replace by its compiled twin."""

        def load(self, data: Any) -> timedelta:
            if has_months(bytes(data).decode()):
                raise ValueError("an interval of months")
            return super().load(data)

    return InPython


def has_months(text: str) -> bool:
    """True if PostgreSQL's text of an interval counts months or years, which are no number of days."""
    return "mon" in text or "year" in text


class _Keeping(threading.local):
    """The place where this thread's documents are kept; None if no caller wants them."""

    documents: JsonValues | None = None


_keeping = _Keeping()


@contextlib.contextmanager
def keeping() -> Iterator[JsonValues]:
    """While open, what this thread parses is kept with its text."""
    documents = _keeping.documents = JsonValues(parse)
    try:
        yield documents
    finally:
        _keeping.documents = None


def use(connection: Any) -> None:
    """Let this connection parse as this module does, unless JSON is parsed by another function than psycopg's standard
    one."""
    for oid, name in _LOADERS.values():
        loader = connection.adapters.get_loader(oid, 0)
        if getattr(loader, "__name__", "") != name or getattr(loader, "_loads", None) is not json.loads:
            return
    from psycopg.types.json import set_json_loads

    set_json_loads(cast("Callable[[str | bytes], Any]", _loads), connection)  # its loader passes bytes


def _loads(data: bytes) -> Any:
    """Of this module: for a function made per connection psycopg would keep new classes for ever."""
    value, documents = parse(data), _keeping.documents
    if documents is not None and type(value) in (dict, list):
        documents.add(value, data)
    return value


def parse(data: bytes) -> Any:
    """The value of a text, by orjson where that is installed. Raises: ValueError, RecursionError."""
    if orjson is None or _MANY_DIGITS in data.translate(_ZEROS):
        return json.loads(data)
    try:
        return orjson.loads(data)
    except ValueError:
        return json.loads(data)
