"""Change tables in PostgreSQL: each write is one change, in the writer's own transaction."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError

from poller.databases import CapturePlan, CaptureRefusal
from poller.databases import capture as common
from poller.errors import SourceError
from tests.integration.capture.captured import Captured
from tests.integration.capture.reading import rows
from tests.support.services import wait_until

ORDERS = "CREATE TABLE orders (id int PRIMARY KEY, note text, total numeric(10,2), at timestamptz)"


@pytest.fixture
def orders(postgres_db: str) -> Iterator[Captured]:
    made = Captured(postgres_db)
    made.run(ORDERS)
    yield made
    made.close()


def test_each_write_is_one_change_and_the_chain_holds(orders: Captured) -> None:
    orders.run("INSERT INTO orders VALUES (9, 'before', 1, now())")
    orders.install()
    orders.run(
        "INSERT INTO orders VALUES (1, 'a', 1.50, '2026-01-01T00:00Z'), (2, 'b', NULL, NULL)",
        "UPDATE orders SET note = 'c' WHERE id = 1",
        "UPDATE orders SET id = 3 WHERE id = 2",
        "DELETE FROM orders WHERE id = 1",
        "UPDATE orders SET note = 'seen now' WHERE id = 9",
        "INSERT INTO orders VALUES (3, 'upsert') ON CONFLICT (id) DO UPDATE SET note = excluded.note",
    )
    found = orders.changes()
    assert [op for op, _, _ in found] == list("IIUDIDUU")
    assert found[0][2] == {"id": 1, "note": "a", "total": 1.5, "at": "2026-01-01T00:00:00+00:00"}
    assert (found[2][1]["note"], found[2][2]["note"]) == ("a", "c")
    assert (found[3][1]["id"], found[4][2]["id"]) == (2, 3)
    assert (orders.holds().compared, orders.holds().rows) == (2, 2)


def test_what_is_rolled_back_is_no_change(orders: Captured) -> None:
    orders.install()
    orders.run("BEGIN", "INSERT INTO orders VALUES (1)", "ROLLBACK")
    orders.run("BEGIN", "INSERT INTO orders VALUES (2)", "SAVEPOINT s", "DELETE FROM orders", "ROLLBACK TO s")
    orders.run("UPDATE orders SET note = 'x'", "COMMIT")
    assert orders.ops() == "IU"
    orders.holds()


def test_a_truncate_is_one_change(orders: Captured) -> None:
    orders.install()
    orders.run("INSERT INTO orders VALUES (1)", "TRUNCATE orders", "INSERT INTO orders VALUES (2)")
    assert orders.ops() == "ITI"
    orders.holds()


def test_rows_deleted_by_a_cascade_are_changes(orders: Captured) -> None:
    orders.run(
        "CREATE TABLE parents (id int PRIMARY KEY)",
        "INSERT INTO parents VALUES (1)",
        "ALTER TABLE orders ADD parent int REFERENCES parents ON DELETE CASCADE",
    )
    orders.install()
    orders.run("INSERT INTO orders (id, parent) VALUES (1, 1), (2, 1)", "DELETE FROM parents")
    assert orders.ops() == "IIDD"
    orders.holds()


def test_altering_never_makes_a_writer_fail(orders: Captured) -> None:
    orders.install()
    orders.run("INSERT INTO orders VALUES (1, 'a')")
    for number, change in enumerate(
        (
            "ADD extra int DEFAULT 7",
            "DROP total",
            "RENAME note TO text",
            "ALTER at TYPE text",
            "ALTER id TYPE bigint",
            "RENAME id TO key",
            "RENAME TO former",
        ),
        start=2,
    ):
        orders.run(f"ALTER TABLE orders {change}")
        name = "former" if "former" in change else "orders"
        orders.run(f"INSERT INTO {name} VALUES ({number}, 'a')", f"UPDATE {name} SET extra = 1")
    assert "X" not in orders.ops()


def test_installing_again_after_altering_leaves_no_hole(orders: Captured) -> None:
    orders.install()
    stop, errors = threading.Event(), []

    def write() -> None:
        with orders.engine.connect() as other:
            number = 0
            while not stop.is_set():
                number += 1
                try:
                    other.exec_driver_sql(f"INSERT INTO orders (id, note) VALUES ({number}, 'a')")
                    other.exec_driver_sql(f"UPDATE orders SET note = 'b' WHERE id = {number}")
                except DBAPIError as error:
                    errors.append(error)

    writer = threading.Thread(target=write)
    writer.start()
    for name in ("one", "two", "three"):
        orders.run(f"ALTER TABLE orders ADD {name} int DEFAULT 1")
        orders.install()
    stop.set()
    writer.join()
    assert errors == []
    assert "X" not in orders.ops()
    assert orders.holds().rows == len(orders.run("SELECT 1 FROM orders"))


def test_installing_twice_changes_nothing(orders: Captured) -> None:
    orders.install()
    before = orders.run("SELECT oid, tgname FROM pg_trigger ORDER BY 1"), orders.run("SELECT * FROM poller_captures")
    plan = orders.capture().install()
    assert (plan.standing, plan.gap) == ("installed", None)
    after = orders.run("SELECT oid, tgname FROM pg_trigger ORDER BY 1"), orders.run("SELECT * FROM poller_captures")
    assert before == after


@pytest.mark.parametrize(
    "harm",
    [
        'DROP TRIGGER "!poller_capture" ON orders',
        'ALTER TABLE orders DISABLE TRIGGER "!poller_truncate"',
        "DROP FUNCTION poller_capture_orders() CASCADE",
        "ALTER TABLE orders RENAME TO former; CREATE TABLE orders (LIKE former INCLUDING ALL)",
    ],
)
def test_a_damage_is_mended_and_leaves_a_gap(orders: Captured, harm: str) -> None:
    orders.install()
    orders.run("INSERT INTO orders VALUES (1)", *harm.split("; "))
    assert orders.capture().plan().standing == "damaged"
    orders.install()
    orders.run("INSERT INTO orders VALUES (2)", "TRUNCATE orders")
    assert orders.ops() == "IXIT"
    assert orders.capture().plan().standing == "installed"
    if "former" in harm:
        orders.run("INSERT INTO former VALUES (3)")
        assert orders.ops() == "IXIT"


def test_removing_leaves_a_gap_or_nothing(orders: Captured) -> None:
    def everything() -> list[object]:
        return [
            orders.run("SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace ORDER BY 1"),
            orders.run("SELECT proname FROM pg_proc WHERE pronamespace = 'public'::regnamespace"),
            orders.run("SELECT tgname FROM pg_trigger"),
        ]

    before = everything()
    orders.install()
    orders.run("INSERT INTO orders VALUES (1)")
    assert orders.capture().remove(changes=False).triggers
    orders.run("INSERT INTO orders VALUES (2)")
    assert orders.ops() == "IX"
    with pytest.raises(CaptureRefusal, match="not captured"):
        orders.chain()
    orders.install()
    orders.run("INSERT INTO orders VALUES (3)")
    assert orders.ops() == "IXI"
    orders.holds()
    orders.capture().remove(changes=True)
    assert everything() == before
    with pytest.raises(CaptureRefusal, match="not captured"):
        orders.capture().remove(changes=True)


def test_values_are_the_tables_whatever_the_writers_session_says(orders: Captured) -> None:
    orders.run("ALTER TABLE orders ADD f float8, ADD b bytea, ADD i interval")
    orders.install()
    orders.run(
        "SET timezone = 'Asia/Tokyo'",
        "SET extra_float_digits = 0",
        "SET bytea_output = escape",
        "SET intervalstyle = postgres_verbose",
        "SET search_path = pg_temp, public",
        "CREATE TEMP TABLE poller_orders_changes (id int)",
        "INSERT INTO public.orders (id, at) VALUES (1, '2026-01-01T00:00Z')",
        "UPDATE public.orders SET f = 0.1::float8 + 0.2, b = '\\x00ff', i = '1 mon 2 days'",
        "SET search_path = public",
    )
    (_, change) = orders.run("SELECT new::text FROM public.poller_orders_changes ORDER BY id")
    for text in ("0.30000000000000004", "\\\\x00ff", "P1M2D", "2026-01-01T00:00:00+00:00"):
        assert text in change[0]


def test_a_writer_needs_no_right_on_the_change_table(orders: Captured) -> None:
    orders.run("ALTER DEFAULT PRIVILEGES GRANT ALL ON TABLES TO public")
    orders.install()
    orders.run("CREATE ROLE capture_writer", "GRANT INSERT ON orders TO capture_writer", "SET ROLE capture_writer")
    try:
        orders.run("INSERT INTO orders VALUES (1)")
        with pytest.raises(DBAPIError, match="permission denied"):
            orders.run("INSERT INTO poller_orders_changes (op) VALUES ('X')")
        with pytest.raises(DBAPIError, match="permission denied"):
            orders.run("SELECT poller_capture_orders()")
    finally:
        orders.run("RESET ROLE", "DROP OWNED BY capture_writer", "DROP ROLE capture_writer")
    assert orders.ops() == "I"


def test_old_values_and_columns_can_be_left_out(orders: Captured) -> None:
    orders.install(old=False, excluded=("note",))
    orders.run("INSERT INTO orders VALUES (1, 'secret', 2)", "UPDATE orders SET total = 3", "DELETE FROM orders")
    found = orders.changes()
    assert "secret" not in str(found)
    assert found[1][1] is None
    assert found[2][1] == {"id": 1}
    orders.holds()
    assert orders.capture().plan().columns == ("id", "total", "at")  # as it was installed
    assert not orders.capture().plan().old


def test_names_are_quoted_everywhere(postgres_db: str) -> None:
    name = "o'r\"d\\e%s:r$f$ {tag}"
    quoted = '"' + name.replace('"', '""') + '"'
    made = Captured(postgres_db, table=name, schema="s c")
    made.run('CREATE SCHEMA "s c"', f'CREATE TABLE "s c".{quoted} ({quoted} int PRIMARY KEY, "x y" text)')
    made.install(excluded=("x y",))
    made.run(
        f'INSERT INTO "s c".{quoted} VALUES (1, 2), (2, 3)',
        f'UPDATE "s c".{quoted} SET {quoted} = 9 WHERE 1 = 1 AND {quoted} = 1',
    )
    assert made.holds().changes == 4
    made.capture().remove(changes=True)
    made.close()


def test_a_long_name_is_cut_and_no_other_tables(postgres_db: str) -> None:
    made = [Captured(postgres_db, table="ä" * 30 + tail) for tail in ("a", "b")]
    for one in made:
        one.run(f'CREATE TABLE "{one.table}" (id int PRIMARY KEY)')
        one.install()
        one.run(f'INSERT INTO "{one.table}" VALUES (1)')
    assert [one.holds().changes for one in made] == [1, 1]
    assert all(one.capture().plan().standing == "installed" for one in made)
    for one in made:
        one.close()


PARTITIONED = (
    "CREATE TABLE orders (id int PRIMARY KEY, note text) PARTITION BY RANGE (id)",
    "CREATE TABLE low PARTITION OF orders FOR VALUES FROM (0) TO (100)",
    "CREATE TABLE high PARTITION OF orders FOR VALUES FROM (100) TO (200)",
)


@pytest.fixture
def parts(postgres_db: str) -> Iterator[Captured]:
    made = Captured(postgres_db)
    made.run(*PARTITIONED)
    yield made
    made.close()


def test_partitions_are_seen_by_any_way_in(parts: Captured) -> None:
    parts.install()
    parts.run("INSERT INTO low VALUES (1)", "UPDATE orders SET id = 101 WHERE id = 1", "DELETE FROM high")
    assert parts.ops() == "IDID"
    parts.run("INSERT INTO orders VALUES (1), (101)", "TRUNCATE low")
    assert parts.ops() == "IDIDIIX"
    parts.run("TRUNCATE orders", "INSERT INTO orders VALUES (2)")
    assert parts.ops() == "IDIDIIXTI"
    parts.run("BEGIN", "TRUNCATE orders", "INSERT INTO low VALUES (3)", "TRUNCATE low", "COMMIT")
    assert parts.ops() == "IDIDIIXTITIX"
    parts.holds()


def test_a_partition_that_comes_is_seen_and_one_that_goes_a_gap(parts: Captured) -> None:
    parts.install()
    parts.run(
        "CREATE TABLE more PARTITION OF orders FOR VALUES FROM (200) TO (300)", "INSERT INTO orders VALUES (1), (201)"
    )
    parts.install()
    parts.run("TRUNCATE more")
    assert parts.ops() == "IIX"
    parts.run("DROP TABLE low")
    assert "dropped or detached" in str(parts.capture().plan().gap)
    parts.install()
    assert parts.ops() == "IIXX"


WAITED = "SELECT count(*) FROM pg_locks WHERE NOT granted AND clock_timestamp() - waitstart > interval '{} seconds'"


@pytest.mark.parametrize("installed", [False, True])
def test_no_writer_of_partitions_fails_by_a_deadlock(
    parts: Captured, installed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The writer has a partition and comes to the parent, which waits for that partition."""
    if installed:
        parts.install()
    monkeypatch.setattr(common, "TRIES", 2)
    monkeypatch.setattr(common, "PAUSE_SECONDS", 0)
    capture = parts.capture()
    refused: list[CaptureRefusal] = []

    def work() -> None:
        try:
            capture.remove(changes=False) if installed else capture.install()
        except CaptureRefusal as refusal:
            refused.append(refusal)

    with parts.engine.connect() as writer:
        for statement in ("BEGIN", "INSERT INTO high (id) VALUES (101)"):
            writer.exec_driver_sql(statement)
        thread = threading.Thread(target=work)
        thread.start()
        wait_until(
            lambda: not thread.is_alive() or parts.run(WAITED.format(1.1)) != [(0,)],
            "it has waited longer than deadlock_timeout, or has given up",
        )
        writer.exec_driver_sql("INSERT INTO orders (id) VALUES (1)")
        writer.exec_driver_sql("COMMIT")
        thread.join()
    assert len(refused) == 1


@pytest.mark.parametrize(
    ("ddl", "says"),
    [
        (("CREATE VIEW orders AS SELECT 1 AS id",), "a view"),
        (("CREATE TABLE orders (id int)",), "no primary key"),
        (("CREATE TABLE orders (id int PRIMARY KEY, _op text)",), "column _op"),
        (("CREATE TABLE orders (id int PRIMARY KEY DEFERRABLE INITIALLY DEFERRED)",), "DEFERRABLE"),
        (("CREATE TABLE orders (id int PRIMARY KEY DEFERRABLE)",), "DEFERRABLE"),
        (("CREATE UNLOGGED TABLE orders (id int PRIMARY KEY)",), "unlogged"),
        (("CREATE TABLE orders (id int PRIMARY KEY)", "CREATE TABLE c () INHERITS (orders)"), "INHERITS"),
        (("CREATE TABLE orders (id int PRIMARY KEY)", "CREATE TABLE poller_orders_changes (id int)"), "did not make"),
        ((), "no such table"),
    ],
)
def test_refused_and_nothing_installed(postgres_db: str, ddl: tuple[str, ...], says: str) -> None:
    made = Captured(postgres_db)
    made.run(*ddl)
    before = made.run("SELECT relname FROM pg_class ORDER BY 1"), made.run("SELECT count(*) FROM pg_trigger")
    with pytest.raises(CaptureRefusal, match=says) as refused:
        made.install()
    assert "orders: " in refused.value.message
    assert refused.value.next_step
    assert (made.run("SELECT relname FROM pg_class ORDER BY 1"), made.run("SELECT count(*) FROM pg_trigger")) == before
    made.close()


def test_a_user_without_rights_is_refused(orders: Captured) -> None:
    orders.run("CREATE ROLE capture_reader LOGIN", "GRANT SELECT ON orders TO capture_reader")
    admin = orders.url
    try:
        url = sa.make_url(admin).set(username="capture_reader").render_as_string(hide_password=False)
        reader = Captured(url)
        with pytest.raises(CaptureRefusal, match=r"may not create triggers.*TRIGGER on public.orders, CREATE"):
            reader.install()
        assert orders.run("SELECT 1 FROM pg_trigger") == []
        reader.environ["OWNER_URL"] = admin
        reader.install(url_env="OWNER_URL")
        orders.run("INSERT INTO orders VALUES (1)")
        assert reader.ops() == "I"
        assert reader.run("SELECT last_value FROM poller_orders_changes_id_seq") == [(1,)]
        assert reader.holds().compared == 1
        reader.close()
    finally:
        orders.run("DROP OWNED BY capture_reader", "DROP ROLE capture_reader")


def test_a_trigger_that_runs_first_is_named(orders: Captured) -> None:
    orders.run(
        "CREATE FUNCTION touch() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$",
        'CREATE TRIGGER " early" AFTER UPDATE ON orders FOR EACH ROW EXECUTE FUNCTION touch()',
        "CREATE TRIGGER later AFTER UPDATE ON orders FOR EACH ROW EXECUTE FUNCTION touch()",
        "CREATE TRIGGER before BEFORE UPDATE ON orders FOR EACH ROW EXECUTE FUNCTION touch()",
    )
    warnings = orders.capture().install().warnings
    assert [one for one in warnings if "trigger  early runs before capture" in one]
    assert [one for one in warnings if "trigger later changes other rows" in one]
    assert not [one for one in warnings if "trigger before" in one]


def test_installing_waits_a_short_time_for_writers(orders: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("poller.databases.capture.LOCK_SECONDS", 0.1)
    monkeypatch.setattr("poller.databases.capture.PAUSE_SECONDS", 0.01)
    orders.run("BEGIN", "INSERT INTO orders VALUES (1)")
    with pytest.raises(CaptureRefusal, match="open held the table, 10 times"):
        orders.install()
    orders.run("COMMIT")
    assert orders.run("SELECT 1 FROM pg_trigger") == []
    orders.install()


def test_a_plan_says_what_a_row_costs_and_changes_nothing(orders: Captured) -> None:
    orders.run("INSERT INTO orders SELECT n, repeat('x', 100), 1, now() FROM generate_series(1, 100) n")
    before = orders.run("SELECT relname FROM pg_class ORDER BY 1")
    plan, without = orders.capture().plan(), orders.capture(old=False).plan()
    assert plan.cost.rows == 100
    assert 150 < plan.cost.json_bytes < 300
    assert plan.cost.bytes_per_change - without.cost.bytes_per_change == pytest.approx(plan.cost.json_bytes, abs=2)
    assert 0 < plan.cost.microseconds < 10_000
    assert orders.run("SELECT relname FROM pg_class ORDER BY 1") == before


def test_verifying_finds_what_was_not_captured(orders: Captured) -> None:
    orders.install()
    orders.run(
        "INSERT INTO orders VALUES (1, 'a'), (2, 'b'), (3, 'c')",
        "SET session_replication_role = replica",
        "UPDATE orders SET note = 'hidden' WHERE id = 1",
        "DELETE FROM orders WHERE id = 2",
        "SET session_replication_role = origin",
        "UPDATE orders SET total = 1 WHERE id = 1",
    )
    chain = orders.chain()
    said = [(one.change, one.what) for one in chain.breaks]
    assert said == [
        (4, "its old row differs from what change 1 left in note"),
        (2, "the row that it left is not in the table"),
    ]
    assert "hidden" not in str(said)


def test_always_stays_whatever_is_mended(orders: Captured) -> None:
    orders.install(always=True)
    orders.run("DROP FUNCTION poller_capture_orders() CASCADE")
    assert not [one for one in orders.capture().install().warnings if "--always" in one]
    assert orders.run("SELECT DISTINCT tgenabled::text FROM pg_trigger") == [("A",)]


def test_values_before_a_column_got_another_type_are_not_compared(orders: Captured) -> None:
    orders.install()
    orders.run("INSERT INTO orders VALUES (1, 'a', 5), (2, 'b', 5)", "ALTER TABLE orders ALTER total TYPE text")
    orders.run("UPDATE orders SET total = 'x' WHERE id = 1")
    orders.install()
    orders.run("UPDATE orders SET total = 'y'")
    orders.holds()


def test_always_sees_what_replication_applies(orders: Captured) -> None:
    orders.install(always=True)
    orders.run("SET session_replication_role = replica", "INSERT INTO orders VALUES (1)", "TRUNCATE orders")
    assert orders.ops() == "IT"


@pytest.mark.parametrize("value", [r'{"a": "\u0000"}', "1e200000"])
def test_a_row_that_is_no_jsonb_is_a_gap_and_no_writer_fails(orders: Captured, value: str) -> None:
    orders.run("ALTER TABLE orders ADD j json")
    orders.install()
    orders.run("INSERT INTO orders VALUES (1)", f"UPDATE orders SET j = '{value}'", "DELETE FROM orders")
    orders.run("INSERT INTO orders VALUES (1)")
    assert orders.ops() == "IXXI"
    orders.holds()


def test_a_column_that_the_key_only_includes_is_no_part_of_it(postgres_db: str) -> None:
    made = Captured(postgres_db)
    made.run("CREATE TABLE orders (id int, t text, PRIMARY KEY (id) INCLUDE (t))")
    made.install()
    made.run("INSERT INTO orders VALUES (1)", "UPDATE orders SET t = 'a'")
    assert made.capture().plan().key == ("id",)
    assert made.ops() == "IU"
    assert made.holds().compared == 1
    made.close()


def test_dates_in_ranges_do_not_depend_on_the_writers_session(orders: Captured) -> None:
    orders.run("ALTER TABLE orders ADD d daterange, ADD r tstzrange, ADD c regclass")
    orders.install()
    orders.run(
        "SET datestyle = 'SQL, DMY'",
        "INSERT INTO orders (id, d, r, c) VALUES (1, '[2026-02-01,)', '[\"2026-02-01 00:00Z\",)', 'orders')",
    )
    _, _, row = orders.changes()[0]
    assert (row["d"], row["r"]) == ("[2026-02-01,)", '["2026-02-01 00:00:00+00",)')
    orders.holds()


def test_removing_after_the_function_was_dropped_leaves_a_gap(orders: Captured) -> None:
    orders.install()
    orders.run("INSERT INTO orders VALUES (1)", "DROP FUNCTION poller_capture_orders() CASCADE")
    orders.run("INSERT INTO orders VALUES (2)")
    assert not orders.capture().remove(changes=False).triggers
    orders.install()
    orders.run("INSERT INTO orders VALUES (3)")
    assert orders.ops() == "IXI"


def test_rows_that_a_policy_hides_are_no_breaks(orders: Captured) -> None:
    orders.run(
        "CREATE ROLE capture_hidden LOGIN",
        "GRANT CREATE ON SCHEMA public TO capture_hidden",
        "ALTER TABLE orders OWNER TO capture_hidden",
        "ALTER TABLE orders ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY",
        "CREATE POLICY p ON orders USING (note = 'mine') WITH CHECK (true)",
    )
    try:
        url = sa.make_url(orders.url).set(username="capture_hidden").render_as_string(hide_password=False)
        owner = Captured(url)
        owner.install()
        owner.run("INSERT INTO orders VALUES (1, 'hidden'), (2, 'mine')")
        assert owner.ops() == "II"
        with pytest.raises(SourceError, match="row-level security"):
            owner.chain()
        owner.close()
        orders.holds()
    finally:
        orders.run("DROP OWNED BY capture_hidden CASCADE", "DROP ROLE capture_hidden")


def test_a_second_installation_sees_the_first_whatever_isolation(orders: Captured) -> None:
    database = sa.make_url(orders.url).database
    orders.run(f"ALTER DATABASE \"{database}\" SET default_transaction_isolation = 'serializable'")
    plans: list[CapturePlan] = []
    threads = [threading.Thread(target=lambda: plans.append(orders.capture().install())) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(plan.standing for plan in plans) == ["absent", "installed", "installed"]


def test_default_privileges_are_taken_and_the_reader_reads(orders: Captured) -> None:
    orders.run("CREATE ROLE capture_reader LOGIN", "CREATE ROLE capture_writer")
    for kind in ("TABLES", "SEQUENCES", "FUNCTIONS"):
        orders.run(f"ALTER DEFAULT PRIVILEGES GRANT ALL ON {kind} TO capture_reader, capture_writer")
    admin = orders.url
    try:
        orders.run("GRANT SELECT ON orders TO capture_reader")
        url = sa.make_url(admin).set(username="capture_reader").render_as_string(hide_password=False)
        reader = Captured(url, environ={"OWNER_URL": admin})
        reader.install(url_env="OWNER_URL")
        orders.run("INSERT INTO orders VALUES (1)")
        assert reader.ops() == "I"
        reader.close()
        rights = orders.run(
            "SELECT relname, privilege_type FROM pg_class, aclexplode(relacl) WHERE grantee <> relowner "
            "AND privilege_type <> 'SELECT' AND relname ~ '^poller'"
        )
        assert rights == []
        functions = orders.run(
            "SELECT proname FROM pg_proc, aclexplode(proacl) WHERE proname ~ '^poller' AND grantee <> proowner"
        )
        assert functions == []
    finally:
        orders.run("DROP OWNED BY capture_reader, capture_writer", "DROP ROLE capture_reader, capture_writer")


def test_keys_and_numbers_of_any_length_are_compared(postgres_db: str) -> None:
    made = Captured(postgres_db)
    made.run("CREATE TABLE orders (id numeric PRIMARY KEY, t numeric, j json)")
    made.install()
    made.run(
        "INSERT INTO orders VALUES (100), (1.00000000000000000000000000000000000001)",
        "INSERT INTO orders VALUES (1.00000000000000000000000000000000000002)",
        "UPDATE orders SET id = 100.0, t = 10::numeric ^ 5000 WHERE id = 100",
    )
    assert made.ops() == "IIIU"
    assert made.holds().compared == 3
    made.run(f"UPDATE orders SET j = '{'[' * 3000 + ']' * 3000}' WHERE id = 100")
    assert made.chain().breaks[0].what == "it lacks the new row's key"  # too deep to be read, and said so
    made.close()


def test_a_trigger_of_another_capture_is_refused_by_its_name(orders: Captured) -> None:
    orders.install()
    orders.run("ALTER TABLE orders RENAME TO former")
    orders.table = "former"
    with pytest.raises(
        CaptureRefusal, match=r"a trigger !poller_capture of another capture, which calls poller_capture_ord"
    ):
        orders.install()


def test_a_column_that_is_left_out_may_be_dropped(orders: Captured) -> None:
    orders.install(excluded=("note",))
    orders.run("ALTER TABLE orders DROP note")
    warnings = orders.capture().install().warnings
    assert [one for one in warnings if "column note, which was left out, is gone" in one]
    orders.run("INSERT INTO orders VALUES (1)")
    assert orders.ops() == "I"
    orders.holds()


def test_types_have_one_name_whatever_the_search_path(orders: Captured) -> None:
    """That of who installs is not that of who reads."""
    orders.run(
        "CREATE SCHEMA shop",
        "CREATE TYPE shop.state AS ENUM ('new')",
        "ALTER TABLE orders ADD phase shop.state",
    )
    shop = sa.make_url(orders.url).update_query_dict({"options": "-csearch_path=shop"})
    owner = Captured(shop.render_as_string(hide_password=False), schema="public")
    owner.install()
    owner.close()
    orders.run("INSERT INTO orders (id, phase) VALUES (1, 'new')")
    assert [row["phase"] for row in rows(orders)] == ["new"]


def test_a_table_of_another_owner_is_said(orders: Captured) -> None:
    """The casts of its types run as the user who installs."""
    orders.run("CREATE ROLE capture_owner")
    try:
        orders.run("ALTER TABLE orders OWNER TO capture_owner")
        assert [one for one in orders.capture().plan().warnings if "belongs to capture_owner" in one]
    finally:
        orders.run("DROP OWNED BY capture_owner CASCADE", "DROP ROLE capture_owner")
