"""Pollers of captured tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from poller import Batch, Poller
from poller.model.captured import CHANGE, OLD, OP
from poller.ports import StateStore
from poller.sources import SqlSource
from poller.stores import MemoryStore
from tests.integration.capture.captured import Captured

Key = Any


def source(made: Captured, **options: Any) -> SqlSource:
    """The changes of a table that is captured; default: those since it was installed, without a snapshot."""
    return SqlSource(made.url, table=made.table, capture=True, **{"start_from": "beginning", **options})


class Replica:
    """A table as the changes that were delivered leave it, and where an old row was not what it held."""

    def __init__(self, key: str = "id") -> None:
        self.rows: dict[Key, dict[str, Any]] = {}
        self.breaks: list[str] = []
        self.ops: list[str] = []
        self.changes: list[int] = []
        self.named: set[Key] = set()
        """Since a snapshot began."""
        self.is_partial = False
        """True within a snapshot: rows are missing, or stale."""
        self._key = key

    def __call__(self, batch: Batch) -> None:
        for row in batch:
            self.take(row)

    def take(self, row: Mapping[str, Any]) -> None:
        """One change."""
        values = {name: value for name, value in row.items() if not name.startswith("_")}
        op, old, key = row[OP], row[OLD], values[self._key]
        self.ops.append(op)
        self.changes.append(row[CHANGE])
        if op == "T":
            self.rows.clear()
        if op == "B":
            self.named, self.is_partial = set(), True
        if op == "E":
            self.rows = {name: row for name, row in self.rows.items() if name in self.named}
            self.is_partial = False
        if op in "TBE":
            return
        before, is_named = self.rows.get(key), key in self.named
        self.named.add(key)
        if op == "R":
            if is_named and before != values:
                self.breaks.append(f"after change {row[CHANGE]}: R of {key} is not what the replica has")
            self.rows[key] = values
            return
        if self.is_partial and not is_named:
            before = None  # from before the snapshot: it may be anything
        if old is not None and before is not None and before != old:
            self.breaks.append(f"change {row[CHANGE]}: {op} of {key} was not what the replica has")
        if op in "UD" and before is None and not self.is_partial:
            self.breaks.append(f"change {row[CHANGE]}: {op} of {key}, which the replica has not")
        if op == "D":
            self.rows.pop(key, None)
        else:
            self.rows[key] = values


def poller(made: Captured, store: StateStore | None = None, **options: Any) -> Poller:
    """A poller of the changes."""
    of_source = {name: options.pop(name) for name in ("columns", "start_from", "format") if name in options}
    return Poller(
        "orders",
        source=source(made, **of_source),
        store=store or MemoryStore(),
        app_name="shop",
        **{"observers": [], **options},
    )


def rows(made: Captured, **options: Any) -> list[dict[str, Any]]:
    """All changes as rows."""
    return list(_rows(made, options))


def _rows(made: Captured, options: dict[str, Any]) -> Iterator[dict[str, Any]]:
    of = source(made, **options)
    try:
        page = of.page(None, 100)
        while page.rows:
            yield from (dict(row) for row in page.rows)
            page = of.page(page.cursors[-1], 100)
    finally:
        of.close()
