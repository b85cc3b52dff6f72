"""The zone in which the database stamps a column without one must be `cursor_time_zone`: another makes the bound hours
off, and rows that commit late would be lost."""

from __future__ import annotations

import itertools
import time
import uuid
from collections.abc import Iterator

import pytest
import sqlalchemy as sa

from poller.errors import ConfigError
from tests.integration.bounds.tables import ids, make, source
from tests.integration.sources.tables import execute, family
from tests.support.cases import each
from tests.support.mysql_family import MySqlFamilyServer

NEW_YORK = "America/New_York"
NAIVE = "id bigint primary key, updated_at timestamp not null"


def refused(url: str, **keys: object) -> str:
    """The error at the first page, with what to do about it."""
    with source(url, **keys) as reader, pytest.raises(ConfigError) as error:
        reader.page(None, 10)
    assert error.value.key == "cursor_time_zone"
    return f"{error.value.message} {error.value.next_step}"


def database(url: str) -> str:
    return str(sa.make_url(url).database)


def in_new_york(url: str) -> str:
    execute(url, f"alter database {database(url)} set timezone = '{NEW_YORK}'")
    return url


@pytest.fixture
def role(postgres_db: str) -> Iterator[str]:
    """A role that may log in and read, and nothing else."""
    name = f"role_{uuid.uuid4().hex[:8]}"
    execute(postgres_db, f"create role {name} login")
    yield name
    execute(postgres_db, f"drop owned by {name}", f"drop role {name}")


@pytest.mark.guarantee(
    "Rows that commit late",
    "`cursor_time_zone` is the zone in which the database stamps a column without one; with another, nothing is "
    "delivered",
)
def test_a_database_in_another_zone_is_refused_at_the_first_page(postgres_db: str) -> None:
    make(in_new_york(postgres_db), f"{NAIVE} default now()")
    execute(postgres_db, "insert into stamped values (1)")
    error = refused(postgres_db)
    for part in (
        "updated_at",
        NEW_YORK,
        f'ALTER DATABASE "{database(postgres_db)}"',
        "UTC",
        'bound = "delay"',
        "allow_dst",
    ):
        assert part in error
    with source(postgres_db, cursor_time_zone=NEW_YORK, allow_dst=True, patience=5) as reader:
        assert reader.page(None, 10).bound.kind == "exact"


def test_a_zone_changed_under_way_is_noticed_within_a_minute(postgres_db: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sessions that begin from then on stamp in it, and the one that reads may be weeks old."""
    make(postgres_db, f"{NAIVE} default now()")
    with source(postgres_db) as reader:
        assert reader.page(None, 10).bound.kind == "exact"
        execute(postgres_db, "insert into stamped values (1)")
        reader.page(None, 10)
        in_new_york(postgres_db)
        monkeypatch.setattr(reader._session.bounding, "_monotonic", lambda: time.monotonic() + 60)
        for _ in range(2):
            with pytest.raises(ConfigError, match="ALTER DATABASE"):
                reader.page(None, 10)


def test_this_sessions_own_zone_is_not_the_writers(postgres_db: str) -> None:
    make(in_new_york(postgres_db), f"{NAIVE} default now()")
    url = sa.make_url(postgres_db).update_query_dict({"options": "-c timezone=UTC"})
    assert NEW_YORK in refused(url.render_as_string(hide_password=False))


def test_an_option_of_the_url_does_not_hide_the_servers_zone(postgres_db: str) -> None:
    make(postgres_db, f"{NAIVE} default now()")
    url = sa.make_url(postgres_db).update_query_dict({"options": "-c timezone=America/New_York"})
    with source(url.render_as_string(hide_password=False)) as reader:
        assert reader.page(None, 10).bound.kind == "exact"
    assert "command line" in refused(url.render_as_string(hide_password=False), cursor_time_zone="Asia/Tokyo")


def test_a_role_in_another_zone_counts_where_it_may_write(postgres_db: str, role: str) -> None:
    make(postgres_db, f"{NAIVE} default now()")
    execute(postgres_db, f"alter role {role} set timezone = 'Asia/Tokyo'")
    own = sa.make_url(postgres_db).set(username=role).render_as_string()
    reads: list[tuple[str, dict[str, list[str]]]] = [
        (postgres_db, {}),
        (own, {}),
        (postgres_db, {"bound_ignore_users": [role]}),
    ]
    for may, (url, keys) in itertools.product(("select", "select, update"), reads):
        execute(postgres_db, f"grant {may} on stamped to {role}")
        if "update" in may and not keys:
            error = refused(url)
            assert f'ALTER ROLE "{role}" SET timezone' in error
            assert f'bound_ignore_users = ["{role}"]' in error
            assert url == own or "Set cursor_time_zone" not in error, "with that the others' zone would be refused"
        else:
            with source(url, **keys) as reader:
                assert reader.page(None, 10).bound.kind != "heuristic"


def test_a_default_with_a_zone_of_its_own_stamps_in_that(postgres_db: str) -> None:
    make(in_new_york(postgres_db), f"{NAIVE} default (now() at time zone 'utc')")
    execute(postgres_db, "create view seen as select id as key, updated_at as at from stamped")
    with source(postgres_db) as reader:
        assert reader.page(None, 10).bound.kind == "exact"
    with source(postgres_db, table="seen", cursor_column="at", pk_columns=["key"]) as reader:
        assert reader.page(None, 10).bound.kind == "exact"
    assert "the column's DEFAULT" in refused(postgres_db, cursor_time_zone=NEW_YORK, allow_dst=True)


def test_a_trigger_that_stamps_is_read(postgres_db: str) -> None:
    make(in_new_york(postgres_db), f"{NAIVE} default now()")
    made = "function touch() returns trigger language plpgsql {} as $$ begin {} return new; end $$"
    execute(
        postgres_db,
        f"create {made.format('', '')}",
        "create trigger touch before insert or update on stamped for each row execute function touch()",
        "create function my_stamp(r stamped) returns stamped language sql as 'select r'",
    )
    for options, body, fine in (
        ("", "new.updated_at \\:= now() at time zone 'utc';", True),
        ("", "new.updated_at = clock_timestamp();", False),
        ("", "new \\:= my_stamp(new);", True),  # nobody can read that
        ("set timezone = 'UTC'", "new.updated_at \\:= now();", True),
    ):
        execute(postgres_db, f"create or replace {made.format(options, body)}")
        if not fine:
            assert "ALTER DATABASE" in refused(postgres_db)
            continue
        with source(postgres_db) as reader:
            assert reader.page(None, 10).bound.kind == "exact"


def test_a_trigger_that_sets_no_time_hides_no_default(postgres_db: str) -> None:
    make(in_new_york(postgres_db), f"{NAIVE} default now(), body text, found tsvector")
    execute(
        postgres_db,
        "create trigger found before insert or update on stamped for each row"
        " execute function tsvector_update_trigger(found, 'pg_catalog.english', body)",
        "create function noted() returns trigger language plpgsql as $$ begin"
        " if tg_op = 'UPDATE' then perform new.updated_at; end if; return null; end $$",
        "create trigger noted after insert or update on stamped for each row execute function noted()",
    )
    assert "ALTER DATABASE" in refused(postgres_db)


def test_a_trigger_of_the_partitions_counts(postgres_db: str) -> None:
    make(in_new_york(postgres_db), NAIVE, suffix=" partition by range (id)")
    execute(
        postgres_db,
        "create table part partition of stamped for values from (0) to (9)",
        "create function touch() returns trigger language plpgsql as"
        " $$ begin new.updated_at \\:= now() at time zone 'utc'; return new; end $$",
        "create trigger touch before insert or update on part for each row execute function touch()",
    )
    with source(postgres_db) as reader:
        assert reader.page(None, 10).bound.kind == "exact"


def test_a_default_of_a_child_counts_for_rows_inserted_there(postgres_db: str) -> None:
    make(in_new_york(postgres_db), f"{NAIVE} default (now() at time zone 'utc')")
    execute(postgres_db, "create table child (primary key (id)) inherits (stamped)", "insert into child values (1)")
    with source(postgres_db) as reader:
        assert reader.page(None, 10).bound.kind == "exact"
    execute(postgres_db, "alter table child alter updated_at set default now()")
    assert "ALTER DATABASE" in refused(postgres_db)


def test_an_abbreviation_as_a_zone_setting_has_its_summer(postgres_db: str) -> None:
    make(postgres_db, f"{NAIVE} default now()")
    execute(postgres_db, f"alter database {database(postgres_db)} set timezone = 'CET'")
    with source(postgres_db, cursor_time_zone="Europe/Brussels", allow_dst=True) as reader:
        assert reader.page(None, 10).bound.kind == "exact"
    assert 'cursor_time_zone = "CET"' in refused(postgres_db)


def test_the_present_time_in_a_query_is_the_readers(postgres_db: str) -> None:
    make(in_new_york(postgres_db), f"{NAIVE} default now()")
    query = "select id, least(updated_at, localtimestamp) as updated_at from stamped"
    with source(postgres_db, table=None, query=query) as reader:
        reader.page(None, 10)


def test_a_view_over_instants_shows_the_zone_that_it_names(postgres_db: str) -> None:
    make(in_new_york(postgres_db), "id bigint primary key, updated_at timestamptz not null default now()")
    query = "select id, updated_at at time zone 'UTC' as updated_at from stamped"
    execute(postgres_db, f"create view seen as {query}")
    for keys in ({"table": "seen"}, {"table": None, "query": query}):
        with source(postgres_db, **keys) as reader:
            assert reader.page(None, 10).bound.kind == "exact"
        assert "at time zone" in refused(postgres_db, cursor_time_zone="Asia/Tokyo", **keys).lower()


def test_columns_with_a_zone_and_no_bound_are_not_asked_about(postgres_db: str) -> None:
    make(in_new_york(postgres_db))
    make(postgres_db, f"{NAIVE} default now()", name="naive")
    with source(postgres_db) as reader:
        assert reader.page(None, 10).bound.kind == "exact"
    with source(postgres_db, table="naive", bound="none") as reader:
        assert reader.page(None, 10).bound.kind == "none"


def test_where_the_application_stamps_the_bound_is_a_guess(postgres_db: str) -> None:
    make(in_new_york(postgres_db), NAIVE)
    execute(postgres_db, "insert into stamped values (1, '2026-01-01')")
    with source(postgres_db, bound="delay") as reader:
        assert ids(reader) == [1]
        bound = reader.bound()
    assert bound.kind == "heuristic"


def test_mysql_and_mariadb_stamp_in_the_servers_zone(family_server: MySqlFamilyServer, family_db: str) -> None:
    make(family_db, "id bigint primary key, updated_at datetime(6) not null default current_timestamp(6)")
    make(family_db, "id bigint primary key, updated_at datetime(6) not null default (utc_timestamp(6))", name="fixed")
    make(
        family_db,
        "id bigint primary key, updated_at timestamp(6) not null default current_timestamp(6)",
        name="instant",
    )
    execute(family_db, "create view seen as select id, updated_at as at from stamped")
    execute(family_db, "insert into stamped (id) values (1)")  # a query's types are known by its first row
    family_server.execute("set global time_zone = '-05:00'")
    try:
        for keys in ({}, {"table": "seen", "cursor_column": "at"}, {"table": None, "query": "select * from stamped"}):
            error = refused(family_db, **keys)
            assert (
                "stamps {} in UTC-05:00 (the server's time_zone = -05:00)".format(
                    keys.get("cursor_column", "updated_at")
                )
                in error
            )
            assert 'cursor_time_zone = "Etc/GMT+5"' in error
        for keys in ({"table": "fixed"}, {"table": "instant"}, {"cursor_time_zone": "Etc/GMT+5"}):
            with source(family_db, **keys) as reader:
                assert reader.page(None, 10).bound.kind == "observed"
    finally:
        family_server.execute("set global time_zone = '+00:00'")


def test_sqlite_stamps_utc_and_localtime_is_another_zone(sqlite_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, modifier in (("stamped", ""), ("local", ", 'localtime'")):
        make(
            sqlite_url,
            f"id integer primary key, updated_at text not null default (datetime('now'{modifier}))",
            name=name,
        )
        execute(sqlite_url, f"insert into {name} (id) values (1)")
    monkeypatch.setenv("TZ", NEW_YORK)
    time.tzset()
    try:
        with source(sqlite_url) as reader:
            assert reader.page(None, 10).bound.kind == "exact"
        assert "localtime" in refused(sqlite_url, table="local")
        assert "stamps updated_at in UTC" in refused(sqlite_url, cursor_time_zone="Asia/Tokyo")
    finally:
        monkeypatch.delenv("TZ")
        time.tzset()


def test_a_trigger_named_as_a_view_of_sqlite_hides_no_stamp(sqlite_url: str) -> None:
    """Triggers have names of their own, and this one was there first."""
    make(sqlite_url, "id integer primary key, updated_at text not null default (datetime('now'))")
    execute(
        sqlite_url,
        "insert into stamped (id) values (1)",
        "create trigger shown after delete on stamped begin select 1; end",
        "create view shown as select * from stamped",
    )
    assert "stamps updated_at in UTC" in refused(sqlite_url, table="shown", cursor_time_zone="Asia/Tokyo")


def test_sqlite_takes_the_word_for_a_column_that_nothing_stamps(sqlite_url: str) -> None:
    make(sqlite_url, "id integer primary key, updated_at text not null")
    execute(sqlite_url, "insert into stamped values (1, '2026-01-01 00\\:00\\:00')")
    with source(sqlite_url, cursor_time_zone="Asia/Tokyo") as reader:
        assert ids(reader) == [1]


MOMENTS_CUT = {
    "postgresql": ("date_trunc('minute', now())", "current_date", "now() - interval '1 minute'"),
    "mysql": ("(curdate())", "(now(6) - interval 1 minute)"),
}


@pytest.mark.parametrize("server", ["postgres_db", "mariadb_db"])
def test_a_time_before_the_moment_is_refused_as_a_stamp(server: str, request: pytest.FixtureRequest) -> None:
    """Rows of one minute share it, and the later ones of them are passed over wherever their keys sort before."""
    url = request.getfixturevalue(server)
    kind = "datetime(6)" if family(url) == "mysql" else "timestamptz"
    for stamp in MOMENTS_CUT[family(url)]:
        make(url, f"id bigint primary key, updated_at {kind} not null default {stamp}")
        execute(url, "insert into stamped (id) values (1)")
        for keys in ({}, {"bound": "delay"}, {"settle": "61s"}):
            with source(url, **keys) as reader:
                if not keys:
                    with pytest.raises(ConfigError, match="a time before the present") as error:
                        reader.page(None, 10)
                    assert error.value.key == "settle"
                else:
                    reader.page(None, 10)
        execute(url, "drop table stamped")


@each("stamp", ["date_trunc('second', now())", "now()", "now() + interval '1 day'"])
def test_a_stamp_of_the_second_or_later_is_taken(postgres_db: str, stamp: str) -> None:
    make(postgres_db, f"id bigint primary key, updated_at timestamptz not null default {stamp}")
    execute(postgres_db, "insert into stamped (id) values (1)")
    with source(postgres_db) as reader:
        assert reader.page(None, 10).bound.kind == "exact"
