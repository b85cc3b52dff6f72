"""Rows as lines of JSON on standard output, for a pipe or a container's log."""

from __future__ import annotations

import sys
import threading
from collections.abc import Mapping
from pathlib import Path

from poller.handler.batch import Batch
from poller.relays.base import Relay, RowOptions
from poller.relays.messages import json_text, message_id, readable, retry_later
from poller.relays.ordering import chosen


class StdoutSettings(RowOptions):
    """`poller.relays:stdout`: each row as one line of JSON on standard output."""

    envelope: bool = False
    """True if a line is an object with the row's `id`, which is the same whenever this version of the row comes, the
    name of its `poller`, and the `row`. Default: a line is the row."""


class StdoutRelay(Relay[StdoutSettings]):
    """Writes the lines of a batch at once, in order, and flushes. Lines are ASCII: other characters are escaped."""

    knows_changes = True

    def __init__(
        self, settings: StdoutSettings, *, environ: Mapping[str, str] | None = None, folder: Path | None = None
    ) -> None:
        super().__init__(settings, environ=environ, folder=folder)
        self._writing = threading.Lock()

    def __call__(self, batch: Batch) -> None:
        """Raises: RetryLater, if the reader is gone, or the disk is full."""
        lines = []
        for row, found in readable(batch, self.settings.columns):
            values = chosen(found, self.settings.columns)
            line = {"id": message_id(batch, row), "poller": batch.poller_name, "row": values}
            lines.append(json_text(line if self.settings.envelope else values, ascii_only=True))
        try:
            with self._writing:
                sys.stdout.write("".join(f"{line}\n" for line in lines))
                sys.stdout.flush()
        except OSError as failed:
            raise retry_later(f"standard output takes no lines ({type(failed).__name__})") from None
