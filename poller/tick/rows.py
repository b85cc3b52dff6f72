"""The rows of a page as the rules see them: by hashes of their keys, which are computed on demand."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, overload

from poller.model import aside, handover
from poller.model.aside import Limits, MeasuredRows, RowFacts
from poller.model.cursor import Cursor, KeyValue
from poller.model.document import State
from poller.model.handover import Mode, Plan
from poller.model.row_ids import id_of_frequent_texts, id_of_key, id_of_values
from poller.ports import KeyedCursors, Page, Row, Source, TextKeys

_READ = "R"
"""Before the key of a row that a snapshot read: a later snapshot's row of this key is a newer version, a change is
none."""


class RowOfPage(RowFacts):
    """One row of a page."""

    def __init__(self, source: Source, page: Page, position: int) -> None:
        self.__dict__.update(source=source, page=page, position=position)  # frozen

    source: Source
    page: Page
    position: int

    __eq__ = object.__eq__
    __hash__ = object.__hash__

    @cached_property
    def cursor(self) -> Cursor:
        """The position right behind it. Of most rows no caller asks it."""
        return self.page.cursors[self.position]

    @cached_property
    def row_key(self) -> str:
        """What `batch.key(row)` says."""
        return self.source.key(self.row, self.cursor)

    @property
    def row(self) -> Row:
        """As it was read."""
        return self.page.rows[self.position]

    @property
    def ordering_key(self) -> Mapping[str, KeyValue | None]:
        """The columns of its ordering key with their values."""
        ordering = self.page.ordering
        return (self.cursor.tiebreaker or {}) if ordering is None else ordering[self.position]

    @cached_property
    def id(self) -> str:
        return id_of_key(self.row_key)

    @cached_property
    def pk(self) -> str:
        read = self.cursor.read
        return id_of_values((self.cursor.tiebreaker or {}) if read is None else {"": _READ, **read})

    @cached_property
    def key(self) -> str:
        return id_of_values(self.ordering_key)


class _RowsOfPage(Sequence[RowOfPage]):
    """Rows that are in a page one after the other. Each is made on demand, and is the same one ever
    after.

    Args:
        places: in the page. made: what was made of it, by place.
    """

    def __init__(self, source: Source, page: Page, places: range, made: dict[int, RowOfPage]) -> None:
        self._source = source
        self._page = page
        self.places = places
        self._made = made
        self._longest: Cursor | None = None

    def __len__(self) -> int:
        return len(self.places)

    @overload
    def __getitem__(self, index: int) -> RowOfPage: ...
    @overload
    def __getitem__(self, index: slice) -> _RowsOfPage: ...
    def __getitem__(self, index: int | slice) -> RowOfPage | _RowsOfPage:
        place = self.places[index]
        if isinstance(place, range):
            return _RowsOfPage(self._source, self._page, place, self._made)
        row = self._made.get(place)
        return self._made.setdefault(place, RowOfPage(self._source, self._page, place)) if row is None else row

    def longest(self) -> Cursor:
        """See `poller.model.aside.MeasuredRows`. Measured once."""
        if self._longest is None:
            cursors = self._page.cursors[self.places.start : self.places.stop]
            if isinstance(cursors, MeasuredRows):
                self._longest = cursors.longest()
            else:
                self._longest = max(cursors, key=Cursor.size)
        return self._longest


def places(rows: Sequence[RowFacts]) -> Sequence[int]:
    """Where rows of a plan are in their page."""
    return rows.places if isinstance(rows, _RowsOfPage) else [row.position for row in of_page(rows)]


def of_page(rows: Iterable[RowFacts]) -> Sequence[RowOfPage]:
    """Rows of a plan over a page."""
    return rows if isinstance(rows, _RowsOfPage) else [row for row in rows if isinstance(row, RowOfPage)]


class PageRows:
    """At most `size` rows of a page that was read after a cursor.

    Args:
        alone: called before the source is asked, so that no other worker asks it.
        beyond: the cursors of further rows that were read with them.

    Attributes:
        after: the cursor. facts: the rows, in order. was_cut: whether there are more that do not count.
        is_wide: whether they are those of a page, for several lanes.
        memory: what a commit of them stores of the bound.
        read_at: when they were there, on the runtime's monotonic clock.
    """

    def __init__(
        self,
        source: Source,
        page: Page,
        after: Cursor | None,
        size: int,
        *,
        memory: dict[str, Any] | None = None,
        alone: Callable[[], None] = lambda: None,
        beyond: Callable[[], Sequence[Cursor]] = tuple,
        is_wide: bool = False,
        read_at: float = 0.0,
    ) -> None:
        self.source = source
        self.read_at = read_at
        self.page = page
        self.after = after
        self.memory = memory
        self._alone = alone
        self._beyond = beyond
        self.is_wide = is_wide
        self.was_cut = False
        self._reached: dict[tuple[tuple[object, ...], int], int] = {}
        """What the database said of cursors, by how many rows counted then."""
        self.facts = _RowsOfPage(source, page, range(min(size, len(page.rows))), {})

    def cut(self, position: int) -> None:
        """Only the rows before this one count."""
        self.facts = self.facts[:position]
        self.was_cut = True

    def plan(self, state: State, mode: Mode, limits: Limits, *, entering: bool = False, several: int = 1) -> Plan:
        """See `poller.model.handover.plan`."""
        if self.page.barrier and aside.waiting(state):
            return Plan(blocked=True, alone=True)
        if self.page.barrier:  # by itself, and after all that lanes have in hand
            found = self._planned(state, self.mode(mode), limits, entering=entering)
            return replace(found, crowded=several > 1)
        return self._planned(state, mode, limits, entering=entering, several=several)

    def mode(self, mode: Mode) -> Mode:
        """What happens to a row that fails: one that concerns rows of every key is never set aside."""
        return "block" if self.page.barrier and mode == "quarantine" else mode

    def _planned(self, state: State, mode: Mode, limits: Limits, *, entering: bool = False, several: int = 1) -> Plan:
        reach = {cursor.place: self.reach(cursor) for cursor in handover.concerned(state, self.facts)}
        return handover.plan(state, self.facts, reach, mode=mode, limits=limits, entering=entering, several=several)

    def keys(self) -> list[str]:
        """The hash of each row's ordering key, without an object for each."""
        ordering = self.page.ordering
        if ordering is None:
            return [row.key for row in self.facts]
        keys = ordering[: len(self.facts)]
        if isinstance(keys, TextKeys):
            return list(map(id_of_frequent_texts, keys.texts()))
        return list(map(id_of_values, keys))

    def pks(self) -> list[tuple[KeyValue, ...]]:
        """The primary key of each row, without an object for each."""
        cursors = self.page.cursors[: len(self.facts)]
        keys = cursors.keys() if isinstance(cursors, KeyedCursors) else [one.tiebreaker or {} for one in cursors]
        return [tuple(key.values()) for key in keys]

    def cursors(self, end: int, *, begin: int = 0, without: Sequence[RowFacts]) -> Sequence[Cursor]:
        """The cursors of the rows from one place to another, but for some rows."""
        if not without:
            return self.page.cursors[begin:end]
        left_out = set(places(without))
        return [self.page.cursors[at] for at in range(begin, end) if at not in left_out]

    def only(self, places: Sequence[int]) -> PageRows:
        """These of the rows; the others need not be kept."""
        ordering = self.page.ordering
        keys = None if ordering is None else [ordering[at] for at in places]
        page = replace(self.page.take(places), ordering=keys)
        return PageRows(self.source, page, self.after, len(places), read_at=self.read_at)

    def part(self, begin: int, end: int) -> Sequence[RowOfPage]:
        """The rows from one place to another; the others need not be kept."""
        page = self.page.part(begin, end)
        return _RowsOfPage(self.source, page, range(end - begin), {})

    def found_in(self, again: PageRows, first: int, last: int) -> dict[int, int] | None:
        """Where rows from one place to another are in a page that was read again behind the row before them, by their
        places; the others have left their cursors. None if it does not say so: a row came between, or the page ends
        before."""
        known = {cursor.place: at for at, cursor in enumerate(self.page.cursors[first:], first)}
        found: dict[int, int] = {}
        for place, cursor in enumerate(again.page.cursors):
            at = known.get(cursor.place)
            if at is None:
                return None
            if at <= last:
                found[at] = place
            if at >= last:
                return found
        return None

    def reach(self, cursor: Cursor) -> int:
        """The number of the rows that are at or before a cursor, by the database's order. For the cursor of a row that
        is not of the page any more it is asked; a row that went meanwhile counts as behind it, unless others show that
        the cursor is behind the page."""
        place = cursor.place
        known = self._places.get(place)
        if known is not None or not self.facts:
            return known or 0
        if place in self._places_beyond:
            return len(self.facts)
        found = self._reached.get((place, len(self.facts)))
        if found is None:
            found = self._reached[place, len(self.facts)] = self._asked(cursor)
        return found

    def _asked(self, cursor: Cursor) -> int:
        """See `reach`: what the database says."""
        self._alone()
        behind = self.source.span(self.facts[-1].cursor, cursor, 1)
        if behind is not None and len(behind.cursors):
            return len(self.facts)
        found = None if behind is None else self.source.span(self.after, cursor, 2 * len(self.facts))
        return 0 if found is None else max((self._places.get(one.place, 0) for one in found.cursors), default=0)

    @cached_property
    def _places(self) -> dict[tuple[object, ...], int]:
        return {row.cursor.place: at for at, row in enumerate(self.facts, 1)}

    @cached_property
    def _places_beyond(self) -> frozenset[tuple[object, ...]]:
        return frozenset(cursor.place for cursor in self._beyond())
