"""The statements that `poller check` proposes for SQL Server."""

from __future__ import annotations

from typing import ClassVar

from poller.sources.checks import Checks, Examined, same_row
from poller.sources.columns import CursorColumn, Family
from poller.sources.stamping import ColumnOrigin


class SqlServerChecks(Checks):
    """Nothing is asked."""

    keys_keep_names: ClassVar[bool] = False
    plain_conditions: ClassVar[bool] = True

    def set_not_null(self, asked: Examined, column: str) -> str:
        """With its type."""
        found = asked.inspector.get_columns(asked.options.table or "", schema=asked.options.schema_name)
        kind = next((c["type"] for c in found if c["name"] == column), None)
        type_name = "" if kind is None else kind.compile(asked.database.engine.dialect) + " "
        return f"ALTER TABLE {asked.table} ALTER COLUMN {asked.name(column)} {type_name}NOT NULL;"

    def now(self, column: CursorColumn, zone: str) -> str:
        """In UTC, or an instant."""
        if column.family is Family.TIMESTAMPTZ:
            return "SYSDATETIMEOFFSET()"
        return "SYSUTCDATETIME()" if column.family is Family.TIMESTAMP and zone == "UTC" else ""

    def trigger(self, asked: Examined, found: ColumnOrigin, *, schema: str, name: str, value: str) -> str:
        """After the UPDATE, once."""
        column, table = asked.name(found.column), schema + asked.name(found.table or "")
        return (
            f"CREATE TRIGGER {schema}{name} ON {table} AFTER UPDATE AS BEGIN SET NOCOUNT ON; IF"  # noqa: S608
            f" TRIGGER_NESTLEVEL(@@PROCID) > 1 RETURN; UPDATE poller_t SET {column} = {value} FROM {table}"
            f" AS poller_t JOIN inserted AS poller_i ON {same_row(asked, 'poller_i.', 'poller_t.')}; END;"
        )


CHECKS = SqlServerChecks()
