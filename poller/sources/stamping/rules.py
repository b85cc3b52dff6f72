"""What in the database sets a column's values: defaults, ON UPDATE, triggers, generated columns."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from poller.sources.stamping.expressions import assigned, is_conditional, without_comments


@dataclass(frozen=True, slots=True)
class Watched:
    """The cursor's column as configured.

    Attributes:
        family: which family of databases. schema, table: None for a query; query: the user's SQL, None for a table.
        ignore_users: users that only read.
    """

    family: str
    schema: str | None
    table: str | None
    query: str | None
    column: str
    ignore_users: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Rule:
    """One thing that sets the column's value.

    Attributes:
        what: for people: `the column's DEFAULT now()`, `the trigger "touch"`.
        sql: the expression; None where it is not known.
        inserts, updates: when. firm: whether it always does.
        is_default: whether a trigger overrides it. zone: the session's zone while it runs, where it sets that itself.
    """

    what: str
    sql: str | None
    inserts: bool = False
    updates: bool = False
    firm: bool = True
    is_default: bool = False
    zone: str | None = None


@dataclass(frozen=True, slots=True)
class Origin:
    """The table's column behind the cursor, and what fills it.

    Attributes:
        schema, table, column: None, None and empty where it cannot be followed (an expression, a UNION).
        rules: what sets its value. hidden: what this user may not see, with the privilege that shows it.
        kind: the database's name of its type.
    """

    schema: str | None
    table: str | None
    column: str
    rules: Sequence[Rule] = ()
    hidden: str = ""
    kind: str = ""


def default(sql: str) -> Rule:
    """A column's DEFAULT."""
    return Rule(f"the column's DEFAULT {_short(sql)}", sql, inserts=True, is_default=True)


def generated(sql: str | None) -> Rule:
    """A generated column: it changes with those that it is made from."""
    return Rule("the column's generated expression", sql or None, inserts=True, updates=True)


def expression(what: str, sql: str | None) -> Rule:
    """A view's or query's expression over other columns."""
    return Rule(f"{what}{'' if sql is None else ' ' + _short(sql)}", sql, inserts=True, updates=True)


def trigger(
    name: str, body: str | None, column: str, events: str, *, to_new: bool, firm: bool = True, zone: str | None = None,
    tables: Collection[str] = (),
) -> list[Rule]:  # fmt: skip
    """What one trigger does with the column; empty where it does not touch it.

    Args:
        body: None where it may not be read. events: a text that names INSERT, UPDATE or both.
        to_new, tables: see `assigned`. firm: whether it has no condition outside of its body.
    """
    inserts, updates = "INSERT" in events.upper(), "UPDATE" in events.upper()
    if not (inserts or updates):
        return []
    what = f'the trigger "{name}"'
    found = None if body is None else assigned(body, column, to_new=to_new, tables=tables)
    if found is None:
        return [Rule(what, None, inserts, updates, firm=False)]
    firm = firm and not is_conditional(body or "")
    return [Rule(what, sql, inserts, updates, firm=firm, zone=zone) for sql in found]


def _short(sql: str) -> str:
    text = " ".join(without_comments(sql).split())
    return text if len(text) <= 60 else text[:57] + "..."
