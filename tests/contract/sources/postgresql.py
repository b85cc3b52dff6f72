"""PostgreSQL as a place: sources are opened by a role that may read, and see all sessions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, ClassVar

from tests.contract.sources.fills import cased, crossing, falling, just_after, padded, tenths, uuid_of
from tests.contract.sources.place import (
    SELECT,
    SHAPES,
    TABLE,
    VIEW,
    Change,
    Layout,
    Shape,
    SqlPlace,
    alters,
    in_ties,
    itself,
)  # fmt: skip

TEXT_C, TEXT_ICU = 'text COLLATE "C"', 'text COLLATE "en-x-icu"'
OTHER = "CREATE TABLE other (LIKE followed INCLUDING ALL)"
PARTED = (
    "CREATE TABLE other (LIKE followed INCLUDING INDEXES) PARTITION BY HASH (id)",
    "CREATE TABLE other_0 PARTITION OF other FOR VALUES WITH (modulus 2, remainder 0)",
    "CREATE TABLE other_1 PARTITION OF other FOR VALUES WITH (modulus 2, remainder 1)",
)
COPIED = "INSERT INTO other SELECT * FROM followed"
OTHER_ROWS = "INSERT INTO other SELECT id - 40, ts, v + 1000, note FROM followed"
"""Rows that no table had before, at times that were passed."""
SWAP = (
    "ALTER TABLE followed RENAME TO third",
    "ALTER TABLE other RENAME TO followed",
    "ALTER TABLE third RENAME TO other",
)


def retyped(
    name: str,
    column: str,
    was: str,
    to: str,
    *,
    back: str = "",
    key_of: Callable[[int], Any] = itself,
    moment_of: Callable[[int], datetime] = in_ties,
    shapes: tuple[Shape, ...] = ("table",),
) -> Change:
    """A change of a type; `back`: how its values become what they were."""
    layout = Layout(was if column == "id" else "integer", was if column == "ts" else "moment", key_of, moment_of)
    return alters(name, f"ALTER {column} TYPE {to}", f"ALTER {column} TYPE {was}{back}", layout, shapes)


OF_KEYS = (
    retyped("key integer to bigint", "id", "integer", "bigint", shapes=SHAPES),
    retyped("key bigint to integer", "id", "bigint", "integer"),
    retyped("key integer to numeric", "id", "integer", "numeric", key_of=crossing),
    retyped("key integer to text", "id", "integer", "text", back=" USING id::integer", key_of=crossing, shapes=SHAPES),
    retyped("key numeric to text", "id", "numeric", "text", back=" USING id::numeric", key_of=crossing, shapes=SHAPES),
    retyped("key uuid to text", "id", "uuid", "text", back=" USING id::uuid", key_of=uuid_of),
    retyped("key varchar to text", "id", "varchar(20)", "text", key_of=padded),
    retyped("key text from C to ICU", "id", TEXT_C, TEXT_ICU, key_of=cased, shapes=SHAPES),
    retyped("key text from ICU to C", "id", TEXT_ICU, TEXT_C, key_of=cased, shapes=SHAPES),
    alters("key renamed", "RENAME id TO id2", "RENAME id2 TO id"),
    alters("key constraint dropped", "DROP CONSTRAINT followed_pkey", "ADD PRIMARY KEY (id)"),
    alters("key may be null", ("DROP CONSTRAINT followed_pkey", "ALTER id DROP NOT NULL"), "ADD PRIMARY KEY (id)"),
)
OF_CURSORS = (
    retyped(
        "cursor narrowed to seconds", "ts", "timestamptz(6)", "timestamptz(0)", key_of=falling, moment_of=just_after,
        shapes=SHAPES,
    ),
    retyped("cursor narrowed to milliseconds", "ts", "timestamptz(6)", "timestamptz(3)", moment_of=tenths),
    retyped("cursor widened", "ts", "timestamptz(0)", "timestamptz(6)"),
    retyped("cursor loses its zone", "ts", "timestamptz", "timestamp", shapes=SHAPES),
    retyped("cursor gets a zone", "ts", "timestamp", "timestamptz", shapes=SHAPES),
    alters("cursor to date", "ALTER ts TYPE date", None, shapes=SHAPES),
    retyped("cursor to text", "ts", "timestamptz", "text", back=" USING ts::timestamptz"),
    alters("cursor renamed", "RENAME ts TO ts2", "RENAME ts2 TO ts"),
    alters("cursor nullable", "ALTER ts DROP NOT NULL", "ALTER ts SET NOT NULL"),
    alters("cursor default changed", "ALTER ts SET DEFAULT now()", "ALTER ts DROP DEFAULT"),
)  # fmt: skip
OF_TABLES = (
    alters("column added", "ADD extra integer DEFAULT 1", "DROP extra"),
    alters("column dropped", "DROP note CASCADE", "ADD note varchar(20)"),
    Change("index dropped", ("DROP INDEX followed_by_ts",)),
    Change("table renamed", SWAP[:1], ("ALTER TABLE third RENAME TO followed",)),
    alters("table unlogged", "SET UNLOGGED", "SET LOGGED"),
    Change("table made anew", (OTHER, COPIED, *SWAP), SWAP),
    Change("two tables swapped", (OTHER, OTHER_ROWS, *SWAP), SWAP),
    Change("table partitioned", (*PARTED, COPIED, *SWAP), SWAP),
)
TAKEN, GIVEN = "REVOKE SELECT ON followed FROM {reader}", "GRANT SELECT ON followed TO {reader}"
OF_RIGHTS = (
    Change(
        "row security switched on",
        ("ALTER TABLE followed ENABLE ROW LEVEL SECURITY", "CREATE POLICY half ON followed USING (mod(v, 2) = 0)"),
        ("ALTER TABLE followed DISABLE ROW LEVEL SECURITY",),
    ),
    Change("grant lost", (TAKEN,), (GIVEN,)),
    Change("grant of columns only", (TAKEN, "GRANT SELECT (id, ts) ON followed TO {reader}"), (GIVEN,)),
)


class PostgreSql(SqlPlace):
    name: ClassVar[str] = "postgresql"
    types: ClassVar[Mapping[str, str]] = {
        "integer": "integer", "moment": "timestamptz(6)", "text": TEXT_C, "number": "numeric(30,10)", "uuid": "uuid",
        "bytes": "bytea", "date": "date", "local": "timestamp(6)",
    }  # fmt: skip
    changes: ClassVar[Sequence[Change]] = (*OF_KEYS, *OF_CURSORS, *OF_TABLES, *OF_RIGHTS)

    def __init__(self, url: str) -> None:
        super().__init__(url)
        role = "laws_" + str(self.url.database)[-12:]
        self.role = role
        self.run(
            f"CREATE ROLE {role} LOGIN",
            f"GRANT pg_read_all_stats TO {role}",
            f"ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO {role}",
            f"ALTER DEFAULT PRIVILEGES GRANT SELECT ON SEQUENCES TO {role}",
        )
        self.reader = self.url.set(username=role)

    def close(self) -> None:
        with self.session() as admin:
            admin.run(f"DROP OWNED BY {self.role}", f"DROP ROLE {self.role}")

    def clear(self) -> None:
        dropped = (f"DROP TABLE IF EXISTS {name} CASCADE" for name in (TABLE, "other", "third"))
        self.run("SET client_min_messages = error", *dropped)

    def change(self, statements: Sequence[str], shape: Shape) -> None:
        """In one transaction. PostgreSQL changes no type below a view."""
        made = (statement.replace("{reader}", self.role) for statement in statements)
        view = [f"CREATE VIEW {VIEW} AS {SELECT}"] if shape == "view" else []
        self.run("BEGIN", f"DROP VIEW IF EXISTS {VIEW}", *made, *view, "COMMIT")
