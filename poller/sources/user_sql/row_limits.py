"""A query that returns only some rows (LIMIT, FETCH, OFFSET, TOP, TABLESAMPLE, ROWNUM): pages would read only those,
and all others would never be read.

Such a limit is looked for in the query itself, in each branch of a UNION, and in the subqueries and WITH clauses that
the cursor column comes from. Elsewhere it is a condition like any other: in a scalar or LATERAL subquery, after IN or
EXISTS, in a table that is only joined.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from poller.databases.kinds import KINDS
from poller.sources import user_sql

Scope: TypeAlias = Mapping[str, Any]
"""The parts of WITH by their names."""

_EVERYTHING = 2**31 - 1
"""A limit that no table reaches: how some databases are asked to keep an ORDER BY in a subquery."""


def limited_by(sql: str, tokens: Sequence[Token], family: str, cursor_column: str) -> str | None:
    """What makes a query return only some rows, as SQL; None if there are none.

    Args:
        tokens: the query's. cursor_column: followed to the source that it comes from.
    """
    try:
        tree = user_sql.parse(sql, family)
    except user_sql.Unreadable:
        return _by_tokens(tokens)
    found = _within(tree, {}, cursor_column.lower())
    if found is None:
        return None
    text: str = found.sql(dialect=user_sql.parser_of(family)).strip()
    return text.replace("LIMIT", KINDS[family].limit, 1) if isinstance(found, exp.Limit) else text


def _within(query: Any, scope: Scope, column: str | None) -> Any:
    """The part of a query, or of its sources, that limits its rows; None if there is none."""
    own = _limit_of(query)
    if own is not None:
        return own
    if isinstance(query, exp.Subquery):
        return _within(query.this, scope, column)
    named = {part.alias.lower(): part for part in getattr(query, "ctes", ())}
    scope = {**scope, **named}
    if isinstance(query, exp.SetOperation):
        right = None if isinstance(query, exp.Except) else _within(query.expression, scope, None)
        return _within(query.this, scope, column) or right
    return _in_select(query, scope, column) if isinstance(query, exp.Select) else None


def _limit_of(query: Any) -> Any:
    limit, offset = query.args.get("limit"), query.args.get("offset")
    if limit is not None and not _is_everything(limit):
        return limit
    if offset is not None and not _is_number(offset.expression, 0, 0):
        return offset
    return None


def _is_everything(limit: Any) -> bool:
    count = limit.args.get("count") if isinstance(limit, exp.Fetch) else limit.expression
    options = limit.args.get("limit_options")
    percent = bool(options is not None and options.args.get("percent"))
    if isinstance(count, exp.Null | exp.Neg) or (
        isinstance(count, exp.Var | exp.Column) and count.name.upper() == "ALL"
    ):
        return True
    return _is_number(count, 100 if percent else _EVERYTHING, None)


def _is_number(value: Any, least: int, most: int | None) -> bool:
    while isinstance(value, exp.Paren):
        value = value.this
    if isinstance(value, exp.Null):
        return most == 0
    if not isinstance(value, exp.Literal) or value.is_string or not value.name.isdigit():
        return False
    return least <= int(value.name) and (most is None or int(value.name) <= most)


def _in_select(select: Any, scope: Scope, column: str | None) -> Any:
    sources = _sources(select)
    for source in sources:
        sample = source.args.get("sample")
        if sample is not None:
            return sample
    counted = next((part for part in _own_columns(select.args.get("where")) if part.name.upper() == "ROWNUM"), None)
    if counted is not None and not counted.table:
        return counted.parent or counted
    source, inside = _feeding(select, sources, scope, column)
    if isinstance(source, exp.Lateral) and source is sources[0]:  # the first source: a subquery like any other
        source = source.this
    if isinstance(source, exp.Subquery):
        return _within(source, scope, inside)
    common = _common(source, scope)
    if common is None:
        return None
    others = {name: part for name, part in scope.items() if part is not common}  # a recursive one ends here
    return _within(common.this, others, inside)


def _common(source: Any, scope: Scope) -> Any:
    """The part of WITH that a source names; None for others."""
    return scope.get(source.name.lower()) if isinstance(source, exp.Table) and not source.db else None


def _sources(select: Any) -> list[Any]:
    first = select.args.get("from_") or select.args.get("from")
    joined = select.args.get("joins") or ()
    return [part.this for part in (*([] if first is None else [first]), *joined)]


def _feeding(select: Any, sources: Sequence[Any], scope: Scope, column: str | None) -> tuple[Any, str | None]:
    """The source that the cursor column comes from, and its name there; None if that is not known."""
    chosen = [part for part in select.expressions if column is not None and part.alias_or_name.lower() == column]
    stars = [part for part in select.expressions if part.is_star]
    origin = (chosen or stars)[0] if len(chosen or stars) == 1 else None
    read = {(c.table.lower(), c.name.lower()) for c in origin.find_all(exp.Column)} if origin is not None else set()
    table, name = read.pop() if len(read) == 1 else ("", "")
    inside = name if chosen and name else column
    if len(sources) == 1:
        return sources[0], inside
    if table:
        return next((s for s in sources if s.alias_or_name.lower() == table), None), inside
    if inside is None or (chosen and not name):
        return None, inside
    having = [(_has(source, scope, inside), source) for source in sources]
    found = [source for has, source in having if has] or [source for has, source in having if has is None]
    return found[0] if len(found) == 1 else None, inside


def _has(source: Any, scope: Scope, column: str) -> bool | None:
    """True if a source has a column of that name; None if its text does not show it."""
    made = source if isinstance(source, exp.Subquery) else _common(source, scope)
    if made is None or not isinstance(made.this, exp.Query):
        return None
    names = [name.lower() for name in made.alias_column_names or made.this.named_selects]
    return None if "*" in names or "" in names else column in names


def _own_columns(where: Any) -> Iterable[Any]:
    """The columns of a condition, without those of its subqueries."""
    if where is None:
        return []
    walked = where.walk(prune=lambda node: isinstance(node, exp.Query))
    return (node for node in walked if isinstance(node, exp.Column))


def _by_tokens(tokens: Sequence[Token]) -> str | None:
    """The same for a query that cannot be parsed: a limit outside of all parentheses."""
    depth = 0
    for token, after in zip(tokens, [*tokens[1:], None], strict=True):
        if token.token_type in (TokenType.L_PAREN, TokenType.R_PAREN):
            depth += 1 if token.token_type == TokenType.L_PAREN else -1
        if depth or after is None:
            continue
        counted = after.token_type == TokenType.NUMBER
        if token.token_type == TokenType.TABLE_SAMPLE:
            return token.text
        all_of_it = after.text.upper() in ("ALL", "NULL", "-") or (counted and float(after.text) >= _EVERYTHING)
        if token.token_type == TokenType.LIMIT and not all_of_it:
            return f"{token.text} {after.text}"
        if token.token_type == TokenType.OFFSET and counted and after.text != "0":
            return f"{token.text} {after.text}"
        if token.token_type == TokenType.FETCH and after.text.upper() in ("FIRST", "NEXT"):
            return f"{token.text} {after.text}"
    return None
