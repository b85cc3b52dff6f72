"""The user's SQL inside ours: one balanced expression, or it is refused."""

from __future__ import annotations

import pytest

from poller.errors import ConfigError
from poller.sources.user_sql.filters import check_filter, check_query
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
def test_an_expression_stands_in_parentheses(family: str, text: str) -> None:
    assert check_filter(text, family) == f"({text})"


def test_colons_are_escaped() -> None:
    assert check_filter("t > '12:30'::time", "postgresql") == "(t > '12\\:30'\\:\\:time)"


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
        check_filter(text, family)
    assert error.value.key == "filter"


@each("text", ["SELECT 1;", "SELECT (1", "UPDATE x SET a = 1", "", "SELECT 1; SELECT 2"])
def test_what_cannot_be_a_subquery_is_refused(text: str) -> None:
    with pytest.raises(ConfigError) as error:
        check_query(text, "postgresql", "updated_at")
    assert error.value.key == "query"
