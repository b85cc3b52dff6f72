"""MariaDB and MySQL as places: sources are opened by a user who may read, and see all sessions (PROCESS)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import Any, ClassVar

from poller.model.cursor import CursorKind
from tests.contract.sources.fills import cased, crossing, falling, just_after, padded, tenths, uuid_of
from tests.contract.sources.place import (
    SHAPES,
    TABLE,
    VIEW,
    Change,
    Layout,
    Shape,
    SqlPlace,
    Weakening,
    alters,
    in_ties,
    itself,
)  # fmt: skip

BIN, CI = "varchar(60) COLLATE utf8mb4_bin", "varchar(60) COLLATE utf8mb4_general_ci"


OTHER = "CREATE TABLE other LIKE followed"
COPIED = "INSERT INTO other SELECT * FROM followed"
OTHER_ROWS = "INSERT INTO other SELECT id - 40, ts, v + 1000, note, part FROM followed"
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


DOUBLES = "INSERT INTO followed SELECT id, ts, v + 500, note, part FROM followed WHERE v > 14"
"""Of rows that were not read yet."""
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
    Change(
        "key made twice",
        ("ALTER TABLE followed DROP PRIMARY KEY", DOUBLES),
        ("DELETE FROM followed WHERE v > 500", "ALTER TABLE followed ADD PRIMARY KEY (id)"),
    ),
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
    Change("table made again", (OTHER, COPIED, *SWAP), SWAP),
    Change("two tables swapped", (OTHER, OTHER_ROWS, *SWAP), SWAP),
)
TAKEN, GIVEN = "REVOKE SELECT ON followed FROM {reader}", "GRANT SELECT ON followed TO {reader}"
OF_RIGHTS = (
    Change("grant lost", (TAKEN,), (GIVEN,)),
    Change("grant of columns only", (TAKEN, "GRANT SELECT (id, ts) ON followed TO {reader}"), (GIVEN,)),
)
OF_UUIDS = retyped("key uuid to char", "id", "uuid", "char(36)", key_of=uuid_of)
CHANGES = (*OF_KEYS, *OF_CURSORS, *OF_TABLES, *OF_RIGHTS)


TIMES = (
    "1000-01-01 00:00:00", "1582-10-15 00:00:00", "1844-12-31 12:00:00", "1969-12-31 23:59:59.999999",
    "1970-01-01 00:00:00", "2011-12-30 10:00:00", "2011-12-31 00:00:00", "2026-03-29 00:59:59.999999",
    "2026-03-29 01:00:00", "2026-10-25 00:30:00", "2026-10-25 01:30:00", "2038-01-19 03:14:07.999999",
    "9999-12-31 23:59:59.999999",
)  # fmt: skip
"""At the ends of what a type holds, and at days and hours that zones leave out or repeat."""
EDGES = {
    "integer": ("-2147483648", "-1", "0", "1", "2147483647"),
    "bigint unsigned": ("0", "9223372036854775808", "18446744073709551615"),
    "number": ("-99999999999999999999.5", "-0.0000000001", "0", "0.0000000001", "99999999999999999999"),
    "text": ("'!'", "'%'", "'%s'", "':a'", "'\"'", "'it''s'", "'null'", r"'\\'", r"x'01'", "'a'", "'A'", "'é'"),
    "uuid": ("'00000000-0000-0000-0000-000000000000'", "'ffffffff-ffff-ffff-ffff-ffffffffffff'"),
    "bytes": ("x''", "x'00'", "x'0001'", "x'ff'"),
    "moment": tuple(f"'{time}'" for time in TIMES),
    "instant": ("'1970-01-01 00:00:01'", *(f"'{time}'" for time in TIMES[5:-1])),
    "date": tuple(dict.fromkeys(f"'{time[:10]}'" for time in TIMES)),
}


class MariaDb(SqlPlace):
    name: ClassVar[str] = "mariadb"
    types: ClassVar[Mapping[str, str]] = {
        "integer": "int", "moment": "datetime(6)", "text": BIN, "number": "decimal(30,10)", "uuid": "uuid",
        "bytes": "varbinary(20)", "date": "date", "local": "datetime(6)", "instant": "timestamp(6)",
    }  # fmt: skip
    changes: ClassVar[Sequence[Change]] = (
        *CHANGES,
        retyped("key uuid to char", "id", "uuid", "char(36)", key_of=uuid_of),
    )

    filled: ClassVar[Mapping[CursorKind, str]] = {
        "timestamp+pk": "id int NOT NULL, ts timestamp(6) NOT NULL DEFAULT current_timestamp(6)",
        "integer+pk": "id bigint AUTO_INCREMENT PRIMARY KEY, ts datetime(6)",
    }
    weakenings: ClassVar[Sequence[Weakening]] = (
        Weakening(
            "PROCESS revoked",
            ("REVOKE PROCESS ON *.* FROM {reader}",),
            ("GRANT PROCESS ON *.* TO {reader}",),
            late=True,
        ),
        Weakening(
            "engine to MyISAM",
            ("ALTER TABLE followed ENGINE = MyISAM",),
            ("ALTER TABLE followed ENGINE = InnoDB",),
        ),
    )
    edges: ClassVar[Mapping[str, Sequence[str]]] = EDGES
    times: ClassVar[frozenset[str]] = frozenset({"moment", "instant", "date"})
    unreadable: ClassVar[Sequence[tuple[str, str]]] = (
        ("date", "'0000-00-00'"), ("datetime(6)", "'2026-00-00 00:00:00'"), ("time", "'-838:59:59'"),
    )  # fmt: skip
    idle: ClassVar[int | None] = 4
    cuts: ClassVar[bool] = True
    stops: ClassVar[bool] = True
    goes_back: ClassVar[bool] = True

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

    def zones(self) -> Sequence[str]:
        """Offsets: a server may have no names."""
        return ["-12:59", "-09:30", "-03:30", "+00:00", "+01:00", "+05:45", "+12:45", "+13:00"]

    @contextmanager
    def in_zone(self, zone: str) -> Iterator[None]:
        """By the URL of readers: the server's own zone is other tests' too."""
        was = self.reader
        self.reader = was.update_query_dict({"init_command": f"SET time_zone = '{zone}'"})
        try:
            yield
        finally:
            self.reader = was

    def cut(self) -> None:
        sessions = f"SELECT id FROM information_schema.processlist WHERE user = '{self.reader.username}'"
        for (session,) in self.run(sessions):
            with suppress(Exception):  # it has ended already
                self.run(f"KILL {session}")

    @contextmanager
    def outage(self) -> Iterator[None]:
        """The reader cannot sign in."""
        self.run(f"ALTER USER {self.user} ACCOUNT LOCK")
        self.cut()
        try:
            yield
        finally:
            self.run(f"ALTER USER {self.user} ACCOUNT UNLOCK")

    def go_back(self, number: int) -> None:
        self.run(f"DELETE FROM followed WHERE id > {number}", f"ALTER TABLE followed AUTO_INCREMENT = {number + 1}")

    def moment(self, at: datetime) -> Any:
        return at.replace(tzinfo=None)

    def clear(self) -> None:
        self.run(f"DROP VIEW IF EXISTS {VIEW}", f"DROP TABLE IF EXISTS {TABLE}, other, third")

    def create(self, columns: str, key: str = "id", more: str = "") -> None:
        super().create(columns, key, more)
        self.run(*(f"GRANT SELECT, SHOW VIEW ON {name} TO {self.user}" for name in (TABLE, VIEW)))

    def change(self, statements: Sequence[str], shape: Shape) -> None:
        self.run(*(statement.replace("{reader}", self.user) for statement in statements))


class MySql(MariaDb):
    name: ClassVar[str] = "mysql"
    types: ClassVar[Mapping[str, str]] = {**MariaDb.types, "uuid": "char(36)"}
    changes: ClassVar[Sequence[Change]] = CHANGES
    edges: ClassVar[Mapping[str, Sequence[str]]] = {name: values for name, values in EDGES.items() if name != "uuid"}
    unreadable: ClassVar[Sequence[tuple[str, str]]] = (("time", "'-838:59:59'"),)
