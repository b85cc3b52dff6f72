"""Rows as lines of JSON on standard output, for a pipe or a container's log."""

from __future__ import annotations

import sys
import threading
from collections.abc import Mapping
from pathlib import Path

from poller.config.options import Options
from poller.handler.batch import Batch
from poller.relays.base import Relay
from poller.relays.messages import json_text, message_id, readable, retry_later


class StdoutSettings(Options):
    """`poller.relays:stdout`: each row as one line of JSON on standard output."""

    envelope: bool = False
    """Whether a line is an object with the row's `id`, which is the same whenever this version of the row comes, the
    name of its `poller`, and the `row`. Default: a line is the row."""


class StdoutRelay(Relay[StdoutSettings]):
    """Writes the lines of a batch at once, in order, and flushes. Lines are ASCII: other characters are escaped."""

    def __init__(
        self, settings: StdoutSettings, *, environ: Mapping[str, str] | None = None, folder: Path | None = None
    ) -> None:
        super().__init__(settings, environ=environ, folder=folder)
        self._writing = threading.Lock()

    def __call__(self, batch: Batch) -> None:
        """Raises: RetryLater, where nobody reads what is written, or the disk is full."""
        lines = []
        for row, values in readable(batch):
            line = {"id": message_id(batch, row), "poller": batch.poller_name, "row": values}
            lines.append(json_text(line if self.settings.envelope else values, ascii_only=True))
        try:
            with self._writing:
                sys.stdout.write("".join(f"{line}\n" for line in lines))
                sys.stdout.flush()
        except OSError as failed:
            raise retry_later(f"standard output takes no lines ({type(failed).__name__})") from None
