"""MariaDB and MySQL as places: sources are opened by a user who may read, and see all sessions (PROCESS)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, ClassVar

from tests.contract.sources.fills import cased, crossing, falling, just_after, padded, tenths, uuid_of
from tests.contract.sources.place import (
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

BIN, CI = "varchar(60) COLLATE utf8mb4_bin", "varchar(60) COLLATE utf8mb4_general_ci"


OTHER = "CREATE TABLE other LIKE followed"
COPIED = "INSERT INTO other SELECT * FROM followed"
OTHER_ROWS = "INSERT INTO other SELECT id - 40, ts, v + 1000, note FROM followed"
"""Rows that no table had before, at times that were passed."""
SWAP = ("RENAME TABLE followed TO third, other TO followed, third TO other",)


def retyped(
    name: str,
    column: str,
    was: str,
    to: str,
    *,
    key_of: Callable[[int], Any] = itself,
    moment_of: Callable[[int], datetime] = in_ties,
    shapes: tuple[Shape, ...] = ("table",),
) -> Change:
    """A change of a type."""
    layout = Layout(was if column == "id" else "integer", was if column == "ts" else "moment", key_of, moment_of)
    return alters(name, f"MODIFY {column} {to} NOT NULL", f"MODIFY {column} {was} NOT NULL", layout, shapes)


OF_KEYS = (
    retyped("key int to bigint", "id", "int", "bigint", shapes=SHAPES),
    retyped("key bigint to int", "id", "bigint", "int"),
    retyped("key int to unsigned", "id", "int", "int unsigned"),
    retyped("key int to decimal", "id", "int", "decimal(20,2)", key_of=crossing),
    retyped("key int to varchar", "id", "int", "varchar(10)", key_of=crossing, shapes=SHAPES),
    retyped("key decimal to varchar", "id", "decimal(20,2)", "varchar(30)", key_of=crossing, shapes=SHAPES),
    retyped("key varchar longer", "id", "varchar(20)", "varchar(40)", key_of=padded),
    retyped("key text from bin to ci", "id", BIN, CI, key_of=cased, shapes=SHAPES),
    retyped("key text from ci to bin", "id", CI, BIN, key_of=cased, shapes=SHAPES),
    alters(
        "key in another character set", "CONVERT TO CHARACTER SET latin1 COLLATE latin1_bin",
        "CONVERT TO CHARACTER SET utf8mb4 COLLATE utf8mb4_bin", Layout(key=BIN, key_of=cased),
    ),
    alters("key renamed", "RENAME COLUMN id TO id2", "RENAME COLUMN id2 TO id"),
    alters("key constraint dropped", "DROP PRIMARY KEY", "ADD PRIMARY KEY (id)"),
)  # fmt: skip
OF_CURSORS = (
    retyped(
        "cursor narrowed to seconds", "ts", "datetime(6)", "datetime", key_of=falling, moment_of=just_after,
        shapes=SHAPES,
    ),
    retyped("cursor narrowed to milliseconds", "ts", "datetime(6)", "datetime(3)", moment_of=tenths),
    retyped("cursor widened", "ts", "datetime", "datetime(6)"),
    retyped("cursor gets a zone", "ts", "datetime(6)", "timestamp(6)", shapes=SHAPES),
    retyped("cursor loses its zone", "ts", "timestamp(6)", "datetime(6)", shapes=SHAPES),
    alters("cursor to date", "MODIFY ts date NOT NULL", None, shapes=SHAPES),
    retyped("cursor to varchar", "ts", "datetime(6)", "varchar(30)"),
    alters("cursor renamed", "RENAME COLUMN ts TO ts2", "RENAME COLUMN ts2 TO ts"),
    alters("cursor nullable", "MODIFY ts datetime(6) NULL", "MODIFY ts datetime(6) NOT NULL"),
    alters("cursor default changed", "ALTER ts SET DEFAULT '2026-02-01'", "ALTER ts DROP DEFAULT"),
)  # fmt: skip
OF_TABLES = (
    alters("column added first", "ADD extra int DEFAULT 1 FIRST", "DROP extra"),
    alters("column dropped", "DROP note", "ADD note varchar(20)"),
    alters("index dropped", "DROP INDEX followed_by_ts"),
    Change("table renamed", ("RENAME TABLE followed TO third",), ("RENAME TABLE third TO followed",)),
    alters("engine to MyISAM", "ENGINE = MyISAM", "ENGINE = InnoDB"),
    alters("table rebuilt", "FORCE"),
    alters("table partitioned", "PARTITION BY HASH (id) PARTITIONS 2", "REMOVE PARTITIONING"),
    Change("table made anew", (OTHER, COPIED, *SWAP), SWAP),
    Change("two tables swapped", (OTHER, OTHER_ROWS, *SWAP), SWAP),
)
TAKEN, GIVEN = "REVOKE SELECT ON followed FROM {reader}", "GRANT SELECT ON followed TO {reader}"
OF_RIGHTS = (
    Change("grant lost", (TAKEN,), (GIVEN,)),
    Change("grant of columns only", (TAKEN, "GRANT SELECT (id, ts) ON followed TO {reader}"), (GIVEN,)),
)
OF_UUIDS = retyped("key uuid to char", "id", "uuid", "char(36)", key_of=uuid_of)
CHANGES = (*OF_KEYS, *OF_CURSORS, *OF_TABLES, *OF_RIGHTS)


class MariaDb(SqlPlace):
    name: ClassVar[str] = "mariadb"
    types: ClassVar[Mapping[str, str]] = {
        "integer": "int", "moment": "datetime(6)", "text": BIN, "number": "decimal(30,10)", "uuid": "uuid",
        "bytes": "varbinary(20)", "date": "date", "local": "datetime(6)",
    }  # fmt: skip
    changes: ClassVar[Sequence[Change]] = (
        *CHANGES,
        retyped("key uuid to char", "id", "uuid", "char(36)", key_of=uuid_of),
    )

    def __init__(self, url: str) -> None:
        super().__init__(url)
        user = "laws_" + str(self.url.database)[-12:]
        self.user = f"{user}@'%'"
        self.run(
            f"CREATE USER {self.user} IDENTIFIED BY 'laws'",
            f"GRANT PROCESS ON *.* TO {self.user}",
        )
        self.reader = self.url.set(username=user, password="laws")

    def close(self) -> None:
        with self.session() as admin:
            admin.run(f"DROP USER {self.user}")

    def moment(self, at: datetime) -> Any:
        return at.replace(tzinfo=None)

    def clear(self) -> None:
        self.run(f"DROP VIEW IF EXISTS {VIEW}", f"DROP TABLE IF EXISTS {TABLE}, other, third")

    def create(self, columns: str, key: str) -> None:
        super().create(columns, key)
        self.run(*(f"GRANT SELECT, SHOW VIEW ON {name} TO {self.user}" for name in (TABLE, VIEW)))

    def change(self, statements: Sequence[str], shape: Shape) -> None:
        self.run(*(statement.replace("{reader}", self.user) for statement in statements))


class MySql(MariaDb):
    name: ClassVar[str] = "mysql"
    types: ClassVar[Mapping[str, str]] = {**MariaDb.types, "uuid": "char(36)"}
    changes: ClassVar[Sequence[Change]] = CHANGES
