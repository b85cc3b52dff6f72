"""Servers with a database per tenant, for the pools of one process and for its dispatcher."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.integration.sources.tenants import MOST, Tenants
from tests.support.postgres import PostgresServer


@pytest.fixture(scope="module")
def small_server() -> Iterator[PostgresServer]:
    """One that takes few connections."""
    with PostgresServer.start({"max_connections": str(MOST + 3), "superuser_reserved_connections": "3"}) as server:
        yield server


@pytest.fixture(scope="module")
def twelve(small_server: PostgresServer) -> Iterator[Tenants]:
    made = Tenants(small_server, 12, limit=-1)
    yield made
    made.drop()


@pytest.fixture
def tenants(twelve: Tenants) -> Tenants:
    """Twelve databases of that server, with no session of their user."""
    gc.collect()  # pools of earlier tests, which a check of the server would count
    twelve.end()
    return twelve


@pytest.fixture(params=["postgres_server", "mariadb_server"])
def limited(request: pytest.FixtureRequest) -> Iterator[Tenants]:
    """Three databases, and a user who may have two connections."""
    made = Tenants(request.getfixturevalue(request.param), 3, limit=2)
    yield made
    made.drop()


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as made:
        yield made
