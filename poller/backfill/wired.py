"""The pollers of a backfill as this package sees them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from poller.admin.status import PollerStatus
from poller.admin.wired import WiredPoller
from poller.errors import ConfigError
from poller.observability import Observer
from poller.ports import Source
from poller.sources import SqlSource
from poller.worker import Ticking


class LivePoller(WiredPoller, Ticking, Protocol):
    """Whose ranges are delivered; `poller.Poller` is one."""

    def status(self) -> PollerStatus: ...
    def beside(self, name: str, source: Source, *, observers: Sequence[Observer] = ()) -> LivePoller:
        """A poller of another name and source, and else like this one: what delivers a part. `observers`: beside those
        of this one."""
        ...

    def close(self) -> None: ...


def table_of(poller: LivePoller) -> SqlSource:
    """Where its rows come from. Raises: ConfigError, if ranges of that source cannot be read."""
    if not isinstance(poller.source, SqlSource):
        raise ConfigError(
            f"source: {type(poller.source).__name__} is no SqlSource: only ranges of tables and queries can be "
            "delivered again.",
            key="source",
        )
    return poller.source
