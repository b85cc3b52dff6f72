"""A checkpoint outside its document (an export, a backup, or a whole state document), and its restoration.

Pure values and transitions. A backup is the bytes of a state document, so undoing a reset restores what a reset
changes and nothing else: the checkpoint, the pending batch's attempts and whether the poller was halted. A later pause
stays, the fencing token grows as always, and the generation grows because this is a reset too.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from pydantic import ConfigDict, Field, ValidationError

from poller.errors import StateCorrupt
from poller.model import aside, transitions
from poller.model.changes import bound_to
from poller.model.cursor import Cursor
from poller.model.document import OperatorChange, State, decode
from poller.model.documented import Documented
from poller.model.fingerprint import SourceDescription
from poller.model.limits import HIGHEST_COUNT, HIGHEST_TOKEN, NotBoundedJson, read_json
from poller.model.stamps import Stamp

FORMAT = "poller-checkpoint"


class CheckpointExport(Documented):
    """What `poller checkpoint export` writes: a checkpoint and what it belongs to."""

    model_config = ConfigDict(frozen=True, extra="allow")

    format: Literal["poller-checkpoint"] = "poller-checkpoint"
    version: Literal[1] = 1
    app: str
    """The application that it comes from."""
    poller: str
    """The poller that it comes from."""
    exported_at: Stamp
    """When, by the store's clock."""
    source_fingerprint: str = ""
    """Which source the cursor belongs to."""
    source: dict[str, Any] | None = None
    """The description that the fingerprint hashes, without secrets."""
    cursor: Cursor | None
    """Everything up to here was delivered; null is the beginning."""
    generation: int = Field(default=0, ge=0, le=HIGHEST_COUNT)
    """The number of resets that the checkpoint has seen."""
    fencing_token: int = Field(default=0, ge=0)
    """The document's at that moment; a document that is restored from this continues above it."""
    last_successful_batch_id: str | None = None
    updated_at: Stamp | None = None
    """When the checkpoint last moved."""
    metadata: dict[str, Any] = Field(default_factory=dict)
    """The metadata of the last batch."""


@dataclass(frozen=True, slots=True)
class ReturnPoint:
    """A checkpoint to go back to.

    Attributes:
        export: the checkpoint, whatever it was read from.
        document: the whole state document, if it was one.
        location: where it was read, for people.
    """

    export: CheckpointExport
    document: State | None
    location: str


def export_of(state: State, *, app: str, now: datetime) -> CheckpointExport:
    """The checkpoint of a document."""
    checkpoint = state.checkpoint
    return CheckpointExport(
        app=app,
        poller=state.poller_name,
        exported_at=now,
        source_fingerprint=state.source_fingerprint,
        source=state.source,
        cursor=checkpoint.cursor,
        generation=checkpoint.generation,
        fencing_token=state.lease.fencing_token,
        last_successful_batch_id=checkpoint.last_successful_batch_id,
        updated_at=checkpoint.updated_at,
        metadata=checkpoint.metadata,
    )


def read_origin(body: bytes, *, location: str, app: str, now: datetime) -> ReturnPoint:
    """A checkpoint from the bytes of an export, a backup or a state document.

    Raises: StateCorrupt, naming `location`, for anything else.
    """
    try:
        data = read_json(body)
    except NotBoundedJson:
        data = None
    state: State | None = None
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        state = decode(body, location=location)
        export = export_of(state, app=app, now=now)
    else:
        try:
            export = CheckpointExport.model_validate(data)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            wrong = f"{'.'.join(map(str, first['loc']))} ({first['msg']})"
            raise StateCorrupt(
                f"The {location} is not a readable export of a checkpoint: {wrong}.", document=location
            ) from error
    for name, count in (("fencing_token", export.fencing_token), ("generation", export.generation)):
        if count > HIGHEST_TOKEN:
            raise StateCorrupt(
                f"The {location} cannot be restored: its {name} must be at most {HIGHEST_TOKEN}.", document=location
            )
    return ReturnPoint(export, state, location)


def begin(poller_name: str, source: SourceDescription, origin: ReturnPoint, *, now: datetime) -> State:
    """The state that replaces a missing or unreadable document, before `restore`: the whole kept one, else an empty
    one. Rows that wait under another poller's name stay there: their records are kept under that name."""
    if origin.document is None:
        return transitions.create(poller_name, source, None, now=now)
    state = origin.document
    if state.poller_name != poller_name:
        state = aside.without(aside.not_tried(state), [row.id for row in (*state.aside, *state.quarantine)])
    return state.model_copy(update={"poller_name": poller_name, "write_ids": ()})


def restore(
    state: State,
    origin: ReturnPoint,
    *,
    source: SourceDescription,
    token_at_least: int,
    change: OperatorChange,
    now: datetime,
) -> State:
    """A reset to a kept checkpoint, with the other things that a reset changes: the pending batch and the halt. What
    waits is what `state` lists: rows that only the kept document lists were delivered or settled since."""
    kept = origin.export
    moved = bound_to(transitions.reset(state, cursor=kept.cursor, change=change, now=now), source)
    checkpoint = moved.checkpoint.model_copy(
        update={
            "last_successful_batch_id": kept.last_successful_batch_id,
            "updated_at": kept.updated_at or now,
            "metadata": kept.metadata,
            "generation": max(moved.checkpoint.generation, kept.generation + 1),
        }
    )
    # Sinks have seen the kept checkpoint's token: they would refuse a lower one as a zombie's.
    token = max(moved.lease.fencing_token, token_at_least, kept.fencing_token + 1)
    updates: dict[str, Any] = {
        "checkpoint": checkpoint,
        "lease": moved.lease.model_copy(update={"fencing_token": token}),
    }
    if origin.document is not None:
        before, control = origin.document.control, moved.control
        if source.belongs(origin.document.source_fingerprint, origin.document.source):
            updates["facts"] = origin.document.facts
        updates["delivery"] = origin.document.delivery.model_copy(
            update={"window": None, "retry_at": None, "failures": 0}  # a reset tries at once
        )
        if before.halted:
            who = {} if control.paused else {"by": before.by, "reason": before.reason, "at": before.at}
            updates["control"] = control.model_copy(update={"halted": True, **who})
    return moved.model_copy(update=updates)


def clone(state: State, origin: State, *, change: OperatorChange, now: datetime) -> State:
    """The checkpoint and the source of another poller's document, under this document's token, which grows. Rows that
    wait there stay there: their records are kept under that poller's name."""
    moved = transitions.reset(state, cursor=origin.checkpoint.cursor, change=change, now=now)
    checkpoint = moved.checkpoint.model_copy(
        update={
            "last_successful_batch_id": origin.checkpoint.last_successful_batch_id,
            "metadata": origin.checkpoint.metadata,
        }
    )
    bound = {**(origin.bound or {}), **(moved.bound or {})}
    belongs = {"source_fingerprint": origin.source_fingerprint, "source": origin.source, "bound": bound}
    belongs["facts"] = origin.facts
    return moved.model_copy(update={"checkpoint": checkpoint, **belongs})


def undoes(state: State, origin: ReturnPoint) -> bool:
    """True if going back to `origin` only undoes the document's last reset.

    Then the rows in between were delivered (or knowingly skipped) before that reset: none is skipped now.
    """
    change, kept = state.control.last_change, origin.document
    if change is None or kept is None or change.before is None or change.kind not in TAKEN_BACK:
        return False
    return change.before.get("fencing_token") == kept.lease.fencing_token and change.before.get("cursor") == (
        None if kept.checkpoint.cursor is None else kept.checkpoint.cursor.model_dump(mode="json")
    )


TAKEN_BACK = frozenset({"reset-to-beginning", "reset-to-cursor"})
"""Changes whose undo moves back to where the poller had come by its own work; the undo of an undo does not."""
