"""Handing rows that wait to the handler because a person says so (failures, "The record and the commands").

The model is what `poller quarantine replay --json` prints.
"""

from __future__ import annotations

from typing import Literal, Protocol

from poller.admin.quarantine.choice import Choice, check_choice, chosen, with_whole_ids
from poller.admin.quarantine.records import records_of
from poller.admin.refusals import Refused, WrongArgument
from poller.admin.request import ChangeOptions, checked_reason, identity
from poller.admin.wired import WiredPoller, operator_of
from poller.errors import PollerError
from poller.handler.call import Handler
from poller.model import aside
from poller.model.cursor import KeyValue
from poller.model.document import WaitingRow
from poller.model.result import ResultModel
from poller.tick.replay import Replay, Replayed, Version


class NotHandedOver(Refused):
    """No row was handed over.

    Attributes:
        why: for the first of them, in a sentence that holds no cursor and no place.
    """

    def __init__(self, message: str, *, why: str, next_step: str = "") -> None:
        super().__init__(message, next_step=next_step)
        self.why = why


class ReplayingPoller(WiredPoller, Protocol):
    """A poller with a handler; `poller.Poller` is one."""

    def replay(self, wanted: Replay, handler: Handler | None = None, *, by: str, reason: str | None = None) -> None:
        """Hand the rows over under the lease."""
        ...


class ReplayedRow(ResultModel):
    """What became of one row."""

    id: str
    pk: dict[str, KeyValue]
    """The primary key, by column."""
    outcome: Literal["replayed", "failed", "refused", "not_tried"]
    """The handler took it, and it waits no longer; it failed, and still waits; it was not handed over; it was not
    looked at."""
    error: str | None
    """How it failed, or why it was not handed over."""


class QuarantineReplayOutput(ResultModel):
    """`poller quarantine replay --json`."""

    name: str
    app_name: str
    document: str
    """The state document, which lists the rows that wait."""
    dry_run: bool
    by: str
    reason: str | None
    version: Literal["recorded", "current", "as-it-was"]
    """The version of each row: the recorded one if the table still has it; the table's; the recorded one whatever
    happened."""
    replayed: int
    """Rows that the handler took."""
    rows: list[ReplayedRow]
    """In the order in which they are handed over."""
    stopped: str | None
    """Why the rows that were not tried were not."""


def replay(
    poller: ReplayingPoller,
    choice: Choice,
    version: Version = "recorded",
    request: ChangeOptions | None = None,
    *,
    handler: Handler | None = None,
) -> QuarantineReplayOutput:
    """Hand the rows to the handler, the oldest of each ordering key first, one per call.

    How single rows went is in the result. Raises: Refused, if none could be handed over; WrongArgument, LeaseHeld,
        PollerError (paused or halted), FingerprintMismatch, ConfigError (no handler), StoreError, SourceError.
    """
    request = request or ChangeOptions()
    check_choice(choice, poller)
    by, reason = identity(request.by), checked_reason(request.reason, request.option("reason"))
    operator = operator_of(poller, by)
    state = aside.after_reset(operator.look().state)
    records = records_of(poller, operator)
    choice = with_whole_ids(choice, state, records, name=poller.name)
    rows = chosen(choice, state, records, name=poller.name)
    if not rows and choice.ids:
        raise WrongArgument(
            f"{poller.name}: the row {choice.ids[0]} waits no longer.",
            next_step=f"What became of it: poller quarantine show {poller.name} --id {choice.ids[0]}",
        )
    wanted = Replay([row.id for row in rows], version)
    if rows and not request.dry_run:
        try:
            poller.replay(wanted, handler, by=by, reason=reason)
        except PollerError as error:
            if not wanted.results:
                raise
            wanted.stopped = str(error)
    results = {one.row.id: one for one in wanted.results}
    if results and all(one.refused for one in results.values()):
        raise _refused(poller.name, next(iter(results.values())), request)
    return QuarantineReplayOutput(
        name=poller.name,
        app_name=poller.app_name,
        document=operator.file.location,
        dry_run=request.dry_run,
        by=by,
        reason=reason,
        version=version,
        replayed=sum(1 for one in results.values() if one.done),
        rows=[_row(row, results.get(row.id)) for row in rows],
        stopped=wanted.stopped,
    )


def version_of(*, current: bool, recorded: bool) -> Version:
    """Which version is meant. Raises: WrongArgument, where both are."""
    if current and recorded:
        raise WrongArgument("Say which version is meant: the current one, or the recorded one; not both.")
    return "current" if current else "as-it-was" if recorded else "recorded"


def _row(row: WaitingRow, result: Replayed | None) -> ReplayedRow:
    pk = row.cursor.tiebreaker or {}
    if result is None:
        return ReplayedRow(id=row.id, pk=pk, outcome="not_tried", error=None)
    outcome: Literal["replayed", "failed", "refused"] = (
        "replayed" if result.done else "refused" if result.refused else "failed"
    )
    return ReplayedRow(id=row.id, pk=pk, outcome=outcome, error=result.error)


def _refused(name: str, first: Replayed, request: ChangeOptions) -> Refused:
    options = f"{request.option('current')}: as the table has it now; {request.option('recorded')}: as it was recorded."
    return NotHandedOver(
        f"{name}: the row {first.row.id} was not handed over. {first.error}",
        why=first.why,
        next_step=options if "which version" in (first.error or "") else "",
    )
