"""Documents as items: the text as it is, under an id made of the name, in the partition of the app.

An id holds letters, digits, `-` and `.` as they are, `_` for a slash, and `~` with two hexadecimal digits for each byte
of anything else: the service forbids slashes, backslashes, `#` and `?` in ids. So a name that begins with a prefix has
an id that begins with the prefix's id. Lines of a log have ids that begin with `~line_`, as no document's does: `l` is
not a hexadecimal digit. https://learn.microsoft.com/azure/cosmos-db/concepts-limits
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from poller.errors import StoreError
from poller.model.limits import LARGEST_BODY
from poller.stores.times import plausible

DOCUMENT, LOG, LINE = "document", "log", "line"
"""The property `kind` of an item."""
LARGEST_ITEM = 2 * 1024 * 1024 - 16 * 1024
"""Bytes of an item's JSON: the service's limit of 2 MB, without what it adds itself."""
_LONGEST_ID = 1000
"""Characters of an id; the service's limit is 1,023 bytes."""
_ROOT = "~"
_TAKEN = re.compile(r"[^A-Za-z0-9.-]")
_MARK = re.compile(r"_|(?:~[0-9a-f]{2})+")


def id_of(name: str) -> str:
    """The id of the document `name`, or what the ids of all begin with whose names begin so. An id of dots would lead
    to the container itself, as the last part of an address."""
    if name in {".", ".."}:
        return _bytes(name)
    return _TAKEN.sub(lambda found: "_" if found[0] == "/" else _bytes(found[0]), name)


def name_of(item_id: str) -> str:
    """The name of the document with this id."""
    return _MARK.sub(lambda found: "/" if found[0] == "_" else _text(found[0].replace("~", "")), item_id)


def app_of(name: str) -> str:
    """The partition of the document `name`: `shop` for `state/shop/orders.json` and `health/shop.json`."""
    parts = name.split("/")
    found = parts[1] if len(parts) > 2 else parts[1].removesuffix(".json") if len(parts) == 2 else _ROOT
    return found or _ROOT


def app_within(prefix: str) -> str | None:
    """The partition of all documents whose names begin with `prefix`; None if there may be several."""
    return app_of(prefix) if prefix.count("/") >= 2 else None


def lines_of(name: str) -> str:
    """What the ids of a log's lines begin with; a number follows."""
    return f"~line_{id_of(name)}~~"


def item_of(name: str, body: bytes) -> dict[str, Any]:
    """A document as an item."""
    return {"id": id_of(name), "app": app_of(name), "kind": DOCUMENT, **text_property(body)}


def text_property(body: bytes) -> dict[str, str]:
    """The property with a document's bytes: `text`, or `base64` where they are not UTF-8."""
    try:
        return {"text": body.decode()}
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(body).decode()}


def body_in(item: Mapping[str, Any]) -> bytes:
    """The bytes in an item, `LARGEST_BODY` and one at most."""
    text, encoded = item.get("text"), item.get("base64")
    if isinstance(text, str):
        return text.encode("utf-8", "replace")[: LARGEST_BODY + 1]
    try:
        return base64.b64decode(encoded)[: LARGEST_BODY + 1] if isinstance(encoded, str) else b""
    except ValueError:
        return b""


def modified_at(item: Mapping[str, Any]) -> datetime | None:
    """When the service wrote this version (`_ts`, whole seconds)."""
    stamp = item.get("_ts")
    try:
        return plausible(datetime.fromtimestamp(stamp, tz=UTC)) if isinstance(stamp, int) else None
    except (OverflowError, ValueError, OSError):
        return None


def check_item(item: Mapping[str, Any], place: str, name: str) -> None:
    """Refuse what the service does not hold, before it is sent. Raises: StoreError."""
    if len(str(item["id"])) > _LONGEST_ID:
        raise StoreError(
            f"The name of the {place} is longer than an id of Azure Cosmos DB.",
            document=name,
            next_step="Give the app or the poller a shorter name.",
        )
    text = item.get("text")
    if isinstance(text, str) and len(text) <= LARGEST_ITEM // 6:  # six bytes for a character, at most
        return
    size = len(json.dumps(item, ensure_ascii=False).encode("utf-8", "replace"))
    if size > LARGEST_ITEM:
        raise too_large(place, name, f"{size:,} bytes")


def too_large(place: str, name: str, size: str) -> StoreError:
    """The error for a document that no item holds; it names the poller whose document it is."""
    parts = name.removesuffix(".json").removesuffix(".jsonl").split("/")
    poller = parts[2] if len(parts) > 2 else "NAME"
    return StoreError(
        f"The {place} is too large for Azure Cosmos DB ({size}): an item has at most {LARGEST_ITEM:,} bytes. Nothing "
        "was written.",
        document=name,
        next_step=f"See what waits in it: poller quarantine list {poller}.",
    )


def _bytes(characters: str) -> str:
    return "".join(f"~{byte:02x}" for byte in characters.encode("utf-8", "surrogatepass"))


def _text(digits: str) -> str:
    return bytes.fromhex(digits).decode("utf-8", "replace")
