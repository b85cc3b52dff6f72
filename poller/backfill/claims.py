"""Who begins a backfill first: `backfills/{app}/{name}.json`, created once, says in how many parts it is delivered.

Its parts have state documents of their own, whose names differ with their number. So two first calls with different
numbers, made at the same moment, would find no document of each other's, and each would deliver the whole range.
"""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

from poller.errors import StateCorrupt, WriteConflict
from poller.model.limits import NotBoundedJson, read_json
from poller.model.part_names import MOST_PARTS
from poller.model.stamps import stamp
from poller.ports import Found, StateStore


def claimed(name: str, store: StateStore, app_name: str) -> int | None:
    """The number of parts in which the backfill of that name was begun; None if it was not.

    Raises: StateCorrupt, StoreUnavailable, StoreDenied.
    """
    document = _document(name, app_name)
    found = store.read(document)
    if not isinstance(found, Found):
        return None
    try:
        data = read_json(found.body)
    except NotBoundedJson:
        data = None
    parts: Any = data.get("parts") if isinstance(data, dict) else None
    if type(parts) is not int or not 1 <= parts <= MOST_PARTS:
        raise StateCorrupt(
            f"The {store.locate(document)} does not say in how many parts {name!r} was begun.",
            document=document,
            next_step="Nothing was delivered. Give this backfill another name, or remove that document where none of "
            "its parts has one.",
        )
    return parts


def claim(name: str, parts: int, store: StateStore, app_name: str, *, by: str, at: datetime) -> int:
    """Begin it in `count` parts; the number in which it was begun, by us or by another process meanwhile.

    Raises: StateCorrupt, StoreUnavailable (made again, the call finds what this one wrote), StoreDenied.
    """
    body = json.dumps({"version": 1, "parts": parts, "by": by, "at": stamp(at)}, indent=2, ensure_ascii=False)
    try:
        store.write(_document(name, app_name), body.encode(), if_tag=None)
    except WriteConflict:
        return claimed(name, store, app_name) or parts
    return parts


def _document(name: str, app_name: str) -> str:
    return f"backfills/{app_name}/{name}.json"
