"""What a page's records are checked for, in one go: an odd one in the middle is found and named like one at an end."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from poller.errors import SourceError
from tests.integration.sources.tables import closing, drain, execute, make_orders, orders
from tests.support.cases import each

SECONDS = [f"2026-01-05T10:00:0{i}" for i in range(9)]


def _with_odd_cursor(url: str, odd: str) -> None:
    """Nine rows of which the sixth holds this value; both ends have the usual form."""
    make_orders(url, SECONDS)
    execute(url, f"update orders set updated_at = {odd} where id = 6")


@each(
    "odd",
    [
        "'2026-01-05T10:00:05Z'",
        "'2026-01-05T10:00:05' || char(10) || '2026-01-05T10:00:05'",
        "char(10) || '2026-01-05T10:00:05'",
        "'2026-01-05T10:00:05' || char(10)",
        "'2026-01-05T10:00:0५'",
    ],
)
def test_a_text_of_another_form_amid_a_page_is_named(sqlite_url: str, odd: str) -> None:
    _with_odd_cursor(sqlite_url, odd)
    with closing(orders(sqlite_url)) as source:
        with pytest.raises(SourceError, match="in two forms") as error:
            source.page(None, 1_000)
        assert "in the row id=6" in str(error.value)


@each("odd", ["20260105", "1.5", "x'3230'"])
def test_a_value_that_is_no_text_is_refused_where_texts_are(sqlite_url: str, odd: str) -> None:
    """Numbers sort before all texts, bytes after them: as the first or the last of their column they are seen too."""
    make_orders(sqlite_url, SECONDS)
    with closing(orders(sqlite_url)) as source:
        after = source.page(None, 3).cursors[-1]
        execute(sqlite_url, f"update orders set updated_at = {odd} where id = 6")
        with pytest.raises(SourceError, match="updated_at holds"):
            drain(source, 1_000, after if odd.startswith("x") else None)


@each("fractions", [("", ".5", ".25"), ("", "", ".123456789")])
def test_fractions_of_any_length_pass_together(sqlite_url: str, fractions: Sequence[str]) -> None:
    make_orders(sqlite_url, [f"{text}{fractions[i % 3]}" for i, text in enumerate(SECONDS)])
    with closing(orders(sqlite_url)) as source:
        assert [row["id"] for row in source.page(None, 1_000).rows] == list(range(1, 10))


def test_a_null_in_any_part_of_a_key_is_found_amid_a_page(sqlite_url: str) -> None:
    execute(
        sqlite_url,
        "create table parts (region text, number integer, at text not null, unique (region, number))",
        *(f"insert into parts values ('eu', {i}, '{text}')" for i, text in enumerate(SECONDS)),
        "create view seen as select * from parts",
    )
    with closing(orders(sqlite_url, table="seen", cursor_column="at", pk_columns=["region", "number"])) as source:
        after = source.page(None, 2).cursors[-1]
        execute(sqlite_url, "update parts set number = null where number = 5")
        with pytest.raises(SourceError, match="is NULL in some rows"):
            source.page(after, 1_000)


def test_neighbours_of_one_key_are_found_amid_a_page(sqlite_url: str) -> None:
    make_orders(sqlite_url, SECONDS)
    execute(sqlite_url, "create table twice (n integer)", "insert into twice values (1)")
    query = "select o.* from orders o join twice on n = 1 or o.id = 6"
    with closing(orders(sqlite_url, query=query)) as source:
        after = source.page(None, 2).cursors[-1]
        execute(sqlite_url, "insert into twice values (2)")
        with pytest.raises(SourceError, match="the same in several rows"):
            source.page(after, 1_000)


def test_a_failure_while_rows_are_fetched_is_translated_too(sqlite_url: str) -> None:
    """SQLite works on while rows are fetched: the first is there at once, the second takes too long."""
    endless = "with recursive s(n) as (select 1 union all select n + 1 from s) select count(*) from s"
    make_orders(sqlite_url, SECONDS[:2])
    with closing(orders(sqlite_url, filter=f"id = 1 or ({endless}) > 0", query_timeout="1s")) as source:
        with pytest.raises(SourceError, match="did not answer within"):
            source.page(None, 10)
        execute(sqlite_url, "delete from orders where id = 2")
        assert [row["id"] for row in source.page(None, 10).rows] == [1]
