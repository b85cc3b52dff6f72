"""A page whose rows were dealt out to lanes, and what became of each of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from poller.model.aside import RowFacts
from poller.model.cursor import Cursor
from poller.model.document import LanesDone
from poller.model.handover import Plan
from poller.model.lanes import lane_of_key
from poller.model.put import DoneCall
from poller.tick.rows import PageRows, RowOfPage, places

LEFT, DONE, PASSED_OVER, NAMED = 0, 1, 2, 3
"""What became of a row: nothing yet; it was handed over and is done; it was listed or done before; it was named by its
call, and is passed once the document lists it."""


class DealtPage:
    """A page whose rows were dealt out to lanes.

    Attributes:
        rows, chosen: the page, and the plan for it. became: of each row that the plan passes what became of it.
        before: how many rows were passed before its first one since the last reset, by which positions count.
        keys, lanes: the hash of the ordering key of each row, and its lane; empty if there is one lane.
        pks: the primary key of each row, if the ordering key is another; empty else.
        beyond: of lanes that did everything up to a cursor at or behind its end, as the document says, that cursor.
        passed: how many of its rows the checkpoint has passed, once what was sent has been written.
        calls: calls that ended, by the place of the last row that they did.
        read_at: when those of its rows that wait were read. again: of rows that were read again, by their places, that
            page and where they are in it. gone: places of rows that had left their cursors then.
    """

    def __init__(
        self, rows: PageRows, chosen: Plan, before: int, lanes: int, known: LanesDone | None, *, keyed: bool
    ) -> None:
        self.rows = rows
        self.chosen = chosen
        self.before = before
        self.keys = rows.keys() if lanes > 1 else []
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
        """The number of its rows that are done from the first on."""
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

    def part(self, begin: int, end: int) -> Plan:
        """The rows passed from one place to another, of a plain plan, without the others of the page."""
        return Plan(passes=self.rows.part(begin, end), lanes=max(0, self.chosen.lanes - begin))

    @property
    def is_whole(self) -> bool:
        """True if all rows of the page were dealt."""
        return len(self.became) == len(self.rows.facts)

    @property
    def has_more(self) -> bool:
        """True if the page shows that there are rows behind those that were dealt."""
        page, dealt = self.rows.page, len(self.became)
        return len(page.rows) > dealt or (page.more and len(page.rows) == dealt)

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
        return self.rows.page.cursors[at - 1] if at else self.rows.after


class Run(NamedTuple):
    """Rows of one page that follow each other in a lane, by their places in the page."""

    page: DealtPage
    places: Sequence[int]


def length(runs: Iterable[Run]) -> int:
    """The number of their rows."""
    return sum(len(run.places) for run in runs)


def rows_of(runs: Iterable[Run]) -> list[RowOfPage]:
    """The rows, as they were read last."""
    return [run.page.row(at) for run in runs for at in run.places]


def first_rows(runs: Iterable[Run], count: int) -> Iterator[Run]:
    """Their first rows."""
    for run in runs:
        if count <= 0:
            return
        yield run if len(run.places) <= count else Run(run.page, run.places[:count])
        count -= len(run.places)


def cut(runs: list[Run], count: int) -> list[Run]:
    """Take out all rows but the first so many; what was taken out."""
    kept, rest = list(first_rows(runs, count)), list[Run]()
    for run in runs:
        if count < len(run.places):
            rest.append(Run(run.page, run.places[count:]) if count > 0 else run)
        count = max(0, count - len(run.places))
    runs[:] = kept
    return rest
