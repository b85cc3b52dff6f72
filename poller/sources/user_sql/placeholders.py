"""Placeholders in the user's SQL: no value is bound to them, so the server would refuse the statement, or worse.

What counts as one differs between databases: `?` is an operator of PostgreSQL's JSON, `$1` an amount of money in SQL
Server, `@x` a variable of MySQL and SQL Server and the absolute value in PostgreSQL. The tokenizer distinguishes texts,
quoted names and casts (`::`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from sqlglot.tokenizer_core import Token, TokenType

from poller.databases.kinds import KINDS

_LITERALS = frozenset(
    kind
    for name in (
        *("IDENTIFIER", "STRING", "NATIONAL_STRING", "RAW_STRING", "HEREDOC_STRING", "BYTE_STRING"),
        *("HEX_STRING", "BIT_STRING", "UNICODE_STRING", "NUMBER", "R_PAREN", "R_BRACKET"),
    )
    if (kind := getattr(TokenType, name, None)) is not None
)
_EXPECTS_OPERAND = frozenset(
    (
        *("all", "and", "any", "array", "between", "case", "distinct", "else", "from", "having", "ilike", "in", "like"),
        *("limit", "not", "offset", "on", "or", "regexp", "returning", "rlike", "select", "similar", "some", "then"),
        *("union", "when", "where"),
    )
)
"""Words that an operand follows. All others may be columns or types: `settings ? 'k'`, `data::jsonb ? 'k'`."""


def placeholder(tokens: Sequence[Token], family: str) -> str | None:
    """The first placeholder as it is written; None where there is none."""
    depth = 0
    for number, token in enumerate(tokens):
        if token.token_type in (TokenType.L_BRACKET, TokenType.R_BRACKET):
            depth += 1 if token.token_type == TokenType.L_BRACKET else -1
        found = _at(
            token, tokens[max(0, number - 2) : number], tokens[number + 1 : number + 4], family, sliced=depth > 0
        )
        if found is not None:
            return found
    return None


def _at(token: Token, behind: Sequence[Token], after: Sequence[Token], family: str, *, sliced: bool) -> str | None:
    kind, text = token.token_type, token.text
    before = behind[-1] if behind else None
    operand = _expects_operand(behind)
    following = after[0] if after and after[0].start == token.end + 1 else None  # without a space between
    word = following is not None and re.fullmatch(r"\w+", following.text) is not None
    if kind == TokenType.PLACEHOLDER:
        longer = following is not None and following.token_type == TokenType.DASH  # PostgreSQL: ?- lseg
        longer |= before is not None and before.text == "@" and before.end + 1 == token.start  # @?
        return "?" if not KINDS[family].operators or (operand and not longer) else None
    if kind == TokenType.COLON and word and operand and not (sliced and KINDS[family].operators):
        return f":{after[0].text}"
    if kind == TokenType.MOD and operand and following is not None:
        return _of_python(token, before, after)
    if kind == TokenType.PARAMETER and word:
        return _of_parameter(text, after[0], family)
    if kind == TokenType.VAR and text.startswith("$"):
        known = KINDS[family].placeholders
        return text if "$x" in known or ("$1" in known and text[1:].isdigit()) else None
    return None


def _expects_operand(behind: Sequence[Token]) -> bool:
    """Whether an operand must follow, so that a `%` or `?` is not an operator."""
    if not behind or behind[-1].token_type in _LITERALS:
        return not behind
    if not re.fullmatch(r"\w[\w$]*", behind[-1].text):
        return True
    named = len(behind) > 1 and behind[-2].text in (".", "::")
    return not named and behind[-1].text.lower() in _EXPECTS_OPERAND


def _of_python(token: Token, before: Token | None, after: Sequence[Token]) -> str | None:
    """`%s` and `%(name)s`, as Python's drivers write them."""
    if before is not None and before.token_type == TokenType.LT and before.end + 1 == token.start:
        return None  # <% of pg_trgm
    if after[0].text == "s":
        return "%s"
    named = len(after) == 3 and after[0].token_type == TokenType.L_PAREN and after[2].token_type == TokenType.R_PAREN
    return f"%({after[1].text})s" if named else None


def _of_parameter(sign: str, name: Token, family: str) -> str | None:
    """`$1` of PostgreSQL, `@x` of SQLite."""
    known = KINDS[family].placeholders
    numbered = sign == "$" and name.token_type == TokenType.NUMBER and "$1" in known
    return f"{sign}{name.text}" if numbered or (sign == "@" and "@x" in known) else None
