"""SQLite: one writer at a time, and the clock under its lock."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
import sqlalchemy as sa

from poller.databases import samplers
from poller.errors import ConfigError, SourceError
from poller.sources import SqlSource
from poller.sources.sqlite.bound import SharedClock
from tests.integration.bounds.tables import add, ids, make, session, source
from tests.support.cases import each
from tests.support.services import wait_until


def test_what_an_open_writer_may_have_stamped_is_not_read_past(sqlite_url: str) -> None:
    make(sqlite_url)
    add(sqlite_url, 5)
    with session(sqlite_url, "pragma journal_mode = wal"):
        pass
    with source(sqlite_url) as reader, session(sqlite_url) as writer:
        writer.exec_driver_sql("begin immediate")
        # The same stamp as the last committed row, and a lower key: read past, it would be lost.
        writer.exec_driver_sql("insert into stamped select 1, max(updated_at) from stamped")
        page = reader.page(None, 10)
        assert [row["id"] for row in page.rows] == []
        assert page.bound.kind == "exact"
        assert "writer" in str(page.bound.held_by)
        writer.exec_driver_sql("commit")
        assert ids(reader) == [1, 5]


def test_rows_go_on_while_writers_never_leave_the_lock(sqlite_url: str) -> None:
    make(sqlite_url)
    with session(sqlite_url, "pragma journal_mode = wal", "insert into stamped values (1, '2026-01-01T00:00:00.000Z')"):
        pass
    with source(sqlite_url) as reader:
        add(sqlite_url, 2)
        with session(sqlite_url, "begin immediate", "insert into stamped (id) values (3)"):
            assert ids(reader) == [1]


def test_if_an_hour_repeats_a_row_before_a_writer_is_no_bound(sqlite_url: str) -> None:
    """What was committed before may show the later time."""
    zone = ZoneInfo("Europe/Berlin")
    with session(sqlite_url, "create table stamped (id integer primary key not null, updated_at text not null)"):
        pass
    with source(sqlite_url, cursor_time_zone=zone.key, allow_dst=True) as reader:
        with session(sqlite_url, "insert into stamped values (1, '2026-01-01 00:00:00.000')"):
            pass
        assert ids(reader) == [1]
        now = datetime.now(UTC).astimezone(zone).replace(tzinfo=None)
        first, second = (f"{at.isoformat(' ', 'milliseconds')}" for at in (now, now - timedelta(minutes=30)))
        with session(sqlite_url, f"insert into stamped values (2, '{first}')"):
            pass
        with session(sqlite_url) as writer:
            writer.exec_driver_sql("begin immediate")
            writer.exec_driver_sql(f"insert into stamped values (3, '{second}')")
            assert 2 not in ids(reader)
            writer.exec_driver_sql("commit")


def test_the_lock_is_let_go(sqlite_url: str) -> None:
    make(sqlite_url)
    add(sqlite_url, 1)
    with source(sqlite_url) as reader:
        reader.page(None, 1)
        with session(sqlite_url, "pragma busy_timeout = 0", "begin immediate"):
            pass


def ran_by(work: Callable[[], object]) -> list[str]:
    """The statements of every connection meanwhile."""
    seen: list[str] = []

    def note(*call: Any) -> None:
        seen.append(call[2])

    sa.event.listen(sa.Engine, "before_cursor_execute", note)
    try:
        work()
    finally:
        sa.event.remove(sa.Engine, "before_cursor_execute", note)
    return seen


def test_a_look_under_the_lock_asks_no_setting_again(sqlite_url: str) -> None:
    make(sqlite_url)
    add(sqlite_url, 1)
    with source(sqlite_url) as reader:
        reader.bound()
        seen = ran_by(reader.bound)
        assert len(seen) == 7, seen
        (busy,) = reader._session.database.run("PRAGMA busy_timeout").rows
        assert busy[0] == 30_000
        with pytest.raises(sa.exc.OperationalError, match="readonly"):
            reader._session.database.run("DELETE FROM stamped")


@contextlib.contextmanager
def two_readers(url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[SqlSource, SqlSource]]:
    """Of one file, which have looked once, so long ago that they may be given a clock; none is too old to be shared."""
    monkeypatch.setattr(samplers, "WINDOW", 3600.0)
    make(url)
    with session(url, "insert into stamped values (1, '2026-01-01T00:00:00.000Z')"):
        pass
    with source(url) as first, source(url) as second:
        for reader in (first, second):
            reader.bound()
            shared_of(reader)._handed_over = float("-inf")
        yield first, second


def shared_of(reader: SqlSource) -> SharedClock:
    sampler = reader._session.bounding._sampler
    assert sampler is not None
    lock: Any = sampler.memory
    shared: SharedClock = lock._shared
    return shared


def test_readers_of_a_file_share_the_clock_under_its_lock(sqlite_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with two_readers(sqlite_url, monkeypatch) as (first, second):
        assert ran_by(first.bound) != []
        assert ran_by(second.bound) == []
        assert ran_by(second.bound) != [], "no clock serves a reader twice"
        assert ids(second) == [1]


def test_a_shared_clock_passes_no_open_writer(sqlite_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with session(sqlite_url, "pragma journal_mode = wal"):
        pass
    with two_readers(sqlite_url, monkeypatch) as (first, second):
        first.bound()
        with session(sqlite_url, "begin immediate") as writer:
            writer.exec_driver_sql("insert into stamped (id) values (2)")
            page = second.page(None, 10)
            assert ([row["id"] for row in page.rows], page.bound.held_by) == ([1], None), "it took no lock"
            writer.exec_driver_sql("commit")
        # a row of the clock's own millisecond waits for the next: another may still get that stamp
        wait_until(lambda: ids(second, page.cursors[-1]) == [2], "the row of the writer")


def test_a_clock_from_before_a_connection_does_not_serve_it(sqlite_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its file may be another one, of the same inode."""
    with two_readers(sqlite_url, monkeypatch) as (first, _), source(sqlite_url) as third:
        first.bound()
        third.bound()
        shared_of(third)._handed_over = float("-inf")
        assert ran_by(third.bound) != []


def test_a_shared_clock_is_never_below_one_that_was_seen(sqlite_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with two_readers(sqlite_url, monkeypatch) as (first, second):
        first.bound()
        ahead = (datetime.now(UTC) + timedelta(milliseconds=1)).isoformat()
        second.recall({**(second.remember() or {}), "clock": ahead})
        assert ran_by(second.bound) != []


def test_a_file_that_may_only_be_read_is_left_to_the_heuristic(tmp_path: Path) -> None:
    file = tmp_path / "shop.db"
    with sqlite3.connect(file) as made:
        made.execute("create table stamped (id integer primary key, updated_at text not null)")
        made.execute("insert into stamped values (1, '2026-01-01T00:00:00.000Z')")
    with source(f"sqlite:///file:{file}?mode=ro&uri=true") as reader:
        page = reader.page(None, 10)
        assert [row["id"] for row in page.rows] == [1]
        assert page.bound.kind == "heuristic"
        assert "read-only" in str(page.bound.reason)


def test_stamps_of_an_application_may_be_given_time(sqlite_url: str) -> None:
    make(sqlite_url)
    add(sqlite_url, 1)
    with source(sqlite_url, settle="1h") as reader:
        assert ids(reader) == []
        assert reader.bound().kind == "exact"


def test_nothing_is_observed_here(sqlite_url: str) -> None:
    with pytest.raises(ConfigError) as error, source(sqlite_url, bound="strict"):
        pass
    assert error.value.key == "bound"


# --- numbers -------------------------------------------------------------------------------------------------------


def kind_of(url: str, **keys: Any) -> tuple[str, str]:
    """The bound's kind and reason."""
    with source(url, **{"cursor_column": "id", "cursor_kind": "integer+pk"} | keys) as reader:
        bound = reader.bound()
        return bound.kind, str(bound.reason)


def test_an_id_that_may_be_handed_out_again_is_not_called_exact(sqlite_url: str) -> None:
    make(sqlite_url, "id integer primary key, v integer")
    add(sqlite_url, 1)
    kind, reason = kind_of(sqlite_url)
    assert kind == "heuristic"
    assert "id INTEGER PRIMARY KEY AUTOINCREMENT" in reason
    with source(sqlite_url, cursor_column="id", cursor_kind="integer+pk") as reader:
        assert ids(reader) == [1]  # at once: a delay would not help
        findings = {finding.check: finding for finding in reader.checkup(None, lambda: datetime.now(UTC)).findings}
        assert findings["bound"].severity == "warn"
        assert "AUTOINCREMENT" in findings["bound"].fix
    with pytest.raises(ConfigError, match="AUTOINCREMENT"):
        kind_of(sqlite_url, bound="exact")


@each(
    ("columns", "keys"),
    [
        ("id integer primary key autoincrement, at integer not null", {"cursor_column": "at"}),
        ("id integer primary key autoincrement, at integer not null unique", {"cursor_column": "at"}),
        ("id int primary key, at integer", {}),
        ("id integer primary key, at integer) without rowid; --", {}),
        ("id integer, at integer, primary key (id, at)", {"pk_columns": ["id", "at"]}),
    ],
)
def test_numbers_that_sqlite_does_not_count_up_wait_settle(sqlite_url: str, columns: str, keys: dict[str, Any]) -> None:
    make(sqlite_url, columns)
    with session(sqlite_url, "insert into stamped (id, at) values (1, 1)"):
        pass
    kind, reason = kind_of(sqlite_url, **keys)
    assert kind == "heuristic"
    assert "settle" in reason


def test_seconds_as_a_number_wait_while_they_may_come_again(sqlite_url: str) -> None:
    make(sqlite_url, "id integer primary key, at integer not null default (cast(strftime('%s', 'now') as integer))")
    add(sqlite_url, 1, 2, 3)
    with source(sqlite_url, cursor_column="at", cursor_kind="integer+pk", settle="1h") as reader:
        assert ids(reader) == []
    with source(sqlite_url, cursor_column="at") as reader, pytest.raises(SourceError) as error:
        reader.page(None, 10)
    assert "generated column" in str(error.value.next_step)


# --- texts that mix seconds and fractions --------------------------------------------------------------------------


def test_a_second_that_is_not_over_is_not_read(sqlite_url: str) -> None:
    """CURRENT_TIMESTAMP cuts the fraction off: what it writes later in this second sorts before what was read."""
    make(sqlite_url, "id integer primary key, updated_at text not null default current_timestamp")
    exact = "strftime('%Y-%m-%d %H:%M:%f', 'now', '-0.05 seconds')"
    with source(sqlite_url) as reader, session(sqlite_url) as writer:
        writer.exec_driver_sql("insert into stamped values (1, '2026-01-01 00:00:00.000')")
        last = reader.page(None, 10).cursors[-1]
        for number in range(2, 6):
            writer.exec_driver_sql(f"insert into stamped values ({number}, {exact})")
            seen = [str(row["updated_at"]) for row in reader.page(last, 100).rows]
            now = str(writer.exec_driver_sql("select current_timestamp").scalar_one())
            assert all(text < now for text in seen)


def test_an_open_writer_that_cuts_the_fraction_off_is_not_passed(sqlite_url: str) -> None:
    make(sqlite_url, "id integer primary key, updated_at text not null")
    with session(sqlite_url, "pragma journal_mode = wal") as asked:
        cut = asked.exec_driver_sql("select strftime('%Y-%m-%d %H:%M:%S', 'now', '-2 seconds')").scalar_one()
        asked.exec_driver_sql(f"insert into stamped values (2, '{cut}.100'), (3, '{cut}.900')")
    with source(sqlite_url) as reader, session(sqlite_url, "begin immediate") as writer:
        writer.exec_driver_sql(f"insert into stamped values (1, '{cut}')")
        assert ids(reader) == []
        writer.exec_driver_sql("commit")
        assert ids(reader) == [1, 2, 3]
