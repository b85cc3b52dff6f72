"""What `peek` prints under `--json`, as a model (see `schemas`)."""

from __future__ import annotations

from typing import Any

from poller.admin.status import BoundOutput
from poller.model.cursor import Cursor
from poller.model.result import ResultModel
from poller.model.stamps import Stamp


class PeekOutput(ResultModel):
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
