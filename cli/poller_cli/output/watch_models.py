"""What `watch` prints under `--json`, as models (see `schemas`)."""

from __future__ import annotations

from dataclasses import dataclass

from poller.admin.status import PollerStatus
from poller.backfill.status import BackfillStatus
from poller.model.stamps import Stamp
from poller_cli.output.models import _Output


class WatchedPoller(_Output):
    """One poller as `poller watch` sees it."""

    status: PollerStatus
    rows_per_second: float | None
    """Rows that the checkpoint passed since the sample before; null where the database did not say, and in the first
    sample."""


class WatchedBackfill(_Output):
    """One backfill, or one part of it, as `poller watch` sees it."""

    status: BackfillStatus
    rows_per_second: float | None
    """As of a poller."""


class WatchOutput(_Output):
    """One line of `poller watch --json`."""

    at: Stamp
    """By this machine's clock."""
    pollers: list[WatchedPoller]
    backfills: list[WatchedBackfill] | None
    """Theirs that are not finished, and those that were named; null where the store did not list its documents."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One look at all of them, and what it contributes to the exit code."""

    output: WatchOutput
    code: int
