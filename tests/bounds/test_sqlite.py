"""SQLite: one writer at a time, and the clock under its lock."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from poller.errors import ConfigError
from tests.bounds.tables import add, ids, make, session, source


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


def test_the_lock_is_let_go(sqlite_url: str) -> None:
    make(sqlite_url)
    add(sqlite_url, 1)
    with source(sqlite_url) as reader:
        reader.page(None, 1)
        with session(sqlite_url, "pragma busy_timeout = 0", "begin immediate"):
            pass


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
    with source(sqlite_url, commit_delay="1h") as reader:
        assert ids(reader) == []
        assert reader.bound().kind == "exact"


@pytest.mark.parametrize("bound", ["observed", "observed-strict"])
def test_nothing_is_observed_here(sqlite_url: str, bound: str) -> None:
    with pytest.raises(ConfigError) as error, source(sqlite_url, bound=bound):
        pass
    assert error.value.key == "bound"
