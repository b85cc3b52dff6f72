"""What stands in a filter: whether an index can contain it, which columns it compares, which other text it is."""

from __future__ import annotations

from typing import Any

from poller.sources import user_sql

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
        return {type(node).__name__ for node in user_sql.parse(text, family, condition=True).walk()}
    except user_sql.Unreadable:
        return set()


def same_condition(one: str, other: str, family: str) -> bool:
    """True if two conditions are the same text but for casts, parentheses and quotes, which PostgreSQL adds to the
    condition of an index. False where one cannot be parsed."""
    try:
        return bool(_bare(one, family) == _bare(other, family))
    except user_sql.Unreadable:
        return False


def _bare(text: str, family: str) -> Any:
    from sqlglot import exp

    tree = user_sql.parse(text, family, condition=True)
    for node in reversed(list(tree.bfs())):  # what is inside first
        if isinstance(node, exp.Cast | exp.Paren):
            tree = node.this if node is tree else tree
            node.replace(node.this)
        elif isinstance(node, exp.Identifier):
            node.set("this", node.name.lower())
            node.set("quoted", False)
    return tree


def compared(text: str, family: str) -> list[str]:
    """The columns that a filter compares with a value for equality, where it does nothing else; empty otherwise."""
    try:
        tree = user_sql.parse(text, family, condition=True).unnest()
    except user_sql.Unreadable:
        return []
    from sqlglot import exp

    found = list(tree.flatten()) if isinstance(tree, exp.And) else [tree]
    equal = [part for part in found if isinstance(part.unnest(), exp.EQ)]
    names = [part.unnest().this.name for part in equal if isinstance(part.unnest().this, exp.Column)]
    values = [part for part in equal if isinstance(part.unnest().expression, exp.Literal)]
    return names if len(names) == len(values) == len(found) else []
