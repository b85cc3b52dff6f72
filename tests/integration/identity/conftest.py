"""Servers that take tokens as passwords, and the one who issues them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support import entra
from tests.support.entra import Issuer, TokenServer

CLIENT = "11111111-2222-3333-4444-555555555555"


@pytest.fixture(scope="module", params=["postgres", "mariadb"])
def running(request: pytest.FixtureRequest) -> Iterator[TokenServer]:
    with getattr(entra, request.param)() as server:
        yield server


@pytest.fixture
def issuer(monkeypatch: pytest.MonkeyPatch) -> Issuer:
    """Its identity is user-assigned, named as Functions names it; the servers of these tests may be sent tokens."""
    monkeypatch.setenv("ORDERS_DB__clientId", CLIENT)
    monkeypatch.setenv("POLLER_IDENTITY_HOSTS", "127.0.0.1")
    return Issuer(monkeypatch)


@pytest.fixture
def server(running: TokenServer, issuer: Issuer) -> TokenServer:
    """It accepts the token of the moment."""
    running.accept(issuer.token)
    return running
