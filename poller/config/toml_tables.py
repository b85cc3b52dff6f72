"""A poller of the configuration under another name, as the TOML to add: `%NAME%` as it stands, no value looked up."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import date, datetime, time
from typing import Any

_BARE = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-")


def tables(name: str, tree: Mapping[str, Any]) -> str:
    """`[name]` with the keys of a tree that was read from TOML, and a table for each mapping in it."""
    return "\n".join(_lines(name, tree))


def _lines(name: str, tree: Mapping[str, Any]) -> Iterator[str]:
    yield f"[{name}]"
    for key, value in tree.items():
        if not isinstance(value, Mapping):
            yield f"{_key(key)} = {_value(value)}"
    for key, value in tree.items():
        if isinstance(value, Mapping):
            yield ""
            yield from _lines(f"{name}.{_key(key)}", value)


def _key(key: str) -> str:
    return key if key and _BARE.issuperset(key) else _value(key)


def _value(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_key(key)} = {_value(one)}" for key, one in value.items()) + "}"
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, float):
        return repr(value)
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
