"""Several lanes: batches of different ordering keys are handled at once (throughput.md, "Lanes").

The tick's thread does all but call the handler. It deals the rows of a page out to the lanes by the hash of their
ordering key, begins a batch in each lane that is idle, and moves the checkpoint to the low watermark: the last row
before which everything is done. Where a call fails no batch begins any more, and the lanes finish what they have; the
last write then says which rows above the watermark are done (`model.lanes`), and `model.judging` what the failure
means.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from itertools import accumulate, islice, repeat, takewhile
from types import TracebackType
from typing import Self

from poller.delivery.calls import Calls
from poller.delivery.committer import Committer
from poller.delivery.context import Context
from poller.delivery.handed import page_of
from poller.delivery.lane import Dealt, InHand, Lane
from poller.delivery.lane_ends import LaneEnds
from poller.delivery.leased import LeasedDelivery, Seat
from poller.delivery.progress import Progress
from poller.delivery.reader import KEPT_FOR, Reader
from poller.delivery.recorder import Recorder
from poller.delivery.rows import PageRows, places
from poller.delivery.sizes import rows_that_fit
from poller.delivery.watermark import DONE, NAMED, DealtPage, Watermark
from poller.errors import PollerError
from poller.model import aside, handover
from poller.model.document import State
from poller.model.handover import MOST_LISTED, Plan
from poller.model.limits import LARGEST_BODY
from poller.model.put import DoneCall

logger = logging.getLogger("poller")


class Lanes:
    """The lanes of one tenure. A context manager: at its end no handler runs in them."""

    def __init__(
        self,
        context: Context,
        delivery: LeasedDelivery,
        calls: Calls,
        recorder: Recorder,
        committer: Committer,
        progress: Progress,
        reader: Reader,
    ) -> None:
        self._context = context
        self._options = context.options
        self._keyed = bool(context.options.ordering_key)
        self._delivery = delivery
        self._tenure = delivery.tenure
        self._calls = calls
        self._recorder = recorder
        self._committer = committer
        self._progress = progress
        self._reader = reader
        self._ended: deque[InHand] = deque()
        self._signal = context.runtime.event()
        name = f"poller-lane-{context.name}"
        self._lanes = [Lane(at, context.runtime, name, self._over) for at in range(context.options.concurrency)]
        self._watermark = Watermark(context, progress, context.options.concurrency)
        self._stuck = False
        """Whether the rows behind the last page can be chosen only once all before them are passed."""
        self._kept_back: deque[Dealt] = deque()
        """Rows that are not dealt yet: an older version of the first of them is in another lane."""
        self._at_work: dict[Hashable, int] = {}
        """Primary keys of rows that were dealt and are not done, each with its lane; where an ordering key is set, by
        which a row may change its lane."""
        self._versions: dict[Hashable, int] = {}
        """Of those of which a lane has several versions, how many it has beside the first."""
        self._ends = LaneEnds(context, self._tenure, recorder, committer, progress, self._watermark)
        self._begun = 0
        """Batches begun, and not landed."""
        self._renewed = False
        """Whether rows were read again in this round."""
        self._space = LARGEST_BODY
        """Bytes of the document for rows in hand, all of which may have to be listed at once."""
        self._largest_entry = 0
        """How many of these a row takes, at most."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for lane in self._lanes:
            lane.end()
        for lane in self._lanes:
            lane.join()

    def may_take(self, state: State, chosen: Plan) -> bool:
        """Whether the rows of this plan may be handed over in lanes."""
        return chosen.is_for_lanes and handover.begun(state, chosen) == state

    def hand_over(self, chosen: Plan, rows: PageRows, *, may_go_on: Callable[[], bool]) -> bool:
        """Hand over the rows of a page, and of those behind it, until nothing is left, a call fails, or no other may
        follow; and write what came of it. Whether that could begin, or rows that were read again have gone or moved.

        `may_go_on`: whether another call may follow; where none may, or nothing is left to do, the last PUT gives the
        lease back.
        Raises: LeaseLost, CommitError, StoreError; what reading the next rows raises.
        """
        self._committer.settle()
        self._delivery.begin_writes()  # the page was read
        self._watermark.begin()
        self._begun, self._stuck, self._renewed = 0, False, False
        calls_before = self._progress.calls
        self._space, self._largest_entry = LARGEST_BODY, 0
        self._committer.notify = self._reader.notify = self._look
        self._deal(chosen, rows, self._tenure.state.checkpoint.position)
        try:
            self._drive(may_go_on)
            self._close(may_go_on)
        except BaseException as error:
            self._wind_up(error)
            raise
        finally:
            self._committer.notify, self._reader.notify = lambda: None, None
            for lane in self._lanes:
                lane.waiting.clear()
            self._kept_back.clear()
            self._at_work.clear()
            self._versions.clear()
            self._ends.clear()
        return self._progress.calls > calls_before or self._renewed

    # --- the tick's thread -----------------------------------------------------------------------------------------

    def _drive(self, may_go_on: Callable[[], bool]) -> None:
        """Go on until nothing is handled and nothing more may begin. A batch in each lane comes before a row aside that
        is due: else rows whose tries take long, of which one is always due, would hold up all others."""
        fed = False
        while True:
            self._signal = self._context.runtime.event()
            self._collect()
            self._look_at_commits()
            feeds = (
                not self._ends.any_failed
                and not self._delivery.hung
                and may_go_on()
                and not (fed and self._delivery.is_any_due())
            )
            if feeds:
                self._deal_kept_back()
                self._read_on()
                self._feed(may_go_on)
                fed = fed or self._in_hand
            if not self._in_hand and not (feeds and self._rows_left):
                return  # the last write also passes what is done now
            self._commit()
            if not self._in_hand and not self._is_waited_for:
                return
            if not self._ended:
                self._wait()

    def _wait(self) -> None:
        """Wait until a call is over, or something landed or was read. A page that takes too long counts while no
        handler runs: each call has a limit of its own."""
        reads = self._reader.is_reading and not self._in_hand
        if reads:
            self._delivery.begin_page()
        if self._in_hand:
            self._progress.calling = self._context.runtime.monotonic()
        self._signal.wait()
        self._progress.calling = None
        if reads:
            self._delivery.begin_writes()

    @property
    def _in_hand(self) -> bool:
        return any(lane.hand is not None for lane in self._lanes)

    @property
    def _rows_left(self) -> bool:
        """Whether there are rows for which there was no room yet, or that are being read."""
        return self._reader.is_reading or bool(self._kept_back) or any(lane.waiting for lane in self._lanes)

    @property
    def _is_waited_for(self) -> bool:
        """Whether somebody is at work who says when that is over."""
        return self._reader.is_reading or self._committer.is_working or self._signal.is_set()

    def _over(self, hand: InHand) -> None:
        """In a lane's thread: a call is over."""
        self._ended.append(hand)
        self._signal.set()

    def _look(self) -> None:
        """In another thread: something landed, or was read."""
        self._signal.set()

    def _look_at_commits(self) -> None:
        landed = self._progress.batches
        self._committer.look()
        self._begun -= self._progress.batches - landed

    # --- dealing rows ----------------------------------------------------------------------------------------------

    def _deal(self, chosen: Plan, rows: PageRows, before: int) -> None:
        """Deal the rows of a page out to the lanes."""
        page = DealtPage(rows, chosen, before, len(self._lanes), self._tenure.state.delivery.lanes, keyed=self._keyed)
        self._stuck = not chosen.is_plain  # it has listed rows, or ones that were done before
        self._watermark.add(page)
        if self._options.on_poison == "quarantine":
            self._space = min(self._space, chosen.space)
            self._largest_entry = max(self._largest_entry, aside.largest_entry(rows.facts))
        self._kept_back.extend((page, at) for at in places(chosen.rows))
        self._deal_kept_back()
        if not self._stuck and page.is_whole:
            self._reader.go_ahead(batches=self._batches_left(), wide=True)

    def _deal_kept_back(self) -> None:
        """A row waits while an older version of it is in another lane, and so do all behind it."""
        while self._kept_back:
            page, at = self._kept_back[0]
            lane = page.lanes[at]
            if self._keyed:
                pk = page.pks[at]
                where = self._at_work.get(pk)
                if where is None:
                    self._at_work[pk] = lane
                elif where == lane:
                    self._versions[pk] = self._versions.get(pk, 0) + 1
                else:
                    return
            self._lanes[lane].waiting.append(self._kept_back.popleft())

    def _batches_left(self) -> int | None:
        """How many calls may still be made; None: no limit."""
        most = self._options.max_batches_per_tick
        return None if most == 0 else most - self._progress.calls

    def _read_on(self) -> None:
        """Deal the next page, where it is there and its rows are needed."""
        last, options = self._watermark.last, self._options
        if last is None or self._stuck or self._reader.is_reading or self._kept_back:
            return
        if sum(len(lane.waiting) for lane in self._lanes) > len(self._lanes) * options.batch_size:
            return
        if last.is_whole:
            if not self._reader.has_more:
                return
            self._reader.go_ahead(batches=self._batches_left(), wide=True, wanted=True)
            if self._reader.is_reading:
                return
        state, before = self._tenure.state, last.before + len(last.became)
        self._delivery.begin_page()
        rows = self._reader.rows(last.end, state, batches=self._batches_left(), wide=True)
        chosen = rows.plan(state, options.on_poison, options.limits, several=len(self._lanes))
        self._delivery.begin_writes()
        if not chosen.passes:
            self._stuck = self._reader.interrupted
            return
        if chosen.is_plain and self.may_take(state, chosen):
            self._deal(chosen, rows, before)
        else:
            self._stuck = True  # the tick looks at them again

    # --- beginning batches -----------------------------------------------------------------------------------------

    def _feed(self, may_go_on: Callable[[], bool]) -> None:
        """Begin a batch in each idle lane that has rows; the one whose rows come first first, else all that may be
        begun beyond the watermark could be begun without the row at which it stands."""
        idle = [lane for lane in self._lanes if lane.hand is None and lane.waiting]
        for lane in sorted(idle, key=lambda lane: lane.first_position):
            room = self._most() - sum(len(one.hand.rows) for one in self._lanes if one.hand is not None)
            if self._begun >= self._options.most_uncommitted or room <= 0 or not may_go_on():
                return
            if not self._begin(lane, min(room, self._options.batch_size)):
                return

    def _most(self) -> int:
        """How many rows may be in hand: so many that all of them can be listed."""
        if self._options.on_poison != "quarantine":
            return self._options.batch_size * len(self._lanes)
        state = self._tenure.state
        return max(1, MOST_LISTED - len(state.aside) - len(state.quarantine))

    def _begin(self, lane: Lane, size: int) -> bool:
        young = 0
        while lane.waiting and not young:
            for stale in reversed(self._stale_pages(lane, size)):  # the first last: then its rows at least are young
                if not self._read_again(stale):
                    return False
            young = self._young(lane, size)
        if not lane.waiting:
            return True  # they have gone
        handed = lane.take(young, self._key_of)
        entries = self._listable(lane, handed)
        if not handed:
            return False
        page = page_of(handed)
        if self._options.batch_bytes is not None:
            fit = rows_that_fit(self._options.batch_bytes, page.rows)
            lane.give_back(handed[fit:])
            del handed[fit:]
            page = page.part(0, fit)
        (first_page, first), (last_page, last) = handed[0], handed[-1]
        batch = self._delivery.batch(
            page,
            first_page.cursor_before(first),
            cursor_to=last_page.rows.page.cursors[last],
            attempt=1,
            untried=self._progress.failed is None,
            seat=Seat(lane.number, len(self._lanes), last_page.before + last + 1),
        )
        if not self._calls.begin(batch):
            lane.give_back(handed)
            return False
        self._begun += 1
        lane.begin(InHand(lane.number, batch, handed, entries, lambda: self._delivery.run(batch)))
        return True

    def _stale_pages(self, lane: Lane, size: int) -> list[DealtPage]:
        """The pages of a lane's next rows whose rows were read too long ago."""
        oldest = self._context.runtime.monotonic() - KEPT_FOR
        if not self._watermark.is_older_than(oldest):
            return []
        pages = dict.fromkeys(page for page, _ in islice(lane.waiting, size))
        return [page for page in pages if page.read_at < oldest]

    def _young(self, lane: Lane, size: int) -> int:
        """How many of a lane's next rows stand before the first that was read too long ago."""
        stale = self._stale_pages(lane, size)
        if not stale:
            return size
        return sum(1 for _ in takewhile(lambda dealt: dealt[0] not in stale, islice(lane.waiting, size)))

    def _read_again(self, page: DealtPage) -> bool:
        """Take the rows of a page that wait as they are now; those that have left their cursors are passed over. False:
        a row came between, or it is not known what became of them; then the round ends, and the tick reads them."""
        waiting = sorted(
            at for rows in (*(lane.waiting for lane in self._lanes), self._kept_back) for one, at in rows if one is page
        )
        first, last = waiting[0], waiting[-1]
        self._delivery.begin_page()
        again = self._reader.again(page.cursor_before(first), self._tenure.state, last - first + 2)
        self._delivery.begin_writes()
        gone = page.renew(again, waiting)
        self._renewed = True
        if gone is None:
            self._stuck = True
            for lane in self._lanes:
                lane.waiting.clear()
            self._kept_back.clear()
            return False
        if gone:
            left = set(gone)
            for lane in self._lanes:
                self._leave([one for one in lane.waiting if one[0] is page and one[1] in left])
                lane.waiting = deque(one for one in lane.waiting if one[0] is not page or one[1] not in left)
            self._kept_back = deque(one for one in self._kept_back if one[0] is not page or one[1] not in left)
        return True

    def _listable(self, lane: Lane, handed: list[Dealt]) -> int:
        """Give back the rows that the document has no space for if all in hand are listed. The bytes that the others
        take up in it; if not even one row fits beside those in hand, 0."""
        if self._options.on_poison != "quarantine":
            return 0
        space = self._space - sum(one.hand.entries for one in self._lanes if one.hand is not None)
        space -= aside.LEFT_ID * max(0, self._watermark.dealt - len(handed[0][0].became))
        short = self._largest_entry <= 2 * aside.ENTRY
        each = (aside.entry_size(page.rows.page.cursors[at]) for page, at in handed)
        sizes = list(accumulate(repeat(self._largest_entry, len(handed)) if short else each))
        fit = sum(1 for size in sizes if size <= space)
        lane.give_back(handed[fit:])
        del handed[fit:]
        return sizes[fit - 1] if fit else 0

    # --- what came of them -----------------------------------------------------------------------------------------

    def _collect(self) -> None:
        """Look at the calls that are over. Raises: LeaseLost; what went wrong beside the handler."""
        while self._ended:
            hand = self._ended[0]
            self._lanes[hand.lane].hand = None
            self._ended.popleft()
            if hand.handled is None:
                raise hand.error or AssertionError("a call that is over has a result or an error")
            failed = hand.handled.error is not None
            rows = [page.row(at) for page, at in hand.rows] if failed else []
            call = self._calls.ended(hand.batch, rows, hand.handled)
            self._watermark.batch_id = call.batch_id
            done, listed = (len(hand.rows), frozenset[str]()) if call.failure is None else self._ends.judge(rows, call)
            for page, at in hand.rows[:done]:
                page.became[at] = NAMED if listed and page.rows.facts[at].id in listed else DONE
            self._leave(hand.rows[:done])
            if done:
                page, at = hand.rows[done - 1]
                page.calls[at] = DoneCall(call.batch_id, done - len(listed), call.seconds)

    def _key_of(self, page: DealtPage, at: int) -> Hashable:
        """What a row's primary key is known by."""
        return page.pks[at] if self._keyed else page.keys[at]

    def _leave(self, rows: Sequence[Dealt]) -> None:
        """Rows are done: newer versions of them may go to other lanes."""
        for page, at in rows if self._at_work else ():
            pk = page.pks[at]
            if others := self._versions.pop(pk, 0) if self._versions else 0:
                if others > 1:
                    self._versions[pk] = others - 1
            else:
                del self._at_work[pk]

    # --- the checkpoint --------------------------------------------------------------------------------------------

    def _commit(self) -> None:
        """Have the checkpoint moved to the watermark, while the handlers go on."""
        for landing in self._watermark.passed():
            self._committer.later(landing)

    def _close(self, may_go_on: Callable[[], bool]) -> None:
        """The last PUT. Raises: LeaseLost, CommitError."""
        left = self._watermark.is_left or self._stuck or self._reader.has_more
        more = left or self._recorder.may_prune() or self._delivery.is_any_due()
        self._ends.write(release=not (more and may_go_on() and not self._delivery.hung), drained=not more)
        last = self._watermark.last
        if last is not None and self._watermark.is_left and self._watermark.all_done and not self._reader.has_more:
            self._delivery.check_cursor(last.rows.after, last.end)

    def _wind_up(self, error: BaseException) -> None:
        """Wait until no handler runs: nothing may be given back before (protocol 10). What is done is committed."""
        self._delivery.begin_writes()
        while self._in_hand:
            try:
                for lane in self._lanes:
                    lane.wake()
                self._signal = self._context.runtime.event()
                if not self._ended:
                    self._signal.wait()
                self._collect()
            except (Exception, KeyboardInterrupt, SystemExit) as other:  # noqa: BLE001 - the first is raised
                logger.debug("%s: %s, after %s", self._context.name, type(other).__name__, type(error).__name__)
        if self._tenure.remaining() > 0:
            with suppress(PollerError):
                self._close(lambda: True)
