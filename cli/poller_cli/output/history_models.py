"""What `history` and `peek` print under `--json`, as models (see `schemas`)."""

from __future__ import annotations

from typing import Any

from poller.admin.status import BoundOutput
from poller.model.cursor import Cursor
from poller.model.stamps import Stamp
from poller_cli.output.models import _Output


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
