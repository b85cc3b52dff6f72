"""Stores with an identity instead of a key: a real Azurite on https, that checks the token it is given."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from azure.core.credentials import AccessToken

from poller.errors import StoreDenied, WriteConflict
from poller.ports import Found, Unchanged
from poller.stores import BlobStore
from tests.contract.stores.certificate import certificate
from tests.support.azurite import ACCOUNT, find_azurite, find_node, script_of
from tests.support.services import Service, Unavailable, free_port, listening, unavailable


class Token:
    """A credential whose token Azurite accepts, or refuses when it is for another audience."""

    def __init__(self, audience: str = "https://storage.azure.com") -> None:
        self._audience = audience

    def get_token(self, *scopes: str, **kwargs: object) -> AccessToken:
        now = int(time.time())
        claims = {"aud": self._audience, "iss": "https://sts.windows-ppe.net/ab1f708d-50f6-404c-a006-d71b2ac7a606/"}
        claims |= {"oid": "23657296-5cd5-45b0-a809-d972a7f4dfe1", "sub": "poller"}
        payload = {**claims, "iat": now - 60, "nbf": now - 60, "exp": now + 3600}
        parts = [{"alg": "none", "typ": "JWT"}, payload]
        text = ".".join(base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts)
        return AccessToken(f"{text}.c2lnbmF0dXJl", now + 3600)


def served(home: Path, service: str) -> Iterator[str]:
    """The https address of an account, which one service of Azurite serves."""
    port = free_port()
    cert, key = certificate(home)
    try:
        script = find_azurite() if service == "blob" else script_of(service, find_azurite())
        launcher: list[str | Path] = [find_node()] if script.suffix == ".js" else []
        command = [*launcher, script, f"--{service}Port", str(port), "--inMemoryPersistence", "--disableTelemetry"]
        # No --skipApiVersionCheck: this is how somebody on a laptop starts it.
        secured = ["--oauth", "basic", "--cert", str(cert), "--key", str(key)]
        server = Service("Azurite", [*command, *secured], log=home / "log")
        server.start(lambda: listening(port))
    except Unavailable as missing:
        unavailable(str(missing))
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("REQUESTS_CA_BUNDLE", str(cert))
        yield f"https://127.0.0.1:{port}/{ACCOUNT}"
    server.stop()


@pytest.fixture(scope="module")
def account_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    yield from served(tmp_path_factory.mktemp("azurite"), "blob")


@pytest.fixture
def tables_url(tmp_path: Path) -> Iterator[str]:
    yield from served(tmp_path, "table")


def test_a_document_is_created_changed_and_read_with_a_token(account_url: str) -> None:
    store = BlobStore.from_identity(account_url, "db-state", credential=Token())
    first = store.write("state/a.json", b"1", if_tag=None)
    second = store.write("state/a.json", b"2", if_tag=first.tag)
    with pytest.raises(WriteConflict):
        store.write("state/a.json", b"3", if_tag=first.tag)
    answer = store.read("state/a.json")
    assert isinstance(answer, Found)
    assert answer.body == b"2"
    assert isinstance(store.read("state/a.json", unless=second.tag), Unchanged)
    store.append("audit/a.jsonl", "line")
    assert store.lines("audit/a.jsonl") == ["line"]
    store.close()


def test_a_token_for_something_else_is_denied(account_url: str) -> None:
    store = BlobStore.from_identity(account_url, "db-state", credential=Token("https://graph.microsoft.com"))
    with pytest.raises(StoreDenied) as caught:
        store.read("state/a.json")
    assert caught.value.next_step
    store.close()


def test_tables_are_changed_and_read_with_a_token_too(tables_url: str) -> None:
    pytest.importorskip("azure.data.tables")
    from poller.stores import TableStore

    store = TableStore.from_identity(tables_url, credential=Token())
    first = store.write("state/shop/a.json", b"1", if_tag=None)
    second = store.write("state/shop/a.json", b"2", if_tag=first.tag)
    with pytest.raises(WriteConflict):
        store.write("state/shop/a.json", b"3", if_tag=first.tag)
    assert isinstance(store.read("state/shop/a.json", unless=second.tag), Unchanged)
    store.append("audit/shop/a.jsonl", "line")
    assert store.lines("audit/shop/a.jsonl") == ["line"]
    store.close()
    denied = TableStore.from_identity(tables_url, credential=Token("https://graph.microsoft.com"))
    with pytest.raises(StoreDenied) as caught:
        denied.read("state/shop/a.json")
    assert caught.value.next_step
    denied.close()
