"""Rows for one call of a handler, which may change them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from operator import itemgetter

from poller.delivery.batches import copied
from poller.delivery.lane import Cursors, Dealt
from poller.ports import FreshRows, Page, Row, Table


def page_of(handed: Sequence[Dealt]) -> Page:
    """These rows, of one page or of several, as a page of their own."""
    rows: list[Row] = []
    tables: list[Table | None] = []
    read = [page.again.get(at, (page.rows, at)) if page.again else (page.rows, at) for page, at in handed]
    for source, dealt in groupby(read, key=itemgetter(0)):
        whole, places = source.page, [at for _, at in dealt]
        fresh = whole.rows.take(places) if isinstance(whole.rows, FreshRows) else None
        rows += [copied(whole.rows[at]) for at in places] if fresh is None else fresh
        tables.append(None if whole.table is None else whole.table.take(places))
    first, *others = tables
    known = [table for table in others if table is not None]
    table = None if first is None or len(known) < len(others) else first.join(known) if known else first
    return Page(rows, Cursors(handed), handed[0][0].rows.page.bound, table=table)
