"""The state document, version 1: checkpoint and lease of one poller in one JSON text (design, "The state document").

The document that design.md shows must be readable and usable as it is. Our own fields are added to its fields, and
unknown fields survive every write: models keep them as extras.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    ValidatorFunctionWrapHandler,
    field_validator,
)

from poller.errors import StateCorrupt, StoreError
from poller.model.cursor import Cursor
from poller.model.history_entry import MOST_ENTRIES, HistoryEntry
from poller.model.limits import (
    HELD_EVERYWHERE,
    HIGHEST_COUNT,
    LARGEST_BODY,
    LONGEST_NAME,
    LONGEST_REASON,
    NotBoundedJson,
    read_json,
)
from poller.model.stamps import Stamp

VERSION = 1
WRITE_IDS_KEPT = 8
"""The number of write ids that the document keeps. One is not enough: another may write between our write, whose answer
was lost, and our re-read (protocol, "Mutants")."""


Name = Annotated[str, Field(max_length=LONGEST_NAME)]
Reason = Annotated[str, Field(max_length=LONGEST_REASON)]
Count = Annotated[int, Field(ge=0, le=HIGHEST_COUNT)]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="allow", ser_json_inf_nan="constants")


class Checkpoint(_Part):
    """How far the poller got.

    Attributes:
        cursor: None until something is known; in an existing document None means the beginning.
        last_successful_batch_id: the batch whose commit wrote this.
        updated_at: when, on the store's clock.
        metadata: facts about that batch, such as `row_count`.
        generation: raised by every reset, so that a reset to the same cursor is still a change.
        position: how many rows were passed since the last reset. A commit of an older version does not count: it says
            too little then, never too much.
    """

    cursor: Cursor | None = None
    last_successful_batch_id: Name | None = None
    updated_at: Stamp | None = None
    metadata: dict[str, Any] = Field(default_factory=dict)
    generation: Count = 0
    position: Count = 0


class Lease(_Part):
    """Who works, under which fencing token, and how long others must wait.

    Attributes:
        owner_id: None where no worker holds it.
        fencing_token: grows with every acquire and every reset, never goes back, and outlives the owner.
        acquired_at, heartbeat_at, expires_at: on the store's clock, for people and other programs.
        ttl_seconds: for how long after the document's last modification the lease is valid.
        released_at: set by a write that leaves the lease free; it counts only while the document's modification
            time is near it, so that an older copy put back by hand frees nothing (protocol 3).
        operator_token: the fencing token under which an operator reserves the lease (protocol 11).
            Any other token is a worker's.
    """

    owner_id: Name | None = None
    fencing_token: Count = 0
    acquired_at: Stamp | None = None
    heartbeat_at: Stamp | None = None
    expires_at: Stamp | None = None
    ttl_seconds: float | None = Field(default=None, gt=0)
    released_at: Stamp | None = None
    operator_token: Count | None = None


class DeliveryError(_Part):
    """The last failure of the pending batch: type and first line only, bounded, secrets removed (protocol 9)."""

    type: Name
    message: Reason = ""
    at: Stamp | None = None
    batch_id: Name | None = None


class Window(_Part):
    """Where a failing row is searched for (failures 2). It counts only for the checkpoint it was opened at.

    Attributes:
        after, generation: the checkpoint's when it was opened or last moved.
        until: the last row of the page that failed.
        suspect: the last row of the smallest range that failed; a row alone once nothing else is left before it.
        piece: the last row of what is handed over now, None between two calls. Found by the next owner, it was killed.
    """

    after: Cursor | None = None
    generation: Count = 0
    until: Cursor
    suspect: Cursor
    piece: Cursor | None = None


class WaitingRow(_Part):
    """A row that was passed without success: listed in `aside` it is retried automatically, in `quarantine` it waits
    for a person (failures 4 to 7). Its content is in its record.

    Attributes:
        id: hash of key and cursor: this version of the row.
        pk, key: hashes of the primary key and of the ordering key.
        cursor: where it stands.
        at: its position among the rows passed, by which a key's rows are ordered; None until the checkpoint passed it.
        generation: the checkpoint's when it was listed. After a reset it waits for a person and holds nothing up.
        since: when it was listed.
        failures, strikes: calls with it alone that failed; those since whose predecessor another row was delivered.
        delivered: how many rows had been delivered at its last failure, by `State.delivered`.
        behind: it was never tried: it follows an earlier row of its ordering key.
        retry_at: no automatic try before; None: at once.
    """

    id: Name
    pk: Name
    key: Name
    cursor: Cursor
    at: Count | None = None
    generation: Count = 0
    since: Stamp | None = None
    failures: Count = 0
    strikes: Count = 0
    delivered: Count = 0
    behind: bool = False
    retry_at: Stamp | None = None


class LanesDone(_Part):
    """What lanes have done above the checkpoint (throughput.md, "Lanes"): of the rows of each lane all up to a cursor.
    Kept where a lease is given back while rows before them are not done, so that they are not handed over again.

    Attributes:
        generation: the checkpoint's. After a reset it counts for nothing.
        ordering_key: the columns by whose values rows belong to a lane; empty: the key columns.
        done: of each lane the cursor of the last row that is done, None if none is; as many as there are lanes.
        left: ids of the rows before the last of these that are not done, if an ordering key is set: its value may
            change while the row waits, and with it the lane.
    """

    generation: Count = 0
    ordering_key: tuple[Name, ...] = ()
    done: tuple[Cursor | None, ...] = ()
    left: tuple[Name, ...] = ()


class Delivery(_Part):
    """The pending batch: how often it was started (crashes included), and how it last failed.

    Attributes:
        attempts: starts of the pending batch; 0 while a window stands, so that an older version does not halt.
        failures: how many calls of it failed in a row; while a window stands, of the row alone.
        retry_at: no call before. Like `failures` it counts only beside `last_error`, which any version's commit clears.
        window: where the failing row is searched for.
        lanes: which rows behind the checkpoint are done already.
    """

    attempts: Count = 0
    last_error: DeliveryError | None = None
    retry_at: Stamp | None = None
    failures: Count = 0
    window: Window | None = None
    lanes: LanesDone | None = None


class OperatorChange(_Part):
    """An operator's change, kept in the document that it changed until the next writer has copied it to the audit
    trail, idempotent by `id` (protocol 11).

    `backup` is the name of what it replaced, `undo` what takes it back ("pause", "resume", "restore" or "relist"), and
    `undid` the id of the change that it took back. A record without them is written as if there were no such fields.
    """

    id: Name
    kind: Name
    by: Name
    reason: Reason | None = None
    at: Stamp | None = None
    before: dict[str, Any] | None = None
    after: dict[str, Any] | None = None
    backup: Annotated[str, Field(max_length=LONGEST_REASON)] | None = None
    undo: Name | None = None
    undid: Name | None = None

    def record(self) -> dict[str, Any]:
        """As the audit trail holds it."""
        return self.model_dump(mode="json", exclude=self.unsaid())

    def unsaid(self) -> set[str]:
        """The optional fields that are not written."""
        return {name for name in ("backup", "undo", "undid") if getattr(self, name) is None}


class Control(_Part):
    """What keeps the poller from work: paused by an operator, or halted because a batch failed `max_attempts` times.
    `cancelled` is the fencing token of the tenure that a person cancelled: it commits nothing any more."""

    paused: bool = False
    halted: bool = False
    by: Name | None = None
    reason: Reason | None = None
    at: Stamp | None = None
    last_change: OperatorChange | None = None
    cancelled: Count | None = None


class State(_Part):
    """One poller's whole state. Immutable: transitions return a new one.

    `bound` is what the source asked to remember of the bound (sources.md, "Rows that commit late"): the highest clock,
    the last bound, samples; with `kept_at`, when. Nothing here reads it.

    `facts` are what the checkpoint rests on: the types and collations of the cursor's and the key's columns, which
    object has the table's name, which server it is, what the bound guarantees. Beside `source`, and not part of the
    fingerprint. Other facts are stored only by a write that moves the checkpoint to a place that rests on them. The
    dispatcher asks whether rows wait by the types that stand here. `columns` and `source_seen` of older versions are
    not read, and are gone with the next write.

    `aside` are the rows that are retried automatically, `quarantine` those that wait for a person; `retrying` is
    the id of the row that is tried now, and `delivered` counts the rows that were delivered while any was aside.
    `ordering_key` are the columns by whose values the listed rows were keyed; empty: by the key columns.

    `unfinished` is set with the lease by a tick, and removed by the write that ends it with no row left: if no
    worker holds the lease and it is set, rows are left, and do not wait for their schedule's next moment.

    `looked_at` is until when the moments of its schedule are done with, by the clock of the worker that wrote it: if a
    later one has passed, no worker ran, none came to its end, or rows lie above a bound that is held back. Only a
    schedule with pauses of more than `poller.model.schedule.BETWEEN` has it.

    `history` is what was delivered of late, the newest last, for people who look.
    """

    version: Literal[1] = 1
    poller_name: Name
    source_fingerprint: Name = ""
    checkpoint: Checkpoint = Field(default_factory=Checkpoint)
    lease: Lease = Field(default_factory=Lease)
    write_ids: tuple[Name, ...] = ()
    source: dict[str, Any] | None = None
    delivery: Delivery = Field(default_factory=Delivery)
    control: Control = Field(default_factory=Control)
    bound: dict[str, Any] | None = None
    facts: dict[str, Any] | None = None
    aside: tuple[WaitingRow, ...] = ()
    quarantine: tuple[WaitingRow, ...] = ()
    retrying: Name | None = None
    delivered: Count = 0
    ordering_key: tuple[Name, ...] = ()
    unfinished: bool = False
    looked_at: Stamp | None = None
    history: tuple[HistoryEntry, ...] = ()

    @field_validator("history", mode="wrap")
    @classmethod
    def _history(cls, value: Any, read: ValidatorFunctionWrapHandler) -> Any:
        """No row depends on it: one that cannot be read counts as none."""
        try:
            return read(value)[-MOST_ENTRIES:]
        except ValidationError:
            return ()

    def with_write_id(self, write_id: str) -> State:
        """The state with one more write id, the newest last; only the last few are kept."""
        return self.model_copy(update={"write_ids": (*self.write_ids, write_id)[-WRITE_IDS_KEPT:]})


def encode(state: State) -> bytes:
    """The document's bytes: UTF-8 JSON, indented, since people open it. `bound` and `history` are optional: they are
    left out where not every store could hold the document.

    Raises: StoreError where it would be too large even so.
    """
    body = _encoded(state)
    if len(body) > HELD_EVERYWHERE and (state.bound is not None or state.history):
        body = _encoded(state.model_copy(update=_NOTHING_OPTIONAL))
    if len(body) > LARGEST_BODY:
        raise StoreError(
            f"The state document of {state.poller_name!r} would have {len(body):,} bytes; at most {LARGEST_BODY:,} can "
            "be read again.",
            next_step="Nothing was written. Remove other programs' data from it (checkpoint.metadata, unknown fields).",
        )
    return body


_NOTHING_OPTIONAL: dict[str, Any] = {"bound": None, "history": ()}


def _encoded(state: State) -> bytes:
    """The history comes last, an entry to a line: people read it as a table, and it costs each commit little."""
    text = state.model_dump_json(indent=2, exclude={"history": True, **_empty(state)})
    if state.history:
        lines = ",\n    ".join(entry.line for entry in state.history)
        text = text.removesuffix("\n}") + f',\n  "history": [\n    {lines}\n  ]\n}}'
    return text.encode()


def size(state: State) -> int:
    """Bytes of the document as it is written, but for `bound` and `history`, which may be left out."""
    return len(_encoded(state.model_copy(update=_NOTHING_OPTIONAL)))


_LEFT_OUT: dict[str, tuple[str, ...]] = {
    "checkpoint": ("position",),
    "delivery": ("retry_at", "failures", "window", "lanes"),
    "control": ("cancelled",),
}
_LEFT_OUT_AT_TOP = (
    "facts",
    "aside",
    "quarantine",
    "retrying",
    "delivered",
    "ordering_key",
    "unfinished",
    "looked_at",
)
"""Fields that say nothing while no row fails, or nothing is known: a document is then written as if there were none of
them."""


def _empty(state: State) -> dict[str, Any]:
    """Which of these say nothing, as pydantic's `exclude`."""
    found: dict[str, Any] = {name: True for name in _LEFT_OUT_AT_TOP if not getattr(state, name)}
    for name, fields in _LEFT_OUT.items():
        part = getattr(state, name)
        found[name] = {field: True for field in fields if not getattr(part, field)}
    if state.control.last_change is not None:
        found["control"]["last_change"] = state.control.last_change.unsaid()
    return found


def refuse_unreadable(state: State) -> None:
    """Checks a state that was built from other documents before it is written.

    Raises: StoreError where the document could not be read again.
    """
    try:
        decode(encode(state), location="document", poller_name=state.poller_name)
    except StateCorrupt as error:
        raise StoreError(
            f"The state document of {state.poller_name!r} could not be read again: {error.message}",
            next_step="Nothing was written.",
        ) from error


def decode(body: bytes, *, location: str, document: str = "", poller_name: str | None = None) -> State:
    """Read a document; `location` says where it is and `document` its name in the store, for the error.

    Raises: StateCorrupt for a newer version, for JSON that is not a state document, for bytes that are not JSON, for
    documents that exceed the limits or could not be written back, and for another poller's document. Such a document
    is never overwritten.
    """
    name = poller_name or "NAME"
    keep = f"It was left as it is; restore it with: poller reset-to-checkpoint {name} FILE (a backup or an export)."
    try:
        data = read_json(body)
    except NotBoundedJson as error:
        raise StateCorrupt(f"The {location} {error}.", document=document, next_step=keep) from error
    if not isinstance(data, dict) or "version" not in data or "checkpoint" not in data:
        raise StateCorrupt(
            f"The {location} is JSON, but not a poller's state document.", document=document, next_step=keep
        )
    version = data["version"]
    if isinstance(version, int) and not isinstance(version, bool) and version > VERSION:
        raise StateCorrupt(
            f"The {location} has version {version}; this poller reads version {VERSION}.",
            document=document,
            next_step="Upgrade poller on this machine; the document was left as it is.",
            what="newer",
        )
    try:
        kept = {k: v for k, v in data.items() if k not in _FORMER and (v is not None or k not in _OPTIONAL)}
        state = State.model_validate(kept)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])[:LONGEST_NAME]
        raise StateCorrupt(
            f"The {location} is not a readable state document: {where} ({first['msg']}).",
            document=document,
            next_step=keep,
        ) from error
    try:
        encode(state.model_copy(update={"history": ()}))  # which can be left out
    except (ValueError, OverflowError, RecursionError, StoreError) as error:
        raise StateCorrupt(
            f"The {location} holds what cannot be written back ({type(error).__name__}).",
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


_FORMER = frozenset({"columns", "source_seen"})
"""What older versions stored of what `facts` says now."""
_OPTIONAL = frozenset(
    {
        "checkpoint",
        "lease",
        "delivery",
        "control",
        "write_ids",
        "source_fingerprint",
        "aside",
        "quarantine",
        "delivered",
        "ordering_key",
        "unfinished",
        "history",
    }
)
"""Parts that another program may have set to null: read as absent."""
