"""A user's SQL (a filter, a query, the definition of a view) as a tree.

The parser is loaded with the first text: most sources have none, and loading it takes time.
"""

from __future__ import annotations

import contextlib
import logging
import re
from collections.abc import Iterator
from typing import Any

from poller.databases.kinds import KINDS

_OPERATOR = re.compile(r"[-+*/<>=~!@#%^&|`?]+")
_SIGNED = re.compile(r"[-+*/<>=]+[-+]")
"""PostgreSQL: an operator followed by a sign, which looks like one operator."""


def parser_of(family: str) -> str | None:
    """What sqlglot calls a family of databases; None if it is not known."""
    return KINDS[family].parser if family in KINDS else None


class Unreadable(Exception):
    """A text cannot be parsed as SQL; the message is one line."""


def parse(sql: str, family: str, *, condition: bool = False) -> Any:
    """The tree of one statement; `condition`: of what follows WHERE. Raises: Unreadable.

    An operator of PostgreSQL that the parser does not know (pg_trgm, inet, geometry, a user's own) is read as `~`: only
    its operands matter.
    """
    try:
        return _parsed(sql, family, condition)
    except Unreadable:
        plain = _with_known_operators(sql, family) if family in KINDS and KINDS[family].operators else sql
        if plain == sql:
            raise
    return _parsed(plain, family, condition)


def tokens(sql: str, family: str) -> list[Any]:
    """The parser's tokens (`sqlglot.Token`). Raises: Unreadable."""
    import sqlglot
    from sqlglot.errors import SqlglotError

    try:
        with _quiet():
            return list(sqlglot.tokenize(sql, read=parser_of(family)))
    except SqlglotError as error:
        raise Unreadable(_first_line(error)) from None


def _parsed(sql: str, family: str, condition: bool) -> Any:
    import sqlglot
    from sqlglot import exp
    from sqlglot.errors import SqlglotError

    try:
        with _quiet():
            return sqlglot.parse_one(sql, into=exp.Condition if condition else None, dialect=parser_of(family))
    except SqlglotError as error:
        raise Unreadable(_first_line(error)) from None
    except RecursionError:
        raise Unreadable("it is nested too deep") from None


def _with_known_operators(sql: str, family: str) -> str:
    runs: list[tuple[int, int]] = []
    for token in tokens(sql, family):
        first, end = token.start, token.end + 1
        if sql[first:end] != token.text or not _OPERATOR.fullmatch(token.text):
            continue
        joined = bool(runs) and runs[-1][1] == first
        runs[-1:] = [(runs[-1][0], end)] if joined else [*runs[-1:], (first, end)]
    for first, end in reversed(runs):
        last = end - 1 if _SIGNED.fullmatch(sql, first, end) else end
        if last - first > 1:
            sql = f"{sql[:first]} ~ {sql[last:]}"
    return sql


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0].rstrip(" .")[:200]


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep sqlglot from logging what it cannot parse: the error says it."""
    logger = logging.getLogger("sqlglot")
    before = logger.disabled
    logger.disabled = True
    try:
        yield
    finally:
        logger.disabled = before


def escape_colons(sql: str) -> str:
    """SQL that `sqlalchemy.text` passes on unchanged, without reading `:name` as a parameter."""
    return sql.replace(":", "\\:")


def mysql_account(user: str) -> str:
    """What CURRENT_USER() of MariaDB and MySQL returns, as GRANT takes it: `'reader'@'%'`. Names other than plain ones
    are in backquotes: there a backslash is literal whatever `sql_mode` says."""
    parts = user.rsplit("@", 1)
    if all(re.fullmatch(r"[\w.%:/-]*", part, re.ASCII) for part in parts):
        return "@".join(f"'{part}'" for part in parts)
    return "@".join("`" + part.replace("`", "``") + "`" for part in parts)


NO_TABLE = "rows come from no table of this database"
"""Why open transactions of this server do not bound them: generated values, table functions."""


def tables(sql: str, schema: str | None, family: str) -> list[tuple[str | None, str]] | None:
    """Schema and name of each, at any depth; None where the text cannot be parsed. Functions in FROM are left out.

    Args:
        schema: for tables that name none.
    """
    try:
        tree = parse(sql, family)
    except Unreadable:
        return None
    from sqlglot import exp

    named = {part.alias for part in tree.find_all(exp.CTE)}
    return [
        (found.db or schema, found.name)
        for found in tree.find_all(exp.Table)
        if isinstance(found.this, exp.Identifier) and (found.db or found.name not in named)
    ]


def read_by(select: Any) -> list[Any]:
    """What a SELECT reads itself, in FROM and by JOIN."""
    first = select.args.get("from_") or select.args.get("from")
    return [part.this for part in (*([] if first is None else [first]), *(select.args.get("joins") or ()))]


_SIMPLE = frozenset(
    (
        *("Column", "Identifier", "Literal", "Boolean", "Null", "Paren", "Neg"),
        *("And", "Or", "Not", "EQ", "NEQ", "GT", "GTE", "LT", "LTE", "Is", "In"),
    )
)
"""What an index may contain after WHERE: columns and values, and nothing whose result may change."""


def indexable(text: str, family: str, *, plain: bool = False) -> bool:
    """True if a partial index can contain the filter; `plain`: one that takes no OR and no NOT."""
    names = parts(text, family)
    return bool(names) and names <= _SIMPLE - ({"Or", "Not"} if plain else set())


def parts(text: str, family: str) -> set[str]:
    """Sqlglot's names of a filter's parts; empty where it cannot be parsed."""
    try:
        return {type(node).__name__ for node in parse(text, family, condition=True).walk()}
    except Unreadable:
        return set()


def same_condition(one: str, other: str, family: str) -> bool:
    """True if two conditions are the same text but for casts, parentheses and quotes, which PostgreSQL adds to the
    condition of an index. False where one cannot be parsed."""
    try:
        return bool(_bare(one, family) == _bare(other, family))
    except Unreadable:
        return False


def _bare(text: str, family: str) -> Any:
    from sqlglot import exp

    tree = parse(text, family, condition=True)
    for node in reversed(list(tree.bfs())):  # what is inside first
        if isinstance(node, exp.Cast | exp.Paren):
            tree = node.this if node is tree else tree
            node.replace(node.this)
        elif isinstance(node, exp.Identifier):
            node.set("this", node.name.lower())
            node.set("quoted", False)
    return tree


def compared(text: str, family: str) -> list[str]:
    """The columns that a filter compares with a value for equality, if it does nothing else; empty otherwise."""
    try:
        tree = parse(text, family, condition=True).unnest()
    except Unreadable:
        return []
    from sqlglot import exp

    found = list(tree.flatten()) if isinstance(tree, exp.And) else [tree]
    equal = [part for part in found if isinstance(part.unnest(), exp.EQ)]
    names = [part.unnest().this.name for part in equal if isinstance(part.unnest().this, exp.Column)]
    values = [part for part in equal if isinstance(part.unnest().expression, exp.Literal)]
    return names if len(names) == len(values) == len(found) else []
