"""A private MariaDB server on a free port, tuned to forget: nothing is synced to disk."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Self

from tests.support.docker import container
from tests.support.mysql_family import MYSQL_URL, SETTINGS, MySqlFamilyServer, local_url, options_of, program
from tests.support.services import Service, Unavailable, free_port, private_directory, run, unprivileged

_SETTINGS = {**SETTINGS, "innodb_log_file_size": "64M", "collation_server": "utf8mb4_general_ci"}
_URL = "POLLER_TEST_MARIADB_URL"


class MariaDbServer(MySqlFamilyServer):
    """One server; its data outlives `stop` and `restart`. User `root`, no password."""

    @classmethod
    def start(cls, settings: Mapping[str, str] | None = None) -> Self:
        """Start a server of our own, with these settings beside (or instead of) the usual ones.

        From local binaries, else Docker; `Unavailable` where there is neither.
        """
        options = options_of({**_SETTINGS, **(settings or {})})
        server_program, installer = program("mariadbd"), program("mariadb-install-db")
        if server_program is None or installer is None:
            return cls._in_docker(options)
        user = unprivileged("mysql")
        home = private_directory(user)
        data = home / "data"
        run(
            [
                installer,
                "--no-defaults",
                f"--datadir={data}",
                f"--tmpdir={home}",  # one that starts deletes what others keep in a folder that they share
                "--auth-root-authentication-method=normal",
                "--skip-test-db",
                *([f"--user={user}"] if user else []),
            ],
            user=user,
        )
        port = free_port()
        server = cls(
            local_url(port),
            Service(
                "MariaDB",
                [
                    server_program, "--no-defaults", f"--datadir={data}", f"--tmpdir={home}", f"--port={port}",
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
    def _in_docker(cls, options: list[str]) -> Self:
        port = container(
            "MariaDB",
            "mariadb:10.11",
            3306,
            {"MARIADB_ALLOW_EMPTY_ROOT_PASSWORD": "1"},
            ["mariadbd", *options],
        )
        server = cls(local_url(port), None)
        server._wait(seconds=120)
        return server


def obtain() -> MariaDbServer:
    """The session's server: the one that ``POLLER_TEST_MARIADB_URL`` names, or ``POLLER_TEST_MYSQL_URL`` where that is
    a MariaDB; else one of our own."""
    named = os.environ.get(_URL)
    if named:
        server = MariaDbServer.at(named)
        if not server.is_mariadb:
            raise Unavailable(f"{_URL} names a MySQL server; name it in {MYSQL_URL}")
        return server
    other = os.environ.get(MYSQL_URL)
    if other and (server := MariaDbServer.at(other)).is_mariadb:
        return server
    return MariaDbServer.start()
