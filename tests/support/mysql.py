"""A private MySQL server (not MariaDB) on a free port, tuned to forget: nothing is synced to disk."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from tests.support.docker import container
from tests.support.mysql_family import MYSQL_URL, SETTINGS, MySqlFamilyServer, local_url, options_of, program
from tests.support.services import (
    OptionalService,
    Service,
    Unavailable,
    free_port,
    private_directory,
    run,
    unprivileged,
)

_SETTINGS = {**SETTINGS, "innodb_redo_log_capacity": "128M", "mysqlx": "OFF"}
_PROGRAM = "POLLER_TEST_MYSQLD"
_MISSING = f"no MySQL: set {MYSQL_URL}, or {_PROGRAM} to the path of its mysqld"
_FIRST_STATEMENTS = """\
CREATE USER IF NOT EXISTS 'root'@'%';
GRANT ALL ON *.* TO 'root'@'%' WITH GRANT OPTION;
"""
"""The set-up makes `root` for the socket only."""


class MySqlServer(MySqlFamilyServer):
    """One server; its data outlives `stop` and `restart`. User `root`, no password."""

    @classmethod
    def start(cls, settings: Mapping[str, str] | None = None) -> Self:
        """Start a server of our own, with these settings beside (or instead of) the usual ones.

        From local binaries, else Docker; `OptionalService` where there is neither, in CI too.
        """
        options = options_of({**_SETTINGS, **(settings or {})})
        mysqld = binary()
        if mysqld is None:
            return cls._in_docker(options)
        user = unprivileged("mysql")
        home = private_directory(user)
        data, first = home / "data", home / "first.sql"
        first.write_text(_FIRST_STATEMENTS)
        common: list[str | Path] = [
            mysqld,
            "--no-defaults",
            f"--datadir={data}",
            f"--tmpdir={home}",
            "--secure-file-priv=",
        ]
        run([*common, "--initialize-insecure"], user=user)
        port = free_port()
        server = cls(
            local_url(port),
            Service(
                "MySQL",
                [
                    *common, f"--port={port}", "--bind-address=127.0.0.1", f"--socket={home / 'sock'}",
                    f"--pid-file={home / 'pid'}", "--skip-name-resolve", f"--init-file={first}", *options,
                ],
                log=home / "server.log",
                user=user,
            ),
        )  # fmt: skip
        server._up()
        return server

    @classmethod
    def _in_docker(cls, options: list[str]) -> Self:
        try:
            port = container("MySQL", "mysql:9", 3306, {"MYSQL_ALLOW_EMPTY_PASSWORD": "1"}, ["mysqld", *options])
        except Unavailable as missing:
            raise OptionalService(f"{_MISSING} ({missing})") from None
        server = cls(local_url(port), None)
        server._wait(seconds=120)
        return server


def binary() -> Path | None:
    """A `mysqld` that is MySQL's: Debian has a link of that name to MariaDB's.

    Raises: Unavailable where the one that was named is not MySQL's.
    """
    named = os.environ.get(_PROGRAM)
    found = Path(named) if named else program("mysqld")
    if found is None:
        return None
    version = subprocess.run([found, "--version"], capture_output=True, text=True, check=False).stdout
    if " Ver " in version and "mariadb" not in version.lower():
        return found
    if named:
        raise Unavailable(f"{_PROGRAM} is no MySQL server: {version.strip() or 'it gives no version'}")
    return None


def obtain() -> MySqlServer:
    """The session's server: the one that ``POLLER_TEST_MYSQL_URL`` names, unless that is a MariaDB; else one of our
    own."""
    named = os.environ.get(MYSQL_URL)
    if named and not (server := MySqlServer.at(named)).is_mariadb:
        return server
    return MySqlServer.start()
