"""`backfill --parallel` after a bulk load: rows of one timestamp are cut by their keys, over all parts."""

from __future__ import annotations

from collections import Counter

import pytest
import sqlalchemy as sa

from poller.backfill.ranges import Range
from poller.model.cursor import Cursor
from poller.sources import SqlSource
from tests.cli.console import Console
from tests.cli.project import Project
from tests.cli.test_backfill import ids, states
from tests.integration.sources.tables import TIMESTAMP, execute, family

LOADED = 2_000
RANGE = ("backfill", "orders", "--from", "2026-01-01", "--to", "2026-01-02", "--as", "load")


@pytest.fixture
def loaded(project: Project) -> Console:
    """A table of which all rows but two were loaded at one moment."""
    handler = (
        "from pathlib import Path\n"
        "def handle(batch):\n"
        "    if (Path(__file__).parent / 'fail').exists() and any(row['id'] == 1500 for row in batch):\n"
        "        raise ValueError\n"
        "    with (Path(__file__).parent / 'seen').open('a') as out:\n"
        "        out.writelines(f\"{batch.poller_name} {row['id']} 0\\n\" for row in batch)\n"
    )
    project.configure("orders", handlers=handler, poller="max_attempts = 1")
    rows = [(n, "2026-01-01 12:00:00") for n in range(1, LOADED + 1)]
    rows += [(LOADED + 1, "2026-01-01 00:00:01"), (LOADED + 2, "2026-01-01 23:00:00")]
    project.execute("INSERT INTO orders VALUES (?, ?)", *rows)
    return Console(project)


def test_rows_of_one_time_are_spread_over_the_parts(loaded: Console) -> None:
    ended = loaded.run(*RANGE, "--yes", "--json", "--parallel", "4")
    assert ended.code == 0, ended.err
    by_part = Counter(line.split()[0] for line in loaded.project.lines("seen"))
    assert sorted(by_part) == [f"load-{n}of4" for n in range(1, 5)]
    assert max(by_part.values()) - min(by_part.values()) <= 1, by_part
    assert sorted(ids(loaded.project)) == list(range(1, LOADED + 3)), "each once"
    first = ended.json["parts"][0]
    assert (first["begins_key"], first["ends_key"]) == (None, {"id": 499})


def test_what_was_cut_by_keys_goes_on_with_the_same_cuts(loaded: Console) -> None:
    project = loaded.project
    (project.folder / "fail").touch()
    assert loaded.run(*RANGE, "--yes", "--parallel", "4").code == 1
    cuts = {name: state["source"] for name, state in states(project).items()}
    project.execute("DELETE FROM orders WHERE id < 400")  # cut anew, it would be cut elsewhere
    (project.folder / "fail").unlink()
    screen = loaded.run("status", "load-3of4")
    assert "after 2026-01-01 12:00:00 / id=1000, up to 2026-01-01 12:00:00 / id=1500" in screen.out
    (project.folder / "seen").unlink()
    ended = loaded.run(*RANGE, "--yes", "--retry", "--json")
    assert ended.code == 0, ended.err
    assert {name: state["source"] for name, state in states(project).items()} == cuts
    assert ids(project) == list(range(1001, 1501)), "the part that had failed"


def test_an_even_range_is_cut_by_time_as_ever(project: Project) -> None:
    project.configure("orders")
    project.insert(30)
    console = Console(project)
    ended = console.run("backfill", "orders", "--from", "2026-01-01 00:00:00", "--to", "2026-01-01 00:00:03",
                        "--parallel", "3", "--yes", "--json")  # fmt: skip
    assert ended.code == 0, ended.err
    assert [part["ends_key"] for part in ended.json["parts"]] == [None, None, None]


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


@pytest.mark.parametrize("name", ["mssql+pyodbc", "oracle+oracledb"])
def test_other_databases_skip_rows_by_their_own_words(name: str) -> None:
    """Compiled only: no such server runs in the tests."""
    from poller.sources.dialects import dialect_for

    dialect = dialect_for(sa.make_url(f"{name}://h/d").get_backend_name())
    assert dialect.at("a", "FROM t ORDER BY a", 7) == "SELECT a FROM t ORDER BY a OFFSET 7 ROWS FETCH NEXT 1 ROWS ONLY"
