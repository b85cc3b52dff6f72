"""A filter that few rows pass: the checkpoint stands at the last row that did, and every page and every look at the lag
reads all rows after it, only to leave them out, unless an index holds the filter too."""

from __future__ import annotations

import json
import re
from typing import Any

from sqlalchemy.exc import DBAPIError

from poller.model.finding import Finding, ok, warn
from poller.sources import user_sql
from poller.sources.checkup.subject import PAGE, SMALL, Subject
from poller.sources.dialects.faults import Fault

_SIMPLE = frozenset(
    (
        *("Column", "Identifier", "Literal", "Boolean", "Null", "Paren", "Neg"),
        *("And", "Or", "Not", "EQ", "NEQ", "GT", "GTE", "LT", "LTE", "Is", "In"),
    )
)
"""What an index may say after WHERE: columns and values, and nothing whose result may change."""
_VARIES = re.compile("Current|Utc|Local|Rand|Uuid|Anonymous|Parameter|SessionParameter|Select")
"""What a generated column of MySQL may not say: a clock, a variable, a subquery, what chance gives, who knows."""
_A_COLUMN = "Give the table a column that holds what `filter` asks, and an index on that, the cursor and the key."


def selective(subject: Subject) -> list[Finding]:
    """What an idle page reads, measured where the database tells it."""
    if subject.options.filter is None or subject.session.learn() is None:
        return []
    try:
        read = _read_in_vain(subject)
    except DBAPIError as error:
        if subject.session.database.dialect.classify(error) is not Fault.TIMEOUT:
            raise
        text = "A page after the last row that `filter` takes is not read within `query_timeout`."
        return [warn("filter", text, index_for_filter(subject))]
    if not read:
        return [
            ok("filter", "few rows stand after the last one that `filter` takes, or an index leaves the others out")
        ]
    text = (
        f"With nothing new, every page reads {read} rows after the last one that `filter` takes, and leaves them out."
    )
    return [warn("filter", text, index_for_filter(subject))]


def _read_in_vain(subject: Subject) -> str:
    """How many rows the idle page reads, in words; empty where they are few."""
    statements = subject.session.statements()
    last = subject.idle
    if subject.rows_after(last) <= SMALL:
        return ""
    count = 0
    for stretch in statements.ranges(last, None):
        sql, params = statements.select(stretch, PAGE)
        count += _MEASURES.get(subject.family, _by_index)(subject, sql, params)
    if count <= SMALL:
        return ""
    return f"{SMALL:,} or more" if subject.family not in _MEASURES else f"{count:,}"


def _removed(subject: Subject, sql: str, params: dict[str, Any]) -> int:
    """PostgreSQL: the rows that it read and a filter removed."""
    found = subject.run(f"EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) {sql}", params).rows[0][0]
    nodes = [part["Plan"] for part in (json.loads(found) if isinstance(found, str) else found)]
    removed = 0
    while nodes:
        node = nodes.pop()
        nodes += node.get("Plans", [])
        removed += int(node.get("Rows Removed by Filter", 0) * node.get("Actual Loops", 1))
    return removed


def _handled(subject: Subject, sql: str, params: dict[str, Any]) -> int:
    """MySQL and MariaDB: the rows that the storage engine gave."""
    counters = "SHOW STATUS LIKE 'Handler_read%'"
    before = sum(int(row[1]) for row in subject.run(counters).rows)
    found = len(subject.run(sql, params).rows)
    after = sum(int(row[1]) for row in subject.run(counters).rows)
    asked = sum(int(row[1]) for row in subject.run(counters).rows) - after
    return max(0, after - before - asked - found)


_MEASURES = {"postgresql": _removed, "mysql": _handled}


def _by_index(subject: Subject, sql: str, params: dict[str, Any]) -> int:
    """Where the database tells no number: whether an index holds the filter, and else that all rows are read."""
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
    """Whether an index can say a filter after its own WHERE."""
    names = _parts(text, family)
    return bool(names) and names <= _SIMPLE - ({"Or", "Not"} if family == "mssql" else set())


def _parts(text: str, family: str) -> set[str]:
    """What a filter is made of, in sqlglot's words; empty where it cannot be read."""
    try:
        return {type(node).__name__ for node in user_sql.parse(text, family, condition=True).walk()}
    except user_sql.Unreadable:
        return set()


def _compared(text: str) -> list[str]:
    """The columns that a filter wants to be equal to a value, where it says nothing else; empty otherwise."""
    try:
        tree = user_sql.parse(text, "mysql", condition=True)
    except user_sql.Unreadable:
        return []
    from sqlglot import exp

    parts = list(tree.flatten()) if isinstance(tree, exp.And) else [tree]
    equal = [part for part in parts if isinstance(part.unnest(), exp.EQ)]
    names = [part.unnest().this.name for part in equal if isinstance(part.unnest().this, exp.Column)]
    values = [part for part in equal if isinstance(part.unnest().expression, exp.Literal)]
    return names if len(names) == len(values) == len(parts) else []


def index_for_filter(subject: Subject) -> str:
    """The statement that makes an index that holds the filter, in the database's own way, or what to do instead."""
    text = (subject.options.filter or "").strip()
    if subject.options.table is None or not subject.is_base_table:
        return (
            "Give the table that `filter` reads an index that begins with the columns it compares, or is limited to it."
        )
    if subject.family == "mysql":
        columns = _compared(text)
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
