"""Microsoft Entra in the tests: who issues tokens, in the place of `azure.identity`, and servers that take them as
passwords of a user, over verified TLS."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from azure.core.credentials import AccessToken
from sqlalchemy.engine import make_url

from poller.entra import LIMITS
from tests.support.certificates import certificates
from tests.support.mariadb import MariaDbServer
from tests.support.postgres import PostgresServer
from tests.support.services import Unavailable, private_directory, unprivileged

USER = "poller-identity"
"""As Azure calls a database user: by the name of the identity."""


class Issuer:
    """Gives each credential the token of the moment, which that one keeps, as `azure.identity`'s do.

    Attributes:
        made: the keywords of each credential. scopes: what tokens were asked for. fails: raised instead.
    """

    def __init__(self, patched: pytest.MonkeyPatch) -> None:
        self.made: list[dict[str, Any]] = []
        self.scopes: list[str] = []
        self.fails: Exception | None = None
        self.token = ""
        self.rotate(1)
        issuer = self

        class Credential:
            def __init__(self, **given: Any) -> None:
                assert LIMITS.items() <= given.items(), "an endpoint that hangs must not hold a worker"
                issuer.made.append({name: value for name, value in given.items() if name not in LIMITS})
                self._kept = ""

            def get_token(self, *scopes: str, **_: Any) -> AccessToken:
                issuer.scopes += scopes
                if issuer.fails is not None:
                    raise issuer.fails
                self._kept = self._kept if self._kept and not issuer.expired else issuer.token
                return AccessToken(self._kept, int(time.time()) + 3600)

        self.expired = False
        patched.setattr("azure.identity.DefaultAzureCredential", Credential)
        patched.setattr("azure.identity.ManagedIdentityCredential", Credential)

    def rotate(self, number: int) -> str:
        """From now on another token is issued, as long as real ones are."""
        self.token = f"eyJ0b2tlbg{number}." + "VmVyeVNlY3JldA" * 120 + f".{uuid.uuid4().hex}"
        return self.token


class TokenServer:
    """A server whose user `USER` has a token as its password, over TLS.

    Attributes:
        owner: URL of a database, as the superuser. url: of the same, as the user, with verified TLS.
    """

    def __init__(self, server: PostgresServer | MariaDbServer, authority: Path) -> None:
        self._server = server
        self._postgres = isinstance(server, PostgresServer)
        self._user = f'"{USER}"' if self._postgres else f"'{USER}'"
        self.owner = server.new_database()
        options = {"sslmode": "verify-full", "sslrootcert": str(authority)}
        mine = make_url(self.owner).set(username=USER, query=options if self._postgres else {"ssl_ca": str(authority)})
        self.url = mine.render_as_string(hide_password=False)
        server.execute(f"CREATE USER {self._user}")

    def accept(self, token: str) -> None:
        """Only this one, from the next connection on."""
        given = f"PASSWORD '{token}'" if self._postgres else f"IDENTIFIED BY '{token}' REQUIRE SSL"
        self._server.execute(f"ALTER USER {self._user} {given}")

    def grant(self, table: str) -> None:
        """Let the user read a table, or make any (`*`)."""
        name = str(make_url(self.owner).database)
        if isinstance(self._server, PostgresServer):
            what = "CREATE ON SCHEMA public" if table == "*" else f"SELECT ON {table}"
            self._server.execute(f"GRANT {what} TO {self._user}", database=name)
        else:
            self._server.execute(f"GRANT {'ALL' if table == '*' else 'SELECT'} ON {name}.{table} TO {self._user}")

    def end_sessions(self) -> None:
        """As a fail-over does."""
        if self._postgres:
            self._server.execute(
                f"SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE usename = '{USER}'"
            )
            return
        for (session,) in self._server.execute(f"SELECT id FROM information_schema.processlist WHERE user = '{USER}'"):
            self._server.execute(f"KILL {session}")


@contextmanager
def postgres() -> Iterator[TokenServer]:
    """PostgreSQL that is sent the password in clear, as Azure's is."""
    owner = unprivileged("postgres")
    home = private_directory(owner)
    files = certificates(home, owner=owner)
    rules = home / "hba.conf"
    rules.write_text(
        f'hostssl all "{USER}" 127.0.0.1/32 password\nhost all "{USER}" all reject\nhost all all 127.0.0.1/32 trust\n'
    )
    tls = {"ssl": "on", "ssl_cert_file": str(files.server), "ssl_key_file": str(files.key), "hba_file": str(rules)}
    with PostgresServer.start(tls) as server:
        yield _own(server, files.authority)


@contextmanager
def mariadb() -> Iterator[TokenServer]:
    """MariaDB."""
    owner = unprivileged("mysql")
    files = certificates(private_directory(owner), owner=owner)
    with MariaDbServer.start({"ssl_cert": str(files.server), "ssl_key": str(files.key)}) as server:
        yield _own(server, files.authority)


def _own(server: PostgresServer | MariaDbServer, authority: Path) -> TokenServer:
    if not server.ours:
        raise Unavailable("a server with certificates of the test's own needs local binaries")
    return TokenServer(server, authority)
