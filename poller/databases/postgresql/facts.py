"""What the catalog says of a table that is to be captured, and of what was installed there. Reads only."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

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
class PostgreSqlRegistered:
    """The row of the table of captures: as it was installed."""

    oid: int
    key: tuple[str, ...]
    columns: dict[str, str]
    partitions: tuple[int, ...]
    old: bool
    excluded: tuple[str, ...]
    accepted: tuple[str, ...]
    columns_since: int
    removed: bool


@dataclass(frozen=True, slots=True)
class Facts:
    """The table as it is.

    Attributes:
        kind, persistence: as `pg_class` has them. user: who asks. may_trigger, may_read, may_create: the user's rights
        on the table, and in its schema. owner: the table's. columns: their types by name, in order. read_as: the type
        by which an earlier change can be read too: below a domain, whose rule it may break, and text for an enum.
        texts: those that JSON has as text: it would have what a cast of their type makes. loose: those whose collation
        takes different texts for equal. deferrable: whether the key
        may be checked later than its statement. partitions: oid, schema and name, at any depth. children: of
        `INHERITS`.
    """

    oid: int
    schema: str
    table: str
    kind: str
    persistence: str
    user: str
    may_trigger: bool
    may_read: bool
    may_create: bool
    owner: str
    version: int
    columns: dict[str, str]
    read_as: dict[str, str]
    texts: tuple[str, ...]
    loose: frozenset[str]
    key: tuple[str, ...]
    deferrable: bool
    partitions: tuple[tuple[int, str, str], ...]
    children: int
    triggers: tuple[Trigger, ...]

    @property
    def what(self) -> str:
        """The table for people."""
        return f"{self.schema}.{self.table}"


def facts(connection: Connection, name: str) -> Facts | None:
    """The facts of the table with this quoted name, as the search path finds it; None without one. Raises what the
    driver raises."""
    found = connection.execute(_TABLE, {"name": name}).first()
    if found is None:
        return None
    oid, schema, table, kind, persistence, user, may_trigger, may_read, may_create, owner, version = found
    of = {"oid": oid}
    columns = connection.execute(_COLUMNS, of).all()
    key = connection.execute(_KEY, of).all()
    partitions = tuple((p[0], p[1], p[2]) for p in connection.execute(_PARTITIONS, of)) if kind == "p" else ()
    oids = [oid, *(partition[0] for partition in partitions)]
    return Facts(
        oid=oid,
        schema=schema,
        table=table,
        kind=kind,
        persistence=persistence,
        user=user,
        may_trigger=may_trigger,
        may_read=may_read,
        may_create=may_create,
        owner=owner,
        version=version,
        columns={name: kind for name, kind, *_ in columns},
        read_as={name: kind for name, _, kind, *_ in columns},
        texts=tuple(name for name, _, _, is_cast, _ in columns if is_cast),
        loose=frozenset(name for name, *_, is_loose in columns if is_loose),
        key=tuple(column for column, _ in key),
        deferrable=not all(immediate for _, immediate in key),
        partitions=partitions,
        children=connection.execute(_CHILDREN, of).scalar_one(),
        triggers=tuple(Trigger(*row) for row in connection.execute(_TRIGGERS, {"oids": oids})),
    )


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


def is_other_role(connection: Connection, name: str) -> bool:
    """True if there is such a role, and it is not the present user."""
    return bool(connection.execute(_ROLE, {"name": name}).scalar_one())


def registered(connection: Connection, captures: str, changes: str) -> PostgreSqlRegistered | None:
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
        oid,
        tuple(key),
        dict(json.loads(columns)),  # a session may have JSON as text
        tuple(map(int, partitions)),
        old,
        tuple(excluded),
        tuple(accepted),
        since,
        removed,
    )
