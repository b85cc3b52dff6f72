"""What commands that change or export state print under `--json`, as models (see `outputs`)."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from poller.admin.status import BoundOutput
from poller.model.checkpoint_file import CheckpointExport
from poller.model.cursor import Cursor
from poller.model.stamps import Stamp
from poller_cli.output.models import _Output

__all__ = [
    "ChangeOutput",
    "ChangedPart",
    "CheckpointExport",
    "EffectOutput",
    "HistoryOutput",
    "HistoryRecord",
    "PeekOutput",
    "Place",
]


class Place(_Output):
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


class EffectOutput(_Output):
    """What a moved checkpoint does to rows."""

    redelivered: int | None
    """Rows that come again; null where the database did not tell."""
    skipped: int | None
    """Rows that will never be delivered; null where the database did not tell."""
    capped: bool
    """There are at least so many."""
    open_ended: bool
    """Rows that are yet to appear may be skipped too."""
    not_counted: str | None
    """Why the database did not tell."""


class FieldDifferenceOutput(_Output):
    """One field in which two sources differ."""

    field: str
    before: Any
    after: Any


class ChangedPart(_Output):
    """What was changed in one part of a backfill."""

    name: str
    document: str
    changed: bool
    id: str | None
    before: Place | None
    after: Place | None


class ChangeOutput(_Output):
    """A change of a state document: pause, resume, rebind, clone-checkpoint, import, reset-to-..."""

    command: Literal[
        "pause",
        "resume",
        "rebind",
        "reset-to-beginning",
        "reset-to-cursor",
        "reset-to-checkpoint",
        "clone-checkpoint",
        "import",
    ]
    name: str
    """Whose document it is; of a clone, the new one."""
    app_name: str
    document: str
    """Where it is kept."""
    changed: bool
    """Whether anything was written."""
    dry_run: bool = False
    id: str | None = None
    """Of the change, in the audit trail."""
    by: str
    reason: str | None = None
    before: Place | None
    """Null where there was no document, or none that could be read, and where there are `parts`."""
    after: Place | None
    """As it was written; of a dry run, as it would be."""
    effect: EffectOutput
    source_differences: list[FieldDifferenceOutput] = Field(default_factory=list)
    """Where the change accepts another source: how the two differ."""
    starts_after_seconds: float = 0.0
    """For so long no worker starts, because a lease was broken."""
    backup: str | None = None
    """Of exactly what was replaced: its name in the store."""
    undo: str | None = None
    """The command that takes it back."""
    configure: str | None = None
    """Of a clone that is not configured: the TOML to add, so that it runs: what the file says of the poller that was
    cloned, under the new name."""
    notes: list[str] = Field(default_factory=list)
    parts: list[ChangedPart] = Field(default_factory=list)
    """Of a backfill in parts that was named as a whole: each of them."""


class HistoryRecord(_Output):
    """One record of the audit trail."""

    id: str
    kind: str
    """takeover, lease_lost, halt, or an operator's command."""
    at: str | None = None
    by: str | None = None
    reason: str | None = None
    before: Any = None
    after: Any = None


class HistoryOutput(_Output):
    """`poller history --json`."""

    name: str
    app_name: str
    document: str
    """Where the trail is kept."""
    records: list[HistoryRecord]
    """Newest last."""


class PeekOutput(_Output):
    """`poller peek --json`."""

    name: str
    app_name: str
    cursor: Cursor | None
    """Where the checkpoint stands; null is the beginning."""
    checkpoint_updated_at: Stamp | None = None
    rows: list[dict[str, Any]]
    """The next rows, in order; values that JSON has no form for are texts."""
    bound: BoundOutput | None
    """Below what rows are read."""
