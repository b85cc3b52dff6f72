"""The user's own SQL, checked before it stands inside ours (sources.md, "The page query").

This guards against mistakes (an OR that swallows the cursor's condition, a comment that swallows the rest), not against
the person who writes the configuration.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import Token, TokenType

from poller.errors import ConfigError

_GLOT = {"postgresql": "postgres", "mysql": "mysql", "sqlite": "sqlite", "mssql": "tsql", "oracle": "oracle"}
_OPEN = {TokenType.L_PAREN: TokenType.R_PAREN, TokenType.L_BRACKET: TokenType.R_BRACKET}
_CLOSE = frozenset(_OPEN.values())


def check_filter(text: str, family: str) -> str:
    """The filter in parentheses with its colons escaped, ready for `sqlalchemy.text`.

    Raises: ConfigError naming `filter`, unless it is one balanced expression without comments, `;` and placeholders.
    """
    tokens = _tokens(text, family, key="filter")
    if any(token.comments for token in tokens) or _has_lone_comment(text, tokens):
        raise _refused("filter", "it holds a comment", "Remove the comment.")
    _refuse_semicolon_and_imbalance(tokens, key="filter")
    try:
        with _quiet():
            tree: Any = sqlglot.parse_one(text, into=exp.Condition, dialect=_GLOT.get(family))
    except SqlglotError as error:
        raise _refused(
            "filter",
            "it is not one SQL expression" + _reason(error),
            "Write what could stand after WHERE, or use `query` or a view for anything more.",
        ) from None
    if tree is None or tree.find(exp.Placeholder) is not None:
        raise _refused("filter", "it holds a placeholder or nothing", "Write the value itself; nothing is substituted.")
    return f"({escape_colons(text)})"


def check_query(text: str, family: str) -> str:
    """The query with its colons escaped, ready to be wrapped as a subquery on lines of its own.

    Raises: ConfigError naming `query`, when it holds a `;`, is not balanced or is no query.
    """
    tokens = _tokens(text, family, key="query")
    _refuse_semicolon_and_imbalance(tokens, key="query")
    if not tokens or tokens[0].token_type not in {
        TokenType.SELECT,
        TokenType.WITH,
        TokenType.L_PAREN,
        TokenType.VALUES,
        TokenType.FROM,
    }:
        raise _refused("query", "it does not begin with SELECT or WITH", "Write one SELECT.")
    return escape_colons(text)


def escape_colons(sql: str) -> str:
    """SQL that `sqlalchemy.text` hands on as it is, without taking `:name` for a parameter."""
    return sql.replace(":", "\\:")


def _tokens(text: str, family: str, *, key: str) -> list[Token]:
    if not text.strip():
        raise _refused(key, "it is empty", f"Leave `{key}` out, or write it.")
    try:
        with _quiet():
            return list(sqlglot.tokenize(text, read=_GLOT.get(family)))
    except SqlglotError as error:
        raise _refused(key, f"it cannot be read as SQL: {_first_line(error)}", "Check its quotes.") from None


def _has_lone_comment(text: str, tokens: list[Token]) -> bool:
    """Whether a comment hangs on no token (sqlglot drops one that stands at the very end of some dialects)."""
    if not tokens:
        return True
    after = text[tokens[-1].end + 1 :].strip()
    return bool(after)


def _refuse_semicolon_and_imbalance(tokens: list[Token], *, key: str) -> None:
    expected: list[TokenType] = []
    for token in tokens:
        kind = token.token_type
        if kind == TokenType.SEMICOLON:
            raise _refused(key, "it holds a `;`", "Remove it; one expression or query is all that can stand here.")
        if kind in _OPEN:
            expected.append(_OPEN[kind])
        elif kind in _CLOSE and (not expected or expected.pop() != kind):
            raise _refused(key, f"its {token.text!r} at character {token.start + 1} closes nothing", "Balance it.")
    if expected:
        raise _refused(key, "a parenthesis or bracket is never closed", "Balance it.")


def _refused(key: str, why: str, next_step: str) -> ConfigError:
    return ConfigError(f"`{key}` is refused: {why}.", key=key, next_step=next_step)


def _reason(error: Exception) -> str:
    line = _first_line(error)
    return "" if line.startswith("Failed to parse") else f": {line}"


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0].rstrip(" .")[:200]


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep sqlglot from logging what it cannot parse; the error says it better."""
    logger = logging.getLogger("sqlglot")
    before = logger.disabled
    logger.disabled = True
    try:
        yield
    finally:
        logger.disabled = before
