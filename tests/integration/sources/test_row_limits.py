"""A query that returns only some rows is refused: what it leaves out would never be read."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from poller.errors import ConfigError
from tests.integration.sources.tables import closing, execute, make_orders, orders
from tests.integration.sources.user_sql import give
from tests.support.cases import each

SOME = [
    ("postgresql", "select * from l order by updated_at limit 5"),
    ("postgresql", "select * from l limit (select 5)"),
    ("postgresql", "select * from l offset 3"),
    ("postgresql", "select * from l fetch first row only"),
    ("postgresql", "select * from l tablesample system (50)"),
    ("postgresql", "select * from l tablesample bernoulli (5) as x"),  # sqlglot cannot read it
    ("postgresql", "(select * from l) limit 5"),
    ("postgresql", "select * from a union all select * from b limit 5"),
    ("postgresql", "(select * from a order by 1 limit 5) union all select * from b"),
    ("postgresql", "select * from (select * from l limit 5) t"),
    ("postgresql", "select * from lateral (select * from l limit 5) t"),
    ("postgresql", "select t.* from (select * from l limit 5) t join c on c.id = t.id"),
    ("postgresql", "select c.name, t.updated_at from c join (select * from l limit 5) t on c.id = t.id"),
    ("postgresql", "with recent as (select * from l limit 5) select * from recent"),
    ("postgresql", "with a as (select * from l limit 5), b as (select * from a) select id, updated_at from b"),
    ("postgresql", "select * from (select * from l limit 5) t where name <<% 'x'"),  # an operator that sqlglot lacks
    ("postgresql", "select c.id, updated_at from c join (select id, updated_at from l limit 5) t on c.id = t.id"),
    ("postgresql", "with t as (select * from l limit 5) select date(t.updated_at) as updated_at from t, c"),
    ("mysql", "select * from l limit 5, 10"),
    ("mysql", "select * from l limit rows examined 5"),  # nor is this read
    ("sqlite", "select * from l limit 5"),
    ("mssql", "select top 5 * from l"),
    ("mssql", "select top (5) percent * from l order by a"),
    ("mssql", "select * from l order by a offset 5 rows fetch next 5 rows only"),
    ("mssql", "select * from l tablesample (10 percent)"),
]

ALL = [
    ("postgresql", "select id, updated_at, (select max(n) from c limit 1) from l"),
    ("postgresql", "select * from l where id in (select id from vip order by n desc limit 10)"),
    ("postgresql", "select l.*, c.n from l cross join lateral (select n from c order by at limit 1) c"),
    ("postgresql", "select l.* from l join (select id from vip order by n limit 10) v on v.id = l.id"),
    ("postgresql", "with v as (select id from vip limit 10) select l.id, l.updated_at from l join v using (id)"),
    ("postgresql", "with unused as (select 1 limit 1) select * from l"),
    ("postgresql", "select distinct on (customer) * from l order by customer, updated_at desc"),
    ("postgresql", "select * from (select *, row_number() over (partition by c) as n from l) t where n = 1"),
    ("postgresql", "select * from (select * from l offset 0) t"),
    ("postgresql", "select * from l limit all"),
    ("postgresql", "select updated_at, n from l join (select id from vip order by n limit 10) v using (id)"),
    ("postgresql", "with v(updated_at) as (select b from l) select updated_at from v, (select * from k limit 1) k"),
    ("postgresql", "select \"limit\", 'limit 5', offset_ from l /* limit 5 */"),
    ("postgresql", "with recursive t as (select * from l union select l.* from t, l where l.up=t.id) select * from t"),
    ("mysql", "select * from (select * from l order by a limit 18446744073709551615) t"),
    ("sqlite", "select * from l limit -1"),
    ("mssql", "select top 100 percent * from l order by a"),
    ("mssql", "select * from l order by a offset 0 rows"),
    ("mssql", "select l.*, c.n from l cross apply (select top 1 n from c) c"),
]  # fmt: skip


@pytest.mark.guarantee("Delivery", "A query does not hide rows: one that returns only some of them is refused at start")
@each(("family", "query"), SOME)
def test_a_query_that_takes_only_some_rows_is_refused(family: str, query: str) -> None:
    with pytest.raises(ConfigError, match="only some rows") as error:
        give(family, query=query)
    assert error.value.key == "query"
    assert ("TOP 5" in error.value.message) == ("top" in query)


@each(("family", "query"), ALL)
def test_a_limit_that_leaves_no_row_out_is_taken(family: str, query: str) -> None:
    give(family, query=query)


def test_a_source_is_refused_before_anything_is_opened() -> None:
    with pytest.raises(ConfigError, match="LIMIT 5"):
        orders("postgresql://nobody@127.0.0.1:1/none", query="select * from orders order by updated_at limit 5")


PLACEHOLDERS = [
    ("postgresql", "a = $1"),
    ("postgresql", "a = ?"),
    ("postgresql", "a in (?, ?)"),
    ("postgresql", "a = :x"),
    ("postgresql", "a = %s"),
    ("postgresql", "a = %(x)s"),
    ("mysql", "a = ?"),
    ("mysql", "a = :x"),
    ("mysql", "a = %s"),
    ("mysql", "a = $1"),
    ("sqlite", "a = ?1"),
    ("sqlite", "a = :x"),
    ("sqlite", "a = $x"),
    ("sqlite", "a = @x"),
    ("mssql", "a = ?"),
    ("mssql", "a = %(x)s"),
]

NONE = [
    ("postgresql", "data ? 'k' and data ?| array['a'] and data ?& array['a']"),
    ("postgresql", "data @@ '$.a ? (@ == 1)'"),
    ("postgresql", "data::jsonb ? 'k' and settings ? 'a' and o.comment?'b' and format %s = 1"),
    ("postgresql", "a = '$1 ? :x %s %(x)s' and \"b?\" = $$ :y $1 $$"),
    ("postgresql", "tags[1:n] = tags[:2] and t > '12:30'::time and f(a := 1)"),
    ("postgresql", "id %s = 0 and a$1 = 2 and @x > 1"),
    ("mysql", "a = @tenant and b = @@sql_mode and id %s = 0 and c = 'a:b?' and `d?` = 1"),
    ("sqlite", "a -> '$.x' = 1 and \"b:c\" = '?'"),
    ("mssql", "a = @tenant and b = @@SPID and price > $1 and c = 'x?' and [d:e?] = 1"),
]


@each(("family", "text"), PLACEHOLDERS)
def test_a_placeholder_is_refused_in_filter_and_query(family: str, text: str) -> None:
    with pytest.raises(ConfigError, match="placeholder") as error:
        give(family, filter=text)
    assert error.value.key == "filter"
    with pytest.raises(ConfigError, match="placeholder") as error:
        give(family, query=f"select * from t where {text}")
    assert error.value.key == "query"


@each(("family", "text"), NONE)
def test_what_only_looks_like_a_placeholder_is_taken(family: str, text: str) -> None:
    give(family, filter=text)
    give(family, query=f"select * from t where {text}")


def test_a_placeholder_that_postgresql_has_as_an_operator_runs(postgres_db: str) -> None:
    keys: dict[str, Any] = {"filter": "data ? 'k' and data->>'n' like 'a%' and n % 2 = 1", "table": "t"}
    execute(
        postgres_db,
        "create table t (id integer primary key, updated_at timestamptz not null, data jsonb, n integer)",
        """insert into t values (1, now() - interval '1 hour', '{"k"\\: 1, "n"\\: "ab"}', 3)""",
    )
    with closing(orders(postgres_db, **keys)) as source:
        assert [row["id"] for row in source.page(None, 5).rows] == [1]


def test_check_reports_a_view_that_takes_only_some_rows(any_db: str) -> None:
    make_orders(any_db, ["2026-01-01 00:00:00", "2026-01-01 00:00:01", "2026-01-01 00:00:02"])
    execute(
        any_db,
        "create view latest as select * from orders order by updated_at limit 2",
        "create view plain as select o.* from orders o where exists (select 1 from orders limit 1)",
    )
    for view, shown in (("latest", 1), ("plain", 0)):
        with closing(orders(any_db, table=view)) as source:
            found = source.checkup(None, lambda: datetime.now(UTC)).findings
        assert len([f for f in found if "returns only some rows" in f.message]) == shown
