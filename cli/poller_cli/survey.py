"""Looking at pollers without touching them: the document by one read, the lag by one query. Nothing is written."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from poller.admission import guard
from poller.app import Poller
from poller.errors import PollerError
from poller.model.cursor import Cursor
from poller.model.timing import Timing
from poller.outcome import bound_as_json
from poller.runner import PENDING_CAP
from poller.statefile import Copy, StateFile
from poller_cli import exits
from poller_cli.outputs import BoundOutput, ControlOutput, LeaseOutput, PollerStatus


@dataclass(frozen=True, slots=True)
class Surveyed:
    """One poller's status, and what it contributes to the exit code."""

    status: PollerStatus
    code: int = exits.DONE


def survey(pollers: list[Poller]) -> list[Surveyed]:
    """The status of each, several at a time: one database that does not answer delays no other."""
    if len(pollers) < 2:
        return [look(poller) for poller in pollers]
    with ThreadPoolExecutor(max_workers=min(8, len(pollers))) as pool:
        return list(pool.map(look, pollers))


def look(poller: Poller) -> Surveyed:
    """The status of one poller. Raises nothing that is a PollerError: what cannot be told stands in `error`."""
    options = poller.options
    timing = Timing(options.lease_ttl.total_seconds(), options.heartbeat_interval.total_seconds())
    file = StateFile(
        poller.store, app_name=poller.app_name, poller_name=poller.name, runtime=poller.runtime, timing=timing
    )
    status = PollerStatus(name=poller.name, app_name=poller.app_name, document=file.location)
    try:
        copy = file.read()
        if copy is not None:
            status = _document(status, copy, timing, poller.runtime.monotonic())
            guard(poller.name, copy, poller.source.describe())
            poller.source.recall(copy.state.bound or {})
        start = poller.source.start() if copy is None else copy.state.checkpoint.cursor
        return Surveyed(_database(status, poller, start))
    except PollerError as error:
        return Surveyed(status.model_copy(update={"error": str(error)}), error.exit_code)


def _document(status: PollerStatus, copy: Copy, timing: Timing, now: float) -> PollerStatus:
    state = copy.state
    available = copy.availability(timing, now)
    return status.model_copy(
        update={
            "exists": True,
            "paused": state.control.paused,
            "halted": state.control.halted,
            "control": ControlOutput(by=state.control.by, reason=state.control.reason, at=state.control.at),
            "cursor": state.checkpoint.cursor,
            "checkpoint_updated_at": state.checkpoint.updated_at,
            "last_successful_batch_id": state.checkpoint.last_successful_batch_id,
            "lease": LeaseOutput(
                owner_id=state.lease.owner_id,
                fencing_token=state.lease.fencing_token,
                live=not available.free,
                expires_in_seconds=None if available.free else available.expires_in,
                acquired_at=state.lease.acquired_at,
                heartbeat_at=state.lease.heartbeat_at,
            ),
            "attempts": state.delivery.attempts,
            "last_error": state.delivery.last_error,
        }
    )


def _database(status: PollerStatus, poller: Poller, after: Cursor | None) -> PollerStatus:
    lag = poller.source.lag(after, cap=PENDING_CAP)
    bound = bound_as_json(poller.source.page(after, 1).bound)
    return status.model_copy(
        update={
            "lag_seconds": lag.seconds,
            "pending": lag.pending,
            "pending_capped": lag.pending_capped,
            "bound": None if bound is None else BoundOutput.model_validate(bound),
        }
    )
