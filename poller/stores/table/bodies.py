"""A document's bytes as properties of an entity.

A property holds 64 KiB, an entity 1 MiB with its keys and the names of its properties
(https://learn.microsoft.com/rest/api/storageservices/understanding-the-table-service-data-model). Bytes are taken, as
text would count twice, in UTF-16.
"""

from __future__ import annotations

from collections.abc import Mapping

from poller.errors import StoreError
from poller.model.limits import HELD_EVERYWHERE, LARGEST_BODY

_PIECE = 64 * 1024
FIRST = "B00"
"""The property with a body's beginning."""


def check_size(body: bytes, place: str, name: str) -> None:
    """Refuse what no entity holds, before it is sent. Raises: StoreError."""
    if len(body) > HELD_EVERYWHERE:
        raise too_large(place, name, f"{len(body):,} bytes")


def too_large(place: str, name: str, size: str) -> StoreError:
    """The error for a document that no entity holds; it names the poller whose document it is."""
    parts = name.removesuffix(".json").removesuffix(".jsonl").split("/")
    poller = parts[2] if len(parts) > 2 else "NAME"
    return StoreError(
        f"The {place} is too large for Table Storage ({size}): an entity holds at most {HELD_EVERYWHERE:,} bytes of a "
        "document. Nothing was written.",
        document=name,
        next_step=f"See what waits in it: poller quarantine list {poller}. A blob store holds {LARGEST_BODY:,} bytes: "
        f'poller checkpoint export {poller}, set [state] store = "blob", poller reset-to-checkpoint {poller} FILE.',
    )


def properties_of(body: bytes) -> dict[str, bytes]:
    """The properties that hold these bytes."""
    return {f"B{at // _PIECE:02d}": body[at : at + _PIECE] for at in range(0, len(body), _PIECE)}


def body_in(entity: Mapping[str, object]) -> bytes:
    """The bytes in an entity's properties; what a person typed as text counts too."""
    found = b""
    for number in range(LARGEST_BODY // _PIECE):
        piece = entity.get(f"B{number:02d}")
        if isinstance(piece, str):
            piece = piece.encode("utf-8", "replace")
        if not isinstance(piece, bytes):
            break
        found += piece
    return found
