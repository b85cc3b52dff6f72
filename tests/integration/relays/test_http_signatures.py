"""Signatures of `poller.relays:http`, verified by the library of Standard Webhooks itself."""

from __future__ import annotations

import base64
import logging
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from poller import Batch, ConfigError, load_app
from poller.relays import relay
from tests.integration.relays.endpoint import Answer, Endpoint, Request, called
from tests.support.shop_folder import write_shop

ROWS: list[dict[str, Any]] = [{"id": 1, "name": "Zoë"}, {"id": 2, "name": None}]
OLD, NEW, OTHER = (f"whsec_{base64.b64encode(bytes([at]) * 32).decode()}" for at in (1, 2, 3))


def sent(endpoint: Endpoint, secrets: str = NEW, **settings: Any) -> list[Request]:
    made = relay("http", url=endpoint.url, signing_env="HOOK", environ={"HOOK": secrets}, **settings)
    assert called(made, Batch.of_rows(ROWS)).error is None
    return endpoint.requests


@pytest.mark.parametrize("mode", ["batch", "single"])
def test_the_reference_library_verifies_each_request(endpoint: Endpoint, mode: str) -> None:
    for request in sent(endpoint, mode=mode):
        assert Webhook(NEW).verify(request.raw, request.headers) == request.body
        with pytest.raises(WebhookVerificationError):
            Webhook(NEW).verify(request.raw + b" ", request.headers)
        with pytest.raises(WebhookVerificationError):
            Webhook(OTHER).verify(request.raw, request.headers)
    assert len(endpoint.requests) == (1 if mode == "batch" else 2)


def test_while_secrets_rotate_either_verifies(endpoint: Endpoint) -> None:
    (request,) = sent(endpoint, f"{NEW}  {OLD}\n")
    for secret in (OLD, NEW):
        assert Webhook(secret).verify(request.raw, request.headers) == request.body
    assert len(request.headers["webhook-signature"].split(" ")) == 2


@pytest.mark.parametrize("mode", ["batch", "single"])
def test_a_repeat_has_its_id_and_the_time_of_its_sending(
    endpoint: Endpoint, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for now in (1_000.9, 2_000.0):
        fixed = SimpleNamespace(time=lambda now=now: now, monotonic=time.monotonic)
        monkeypatch.setattr("poller.relays.http.time", fixed)
        sent(endpoint, mode=mode)
    half = len(endpoint.requests) // 2
    ids = [request.headers["webhook-id"] for request in endpoint.requests]
    assert ids[:half] == ids[half:]
    assert len(set(ids)) == half
    assert [request.headers["webhook-timestamp"] for request in endpoint.requests] == ["1000"] * half + ["2000"] * half


def test_without_the_setting_nothing_is_signed(endpoint: Endpoint) -> None:
    relay("http", url=endpoint.url)(Batch.of_rows(ROWS))
    assert not [name for name in endpoint.requests[0].headers if name.lower().startswith("webhook-")]


def test_the_secret_is_shown_nowhere(endpoint: Endpoint, caplog: pytest.LogCaptureFixture) -> None:
    made = relay("http", url=endpoint.url, signing_env="HOOK", environ={"HOOK": NEW})
    endpoint.answers = [Answer(403)]
    with caplog.at_level(logging.DEBUG):
        result = called(made, Batch.of_rows(ROWS))
    shown = f"{made!r} {vars(made)!r} {made.settings!r} {made.settings.model_dump_json()} {result.error} {caplog.text}"
    assert NEW.removeprefix("whsec_") not in shown.replace(repr(made._environ), "")


@pytest.mark.parametrize(
    ("held", "words"),
    [
        (None, "HOOK, which is not set"),
        (NEW.removeprefix("whsec_"), "secret number 1 is not whsec_ and the base64 of 24 to 64 bytes"),
        (f"{NEW} whsec_abc", "secret number 2"),
        (f"whsec_{base64.b64encode(bytes(23)).decode()}", "secret number 1"),
        (f"whsec_{base64.b64encode(bytes(65)).decode()}", "secret number 1"),
        ("whsec_" + "é" * 40, "secret number 1"),
    ],
    ids=["unset", "no-prefix", "no-base64", "short", "long", "not-ascii"],
)
def test_a_secret_that_is_none_is_refused_unseen(held: str | None, words: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        relay("http", url="https://a", signing_env="HOOK", environ={} if held is None else {"HOOK": held})
    assert caught.value.key == "signing_env"
    assert caught.value.next_step
    write_shop(tmp_path, "")
    file = tmp_path / "poller.toml"
    settings = 'handler = "poller.relays:http"\nrelay = {url = "https://a", signing_env = "HOOK"}'
    file.write_text(file.read_text().replace('handler = "handlers:on_orders"', settings))
    with load_app(file, {} if held is None else {"HOOK": held}) as app:
        (found,) = (one for one in app.pollers["orders"].check() if one.check == "handler")
    assert (found.severity, "relay.signing_env" in found.message) == ("error", True)
    for part in (held or "").replace("whsec_", "").split():
        assert part not in f"{caught.value} {found}"


@pytest.mark.parametrize(
    ("settings", "key", "words"),
    [
        ({"signing_env": NEW}, "signing_env", "not the secret itself"),
        ({"signing_env": "HOOK", "headers": {"Webhook-Id": "1"}}, "headers", "which the relay sets itself"),
        ({"signing_env": "HOOK", "headers_env": {"webhook-signature": "A"}}, "headers_env", "the relay sets itself"),
    ],
    ids=["secret", "header", "header-env"],
)
def test_what_cannot_go_with_a_signature_is_refused(settings: dict[str, Any], key: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        relay("http", url="https://a", environ={"HOOK": NEW, "A": "b"}, **settings)
    assert (caught.value.key, NEW in str(caught.value)) == (key, False)
