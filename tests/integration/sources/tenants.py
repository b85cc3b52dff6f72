"""Databases of one server, all with the same table, and a user who reads them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import sqlalchemy as sa

from poller.sources import SqlSource
from tests.integration.sources.tables import execute, family, make_orders, orders
from tests.support.server import DatabaseServer
from tests.support.services import wait_until

MOST = 10
"""Connections that the small server takes, beside those that are reserved for superusers."""
NINE = [f"2026-01-01 00:00:{second:02}" for second in range(9)]
USER = {
    "postgresql": [
        "create user {} password 'x' connection limit {}",
        "grant pg_read_all_data, pg_read_all_stats to {}",
    ],
    "mysql": ["create user {} identified by 'x' with max_user_connections {}", "grant select, process on *.* to {}"],
}
LIMIT = {
    "postgresql": "alter user {} connection limit {}",
    "mysql": "alter user {} with max_user_connections {}",
}
SESSIONS = {
    "postgresql": "select pid from pg_stat_activity where usename = '{}'",
    "mysql": "select id from information_schema.processlist where user = '{}'",
}
ENDS = {"postgresql": "select pg_terminate_backend({})", "mysql": "kill {}"}


class Tenants:
    """Databases of one server, all with the same table, and a user who reads them."""

    def __init__(self, server: DatabaseServer, number: int, *, limit: int) -> None:
        self.server = server
        self.urls = [server.new_database() for _ in range(number)]
        self.family = family(self.urls[0])
        self.user = "tenants_" + str(sa.make_url(self.urls[0]).database)[-12:]
        for url in self.urls:
            make_orders(url, NINE)
        for statement in USER[self.family]:
            self.do(statement.format(self.user, limit))

    def do(self, statement: str) -> None:
        execute(self.urls[0], statement)

    def limit(self, most: int) -> None:
        """The user may have so many connections from here on."""
        self.do(LIMIT[self.family].format(self.user, most))

    def source(self, at: int, **options: Any) -> SqlSource:
        url = sa.make_url(self.urls[at]).set(username=self.user, password="x")
        return orders(url, **{"bound": "auto", **options})

    def sessions(self) -> list[int]:
        with sa.create_engine(self.urls[0], poolclass=sa.NullPool).connect() as connection:
            return list(connection.exec_driver_sql(SESSIONS[self.family].format(self.user)).scalars())

    def end(self) -> None:
        """As a server that was started again."""
        numbers = self.sessions()
        for number in numbers:
            self.do(ENDS[self.family].format(number))
        wait_until(lambda: not self.sessions(), "the end of all sessions")
        if (
            self.family == "postgresql" and self.server.ours
        ):  # until its process is gone, a session counts for the limit
            wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in numbers), "the end of their processes")

    def drop(self) -> None:
        for statement in ["drop owned by {}"] * (self.family == "postgresql") + ["drop user {}"]:
            self.do(statement.format(self.user))
        for url in self.urls:
            self.server.drop_database(url)
