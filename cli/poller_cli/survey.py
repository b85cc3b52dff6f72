"""Looking at pollers without touching them: the document by one read, the lag by one query. Nothing is written."""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, TypeVar

from poller.admin.cursors import is_foreign
from poller.admin.editor import Operator
from poller.app import Poller
from poller.delivery.preflight import check_fingerprint
from poller.delivery.result import bound_as_json
from poller.delivery.runner import PENDING_CAP
from poller.errors import PollerError, SourceError, StoreDenied, StoreError
from poller.lease.state_file import Copy
from poller.model.changes import kept_by
from poller.model.redact import error_line
from poller.model.timing import Timing
from poller.ports import InspectableSource
from poller_cli import exits
from poller_cli.output.models import BackfillStatus, BoundOutput, ControlOutput, LeaseOutput, PollerStatus, StatusOutput
from poller_cli.terminal.printing import of_poller

if TYPE_CHECKING:
    from poller_cli.backfills import Document
    from poller_cli.naming import ConsoleApp

S = TypeVar("S", bound=PollerStatus)

_NEVER_RAN = {
    "exists": False,
    "paused": False,
    "halted": False,
    "lease": LeaseOutput(fencing_token=0, live=False),
    "attempts": 0,
}


@dataclass(frozen=True, slots=True)
class Surveyed(Generic[S]):
    """One status, and what it contributes to the exit code."""

    status: S
    code: int = exits.DONE


@dataclass(frozen=True, slots=True)
class Survey:
    """One look at some pollers and backfills.

    Attributes:
        backfills: of these pollers, those that are not finished, and those that were named; None where they could not
            be listed. unread: so many documents were not looked at. told: what else is to be said, line by line.
    """

    pollers: list[Surveyed[PollerStatus]]
    backfills: list[Surveyed[BackfillStatus]] | None = None
    unread: int = 0
    told: list[str] = field(default_factory=list)
    code: int = exits.DONE

    def output(self) -> StatusOutput:
        """As `status --json` prints it."""
        backfills = None if self.backfills is None else [one.status for one in self.backfills]
        return StatusOutput(
            pollers=[one.status for one in self.pollers], backfills=backfills, backfills_unread=self.unread
        )


def survey(app: ConsoleApp, pollers: Sequence[Poller], named: Sequence[Document] = (), *, nulls: bool = True) -> Survey:
    """The status of each, several at a time: one database that does not answer delays no other.

    `named`: backfills that were asked for by name. `nulls`: also count rows without a cursor, for which a table without
    an index on it is read as a whole. Raises nothing that is a PollerError.
    """
    with ThreadPoolExecutor(max_workers=min(8, max(1, len(pollers)))) as pool:
        looked = list(pool.map(lambda poller: look(poller, nulls=nulls), pollers))
        codes, told = [one.code for one in looked], [_complaint(one) for one in looked if one.status.error]
        unread, documents = 0, {one.name: one for one in named}
        try:
            if pollers:
                listing = app.backfills.unfinished({poller.name for poller in pollers})
                unread, told = listing.unread, told + listing.unreadable
                documents |= {one.name: one for one in listing.documents if one.name not in documents}
        except StoreError as error:
            # A store that may be read but not listed is none that is away; where it is away each status says so.
            if all(one.status.error is None for one in looked):
                told.append(f"Whether there are backfills is not known: {error}")
                codes.append(exits.DONE if isinstance(error, StoreDenied) else error.exit_code)
            if not named:
                return Survey(looked, None, told=told, code=exits.worst(codes))
        by_poller: dict[str, list[Document]] = defaultdict(list)
        for document in documents.values():
            by_poller[document.of or ""].append(document)
        # One poller's one after the other: they share its connection.
        groups = pool.map(lambda group: [look_at(app, one) for one in group], by_poller.values())
        backfills = [one for group in groups for one in group]
    asked = {one.name for one in named}
    failed = [one for one in backfills if one.status.error is not None and one.status.name in asked]
    codes += [one.code for one in failed]
    return Survey(looked, backfills, unread, told + [_complaint(one) for one in failed], exits.worst(codes))


def _complaint(one: Surveyed[PollerStatus] | Surveyed[BackfillStatus]) -> str:
    return of_poller(one.status.name, one.status.error or "")


def look_at(app: ConsoleApp, document: Document) -> Surveyed[BackfillStatus]:
    """The status of one backfill, or of one part, from its document as it was read, with one count of what is left.
    Raises nothing that is a PollerError."""
    of, source, cursor = app.poller(document.of or ""), app.backfills.source(document), document.state.checkpoint.cursor
    status = BackfillStatus(
        name=document.name,
        app_name=of.app_name,
        document=document.location,
        poller=of.name,
        begins=document.begins,
        ends=document.ends,
        begins_key=document.begins_key,
        ends_key=document.ends_key,
        finished=document.finished,
        finished_at=document.finished_at,
        begun_by=document.by,
        begun_at=document.at,
    )
    status = _document(status, document.copy, _timing(of), of.runtime.monotonic())
    if is_foreign(document.state, source.describe()):
        told = f"It was begun with another source than {of.name} is configured with now."
        return Surveyed(status.model_copy(update={"error": told}), exits.MISMATCH)
    try:
        lag = source.lag(cursor, cap=PENDING_CAP)
    except PollerError as error:
        return Surveyed(status.model_copy(update={"error": str(error)}), error.exit_code)
    except Exception as error:  # noqa: BLE001 - as in `look`
        return Surveyed(status.model_copy(update={"error": _fault(error)}), exits.FAILED)
    return Surveyed(status.model_copy(update={"pending": lag.pending, "pending_capped": lag.pending_capped}))


def _timing(poller: Poller) -> Timing:
    options = poller.options
    return Timing(options.lease_ttl.total_seconds(), options.heartbeat_interval.total_seconds())


def operator_of(poller: Poller, by: str) -> Operator:
    """For looking at a poller's document; it is not asked to change anything."""
    return Operator(
        poller.store,
        app_name=poller.app_name,
        poller_name=poller.name,
        runtime=poller.runtime,
        timing=_timing(poller),
        by=by,
    )


def look(poller: Poller, *, nulls: bool = True) -> Surveyed[PollerStatus]:
    """The status of one poller. Raises nothing that is a PollerError: what cannot be told stands in `error`."""
    operator = operator_of(poller, "status")
    status = PollerStatus(name=poller.name, app_name=poller.app_name, document=operator.file.location)
    try:
        copy = operator.file.read()
        if copy is None:
            status = status.model_copy(update={"exists": False})
            copy = operator.file.read_unless_deleted()
        if copy is None:
            status = status.model_copy(update=_NEVER_RAN)
            status = status.model_copy(update={"cursor": poller.source.start()})
        else:
            status = _document(status, copy, _timing(poller), poller.runtime.monotonic())
            check_fingerprint(poller.name, copy.state, poller.source)
            poller.source.recall(copy.state.bound or {})
        status = _rows(status, poller, nulls=nulls)
        if copy is not None:  # by now the server was asked what the names in the configuration mean
            check_fingerprint(poller.name, copy.state, poller.source)
        return Surveyed(_bound(status, poller))
    except PollerError as error:
        return Surveyed(status.model_copy(update={"error": str(error)}), error.exit_code)
    except Exception as error:  # noqa: BLE001 - one poller's trouble must not hide another's
        return Surveyed(status.model_copy(update={"error": _fault(error)}), exits.FAILED)


def _fault(error: Exception) -> str:
    return f"{type(error).__name__}: {error_line(error)}. This is a fault in poller; poller check may show more."


def _document(status: S, copy: Copy, timing: Timing, now: float) -> S:
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
                heartbeat_age_seconds=_heartbeat_age(copy),
                owner_id=state.lease.owner_id,
                kept_by=kept_by(state),
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


def _heartbeat_age(copy: Copy) -> float | None:
    lease = copy.state.lease
    if lease.owner_id is None or lease.heartbeat_at is None or copy.server_time is None:
        return None
    return max(0.0, (copy.server_time - lease.heartbeat_at).total_seconds())


def _rows(status: PollerStatus, poller: Poller, *, nulls: bool) -> PollerStatus:
    """What waits, and what will never be read. Raises: SourceError."""
    lag = poller.source.lag(status.cursor, cap=PENDING_CAP)
    told = {"lag_seconds": lag.seconds, "pending": lag.pending, "pending_capped": lag.pending_capped}
    if nulls and isinstance(poller.source, InspectableSource):
        with contextlib.suppress(SourceError):  # too many to count in time: the rest is told all the same
            count = poller.source.null_cursors(PENDING_CAP + 1)
            told |= {"null_cursors": min(count, PENDING_CAP), "null_cursors_capped": count > PENDING_CAP}
    return status.model_copy(update=told)


def _bound(status: PollerStatus, poller: Poller) -> PollerStatus:
    """Below what rows are read, and whether all that wait stand above it. Raises: SourceError."""
    page = poller.source.page(status.cursor, 1)
    bound = bound_as_json(page.bound)
    told = None if bound is None else BoundOutput.model_validate(bound)
    return status.model_copy(update={"bound": told, "above_bound": bool(status.pending) and not page.rows})
