"""`poller check` and `init` say where UPDATEs would never be delivered, and the statement that they print delivers
them."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from tests.cli.checks import found
from tests.cli.databases import configure
from tests.cli.project import Project
from tests.integration.sources.tables import execute, family

COLUMNS = {
    "postgresql": '"Id" bigint primary key, "total" int, updated_at timestamptz not null default now()',
    "mysql": "`Id` bigint primary key, total int, updated_at datetime(6) not null default now(6) comment 'a; b'",
    "sqlite": "\"Id\" integer primary key not null, total int, updated_at text not null default (datetime('now'))",
}


def run_printed(url: str, statement: str) -> None:
    engine = sa.create_engine(url, poolclass=sa.NullPool, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.exec_driver_sql(statement.replace("%", "%%") if family(url) == "mysql" else statement)


def test_updates_that_nothing_stamps_are_told_and_the_printed_statement_stamps_them(
    project: Project, any_db: str
) -> None:
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
    told = project.run("init", "--url", sqlite_url, "--table", "orders", "--yes")
    assert "CREATE TRIGGER orders_set_updated_at AFTER UPDATE ON orders" in told.out
    told = project.run("init", "--url", sqlite_url, "--table", "log", "--yes", "--force")
    assert "new rows only: created_at" in told.out
    told = project.run("init", "--url", sqlite_url, "--table", "log", "--yes", "--force", "--json")
    assert "new rows only" in told.out
