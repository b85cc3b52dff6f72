"""A table whose rows are written again and go, and a source that reads it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

from poller.model.aside import RowFacts
from poller.model.cursor import Cursor
from poller.model.row_ids import id_of_key, id_of_values
from poller.ports import Page, Row
from tests.resilience.quarantine.world import Table as Versions
from tests.resilience.quarantine.world import Version, place
from tests.resilience.simulation.source import BOUND, Asked, SimSource, Table, Trouble
from tests.resilience.simulation.world import Process, World


class RealVersion(Version):
    """A row as it was written once, with the ids that the real code gives it. `key` empty: the key column serves."""

    @cached_property
    def facts(self) -> RowFacts:
        cursor = Cursor(kind="integer+pk", value=str(self.stamp), tiebreaker={"id": self.pk})
        pk = id_of_values({"id": self.pk})
        key = id_of_values({"customer": self.key}) if self.key else pk
        return RowFacts(id_of_key(f"orders/{self.pk}/{self.stamp}"), pk, key, cursor)

    def row(self) -> Row:
        """As a handler is given it."""
        return {"id": self.pk, "changed": self.stamp, "customer": self.key}

    def __repr__(self) -> str:
        return f"{self.pk}@{self.stamp}"


class ChangingTable(Table):
    """The truth of it is `versions`; a position counts all versions that ever stood up to a cursor.

    Attributes:
        left: by the id of a version that was superseded or deleted, when.
    """

    def __init__(self, keys: int, world: World) -> None:
        super().__init__(keys)
        self.versions = Versions(RealVersion)
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
    rows = [row for row in found if isinstance(row, RealVersion)]
    ordering = [{"customer": row.key} for row in rows] if any(row.key for row in rows) else None
    values = tuple({**row.row(), "read": read} for row in rows)
    return Page(values, tuple(row.facts.cursor for row in rows), BOUND, ordering)
