"""Entra tokens as passwords of real servers over verified TLS: of a source, and of a state in SQL.

The servers do not ask Microsoft: their user has a token as its password. Who issues it stands in for `azure.identity`.
"""

from __future__ import annotations

import logging
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import sqlalchemy as sa
from azure.core.exceptions import ClientAuthenticationError

from poller import Batch, Poller
from poller.errors import ConfigError, SourceUnavailable, StoreUnavailable
from poller.ports import Found
from poller.sources import NoAnswer, RowProbe, SqlSource
from poller.stores import MemoryStore, SqlStore
from tests.integration.identity.conftest import CLIENT
from tests.integration.sources.tables import add_orders, execute, make_orders, orders
from tests.support.certificates import certificates
from tests.support.entra import Issuer, TokenServer

STAMPS = ["2026-01-01 00:00:01", "2026-01-01 00:00:02"]


@pytest.fixture
def table(server: TokenServer) -> str:
    """Of two orders, which the user may read."""
    execute(server.owner, "drop table if exists orders")
    make_orders(server.owner, STAMPS)
    server.grant("orders")
    return server.url


def source_of(url: str, **options: Any) -> SqlSource:
    return orders(url, identity="ORDERS_DB", **options)


@pytest.mark.guarantee(
    "Who may see and do what",
    "With `identity` each connection takes the token of its moment, and none is kept or shown; a refused one is an "
    "outage",
)
def test_each_connection_takes_the_token_of_its_moment(table: str, server: TokenServer, issuer: Issuer) -> None:
    with closing(source_of(table)) as source:
        first = source.page(None, 10)
        assert len(first.rows) == 2
        issuer.expired = True  # before its time is over `azure.identity` gets another
        server.accept(issuer.rotate(2))
        server.end_sessions()
        add_orders(server.owner, ["2026-01-01 00:00:03"], first=3)
        assert [row["id"] for row in source.page(first.cursors[-1], 10).rows] == [3]
        pool = source._session.database.pool
        assert pool is not None
        shown = (
            f"{source!r} {source.describe()} {pool.engine!r} {pool.engine.url.render_as_string(hide_password=False)}"
        )
        assert "eyJ" not in shown
    assert issuer.made == [{"managed_identity_client_id": CLIENT}], "one credential for the process"
    assert set(issuer.scopes) == {"https://ossrdbms-aad.database.windows.net/.default"}


def test_a_refused_token_is_an_outage_and_the_next_is_fresh(
    table: str, server: TokenServer, issuer: Issuer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    handled: list[int] = []

    def handle(batch: Batch) -> None:
        handled.extend(row["id"] for row in batch)

    with closing(source_of(table)) as source:
        assert len(source.page(None, 10).rows) == 2
        orders_poller = Poller("orders", source=source, store=MemoryStore(), app_name="shop")
        old = issuer.token
        server.accept(issuer.rotate(2))  # the credential keeps the first, which the server takes no more
        server.end_sessions()
        with pytest.raises(SourceUnavailable) as refused:
            orders_poller.tick(handle)
        said = f"{refused.value} {refused.value.next_step}"
        assert "orders" in said
        assert "127.0.0.1" in said
        assert f"refused the token of the identity with client id {CLIENT}" in said
        assert "docs/security.md" in said
        assert handled == []
        assert orders_poller.tick(handle).outcome == "delivered"
        assert handled == [1, 2]
    for token in (old, issuer.token):
        assert token not in said + caplog.text


def test_a_token_that_stays_refused_is_not_fetched_for_ever(table: str, server: TokenServer, issuer: Issuer) -> None:
    server.accept("another")
    with closing(source_of(table)) as source:
        for _ in range(5):
            with pytest.raises(SourceUnavailable):
                source.page(None, 10)
    assert len(issuer.made) == 2


def test_without_a_token_the_error_names_the_identity(table: str, issuer: Issuer) -> None:
    issuer.fails = ClientAuthenticationError("AADSTS700016: geheim-7 was not found")
    with closing(source_of(table)) as source:
        with pytest.raises(SourceUnavailable) as refused:
            source.page(None, 10)
        said = f"{refused.value} {refused.value.next_step}"
        assert f"127.0.0.1:{source.describe().database.port} as the identity with client id {CLIENT}" in said
        assert "AADSTS700016" in said
        assert "az login" in said
        assert "geheim-7" not in said
        issuer.fails = None
        assert len(source.page(None, 10).rows) == 2


def test_a_round_asks_with_the_token_too(table: str, server: TokenServer) -> None:
    with closing(source_of(table)) as source:
        lookout = RowProbe(source.subject, timedelta(seconds=5), timedelta(seconds=5))
        prepared = lookout.prepare(source.subject, None, None)
        assert prepared is not None
        assert lookout.waits(prepared, None, None)
        lookout.close()
        server.accept("another")
        with pytest.raises(NoAnswer) as refused:
            lookout.prepare(source.subject, None, None)
        assert refused.value.everywhere


def test_sources_of_another_identity_have_a_pool_of_their_own(table: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTHER_DB__clientId", CLIENT.replace("1", "9"))
    with closing(source_of(table)) as one, closing(source_of(table)) as same:
        other = orders(table, identity="OTHER_DB")
        assert one._session.database.pool is same._session.database.pool
        assert one._session.database.pool is not other._session.database.pool


def test_check_names_the_identity_and_the_verified_server(table: str) -> None:
    with closing(source_of(table)) as source:
        found = {one.check: one for one in source.checkup(None, lambda: datetime.now(UTC)).findings}
    assert found["identity"].severity == "ok"
    assert f"as the identity with client id {CLIENT}, with a token over verified TLS" in found["identity"].message


def test_a_server_that_is_not_the_authoritys_gets_no_token(table: str, server: TokenServer, tmp_path: Any) -> None:

    other = str(certificates(tmp_path).authority)
    url = sa.make_url(table)
    url = url.update_query_dict({name: other for name in url.query if name in {"sslrootcert", "ssl_ca"}})
    with (
        closing(source_of(url.render_as_string(hide_password=False))) as source,
        pytest.raises(SourceUnavailable, match=r"(?i)certificate verify failed"),
    ):
        source.page(None, 10)


def test_arrow_pages_come_without_a_token_in_an_address(
    table: str, server: TokenServer, caplog: pytest.LogCaptureFixture
) -> None:
    """ADBC's driver, for large pages of PostgreSQL, takes a password in an address only."""
    pytest.importorskip("pyarrow")
    add_orders(server.owner, ["2026-01-01 00:00:03"] * 1_200, first=3)
    with closing(source_of(table, format="arrow")) as source:
        first = source.page(None, 600)
        assert len(source.page(first.cursors[-1], 600).rows) == 600
    assert ("the token of `identity` in a URL" in caplog.text) is table.startswith("postgresql")


def test_a_state_in_sql_signs_in_with_tokens(server: TokenServer, issuer: Issuer) -> None:
    server.grant("*")
    with closing(SqlStore(server.url, prefix="p", identity="ORDERS_DB")) as store:
        tag = store.write("state/a.json", b"1", if_tag=None).tag
        server.accept(issuer.rotate(2))
        server.end_sessions()
        with pytest.raises(StoreUnavailable) as refused:
            store.read("state/a.json")
        said = f"{refused.value} {refused.value.next_step}"
        assert f"refused the token of the identity with client id {CLIENT}" in said
        assert "eyJ" not in said
        store.write("state/a.json", b"2", if_tag=tag)
        found = store.read("state/a.json")
        assert isinstance(found, Found)
        assert found.body == b"2"
        assert [one.severity for one in store.checkup("x") if one.check == "identity"] == ["ok"]
        server.end_sessions()
        issuer.fails = ClientAuthenticationError("no")
        with pytest.raises(StoreUnavailable, match=f"as the identity with client id {CLIENT}"):
            store.read("state/a.json")


def test_an_engine_signs_in_in_its_own_way(table: str) -> None:
    with pytest.raises(ConfigError, match="goes with a URL"):
        orders(sa.create_engine(table), identity=True)
