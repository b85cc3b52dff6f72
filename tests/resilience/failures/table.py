"""A table whose rows are written again and go, and a source that reads it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from poller.model.cursor import Cursor
from poller.ports import Page, Row
from tests.resilience.failures.versions import Table as Versions
from tests.resilience.failures.versions import Version, place
from tests.resilience.simulation.source import BOUND, Asked, SimSource, Table, Trouble
from tests.resilience.simulation.world import Process, World


class ChangingTable(Table):
    """The truth of it is `versions`; a position counts all versions that ever stood up to a cursor.

    Attributes:
        left: by the id of a version that was superseded or deleted, when.
    """

    def __init__(self, keys: int, world: World) -> None:
        super().__init__(keys)
        self.versions = Versions()
        self.left: dict[str, float] = {}
        self._world = world
        self._places: list[tuple[int, int]] = []

    def write(self, pks: Sequence[int], *, moved: int = 0) -> None:
        """Insert or update rows in one transaction; `moved`: by so many ordering keys, counted round."""
        keys = self.customers
        self._leaves(pks)
        self.versions.write(sorted(pks), lambda pk: f"k{(pk + moved) % keys}" if keys else "")
        self._places.extend(self.versions.rows[pk].place for pk in sorted(pks))

    def delete(self, pk: int) -> None:
        self._leaves([pk])
        self.versions.delete(pk)

    def _leaves(self, pks: Sequence[int]) -> None:
        self.left.update((self.versions.rows[pk].id, self._world.now) for pk in pks if pk in self.versions.rows)

    def position(self, cursor: dict[str, Any] | None) -> int:
        return 0 if cursor is None else bisect_right(self._places, place(Cursor.model_validate(cursor)))

    def place_of(self, text: str) -> int:
        found = next(row for row in self.versions.history.values() if str(row.facts.cursor) == text)
        return bisect_right(self._places, found.place)


class ChangingSource(SimSource):
    """Reads it, for one process; it cannot be asked where a row stood."""

    def __init__(
        self,
        table: ChangingTable,
        trouble: Trouble,
        world: World,
        process: Process,
        looked: Callable[[Process, tuple[Version, ...]], None],
    ) -> None:
        super().__init__(table, trouble, world, process)
        self.table = table
        self._looked = looked

    def _page(self, after: Cursor | None, limit: int) -> Page:
        self._query()
        found = self.table.versions.page(after, limit)
        self.pages += 1
        self._looked(self._process, tuple(found))
        self.found_rows = self.found_rows or bool(found)
        self._world.wait(self._world.rng.random() * self._trouble.slow)
        return _page(found, self._world.now)

    def key(self, row: Row, cursor: Cursor) -> str:
        return f"orders/{row['id']}/{cursor.value}"


class AskedSource(Asked, ChangingSource):
    """The same, and operators and the tick can ask it."""

    def span(self, low: Cursor | None, high: Cursor | None, limit: int) -> Page:
        with self._alone():
            self._query()
            found = self.table.versions.page(low, limit)
        return _page([row for row in found if high is None or row.place <= place(high)], self._world.now)


class ConsoleSource(AskedSource):
    """The same for a person, who also asks for single rows."""

    def row_of(self, pk: Mapping[str, str]) -> Page:
        with self._alone():
            self._query()
            found = self.table.versions.rows.get(int(pk["id"]))
        return _page([] if found is None else [found], self._world.now)

    def count_between(self, low: Cursor | None, high: Cursor | None, *, cap: int) -> tuple[int, bool]:
        found = len(self.span(low, high, cap + 1).rows)
        return min(found, cap), found > cap


def _page(found: Sequence[Version], read: float) -> Page:
    ordering = [{"customer": row.key} for row in found] if any(row.key for row in found) else None
    values = tuple({**row.row(), "read": read} for row in found)
    return Page(values, tuple(row.facts.cursor for row in found), BOUND, ordering)
