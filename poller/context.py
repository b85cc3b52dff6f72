"""What every tick of one poller shares, and the name of this process in its lease."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from dataclasses import dataclass

from poller.audit import AuditTrail
from poller.config import PollerOptions
from poller.handlers import Executor
from poller.model.cursor import Cursor
from poller.observability import BoundWatch, Emitter
from poller.ports import Lag, Runtime, Source
from poller.seen import SeenLog
from poller.statefile import StateFile


def instance_name() -> str:
    """What tells this process from others, for people: the Functions instance, or host and process id."""
    site = os.environ.get("WEBSITE_INSTANCE_ID") or os.environ.get("CONTAINER_NAME")
    return f"{site[:16]}-{os.getpid()}" if site else f"{socket.gethostname()}-{os.getpid()}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What every tick of one poller shares.

    `lag(after, fresh)`: how far behind, or None where the database does not tell now.
    """

    name: str
    app_name: str
    source: Source
    file: StateFile
    audit: AuditTrail
    options: PollerOptions
    executor: Executor
    runtime: Runtime
    emit: Emitter
    watch: BoundWatch
    lag: Callable[[Cursor | None, bool], Lag | None]
    seen: SeenLog
