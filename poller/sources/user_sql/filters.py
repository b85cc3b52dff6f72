"""The user's SQL, checked before it becomes part of ours (sources.md, "The page query").

This guards against mistakes (an OR beside the cursor's condition, a comment that hides the rest), not against the
person who writes the configuration.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from poller.databases.kinds import KINDS
from poller.errors import ConfigError
from poller.sources import user_sql
from poller.sources.user_sql import escape_colons

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
    """True if there is a comment at the end that no token holds (sqlglot drops it in some dialects)."""
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


# --------------------------------------------------------------------------------------------------------- placeholders
# Placeholders in the user's SQL: no value is bound to them, so the server would refuse the statement, or worse.
# What counts as one differs between databases: `?` is an operator of PostgreSQL's JSON, `$1` an amount of money in
# SQL Server, `@x` a variable of MySQL and SQL Server and the absolute value in PostgreSQL. The tokenizer
# distinguishes texts, quoted names and casts (`::`).

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
    """True if an operand must follow, so that a `%` or `?` is not an operator."""
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


# ------------------------------------------------------------------------------------------------------- limits of rows
# A query that returns only some rows (LIMIT, FETCH, OFFSET, TOP, TABLESAMPLE, ROWNUM): pages would read only those,
# and all others would never be read.
# Such a limit is looked for in the query itself, in each branch of a UNION, and in the subqueries and WITH clauses that
# the cursor column comes from. Elsewhere it is a condition like any other: in a scalar or LATERAL subquery, after IN or
# EXISTS, in a table that is only joined.

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
    sources = user_sql.read_by(select)
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
