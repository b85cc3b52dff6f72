"""Cutting a range between any two rows, of one timestamp too."""

from __future__ import annotations

from poller.backfill import Range
from poller.model.cursor import Cursor
from poller.sources import SqlSource
from tests.integration.sources.tables import TIMESTAMP, execute, family


def test_any_database_cuts_between_rows(any_db: str) -> None:
    kind, zone = TIMESTAMP[family(any_db)], None if family(any_db) == "postgresql" else "UTC"
    execute(any_db, f"create table t (a integer not null, b integer not null, at {kind} not null, primary key (a, b))")
    rows = [{"a": n // 10, "b": n % 10, "at": "2026-01-01 00:00:00"} for n in range(97)]
    execute(any_db, "insert into t values (:a, :b, :at)", rows=rows)
    source = SqlSource(any_db, table="t", cursor_column="at", cursor_time_zone=zone, pk_columns=["a", "b"])
    try:
        low, high = (source.parse_cursor(text, None) for text in ("2026-01-01 00:00:00", "2026-01-02 00:00:00"))
        parts = Range(low, high).split_by_rows(source, 4)
        assert parts is not None
        assert [source.count_between(one.low, one.high, cap=1000)[0] for one in parts] == [24, 24, 24, 25]
        assert parts[0].high.tiebreaker == {"a": 2, "b": 3}
        few = Range(low, Cursor(kind=low.kind, value=low.value, tiebreaker={"a": 0, "b": 1})).split_by_rows(source, 5)
        assert few is not None
        assert [source.count_between(one.low, one.high, cap=1000)[0] for one in few] == [1, 1]
    finally:
        source.close()
