"""What `poller check` prints to fix a table fixes it, and harms nothing else of it, whoever runs it where."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from tests.cli.checks import fix, found, wrong
from tests.cli.databases import configure
from tests.cli.project import Project
from tests.integration.sources.tables import execute, touch_at_updates

COMMENT = "not what DEFAULT NULL says, it's \\\\ the 'last' write, NULL or not"


def rows(url: str, statement: str) -> list[Any]:
    engine = sa.create_engine(url, poolclass=sa.NullPool)
    with engine.connect() as connection:
        return [tuple(row) for row in connection.execute(sa.text(statement))]


@pytest.mark.parametrize(
    ("kind", "rest"),
    [
        ("datetime(6) null", "default current_timestamp(6) on update current_timestamp(6)"),
        ("timestamp(3) null", "default null on update current_timestamp(3)"),
        ("datetime", "on update current_timestamp"),
    ],
)
@pytest.mark.parametrize("database", ["mariadb_db", "mysql_db"])
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


@pytest.mark.parametrize(
    ("kind", "zone"),
    [("timestamptz", ""), ("timestamp", "UTC"), ("timestamp", "Asia/Tokyo")],
)
def test_on_postgresql_rows_without_a_time_get_the_present_one_of_the_columns_zone(
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


@pytest.mark.parametrize("kind", ["datetime(6)", "timestamp(3)", "datetime"])
@pytest.mark.parametrize("database", ["mariadb_db", "mysql_db"])
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
