"""The state document, version 1: checkpoint and lease of one poller in one JSON text (design, "The state document").

The document that design.md shows must be readable and be continued from as it stands. Fields of our own stand beside
its fields, never instead, and fields that we do not know survive every write: models keep them as extras.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import (
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    ValidationError,
)

from poller.errors import StateCorrupt
from poller.model.cursor import Cursor

VERSION = 1
WRITE_IDS_KEPT = 8
"""How many write ids the document remembers. A single one is not enough: another may write between our write, whose
answer was lost, and our re-read (protocol, "Mutants")."""


def _none_if_empty(value: Any) -> Any:
    return None if value == "" else value


def stamp(moment: datetime) -> str:
    """A moment as the document writes it: UTC, microseconds, `Z`."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


Stamp = Annotated[
    AwareDatetime, BeforeValidator(_none_if_empty), PlainSerializer(stamp, return_type=str, when_used="json")
]
"""A moment on the store's clock, for people; expiry is never computed from it where the store tells time."""


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="allow")


class Checkpoint(_Part):
    """How far the poller got.

    Attributes:
        cursor: None until something is known; in an existing document None means the beginning.
        last_successful_batch_id: the batch whose commit wrote this.
        updated_at: when, on the store's clock.
        metadata: facts about that batch, such as `row_count`.
        generation: raised by every reset, so that a reset to the same cursor is still a change.
    """

    cursor: Cursor | None = None
    last_successful_batch_id: str | None = None
    updated_at: Stamp | None = None
    metadata: dict[str, Any] = Field(default_factory=dict)
    generation: int = Field(default=0, ge=0)


class Lease(_Part):
    """Who works, under which fencing token, and how long the others must keep away.

    Attributes:
        owner_id: None where nobody holds it.
        fencing_token: grows with every acquire and every reset, never goes back, and outlives the owner.
        acquired_at, heartbeat_at, expires_at: on the store's clock, for people and for foreign readers.
        ttl_seconds: how long after the document's last modification the lease is to be respected.
        released_at: set by a write that leaves the lease free; it counts only while the document's modification
            time is near it, so that an older copy put back by hand frees nothing (protocol 3).
    """

    owner_id: str | None = None
    fencing_token: int = Field(default=0, ge=0)
    acquired_at: Stamp | None = None
    heartbeat_at: Stamp | None = None
    expires_at: Stamp | None = None
    ttl_seconds: float | None = Field(default=None, gt=0)
    released_at: Stamp | None = None


class DeliveryError(_Part):
    """The last failure of the pending batch: type and first line only, bounded, secrets removed (protocol 9)."""

    type: str
    message: str = ""
    at: Stamp | None = None
    batch_id: str | None = None


class Delivery(_Part):
    """The pending batch: how often it was started (crashes included), and how it last failed."""

    attempts: int = Field(default=0, ge=0)
    last_error: DeliveryError | None = None


class Change(_Part):
    """An operator's change, kept in the document that it changed until the next writer has copied it to the audit
    trail, idempotent by `id` (protocol 11)."""

    id: str
    kind: str
    by: str
    reason: str | None = None
    at: Stamp | None = None
    before: dict[str, Any] | None = None
    after: dict[str, Any] | None = None


class Control(_Part):
    """Whether the poller may work: paused by an operator, or halted because a batch failed `max_attempts` times."""

    paused: bool = False
    halted: bool = False
    by: str | None = None
    reason: str | None = None
    at: Stamp | None = None
    last_change: Change | None = None


class State(_Part):
    """One poller's whole state. Immutable: transitions return a new one.

    `bound` is what the source asked to remember of the bound (sources.md, "Rows that commit late"): the highest clock,
    the last bound, samples; with `kept_at`, when. Nothing here reads it.
    """

    version: Literal[1] = 1
    poller_name: str
    source_fingerprint: str = ""
    checkpoint: Checkpoint = Field(default_factory=Checkpoint)
    lease: Lease = Field(default_factory=Lease)
    write_ids: tuple[str, ...] = ()
    source: dict[str, Any] | None = None
    delivery: Delivery = Field(default_factory=Delivery)
    control: Control = Field(default_factory=Control)
    bound: dict[str, Any] | None = None

    def with_write_id(self, write_id: str) -> State:
        """The same with one more write id, the newest last; only the last few are kept."""
        return self.model_copy(update={"write_ids": (*self.write_ids, write_id)[-WRITE_IDS_KEPT:]})


def encode(state: State) -> bytes:
    """The document's bytes: UTF-8 JSON, indented, since people open it."""
    return json.dumps(state.model_dump(mode="json"), indent=2, ensure_ascii=False).encode()


def decode(body: bytes, *, location: str, document: str = "", poller_name: str | None = None) -> State:
    """Read a document; `location` is where it stands and `document` its name in the store, for the error.

    Raises: StateCorrupt, for a newer version, for JSON that is no state document, for bytes that are no JSON, and
    for another poller's document. Such a document is never overwritten.
    """
    name = poller_name or "NAME"
    keep = f"It was left as it is; restore it with: poller reset-to-checkpoint {name} FILE (a backup or an export)."
    try:
        data = json.loads(body)
        # What Python reads beyond JSON (NaN, 1e999, half a surrogate pair) could not be written back as it was.
        json.dumps(data, ensure_ascii=False, allow_nan=False).encode()
    except (ValueError, RecursionError) as error:
        raise StateCorrupt(f"The {location} is not JSON.", document=document, next_step=keep) from error
    if not isinstance(data, dict) or "version" not in data or "checkpoint" not in data:
        raise StateCorrupt(
            f"The {location} is JSON, but no state document of a poller.", document=document, next_step=keep
        )
    version = data["version"]
    if isinstance(version, int) and not isinstance(version, bool) and version > VERSION:
        raise StateCorrupt(
            f"The {location} has version {version}; this poller reads version {VERSION}.",
            document=document,
            next_step="Upgrade poller on this machine; the document was left as it is.",
        )
    try:
        state = State.model_validate({k: v for k, v in data.items() if v is not None or k not in _OPTIONAL})
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise StateCorrupt(
            f"The {location} is no readable state document: {where}: {first['msg']}.",
            document=document,
            next_step=keep,
        ) from error
    if poller_name is not None and state.poller_name != poller_name:
        raise StateCorrupt(
            f"The {location} belongs to the poller {state.poller_name!r}, not to {poller_name!r}.",
            document=document,
            next_step=keep,
        )
    return state


_OPTIONAL = frozenset({"checkpoint", "lease", "delivery", "control", "write_ids", "source_fingerprint"})
"""Parts that a foreign writer may have set to null: read as absent."""
