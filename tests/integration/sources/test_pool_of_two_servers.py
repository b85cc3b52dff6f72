"""One address, two servers: a fail-over, or several hosts in a URL. A pool may then have sessions on both."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from poller.databases import samplers
from poller.sources import SqlSource
from tests.integration.sources.tables import closing, execute
from tests.resilience.outages.relay import Relay
from tests.support.postgres import PostgresServer

TABLE = "create table orders (id {} primary key, updated_at {} not null default clock_timestamp(), there text)"


def source(url: sa.URL) -> SqlSource:
    return SqlSource(url, schema="public", table="orders", cursor_column="updated_at", pk_columns=["id"], settle="0s")


def shown(source: SqlSource) -> tuple[str, type]:
    """Which server all rows of a page come from, and of what type its keys are."""
    page = source.page(None, 20)
    assert page.bound.kind == "exact"
    (found,) = {(str(row["there"]), type(row["id"])) for row in page.rows}
    assert len(page.rows) == 6
    return found


def servers(url: sa.URL) -> set[str]:
    """Of which servers this database's samples are."""
    return {line.server for line in samplers.SHARED._lines if line.database == url.database}


@pytest.mark.soak
def test_what_was_learned_on_one_server_is_not_used_on_another(postgres_server: PostgresServer) -> None:
    """Neither types nor samples nor a bound, however often the borrowed session changes."""
    other_server = PostgresServer.start()
    first = sa.make_url(postgres_server.new_database())
    second = sa.make_url(other_server.url).set(database=first.database)
    other_server.execute(f'create database "{first.database}"')
    try:
        for url, key, name in ((first, "integer", "first"), (second, "text", "second")):
            execute(
                url.render_as_string(),
                TABLE.format(key, "timestamptz"),
                *(f"insert into orders (id, there) values ('{n}', '{name}')" for n in range(1, 7)),
            )
        assert first.port is not None
        with Relay(first.port) as relay:
            url = first.set(port=relay.port)
            with closing(source(url)) as one, closing(source(url)) as other:
                assert shown(one) == ("first", int)
                relay._upstream = second.port or 0
                (server,) = servers(first)
                for _ in range(2):
                    other._session.database.connection()  # the session on the first server is lent now
                    assert shown(one) == ("second", str)
                    other._session.database.rest()
                    assert shown(one) == ("first", int)
                assert servers(first) == {server}, "the second server's line has no reader any more"
                other._session.database.connection()
                assert shown(one) == ("second", str)
                assert servers(first).isdisjoint({server})
                other._session.database.rest()
    finally:
        postgres_server.drop_database(first.render_as_string())
        other_server.stop()
