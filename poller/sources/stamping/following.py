"""A column followed through queries and views to the table that it comes from, by parsing their SQL.

For databases that, unlike PostgreSQL, do not report where a result's column comes from.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from poller.sources import user_sql
from poller.sources.stamping.rules import Origin, Watched, expression

if TYPE_CHECKING:
    from sqlglot import exp  # loaded where there is SQL to parse

DEEPEST = 20
"""How many views over views are followed."""


@dataclass(frozen=True, slots=True)
class Made:
    """Where a column comes from.

    Attributes:
        schema, table, column: None, None and empty where it is an expression. sql: that expression; None where it is
            unknown.
    """

    schema: str | None
    table: str | None
    column: str
    sql: str | None = None


def origin(
    watched: Watched,
    view: Callable[[str | None, str], str | None],
    table: Callable[[str | None, str, str], Origin | None],
) -> Origin:
    """The column behind the cursor. Raises what `view` and `table` raise.

    Args:
        view: as for `follow`. table: what fills a column, by its schema, table and name; None where there is none.
    """
    at = follow(watched.family, watched.schema, watched.table, watched.query, watched.column, view)
    found = None if at.table is None else table(at.schema, at.table, at.column)
    return found or Origin(None, None, "", [expression("the column's expression", at.sql)])


def follow(
    family: str, schema: str | None, table: str | None, query: str | None, column: str,
    view: Callable[[str | None, str], str | None],
) -> Made:  # fmt: skip
    """Follow a column down to a table.

    Args:
        view: the SELECT of a view, empty where this user may not read it, None where it is a table.
    """
    at = Made(schema, table, column)
    if query is not None:
        at = _behind(query, column, family, schema)
    for _ in range(DEEPEST):
        if at.table is None:
            break
        sql = view(at.schema, at.table)
        if sql is None:
            return at
        at = _behind(sql, at.column, family, at.schema) if sql else Made(None, None, "")
    return Made(None, None, "", at.sql)


def made_of(sql: str, column: str, family: str) -> str | None:
    """The expression that a SELECT has for a column, as SQL; None where it is unknown."""
    return _behind(sql, column, family, None).sql


def _behind(sql: str, column: str, family: str, schema: str | None) -> Made:
    nothing = Made(None, None, "")
    try:
        tree = user_sql.parse(sql, family)
    except user_sql.Unreadable:
        return nothing
    from sqlglot import exp

    if isinstance(tree, exp.Create):  # SQLite and SQL Server keep the whole statement
        tree = tree.expression
    if not isinstance(tree, exp.Select) or tree.args.get("with_"):
        return nothing
    tables = {one.alias_or_name.lower(): one for one in _sources(tree)}
    chosen = _chosen(tree, column)
    if isinstance(chosen, exp.Star):
        return _of(next(iter(tables.values())), column, schema) if len(tables) == 1 else nothing
    if isinstance(chosen, exp.Column):
        table = tables.get(chosen.table.lower()) if chosen.table else next(iter(tables.values()), None)
        if table is None or (not chosen.table and len(tables) > 1):
            return nothing
        return _of(table, column if isinstance(chosen.this, exp.Star) else chosen.name, schema)
    return nothing if chosen is None else Made(None, None, "", chosen.sql(dialect=user_sql.DIALECTS.get(family)))


def _sources(tree: exp.Select) -> list[exp.Expression]:
    start = tree.args.get("from_") or tree.args.get("from")
    joined = [join.this for join in tree.args.get("joins") or ()]
    return [*([start.this] if start is not None else []), *joined]


def _of(table: exp.Expression, column: str, schema: str | None) -> Made:
    from sqlglot import exp

    if not isinstance(table, exp.Table) or not table.name:
        return Made(None, None, "")
    return Made(table.db or schema, table.name, column)


def _chosen(tree: exp.Select, column: str) -> Any:
    """The part of a SELECT's list that yields a column of that name; the one star, where none has that name."""
    from sqlglot import exp

    stars = []
    for one in tree.expressions:
        if isinstance(one, exp.Star) or (isinstance(one, exp.Column) and isinstance(one.this, exp.Star)):
            stars.append(one)
        elif one.alias_or_name.lower() == column.lower():
            return one.this if isinstance(one, exp.Alias) else one
    return stars[0] if len(stars) == 1 else None
