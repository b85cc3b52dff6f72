"""The user's SQL, checked before it becomes part of ours (sources.md, "The page query").

This guards against mistakes (an OR beside the cursor's condition, a comment that hides the rest), not against the
person who writes the configuration.
"""

from __future__ import annotations

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from poller.errors import ConfigError
from poller.sources import user_sql
from poller.sources.user_sql.literals import escape_colons
from poller.sources.user_sql.placeholders import placeholder
from poller.sources.user_sql.row_limits import limited_by

_OPEN = {TokenType.L_PAREN: TokenType.R_PAREN, TokenType.L_BRACKET: TokenType.R_BRACKET}
_CLOSE = frozenset(_OPEN.values())


def check_filter(text: str, family: str) -> str:
    """The filter in parentheses with its colons escaped, ready for `sqlalchemy.text`.

    Raises: ConfigError naming `filter`, unless it is one balanced expression without comments, `;` and placeholders.
    """
    enclosed = f"({text}\n)"  # otherwise a column named `show` or `lock` would begin a statement
    if not text.strip():
        raise _refused("filter", "it is empty", "Leave `filter` out, or write it.")
    tokens = _tokens(enclosed, family, key="filter")
    if any(token.comments for token in tokens) or _has_lone_comment(enclosed, tokens):
        raise _refused("filter", "it holds a comment", "Remove the comment.")
    tokens = tokens[1:-1]
    _refuse_semicolon_and_imbalance(tokens, key="filter")
    _refuse_placeholder(tokens, family, key="filter")
    try:
        found = user_sql.parse(enclosed, family, condition=True)
        one = isinstance(found, exp.Paren | exp.Subquery)
        why = None if one and not isinstance(found.this, exp.Alias | exp.Select | exp.SetOperation) else ""
    except user_sql.Unreadable as error:
        why = _reason(error)
    if why is not None:
        next_step = "Write what could stand after WHERE, or use `query` or a view for anything more."
        raise _refused("filter", f"it is not one SQL expression{why}", next_step)
    return f"({escape_colons(text)})"


def check_query(text: str, family: str, cursor_column: str) -> str:
    """The query with its colons escaped, ready to become a subquery on separate lines.

    Raises: ConfigError naming `query`, when it holds a `;` or a placeholder, is not balanced, is not a query, or
    returns only some rows.
    """
    tokens = _tokens(text, family, key="query")
    _refuse_semicolon_and_imbalance(tokens, key="query")
    _refuse_placeholder(tokens, family, key="query")
    if not tokens or tokens[0].token_type not in {
        TokenType.SELECT,
        TokenType.WITH,
        TokenType.L_PAREN,
        TokenType.VALUES,
        TokenType.FROM,
    }:
        raise _refused("query", "it does not begin with SELECT or WITH", "Write one SELECT.")
    some = limited_by(text, tokens, family, cursor_column)
    if some is not None:
        raise _refused(
            "query",
            f"it returns only some rows ({some[:60]}), so the others would never be read",
            "Remove it: every page has its own limit. Leave rows out with WHERE or `filter`.",
        )
    return escape_colons(text)


def _tokens(text: str, family: str, *, key: str) -> list[Token]:
    if not text.strip():
        raise _refused(key, "it is empty", f"Leave `{key}` out, or write it.")
    try:
        return user_sql.tokens(text, family)
    except user_sql.Unreadable as error:
        raise _refused(key, f"it cannot be read as SQL: {error}", "Check its quotes.") from None


def _has_lone_comment(enclosed: str, tokens: list[Token]) -> bool:
    """Whether there is a comment at the end that no token holds (sqlglot drops it in some dialects)."""
    return bool(enclosed[tokens[-2].end + 1 : -1].strip())


def _refuse_semicolon_and_imbalance(tokens: list[Token], *, key: str) -> None:
    expected: list[TokenType] = []
    for token in tokens:
        kind = token.token_type
        if kind == TokenType.SEMICOLON:
            raise _refused(key, "it holds a `;`", "Remove it; this must be one expression or query.")
        if kind in _OPEN:
            expected.append(_OPEN[kind])
        elif kind in _CLOSE and (not expected or expected.pop() != kind):
            at = token.start + (key == "query")  # a filter stands in parentheses already
            raise _refused(key, f"its {token.text!r} at character {at} closes nothing", "Balance it.")
    if expected:
        raise _refused(key, "a parenthesis or bracket is never closed", "Balance it.")


def _refuse_placeholder(tokens: list[Token], family: str, *, key: str) -> None:
    found = placeholder(tokens, family)
    if found is not None:
        why = f"it holds a placeholder, {found}"
        raise _refused(key, why, "Write the value itself; placeholders are not substituted.")


def _refused(key: str, why: str, next_step: str) -> ConfigError:
    return ConfigError(f"`{key}` is refused: {why}.", key=key, next_step=next_step)


def _reason(error: Exception) -> str:
    return "" if str(error).startswith("Failed to parse") else f": {error}"
