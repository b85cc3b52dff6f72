"""Values of every kind, put into any one field of a document."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

VALUES: list[Any] = [
    None, True, 0, -1, 2**53, 2**70, 1.5, 1e308, "", "x", "\x00\x1b[2J\n", "2026-01-01T00:00:00",
    "9999-12-31T23:59:59-14:00", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "n" * 5000, [], [[1]], ["x"], {},
    {"": None}, {"a": {"b": []}},
]  # fmt: skip


def paths(data: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Every field, the document itself first."""
    yield path
    inner = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for name, value in inner:
        yield from paths(value, (*path, name))


def with_value(data: Any, path: tuple[str | int, ...], value: Any) -> Any:
    """The same with another value in one field."""
    if not path:
        return value
    changed = copy.copy(data)
    changed[path[0]] = with_value(data[path[0]], path[1:], value)
    return changed
