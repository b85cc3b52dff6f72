"""What every tick of one poller shares, and the name of this process in its lease."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Sequence
from datetime import datetime

from poller.config import PollerOptions
from poller.handler.executors import Executors
from poller.journal.audit import AuditTrail
from poller.journal.delivery_log import DeliveryLog
from poller.journal.quarantine.prune import Pruner
from poller.journal.quarantine.records import Quarantine
from poller.lease.state_file import StateFile
from poller.model.cursor import Cursor
from poller.model.document import Checkpoint
from poller.model.schedule import Schedule, schedule_of
from poller.observability import Emitter, Observer
from poller.ports import Runtime, Source, StateStore
from poller.tick.watches import BoundWatch, LagWatch

SETTLES = 2.0
"""The most seconds that records under way are waited for."""


class BatchNames:
    """The second and the number in a batch's name. A number goes on within its second, from tick to tick and from
    worker to worker, and never restarts at a second that was named before, as after a clock was set back."""

    def __init__(self) -> None:
        self._last = ("", 0)

    def next(self, now: datetime, checkpoint: Checkpoint) -> tuple[str, int]:
        """Those of the next batch. `checkpoint`: as the document has it, whose batch may be another worker's."""
        second = f"{now:%Y%m%d_%H%M%S}"
        committed = re.fullmatch(r"[a-z]+_(\d{8}_\d{6})_(\d+)", checkpoint.last_successful_batch_id or "", re.ASCII)
        before = max(self._last, (committed[1], int(committed[2])) if committed else self._last)
        number = before[1] + 1 if second <= before[0] else 1
        self._last = max(before[0], second), number
        return second, number


class Context:
    """One poller, wired: what its ticks stand on, and what outlives each of them.

    Args:
        name, app_name: which poller; they name its document.
        source, store, runtime: the ports.
        options: how it works.
        observers: each is given every event.

    Attributes:
        file: its state document; it knows the store, the timing of the lease and the store's clock.
        audit, delivery_log, records: what is written beside the document; the last of rows that were passed without
            success.
        pruner: removes records.
        executors: where its handler runs.
        emit: gives an event to the observers.
        watch_bound, lag: what is known of its source from tick to tick.
        batch_names: names its batches.
        rewrite_at: no weekly rewrite before, on the runtime's monotonic clock.
    """

    def __init__(
        self,
        name: str,
        *,
        app_name: str,
        source: Source,
        store: StateStore,
        options: PollerOptions,
        observers: Sequence[Observer] = (),
        runtime: Runtime,
    ) -> None:
        self.name = name
        self.source = source
        self.options = options
        self.runtime = runtime
        self.emit = emit = Emitter(observers)
        self.file = StateFile(
            store, app_name=app_name, poller_name=name, runtime=runtime, timing=options.timing, emit=emit
        )
        self.audit = AuditTrail(
            store, app_name=app_name, poller_name=name, runtime=runtime, emit=emit, now=self.file.clock.now
        )
        self.delivery_log = DeliveryLog(
            store, app_name=app_name, poller_name=name, window=options.audit_window, runtime=runtime, emit=emit
        )
        self.records = Quarantine(
            store,
            app_name=app_name,
            poller_name=name,
            runtime=runtime,
            timing=options.timing,
            clock=self.file.clock,
            emit=emit,
            error_text=options.error_text,
        )
        self.pruner = Pruner(self.records, options.quarantine_ttl)
        self.executors = Executors(runtime, processes=options.isolation == "process")
        self.watch_bound = BoundWatch(emit)
        self.lag = LagWatch(name, source, runtime)
        self.batch_names = BatchNames()
        self.rewrite_at = float("-inf")

    def settle(self) -> None:
        """Give records that are under way a moment to be written: at most `SETTLES` for each of the two journals."""
        self.audit.settle(SETTLES)
        self.delivery_log.settle(SETTLES)

    def dated(self, cursor: Cursor | None) -> datetime | None:
        """When the row of a cursor was stamped; None if that is not known, or a cursor is not a time."""
        return None if cursor is None else self.source.dated(cursor)

    @property
    def schedule(self) -> Schedule:
        """When its ticks come."""
        return schedule_of(self.options.schedule)

    @property
    def process(self) -> str:
        """This process as leases and audit records name it: `{app}/{instance}`."""
        return f"{self.file.app_name}/{_instance()}"


def _instance() -> str:
    """What distinguishes this process, for people: the Functions instance, or host and process id."""
    site = os.environ.get("WEBSITE_INSTANCE_ID") or os.environ.get("CONTAINER_NAME")
    return f"{site[:16]}-{os.getpid()}" if site else f"{socket.gethostname()}-{os.getpid()}"
