"""A filter that few rows pass: the checkpoint is at the last row that did, and every page and every measurement of the
lag reads all rows after it, only to leave them out, unless an index contains the filter too."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from sqlalchemy.exc import DBAPIError

from poller.model.finding import Finding, ok, warn
from poller.sources import user_sql
from poller.sources.checkup.subject import PAGE, SMALL, Subject
from poller.sources.faults import Fault

_SIMPLE = frozenset(
    (
        *("Column", "Identifier", "Literal", "Boolean", "Null", "Paren", "Neg"),
        *("And", "Or", "Not", "EQ", "NEQ", "GT", "GTE", "LT", "LTE", "Is", "In"),
    )
)
"""What an index may contain after WHERE: columns and values, and nothing whose result may change."""
_VARIES = re.compile("Current|Utc|Local|Rand|Uuid|Anonymous|Parameter|SessionParameter|Select")
"""What a generated column of MySQL may not contain: clocks, variables, subqueries, random or unknown functions."""
_A_COLUMN = "Add a column to the table that holds the result of `filter`, and an index on it, the cursor and the key."


def selective(subject: Subject) -> list[Finding]:
    """How many rows an idle page reads, measured where the database reports it."""
    if subject.options.filter is None or subject.session.learn() is None:
        return []
    try:
        read = _read_and_dropped(subject)
    except DBAPIError as error:
        if subject.session.database.dialect.classify(error) is not Fault.TIMEOUT:
            raise
        text = "A page after the last row that passes `filter` is not read within `query_timeout`."
        return [warn("filter", text, index_for_filter(subject))]
    if not read:
        return [ok("filter", "few rows follow the last one that passes `filter`, or an index leaves the others out")]
    text = f"With no new rows, every page reads {read} rows after the last one that passes `filter`, and drops them."
    return [warn("filter", text, index_for_filter(subject))]


def _read_and_dropped(subject: Subject) -> str:
    """How many rows the idle page reads, in words; empty where they are few."""
    statements = subject.session.statements()
    last = subject.idle
    if subject.rows_after(last) <= SMALL:
        return ""
    count = 0
    for interval in statements.ranges(last, None):
        sql, params = statements.select(interval, PAGE)
        count += _MEASURES.get(subject.family, _by_index)(subject, sql, params)
    if count <= SMALL:
        return ""
    return f"{SMALL:,} or more" if subject.family not in _MEASURES else f"{count:,}"


def plan_nodes(explained: Any) -> Iterator[dict[str, Any]]:
    """All nodes of a plan that PostgreSQL explained as JSON."""
    nodes = [part["Plan"] for part in (json.loads(explained) if isinstance(explained, str) else explained)]
    while nodes:
        node = nodes.pop()
        nodes += node.get("Plans", [])
        yield node


def _removed(subject: Subject, sql: str, params: dict[str, Any]) -> int:
    """PostgreSQL: the rows that it read and a filter removed."""
    found = subject.run(f"EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) {sql}", params).rows[0][0]
    return sum(int(node.get("Rows Removed by Filter", 0) * node.get("Actual Loops", 1)) for node in plan_nodes(found))


def _handled(subject: Subject, sql: str, params: dict[str, Any]) -> int:
    """MySQL and MariaDB: the rows that the storage engine returned."""
    counters = "SHOW STATUS LIKE 'Handler_read%'"
    before = sum(int(row[1]) for row in subject.run(counters).rows)
    found = len(subject.run(sql, params).rows)
    after = sum(int(row[1]) for row in subject.run(counters).rows)
    asked = sum(int(row[1]) for row in subject.run(counters).rows) - after
    return max(0, after - before - asked - found)


_MEASURES = {"postgresql": _removed, "mysql": _handled}


def _by_index(subject: Subject, sql: str, params: dict[str, Any]) -> int:
    """Where the database reports no number: 0 where an index contains the filter, else more than `SMALL`."""
    if subject.family == "sqlite":
        steps = [str(row[3]) for row in subject.run(f"EXPLAIN QUERY PLAN {sql}", params).rows]
        partial = {
            str(row[1])
            for row in subject.run(f"PRAGMA index_list({subject.table.replace(':', chr(92) + ':')})").rows
            if row[4]
        }
        order = {name.lower() for name in subject.order}
        for step in steps:
            index = step.partition(" INDEX ")[2].partition(" (")
            compared = {part.partition("=")[0].strip(" ()<>?").lower() for part in index[2].split(" AND ")}
            if index[0].strip() in partial or compared - order - {""}:
                return 0
    return SMALL + 1


def indexable(text: str, family: str) -> bool:
    """Whether a partial index can contain the filter."""
    names = _parts(text, family)
    return bool(names) and names <= _SIMPLE - ({"Or", "Not"} if family == "mssql" else set())


def _parts(text: str, family: str) -> set[str]:
    """Sqlglot's names of a filter's parts; empty where it cannot be parsed."""
    try:
        return {type(node).__name__ for node in user_sql.parse(text, family, condition=True).walk()}
    except user_sql.Unreadable:
        return set()


def same_condition(one: str, other: str, family: str) -> bool:
    """Whether two conditions are the same text but for casts, parentheses and quotes, which PostgreSQL adds to the
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

    parts = list(tree.flatten()) if isinstance(tree, exp.And) else [tree]
    equal = [part for part in parts if isinstance(part.unnest(), exp.EQ)]
    names = [part.unnest().this.name for part in equal if isinstance(part.unnest().this, exp.Column)]
    values = [part for part in equal if isinstance(part.unnest().expression, exp.Literal)]
    return names if len(names) == len(values) == len(parts) else []


def index_for_filter(subject: Subject) -> str:
    """The statement that creates an index containing the filter, as the database supports it, or what to do instead."""
    text = (subject.options.filter or "").strip()
    if subject.options.table is None or not subject.is_base_table:
        return "Create an index on the table that begins with the columns that `filter` compares, or is limited to it."
    if subject.family == "mysql":
        columns = compared(text, "mysql")
        if columns:
            return subject.create_index([*(name for name in columns if name not in subject.order), *subject.order])
        index = subject.create_index(["poller_takes", *subject.order])
        if any(map(_VARIES.match, _parts(text, "mysql"))):
            return _A_COLUMN
        return (
            f"ALTER TABLE {subject.table} ADD COLUMN poller_takes boolean GENERATED ALWAYS AS ({text}) VIRTUAL; {index}"
            ' Then filter = "poller_takes = 1", and `poller rebind`.'
        )
    if subject.family in ("postgresql", "sqlite", "mssql") and indexable(text, subject.family):
        return subject.create_index(subject.order, where=text)
    return _A_COLUMN
