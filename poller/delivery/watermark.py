"""The low watermark of several lanes: the last row before which everything is done (throughput.md, "Committer").

The checkpoint moves to it. What is done above it is known here until it is passed, and kept in the document where a
tenure ends before (`model.lanes`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence

from poller.delivery.context import Context
from poller.delivery.progress import Progress
from poller.delivery.rows import PageRows, RowOfPage, places
from poller.model.aside import RowFacts
from poller.model.cursor import Cursor
from poller.model.document import LanesDone
from poller.model.handover import Plan
from poller.model.lanes import lane_of_key
from poller.model.limits import LONGEST_CURSOR
from poller.model.put import Above, DoneCall, Landing
from poller.model.verdict import Verdict

LEFT, DONE, PASSED_OVER, NAMED = 0, 1, 2, 3
"""What became of a row: nothing yet; it was handed over and is done; it was listed or done before; it was named by its
call, and is passed once the document lists it."""


class DealtPage:
    """A page whose rows were dealt out to lanes.

    Attributes:
        rows, chosen: the page, and the plan for it. became: of each row that the plan passes what became of it.
        before: how many rows were passed before its first one since the last reset, by which positions count.
        keys, lanes: the hash of the ordering key of each row, and its lane.
        pks: the primary key of each row, where the ordering key is another; empty else.
        beyond: of lanes that did everything up to a cursor at or behind its end, as the document says, that cursor.
        passed: how many of its rows the checkpoint has passed, once what was sent has landed.
        calls: calls that ended, by the place of the last row that they did.
        read_at: when those of its rows that wait were read. again: of rows that were read again, by their places, that
            page and where they stand in it. gone: places of rows that had left their cursors then.
    """

    def __init__(
        self, rows: PageRows, chosen: Plan, before: int, lanes: int, known: LanesDone | None, *, keyed: bool
    ) -> None:
        self.rows = rows
        self.chosen = chosen
        self.before = before
        self.keys = rows.keys()
        self.lanes = [lane_of_key(key, lanes) for key in self.keys]
        self.pks = rows.pks() if keyed else []
        self.passed = 0
        self.read_at = rows.read_at
        self.again: dict[int, tuple[PageRows, int]] = {}
        self.gone: list[int] = []
        self.became = bytearray(len(chosen.passes))
        if not chosen.is_plain:
            self.became = bytearray([PASSED_OVER]) * len(chosen.passes)
            for at in places(chosen.rows):
                self.became[at] = LEFT
        self.calls: dict[int, DoneCall] = {}
        cursors = (
            {} if known is None else {lane: cursor for lane, cursor in enumerate(known.done) if cursor is not None}
        )
        self.beyond = {lane: cursor for lane, cursor in cursors.items() if rows.reach(cursor) >= len(chosen.passes)}

    @property
    def watermark(self) -> int:
        """How many of its rows are done from the first on."""
        left, named = self.became.find(LEFT, self.passed), self.became.find(NAMED, self.passed)
        return min((at for at in (left, named) if at >= 0), default=len(self.became))

    def row(self, at: int) -> RowOfPage:
        """A row as it was read last."""
        rows, place = self.again.get(at, (self.rows, at)) if self.again else (self.rows, at)
        return rows.facts[place]

    def renew(self, again: PageRows, waiting: Sequence[int]) -> list[int] | None:
        """Take rows that wait, by their places in order, from a page that was read again behind the row before them.

        The places of those that have left their cursors, which are passed over; None if that page does not say so, or
        if a row is of another lane now."""
        found = self.rows.found_in(again, waiting[0], waiting[-1])
        if found is None:
            return None
        there = [at for at in waiting if at in found]
        fresh = again.only([found[at] for at in there])
        if fresh.keys() != [self.keys[at] for at in there]:
            return None
        gone = [at for at in waiting if at not in found]
        for at in gone:
            self.became[at] = PASSED_OVER
        self.gone += gone
        self.again.update((at, (fresh, place)) for place, at in enumerate(there))
        self.read_at = again.read_at
        return gone

    @property
    def is_whole(self) -> bool:
        """Whether all rows of the page were dealt."""
        return len(self.became) == len(self.rows.facts)

    @property
    def end(self) -> Cursor:
        """The cursor behind its last row."""
        return self.chosen.passes[-1].cursor

    @property
    def without(self) -> Sequence[RowFacts]:
        """The rows that were not handled now: those that a lane has done already, and those that had gone."""
        return [*self.chosen.done, *(self.rows.facts[at] for at in self.gone)] if self.gone else self.chosen.done

    def cursor_before(self, at: int) -> Cursor | None:
        """The cursor before a row."""
        return self.rows.facts[at - 1].cursor if at else self.rows.after


class Watermark:
    """The pages that were dealt out and are not passed.

    Attributes:
        last: the page that was dealt last. batch_id: of the last call that ended.
    """

    def __init__(self, context: Context, progress: Progress, lanes: int) -> None:
        self._limits = context.options.limits
        self._progress = progress
        self._lanes = lanes
        self._keyed = bool(context.options.ordering_key)
        self._pages: deque[DealtPage] = deque()
        self.last: DealtPage | None = None
        self.batch_id = ""

    def begin(self) -> None:
        """Nothing is dealt."""
        self._pages.clear()
        self.last = None

    def add(self, page: DealtPage) -> None:
        """A page is dealt."""
        self._pages.append(page)
        self.last = page

    @property
    def is_left(self) -> bool:
        """Whether rows that were dealt are not passed."""
        return bool(self._pages)

    def is_older_than(self, moment: float) -> bool:
        """Whether rows of a page that is not passed were read before that."""
        return any(page.read_at < moment for page in self._pages)

    @property
    def dealt(self) -> int:
        """How many rows were dealt and are not passed."""
        return sum(len(page.became) - page.passed for page in self._pages)

    @property
    def all_done(self) -> bool:
        """Whether each row that was dealt is done."""
        return all(page.watermark == len(page.became) for page in self._pages)

    def passed(self) -> Iterator[Landing]:
        """What it has passed since it was asked last, page by page."""
        while self._pages:
            page = self._pages[0]
            end = page.watermark
            while end > page.passed and page.chosen.passes[end - 1].cursor.size() > LONGEST_CURSOR:
                end -= 1  # the checkpoint cannot be written behind it
            if end > page.passed:
                yield self._landing(page, end)
            if end < len(page.became):
                return
            self._pages.popleft()

    def _landing(self, page: DealtPage, end: int) -> Landing:
        begin, page.passed = page.passed, end
        part = page.chosen.part(begin, end)
        delivered = page.became.count(DONE, begin, end)
        calls = [page.calls.pop(at) for at in sorted(page.calls) if at < end]
        self._progress.reached = part.passes[-1].cursor
        return Landing(
            part,
            Verdict(passes=len(part.passes), delivered=delivered),
            calls[-1].batch_id if calls else self.batch_id,
            after=page.cursor_before(begin),
            cursors=page.rows.cursors(end, begin=begin, without=page.without),
            calls=calls,
            memory=page.rows.memory,
            facts=page.rows.page.facts,
        )

    def above(self, known: LanesDone | None) -> Above:
        """What is done above it; `known`: what the document says of that. Asks nobody: the database may not answer now,
        and what is done must be written."""
        ends: list[Cursor | None] = [None] * self._lanes
        goes_on, rows = [True] * self._lanes, []
        left: list[RowOfPage] = []
        left_before = 0
        for page in self._pages:
            for at in range(page.passed, len(page.became)):
                row, lane = page.rows.facts[at], page.lanes[at]
                if page.became[at] == LEFT:
                    goes_on[lane] = False
                    left.append(row)
                elif goes_on[lane]:
                    ends[lane] = row.cursor
                    left_before = len(left)
                    if page.became[at] == DONE:
                        rows.append(row)
        for lane, cursor in self.last.beyond.items() if self.last is not None else ():
            if goes_on[lane]:
                ends[lane], left_before = cursor, len(left)
        calls = [call for page in self._pages for _, call in sorted(page.calls.items())]
        cursors = [row.cursor for row in rows]
        if not self._keyed:
            return Above(ends, cursors, calls)
        before = set(known.left).difference(row.id for row in rows) if known is not None and known.left else set()
        return Above(ends, cursors, calls, sorted(before.union(row.id for row in left[:left_before])))
