"""What `poller check` asks MariaDB and MySQL in particular, and the statements that it proposes there."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import ClassVar

from sqlalchemy.exc import DBAPIError

from poller.model.finding import Finding, ok, warn
from poller.sources.checks import A_COLUMN, READER, Checks, Examined, Explained
from poller.sources.columns import CursorColumn, Family
from poller.sources.faults import Fault
from poller.sources.page import Params, Query
from poller.sources.stamping import ColumnOrigin
from poller.sources.user_sql import compared, mysql_account, parts

_STATEMENTS = "SELECT 1 FROM performance_schema.events_statements_current LIMIT 1"
_READING = frozenset({"SELECT", "USAGE", "PROCESS", "SHOW VIEW", "XA_RECOVER_ADMIN", "REPLICATION CLIENT",
                      "BINLOG MONITOR", "SHOW DATABASES"})  # fmt: skip
_VARIES = re.compile("Current|Utc|Local|Rand|Uuid|Anonymous|Parameter|SessionParameter|Select")
"""What a generated column may not contain: clocks, variables, subqueries, random or unknown functions."""
_QUOTED = r"'(?:[^'\\]|\\.|'')*'"
_NULLS = re.compile(rf"({_QUOTED})| DEFAULT NULL\b| NULL\b", re.DOTALL)
"""The parts of a definition about NULL, outside of its texts."""
_COMPUTED = re.compile(r" (?:CHECK|AS|GENERATED ALWAYS AS) ?\(")


class MySqlChecks(Checks):
    """Privileges to see open transactions, XA, and definitions that are replaced as a whole."""

    analyze: ClassVar[str] = "ANALYZE TABLE"
    counts_reads: ClassVar[bool] = True
    quotes_defaults: ClassVar[bool] = True

    def privileges(self, asked: Examined) -> list[Finding]:
        """Those that show what is open."""
        user = str(asked.fact("SELECT CURRENT_USER()").rows[0][0])
        account = mysql_account(user)
        asked.facts["user"] = account
        version = ".".join(map(str, asked.database.engine.dialect.server_version_info or ()))
        found = [ok("database", f"reachable: {version}, as user {user}")]
        if asked.options.bound in {"delay", "none"}:
            return found
        needs = {"PROCESS": "SELECT COUNT(*) FROM information_schema.innodb_trx", "XA_RECOVER_ADMIN": "XA RECOVER"}
        lacks = ", ".join(name for name, sql in needs.items() if not _may(asked, sql))
        if lacks:
            what = f"{user} lacks {lacks}, so open transactions cannot be seen and the bound is a guess."
            return [*found, warn("privileges", what, f"GRANT {lacks} ON *.* TO {account};")]
        message = f"{user} may see all sessions"
        if not _mariadb(asked) and not _may(asked, _STATEMENTS):
            message += "; GRANT SELECT ON performance_schema.* shows a statement's start to the microsecond, not to 2 s"
        return [*found, ok("privileges", message)]

    def unfinished(self, asked: Examined) -> tuple[list[str], list[str]] | None:
        """XA transactions; as bytes in hexadecimal: transaction managers use binary names."""
        if not _may(asked, "XA RECOVER"):
            return None  # the check of the privileges names it
        rows = asked.fact("XA RECOVER FORMAT='SQL'" if _mariadb(asked) else "XA RECOVER CONVERT XID").rows
        xids = [_xid(*row) for row in rows]
        return [f"XA {xid}" for xid in xids], [f"XA ROLLBACK {xid};" for xid in xids]

    def reader(self, asked: Examined) -> tuple[str, bool] | None:
        """By its grants."""
        user = str(asked.fact("SELECT CURRENT_USER()").rows[0][0]).rpartition("@")[0]
        granted: set[str] = set()
        for (line,) in asked.fact("SHOW GRANTS").rows:
            before, on, _ = re.sub(r"\([^)]*\)", "", str(line)).partition(" ON ")  # without names of columns
            granted |= {one.strip() for one in before.removeprefix("GRANT ").split(",")} if on else {"a role"}
        return user, not granted <= _READING

    def reader_made(self, asked: Examined) -> str:
        """With the privileges that an observed bound needs."""
        table = asked.table if asked.options.table is not None else "its tables"
        needs = "PROCESS" if _mariadb(asked) else "PROCESS, XA_RECOVER_ADMIN"
        return f"CREATE USER {READER}; GRANT SELECT ON {table}, and {needs} ON *.*, TO {READER};"

    def slow_parts(self, asked: Examined, query: Query, params: Params) -> list[str] | None:
        """Full scans and filesorts."""
        records = asked.run(Explained("EXPLAIN FORMAT=TRADITIONAL", query), params)  # the default of MySQL 9 is a tree
        slow: list[str] = []
        for row in records.rows:
            step = {name.lower(): value for name, value in zip(records.names, row, strict=True)}
            if step.get("type") == "ALL":
                slow.append(f"full scan of {step.get('table')}")
            if "Using filesort" in str(step.get("extra") or ""):
                slow.append("Using filesort")
        return slow

    def dropped(self, asked: Examined, query: Query, params: Params) -> int:
        """The rows that the storage engine returned, less those of the page."""
        counters = "SHOW STATUS LIKE 'Handler_read%'"
        before = sum(int(row[1]) for row in asked.run(counters).rows)
        found = len(asked.run(query, params).rows)
        after = sum(int(row[1]) for row in asked.run(counters).rows)
        again = sum(int(row[1]) for row in asked.run(counters).rows) - after
        return max(0, after - before - again - found)

    def implied(self, primary: Sequence[str]) -> Sequence[str]:
        """InnoDB keeps the primary key at the end of every index: (cursor) is (cursor, primary key)."""
        return primary

    def filter_index(self, asked: Examined, text: str) -> str:
        """There are no partial indexes: the columns that it compares come first, or a generated one."""
        columns = compared(text, "mysql")
        if columns:
            return asked.create_index([*(name for name in columns if name not in asked.order), *asked.order])
        index = asked.create_index(["poller_takes", *asked.order])
        if any(map(_VARIES.match, parts(text, "mysql"))):
            return A_COLUMN
        return (
            f"ALTER TABLE {asked.table} ADD COLUMN poller_takes boolean GENERATED ALWAYS AS ({text}) VIRTUAL; {index}"
            ' Then filter = "poller_takes = 1", and `poller rebind`.'
        )

    def set_not_null(self, asked: Examined, column: str) -> str:
        """With the whole definition."""
        definition = _definition(asked, asked.table, column)
        if not definition:
            return f"Forbid NULL in {column}: ALTER TABLE ... MODIFY with its whole definition and NOT NULL."
        kept = _with_default(_NULLS.sub(lambda found: found[1] or "", definition))
        asked.not_null = f"{kept} NOT NULL"
        return f"ALTER TABLE {asked.table} MODIFY {asked.not_null};"

    def now(self, column: CursorColumn, zone: str) -> str:
        """In UTC, or an instant."""
        digits = f"({column.digits})" if column.digits else ""
        if column.family is Family.TIMESTAMPTZ:
            return f"CURRENT_TIMESTAMP{digits}"
        return f"UTC_TIMESTAMP{digits}" if column.family is Family.TIMESTAMP and zone == "UTC" else ""

    def on_update(self, asked: Examined, found: ColumnOrigin, table: str) -> str:
        """The column's whole definition with ON UPDATE; empty if that cannot be written."""
        if any(rule.is_default and "utc" in (rule.sql or "").lower() for rule in found.rules):
            return ""  # ON UPDATE always uses the session's zone
        # An administrator who ran what the check of NULLs proposes must not undo it with this.
        definition = asked.not_null or _definition(asked, table, found.column)
        kind = re.match(r"""(?:`(?:[^`]|``)*`|"(?:[^"]|"")*") (?:datetime|timestamp)(\(\d\))?""", definition)
        if kind is None:
            return ""
        changed = f"{definition} ON UPDATE CURRENT_TIMESTAMP{kind[1] or ''}"
        return f"ALTER TABLE {table} MODIFY {_with_default(changed) if ' NOT NULL' in changed else changed};"

    def trigger(self, asked: Examined, found: ColumnOrigin, *, schema: str, name: str, value: str) -> str:
        """One statement."""
        table = schema + asked.name(found.table or "")
        sets = f"FOR EACH ROW SET NEW.{asked.name(found.column)} = {value};"
        return f"CREATE TRIGGER {schema}{name} BEFORE UPDATE ON {table} {sets}"


def _mariadb(asked: Examined) -> bool:
    return bool(getattr(asked.database.engine.dialect, "is_mariadb", False))


def _may(asked: Examined, sql: str) -> bool:
    """True if the user has the privilege for a statement; XA RECOVER needs one on MySQL 8 only."""
    try:
        asked.fact(sql)
    except DBAPIError as refused:
        if asked.database.dialect.classify(refused) is not Fault.FORBIDDEN:
            raise
        return False
    return True


def _xid(form: int, length: int, rest: int, data: str | bytes) -> str:
    """An XA transaction's name as XA ROLLBACK takes it: its two parts and its format; plain text where it is text."""
    text = data.decode() if isinstance(data, bytes) else data
    if not text.startswith("0x"):
        return text  # MariaDB returns it in this form
    name = bytes.fromhex(text[2:])
    return f"{_part(name[:length])},{_part(name[length : length + rest])},{form}"


def _part(name: bytes) -> str:
    text = name.decode("ascii", "replace")
    return f"'{text}'" if re.fullmatch(r"[\w .:-]*", text, re.ASCII) else f"X'{name.hex()}'"


def _definition(asked: Examined, table: str, column: str) -> str:
    """A column's definition as SHOW CREATE TABLE writes it: MODIFY replaces the whole of it, so a default or an ON
    UPDATE left out would be lost. Empty where it is computed or unknown. `table`: quoted."""
    try:
        records = asked.run("SHOW CREATE TABLE " + table.replace(":", "\\:"))
    except DBAPIError:
        return ""
    starts = tuple(f"{quote}{column.replace(quote, quote * 2)}{quote} " for quote in ("`", '"'))
    for line in str(records.rows[0][1]).splitlines()[1:]:
        definition = line.strip().removesuffix(",")
        if definition.startswith(starts):
            return "" if _COMPUTED.search(re.sub(_QUOTED, "''", definition)) else definition
    return ""


def _with_default(definition: str) -> str:
    """The definition with a default of the present time. Without one some servers insert 0000-00-00, which lies below
    every checkpoint, into a TIMESTAMP that may not be NULL, and into a DATETIME with ON UPDATE."""
    stamp = re.match(r"""(?:`.*?`|".*?") (?:timestamp|datetime)(\(\d\))?""", definition)
    bare = re.sub(_QUOTED, "''", definition)
    if stamp is None or " DEFAULT " in bare or (" datetime" in stamp[0] and " ON UPDATE " not in bare.upper()):
        return definition
    at = stamp.end()
    return f"{definition[:at]} DEFAULT CURRENT_TIMESTAMP{stamp[1] or ''}{definition[at:]}"


CHECKS = MySqlChecks()
