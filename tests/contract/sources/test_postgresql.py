"""The laws of sources on PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import sqlalchemy as sa

from tests.contract.sources import SourceLaws
from tests.contract.sources.laws import FailOverLaws
from tests.contract.sources.place import Place
from tests.contract.sources.postgresql import PostgreSql, PostgreSqlPair
from tests.resilience.outages.relay import Relay
from tests.support.postgres import PostgresServer


class TestPostgreSql(SourceLaws):
    kind = PostgreSql

    @pytest.fixture(scope="class")
    @classmethod
    def made(cls, postgres_server: PostgresServer) -> Iterator[Place]:
        url = postgres_server.new_database()
        try:
            with PostgreSql(url) as place:
                yield place
        finally:
            postgres_server.drop_database(url)


class TestPostgreSqlPair(FailOverLaws):
    kind = PostgreSqlPair

    @pytest.fixture(scope="class")
    @classmethod
    def made(cls, postgres_server: PostgresServer) -> Iterator[Place]:
        first = sa.make_url(postgres_server.new_database())
        second = PostgresServer.start()
        try:
            second.execute(f"CREATE DATABASE {first.database}")
            with (
                Relay(postgres_server.port) as relay,
                PostgreSql(sa.make_url(second.url).set(database=first.database).render_as_string()) as other,
                PostgreSqlPair(first.render_as_string(), other, relay) as place,
            ):
                yield place
        finally:
            second.stop()
            postgres_server.drop_database(first.render_as_string())
