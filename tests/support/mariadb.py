"""A private MariaDB server on a free port, tuned to forget: nothing is synced to disk."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pymysql
from sqlalchemy.engine import URL, make_url

from tests.support.docker import container
from tests.support.services import (
    Service,
    Unavailable,
    free_port,
    private_directory,
    run,
    unprivileged,
    wait_until,
)

_SETTINGS = {
    "innodb_flush_log_at_trx_commit": "0",
    "innodb_doublewrite": "OFF",
    "innodb_buffer_pool_size": "256M",
    "innodb_log_file_size": "64M",
    "sync_binlog": "0",
    "max_connections": "300",
    "character_set_server": "utf8mb4",
    "collation_server": "utf8mb4_general_ci",
    "default_time_zone": "+00:00",
    "lower_case_table_names": "0",
}


class MariaDbServer:
    """One server; its data outlives `stop`, `kill` and `restart`. User `root`, no password."""

    def __init__(self, url: URL, service: Service | None) -> None:
        self._url = url
        self._service = service

    @classmethod
    def start(cls, settings: Mapping[str, str] | None = None) -> Self:
        """Start a server of our own, with these settings beside (or instead of) the usual ones.

        From local binaries, else Docker; `Unavailable` where there is neither.
        """
        options = [f"--{name.replace('_', '-')}={value}" for name, value in {**_SETTINGS, **(settings or {})}.items()]
        program, installer = _binaries()
        if program is None or installer is None:
            return cls._in_docker(options)
        user = unprivileged("mysql")
        home = private_directory(user)
        data = home / "data"
        run(
            [
                installer,
                "--no-defaults",
                f"--datadir={data}",
                "--auth-root-authentication-method=normal",
                "--skip-test-db",
                *([f"--user={user}"] if user else []),
            ],
            user=user,
        )
        port = free_port()
        server = cls(
            _url(port),
            Service(
                "MariaDB",
                [
                    program, "--no-defaults", f"--datadir={data}", f"--port={port}",
                    "--bind-address=127.0.0.1", f"--socket={home / 'sock'}", f"--pid-file={home / 'pid'}",
                    "--skip-name-resolve", *options,
                ],
                log=home / "server.log",
                user=user,
            ),
        )  # fmt: skip
        server._up()
        return server

    @classmethod
    def at(cls, url: str) -> Self:
        """A server that runs elsewhere: databases are made and dropped in it, it is not stopped."""
        return cls(make_url(url).set(drivername="mysql+pymysql"), None)

    @classmethod
    def _in_docker(cls, options: list[str]) -> Self:
        port = container(
            "MariaDB",
            "mariadb:10.11",
            3306,
            {"MARIADB_ALLOW_EMPTY_ROOT_PASSWORD": "1"},
            ["mariadbd", *options],
        )
        server = cls(_url(port), None)
        wait_until(server._answers, "MariaDB answers", seconds=120)
        return server

    @property
    def url(self) -> str:
        """SQLAlchemy URL of the database `mysql`."""
        return self._url.render_as_string(hide_password=False)

    @property
    def port(self) -> int:
        """The port it listens on."""
        return self._url.port or 3306

    def new_database(self) -> str:
        """Create an empty database and return its URL."""
        name = f"test_{uuid.uuid4().hex[:16]}"
        self.execute(f"CREATE DATABASE `{name}`")
        return self._url.set(database=name).render_as_string(hide_password=False)

    def drop_database(self, url: str) -> None:
        """Drop a database that `new_database` made, ending its sessions: they would block the drop."""
        name = make_url(url).database
        sessions = f"SELECT id FROM information_schema.processlist WHERE db = '{name}' AND id <> connection_id()"
        for (session,) in self.execute(sessions):
            self.execute(f"KILL {session}", missing_ok=True)
        self.execute(f"DROP DATABASE IF EXISTS `{name}`")

    def execute(self, statement: str, *, missing_ok: bool = False) -> list[tuple[Any, ...]]:
        """Run one statement in autocommit as root and return its rows.

        `missing_ok`: to kill a session that has already ended is no error.
        """
        url = self._url
        connection = pymysql.connect(
            host=url.host,
            port=url.port or 3306,
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
        except pymysql.err.OperationalError as error:
            if missing_ok and error.args[0] == _NO_SUCH_THREAD:
                return []
            raise
        finally:
            connection.close()

    def stop(self) -> None:
        """Shut down, ending all sessions."""
        self._own().stop()

    def kill(self) -> None:
        """SIGKILL; the next `restart` recovers."""
        self._own().kill()

    def restart(self) -> None:
        """Stop it if it runs, and start it again on the same port with the same data."""
        self._own().stop()
        self._up()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._service is not None:
            self._service.stop()

    def _own(self) -> Service:
        if self._service is None:
            raise Unavailable(f"{self._url.host}:{self._url.port} is not ours to stop: this needs local binaries")
        return self._service

    def _up(self) -> None:
        self._own().start(self._answers)

    def _answers(self) -> bool:
        try:
            self.execute("SELECT 1")
        except pymysql.err.OperationalError:
            return False
        return True


_NO_SUCH_THREAD = 1094


def _url(port: int) -> URL:
    return URL.create("mysql+pymysql", "root", host="127.0.0.1", port=port, database="mysql")


def _binaries() -> tuple[Path | None, Path | None]:
    """The server and its installer; Debian has the server in sbin, which an ordinary PATH leaves out."""
    places = f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin"
    program = shutil.which("mariadbd", path=places)
    installer = shutil.which("mariadb-install-db", path=places)
    return (Path(program) if program else None, Path(installer) if installer else None)


def obtain() -> MariaDbServer:
    """The session's server: the one that ``POLLER_TEST_MYSQL_URL`` names, else one of our own."""
    named = os.environ.get("POLLER_TEST_MYSQL_URL")
    return MariaDbServer.at(named) if named else MariaDbServer.start()
