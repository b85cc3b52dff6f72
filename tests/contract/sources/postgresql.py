"""PostgreSQL as a place: sources are opened by a role that may read, and see all sessions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any, ClassVar

from poller.model.cursor import CursorKind
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
    Weakening,
    alters,
    in_ties,
    itself,
)  # fmt: skip
from tests.resilience.outages.relay import Relay

TEXT_C, TEXT_ICU = 'text COLLATE "C"', 'text COLLATE "en-x-icu"'
OTHER = "CREATE TABLE other (LIKE followed INCLUDING ALL)"
PARTED = (
    "CREATE TABLE other (LIKE followed INCLUDING INDEXES) PARTITION BY HASH (id)",
    "CREATE TABLE other_0 PARTITION OF other FOR VALUES WITH (modulus 2, remainder 0)",
    "CREATE TABLE other_1 PARTITION OF other FOR VALUES WITH (modulus 2, remainder 1)",
)
COPIED = "INSERT INTO other SELECT * FROM followed"
OTHER_ROWS = "INSERT INTO other SELECT id - 40, ts, v + 1000, note, part FROM followed"
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


DOUBLES = "INSERT INTO followed SELECT id, ts, v + 500, note, part FROM followed WHERE v > 14"
"""Of rows that were not read yet."""
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
    Change(
        "key made twice",
        ("ALTER TABLE followed DROP CONSTRAINT followed_pkey", DOUBLES),
        ("DELETE FROM followed WHERE v > 500", "ALTER TABLE followed ADD PRIMARY KEY (id)"),
    ),
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
    Change("table made again", (OTHER, COPIED, *SWAP), SWAP),
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


TIMES = (
    "4713-12-31 00:00:00 BC", "0001-01-01 00:00:00 BC", "0001-01-01 00:00:00", "1582-10-15 00:00:00",
    "1844-12-31 12:00:00", "1845-01-01 00:00:00", "1883-11-18 17:00:00.5", "1969-12-31 23:59:59.999999",
    "1970-01-01 00:00:00", "2011-12-30 10:00:00", "2011-12-31 00:00:00", "2026-03-29 00:59:59.999999",
    "2026-03-29 01:00:00", "2026-10-25 00:30:00", "2026-10-25 01:30:00", "2038-01-19 03:14:08",
    "9999-12-31 23:59:59.999999", "10000-01-01 00:00:00", "29999-12-31 23:59:59.999999", "-infinity", "infinity",
)  # fmt: skip
"""At the ends of what a type, Python or a C library holds, and at days and hours that zones leave out or repeat."""
DAYS = tuple(dict.fromkeys(" ".join(word for word in time.split() if ":" not in word) for time in TIMES))
EDGES = {
    "integer": ("-2147483648", "-1", "0", "1", "2147483647"),
    "bigint": ("-9223372036854775808", "9223372036854775807"),
    "number": ("-99999999999999999999.5", "-0.0000000001", "0", "0.0000000001", "99999999999999999999"),
    "text": ("''", "' '", "'%'", "'%s'", "':a'", "'\"'", "'it''s'", "'null'", r"'\'", r"E'\x01'", "'a'", "'A'", "'é'"),
    "uuid": ("'00000000-0000-0000-0000-000000000000'", "'ffffffff-ffff-ffff-ffff-ffffffffffff'"),
    "bytes": ("''", r"'\x00'", r"'\x0001'", r"'\xff'"),
    "moment": tuple(f"timestamp '{time}' AT TIME ZONE 'UTC'" for time in TIMES),
    "local": tuple(f"'{time}'" for time in TIMES),
    "date": tuple(f"'{day}'" for day in DAYS),
}


class PostgreSql(SqlPlace):
    name: ClassVar[str] = "postgresql"
    types: ClassVar[Mapping[str, str]] = {
        "integer": "integer", "moment": "timestamptz(6)", "text": TEXT_C, "number": "numeric(30,10)", "uuid": "uuid",
        "bytes": "bytea", "date": "date", "local": "timestamp(6)",
    }  # fmt: skip
    changes: ClassVar[Sequence[Change]] = (*OF_KEYS, *OF_CURSORS, *OF_TABLES, *OF_RIGHTS)
    filled: ClassVar[Mapping[CursorKind, str]] = {
        "timestamp+pk": "id integer NOT NULL, ts timestamptz NOT NULL DEFAULT now()",
        "integer+pk": "id bigint GENERATED BY DEFAULT AS IDENTITY, ts timestamptz",
        "xid8+pk": "id integer NOT NULL, ts xid8 NOT NULL DEFAULT pg_current_xact_id()",
    }
    bounds: ClassVar[Sequence[str]] = ("auto", "exact", "strict")
    weakenings: ClassVar[Sequence[Weakening]] = (
        Weakening(
            "pg_read_all_stats revoked", ("REVOKE pg_read_all_stats FROM {reader}",),
            ("GRANT pg_read_all_stats TO {reader}",), late=True,
        ),
        Weakening(
            "sequence gets CACHE 50", ("ALTER SEQUENCE followed_id_seq CACHE 50",),
            ("ALTER SEQUENCE followed_id_seq CACHE 1",), "integer+pk", blocks=True,
        ),
    )  # fmt: skip
    edges: ClassVar[Mapping[str, Sequence[str]]] = EDGES
    times: ClassVar[frozenset[str]] = frozenset({"moment", "local", "date"})
    unreadable: ClassVar[Sequence[tuple[str, str]]] = (
        ("date", "'infinity'"), ("timestamptz", "'-infinity'"), ("timestamp", "'4713-01-01 BC'"),
        ("interval", "'178000000 years'"), ("time", "'24:00'"), ("date[]", "'{infinity}'"),
        ("tstzrange", "'[,infinity)'"), ("jsonb", "repeat('1', 5000)::jsonb"),
    )  # fmt: skip
    idle: ClassVar[int | None] = 3
    """The sample, prepared transactions, which this server allows, and the page or a count."""
    cuts: ClassVar[bool] = True
    stops: ClassVar[bool] = True
    goes_back: ClassVar[bool] = True

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

    def zones(self) -> Sequence[str]:
        """One of each group that shows all edge values alike."""
        times = ", ".join(f"timestamp '{time}' AT TIME ZONE 'UTC'" for time in TIMES)
        shown = f"SELECT string_agg(CAST(t.at AT TIME ZONE z.name AS text), ' ') FROM unnest(ARRAY[{times}]) AS t (at)"
        named = f"SELECT z.name, ({shown}) AS shown FROM pg_timezone_names AS z"
        return [name for (name,) in self.run(f"SELECT min(name) FROM ({named}) AS named GROUP BY shown")]

    @contextmanager
    def in_zone(self, zone: str) -> Iterator[None]:
        name = self.url.database
        self.run(f"ALTER DATABASE {name} SET timezone = '{zone}'")
        try:
            yield
        finally:
            self.run(f"ALTER DATABASE {name} RESET timezone")

    def cut(self) -> None:
        self.run(f"SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE usename = '{self.role}'")

    @contextmanager
    def outage(self) -> Iterator[None]:
        """The database takes no connections, as an administrator says from another one."""
        name = self.url.database
        with self.session("postgres") as elsewhere:
            elsewhere.run(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
            self.cut()
            try:
                yield
            finally:
                elsewhere.run(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")

    def go_back(self, number: int) -> None:
        self.run(f"DELETE FROM followed WHERE id > {number}", f"SELECT setval('followed_id_seq', {number})")

    def clear(self) -> None:
        dropped = (f"DROP TABLE IF EXISTS {name} CASCADE" for name in (TABLE, "other", "third"))
        self.run("SET client_min_messages = error", *dropped)

    def change(self, statements: Sequence[str], shape: Shape) -> None:
        """In one transaction. PostgreSQL changes no type below a view."""
        made = (statement.replace("{reader}", self.role) for statement in statements)
        view = [f"CREATE VIEW {VIEW} AS {SELECT}"] if shape == "view" else []
        self.run("BEGIN", f"DROP VIEW IF EXISTS {VIEW}", *made, *view, "COMMIT")


class PostgreSqlPair(PostgreSql):
    """Two servers behind one address; the second one is a restored copy, with a role of the same name, and has handed
    out fewer transaction ids."""

    fails_over: ClassVar[bool] = True

    def __init__(self, first: str, second: PostgreSql, relay: Relay) -> None:
        self._moved = False
        super().__init__(first)
        self._second, self._relay = second, relay
        self._filled: CursorKind = "timestamp+pk"
        self.reader = self.reader.set(port=relay.port)

    def run(self, *statements: str) -> list[tuple[Any, ...]]:
        return self._second.run(*statements) if self._moved else super().run(*statements)

    def make_filled(self, cursor: CursorKind) -> None:
        self._filled = cursor
        ahead = "SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint"
        behind = int(self._second.run(ahead)[0][0]) + 100 - int(super().run(ahead)[0][0])
        super().run(f"DO 'BEGIN FOR i IN 1..{behind} LOOP PERFORM pg_current_xact_id(); COMMIT; END LOOP; END'")
        super().make_filled(cursor)

    def fail_over(self, number: int) -> None:
        rows = self.run(f"SELECT id, ts, v FROM followed WHERE v <= {number}")
        self._second.clear()
        self._second.make_filled(self._filled)
        self._second.insert(TABLE, [dict(zip(("id", "ts", "v"), row, strict=True)) for row in rows])
        if self._filled == "integer+pk":
            self._second.go_back(number)
        self._moved = True
        self._relay.lead_to(int(self._second.url.port or 0))

    def take_over(self) -> None:
        ids = "ts = pg_current_xact_id() WHERE ts >= pg_snapshot_xmax(pg_current_snapshot())"
        self.run(f"UPDATE followed SET {ids}")

    def clear(self) -> None:
        if self._moved:
            self._relay.lead_to(int(self.url.port or 0))
            self._moved = False
        super().clear()
