"""Capture in MariaDB and MySQL: three triggers of one table, made while it is locked for writers.

No statement here that makes or drops something is part of a transaction, so an installation that fails drops what it
made. Its triggers are made under LOCK TABLES: no write meets some of them without the others.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from poller.databases import capture as common
from poller.databases.capture import (
    Busy,
    CapturePlan,
    CaptureRefusal,
    CaptureRequest,
    Quoter,
    Record,
    Registered,
    Removed,
    Standing,
    run,
)
from poller.databases.errors import codes
from poller.databases.pruning import Rules
from poller.databases.urls import use_utf8mb4

_BUSY = frozenset({1205, 1213, 3572})
_DENIED = frozenset({1044, 1142, 1143, 1227, 1370})
_BINARY_LOG = 1419
_CHANGE_BYTES, _WRITE_MICROSECONDS = 90, 5.0
"""The cost of a change without its rows, measured on MariaDB 10.11: 8 columns, 10,000 rows by one statement."""
_CAPTURES = """CREATE TABLE IF NOT EXISTS {captures} (change_table varchar(64) NOT NULL PRIMARY KEY,
  source varchar(64) NOT NULL, source_made datetime NULL, key_columns longtext NOT NULL, columns longtext NOT NULL,
  with_old tinyint NOT NULL, excluded longtext NOT NULL, accepted longtext NOT NULL,
  columns_since bigint unsigned NOT NULL DEFAULT 0, made_at timestamp(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
  removed_at datetime(6) NULL, pruned_through bigint unsigned NOT NULL DEFAULT 0)
  ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"""
_CHANGES = """CREATE TABLE {changes} (id bigint unsigned NOT NULL AUTO_INCREMENT PRIMARY KEY,
  at timestamp(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6), op char(1) CHARACTER SET ascii NOT NULL,
  old longtext CHARACTER SET utf8mb4 NULL, new longtext CHARACTER SET utf8mb4 NULL) ENGINE = InnoDB"""


class MySqlCapture:
    """See `poller.databases.capture.Capture`."""

    def __init__(self, connection: Connection, wanted: CaptureRequest) -> None:
        self._connection = connection
        self._wanted = wanted
        self._quote = quote = Quoter(connection, literal)
        use_utf8mb4(connection.connection.dbapi_connection)
        quotes = ",ANSI_QUOTES" if quote("a").startswith('"') else ""  # as the server has it by default
        run(connection, f"SET SESSION sql_mode = 'STRICT_TRANS_TABLES{quotes}'")  # triggers keep it

    def plan(self) -> CapturePlan:
        """See `Capture.plan`."""
        return self._planned(self._site())

    def install(self) -> CapturePlan:
        """See `Capture.install`."""
        with self._alone():
            site = self._site()
            plan = self._planned(site)
            if plan.standing == "absent":  # denied to a user who could not take back what fails
                run(self._connection, f"DROP TABLE IF EXISTS {self._quote(site.schema, 'poller_no_table')}")
            try:
                for statement in plan.statements:
                    run(self._connection, statement)
            except BaseException:
                with contextlib.suppress(SQLAlchemyError):
                    run(self._connection, "UNLOCK TABLES")
                if plan.standing == "absent":
                    self._undo(site)
                elif plan.standing == "removed":
                    self._drop_triggers(site)
                raise
        return plan

    def _undo(self, site: MySqlSite) -> None:
        """Drop what the installation made before it failed. Raises nothing of the driver's."""
        self._drop_triggers(site)
        with contextlib.suppress(SQLAlchemyError):
            run(self._connection, f"DROP TABLE IF EXISTS {site.changes}")
        if not site.captures_there:
            with contextlib.suppress(SQLAlchemyError):
                run(self._connection, f"DROP TABLE {site.captures}")
        else:
            with contextlib.suppress(SQLAlchemyError):
                row = f"WHERE change_table = {literal(site.changes_name)}"
                run(self._connection, f"DELETE FROM {site.captures} {row}")  # noqa: S608

    def _drop_triggers(self, site: MySqlSite) -> None:
        """Drop our triggers of this table. Raises nothing of the driver's."""
        for statement in site.triggers_dropped():
            with contextlib.suppress(SQLAlchemyError):
                run(self._connection, statement)

    def remove(self, *, changes: bool) -> Removed:
        """See `Capture.remove`."""
        with self._alone():
            site = self._site()
            if site.registered is None:
                raise common.not_installed(site.what, self._wanted.poller)
            there = not site.registered.removed
            row = f"WHERE change_table = {literal(site.changes_name)}"
            for statement in site.strays_dropped():
                run(self._connection, statement)
            if site.changes_there:
                run(self._connection, _locks(site))
            try:
                if there and site.changes_there:  # first: a reader may see no triggers
                    run(self._connection, f"INSERT INTO {site.changes} (op) VALUES ('X')")  # noqa: S608
                    run(self._connection, f"UPDATE {site.captures} SET removed_at = now(6) {row}")  # noqa: S608
                for statement in site.triggers_dropped():
                    run(self._connection, statement)
            finally:
                run(self._connection, "UNLOCK TABLES")
            if changes:
                common.forget(self._connection, site.changes, site.captures, row)
        return Removed(site.what, site.changes_shown, there, changes)

    @contextmanager
    def record(self, most: int) -> Iterator[Record]:
        """See `Capture.record`."""
        run(self._connection, "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        run(self._connection, "START TRANSACTION WITH CONSISTENT SNAPSHOT")
        try:
            site = self._site()
            if site.registered is None or site.registered.removed:
                raise common.not_installed(site.what, self._wanted.poller)
            newest = run(self._connection, f"SELECT coalesce(max(id), 0) FROM {site.changes}").scalar_one()  # noqa: S608
            yield Record(
                table=site.what,
                changes=site.changes_shown,
                key=site.key,
                since=site.registered.columns_since,
                replaces=False,
                rows_of_changes=common.changes_after(
                    self._connection,
                    f"SELECT id, op, old, new FROM {site.changes}",  # noqa: S608
                    newest - most,
                ),
                rows=self._rows(site),
            )
        finally:
            with contextlib.suppress(SQLAlchemyError):
                run(self._connection, "ROLLBACK")

    def _rows(self, site: MySqlSite) -> Iterator[str]:
        streamed = self._connection.execution_options(stream_results=True, max_row_buffer=common.PAGE)
        found: Any = run(streamed, f"SELECT {site.row('t', site.captured)} FROM {site.source} AS t")  # noqa: S608
        for (text,) in found:
            yield text if isinstance(text, str) else text.decode()

    def _site(self) -> MySqlSite:
        return MySqlSite(self._connection, self._wanted, self._quote)

    def _planned(self, site: MySqlSite) -> CapturePlan:
        site.check()
        columns = ", ".join(map(self._quote, site.captured))  # an invisible one is in no *
        standing, gap = site.standing()
        return CapturePlan(
            table=site.what,
            changes=site.changes_shown,
            key=site.key,
            columns=tuple(site.captured),
            old=site.old,
            standing=standing,
            gap=gap,
            statements=tuple(self._statements(site, gap)),
            warnings=tuple(site.warnings()),
            cost=common.estimated(
                self._connection,
                f"(SELECT {columns} FROM {site.source} LIMIT {common.SAMPLED}) AS t",  # noqa: S608
                f"octet_length({site.row('t', site.captured)})",
                len(site.captured),
                old=site.old,
                change=_CHANGE_BYTES,
                write=_WRITE_MICROSECONDS,
            ),
        )

    def _statements(self, site: MySqlSite, gap: str | None) -> Iterator[str]:
        if not site.captures_there:
            yield _CAPTURES.format(captures=site.captures)
        if site.registered is None:  # an installation that is interrupted is gone on with
            yield self._registration(site, "now(6)")
        if not site.changes_there:
            yield _CHANGES.format(changes=site.changes)
        yield from site.strays_dropped()
        yield _locks(site)
        if gap is not None:  # first: once the triggers are there, nothing shows it any more
            yield f"INSERT INTO {site.changes} (op) VALUES ('X')"  # noqa: S608
        yield from site.triggers_made()
        yield self._registration(site)
        yield "UNLOCK TABLES"

    def _registration(self, site: MySqlSite, removed: str = "NULL") -> str:
        values = {
            "change_table": literal(site.changes_name),
            "source": literal(site.table),
            "source_made": "NULL" if site.made is None else literal(str(site.made)),
            "key_columns": literal(json.dumps(site.key)),
            "columns": literal(json.dumps(site.columns)),
            "with_old": str(int(site.old)),
            "excluded": literal(json.dumps(site.excluded)),
            "accepted": literal(json.dumps(site.accepted)),
            "columns_since": common.columns_since(site.registered, site.columns, site.changes),
            "removed_at": removed,
        }
        names = [self._quote(name) for name in values]
        changed = ", ".join(f"{name} = VALUES({name})" for name in names[1:])
        return (
            f"INSERT INTO {site.captures} ({', '.join(names)}) VALUES ({', '.join(values.values())}) "  # noqa: S608
            f"ON DUPLICATE KEY UPDATE {changed}"
        )

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """One installation at a time, which waits a short time for writers. Raises: Busy; Refusal, if the server
        denies a right."""
        run(self._connection, f"SET SESSION lock_wait_timeout = {max(1, round(common.LOCK_SECONDS))}")
        run(self._connection, f"SET SESSION innodb_lock_wait_timeout = {max(1, round(common.LOCK_SECONDS))}")
        seconds = max(1, round(common.LOCK_SECONDS))
        if not run(self._connection, f"SELECT get_lock('poller capture', {seconds})").scalar_one():
            raise Busy
        try:
            yield
        except DBAPIError as error:
            number = codes(error.orig)[1]
            if number in _BUSY:
                raise Busy from None
            if number == _BINARY_LOG:
                raise CaptureRefusal(
                    f"{self._wanted.table}: the user may not create triggers (1419): the server writes a binary log.",
                    next_step="Set log_bin_trust_function_creators = 1, or use a user with SUPER: --url-env SETTING.",
                ) from None
            if number in _DENIED:
                raise CaptureRefusal(
                    f"{self._wanted.table}: the user may not create triggers ({number}): CREATE, DROP, TRIGGER, LOCK "
                    "TABLES, SELECT, INSERT, UPDATE and DELETE on the database are needed.",
                    next_step="Grant them, or name a setting with the URL of a user who has them: --url-env SETTING.",
                ) from None
            raise
        finally:
            with contextlib.suppress(SQLAlchemyError):
                run(self._connection, "SELECT release_lock('poller capture')")


def _locks(site: MySqlSite) -> str:
    return f"LOCK TABLES {site.source} WRITE, {site.changes} WRITE, {site.captures} WRITE"


# ------------------------------------------------------------------------------------------------------------ the table
# The table that is captured, the names beside it, what was installed there, and what refuses it.

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
class MySqlRegistered(Registered):
    """Also when the table was made, if the server says it."""

    made: Any


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
        self.changes_shown = f"{self.schema}.{self.changes_name}"
        self.changes = quote(self.schema, self.changes_name)
        self.captures = quote(self.schema, common.CAPTURES)
        self.source = quote(self.schema, self.table)
        self.names = {tail: common.named("poller_capture_{}_" + tail, self.table, LONGEST) for tail in ("d", "u", "i")}
        self.changes_there = self._is_there(self.changes_name)
        self.captures_there = self._is_there(common.CAPTURES)
        triggers: Any = connection.execute(_TRIGGERS, of).all()
        self.triggers = {str(name): (str(on), str(definer)) for name, on, definer in triggers}
        self.registered = self._registered()
        self.old, self.excluded, self.accepted = common.settled(wanted, self.registered, self.columns)
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
        return None if found is None else MySqlRegistered.of_json(found[1:], made=found[0])

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
        ours = {self.triggers[name][1] for name in self.names.values() if name in self.triggers}
        for definer in sorted(ours):
            if self._is_gone(definer):
                yield f"{self.what}: the user {definer}, who installed it, is gone, and all writes fail: run --install."
        yield f"{self.what}: TRUNCATE fires no trigger: take the right DROP from writers."
        yield f"{self.what}: UPDATE IGNORE fires triggers also for rows that it leaves as they were."
        yield f"{self.what}: if the user {self.user}, who installs, is dropped, all writes of the table fail (1449)."
        if self.is_partitioned:
            yield f"{self.what}: partitions that are dropped, truncated or exchanged are no changes of rows."
        for name, rule in self.cascades:
            yield f"{self.what}: what the foreign key {name} ({rule}) changes is not captured, as was accepted."

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


# -------------------------------------------------------------------------------------------------------------- pruning

PRUNING = Rules(
    chunk=5000,
    spared=1000,
    session=(
        "SET SESSION time_zone = '+00:00'",
        "SET SESSION innodb_lock_wait_timeout = 10",
        "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
    ),
    begin=("START TRANSACTION",),
    lock=True,
    older="at < now(6) - INTERVAL :age SECOND",
    size="SELECT data_length + index_length FROM information_schema.tables"
    " WHERE table_schema = coalesce(:schema, database()) AND table_name = :table",
)
"""Under REPEATABLE READ, or up to the newest row, the end of the index would be locked, and writers would wait for
it."""
