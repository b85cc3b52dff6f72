"""`health/{app_name}.json`: the last result, what looks remember of each poller, and who computes now.

It is JSON that people can read. Of thousands of pollers it would have more than the 1 MiB that a store's document may
have: then result and memory are kept compressed, in a field `packed`. A version that does not know the field computes
them anew.
"""

from __future__ import annotations

import base64
import binascii
import zlib
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from poller.admin.health import Health
from poller.model.health_memory import Seen
from poller.model.limits import HELD_EVERYWHERE, LARGEST_BODY, NotBoundedJson, read_json
from poller.model.stamps import Stamp

LARGEST_UNPACKED = 16 * LARGEST_BODY
"""Bytes: of more than 20,000 pollers. What others packed takes no more memory."""


class Claim(BaseModel):
    """Who computes, and since when."""

    model_config = ConfigDict(frozen=True)

    id: str
    at: Stamp


class Document(BaseModel):
    """What stands in it. `health.computed_at` is when its computing began."""

    model_config = ConfigDict(frozen=True)

    version: Literal[1] = 1
    claim: Claim | None = None
    health: Health | None = None
    took_seconds: float = Field(default=0.0, ge=0.0, le=600.0)
    """How long it took to compute that."""
    seen: dict[str, Seen] = Field(default_factory=dict)


class _Packed(BaseModel):
    """What stands in it where it would be too large."""

    version: Literal[1] = 1
    claim: Claim | None = None
    encoding: Literal["zlib+base64"] = "zlib+base64"
    packed: str


def written(document: Document) -> bytes | None:
    """Its body; None where it is too large even so."""
    body = document.model_dump_json(exclude_none=True).encode()
    if len(body) <= HELD_EVERYWHERE:
        return body
    if len(body) > LARGEST_UNPACKED:
        return None
    packed = base64.b64encode(zlib.compress(body, 6)).decode()
    small = _Packed(claim=document.claim, packed=packed).model_dump_json(exclude_none=True).encode()
    return small if len(small) <= HELD_EVERYWHERE else None


def parsed(body: bytes) -> Document:
    """What stands in a body; nothing, where that is not ours."""
    try:
        data = read_json(body)
        if isinstance(data, dict) and "packed" in data:
            data = read_json(_unpacked(_Packed.model_validate(data).packed), LARGEST_UNPACKED)
        return Document.model_validate(data)
    except (NotBoundedJson, ValidationError):
        return Document()


def _unpacked(text: str) -> bytes:
    """Raises: NotBoundedJson."""
    try:
        unpacking = zlib.decompressobj()
        body = unpacking.decompress(base64.b64decode(text, validate=True), LARGEST_UNPACKED)
    except (binascii.Error, ValueError, zlib.error):
        raise NotBoundedJson("is not what was packed") from None
    if not unpacking.eof:
        raise NotBoundedJson("is larger than can be read, or not whole")
    return body
