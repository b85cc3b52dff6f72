"""Rows above an open transaction of PostgreSQL: reported with who holds them, and late only once it has ended."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import psycopg
import pytest
from sqlalchemy import make_url

from poller.admin import PollerHealth
from tests.integration.health.shop import LOOK, Shop, table
from tests.support.services import wait_until

KINDS = {
    "times": ("timestamptz NOT NULL", "", "now() - interval '1 minute'", "clock_timestamp()"),
    "numbers": ("bigserial", 'cursor_kind = "integer+pk"\nbound = "exact"', "DEFAULT", "DEFAULT"),
}


@pytest.fixture(params=sorted(KINDS))
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


class Server:
    """A table of PostgreSQL with one row, delivered."""

    def __init__(self, url: str, folder: Path, kind: str, option: str = "") -> None:
        made, source, old, self.new = KINDS[kind]
        self._url = make_url(url)
        with self.connect() as db:
            db.execute(f"CREATE TABLE orders (id serial PRIMARY KEY, updated_at {made})")
            db.execute(f"INSERT INTO orders (updated_at) VALUES ({old})")
        text = table("orders", url=url, poller=option, source=f'{source}\nsettle = "0s"')
        if kind == "numbers":
            text = text.replace('cursor_time_zone = "UTC"\n', "")
        self.shop = Shop(folder, text)
        assert self.shop.tick() == "delivered"
        assert self.shop.orders().healthy

    def connect(self) -> psycopg.Connection:
        url = self._url
        return psycopg.connect(
            host=url.host, port=url.port, user=url.username, password=url.password, dbname=url.database, autocommit=True
        )

    def insert(self, db: psycopg.Connection) -> None:
        db.execute(f"INSERT INTO orders (updated_at) VALUES ({self.new})")

    def once_readable(self) -> PollerHealth:
        """Samples of what is open may serve for a moment after it has ended."""
        wait_until(lambda: self.later().word in {"behind", "late"}, "rows that may be read")
        return self.shop.orders()

    def later(self, seconds: float = LOOK) -> PollerHealth:
        return self.shop.wait(seconds)


@pytest.fixture
def server(postgres_db: str, tmp_path: Path, kind: str) -> Iterator[Server]:
    made = Server(postgres_db, tmp_path, kind)
    yield made
    made.shop.app.close()


def test_rows_above_it_are_reported_and_not_late(server: Server) -> None:
    with server.connect() as writer, server.connect() as other, writer.transaction():
        server.insert(writer)
        server.insert(other)
        for _ in range(4):
            server.shop.clock.passed += 900
            said = server.shop.orders()
            assert said.healthy
            assert said.late_seconds is None
            assert said.word in {"bound_held", "settling"}
            assert said.pending == 1
    said = server.once_readable()
    assert (said.healthy, said.pending) == (True, 2), "they became readable now"
    server.shop.clock.passed += 300
    assert server.shop.orders().healthy
    assert not server.later(90).healthy
    server.shop.tick()
    assert server.later().healthy


def test_it_may_be_too_old(postgres_db: str, tmp_path: Path, kind: str) -> None:
    server = Server(postgres_db, tmp_path, kind, 'max_bound_age = "10ms"')
    with server.connect() as writer, server.connect() as other, writer.transaction():
        server.insert(writer)
        server.insert(other)
        server.later()
        said = server.later()
        assert not said.healthy
        assert said.word == "bound_held"
    assert server.once_readable().healthy
    server.shop.app.close()


def test_who_holds_them_is_named(postgres_db: str, tmp_path: Path) -> None:
    server = Server(postgres_db, tmp_path, "times")
    shown = patch("poller.sources.postgresql.bound.SHOWS_HOLDER_AFTER", 0.0)  # else after 2 s
    with shown, server.connect() as writer, server.connect() as other, writer.transaction():
        server.insert(writer)
        server.insert(other)
        named = f"pid {writer.info.backend_pid}"

        def is_named() -> bool:
            """A sample may serve for a moment, one without it too."""
            said = server.later()
            return said.bound is not None and named in (said.bound.held_by or "") and named in said.sentence

        wait_until(is_named, "the transaction that holds the rows")
    server.shop.app.close()
