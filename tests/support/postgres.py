"""A private PostgreSQL server on a free port, tuned to forget: nothing is synced to disk."""

from __future__ import annotations

import os
import re
import shutil
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar, Self

import psycopg
from sqlalchemy.engine import URL, make_url

from tests.support.docker import container
from tests.support.server import DatabaseServer
from tests.support.services import Service, free_port, private_directory, run, unprivileged

_SETTINGS = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "shared_buffers": "128MB",
    "max_connections": "300",
    "max_prepared_transactions": "10",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "autovacuum_naptime": "5s",
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
}


class PostgresServer(DatabaseServer):
    """One server; its data outlives `stop` and `restart`. Superuser `postgres`, no password."""

    driver: ClassVar[str] = "postgresql+psycopg"
    default_port: ClassVar[int] = 5432

    @classmethod
    def start(cls, settings: Mapping[str, str] | None = None) -> Self:
        """Start a server of our own, with these settings beside (or instead of) the usual ones.

        From local binaries, else Docker; `Unavailable` where there is neither.
        """
        chosen = {**_SETTINGS, **(settings or {})}
        binaries = _binaries()
        if binaries is None:
            return cls._in_docker(chosen)
        user = unprivileged("postgres")
        home = private_directory(user)
        data = home / "data"
        run(
            [
                binaries / "initdb",
                "-D",
                data,
                "-U",
                "postgres",
                "-A",
                "trust",
                "-E",
                "UTF8",
                "--locale=C.UTF-8",
                "-N",
            ],
            user=user,
        )
        port = free_port()
        options = [part for name, value in chosen.items() for part in ("-c", f"{name}={value}")]
        server = cls(
            _url(port),
            Service(
                "PostgreSQL",
                [binaries / "postgres", "-D", data, "-p", str(port), *options],
                log=home / "server.log",
                user=user,
                stop_signal=signal.SIGINT,  # its "fast" shutdown: sessions are ended, nobody is waited for
                death_signal=signal.SIGQUIT,
            ),
        )
        server._up()
        if int(str(server.execute("SHOW server_version_num")[0][0])) >= 150_000:
            server.quickly = " STRATEGY FILE_COPY"  # files are copied that no disk is waited for, and no log is written
        return server

    @classmethod
    def _in_docker(cls, settings: Mapping[str, str]) -> Self:
        passed = {name: value for name, value in settings.items() if name not in _NOT_IN_DOCKER}
        options = [part for name, value in passed.items() for part in ("-c", f"{name}={value}")]
        port = container(
            "PostgreSQL",
            "postgres:17-alpine",
            5432,
            {"POSTGRES_HOST_AUTH_METHOD": "trust"},
            ["postgres", *options],
        )
        server = cls(_url(port), None)
        server._wait(seconds=60)
        return server

    def crash(self) -> None:
        """End all of it at once, as an immediate shutdown does: what was not written to its log is lost. Then start it
        again."""
        process = self._own().process
        assert process is not None
        process.send_signal(signal.SIGQUIT)
        process.wait(timeout=20)
        self.restart()

    def drop_database(self, url: str) -> None:
        """Drop a database that `new_database` made, with its sessions and prepared transactions."""
        name = make_url(url).database
        for (prepared,) in self.execute(f"SELECT gid FROM pg_prepared_xacts WHERE database = '{name}'"):
            self.execute(f"ROLLBACK PREPARED '{prepared}'", database=name)
        self.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')

    def execute(self, statement: str, *, database: str | None = None) -> list[tuple[object, ...]]:
        """Run one statement in autocommit as superuser and return its rows, if it has any."""
        url = self._url
        with psycopg.connect(
            host=url.host,
            port=url.port,
            user=url.username,
            password=url.password,
            dbname=database or url.database,
            autocommit=True,
            connect_timeout=10,
        ) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def _answers(self) -> bool:
        try:
            self.execute("SELECT 1")
        except psycopg.OperationalError:
            return False
        return True


_NOT_IN_DOCKER = ("listen_addresses", "unix_socket_directories")


def _url(port: int) -> URL:
    return URL.create("postgresql+psycopg", "postgres", host="127.0.0.1", port=port, database="postgres")


def _binaries() -> Path | None:
    """The newest PostgreSQL here: Debian keeps one directory per version, others have it in PATH."""
    versions = sorted(
        Path("/usr/lib/postgresql").glob("*/bin/initdb"),
        key=lambda path: [int(digits) for digits in re.findall(r"\d+", path.parent.parent.name)],
    )
    if versions:
        return versions[-1].parent
    found = shutil.which("initdb")
    return Path(found).resolve().parent if found else None


def obtain() -> PostgresServer:
    """The session's server: the one that ``POLLER_TEST_POSTGRES_URL`` names, else one of our own."""
    named = os.environ.get("POLLER_TEST_POSTGRES_URL")
    return PostgresServer.at(named) if named else PostgresServer.start()
