"""Capture in SQLite: four triggers of one table, made in one transaction.

The trigger that was created last fires first, so ours are created again whenever another one came after them. A blob is
{"hex": ...} in a change and a real {"real": ...}: JSON has no blobs, and its numbers would lose digits.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection
from sqlalchemy.exc import DBAPIError

from poller.databases import capture as common
from poller.databases.capture import (
    Busy,
    CapturePlan,
    CaptureRefusal,
    CaptureRequest,
    ChangeRow,
    Quoter,
    Record,
    Registered,
    Removed,
    Standing,
    run,
    transaction,
)
from poller.databases.pruning import Rules

_CHANGE_BYTES, _WRITE_MICROSECONDS = 70, 1.0
"""The cost of a change without its rows, measured on SQLite 3.40: 8 columns, 10,000 rows by one statement."""


class SqliteCapture:
    """See `poller.databases.capture.Capture`."""

    def __init__(self, connection: Connection, wanted: CaptureRequest) -> None:
        self._connection = connection
        self._wanted = wanted
        self._quote = Quoter(connection, literal)

    def plan(self) -> CapturePlan:
        """See `Capture.plan`."""
        with transaction(self._connection, "BEGIN"):
            return self._planned()

    def install(self) -> CapturePlan:
        """See `Capture.install`."""
        with self._writing():
            plan = self._planned()
            for statement in plan.statements:
                run(self._connection, statement)
        return plan

    def remove(self, *, changes: bool) -> Removed:
        """See `Capture.remove`."""
        with self._writing():
            site = self._site()
            if site.registered is None:
                raise common.not_installed(site.table, self._wanted.poller)
            there = not site.registered.removed
            for name in site.wanted:
                run(self._connection, f"DROP TRIGGER IF EXISTS {self._quote(name)}")
            row = f"WHERE change_table = {literal(site.changes_name)}"
            if changes:
                common.forget(self._connection, site.changes, common.CAPTURES, row)
            elif there and site.changes_there:
                run(self._connection, f"INSERT INTO {site.changes} (op) VALUES ('X')")  # noqa: S608
                now = "strftime('%Y-%m-%dT%H:%M:%fZ', 'now')"
                run(self._connection, f"UPDATE poller_captures SET removed_at = {now} {row}")  # noqa: S608
        return Removed(site.table, site.changes_name, there, changes)

    @contextmanager
    def record(self, most: int) -> Iterator[Record]:
        """See `Capture.record`."""
        with transaction(self._connection, "BEGIN"):
            site = self._site()
            if site.registered is None or site.registered.removed:
                raise common.not_installed(site.table, self._wanted.poller)
            newest = run(self._connection, f"SELECT coalesce(max(id), 0) FROM {site.changes}").scalar_one()  # noqa: S608
            yield Record(
                table=site.table,
                changes=site.changes_name,
                key=site.key,
                since=site.registered.columns_since,
                replaces=True,
                rows_of_changes=self._changes(site, newest - most),
                rows=self._rows(site),
            )

    def _changes(self, site: SqliteSite, after: int) -> Iterator[ChangeRow]:
        columns, encoding = "SELECT id, op, CAST(old AS BLOB), CAST(new AS BLOB) FROM", self._encoding()
        found: Any = run(self._connection, f"{columns} {site.changes} WHERE id > {after} ORDER BY id")
        for row in found:
            yield ChangeRow(row[0], row[1], _text(row[2], encoding), _text(row[3], encoding))

    def _rows(self, site: SqliteSite) -> Iterator[str]:
        row, encoding = site.row("t", site.captured), self._encoding()
        for (found,) in run(self._connection, f"SELECT CAST({row} AS BLOB) FROM {self._quote(site.table)} AS t"):  # noqa: S608
            yield _text(found, encoding) or "{}"

    def _encoding(self) -> str:
        """That of texts in the file."""
        return str(run(self._connection, "PRAGMA encoding").scalar_one())

    def _site(self) -> SqliteSite:
        return SqliteSite(self._connection, self._wanted, self._quote)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """A transaction that has the write lock. Raises: Busy; Refusal, if the file may not be written."""
        run(self._connection, f"PRAGMA busy_timeout = {int(common.LOCK_SECONDS * 1000)}")
        try:
            with transaction(self._connection, "BEGIN IMMEDIATE"):
                yield
        except DBAPIError as error:
            said = str(error.orig)
            if "locked" in said:
                raise Busy from None
            if "readonly" in said:
                raise CaptureRefusal(
                    f"{self._wanted.table}: this user may not write the database file, and so may not create triggers.",
                    next_step="Run the command as a user who may. Nothing was changed.",
                ) from None
            raise

    def _planned(self) -> CapturePlan:
        site = self._site()
        site.check()
        standing, gap = site.standing()
        return CapturePlan(
            table=site.table,
            changes=site.changes_name,
            key=site.key,
            columns=tuple(site.captured),
            old=site.old,
            standing=standing,
            gap=gap,
            statements=tuple(site.statements(gap)),
            warnings=tuple(site.warnings()),
            cost=common.estimated(
                self._connection,
                f"(SELECT * FROM {self._quote(site.table)} LIMIT {common.SAMPLED}) AS t",  # noqa: S608
                f"length({site.row('t', site.captured)})",
                len(site.captured),
                old=site.old,
                change=_CHANGE_BYTES,
                write=_WRITE_MICROSECONDS,
            ),
        )


def _text(value: bytes | None, encoding: str) -> str | None:
    """JSON that may hold what is not a text in its encoding."""
    if value is None:
        return None
    return value.decode(encoding, "surrogateescape" if encoding == "UTF-8" else "surrogatepass")


# ------------------------------------------------------------------------------------------------------------ the table
# What a SQLite file says of a table that is to be captured, and the statements that install capture, of quoted names.

_AT_ONCE = 60
"""Columns of one call of json_object, which takes at most 127 arguments."""
_CAPTURES = """CREATE TABLE IF NOT EXISTS poller_captures (change_table TEXT NOT NULL PRIMARY KEY, source TEXT NOT NULL,
  key_columns TEXT NOT NULL, columns TEXT NOT NULL, with_old INT NOT NULL, excluded TEXT NOT NULL,
  accepted TEXT NOT NULL, columns_since INT NOT NULL DEFAULT 0,
  made_at TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')), removed_at TEXT,
  pruned_through INT NOT NULL DEFAULT 0)"""
_CHANGES = """CREATE TABLE {changes} (id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
  at TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')), op TEXT NOT NULL, old TEXT, new TEXT)"""
_ROWIDS = ("rowid", "oid", "_rowid_")
"""Other names of an INTEGER PRIMARY KEY, by which it can be set."""
_SCHEMA = sa.text(
    "SELECT name, type, sql FROM main.sqlite_schema WHERE name = :name COLLATE NOCASE AND type <> 'index'"
)
_TRIGGERS = sa.text(
    "SELECT name, sql FROM main.sqlite_schema WHERE type = 'trigger' AND tbl_name = :table COLLATE NOCASE "
    "ORDER BY rowid"
)
_AFTER = re.compile(r"\bAFTER\b", re.IGNORECASE)
_BODY = re.compile(r"\bBEGIN\b(.*)", re.IGNORECASE | re.DOTALL)


def literal(text: str) -> str:
    """The text as a constant."""
    return "'" + text.replace("'", "''") + "'"


class SqliteSite:
    """The table, the names beside it, and what was installed. Raises: Refusal, if there is no such table."""

    def __init__(self, connection: Connection, wanted: CaptureRequest, quote: Quoter) -> None:
        found = connection.execute(_SCHEMA, {"name": wanted.table}).first()
        if found is None or wanted.schema not in (None, "main"):
            raise CaptureRefusal(
                f"{wanted.table}: there is no such table in this database file.",
                next_step="Look at `table` and `schema` of the poller's source.",
            )
        self.table, self.kind, self.sql = str(found[0]), str(found[1]), str(found[2])
        self._connection = connection
        self.quote = quote
        self.poller = wanted.poller
        info: Any = run(connection, f"PRAGMA table_xinfo({quote(self.table)})").all()
        shown = [row for row in info if row[6] != 1]
        self.columns = {str(row[1]): str(row[2]) for row in shown}
        key = sorted((row[5], row) for row in shown if row[5])
        self.key = tuple(str(row[1]) for _, row in key)
        indexes: Any = run(connection, f"PRAGMA index_list({quote(self.table)})").all()
        keys = [str(row[1]) for row in indexes if row[3] == "pk"]  # none: the key is the rowid
        self.may_be_null = [str(row[1]) for _, row in key if not row[3]] if keys else []
        self.alike = dict(self._alike(keys, shown))
        self.uniques = [str(row[1]) for row in indexes if row[2] and row[3] != "pk"]
        self.changes_name = f"poller_{self.table}_changes"
        self.changes = quote(self.changes_name)
        self.changes_there = connection.execute(_SCHEMA, {"name": self.changes_name}).first() is not None
        self.captures_there = connection.execute(_SCHEMA, {"name": common.CAPTURES}).first() is not None
        self.registered = self._registered()
        self.old, self.excluded, self.accepted = common.settled(wanted, self.registered, self.columns)
        self.captured = [name for name in self.columns if name not in self.excluded]
        self.triggers: dict[str, str] = {row[0]: row[1] for row in connection.execute(_TRIGGERS, {"table": self.table})}
        self.wanted = dict(self._wanted_triggers())

    def _alike(self, keys: list[str], shown: list[Any]) -> Iterator[tuple[str, str]]:
        """The columns of the key in which different values may be equal: 'a' and 'A' by a collation, 1 and 1.0 if no
        type makes one of the other. Each with its collation."""
        types = {str(row[1]): str(row[2]).upper() for row in shown}
        for index in keys:
            found: Any = run(self._connection, f"PRAGMA index_xinfo({self.quote(index)})").all()
            for _, _, name, _, collation, is_key in found:
                kind = types.get(str(name), "INT")
                untyped = kind in ("", "ANY") or ("BLOB" in kind and "INT" not in kind)
                if is_key and (collation != "BINARY" or untyped):
                    yield str(name), str(collation)

    def _registered(self) -> Registered | None:
        if not self.captures_there:
            return None
        question = sa.text(
            "SELECT key_columns, columns, with_old, excluded, accepted, columns_since, removed_at IS NOT NULL "
            "FROM main.poller_captures WHERE change_table = :changes"
        )
        found = self._connection.execute(question, {"changes": self.changes_name}).first()
        return None if found is None else Registered.of_json(found)

    @property
    def is_current(self) -> bool:
        """True if our triggers are as they are to be, and the last ones that were created: those fire first."""
        names = list(self.triggers)
        return names[-len(self.wanted) :] == list(self.wanted) and all(
            self.triggers[name] == sql for name, sql in self.wanted.items()
        )

    def standing(self) -> tuple[Standing, str | None]:
        """What is there, and why changes may have been missed."""
        before = self.registered
        if before is None:
            return "absent", None
        if before.removed:
            return "removed", None  # the gap was written when it was removed
        if not self.changes_there:
            return "damaged", "the change table is missing"
        if any(name not in self.triggers for name in self.wanted):
            return "damaged", "triggers of poller are missing (dropped, or the table was made again)"
        if before.key != self.key:
            return "damaged", "the key is another one"
        if later := [name for name in self._later() if self._writes_here(name)]:
            return "damaged", f"trigger {later[0]} was created after capture, so it ran first, and writes this table"
        return "installed", None

    def warnings(self) -> Iterator[str]:
        """What is not seen, or may go wrong."""
        before = self.registered
        if before is not None and (added := [name for name in self.captured if name not in before.columns]):
            yield f"{self.table}: column {added[0]} was added, and its values were not captured until now."
        if before is not None:
            yield from common.left_out_and_gone(self.table, before.excluded, self.columns)
        for name, sql in self.triggers.items():
            if name not in self.wanted and _AFTER.search(sql):
                yield (
                    f"{self.table}: trigger {name} runs after capture. One that is created later would run before it: "
                    "run --install again then."
                )
        if "replace" in self.accepted and (self.uniques or self.alike):
            what = "another unique index" if self.uniques else "a key that is equal and not the same"
            yield f"{self.table}: rows that REPLACE removes by {what} are not captured, as was accepted."

    def check(self) -> None:
        """Raises: Refusal, for what cannot be captured."""
        virtual = self.sql.upper().startswith("CREATE VIRTUAL")
        if self.kind != "table" or virtual:
            raise CaptureRefusal(
                f"{self.table}: it is a {'virtual table' if virtual else self.kind}, and only tables can be captured.",
                next_step="Name the table that holds its rows.",
            )
        common.check_columns(self.table, list(self.columns), self.key, self.excluded)
        if self.may_be_null:
            raise CaptureRefusal(
                f"{self.table}: column {self.may_be_null[0]} of the key may be NULL, so several rows may have one key.",
                next_step="Make the table again with NOT NULL in its key.",
            )
        if self.uniques and "replace" not in self.accepted:
            raise CaptureRefusal(
                f"{self.table}: REPLACE may remove rows by the unique index {self.uniques[0]}, which fires no trigger "
                "in SQLite.",
                next_step="If no writer uses REPLACE, or such rows may be missed, add --accept replace.",
            )
        if self.alike and "replace" not in self.accepted:
            raise CaptureRefusal(
                f"{self.table}: values of the key's column {next(iter(self.alike))} may be equal and not the same (by "
                "its collation, or without a type), and REPLACE puts one over the other without a change of that one.",
                next_step="If no writer uses REPLACE, or such rows may be missed, add --accept replace.",
            )
        if self.registered is None and self.changes_there:
            raise common.foreign(self.table, f"table {self.changes_name}")

    def statements(self, gap: str | None) -> Iterator[str]:
        """What installs the capture, in order."""
        if not self.captures_there:
            yield _CAPTURES
        if not self.changes_there:
            yield _CHANGES.format(changes=self.changes)
        if not self.is_current:
            for name in self.wanted:  # also of a table that was renamed
                yield f"DROP TRIGGER IF EXISTS {self.quote(name)}"
            yield from self.wanted.values()
        if gap is not None:
            yield f"INSERT INTO {self.changes} (op) VALUES ('X')"  # noqa: S608
        yield self._registration()

    def row(self, name: str, columns: Iterable[str]) -> str:
        """The expression that makes JSON of a row with this name."""
        pairs = [self._pair(name, column) for column in columns]
        parts = [f"json_object({', '.join(pairs[i : i + _AT_ONCE])})" for i in range(0, len(pairs), _AT_ONCE)]
        heads = [f"substr({one}, 1, length({one}) - 1) || ','" for one in parts[:1] if len(parts) > 1]
        heads += [f"substr({one}, 2, length({one}) - 2) || ','" for one in parts[1:-1]]
        return " || ".join([*heads, f"substr({parts[-1]}, 2)" if heads else parts[-1]])

    def _pair(self, name: str, column: str) -> str:
        value = f"{name}.{self.quote(column)}"
        blob, real = f"json_object('hex', hex({value}))", f"json_object('real', printf('%!.17g', {value}))"
        text = f"{value} || ''"  # what json() returned would be written as JSON, not as the text that it is
        return (
            f"{literal(column)}, CASE typeof({value}) WHEN 'blob' THEN {blob} WHEN 'real' THEN {real} "
            f"WHEN 'text' THEN {text} ELSE {value} END"
        )

    def _wanted_triggers(self) -> Iterator[tuple[str, str]]:
        into = f"INSERT INTO {self.changes}"
        new, kept = self.row("NEW", self.captured), self.row("OLD", self.captured if self.old else self.key)
        pairs = [(f"OLD.{self.quote(one)}", f"NEW.{self.quote(one)}") for one in self.key]
        same = " AND ".join(f"{a} COLLATE BINARY IS {b} AND typeof({a}) = typeof({b})" for a, b in pairs)
        inserted, deleted = f"{into} (op, new) VALUES ('I', {new});", f"{into} (op, old) VALUES ('D', {kept});"
        updated = f"{into} (op, old, new) VALUES ('U', {kept if self.old else 'NULL'}, {new});"
        setting = ", ".join([*map(self.quote, self.key), *_ROWIDS])  # a statement that sets none compiles it not
        for tail, when, what in (
            ("i", "INSERT", inserted),
            ("d", "DELETE", deleted),
            ("u", "UPDATE", updated),
            ("k", f"UPDATE OF {setting}", f"{deleted} {inserted}"),
        ):
            name = f"poller_capture_{self.table}_{tail}"
            which = {"u": f" WHEN {same}", "k": f" WHEN NOT ({same})"}.get(tail, "")
            on = f"AFTER {when} ON {self.quote(self.table)} FOR EACH ROW{which}"
            yield name, f"CREATE TRIGGER {self.quote(name)} {on} BEGIN {what} END"

    def _registration(self) -> str:
        values = {
            "change_table": literal(self.changes_name),
            "source": literal(self.table),
            "key_columns": literal(json.dumps(self.key)),
            "columns": literal(json.dumps(self.columns)),
            "with_old": str(int(self.old)),
            "excluded": literal(json.dumps(self.excluded)),
            "accepted": literal(json.dumps(self.accepted)),
            "columns_since": common.columns_since(self.registered, self.columns, self.changes),
        }
        return common.upsert(common.CAPTURES, values)

    def _later(self) -> list[str]:
        """Triggers that were created after one of ours."""
        names = list(self.triggers)
        first = min((names.index(name) for name in self.wanted if name in names), default=len(names))
        return [name for name in names[first:] if name not in self.wanted]

    def _writes_here(self, name: str) -> bool:
        body = _BODY.search(self.triggers[name])
        is_after = _AFTER.search(self.triggers[name]) is not None
        return is_after and body is not None and self.table.lower() in body[1].lower()


# -------------------------------------------------------------------------------------------------------------- pruning

PRUNING = Rules(
    chunk=500,
    spared=0,
    session=("PRAGMA busy_timeout = 10000",),
    begin=("BEGIN IMMEDIATE",),
    lock=False,
    older="at < strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '-' || :age || ' seconds')",
    size=None,
)
"""The write lock is held for each transaction, so that it has few rows."""
