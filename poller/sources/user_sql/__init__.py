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
