"""The table that is captured, the names beside it, what was installed there, and what refuses it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from poller.databases import capture as common
from poller.databases.capture import CaptureRefusal, CaptureRequest, Quoter, Registered, Standing

LONGEST = 63
"""Bytes of a name."""
ROWS, EMPTIED = "!poller_capture", "!poller_truncate"
"""The names of the triggers. Triggers of a row fire in the order of their names, and ours must be the first."""
ALWAYS = "always"
"""Kept beside what was accepted: capture also what replication applies."""

_OTHER_KINDS = {"v": "a view", "m": "a materialized view", "f": "a foreign table"}


def literal(text: str) -> str:
    """A text as a constant. One with a backslash or unprintable characters is written with escapes (`E'...'`),
    which mean the same whatever `standard_conforming_strings` says."""
    doubled = text.replace("'", "''")
    if "\\" not in text and text.isprintable():
        return f"'{doubled}'"
    return "E'" + "".join(map(_escaped, doubled)) + "'"


def _escaped(char: str) -> str:
    if char == "\\":
        return "\\\\"
    if char.isprintable():
        return char
    return f"\\u{ord(char):04X}" if ord(char) < 0x10000 else f"\\U{ord(char):08X}"


class PostgreSqlSite:
    """The table, the names beside it, and what was installed.

    Attributes:
        kind, persistence: as `pg_class` has them. user: who asks. may_trigger, may_read, may_create: the user's rights
            on the table, and in its schema. owner: the table's. columns: their types by name, in order.
        read_as: the type by which an earlier change can be read too: below a domain, whose rule it may break, and text
            for an enum. texts: those that JSON has as text: it would have what a cast of their type makes. loose: those
            whose collation takes different texts for equal. is_deferrable: the key may be checked later than its
            statement. partitions: oid, schema and name, at any depth. children: of `INHERITS`.
    """

    def __init__(self, connection: Connection, wanted: CaptureRequest, quote: Quoter) -> None:
        given = [wanted.table] if wanted.schema is None else [wanted.schema, wanted.table]
        found: Any = connection.execute(_TABLE, {"name": quote(*given)}).first()
        if found is None:
            raise CaptureRefusal(
                f"{'.'.join(given)}: there is no such table that this database user can see.",
                next_step="Look at `table` and `schema` of the poller's source.",
            )
        self.quote = quote
        self.oid, self.schema, self.table, self.kind, self.persistence, self.user, *more = found
        self.may_trigger, self.may_read, self.may_create, self.owner, self.version = more
        self.what = f"{self.schema}.{self.table}"
        of = {"oid": self.oid}
        columns: Any = connection.execute(_COLUMNS, of).all()
        self.columns: dict[str, str] = {name: kind for name, kind, *_ in columns}
        self.read_as: dict[str, str] = {name: kind for name, _, kind, *_ in columns}
        self.texts: list[str] = [name for name, _, _, is_cast, _ in columns if is_cast]
        self.loose: set[str] = {name for name, *_, is_loose in columns if is_loose}
        key: Any = connection.execute(_KEY, of).all()
        self.key: tuple[str, ...] = tuple(name for name, _ in key)
        self.is_deferrable = not all(immediate for _, immediate in key)
        parts: Any = connection.execute(_PARTITIONS, of) if self.kind == "p" else ()
        self.partitions: list[tuple[int, str, str]] = [(oid, schema, table) for oid, schema, table in parts]
        self.children: int = connection.execute(_CHILDREN, of).scalar_one()
        oids = [self.oid, *(oid for oid, _, _ in self.partitions)]
        self.triggers = [Trigger(*row) for row in connection.execute(_TRIGGERS, {"oids": oids})]
        is_other = wanted.reader and connection.execute(_ROLE, {"name": wanted.reader}).scalar_one()
        self.reader = wanted.reader if is_other else None

        def name(pattern: str) -> str:
            return common.named(pattern, self.table, LONGEST, lambda text: len(text.encode()))

        self.source = quote(self.schema, self.table)
        self.changes_name = name("poller_{}_changes")
        self.changes_shown = f"{self.schema}.{self.changes_name}"
        self.changes = quote(self.schema, self.changes_name)
        self.captures = quote(self.schema, common.CAPTURES)
        self.changes_there = table_of(connection, self.changes) is not None
        self.captures_there = table_of(connection, self.captures) is not None
        self.function = quote(self.schema, name("poller_capture_{}"))
        self.registered: PostgreSqlRegistered | None = _registered(connection, self.captures, self.changes_name)
        self.function_oid = function_of(connection, self.function)
        always = (ALWAYS,) if wanted.always else ()
        self.old, self.excluded, self.accepted = common.settled(wanted, self.registered, self.columns, *always)
        self._always = ALWAYS in self.accepted

    @property
    def sequence(self) -> str:
        """That of the change table's ids. The server cuts its name as it cuts ours."""
        name = common.named("{}_id_seq", self.changes_name, LONGEST, lambda text: len(text.encode()))
        return self.quote(self.schema, name)

    def has(self, oid: int, name: str) -> bool:
        """True if this relation has the trigger, with our function."""
        return any(one.table == oid and one.name == name and one.function == self.function_oid for one in self.triggers)

    def check(self) -> None:
        """Raises: Refusal, for a table that cannot be captured."""
        kind = _OTHER_KINDS.get(self.kind) or {"t": "a temporary table", "u": "an unlogged table"}.get(self.persistence)
        if kind is not None or self.kind not in "rp":
            more = ", which a crash empties without a trace" if self.persistence == "u" else ""
            raise CaptureRefusal(
                f"{self.what}: it is {kind or 'no table'}{more}, and only tables that last can be captured.",
                next_step="Name the table that holds its rows." if self.kind in "vmf" else "Use an ordinary table.",
            )
        if self.version < 130_000:
            raise CaptureRefusal(f"{self.what}: the server is older than PostgreSQL 13.", next_step="Use a newer one.")
        if self.children:
            raise CaptureRefusal(
                f"{self.what}: the table has children by INHERITS, whose changes its triggers do not see.",
                next_step="Capture each child, with a poller of its own.",
            )
        if self.is_deferrable:
            raise CaptureRefusal(
                f"{self.what}: the key is DEFERRABLE, so a row could be inserted before another of its key is deleted.",
                next_step="Make the constraint again without DEFERRABLE.",
            )

    def check_rights(self) -> None:
        """Raises: Refusal, for a user who may not create triggers."""
        missing = [] if self.may_trigger else [f"TRIGGER on {self.what}"]
        missing += [] if self.may_create else [f"CREATE on schema {self.schema}"]
        missing += [] if self.may_read else [f"SELECT on {self.what}"]
        if missing:
            raise CaptureRefusal(
                f"{self.what}: the user {self.user} may not create triggers there ({', '.join(missing)} is missing).",
                next_step="Grant that, or name a setting with the URL of a user who may: --url-env SETTING.",
            )

    def check_triggers(self) -> None:
        """Raises: Refusal, for triggers of another capture: of the table before it was renamed, of its parent, or of a
        partition."""
        for one in self._ours():
            if one.function != self.function_oid:
                raise CaptureRefusal(
                    f"{self.what}: it has a trigger {one.name} of another capture, which calls {one.calls}.",
                    next_step="Remove that capture (poller capture NAME --remove). If its table was renamed: "
                    f"DROP FUNCTION {one.calls} CASCADE.",
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
        if before.oid != self.oid:
            return "damaged", "the table is another one than was captured (swapped or created again)"
        if not (self.has(self.oid, ROWS) and self.has(self.oid, EMPTIED)):
            return "damaged", "a trigger of poller is missing"
        if any(one.enabled in "DR" for one in self._ours()):
            return "damaged", "a trigger of poller is disabled"
        if before.key != self.key:
            return "damaged", "the key is another one"
        if gone := [oid for oid in before.partitions if oid not in {one[0] for one in self.partitions}]:
            return "damaged", f"{len(gone)} of its partitions were dropped or detached"
        return "installed", None

    def enabling(self) -> Iterator[str]:
        """The statements that enable our triggers, as asked for."""
        wrong = [one for one in self._ours() if one.enabled in "DR"]
        at = {self.oid: self.source} | {oid: self.quote(schema, table) for oid, schema, table in self.partitions}
        if self._always:
            for relation in at.values():
                for name in (ROWS, EMPTIED):
                    yield f"ALTER TABLE {relation} ENABLE ALWAYS TRIGGER {self.quote(name)}"
        else:
            for one in wrong:
                yield f"ALTER TABLE {at[one.table]} ENABLE TRIGGER {self.quote(one.name)}"

    def warnings(self) -> Iterator[str]:
        """What is not seen, or may go wrong."""
        if self.registered is not None:
            yield from common.left_out_and_gone(self.what, self.registered.excluded, self.columns)
        for one in self.triggers:
            if one.table != self.oid or not one.is_after_row or one.name in (ROWS, EMPTIED):
                continue
            if one.name.encode() < ROWS.encode():
                yield (
                    f"{self.what}: trigger {one.name} runs before capture and may write this table: rename it to sort "
                    f'after "{ROWS}".'
                )
            else:
                yield (
                    f"{self.what}: if trigger {one.name} changes other rows of this table that the same statement "
                    "changes, their changes may be in another order."
                )
        if self.owner != self.user:
            yield (
                f"{self.what}: it belongs to {self.owner}, and its trigger runs as {self.user}, with casts to json "
                f"of its columns' types. Install it as {self.owner}, unless you trust who may make such a cast."
            )
        if self.partitions:
            yield f"{self.what}: rows of a partition that is attached, detached or dropped are no changes of rows."
        if not self._always:
            yield f"{self.what}: rows that logical replication applies are not captured (--always captures them)."

    def _ours(self) -> list[Trigger]:
        return [one for one in self.triggers if one.name in (ROWS, EMPTIED)]


# ---------------------------------------------------------------------------------------------------------- the catalog
# What it says of the table, and of what was installed there. Reads only.

_TABLE = sa.text("""
SELECT c.oid, n.nspname, c.relname, c.relkind, c.relpersistence, current_user::text,
  has_table_privilege(c.oid, 'TRIGGER'), has_table_privilege(c.oid, 'SELECT'), has_schema_privilege(n.oid, 'CREATE'),
  pg_get_userbyid(c.relowner)::text, current_setting('server_version_num')::int
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = to_regclass(:name)
""")
_NAMED = """(SELECT CASE WHEN n.nspname <> 'pg_catalog' AND pg_type_is_visible(e.oid) THEN quote_ident(n.nspname) || '.'
  ELSE '' END || format_type({0}.oid, {1}) FROM pg_type e JOIN pg_namespace n ON n.oid = e.typnamespace
  WHERE e.oid = CASE WHEN {0}.typcategory = 'A' AND {0}.typelem <> 0 THEN {0}.typelem ELSE {0}.oid END)"""
"""The name of a type: the same whatever the search path is."""
_COLUMNS = sa.text(
    f"""
WITH RECURSIVE of (num, name, type, mod, base, by) AS (
  SELECT attnum, attname::text, atttypid, atttypmod, atttypid, attcollation FROM pg_attribute
  WHERE attrelid = :oid AND attnum > 0 AND NOT attisdropped
  UNION ALL SELECT num, name, type, mod, typbasetype, by FROM of JOIN pg_type ON oid = base WHERE typtype = 'd'
), parts (num, part) AS (
  SELECT num, base FROM of
  UNION (
    SELECT num, within FROM parts JOIN pg_type t ON t.oid = part CROSS JOIN LATERAL (
      SELECT t.typelem UNION SELECT t.typbasetype UNION
      SELECT atttypid FROM pg_attribute WHERE t.typtype = 'c' AND attrelid = t.typrelid AND attnum > 0
    ) w (within) WHERE within <> 0
  )
)
SELECT of.name, {_NAMED.format("t", "mod")}, CASE WHEN b.typtype = 'e' THEN 'text'
    WHEN b.oid <> t.oid THEN {_NAMED.format("b", "-1")} ELSE {_NAMED.format("t", "mod")} END,
  EXISTS (SELECT FROM parts JOIN pg_cast ON castsource = part WHERE parts.num = of.num AND castsource >= 16384
    AND casttarget = 'json'::regtype AND castfunc <> 0),
  EXISTS (SELECT FROM pg_collation c WHERE c.oid = of.by AND to_jsonb(c) ->> 'collisdeterministic' = 'false')
FROM of JOIN pg_type t ON t.oid = of.type JOIN pg_type b ON b.oid = of.base WHERE b.typtype <> 'd' ORDER BY of.num
"""  # noqa: S608 - of our own words
)
_KEY = sa.text("""
SELECT a.attname::text, i.indimmediate FROM pg_index i, unnest(i.indkey::int2[]) WITH ORDINALITY AS k (num, place)
JOIN pg_attribute a ON a.attnum = k.num
WHERE i.indrelid = :oid AND i.indisprimary AND i.indisvalid AND k.place <= i.indnkeyatts AND a.attrelid = :oid
ORDER BY k.place
""")
_PARTITIONS = sa.text(
    "SELECT p.relid::oid, n.nspname, c.relname FROM pg_partition_tree(:oid) p JOIN pg_class c ON c.oid = p.relid "
    "JOIN pg_namespace n ON n.oid = c.relnamespace WHERE p.relid <> :oid ORDER BY p.relid::oid"
)
_CHILDREN = sa.text(
    "SELECT count(*) FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = :oid AND "
    "NOT c.relispartition"
)
_TRIGGERS = sa.text("""
SELECT tgrelid::oid, tgname::text, tgfoid::oid, tgenabled::text, tgtype::int, tgfoid::regprocedure::text FROM pg_trigger
WHERE tgrelid = ANY(:oids) AND NOT (tgisinternal AND tgconstraint <> 0) ORDER BY tgname
""")
_ANY_TABLE = sa.text("SELECT to_regclass(:name)::oid")
_FUNCTION = sa.text("SELECT to_regprocedure(:name)::oid")
_GRANTED = sa.text("""
SELECT a.grantee::regrole::text, string_agg(DISTINCT a.privilege_type, ', ') FROM pg_class c, aclexplode(c.relacl) a
WHERE c.oid = to_regclass(:name) AND a.grantee NOT IN (0, c.relowner) AND a.privilege_type <> 'SELECT' GROUP BY 1
""")
_MAY_RUN = sa.text("""
SELECT DISTINCT a.grantee::regrole::text FROM pg_proc p, aclexplode(p.proacl) a
WHERE p.oid = to_regprocedure(:name) AND a.grantee NOT IN (0, p.proowner)
""")
_ROLE = sa.text("SELECT count(*) FROM pg_roles WHERE rolname = :name AND rolname <> current_user")


@dataclass(frozen=True, slots=True)
class Trigger:
    """A trigger of the table or of a partition. `bits`: its type, as the catalog has it. `calls`: its function."""

    table: int
    name: str
    function: int
    enabled: str
    bits: int
    calls: str

    @property
    def is_after_row(self) -> bool:
        """True if it fires after each row."""
        return bool(self.bits & 1) and not self.bits & (2 | 64)


@dataclass(frozen=True, slots=True)
class PostgreSqlRegistered(Registered):
    """Also which table it was, and which partitions it had."""

    oid: int
    partitions: tuple[int, ...]


def table_of(connection: Connection, name: str) -> int | None:
    """The oid of the relation with this quoted name."""
    found: int | None = connection.execute(_ANY_TABLE, {"name": name}).scalar_one()
    return found


def function_of(connection: Connection, name: str) -> int | None:
    """The oid of the function with this quoted name and no arguments."""
    found: int | None = connection.execute(_FUNCTION, {"name": f"{name}()"}).scalar_one()
    return found


def writers(connection: Connection, name: str) -> list[tuple[str, str]]:
    """The roles beside the owner that may do more than read the relation with this quoted name, each quoted, and what
    they may."""
    return [(role, rights) for role, rights in connection.execute(_GRANTED, {"name": name})]


def callers(connection: Connection, name: str) -> list[str]:
    """The roles beside the owner that may use the function with this quoted name and no arguments, each quoted."""
    return [role for (role,) in connection.execute(_MAY_RUN, {"name": f"{name}()"})]


def _registered(connection: Connection, captures: str, changes: str) -> PostgreSqlRegistered | None:
    """The row of a change table in the table of captures with this quoted name; None without one."""
    if table_of(connection, captures) is None:
        return None
    question = sa.text(
        "SELECT source_oid::oid, key_columns, columns::text, partitions, with_old, excluded, accepted, columns_since, "  # noqa: S608
        f"removed_at IS NOT NULL FROM {captures.replace(':', chr(92) + ':')} WHERE change_table = :changes"
    )
    found: Any = connection.execute(question, {"changes": changes}).first()
    if found is None:
        return None
    oid, key, columns, partitions, old, excluded, accepted, since, removed = found
    return PostgreSqlRegistered(
        key=tuple(key),
        columns=dict(json.loads(columns)),  # a session may have JSON as text
        old=old,
        excluded=tuple(excluded),
        accepted=tuple(accepted),
        columns_since=since,
        removed=removed,
        oid=oid,
        partitions=tuple(map(int, partitions)),
    )
