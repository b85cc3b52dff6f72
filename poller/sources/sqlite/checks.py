"""What `poller check` asks SQLite in particular, and the statements that it proposes there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from poller.sources.checks import SMALL, Checks, Examined, Explained, same_row
from poller.sources.page import Params, Query
from poller.sources.stamping import ColumnOrigin


class SqliteChecks(Checks):
    """Plans in words."""

    quotes_defaults: ClassVar[bool] = True
    keys_keep_names: ClassVar[bool] = False

    def slow_parts(self, asked: Examined, query: Query, params: Params) -> list[str] | None:
        """Scans without an index, and sorts."""
        details = [str(row[3]) for row in asked.run(Explained("EXPLAIN QUERY PLAN", query), params).rows]
        return [d for d in details if "USE TEMP B-TREE" in d or (d.startswith("SCAN") and "USING" not in d)]

    def dropped(self, asked: Examined, query: Query, params: Params) -> int:
        """0 if an index contains the filter."""
        steps = [str(row[3]) for row in asked.run(Explained("EXPLAIN QUERY PLAN", query), params).rows]
        listed = asked.run(f"PRAGMA index_list({asked.table.replace(':', chr(92) + ':')})").rows
        partial = {str(row[1]) for row in listed if row[4]}
        order = {name.lower() for name in asked.order}
        for step in steps:
            index = step.partition(" INDEX ")[2].partition(" (")
            compared = {part.partition("=")[0].strip(" ()<>?").lower() for part in index[2].split(" AND ")}
            if index[0].strip() in partial or compared - order - {""}:
                return 0
        return SMALL + 1

    def implied(self, primary: Sequence[str]) -> Sequence[str]:
        """The row's number, which one key column may be, is at the end of every index."""
        return primary if len(primary) == 1 else ()

    def set_not_null(self, asked: Examined, column: str) -> str:
        """There is no statement for it."""
        return f"Create the table again with {column} NOT NULL: SQLite cannot add that to a column."

    def trigger(self, asked: Examined, found: ColumnOrigin, *, schema: str, name: str, value: str) -> str:
        """Where triggers are recursive, it ends with its own UPDATE: that leaves nothing to set."""
        column, table = asked.name(found.column), asked.name(found.table or "")
        return (
            f"CREATE TRIGGER {schema}{name} AFTER UPDATE ON {table} FOR EACH ROW"  # noqa: S608
            f" WHEN NEW.{column} IS OLD.{column} AND NEW.{column} IS NOT {value} BEGIN UPDATE"
            f" {table} SET {column} = {value} WHERE {same_row(asked, 'NEW.')}; END;"
        )


CHECKS = SqliteChecks()
