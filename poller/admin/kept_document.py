"""`health/{app_name}.json`: the last result, what looks remember of each poller, and who computes now.

It is JSON that people can read. Of thousands of pollers it would have more than the 1 MiB that a store's document may
have: then result and memory are kept compressed, in a field `packed`. A version that does not know the field computes
them anew. If that is too large as well, only the worst pollers are listed, and the others are counted: without a kept
result each caller would have it computed again.
"""

from __future__ import annotations

import base64
import binascii
import zlib
from itertools import islice
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from poller.admin.health import Health, HealthWarning
from poller.model.health_memory import Seen
from poller.model.limits import HELD_EVERYWHERE, LARGEST_BODY, MOST_VALUES, NotBoundedJson, read_json, values_of
from poller.model.stamps import Stamp

LARGEST_UNPACKED = 16 * LARGEST_BODY
"""Bytes: of more than 20,000 pollers. What others packed takes no more memory."""
MEMORY, ALMOST = 0.8, 0.95
"""How much of a document that is too large may be memory, and how much of it is filled anew."""


class Claim(BaseModel):
    """Who computes, and since when."""

    model_config = ConfigDict(frozen=True)

    id: str
    at: Stamp


class KeptDocument(BaseModel):
    """What stands in it. `health.computed_at` is when its computing began."""

    model_config = ConfigDict(frozen=True)

    version: Literal[1] = 1
    claim: Claim | None = None
    health: Health | None = None
    took_seconds: float = Field(default=0.0, ge=0.0, le=600.0)
    """How long it took to compute that."""
    unlisted: int = Field(default=0, ge=0)
    """How many pollers `health` lacks, since the document would be too large: none is worse than those that it has."""
    unlisted_unhealthy: int = Field(default=0, ge=0)
    """How many of these are unhealthy."""
    seen: dict[str, Seen] = Field(default_factory=dict)

    def listed(self) -> Health | None:
        """The result, with a warning if it lacks pollers."""
        health = self.health
        if health is None or not self.unlisted:
            return health
        warning = HealthWarning(
            condition="unlisted",
            sentence=f"The store holds the health of the {len(health.pollers):,} worst pollers: {self.unlisted:,} more"
            f" are not listed, of which {self.unlisted_unhealthy:,} are unhealthy.",
            next_step=f"poller health NAME shows any of them; divide the app {health.app_name} to have all listed",
        )
        return health.model_copy(update={"warnings": [warning]})


class _Packed(BaseModel):
    """What stands in it where it would be too large."""

    version: Literal[1] = 1
    claim: Claim | None = None
    encoding: Literal["zlib+base64"] = "zlib+base64"
    packed: str


def written(document: KeptDocument) -> tuple[bytes, KeptDocument]:
    """Its body, and what stands in it: all of the document, or as much as can be kept and read again."""
    while True:
        body, filled = _body(document)
        if filled <= 1:
            return body, document
        document = _smaller(document, filled)


def _body(document: KeptDocument) -> tuple[bytes, float]:
    """How it would be written, and how much it fills of what may be kept."""
    body = document.model_dump_json(exclude_none=True).encode()
    if len(body) <= HELD_EVERYWHERE:
        return body, len(body) / HELD_EVERYWHERE
    packed = base64.b64encode(zlib.compress(body, 6)).decode()
    small = _Packed(claim=document.claim, packed=packed).model_dump_json(exclude_none=True).encode()
    filled = len(small) / HELD_EVERYWHERE, len(body) / LARGEST_UNPACKED, values_of(body) / MOST_VALUES
    return small, max(filled)


def _smaller(document: KeptDocument, filled: float) -> KeptDocument:
    """With fewer pollers, the best of which are left out. What is remembered of them stays as long as it can: without
    it they would be judged as if they had never been looked at."""
    health, seen = document.health, document.seen
    memory = _body(document.model_copy(update={"health": None}))[1]
    changed: dict[str, object] = {}
    if memory > MEMORY and seen:
        changed["seen"] = dict(islice(seen.items(), int(len(seen) * MEMORY / memory)))
    if health is not None and health.pollers:
        room = (ALMOST - min(memory, MEMORY)) / max(filled - memory, 0.01)
        listed = health.pollers[: int(len(health.pollers) * min(room, ALMOST))]
        left_out = health.pollers[len(listed) :]
        changed |= {
            "health": health.model_copy(update={"pollers": listed}),
            "unlisted": document.unlisted + len(left_out),
            "unlisted_unhealthy": document.unlisted_unhealthy + sum(1 for one in left_out if not one.healthy),
        }
    if not changed:  # what is too large is another program's
        return KeptDocument()
    return document.model_copy(update=changed)


def parsed(body: bytes) -> KeptDocument:
    """What stands in a body; nothing, where that is not ours."""
    try:
        data = read_json(body)
        if isinstance(data, dict) and "packed" in data:
            data = read_json(_unpacked(_Packed.model_validate(data).packed), LARGEST_UNPACKED)
        return KeptDocument.model_validate(data)
    except (NotBoundedJson, ValidationError):
        return KeptDocument()


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
