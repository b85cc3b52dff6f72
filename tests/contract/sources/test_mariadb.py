"""The laws of sources on MariaDB, and on MySQL where there is one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.contract.sources import SourceLaws
from tests.contract.sources.mariadb import MariaDb, MySql
from tests.contract.sources.place import Place
from tests.support.mariadb import MariaDbServer
from tests.support.mysql import MySqlServer


class TestMariaDb(SourceLaws):
    kind = MariaDb

    @pytest.fixture(scope="class")
    @classmethod
    def made(cls, mariadb_server: MariaDbServer) -> Iterator[Place]:
        url = mariadb_server.new_database()
        try:
            with MariaDb(url) as place:
                yield place
        finally:
            mariadb_server.drop_database(url)


class TestMySql(SourceLaws):
    kind = MySql

    @pytest.fixture(scope="class")
    @classmethod
    def made(cls, mysql_server: MySqlServer) -> Iterator[Place]:
        url = mysql_server.new_database()
        try:
            with MySql(url) as place:
                yield place
        finally:
            mysql_server.drop_database(url)
