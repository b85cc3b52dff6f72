"""`identity` of `poller.relays:http`: the real `azure.identity` gets a token, and the endpoint gets it.

No Microsoft Entra is here, and none can be: it issues tokens to registered applications only. `TokenServer` stands in
the place of the endpoint that App Service and Functions give an app with a managed identity (api-version 2019-08-01):
`azure.identity` asks it by the same variables and in the same words.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from poller import Batch, ConfigError, entra
from poller.relays import relay
from tests.integration.relays.endpoint import Answer, Endpoint, called

ROWS: list[dict[str, Any]] = [{"id": 1}]
CLIENT = "22222222-2222-3333-4444-555555555555"


class TokenServer:
    """Attributes: asked: what for, a query each. life: seconds of a token. down: answers 400."""

    def __init__(self) -> None:
        self.asked: list[dict[str, str]] = []
        self.life = 3600
        self.down = False
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                query = {name: values[0] for name, values in parse_qs(urlsplit(self.path).query).items()}
                server.asked.append(query)
                expires = int(time.time()) + server.life
                found = {"access_token": server.token, "expires_on": str(expires), "token_type": "Bearer"}
                right = self.headers["X-IDENTITY-HEADER"] == "proof" and not server.down
                answer = (
                    {**found, "resource": query["resource"]} if right else {"statusCode": 400, "message": "no identity"}
                )
                body = json.dumps(answer).encode()
                self.send_response(200 if right else 400)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    @property
    def token(self) -> str:
        """Another one each time."""
        return f"eyJ0b2tlbg.secret.{len(self.asked)}"


@pytest.fixture
def issuer(monkeypatch: pytest.MonkeyPatch) -> Iterator[TokenServer]:
    found = TokenServer()
    thread = threading.Thread(target=found.server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    for name in ("MSI_ENDPOINT", "AZURE_CLIENT_ID", "AZURE_TENANT_ID", "AZURE_CLIENT_SECRET", "IMDS_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("IDENTITY_ENDPOINT", f"http://127.0.0.1:{found.server.server_port}/msi/token")
    monkeypatch.setenv("IDENTITY_HEADER", "proof")
    monkeypatch.setenv("AZURE_TOKEN_CREDENTIALS", "ManagedIdentityCredential")  # no program of this machine is asked
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(entra, "_made", {})
    yield found
    found.server.shutdown()
    found.server.server_close()
    thread.join(10)


def test_a_token_is_fetched_once_and_sent_each_time(endpoint: Endpoint, issuer: TokenServer) -> None:
    made = relay("http", url=endpoint.url, identity="api://orders", client_id=CLIENT)
    for _ in range(3):
        assert called(made, Batch.of_rows(ROWS)).error is None
    assert [one.headers["Authorization"] for one in endpoint.requests] == ["Bearer eyJ0b2tlbg.secret.1"] * 3
    (asked,) = issuer.asked
    assert (asked["resource"], asked["client_id"]) == ("api://orders", CLIENT)


def test_a_token_that_is_about_to_expire_is_replaced(endpoint: Endpoint, issuer: TokenServer) -> None:
    issuer.life = 60
    made = relay("http", url=endpoint.url, identity="api://orders")
    for _ in range(2):
        assert called(made, Batch.of_rows(ROWS)).error is None
    assert [one.headers["Authorization"][-1] for one in endpoint.requests] == ["1", "2"]


def test_after_a_401_there_is_another_token(endpoint: Endpoint, issuer: TokenServer) -> None:
    endpoint.answers = [Answer(401)]
    made = relay("http", url=endpoint.url, identity="api://orders")
    result = called(made, Batch.of_rows(ROWS))
    assert (result.end, result.named) == ("raised", ())
    assert "answered 401 to a token for api://orders" in str(result.error)
    assert called(made, Batch.of_rows(ROWS)).error is None
    assert [one.headers["Authorization"][-1] for one in endpoint.requests] == ["1", "2"]
    assert len(issuer.asked) == 2


def test_no_token_is_an_outage_and_nothing_is_sent(endpoint: Endpoint, issuer: TokenServer) -> None:
    issuer.down = True
    made = relay("http", url=endpoint.url, identity="api://orders")
    result = called(made, Batch.of_rows(ROWS))
    assert (result.end, result.named, endpoint.requests) == ("later", (), [])
    assert "no token for api://orders as this app's own identity" in str(result.error)
    found = made.checkup()[-1]
    assert (found.severity, "managed identity" in str(found)) == ("error", True)
    issuer.down = False
    assert called(made, Batch.of_rows(ROWS)).error is None
    assert made.checkup()[-1].severity == "ok"


def test_the_token_is_shown_nowhere(endpoint: Endpoint, issuer: TokenServer, caplog: pytest.LogCaptureFixture) -> None:
    endpoint.answers = [Answer(403)]
    made = relay("http", url=endpoint.url, identity="api://orders")
    with caplog.at_level(logging.DEBUG):
        result = called(made, Batch.of_rows(ROWS))
    assert endpoint.requests[0].headers["Authorization"].endswith("secret.1")
    assert "eyJ0b2tlbg" not in f"{made!r} {result.error} {result.named} {caplog.text}"
    assert issuer.asked


@pytest.mark.parametrize(
    ("settings", "key", "words"),
    [
        ({"identity": "orders"}, "identity", "must be an application"),
        ({"identity": "api://orders/.default"}, "identity", "without /.default"),
        ({"identity": "api://our orders"}, "identity", "must be an application"),
        ({"client_id": CLIENT}, "client_id", "goes with identity"),
        ({"identity": "api://a", "headers": {"authorization": "b"}}, "headers", "which the relay sets itself"),
        ({"identity": "api://a", "url": "http://shop.example/"}, "url", "plain http to another machine"),
    ],
    ids=["no-scheme", "scope", "space", "alone", "header", "plain"],
)
def test_a_wrong_identity_is_refused_with_its_key(settings: dict[str, Any], key: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        relay("http", **{"url": "https://a", **settings})
    assert caught.value.key == key
