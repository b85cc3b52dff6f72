"""What `poller check` prints to fix a table fixes it, and harms nothing else of it; also where UPDATEs would never be
delivered."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from tests.cli.checks import fix, found, wrong
from tests.cli.databases import configure
from tests.cli.project import Project
from tests.integration.sources.tables import execute, family, touch_at_updates

COMMENT = "not what DEFAULT NULL says, it's \\\\ the 'last' write, NULL or not"


def rows(url: str, statement: str) -> list[Any]:
    engine = sa.create_engine(url, poolclass=sa.NullPool)
    with engine.connect() as connection:
        return [tuple(row) for row in connection.execute(sa.text(statement))]


@pytest.mark.parametrize(
    ("database", "kind", "rest"),
    [
        ("mariadb_db", "datetime(6) null", "default current_timestamp(6) on update current_timestamp(6)"),
        ("mysql_db", "timestamp(3) null", "default null on update current_timestamp(3)"),
        ("mysql_db", "datetime", "on update current_timestamp"),
    ],
)
def test_not_null_leaves_everything_else_of_the_column_as_it_was(
    project: Project, database: str, kind: str, rest: str, request: pytest.FixtureRequest
) -> None:
    url: str = request.getfixturevalue(database)
    quoted = COMMENT.replace("'", "''")
    execute(
        url,
        "create table orders (id int primary key, note text null,"
        f" updated_at {kind} {rest} comment '{quoted}', key cursor_id (updated_at, id))".replace(":", "\\:"),
        "insert into orders (id, updated_at) values (1, '2026-01-01 00:00:00')",
    )
    configure(project, url, 'cursor_time_zone = "UTC"')
    about = (
        "select column_type, column_default, replace(extra, 'DEFAULT_GENERATED ', ''), column_comment"
        " from information_schema.columns where table_schema = database() and column_name = 'updated_at'"
    )
    before = rows(url, about)[0]

    assert len(fix(url, project.run("check", "--json"))) == 1

    after = rows(url, about)[0]
    assert (after[0], *after[2:]) == (before[0], *before[2:])
    # What was NULL is now the present time: else it would be 0000-00-00, below every checkpoint.
    now = "current_timestamp(3)" if kind.startswith("timestamp") else "current_timestamp"
    expected = now if before[1] in {None, "NULL"} else before[1].lower()
    assert after[1].lower().removesuffix("()") == expected
    assert wrong(project.run("check", "--json")) == {}


def test_a_computed_column_gets_advice_and_no_statement(project: Project, mariadb_db: str) -> None:
    execute(
        mariadb_db,
        "create table orders (id int primary key, made datetime(6),"
        " updated_at datetime(6) generated always as (made + interval 1 second) stored, key c (updated_at, id))",
        "insert into orders (id, made) values (1, '2026-01-01 00:00:00')",
    )
    configure(project, mariadb_db, 'cursor_time_zone = "UTC"')
    assert found(project.run("check", "--json"))["nulls"]["fix"].startswith("Forbid NULL in updated_at:")


@pytest.mark.parametrize(("kind", "zone"), [("timestamptz", ""), ("timestamp", "UTC"), ("timestamp", "Asia/Tokyo")])
def test_on_postgresql_null_stamps_become_now_in_the_columns_zone(
    project: Project, postgres_db: str, kind: str, zone: str
) -> None:
    now = f"(now() at time zone '{zone}')" if zone else "now()"
    body = f"$$ begin new.updated_at \\:= {now}; return new; end $$"
    execute(
        postgres_db,
        f"create table orders (id int primary key, updated_at {kind}(0) default {now})",
        "create index on orders (updated_at, id)",
        "insert into orders values (1, '2026-01-01 00:00:00'), (2, null)",
        f"alter database {sa.make_url(postgres_db).database} set timezone = 'America/New_York'",
    )
    touch_at_updates(postgres_db)
    execute(postgres_db, f"create or replace function touch_orders() returns trigger language plpgsql as {body}")
    configure(project, postgres_db, f'cursor_time_zone = "{zone}"' if zone else "")

    fix(postgres_db, project.run("check", "--json"))

    meaning = f"updated_at at time zone '{zone}'" if zone else "updated_at"
    ((age,),) = rows(postgres_db, f"select now() - ({meaning}) from orders where id = 2")
    assert timedelta(seconds=-1) < age < timedelta(minutes=10)
    assert wrong(project.run("check", "--json")) == {}


@pytest.mark.parametrize(("database", "kind"), [("mariadb_db", "datetime(6)"), ("mysql_db", "timestamp(3)")])
def test_on_mysql_too(project: Project, database: str, kind: str, request: pytest.FixtureRequest) -> None:
    url: str = request.getfixturevalue(database)
    touched = f" on update current_timestamp({kind.partition('(')[2].rstrip(')') or 0})"
    execute(
        url,
        f"create table orders (id int primary key, updated_at {kind} null{touched}, key c (updated_at, id))",
        "insert into orders values (1, '2026-01-01 00:00:00'), (2, null)",
    )
    configure(project, url, 'cursor_time_zone = "UTC"')
    statements = [one["fix"] for one in found(project.run("check", "--json")).values() if one["fix"]]
    engine = sa.create_engine(url, isolation_level="AUTOCOMMIT", poolclass=sa.NullPool)
    with engine.connect() as administrator:
        administrator.execute(sa.text("set time_zone = '-05:00'"))
        for statement in " ".join(statements).split(";"):
            if statement.strip():
                administrator.execute(sa.text(statement))
        administrator.execute(sa.text("set time_zone = '+00:00'"))
        filled = administrator.execute(sa.text("select updated_at from orders where id = 2")).scalar_one()

    assert abs(datetime.now(UTC).replace(tzinfo=None) - filled) < timedelta(minutes=10)
    assert wrong(project.run("check", "--json")) == {}


COLUMNS = {
    "postgresql": '"Id" bigint primary key, "total" int, updated_at timestamptz not null default now()',
    "mysql": "`Id` bigint primary key, total int, updated_at datetime(6) not null default now(6) comment 'a; b'",
    "sqlite": "\"Id\" integer primary key not null, total int, updated_at text not null default (datetime('now'))",
}


def run_printed(url: str, statement: str) -> None:
    engine = sa.create_engine(url, poolclass=sa.NullPool, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.exec_driver_sql(statement.replace("%", "%%") if family(url) == "mysql" else statement)


@pytest.mark.guarantee("Rows that commit late", "`check` warns if nothing in the database stamps UPDATEs")
def test_the_printed_statement_makes_updates_stamp_the_cursor(project: Project, any_db: str) -> None:
    quote = "`" if family(any_db) == "mysql" else '"'
    table = f"{quote}Or der{quote}"
    execute(
        any_db,
        f"create table {table} ({COLUMNS[family(any_db)]})".replace(":", "\\:"),
        f"insert into {table} values (1, 1, '2026-01-01 00:00:00')",
    )
    configure(project, any_db, 'cursor_time_zone = "UTC"', table="Or der")
    project.write((project.folder / "poller.toml").read_text().replace('["id"]', '["Id"]'))
    first = found(project.run("check", "--json"))["updates"]
    assert first["severity"] == "warn"
    assert "never delivered" in first["message"]
    run_printed(any_db, first["fix"])
    assert found(project.run("check", "--json"))["updates"]["severity"] == "ok"
    execute(any_db, f"update {table} set total = 2")
    assert project.run("run", "orders", "--once").code == 0
    engine = sa.create_engine(any_db, poolclass=sa.NullPool)
    with engine.connect() as connection:
        stamped = connection.execute(sa.text(f"select updated_at from {table}")).scalar_one()
    assert str(stamped) > "2026-01-01 00:00:01"


@pytest.mark.parametrize(
    ("column", "severity"),
    [("modified", "warn"), ("LastChanged", "warn"), ("created_at", "ok"), ("exchanged_at", "ok"), ("ts", "ok")],
)
def test_only_names_that_promise_changes_are_warned_of(project: Project, column: str, severity: str) -> None:
    project.execute(f"CREATE TABLE orders (id INTEGER PRIMARY KEY NOT NULL, {column} TEXT NOT NULL DEFAULT 0)")
    project.execute("INSERT INTO orders VALUES (1, '2026-01-01 00:00:00')")
    configure(project, f"sqlite:///{project.folder / 'shop.db'}", 'cursor_time_zone = "UTC"')
    project.write((project.folder / "poller.toml").read_text().replace("updated_at", column))
    finding = found(project.run("check", "--json"))["updates"]
    assert finding["severity"] == severity
    assert ("new rows only" in finding["message"]) is (severity == "ok")


def test_a_trigger_that_leaves_the_column_alone_is_none(project: Project) -> None:
    project.configure("orders")
    project.execute("DROP TRIGGER touch_orders")
    project.execute("CREATE TABLE log (line TEXT)")
    project.execute("CREATE TRIGGER noted AFTER UPDATE ON orders BEGIN INSERT INTO log VALUES ('changed'); END")
    assert found(project.run("check", "--json"))["updates"]["severity"] == "warn"


def test_a_trigger_that_stamps_another_table_leaves_this_one_alone(project: Project) -> None:
    project.configure("orders")
    project.execute("DROP TRIGGER touch_orders")
    project.execute("CREATE TABLE customers (id INTEGER, updated_at TEXT)")
    project.execute(
        "CREATE TRIGGER noted AFTER UPDATE ON orders BEGIN"
        " UPDATE customers SET updated_at = datetime('now') WHERE id = NEW.id; END"
    )
    assert found(project.run("check", "--json"))["updates"]["severity"] == "warn"


def test_init_prints_it_and_says_where_only_new_rows_come(project: Project, sqlite_url: str) -> None:
    execute(
        sqlite_url,
        "create table orders (id integer primary key not null, updated_at text not null default current_timestamp)",
        "create table log (id integer primary key not null, created_at text not null default current_timestamp)",
    )
    printed = project.run("init", "--url", sqlite_url, "--table", "orders", "--yes")
    assert "CREATE TRIGGER orders_set_updated_at AFTER UPDATE ON orders" in printed.out
    printed = project.run("init", "--url", sqlite_url, "--table", "log", "--yes", "--force")
    assert "new rows only: created_at" in printed.out
    printed = project.run("init", "--url", sqlite_url, "--table", "log", "--yes", "--force", "--json")
    assert "new rows only" in printed.out
