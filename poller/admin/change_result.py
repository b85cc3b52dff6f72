"""What a change of a state document was, or would be: the result of a change in Python, and what `--json` prints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

from pydantic import Field

from poller.admin.effects import Effect
from poller.errors import plain
from poller.model.cursor import Cursor, KeyValue
from poller.model.document import State
from poller.model.result import ResultModel

SHOWN = 10
"""So many rows are shown to people."""


class CursorPlace(ResultModel):
    """What an operator's change can move."""

    cursor: Cursor | None
    """Everything up to here was delivered; null is the beginning."""
    generation: int
    """Raised by every reset."""
    fencing_token: int
    owner_id: str | None
    """Who holds the lease; an operator who broke another's keeps it for a while."""
    source_fingerprint: str
    paused: bool
    halted: bool
    attempts: int
    """Starts of the pending batch."""


class FieldDifferenceOutput(ResultModel):
    """One field in which two sources differ."""

    field: str
    before: Any
    after: Any


Stopped: TypeAlias = Literal["none", "ended", "running", "unknown"]
"""What became of a handler that was cancelled (`ChangeOutput.handler`)."""


class ChangedPart(ResultModel):
    """What was changed in one part of a backfill."""

    name: str
    document: str
    changed: bool
    id: str | None
    before: CursorPlace | None
    after: CursorPlace | None
    handler: Stopped | None = None
    """Only of a cancel: what became of the handler that was running."""


WAITS = {"aside": "set aside", "pending": "in quarantine"}
"""What people read of a row that is tried again automatically, and of one that waits for a person."""


class ChangedRow(ResultModel):
    """A single row that waits, which was changed."""

    id: str
    pk: dict[str, KeyValue]
    """The primary key, by column."""
    status: Literal["aside", "pending"]
    """It is (of one that was discarded: was) retried automatically, or waits for a person."""


class ChangeOutput(ResultModel):
    """A change of a state document: pause, cancel, resume, rebind, clone-checkpoint, import, reset-to-..., undo,
    quarantine add and discard."""

    command: Literal[
        "pause",
        "cancel",
        "resume",
        "rebind",
        "reset-to-beginning",
        "reset-to-cursor",
        "reset-to-checkpoint",
        "clone-checkpoint",
        "import",
        "quarantine discard",
        "quarantine add",
        "undo",
    ]
    name: str
    """Whose document it is; of a clone, the new one."""
    app_name: str
    document: str
    """Where it is kept."""
    changed: bool
    """True if anything was written."""
    dry_run: bool = False
    id: str | None = None
    """The change's id in the audit trail."""
    by: str
    reason: str | None = None
    before: CursorPlace | None
    """Null where there was no document, or none that could be read, and where there are `parts`."""
    after: CursorPlace | None
    """As it was written; of a dry run, as it would be."""
    effect: Effect
    source_differences: list[FieldDifferenceOutput] = Field(default_factory=list)
    """Where the change accepts another source: how the two differ."""
    starts_after_seconds: float = 0.0
    """For so long no worker starts, because a lease was broken."""
    handler: Stopped | None = None
    """Only of a cancel: what became of the handler that was running. "none": no worker held the lease. "ended": its
    worker has given the lease back. "running": it goes on after the time in which a worker stops its handler; its lease
    is no longer renewed, and nothing that it does is committed. "unknown": it was not waited for, or the store could
    not be read."""
    handler_lease_seconds: float | None = None
    """If that is "running": the most seconds until its lease ends."""
    backup: str | None = None
    """Of exactly what was replaced: its name in the store."""
    undo: str | None = None
    """The command that takes it back."""
    configure: str | None = None
    """The TOML to add for a clone that is not configured, so that it runs: what the file says of the poller that was
    cloned, under the new name."""
    notes: list[str] = Field(default_factory=list)
    parts: list[ChangedPart] = Field(default_factory=list)
    """Each part of a backfill in parts that was named as a whole."""
    rows: list[ChangedRow] = Field(default_factory=list)
    """Of `quarantine`: the rows that were discarded or added."""


def place_of(state: State) -> CursorPlace:
    """A state, as results show it."""
    return CursorPlace(
        cursor=state.checkpoint.cursor,
        generation=state.checkpoint.generation,
        fencing_token=state.lease.fencing_token,
        owner_id=state.lease.owner_id,
        source_fingerprint=state.source_fingerprint,
        paused=state.control.paused,
        halted=state.control.halted,
        attempts=state.delivery.attempts,
    )


def moves(output: ChangeOutput, *, existed: bool = False) -> list[tuple[str, str]]:
    """Before -> after, line by line; what stays is left out, but for the cursor. `existed`: of a document that cannot
    be read, that there was one."""
    before, after = output.before, output.after
    if after is None:
        return []
    if before is None:
        lines = [("cursor", f"{'unknown' if existed else 'none'} -> {after.cursor or 'the beginning'}")]
        return [*lines, ("token", f"none -> {after.fencing_token}")]
    start = before.cursor or "the beginning"
    lines = [
        ("cursor", f"{start} -> {after.cursor or 'the beginning'}" if before.cursor != after.cursor else f"{start}")
    ]
    for name, one, other in (
        ("token", before.fencing_token, after.fencing_token),
        ("attempts", before.attempts, after.attempts),
        ("paused", _yes(before.paused), _yes(after.paused)),
        ("halted", _yes(before.halted), _yes(after.halted)),
    ):
        if one != other:
            lines.append((name, f"{one} -> {other}"))
    lines += [("source", f"{d.field}: {plain(d.before)} -> {plain(d.after)}") for d in output.source_differences]
    if before.source_fingerprint != after.source_fingerprint and not output.source_differences:
        lines.append(("source", f"{before.source_fingerprint or 'unknown'} -> {after.source_fingerprint}"))
    return lines


def row_lines(output: ChangeOutput) -> list[tuple[str, str]]:
    """The single rows of a change, line by line: the first ten, and how many more there are."""
    lines = [("row", f"{row.id}  {key_text(row.pk)}  {WAITS[row.status]}") for row in output.rows[:SHOWN]]
    more = len(output.rows) - SHOWN
    return [*lines, ("row", f"and {more:,} more")] if more > 0 else lines


def key_text(values: Mapping[str, KeyValue | None]) -> str:
    """Columns and their values, for people."""
    return ", ".join(f"{name}={'NULL' if value is None else value}" for name, value in values.items())


def _yes(value: bool) -> str:
    return "yes" if value else "no"
