"""The laws of sources on PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.contract.sources import SourceLaws
from tests.contract.sources.place import Place
from tests.contract.sources.postgresql import PostgreSql
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
