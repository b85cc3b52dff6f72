"""The user's SQL inside ours: one balanced expression, or it is refused."""

from __future__ import annotations

import pytest

from poller.errors import ConfigError
from tests.integration.sources.tables import closing, drain, execute, make_orders, orders
from tests.integration.sources.user_sql import give
from tests.support.cases import each


@each(
    ("family", "text"),
    [
        ("postgresql", "status <> 'draft'"),
        ("postgresql", "a = 1 OR b = 2"),
        ("postgresql", "data ->> 'k' = 'x' AND data ? 'k'"),
        ("postgresql", "note = 'a;b--c/*d*/'"),
        ("postgresql", "tags @> ARRAY['x'] AND id IN (SELECT id FROM vip)"),
        ("mysql", "id % 2 = 0 AND `order` = 'x\\'y'"),
        ("mssql", "[Order] = 1"),
        ("sqlite", "status"),
        ("sqlite", "show = 1"),
        ("sqlite", "(select n > 5 from totals)"),
        ("postgresql", "lock is null and call <> 'x'"),
        ("postgresql", "ip <<= '10.0.0.0/8' and note %> 'x' or place ~= point '(1,2)' and n =-1 and k <->-2 < 3"),
    ],
)
def test_one_expression_is_taken(family: str, text: str) -> None:
    give(family, filter=text)


def test_an_expression_stands_in_parentheses(any_db: str) -> None:
    make_orders(any_db, [f"2026-01-01 00:00:0{n}" for n in range(4)])
    with closing(orders(any_db, filter="id = 1 or id = 3 or id = 4")) as source:
        assert [row["id"] for row in drain(source, 1)] == [1, 3, 4], "the cursor's condition holds for each of them"


def test_colons_are_those_of_the_database(postgres_db: str) -> None:
    make_orders(postgres_db, ["2026-01-01 00:00:00"])
    execute(postgres_db, "update orders set updated_at = '2026-01-01 12\\:31\\:00'")
    for least, ids in (("12:30", [1]), ("12:32", [])):
        with closing(orders(postgres_db, filter=f"updated_at::time > '{least}'::time")) as source:
            assert [row["id"] for row in drain(source, 1)] == ids


@each(
    ("family", "text"),
    [
        ("postgresql", "a = 1; DROP TABLE x"),
        ("postgresql", "a = 1 -- the rest"),
        ("postgresql", "a = 1 --"),
        ("postgresql", "/* x */ a = 1"),
        ("postgresql", "show = 1 -- the rest"),
        ("mysql", "a = 1 # the rest"),
        ("mysql", "/*!50000 a = 1 */ OR b = 1"),
        ("sqlite", "a = 1) OR (b = 2"),
        ("sqlite", "(a = 1"),
        ("sqlite", "a = 'x"),
        ("postgresql", "a = 1 ORDER BY 2"),
        ("postgresql", "a = 1 UNION SELECT 1"),
        ("postgresql", "a = 1, b = 2"),
        ("postgresql", "SELECT 1"),
        ("postgresql", "a <<= 1 b"),
        ("postgresql", "NOT " * 2000 + "a"),
        ("postgresql", "a = :value"),
        ("sqlite", "a = ?"),
        ("sqlite", ""),
    ],
)
def test_anything_else_is_refused(family: str, text: str) -> None:
    with pytest.raises(ConfigError) as error:
        give(family, filter=text)
    assert error.value.key == "filter"


@each("text", ["SELECT 1;", "SELECT (1", "UPDATE x SET a = 1", "", "SELECT 1; SELECT 2"])
def test_what_cannot_be_a_subquery_is_refused(text: str) -> None:
    with pytest.raises(ConfigError) as error:
        give("postgresql", query=text)
    assert error.value.key == "query"
