"""Rows for one call of a handler, which may change them."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from itertools import chain, groupby
from operator import itemgetter
from types import NoneType
from typing import overload
from uuid import UUID

from poller.model.cursor import Cursor
from poller.ports import FreshRows, Page, Row, Table
from poller.tick.dealt_page import Run, length
from poller.tick.rows import PageRows

_SCALARS = frozenset({NoneType, bool, int, float, str, bytes, Decimal, datetime, date, time, timedelta, UUID})
"""What cannot be changed in place."""


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
