"""A round: the rows behind one cursor, from when they are dealt until nothing more begins with them (throughput.md,
"Lanes").

A round deals the rows of a page out (`board`), looks what is there, decides what comes next (`step`), and moves the
checkpoint. In several lanes (`lanes`) batches of different ordering keys are handled at once, beside the tick's thread,
which does all but call the handler; if a call fails no batch begins any more, the lanes finish what they have, and the
last write says which rows above the watermark are done (`model.lanes`). In one lane (`one_lane`) the handler is called
here, and what it did is written before the round goes on. What a call that failed means, `model.judging` says for both.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from itertools import chain, groupby
from operator import itemgetter
from types import NoneType
from typing import overload
from uuid import UUID

from poller.handler.batch import Batch
from poller.model import aside, backoff, handover
from poller.model.cursor import Cursor
from poller.model.document import State
from poller.model.handover import Plan
from poller.ports import FreshRows, Page, Row, Table
from poller.tick.board import Board
from poller.tick.calls import Call
from poller.tick.context import Context
from poller.tick.dealt_page import DealtPage, Run, cut, length, rows_of
from poller.tick.ends import Ends
from poller.tick.rows import PageRows
from poller.tick.sizes import rows_that_fit
from poller.tick.slots import Job, Slots
from poller.tick.under_lease import UnderLease

_SCALARS = frozenset({NoneType, bool, int, float, str, bytes, Decimal, datetime, date, time, timedelta, UUID})
"""What cannot be changed in place."""


class Round(ABC):
    """What rounds of one lane and of several have in common. `strict`: a plan that one call carries out as a whole, as
    the next one depends on what comes of it."""

    def __init__(
        self,
        under: UnderLease,
        slots: Slots,
        may_go_on: Callable[[], bool],
        board: Board,
        *,
        strict: Plan | None = None,
    ) -> None:
        self._under = under
        self._options = under.context.options
        self._tenure = under.tenure
        self._slots = slots
        self._may_go_on = may_go_on
        self._strict = strict
        self._board = board
        self._ends = Ends(under, board, strict=strict is not None)
        self._stuck = False
        """True if the rows behind the last page can be chosen only once all before them are passed."""
        self._fed = False
        """True if a batch has begun."""
        self._renewed = False
        """True if rows were read again, or are to be."""
        self._refused = False
        """True if a batch could not begin since something was over last."""

    @abstractmethod
    def run(self, chosen: Plan, rows: PageRows) -> bool:
        """See `Rounds.hand_over`."""

    @abstractmethod
    def _batch(self, handed: Sequence[Run], page: Page) -> Batch:
        """The batch of these rows, which are those of the page."""

    @abstractmethod
    def _start(self, job: Job) -> None:
        """Have the handler called."""

    @abstractmethod
    def _ended(self, job: Job, call: Call) -> None:
        """A call is over."""

    def _next_page(self, last: DealtPage, lanes: int) -> tuple[PageRows, Plan]:
        """The rows behind the last page, and what is done with them."""
        under, options, state = self._under, self._options, self._tenure.state
        under.delivery.begin_page()
        rows = under.reader.rows(last.end, state, batches=calls_left(under), wide=True)
        chosen = rows.plan(state, options.on_poison, options.limits, several=lanes)
        under.delivery.begin_writes()
        return rows, chosen

    def _begin(self, lane: int, size: int, batch_bytes: int | None) -> bool:
        """Begin a batch of at most `size` rows in an idle lane. True if that could begin."""
        under, board = self._under, self._board
        handed = board.take(lane, size)
        if not handed:
            return False
        page = page_of(handed)
        if batch_bytes is not None:
            fit = rows_that_fit(batch_bytes, page.rows)
            board.give_back(lane, cut(handed, fit))
            page = page.part(0, fit)
        batch = self._batch(handed, page)
        if not under.calls.begin(batch):
            board.give_back(lane, handed)
            board.over(lane)
            return False
        self._fed = True
        self._start(Job(lane, batch, handed, lambda: under.delivery.run(batch)))
        return True

    def _collect(self) -> None:
        """Look at the calls that are over. Raises: LeaseLost; what went wrong beside the handler."""
        slots, board = self._slots, self._board
        while slots.over:
            job = slots.over[0]
            slots.running.pop(job.lane, None)
            slots.over.popleft()
            board.over(job.lane)
            if job.handled is None:
                raise job.error or AssertionError("a call that is over has a result or an error")
            rows = [] if job.handled.error is None else rows_of(job.rows)
            call = self._under.calls.ended(job.batch, rows, job.handled)
            self._ended(job, call)


def may_take(state: State, chosen: Plan) -> bool:
    """True if the rows of this plan may be handed over behind others that are not passed yet."""
    return chosen.is_plain and chosen.is_for_lanes and handover.begun(state, chosen) == state


def may_be_wide(context: Context, state: State) -> bool:
    """True if rows may be handed over batch by batch without a plan for each, and in several lanes at once: nothing
    that failed is pending or searched for, and a report of all rows in hand has room in the list; in one lane nothing
    is listed at all."""
    options, known = context.options, state.delivery.lanes
    if state.delivery.window is not None or backoff.failures_of(state):
        return False
    if options.concurrency == 1:
        return known is None and not state.aside and not state.quarantine and options.read_ahead > 0
    if known is not None and len(known.done) != options.concurrency:
        return False
    few = aside.failing(state) < options.max_aside and aside.room(state, options.limits) > 0
    return few or options.on_poison != "quarantine"


def calls_left(under: UnderLease, *, begun: int = 0) -> int | None:
    """The number of calls that may still be made, less those that begin now; None: no limit."""
    return under.progress.calls_left(under.context.options.max_batches_per_tick, begun=begun)


class Cursors(Sequence[Cursor]):
    """The cursors of rows that were dealt, made on demand: most are never asked for."""

    def __init__(self, runs: Sequence[Run], which: range | None = None) -> None:
        self._runs = runs
        self._which = range(length(runs)) if which is None else which

    def __len__(self) -> int:
        return len(self._which)

    @overload
    def __getitem__(self, index: int) -> Cursor: ...
    @overload
    def __getitem__(self, index: slice) -> Cursors: ...
    def __getitem__(self, index: int | slice) -> Cursor | Cursors:
        which = self._which[index]
        if isinstance(which, range):
            return Cursors(self._runs, which)
        for page, places in self._runs:
            if which < len(places):
                return page.rows.page.cursors[places[which]]
            which -= len(places)
        raise IndexError(index)


def page_of(handed: Sequence[Run]) -> Page:
    """These rows, of one page or of several, as a page of their own."""
    page, places = handed[0]
    if isinstance(places, range) and len(handed) == 1 and not page.again:
        part = replace(page.rows.page.part(places.start, places.stop), ordering=None)
        return part if isinstance(part.rows, FreshRows) else replace(part, rows=[copied(row) for row in part.rows])
    parts: list[Sequence[Row]] = []
    tables: list[Table | None] = []
    for source, places in _read(handed):
        whole = source.page
        fresh = whole.rows.take(places) if isinstance(whole.rows, FreshRows) else None
        parts.append([copied(whole.rows[at]) for at in places] if fresh is None else fresh)
        tables.append(None if whole.table is None else whole.table.take(places))
    first, *others = tables
    known = [table for table in others if table is not None]
    table = None if first is None or len(known) < len(others) else first.join(known) if known else first
    rows = parts[0] if len(parts) == 1 else list(chain.from_iterable(parts))
    return Page(rows, Cursors(handed), handed[0].page.rows.page.bound, table=table)


def copied(row: Row) -> Row:
    """The row for the handler, who may change it: the page's is recorded as it was read, and handed over again in the
    same tick after a call that failed."""
    for value in row.values():
        if type(value) not in _SCALARS:
            break
    else:
        return dict(row)
    return {
        name: copy.deepcopy(value) if isinstance(value, list | dict | set | tuple | bytearray) else value
        for name, value in row.items()
    }


def _read(handed: Sequence[Run]) -> Iterator[tuple[PageRows, Sequence[int]]]:
    """Where these rows are in the pages that were read last."""
    for page, places in handed:
        if not page.again:
            yield page.rows, places
            continue
        for source, read in groupby((page.again.get(at, (page.rows, at)) for at in places), key=itemgetter(0)):
            yield source, [at for _, at in read]
