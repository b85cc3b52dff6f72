"""A round of several lanes: the tick's thread does all but call the handler."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress

from poller.errors import PollerError
from poller.handler.batch import Batch
from poller.model.handover import MOST_LISTED, Plan
from poller.ports import Page
from poller.tick.board import Board
from poller.tick.calls import Call
from poller.tick.dealt_page import DealtPage, Run, length, rows_of
from poller.tick.leased import Seat
from poller.tick.reader import KEPT_FOR
from poller.tick.round import Round, calls_left, may_take
from poller.tick.rows import PageRows
from poller.tick.slots import Job, Slots
from poller.tick.step import Seen, Step, decide
from poller.tick.under_lease import UnderLease

logger = logging.getLogger("poller")


class SeveralLanes(Round):
    """The rows of a page, and of those behind it, in so many lanes."""

    def __init__(self, under: UnderLease, slots: Slots, may_go_on: Callable[[], bool], lanes: int) -> None:
        options = under.context.options
        self._lists = options.on_poison == "quarantine"
        super().__init__(under, slots, may_go_on, Board(lanes, keyed=bool(options.ordering_key), listed=self._lists))
        self._lanes = lanes
        self._begun = 0
        """Batches begun, and not written yet."""
        self._refreshed: int | None = None
        """The lane whose next rows were just read again: those that are young enough begin."""
        self._reads_on = True
        """False if a step was made since something was over last: a page is read first, since what begins before it may
        get no turn until it is there."""

    def run(self, chosen: Plan, rows: PageRows) -> bool:
        """See `Rounds.hand_over`."""
        under, calls_before = self._under, self._under.progress.calls
        under.delivery.begin_writes()  # the page was read
        under.committer.notify = under.reader.notify = self._slots.look
        try:
            self._deal(chosen, rows, self._tenure.state.checkpoint.position)
            self._drive()
            self._close(self._may_go_on)
        except BaseException as error:
            self._wind_up(error)
            raise
        finally:
            under.committer.notify, under.reader.notify = lambda: None, None
        return under.progress.calls > calls_before or self._renewed

    def _drive(self) -> None:
        """Go on until nothing is handled and nothing more may begin. A batch in each lane comes before a row aside that
        is due: else rows with slow tries, one always being due, would hold up all others."""
        while True:
            self._slots.rearm()
            self._refreshed, self._refused, self._reads_on = None, False, True
            self._collect()
            self._look_at_commits()
            fed = self._fed
            while (step := self._next(fed)) not in (Step.WAIT, Step.CLOSE):
                pass
            if step is Step.CLOSE:
                return  # the last write also passes what is done now
            self._land()
            if not self._slots.over:
                self._wait()

    def _next(self, fed: bool) -> Step:
        """Look, decide, and read or begin if that comes next. The step; `fed`: a row aside may come first."""
        under, board, slots = self._under, self._board, self._slots
        failed = self._ends.any
        wanted = not failed and not under.delivery.hung and self._may_go_on()
        if wanted:
            board.deal_kept_back()
        busy = bool(slots.running)
        lane = board.next_lane(slots.running) if wanted else None
        room = self._room if lane is not None else 0
        size = min(room, self._options.batch_size)
        oldest = under.context.runtime.monotonic() - KEPT_FOR
        young = 0 if lane is None else board.young(lane, size, oldest)
        enough = lane is None or (lane == self._refreshed and young > 0)
        stale = [] if lane is None or enough else board.stale(lane, size, oldest)
        step = decide(
            Seen(
                wanted=wanted,
                failed=failed,
                due=wanted and fed and under.delivery.is_any_due(),
                ready=lane is not None,
                stale=bool(stale),
                room=room > 0 and not self._refused,
                full=self._begun >= self._options.most_uncommitted,
                waiting=not busy and board.is_waiting,
                in_hand=busy,
                behind=wanted and self._reads_on and self._is_behind,
                reading=under.reader.is_reading,
                writing=not busy and (under.committer.is_working or slots.signal.is_set() or board.can_pass),
            )
        )
        self._reads_on = False
        if step is Step.START and lane is not None:
            self._refused = not self._begin(lane, young, self._options.batch_bytes)
            self._refreshed = None
        elif step is Step.REFRESH and lane is not None:
            self._refreshed = lane
            self._refresh(stale)
        elif step is Step.READ:
            self._read_on()
        return step

    def _wait(self) -> None:
        """Wait until a call is over, or something was written or was read. A page that takes too long counts while no
        handler runs: each call has a limit of its own."""
        under, running = self._under, self._slots.running
        reads = under.reader.is_reading and not running
        if reads:
            under.delivery.begin_page()
        if running:
            under.progress.calling = under.context.runtime.monotonic()
        self._slots.signal.wait()
        under.progress.calling = None
        if reads:
            under.delivery.begin_writes()

    def _look_at_commits(self) -> None:
        landed = self._under.progress.batches
        self._under.committer.look()
        self._begun -= self._under.progress.batches - landed

    # --- reading rows ----------------------------------------------------------------------------------------------

    def _deal(self, chosen: Plan, rows: PageRows, before: int) -> None:
        """Deal the rows of a page out to the lanes."""
        under, known = self._under, self._tenure.state.delivery.lanes
        page = DealtPage(rows, chosen, before, self._lanes, known, keyed=bool(self._options.ordering_key))
        self._stuck = not chosen.is_plain  # it has listed rows, or ones that were done before
        self._board.deal(page)
        if not self._stuck and page.is_whole:
            under.reader.go_ahead(batches=calls_left(under), wide=True)

    @property
    def _is_behind(self) -> bool:
        """True if the rows behind the last page may be read, and are needed."""
        board, last = self._board, self._board.last
        if last is None or self._stuck or board.is_kept_back:
            return False
        few = board.waiting <= self._options.concurrency * self._options.batch_size
        return few and (self._under.reader.has_more or not last.is_whole)

    def _read_on(self) -> None:
        """Deal the next page if it is there, else have it read."""
        under, last = self._under, self._board.last
        if last is None:
            return
        if last.is_whole:
            under.reader.go_ahead(batches=calls_left(under), wide=True, wanted=True)
            if under.reader.is_reading:
                return
        rows, chosen = self._next_page(last, self._lanes)
        if not chosen.passes:
            self._stuck = under.reader.interrupted
        elif may_take(self._tenure.state, chosen):
            self._deal(chosen, rows, last.before + len(last.became))
        else:
            self._stuck = True  # the tick looks at them again

    def _refresh(self, stale: list[DealtPage]) -> None:
        """Take rows that wait as they are now; those that have left their cursors are passed over. If a row came
        between, or it is not known what became of them, the round ends, and the tick reads them. The first page comes
        last: then its rows at least are young."""
        under = self._under
        for page in reversed(stale):
            waiting = self._board.waiting_of(page)
            under.delivery.begin_page()
            count = waiting[-1] - waiting[0] + 2
            again = under.reader.again(page.cursor_before(waiting[0]), self._tenure.state, count)
            under.delivery.begin_writes()
            self._renewed = True
            if not self._board.renew(page, waiting, again):
                self._stuck = True
                return

    # --- beginning batches -----------------------------------------------------------------------------------------

    @property
    def _room(self) -> int:
        """The number of further rows that may be in hand, so that all can be listed."""
        in_hand = sum(length(job.rows) for job in self._slots.running.values())
        if not self._lists:
            return self._options.batch_size * self._options.concurrency - in_hand
        state = self._tenure.state
        return max(1, MOST_LISTED - len(state.aside) - len(state.quarantine)) - in_hand

    def _batch(self, handed: Sequence[Run], page: Page) -> Batch:
        """See `Round`."""
        first, last = handed[0], handed[-1]
        lane = first.page.lanes[first.places[0]]
        through = last.page.before + last.places[-1] + 1
        return self._under.delivery.batch(
            page,
            first.page.cursor_before(first.places[0]),
            cursor_to=page.cursors[-1],
            attempt=1,
            untried=self._under.progress.failed is None,
            seat=Seat(lane, self._lanes, through),
        )

    def _start(self, job: Job) -> None:
        """See `Round`."""
        self._begun += 1
        self._slots.start(job)

    # --- what came of them -----------------------------------------------------------------------------------------

    def _ended(self, job: Job, call: Call) -> None:
        """See `Round`."""
        done, listed = length(job.rows), frozenset[str]()
        if call.failure is not None:
            done, listed = self._ends.in_lane(rows_of(job.rows), call)
        self._board.ended(job.rows, done, listed, call.batch_id, call.seconds)

    # --- the checkpoint --------------------------------------------------------------------------------------------

    def _land(self) -> None:
        """Have the checkpoint moved to the watermark, while the handlers go on."""
        for landing in self._board.passed():
            self._under.progress.reached = landing.to
            self._under.committer.later(landing)

    def _close(self, may_go_on: Callable[[], bool]) -> None:
        """The last PUT. Raises: LeaseLost, CommitError."""
        under, board = self._under, self._board
        self._ends.pass_on()
        left = board.is_left or self._stuck or under.reader.has_more
        more = left or under.recorder.may_prune() or under.delivery.is_any_due()
        release = not (more and may_go_on() and not under.delivery.hung)
        self._ends.write_lanes(release=release, drained=not more)
        last = board.last
        if last is not None and board.is_left and board.all_done and not under.reader.has_more:
            under.delivery.check_cursor(last.rows.after, last.end)

    def _wind_up(self, error: BaseException) -> None:
        """Wait until no handler runs: nothing may be given back before (protocol 10). What is done is committed."""
        under, slots = self._under, self._slots
        under.delivery.begin_writes()
        while slots.running:
            try:
                slots.wake()
                slots.rearm()
                if not slots.over:
                    slots.signal.wait()
                self._collect()
            except (Exception, KeyboardInterrupt, SystemExit) as other:  # noqa: BLE001 - the first is raised
                logger.debug("%s: %s, after %s", under.context.name, type(other).__name__, type(error).__name__)
        if self._tenure.remaining() > 0:
            with suppress(PollerError):
                self._close(lambda: True)
