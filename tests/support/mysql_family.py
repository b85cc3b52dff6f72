"""What MariaDB and MySQL have in common: how one speaks to them, and the settings under which they forget."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any, ClassVar

import pymysql
from sqlalchemy.engine import URL, make_url

from tests.support.server import DatabaseServer

SETTINGS = {
    "innodb_flush_log_at_trx_commit": "0",
    "innodb_doublewrite": "OFF",
    "innodb_buffer_pool_size": "256M",
    "sync_binlog": "0",
    "max_connections": "300",
    "character_set_server": "utf8mb4",
    "default_time_zone": "+00:00",
    "lower_case_table_names": "0",
}
MYSQL_URL = "POLLER_TEST_MYSQL_URL"
_NO_SUCH_THREAD = 1094


class MySqlFamilyServer(DatabaseServer):
    """User `root`, no password."""

    driver: ClassVar[str] = "mysql+pymysql"
    default_port: ClassVar[int] = 3306

    def drop_database(self, url: str) -> None:
        """Drop a database that `new_database` made, ending its sessions: they would block the drop."""
        name = make_url(url).database
        sessions = f"SELECT id FROM information_schema.processlist WHERE db = '{name}' AND id <> connection_id()"
        for (session,) in self.execute(sessions):
            self._end(session)
        self.execute(f"DROP DATABASE IF EXISTS {name}")

    def execute(self, statement: str) -> list[tuple[Any, ...]]:
        """Run one statement in autocommit as root and return its rows."""
        url = self._url
        connection = pymysql.connect(
            host=url.host,
            port=self.port,
            user=url.username,
            password=url.password or "",
            database=url.database,
            autocommit=True,
            connect_timeout=10,
        )
        try:
            with connection.cursor() as cursor:
                cursor.execute(statement)
                return list(cursor.fetchall())
        finally:
            connection.close()

    @property
    def is_mariadb(self) -> bool:
        """By what the server itself says."""
        return "mariadb" in str(self.execute("SELECT version()")[0][0]).lower()

    def _end(self, session: int) -> None:
        try:
            self.execute(f"KILL {session}")
        except pymysql.err.OperationalError as error:
            if error.args[0] != _NO_SUCH_THREAD:  # it has already ended
                raise

    def _answers(self) -> bool:
        try:
            self.execute("SELECT 1")
        except pymysql.err.OperationalError:
            return False
        return True


def program(name: str) -> Path | None:
    """A program by its name. Debian has the servers in sbin, which an ordinary PATH leaves out."""
    found = shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
    return Path(found) if found else None


def options_of(settings: dict[str, str]) -> list[str]:
    """Settings as the server's command line takes them."""
    return [f"--{name.replace('_', '-')}={value}" for name, value in settings.items()]


def local_url(port: int) -> URL:
    """Of the database `mysql` of a server of our own."""
    return URL.create("mysql+pymysql", "root", host="127.0.0.1", port=port, database="mysql")


def numbers_to(last: int) -> str:
    """A table `s` of the numbers `n` from 1, which neither MariaDB nor MySQL limits."""
    return f"json_table(concat('[0', repeat(',0', {last - 1}), ']'), '$[*]' columns (n for ordinality)) as s"
