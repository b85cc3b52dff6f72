"""The table that is captured, the names beside it, what was installed there, and what refuses it."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection
from sqlalchemy.exc import DBAPIError

from poller.databases import capture as common
from poller.databases.capture import CaptureRefusal, CaptureRequest, Quoter, Standing

LONGEST = 64
_TABLE = sa.text(
    "SELECT table_schema, table_name, table_type, engine, create_time, current_user() FROM information_schema.tables "
    "WHERE table_schema = coalesce(:schema, database()) AND table_name = :table"
)
_COLUMNS = sa.text(
    "SELECT column_name, data_type, column_type, character_set_name, collation_name FROM information_schema.columns "
    "WHERE table_schema = :schema AND table_name = :table ORDER BY ordinal_position"
)
_KEY = sa.text(
    "SELECT column_name FROM information_schema.statistics WHERE table_schema = :schema AND table_name = :table "
    "AND index_name = 'PRIMARY' ORDER BY seq_in_index"
)
_CASCADES = sa.text(
    "SELECT constraint_name, delete_rule, update_rule FROM information_schema.referential_constraints "
    "WHERE constraint_schema = :schema AND table_name = :table "
    "AND (delete_rule NOT IN ('NO ACTION', 'RESTRICT') OR update_rule NOT IN ('NO ACTION', 'RESTRICT'))"
)
_TRIGGERS = sa.text(
    "SELECT trigger_name, event_object_table, definer FROM information_schema.triggers WHERE trigger_schema = :schema"
)
_USER = sa.text("SELECT count(*) FROM mysql.user WHERE concat(user, '@', host) = :user")
_PARTITIONS = sa.text(
    "SELECT count(*) FROM information_schema.partitions WHERE table_schema = :schema AND table_name = :table "
    "AND partition_name IS NOT NULL"
)
_EXACT = frozenset({"decimal", "double", "time", "datetime", "date", "year"})
BYTES = frozenset({"binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"})
SHAPES = frozenset(
    {
        "geometry",
        "point",
        "linestring",
        "polygon",
        "multipoint",
        "multilinestring",
        "multipolygon",
        "geometrycollection",
        "geomcollection",
    }
)
_NO_JSON = (1054, 1301, 1292, 1300, 1366, 4078, 4079)
"""What the server says if a row is no JSON: an unknown column, a result that is too long, a value or a type that an
expression of ours does not take. Never an error of locks: a handler would hide it from the writer."""
_EVENTS = {"i": "INSERT", "d": "DELETE", "u": "UPDATE"}


def literal(text: str) -> str:
    """The text as a constant, whatever `sql_mode` says of backslashes."""
    if "\\" in text:
        return f"CONVERT(0x{text.encode().hex()} USING utf8mb4)"
    return "'" + text.replace("'", "''") + "'"


@dataclass(frozen=True, slots=True)
class MySqlRegistered:
    """The row of the table of captures: as it was installed."""

    made: Any
    key: tuple[str, ...]
    columns: dict[str, str]
    old: bool
    excluded: tuple[str, ...]
    accepted: tuple[str, ...]
    columns_since: int
    removed: bool


class MySqlSite:
    """The table, the names beside it, and what was installed. Raises: Refusal, if there is no such table."""

    def __init__(self, connection: Connection, wanted: CaptureRequest, quote: Quoter) -> None:
        asked = {"schema": wanted.schema, "table": wanted.table}
        found = connection.execute(_TABLE, asked).first()
        if found is None:
            raise CaptureRefusal(
                f"{wanted.table}: there is no such table that this database user can see.",
                next_step="Look at `table` and `schema` of the poller's source.",
            )
        self._connection = connection
        self.quote = quote
        self.schema, self.table, self.kind, self.engine, self.made, self.user = found
        self.what = f"{self.schema}.{self.table}"
        self.is_mariadb = bool(getattr(connection.dialect, "is_mariadb", False))
        of = {"schema": self.schema, "table": self.table}
        columns: Any = connection.execute(_COLUMNS, of).all()
        self.types = {str(name): str(kind).lower() for name, kind, *_ in columns}
        self.columns = {str(name): str(kind) for name, _, kind, *_ in columns}
        self.collations = {str(name): (str(of), str(by)) for name, _, _, of, by in columns if by is not None}
        self.key = tuple(str(name) for (name,) in connection.execute(_KEY, of))
        self.cascades = [
            (str(name), str(update if delete in ("NO ACTION", "RESTRICT") else delete))
            for name, delete, update in connection.execute(_CASCADES, of)
        ]
        self.is_partitioned = bool(connection.execute(_PARTITIONS, of).scalar_one())
        self.changes_name = common.named("poller_{}_changes", self.table, LONGEST)
        self.changes = quote(self.schema, self.changes_name)
        self.captures = quote(self.schema, common.CAPTURES)
        self.source = quote(self.schema, self.table)
        self.names = {tail: common.named("poller_capture_{}_" + tail, self.table, LONGEST) for tail in ("d", "u", "i")}
        self.changes_there = self._is_there(self.changes_name)
        self.captures_there = self._is_there(common.CAPTURES)
        triggers: Any = connection.execute(_TRIGGERS, of).all()
        self.triggers = {str(name): (str(on), str(definer)) for name, on, definer in triggers}
        self.registered = self._registered()
        before = self.registered
        self.old = wanted.old if wanted.old is not None else before is None or before.old
        self.excluded = common.left_out(wanted, () if before is None else before.excluded, self.columns)
        self.accepted = tuple(sorted({*wanted.accepted, *(() if before is None else before.accepted)}))
        self.captured = [name for name in self.columns if name not in self.excluded]

    def _is_there(self, table: str) -> bool:
        return self._connection.execute(_TABLE, {"schema": self.schema, "table": table}).first() is not None

    def _registered(self) -> MySqlRegistered | None:
        if not self.captures_there:
            return None
        captures = self.captures.replace(":", "\\:")
        question = sa.text(
            "SELECT source_made, key_columns, columns, with_old, excluded, accepted, columns_since, "  # noqa: S608
            f"removed_at IS NOT NULL FROM {captures} WHERE change_table = :changes"
        )
        found: Any = self._connection.execute(question, {"changes": self.changes_name}).first()
        if found is None:
            return None
        made, key, columns, old, excluded, accepted, since, removed = found
        return MySqlRegistered(
            made,
            tuple(json.loads(key)),
            json.loads(columns),
            bool(old),
            tuple(json.loads(excluded)),
            tuple(json.loads(accepted)),
            since,
            bool(removed),
        )

    @property
    def are_there(self) -> bool:
        """True if all our triggers are on this table."""
        return all(self.triggers.get(self.names[tail], ("",))[0] == self.table for tail in self.names)

    def standing(self) -> tuple[Standing, str | None]:
        """What is there, and why changes may have been missed."""
        before = self.registered
        if before is None:
            return "absent", None
        if before.removed:  # the gap was written then
            half = any(name in self.triggers for name in self.names.values())
            return ("damaged", "an installation was interrupted") if half else ("removed", None)
        if not self.changes_there:
            return "damaged", "the change table is missing"
        if not self.are_there:
            return "damaged", "triggers of poller are missing, or belong to another table"
        if before.key != self.key:
            return "damaged", "the key is another one"
        if gone := [name for name in before.columns if name not in self.columns and name not in before.excluded]:
            return "damaged", f"column {gone[0]} was dropped or renamed"
        return "installed", None

    def warnings(self) -> Iterator[str]:
        """What is not seen, or may go wrong."""
        before = self.registered
        if before is not None and (added := [name for name in self.captured if name not in before.columns]):
            yield f"{self.what}: column {added[0]} was added, and its values were not captured until now."
        if before is not None:
            yield from common.left_out_and_gone(self.what, before.excluded, self.columns)
        for definer in sorted(self._definers()):
            if self._is_gone(definer):
                yield f"{self.what}: the user {definer}, who installed it, is gone, and all writes fail: run --install."
        yield f"{self.what}: TRUNCATE fires no trigger: take the right DROP from writers."
        yield f"{self.what}: UPDATE IGNORE fires triggers also for rows that it leaves as they were."
        yield f"{self.what}: if the user {self.user}, who installs, is dropped, all writes of the table fail (1449)."
        if self.is_partitioned:
            yield f"{self.what}: partitions that are dropped, truncated or exchanged are no changes of rows."
        for name, rule in self.cascades:
            yield f"{self.what}: what the foreign key {name} ({rule}) changes is not captured, as was accepted."

    def _definers(self) -> set[str]:
        """The users of our triggers."""
        return {self.triggers[name][1] for name in self.names.values() if name in self.triggers}

    def _is_gone(self, user: str) -> bool:
        """True if it is known that there is no such user any more."""
        with contextlib.suppress(DBAPIError):  # the table of users is not for everybody
            return not self._connection.execute(_USER, {"user": user}).scalar_one()
        return False

    def check(self) -> None:
        """Raises: Refusal, for what cannot be captured."""
        if self.kind != "BASE TABLE":
            raise CaptureRefusal(
                f"{self.what}: it is a {self.kind.lower()}, and only tables can be captured.",
                next_step="Name the table that holds its rows.",
            )
        if str(self.engine).lower() != "innodb":
            raise CaptureRefusal(
                f"{self.what}: its engine is {self.engine}, not InnoDB, so a change would not be in its transaction.",
                next_step="Make it an InnoDB table.",
            )
        common.check_columns(self.what, list(self.columns), self.key, self.excluded)
        if self.cascades and "cascades" not in self.accepted:
            name, rule = self.cascades[0]
            raise CaptureRefusal(
                f"{self.what}: its rows are changed by the foreign key {name} ({rule}), which fires no trigger here.",
                next_step="If that may be missed, add --accept cascades.",
            )
        if self.registered is None and self.changes_there:
            raise common.foreign(self.what, f"table {self.changes_name}")

    def row(self, name: str, columns: list[str]) -> str:
        """The expression that makes JSON of a row with this name."""
        pairs = [f"{literal(one)}, {self._value(name, one)}" for one in columns]
        pairs[0] = (
            f"{literal(columns[0])} COLLATE utf8mb4_bin, {self._value(name, columns[0])}"  # whatever the others have
        )
        return f"JSON_OBJECT({', '.join(pairs)})"

    def _value(self, name: str, column: str) -> str:
        value, kind = f"{name}.{self.quote(column)}", self.types[column]
        if kind == "float":  # as text it has six digits, as a double all
            return f"CAST({value} + 0E0 AS CHAR)"
        if kind in _EXACT:
            return f"CAST({value} AS CHAR)"
        if kind in BYTES:
            return f"TO_BASE64({value})"
        if kind in SHAPES:
            return f"HEX(ST_AsWKB({value}))"
        if kind == "timestamp":
            return f"CAST(UNIX_TIMESTAMP({value}) AS CHAR)"
        if kind == "bit":
            return f"{value} + 0"
        if kind == "json":
            return f"JSON_COMPACT({value})" if self.is_mariadb else value
        return value

    def _compared(self, name: str, column: str) -> str:
        """The expression by which a key column is compared: a float has all its digits only as a double."""
        return f"{name}.{self.quote(column)}" + (" + 0E0" if self.types[column] == "float" else "")

    def body(self, tail: str) -> str:
        """What a trigger runs. It writes a gap if there is no JSON of a row: a column is gone or has another type, or
        the row is too long."""
        into = f"INSERT INTO {self.changes}"
        gap, text = f"{into} (op) VALUES ('X');", "longtext CHARACTER SET utf8mb4"
        kept, new = self.row("OLD", self.captured if self.old else list(self.key)), self.row("NEW", self.captured)
        inserted, deleted = f"{into} (op, new) VALUES ('I', n);", f"{into} (op, old) VALUES ('D', o);"
        updated = f"{into} (op, old, new) VALUES ('U', {'o' if self.old else 'NULL'}, n);"
        pairs = [(self._compared("OLD", one), self._compared("NEW", one)) for one in self.key]
        same = " AND ".join(f"CAST({a} AS BINARY) <=> CAST({b} AS BINARY)" for a, b in pairs)
        handler = f"DECLARE EXIT HANDLER FOR {', '.join(map(str, _NO_JSON))} {gap}"
        names, values, what = {
            "i": ("n", f"SET n = {new};", f"IF n IS NULL THEN {gap} ELSE {inserted} END IF;"),
            "d": ("o", f"SET o = {kept};", f"IF o IS NULL THEN {gap} ELSE {deleted} END IF;"),
            "u": (
                "o, n",
                f"SET o = {kept}, n = {new};",
                f"IF o IS NULL OR n IS NULL THEN {gap} ELSEIF {same} THEN {updated} ELSE {deleted} {inserted} END IF;",
            ),
        }[tail]
        return f"BEGIN DECLARE {names} {text}; {handler} {values} {what} END"

    def triggers_made(self) -> Iterator[str]:
        """The statements that create or renew the triggers."""
        for tail, name in self.names.items():
            quoted = self.quote(self.schema, name)
            there = self.triggers.get(name)
            replaces = self.is_mariadb and there is not None and there[0] == self.table
            if there is not None and there[0] == self.table and not replaces:
                yield f"DROP TRIGGER IF EXISTS {quoted}"
            create = "CREATE OR REPLACE" if replaces else "CREATE"
            yield f"{create} TRIGGER {quoted} AFTER {_EVENTS[tail]} ON {self.source} FOR EACH ROW {self.body(tail)}"

    def triggers_dropped(self) -> Iterator[str]:
        """The statements that drop the triggers of this table."""
        for name in self.names.values():
            if self.triggers.get(name, (self.table,))[0] == self.table:
                yield f"DROP TRIGGER IF EXISTS {self.quote(self.schema, name)}"

    def strays_dropped(self) -> Iterator[str]:
        """The statements that drop our triggers of another table: of this one, before it was renamed."""
        for name in self.names.values():
            if self.triggers.get(name, (self.table,))[0] != self.table:
                yield f"DROP TRIGGER IF EXISTS {self.quote(self.schema, name)}"
