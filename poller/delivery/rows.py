"""The rows of a page as the rules see them: by hashes of their keys, which are computed where somebody asks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

from poller.model import handover
from poller.model.aside import Limits, RowFacts
from poller.model.cursor import Cursor, KeyValue
from poller.model.document import State
from poller.model.handover import Mode, Plan
from poller.model.row_ids import id_of_key, id_of_values
from poller.ports import InspectableSource, Page, Row, Source


class RowOfPage(RowFacts):
    """One row of a page."""

    def __init__(self, rows: PageRows, position: int) -> None:
        facts = self.__dict__  # frozen, and one for each row that is read
        facts["rows"], facts["position"] = rows, position

    rows: PageRows
    position: int

    __eq__ = object.__eq__
    __hash__ = object.__hash__

    @cached_property
    def cursor(self) -> Cursor:
        """The position right behind it. Of most rows nobody asks it."""
        return self.rows.page.cursors[self.position]

    @cached_property
    def row_key(self) -> str:
        """What `batch.key(row)` says."""
        return self.rows.source.key(self.row, self.cursor)

    @property
    def row(self) -> Row:
        """As the page holds it."""
        return self.rows.page.rows[self.position]

    @property
    def ordering_key(self) -> Mapping[str, KeyValue | None]:
        """The columns of its ordering key with their values."""
        ordering = self.rows.page.ordering
        return (self.cursor.tiebreaker or {}) if ordering is None else ordering[self.position]

    @cached_property
    def id(self) -> str:
        return id_of_key(self.row_key)

    @cached_property
    def pk(self) -> str:
        return id_of_values(self.cursor.tiebreaker or {})

    @cached_property
    def key(self) -> str:
        return id_of_values(self.ordering_key)


def of_page(rows: Iterable[RowFacts]) -> list[RowOfPage]:
    """Rows of a plan over a page."""
    return [row for row in rows if isinstance(row, RowOfPage)]


class PageRows:
    """At most `size` rows of a page that was read after a cursor.

    Args:
        alone: called before the source is asked, so that nobody else asks it.

    Attributes:
        after: the cursor. facts: the rows, in order. was_cut: whether there are more that do not count.
        memory, made: what a commit of them stores of the source.
    """

    def __init__(
        self,
        source: Source,
        page: Page,
        after: Cursor | None,
        size: int,
        *,
        memory: dict[str, Any] | None = None,
        made: str | None = None,
        alone: Callable[[], None] = lambda: None,
    ) -> None:
        self.source = source
        self.page = page
        self.after = after
        self.memory = memory
        self.made = made
        self._alone = alone
        self.was_cut = False
        self.facts = [RowOfPage(self, at) for at in range(min(size, len(page.rows)))]

    def cut(self, position: int) -> None:
        """Only the rows before this one count."""
        del self.facts[position:]
        self.was_cut = True

    def plan(self, state: State, mode: Mode, limits: Limits, *, entering: bool = False) -> Plan:
        """See `poller.model.handover.plan`."""
        return handover.plan(state, self.facts, self.reach, mode=mode, limits=limits, entering=entering)

    def page_of(self, rows: Sequence[RowOfPage]) -> Page:
        """Some of the rows, as a page."""
        if len(rows) == rows[-1].position + 1:
            return Page(self.page.rows[: len(rows)], self.page.cursors[: len(rows)], self.page.bound)
        chosen = [row.position for row in rows]
        cursors = [self.page.cursors[at] for at in chosen]
        return Page([self.page.rows[at] for at in chosen], cursors, self.page.bound)

    def reach(self, cursor: Cursor) -> int:
        """How many of the rows stand at or before a cursor, by the database's order. For the cursor of a row that is
        not of the page any more it is asked; a row that went meanwhile counts as behind it."""
        known = self._places.get(_place(cursor))
        if known is not None or not self.facts:
            return known or 0
        if not isinstance(self.source, InspectableSource):
            return 0
        self._alone()
        found = self.source.span(self.after, cursor, 2 * len(self.facts))
        return max((self._places.get(_place(one), 0) for one in found.cursors), default=0)

    @cached_property
    def _places(self) -> dict[tuple[object, ...], int]:
        return {_place(row.cursor): at for at, row in enumerate(self.facts, 1)}


def _place(cursor: Cursor) -> tuple[object, ...]:
    """A cursor without the fields that other programs keep in it."""
    return cursor.kind, cursor.value, *sorted((cursor.tiebreaker or {}).items())
