"""PostgreSQL: whose transactions wrote what is read, through views, queries, partitions and children."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
import sqlalchemy as sa

from poller.errors import ConfigError, SourceError
from tests.integration.bounds.tables import STAMPED, add, ids, make, session, source
from tests.integration.sources.tables import execute
from tests.support.cases import each
from tests.support.services import unavailable

COLUMNS = STAMPED["postgresql"]


def subscribe(url: str, table: str) -> None:
    """Let the catalogue say that a subscription fills a table."""
    with session(
        url,
        "set allow_system_table_mods = on",
        f"insert into pg_subscription_rel (srsubid, srrelid, srsubstate) values (1, '{table}'::regclass, 'r')",
    ):
        pass


@pytest.fixture
def foreign(postgres_db: str) -> str:
    """A database with a local table `stamped`, and `far` that lives on another server."""
    make(postgres_db)
    make(postgres_db, name="far_away")
    url = sa.make_url(postgres_db)
    try:
        execute(postgres_db, "create extension postgres_fdw")
    except sa.exc.DBAPIError as missing:
        unavailable(f"no postgres_fdw: {missing.orig}")
    execute(
        postgres_db,
        f"create server there foreign data wrapper postgres_fdw options (host '{url.host}', port '{url.port}',"
        f" dbname '{url.database}')",
        "create user mapping for public server there options (user 'postgres')",
        "create foreign table far (id bigint not null, updated_at timestamptz not null) server there"
        " options (table_name 'far_away')",
    )
    return postgres_db


def kind(url: str, **keys: Any) -> tuple[str, str]:
    """Which bound `auto` takes, and why."""
    with source(url, **keys) as reader:
        bound = reader.page(None, 10).bound
    return bound.kind, str(bound.reason)


def test_what_reads_a_foreign_table_is_left_to_the_heuristic(foreign: str) -> None:
    bare = "(id bigint not null, updated_at timestamptz not null)"
    execute(
        foreign,
        "create view seen as select * from far",
        "create view seen_again as select id, updated_at from seen",
        f"create table parent ({COLUMNS})",
        "alter foreign table far inherit parent",
        f"create table whole {bare} partition by range (id)",
        "create foreign table part partition of whole for values from (0) to (9) server there"
        " options (table_name 'far_away')",
        "create view viewed as select * from whole",
    )
    for keys, name in (
        ({"table": "far"}, "far"),
        ({"table": "seen"}, "far"),
        ({"table": "seen_again"}, "far"),
        ({"table": "parent"}, "far"),
        ({"table": "viewed"}, "part"),
        ({"table": None, "query": "select id, updated_at from far where id % 2 = 0 or id::text <> ':x'"}, "far"),
        ({"table": None, "query": "select * from stamped union all select * from far"}, "far"),
    ):
        found, reason = kind(foreign, **keys)
        assert found == "heuristic"
        assert f"{name} is a foreign table" in reason
        with source(foreign, **{"bound": "exact", **keys}) as reader, pytest.raises(ConfigError, match=name) as error:
            reader.page(None, 10)
        assert error.value.key == "bound"


def test_a_foreign_table_in_the_query_keeps_the_bound_exact(foreign: str) -> None:
    """Only the cursor's own table matters: a lookup in a foreign or materialized one has no part in the order."""
    execute(
        foreign,
        "create materialized view names as select id from far",
        "create view joined as select s.* from stamped s left join far using (id) left join names using (id)",
    )
    query = "with o as (select * from stamped) select o.*, far.updated_at as u from o left join far on far.id = o.id"
    for keys in (
        {"table": "joined"},
        {"table": None, "query": query},
        {"table": None, "query": "select * from joined"},
    ):
        assert kind(foreign, **keys)[0] == "exact"
    # An expression has no table of its own: all that are read count.
    query = "select id, greatest(s.updated_at, far.updated_at) as updated_at from stamped s left join far using (id)"
    assert kind(foreign, table=None, query=query)[0] == "heuristic"


def test_a_view_nobody_may_look_behind_is_taken_as_a_whole(foreign: str) -> None:
    name = "viewer_" + str(sa.make_url(foreign).database)[-12:]
    execute(
        foreign,
        "create view joined as select s.* from stamped s left join far using (id)",
        "create view plain as select * from stamped",
        f"create role {name} login",
        f"grant select on joined, plain to {name}",
        f"grant pg_read_all_stats to {name}",
    )
    try:
        url = sa.make_url(foreign).set(username=name).render_as_string(hide_password=False)
        assert kind(url, table="joined")[0] == "heuristic"
        assert kind(url, table="plain")[0] == "exact"
    finally:
        execute(foreign, f"drop owned by {name}", f"drop role {name}")


@pytest.mark.parametrize("subscribed", ["leaf", "root"])
def test_a_subscribed_partition_counts_for_the_whole_table(postgres_db: str, subscribed: str) -> None:
    execute(
        postgres_db,
        f"create table root ({COLUMNS}) partition by range (id)",
        "create table middle partition of root for values from (0) to (100) partition by range (id)",
        "create table leaf partition of middle for values from (0) to (10)",
        "create table other partition of middle for values from (10) to (20)",
        "create view whole as select * from root",
        "create table parent (id bigint primary key, updated_at timestamptz not null)",
        "create table child () inherits (parent)",
    )
    subscribe(postgres_db, subscribed)
    for table in ("root", "middle", "leaf", "whole"):
        found, reason = kind(postgres_db, table=table)
        assert found == "heuristic", table
        assert f"{subscribed} is filled by a subscription" in reason
    assert kind(postgres_db, table="other")[0] == ("exact" if subscribed == "leaf" else "heuristic")
    # A plain parent shows its children's rows, and a child none of its parent's.
    subscribe(postgres_db, "parent")
    assert kind(postgres_db, table="parent")[0] == "heuristic"
    execute(postgres_db, "alter table child add primary key (id)")
    assert kind(postgres_db, table="child")[0] == "exact"


def test_transaction_ids_of_two_servers_are_not_compared(foreign: str) -> None:
    execute(
        foreign,
        "create table far_ids (id bigint primary key, xid xid8 default pg_current_xact_id())",
        "create foreign table ids (id bigint, xid xid8) server there options (table_name 'far_ids')",
    )
    keys = {"cursor_column": "xid", "cursor_kind": "xid8+pk", "cursor_time_zone": None}
    assert kind(foreign, table="ids", **keys)[0] == "heuristic"
    assert kind(foreign, table="far_ids", **keys)[0] == "exact"


@each("keys", [{"table": "seen"}, {"table": None, "query": "select * from seen where id > 0"}])
def test_a_materialized_view_is_refused_unless_a_guess_is_accepted(postgres_db: str, keys: dict[str, Any]) -> None:
    """A refresh that began while a transaction was open does not show its rows; the next one does, below the cursor."""
    make(postgres_db)
    add(postgres_db, 1)
    execute(postgres_db, "create materialized view seen as select * from stamped")
    for bound in ("auto", "exact", "observed"):
        with (
            source(postgres_db, bound=bound, **keys) as reader,
            pytest.raises(ConfigError, match="seen is a mater") as e,
        ):
            reader.page(None, 10)
        assert e.value.key == "bound"
        assert "settle" in e.value.next_step
    with source(postgres_db, bound="delay", settle="0s", **keys) as reader:
        assert ids(reader) == [1]


def test_check_says_whose_rows_they_are(foreign: str) -> None:
    execute(
        foreign,
        "create view seen as select * from far",
        "create materialized view kept as select * from stamped",
    )
    for keys, words in (
        ({"table": "seen"}, "far is a foreign table"),
        ({"table": None, "query": "select * from far"}, "far is a foreign table"),
        ({"table": "kept", "bound": "delay"}, "kept is a materialized view"),
        ({"table": "stamped"}, ""),
    ):
        with source(foreign, **keys) as reader:
            shown = [
                f.message for f in reader.checkup(None, lambda: datetime.now(UTC)).findings if f.check == "relation"
            ]
        assert [words in one for one in shown] == ([True] if words else []), shown


def test_what_a_foreign_table_claims_to_be_never_null_is_looked_at(foreign: str) -> None:
    execute(
        foreign,
        "create table loose (id bigint, updated_at timestamptz)",
        "create foreign table strict (id bigint not null, updated_at timestamptz not null) server there"
        " options (table_name 'loose')",
        "insert into loose values (1, null)",
    )
    with (
        source(foreign, table="strict", settle="0s") as reader,
        pytest.raises(SourceError, match="no updated_at"),
    ):
        reader.page(None, 10)
    execute(foreign, "update loose set id = null, updated_at = now()")
    with source(foreign, table="strict", settle="0s") as reader, pytest.raises(SourceError, match="is NULL"):
        reader.page(None, 10)
