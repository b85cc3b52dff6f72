"""One part of a backfill: its stretch, the poller that delivers it, and what its document says."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from poller.admin.counts import rows
from poller.admin.cursors import is_foreign
from poller.admin.refusals import Refused
from poller.admin.wired import operator_of
from poller.backfill.documents import origin
from poller.backfill.ranges import Range, RangeSource
from poller.backfill.result import BackfillPart
from poller.backfill.wired import LivePoller
from poller.errors import FingerprintMismatch
from poller.lease.state_file import Conflict
from poller.model import transitions
from poller.model.changes import created, to_resume
from poller.model.document import OperatorChange, State
from poller.model.fingerprint import differences
from poller.model.part_names import FINISHED
from poller.model.stamps import stamp
from poller.model.when import moment
from poller.observability import BatchCommitted, PollerEvent, RowDeliveredLater
from poller.ports import Bound
from poller.worker import Ended

if TYPE_CHECKING:
    from collections.abc import Sequence

    from poller.model.cursor import Cursor
    from poller.sources import SqlSource


class Part:
    """One stretch, with the poller that delivers it.

    Args:
        whole: the range whose rows it reads, on a connection of its own. by: who began it.

    Attributes:
        state: of its document, None if there is none. rows: that this run delivered. end: of its ticks, once they
            ended.
    """

    def __init__(self, live: LivePoller, name: str, whole: SqlSource, stretch: Range, *, by: str) -> None:
        self.name = name
        self.range = stretch
        self.source = RangeSource(whole, stretch)
        self.poller: LivePoller = live.beside(name, self.source, observers=[self._count])
        self.operator = operator_of(live, by, name=name, reason=f"{live.name} {stretch.words}")
        self.state: State | None = None
        self.rows = 0
        self.end: Ended[Any] | None = None

    def _count(self, event: PollerEvent) -> None:
        if isinstance(event, BatchCommitted):
            self.rows += event.rows
        elif isinstance(event, RowDeliveredLater):
            self.rows += 1

    # --- what its document says ------------------------------------------------------------------------------------

    def look(self, rename: str) -> None:
        """Read the document. `rename`: what to do where it is another's.

        Raises: FingerprintMismatch (it is of another range or source), StoreError.
        """
        copy = self.operator.file.read()
        self.state = None if copy is None else copy.state
        own = self.source.describe()
        if copy is None or not is_foreign(copy.state, own):
            return
        found = differences(copy.state.source, own)
        shown = "; ".join(map(str, found))
        raise FingerprintMismatch(
            f"The {self.operator.file.location} is of another source or range ({shown or 'not described'}).",
            stored=copy.state.source_fingerprint,
            configured=own.fingerprint(),
            differences=found,
            next_step=f"Nothing was changed. {rename}",
        )

    @property
    def finished(self) -> bool:
        """True if its document says that every row was delivered."""
        return self.state is not None and FINISHED in self.state.checkpoint.metadata

    @property
    def paused(self) -> str | None:
        """Who paused it, and why; None if it is not paused."""
        control = None if self.state is None else self.state.control
        if control is None or not control.paused:
            return None
        at = f" at {moment(control.at)}" if control.at else ""
        return f"paused by {control.by or 'unknown'}{at}: {control.reason or 'no reason given'}"

    @property
    def halted(self) -> bool:
        """True if it was halted because a batch failed too often."""
        return self.state is not None and self.state.control.halted

    @property
    def error(self) -> str | None:
        """Why it ended before it was finished; None if it did not end so."""
        return None if self.end is None else self.end.error

    def output(self) -> BackfillPart:
        """How far it came."""
        output = BackfillPart(
            name=self.name,
            document=self.operator.file.location,
            begins=self.range.low.value,
            ends=self.range.high.value,
            begins_key=self.range.low.tiebreaker,
            ends_key=self.range.high.tiebreaker,
            finished=self.finished,
            halted=self.halted,
            rows=self.rows,
            cursor=None if self.state is None else self.state.checkpoint.cursor,
            error=self.error,
        )
        output._failure = None if self.end is None else self.end.exception
        return output

    # --- what is written there -------------------------------------------------------------------------------------

    def begin(self, of: str, whole: Range, cuts: Sequence[Cursor], *, rename: str) -> None:
        """Make its document, if there is none: a backfill can be found and paused before its first row is delivered.

        Raises: FingerprintMismatch (another was made meanwhile, of another range), StoreError.
        """
        if self.state is not None or any(self.operator.file.traces()):
            return  # one that was deleted is not made again: its first tick says so
        file, runtime = self.operator.file, self.poller.runtime
        now = file.clock.now()
        made = transitions.create(self.name, self.source.describe(), self.range.low, now=now, ttl=file.timing.ttl)
        metadata = origin(of, whole, by=self.operator.by, at=now, cuts=cuts)
        made = made.model_copy(update={"checkpoint": made.checkpoint.model_copy(update={"metadata": metadata})})
        try:
            deadline = runtime.monotonic() + file.timing.tenure
            identity = runtime.new_id()
            self.state = file.write(
                None,
                lambda state, at: created(state, identity=identity, by=self.operator.by, now=at),
                deadline=deadline,
                create=made,
            ).state
        except Conflict:
            self.look(rename)
        else:
            self.operator.copy_to_trail(self.state.control.last_change)

    def retry(self) -> None:
        """Take back a halt, and one that would come because a batch was begun too often and never finished; but no
        pause. Raises: StoreError."""
        if self.state is None or self.state.control.paused:
            return
        copy = self.operator.look()
        worn = copy.state.delivery.attempts >= self.poller.options.max_attempts and self.operator.busy(copy) is None

        def resumed(state: State, change: OperatorChange, now: datetime) -> State:
            after = to_resume(state, change, now)
            # The lease of one that died has ended; to leave it there would let it begin again with this write.
            return (
                transitions.release(after, give_back=False, now=now)
                if worn and state.lease == copy.state.lease
                else after
            )

        if copy.state.control.halted or worn:
            self.state = self.operator.change("resume", resumed, base=copy).after

    def finish(self, ends: str) -> None:
        """Write down that every row was delivered. `ends`: how its end is given.

        Raises: Refused (rows may still appear in it, or were set aside), StoreError.
        """
        if not self.source.settled():
            raise Refused(unsettled(self.source.bound, ends), next_step="Run it again later.")
        copy = self.operator.look()
        aside, waiting = len(copy.state.aside), len(copy.state.quarantine)
        if waiting:
            more = f", and {rows(aside)} {_are(aside)} set aside" if aside else ""
            raise Refused(
                f"{rows(waiting)} of it {_are(waiting)} not delivered, and wait{'s' * (waiting == 1)} for a person"
                f"{more}.",
                next_step=f"Replay or discard {_them(waiting)}, then run it again: poller quarantine list {self.name}.",
            )
        if aside:
            raise Refused(
                f"{rows(aside)} of it {_are(aside)} set aside and not delivered yet.",
                next_step=f"Run it again to try {_them(aside)}: poller quarantine list {self.name} says when.",
            )
        if FINISHED not in copy.state.checkpoint.metadata:
            copy = replace(copy, state=self.operator.change("backfill", _finished, base=copy).after)
        self.state = copy.state


def _are(count: int) -> str:
    return "is" if count == 1 else "are"


def _them(count: int) -> str:
    return "it" if count == 1 else "them"


def _finished(state: State, change: OperatorChange, now: datetime) -> State:
    metadata = {**state.checkpoint.metadata, FINISHED: stamp(now)}
    done = to_resume(state, change, now)
    return done.model_copy(update={"checkpoint": done.checkpoint.model_copy(update={"metadata": metadata})})


def unsettled(bound: Bound | None, ends: str) -> str:
    """Why a range is not delivered to its end yet; `ends`: that end, as it was given."""
    stands = "is not known yet"
    if bound is not None and bound.value is not None:
        stands = f"is {bound.value}" + (f", held by {bound.held_by}" if bound.held_by else "")
    elif bound is not None and bound.reason:
        stands += f" ({bound.reason})"
    return f"Rows may still appear below {ends}: the bound {stands}."
