"""What was dealt out to the lanes of one round, and what became of it (throughput.md, "Lanes").

The board knows the rows that wait for each lane, those that lanes have in hand, and the low watermark: the last row
before which everything is done, to which the checkpoint moves. What is done above it is known here until it is passed,
and kept in the document if a round ends before (`model.lanes`). Once a page is dealt, the board asks no source.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence
from itertools import accumulate, repeat, takewhile

from poller.model import aside
from poller.model.cursor import Cursor
from poller.model.document import LanesDone
from poller.model.limits import LARGEST_BODY, LONGEST_CURSOR
from poller.model.put import Above, DoneCall, Landing
from poller.model.verdict import Verdict
from poller.ports import Bound
from poller.tick.dealt_page import DONE, LEFT, NAMED, DealtPage, Run, cut, first_rows, length
from poller.tick.rows import PageRows, RowOfPage, places


class Board:
    """The rows of one round.

    Args:
        keyed: an ordering key is set, by which a row may change its lane. listed: rows that fail are listed, so the
            document needs space for all that are in hand at once.

    Attributes:
        last: the page that was dealt last. batch_id: of the last call that ended.
    """

    def __init__(self, lanes: int, *, keyed: bool, listed: bool) -> None:
        self.last: DealtPage | None = None
        self.batch_id = ""
        self._keyed = keyed
        self._listed = listed
        self._pages: deque[DealtPage] = deque()
        """Those that are not passed."""
        self._waiting: list[deque[Run]] = [deque() for _ in range(lanes)]
        """The rows of each lane that it has not begun, in cursor order."""
        self._kept_back: deque[Run] = deque()
        """Rows that no lane has yet: an older version of the first of them is in another lane."""
        self._at_work: dict[Hashable, int] = {}
        """If an ordering key is set: primary keys of rows that a lane has and that are not done, each with the lane."""
        self._versions: dict[Hashable, int] = {}
        """Extra versions per primary key."""
        self._space = LARGEST_BODY
        """Bytes of the document for rows in hand."""
        self._largest_entry = 0
        """The number of these that a row takes, at most."""
        self._entries = [0] * lanes
        """The number of these that the rows in hand of a lane take."""

    # --- rows that wait --------------------------------------------------------------------------------------------

    def deal(self, page: DealtPage) -> None:
        """Deal the rows of a page out to the lanes."""
        self._pages.append(page)
        self.last = page
        if self._listed:
            self._space = min(self._space, page.chosen.space)
            self._largest_entry = max(self._largest_entry, aside.largest_entry(page.rows.facts))
        self._kept_back.append(Run(page, places(page.chosen.rows)))
        self.deal_kept_back()

    def deal_kept_back(self) -> None:
        """A row waits while an older version of it is in another lane, and so do all behind it."""
        while self._kept_back:
            page, rows = self._kept_back[0]
            if len(self._waiting) == 1:
                self._waiting[0].append(self._kept_back.popleft())
                continue
            free = self._free(page, rows) if self._keyed else len(rows)
            by_lane: defaultdict[int, list[int]] = defaultdict(list)
            for at in rows[:free]:
                by_lane[page.lanes[at]].append(at)
            for lane, some in by_lane.items():
                self._waiting[lane].append(Run(page, some))
            if free < len(rows):
                self._kept_back[0] = Run(page, rows[free:])
                return
            self._kept_back.popleft()

    def _free(self, page: DealtPage, rows: Sequence[int]) -> int:
        """The number of rows before the first that has an older version in another lane."""
        for count, at in enumerate(rows):
            pk, lane = page.pks[at], page.lanes[at]
            where = self._at_work.get(pk)
            if where is None:
                self._at_work[pk] = lane
            elif where == lane:
                self._versions[pk] = self._versions.get(pk, 0) + 1
            else:
                return count
        return len(rows)

    def forget_what_waits(self) -> None:
        """No lane begins any of the rows that wait: the tick reads them again."""
        self._kept_back.clear()
        for waiting in self._waiting:
            waiting.clear()

    @property
    def is_kept_back(self) -> bool:
        """True if rows wait for an older version of one of them."""
        return bool(self._kept_back)

    @property
    def is_waiting(self) -> bool:
        """True if rows were dealt that no lane has begun."""
        return bool(self._kept_back) or any(self._waiting)

    @property
    def waiting(self) -> int:
        """The number of rows that wait in lanes."""
        return sum(map(length, self._waiting))

    def next_lane(self, busy: Collection[int]) -> int | None:
        """The lane with nothing in hand whose rows come first; else all that may be begun beyond the
        watermark could be begun without the row at which it stands."""
        if len(busy) == len(self._waiting):
            return None
        idle = [lane for lane, waiting in enumerate(self._waiting) if waiting and lane not in busy]
        return min(idle, key=self._first_position, default=None) if len(idle) != 1 else idle[0]

    def _first_position(self, lane: int) -> int:
        page, rows = self._waiting[lane][0]
        return page.before + rows[0]

    def take(self, lane: int, size: int) -> list[Run]:
        """The rows of a lane's next batch; none if the document has no space for even one more in hand. Two pages may
        have two bounds, so that a row may be in both: no batch has two versions of one row."""
        waiting = self._waiting[lane]
        first, keys, taken = waiting[0].page, set[Hashable](), list[Run]()
        while waiting and size > 0:
            page, rows = waiting[0]
            some = rows[:size]
            if page is not first and not _same_bound(first.rows.page.bound, page.rows.page.bound):
                keys = keys or {self._key_of(run.page, at) for run in taken for at in run.places}
                some = self._others(page, some, keys)
            if len(some) == len(rows):
                taken.append(waiting.popleft())
                size -= len(some)
                continue
            if some:
                taken.append(Run(page, some))
                waiting[0] = Run(page, rows[len(some) :])
            break
        self._entries[lane] = self._listable(lane, taken) if self._listed else 0
        return taken

    def _others(self, page: DealtPage, rows: Sequence[int], keys: set[Hashable]) -> Sequence[int]:
        """The rows before the first that has one of these keys; they are added to these."""
        for count, at in enumerate(rows):
            pk = self._key_of(page, at)
            if pk in keys:
                return rows[:count]
            keys.add(pk)
        return rows

    def give_back(self, lane: int, runs: Sequence[Run]) -> None:
        """Rows that were taken wait again."""
        waiting = self._waiting[lane]
        for page, rows in reversed(runs):
            behind = waiting[0].places if waiting and waiting[0].page is page else ()
            if isinstance(rows, range) and isinstance(behind, range) and behind.start == rows.stop:
                waiting[0] = Run(page, range(rows.start, behind.stop))
            else:
                waiting.appendleft(Run(page, rows))

    def _key_of(self, page: DealtPage, at: int) -> Hashable:
        """What a row's primary key is known by."""
        return page.pks[at] if self._keyed else page.keys[at]

    def _listable(self, lane: int, taken: list[Run]) -> int:
        """Give back the rows that the document has no space for if all in hand are listed. The bytes that the others
        take in it."""
        space = self._space - sum(size for of, size in enumerate(self._entries) if of != lane)
        space -= aside.LEFT_ID * max(0, self._dealt - len(taken[0].page.became))
        count = length(taken)
        if count * self._largest_entry <= space:
            return count * self._largest_entry
        short = self._largest_entry <= 2 * aside.ENTRY
        each = (aside.entry_size(run.page.rows.page.cursors[at]) for run in taken for at in run.places)
        sizes = list(accumulate(repeat(self._largest_entry, count) if short else each))
        fit = sum(1 for size in sizes if size <= space)
        self.give_back(lane, cut(taken, fit))
        return sizes[fit - 1] if fit else 0

    @property
    def _dealt(self) -> int:
        """The number of rows that were dealt and are not passed."""
        return sum(len(page.became) - page.passed for page in self._pages)

    # --- rows that wait for long -----------------------------------------------------------------------------------

    def stale(self, lane: int, size: int, oldest: float) -> list[DealtPage]:
        """The pages of a lane's next rows that were read before a moment, in order."""
        if all(page.read_at >= oldest for page in self._pages):
            return []
        pages = dict.fromkeys(run.page for run in first_rows(self._waiting[lane], size))
        return [page for page in pages if page.read_at < oldest]

    def young(self, lane: int, size: int, oldest: float) -> int:
        """The number of a lane's next rows before the first that was read before a moment."""
        stale = self.stale(lane, size, oldest)
        if not stale:
            return size
        return length(takewhile(lambda run: run.page not in stale, first_rows(self._waiting[lane], size)))

    def waiting_of(self, page: DealtPage) -> list[int]:
        """The places of a page's rows that wait, in order."""
        runs = (*self._waiting, self._kept_back)
        return sorted(at for some in runs for run in some if run.page is page for at in run.places)

    def renew(self, page: DealtPage, waiting: Sequence[int], again: PageRows) -> bool:
        """Take the rows of a page that wait as they were read again; those that have left their cursors are passed
        over. False if a row came between, or if it is not known what became of them: then none waits any more."""
        gone = page.renew(again, waiting)
        if gone is None:
            self.forget_what_waits()
            return False
        if gone:
            left = set(gone)
            for lane, runs in enumerate(self._waiting):
                self._leave(Run(page, [at for at in run.places if at in left]) for run in runs if run.page is page)
                self._waiting[lane] = _without(runs, page, left)
            self._kept_back = _without(self._kept_back, page, left)
        return True

    # --- what became of them ---------------------------------------------------------------------------------------

    def over(self, lane: int) -> None:
        """A lane has nothing in hand any more."""
        self._entries[lane] = 0

    def ended(self, runs: Sequence[Run], done: int, listed: Collection[str], batch_id: str, seconds: float) -> None:
        """A call is over: of its rows the first so many are done, but for those that are to be listed."""
        self.batch_id = batch_id
        left_behind = list(first_rows(runs, done))
        for page, rows in left_behind:
            became = page.became
            if isinstance(rows, range) and not listed:
                became[rows.start : rows.stop] = bytes((DONE,)) * len(rows)
                continue
            for at in rows:
                became[at] = NAMED if listed and page.rows.facts[at].id in listed else DONE
        self._leave(left_behind)
        if left_behind:
            page, rows = left_behind[-1]
            page.calls[rows[-1]] = DoneCall(batch_id, done - len(listed), seconds)

    def _leave(self, runs: Iterable[Run]) -> None:
        """Rows are done: newer versions of them may go to other lanes."""
        for page, rows in runs if self._at_work else ():
            for pk in (page.pks[at] for at in rows):
                if others := self._versions.pop(pk, 0) if self._versions else 0:
                    if others > 1:
                        self._versions[pk] = others - 1
                else:
                    del self._at_work[pk]

    # --- the watermark ---------------------------------------------------------------------------------------------

    @property
    def is_left(self) -> bool:
        """True if rows that were dealt are not passed."""
        return bool(self._pages)

    @property
    def all_done(self) -> bool:
        """True if each row that was dealt is done."""
        return all(page.watermark == len(page.became) for page in self._pages)

    @property
    def can_pass(self) -> bool:
        """True if the watermark is behind what was passed."""
        return bool(self._pages) and _end(self._pages[0]) > self._pages[0].passed

    def passed(self) -> Iterator[Landing]:
        """What it has passed since it was asked last, page by page."""
        while self._pages:
            page = self._pages[0]
            end = _end(page)
            if end > page.passed:
                yield self._landing(page, end)
            if end < len(page.became):
                return
            self._pages.popleft()

    def _landing(self, page: DealtPage, end: int) -> Landing:
        begin, page.passed = page.passed, end
        part = page.part(begin, end) if len(self._waiting) == 1 else page.chosen.part(begin, end)
        delivered = page.became.count(DONE, begin, end)
        calls = [page.calls.pop(at) for at in sorted(page.calls) if at < end]
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
        """What is done above it; `known`: what the document says of that. Asks no source: the database may not answer
        now, and what is done must be written."""
        ends: list[Cursor | None] = [None] * len(self._waiting)
        goes_on, rows = [True] * len(self._waiting), []
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


def _without(runs: Iterable[Run], page: DealtPage, left: Collection[int]) -> deque[Run]:
    """Runs without some rows of a page."""
    rest = (Run(page, [at for at in run.places if at not in left]) if run.page is page else run for run in runs)
    return deque(run for run in rest if run.places)


def _end(page: DealtPage) -> int:
    """The number of rows of a page that may be passed: those before the watermark, up to one that the checkpoint can be
    written behind."""
    end = page.watermark
    while end > page.passed and page.chosen.passes[end - 1].cursor.size() > LONGEST_CURSOR:
        end -= 1
    return end


def _same_bound(one: Bound, other: Bound) -> bool:
    """True if both are one sample of a bound below which no row appears any more."""
    exact = one.value is not None and one.kind not in ("none", "heuristic")
    return exact and (one.kind, one.value, one.clock) == (other.kind, other.value, other.clock)
