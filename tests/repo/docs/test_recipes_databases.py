"""docs/recipes/, from each database: what a page makes is read by the user that it makes, as it says."""

from __future__ import annotations

import json
import re
import time
import uuid
from pathlib import Path

import pytest
import sqlalchemy as sa
import sqlglot

from poller.config import load_config
from tests.repo.docs.recipe import follow, run_sql


def users_own(text: str, database: str) -> tuple[str, str, str]:
    """A page's grants with a user of this test's own; the user, and the database's URL as that user."""
    name = f"poller_source_{uuid.uuid4().hex[:8]}"
    url = sa.make_url(database)
    text = text.replace("poller_source", name).replace("shop.orders", f"{url.database}.orders")
    return text, name, url.set(username=name, password=None).render_as_string(hide_password=False)


@pytest.mark.parametrize(
    ("name", "server", "setting"),
    [("PostgreSQL", "postgres_db", "SHOP_DB_URL"), ("MariaDB and MySQL", "mariadb_db", "MYSQL_URL")],
    ids=["postgresql", "mariadb"],
)
def test_a_servers_user_reads_what_its_section_makes(
    name: str, server: str, setting: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    database = request.getfixturevalue(server)
    with follow("databases", tmp_path, "The poller", name, "Run it") as shop:
        shop.write()
        shop.sql(database)
        grants, user, shop.environ[setting] = users_own(shop.take("sql"), database)
        run_sql(database, grants)
        try:
            later = "now() + interval '1' second"
            run_sql(database, f"INSERT INTO orders (total, updated_at) VALUES (1, {later}), (2, {later})")
            # As if the reader had typed on for a minute; setting the column itself, an UPDATE is not stamped anew.
            trigger = "ALTER TABLE orders {} TRIGGER USER" if name == "PostgreSQL" else "SELECT 1"
            run_sql(database, trigger.format("DISABLE"))
            run_sql(database, "UPDATE orders SET updated_at = updated_at - interval '1' minute")
            run_sql(database, trigger.format("ENABLE"))
            printed = shop.type()
        finally:
            drop = f"DROP OWNED BY {user}; DROP ROLE {user}" if name == "PostgreSQL" else f"DROP USER {user}"
            run_sql(database, drop)
    assert [json.loads(line)["id"] for line in printed.splitlines() if line.startswith("{")] == [1, 2, 3]
    assert re.findall(r"^ +(?:warn|error) +(\w+)", printed, re.MULTILINE) == []


def test_the_column_of_azures_trigger_is_followed_without_a_gap(mariadb_db: str, tmp_path: Path) -> None:
    """Also where an earlier row commits after a later one was looked for."""
    column = "az_func_updated_at timestamp DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP"
    run_sql(mariadb_db, f"CREATE TABLE orders (id int PRIMARY KEY, total int);\nALTER TABLE orders ADD {column}")
    run_sql(mariadb_db, "INSERT INTO orders VALUES (1, 1, now() - interval 1 minute)")  # not of the second of the start
    engine = sa.create_engine(mariadb_db, poolclass=sa.NullPool)
    with follow("from-another-trigger", tmp_path, "The poller", "Azure Database for MySQL's trigger") as shop:
        shop.write()
        grants, user, shop.environ["MYSQL_URL"] = users_own(shop.take("sql"), mariadb_db)
        run_sql(mariadb_db, grants)
        try:
            begun = shop.type(shop.take("bash"))
            with engine.begin() as late:
                late.exec_driver_sql("INSERT INTO orders (id, total) VALUES (3, 3)")
                time.sleep(1.1)  # the column has whole seconds
                run_sql(mariadb_db, "INSERT INTO orders (id, total) VALUES (2, 2)")
                assert "upsert" not in shop.type("poller run orders --once")
            printed = shop.type(shop.take("bash"))
        finally:
            run_sql(mariadb_db, f"DROP USER {user}")
    assert re.findall(r"^ +(?:warn|error) +(\w+)", begun, re.MULTILINE) == []
    came = re.findall(r"^upsert (\d)", begun + printed, re.MULTILINE)
    assert came == ["3", "2"], "the trigger had delivered the first"


def test_a_sqlite_file_is_read_as_shown(tmp_path: Path) -> None:
    with follow("databases", tmp_path, "The poller", "SQLite", "Run it") as shop:
        shop.write()
        shop.type()
        shop.age("orders")
        printed = shop.type()
    assert [json.loads(line)["total"] for line in printed.splitlines() if line.startswith("{")] == [99.5]
    assert re.findall(r"^ +(?:warn|error) +(\w+)", printed, re.MULTILINE) == []


NO_SERVER = {
    "SQL_SERVER_URL": "mssql+pyodbc://poller_source:x@server/shop?driver=ODBC+Driver+18+for+SQL+Server",
    "AzureWebJobsStorage": "UseDevelopmentStorage=true",
}


@pytest.mark.parametrize(
    ("name", "section"),
    [("from-another-trigger", "Azure's SQL trigger"), ("databases", "SQL Server and Azure SQL")],
)
def test_what_no_server_runs_here_is_loaded_and_parsed(name: str, section: str, tmp_path: Path) -> None:
    with follow(name, tmp_path, "The poller", section) as shop:
        shop.write()
        while any(block.language == "sql" for block in shop.left):
            assert all(sqlglot.parse(shop.take("sql"), dialect="tsql", error_level=sqlglot.ErrorLevel.RAISE))
        config = load_config(tmp_path / "poller.toml", NO_SERVER)
        assert config.pollers["orders"].source.cursor_kind == "rowversion+pk"
