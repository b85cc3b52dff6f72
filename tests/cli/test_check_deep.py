"""`poller check` sees through views, queries, and what only looks like an index."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest
import sqlalchemy as sa

from tests.cli.checks import fix, found, make_table, wrong
from tests.cli.databases import configure
from tests.cli.project import Project
from tests.integration.sources.tables import execute


@pytest.fixture
def role(postgres_db: str) -> Iterator[str]:
    """A PostgreSQL role that may do nothing yet."""
    name = f"reader_{uuid.uuid4().hex[:8]}"
    execute(postgres_db, f"create role {name} login password 'geheim-7'")
    yield name
    execute(postgres_db, f"drop owned by {name}", f"drop role {name}")


@pytest.fixture
def hidden(postgres_db: str, role: str) -> str:
    """The URL of a role from whom a policy hides most rows of `orders`; `own` is a view of the table's owner over it,
    `asking` one that asks as whoever reads it, `around` one of the owner over that."""
    make_table(postgres_db)
    execute(
        postgres_db,
        "alter table orders alter updated_at set not null",
        "create index on orders (updated_at, id)",
        f"create policy seldom on orders to {role} using (id < 3)",
        "alter table orders enable row level security",
        "create view own as select * from orders",
        "create view asking with (security_invoker = on) as select * from orders",
        "create view around as select * from asking",
        f"grant select on orders, own, asking, around to {role}",
    )
    return sa.make_url(postgres_db).set(username=role, password="geheim-7").render_as_string(False)


def over_query(project: Project, url: str, query: str) -> None:
    configure(project, url)
    text = (project.folder / "poller.toml").read_text()
    (project.folder / "poller.toml").write_text(text.replace('table = "orders"', f'query = "{query}"'))


@pytest.mark.parametrize("table", ["orders", "asking"])
def test_what_a_policy_hides_behind_a_view_is_an_error(
    project: Project, postgres_db: str, hidden: str, table: str
) -> None:
    configure(project, hidden, table=table)
    ended = project.run("check", "--json")
    assert ended.code == 1
    assert "orders (for reader_" in found(ended)["row_security"]["message"]
    fix(postgres_db, ended)
    assert "row_security" not in wrong(project.run("check", "--json"))


@pytest.mark.parametrize("table", ["own", "around"])
def test_a_view_that_asks_for_its_owner_shows_all_rows(project: Project, hidden: str, table: str) -> None:
    configure(project, hidden, table=table)
    assert "row_security" not in wrong(project.run("check", "--json"))


@pytest.mark.parametrize(
    ("query", "hides"),
    [("select * from orders", True), ("select * from asking", True), ("select * from own", False)],
)
def test_what_a_policy_hides_behind_a_query_too(project: Project, hidden: str, query: str, hides: bool) -> None:
    over_query(project, hidden, query)
    assert ("row_security" in wrong(project.run("check", "--json"))) is hides


@pytest.mark.parametrize("columns", ["updated_at desc, id", "updated_at nulls first, id"])
def test_an_index_of_another_order_is_none(project: Project, postgres_db: str, columns: str) -> None:
    make_table(postgres_db)
    execute(
        postgres_db,
        "alter table orders alter updated_at set not null",
        "insert into orders select n, '2026-06-01' from generate_series(1001, 30000) n",
        f"create index on orders ({columns})",
        "analyze orders",
    )
    configure(project, postgres_db)
    first = project.run("check", "--json")
    assert wrong(first) == {"index": "warn", "plan": "warn"}
    assert "Sort by updated_at, id" in found(first)["plan"]["message"]
    fix(postgres_db, first)
    assert wrong(project.run("check", "--json")) == {}


def test_an_index_that_is_read_backwards_will_do(project: Project, postgres_db: str) -> None:
    make_table(postgres_db, 2_000)
    execute(
        postgres_db,
        "alter table orders alter updated_at set not null",
        "create index on orders (updated_at desc, id desc)",
        "analyze orders",
    )
    configure(project, postgres_db)
    assert wrong(project.run("check", "--json")) == {}


@pytest.mark.parametrize("name", ["'a\\\\b','it''s'", "X'00ff27','x',1", "X'0102ff',X'',7"])
def test_a_prepared_xa_transaction_of_any_name_is_ended_by_what_is_printed(
    project: Project, family_db: str, name: str
) -> None:
    name = name.replace("X'00ff27','x',1", "X'00ff27',X'78',1")
    make_table(family_db)
    execute(
        family_db,
        "alter table orders modify updated_at datetime(6) not null default now(6) on update now(6)",
        "create index c on orders (updated_at)",
    )
    engine = sa.create_engine(family_db, poolclass=sa.NullPool, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.exec_driver_sql(f"xa start {name}")
        connection.exec_driver_sql("insert into orders values (7000, now(6))")
        connection.exec_driver_sql(f"xa end {name}")
        connection.exec_driver_sql(f"xa prepare {name}")
        connection.invalidate()  # it stays prepared without its session
    configure(project, family_db, 'cursor_time_zone = "UTC"')
    ended = project.run("check", "--json")
    try:
        assert ended.code == 1
        with engine.connect() as connection:
            connection.exec_driver_sql(found(ended)["prepared"]["fix"].split(";")[0])
    finally:
        with engine.connect() as connection:
            left = connection.exec_driver_sql("xa recover").all()
            if left:
                connection.exec_driver_sql(f"xa rollback {name}")
    assert left == []
