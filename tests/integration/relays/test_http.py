"""`poller.relays:http` against a real server: what is sent, and what each answer means."""

from __future__ import annotations

import logging
import pickle
import socket
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest

from poller import Batch, ConfigError, Poller, load_app
from poller.relays import relay
from poller.relays.http import wanted_pause
from poller.relays.messages import retry_later
from poller.sources import SqlSource
from poller.stores import MemoryStore
from tests.integration.relays.endpoint import Answer, Endpoint, called
from tests.integration.sources.tables import execute
from tests.repo.docs.blocks import blocks
from tests.support.certificates import certificates
from tests.support.services import free_port, wait_until
from tests.support.shop_folder import write_shop

ROWS: list[dict[str, Any]] = [{"id": 1, "name": "Zoë"}, {"id": 2, "name": None}, {"id": 3, "name": "x" * 300}]
SECRET = "s3cr3t-of-the-shop"


def batch() -> Batch:
    return Batch.of_rows(ROWS)


def ids(endpoint: Endpoint) -> list[str]:
    return [event["id"] for request in endpoint.requests for event in request.events]


def test_a_batch_is_one_request_of_cloud_events(endpoint: Endpoint) -> None:
    made = relay("http", url=endpoint.url, headers={"X-Team": "shop"}, event_type="order.changed")
    assert called(made, batch()).error is None
    (request,) = endpoint.requests
    assert request.rows == ROWS
    assert request.headers["Content-Type"].startswith("application/cloudevents-batch+json")
    assert request.headers["X-Team"] == "shop"
    first = request.body[0]
    assert (first["specversion"], first["type"], first["source"]) == ("1.0", "order.changed", "//test")
    assert len(set(ids(endpoint))) == 3


def test_a_retry_has_the_same_ids_and_the_same_key(endpoint: Endpoint) -> None:
    for mode in ("batch", "single"):
        endpoint.requests.clear()
        for _ in range(2):
            relay("http", url=endpoint.url, mode=mode)(batch())
        keys = [request.headers["Idempotency-Key"] for request in endpoint.requests]
        half = len(keys) // 2
        assert keys[:half] == keys[half:]
        assert len(set(keys)) == half == (1 if mode == "batch" else 3)
        assert ids(endpoint)[:3] == ids(endpoint)[3:]


def test_single_events_go_one_by_one_in_order(endpoint: Endpoint) -> None:
    relay("http", url=endpoint.url, mode="single")(batch())
    assert [request.body["data"]["id"] for request in endpoint.requests] == [1, 2, 3]
    assert endpoint.requests[0].headers["Content-Type"].startswith("application/cloudevents+json")


def test_a_large_batch_is_divided_and_a_large_row_rejected(endpoint: Endpoint) -> None:
    made = batch()
    result = called(relay("http", url=endpoint.url, max_request=300), made)
    assert [request.rows for request in endpoint.requests] == [ROWS[:1], ROWS[1:2]]
    assert [one.position for one in result.rejected] == [2]
    assert "max_request is 300" in result.rejected[0].text


@pytest.mark.guarantee(
    "Delivery",
    "An outage of a relay's target is not the fault of a row, and a target's own `Retry-After` is followed within "
    "bounds",
)
def test_an_outage_is_no_rows_fault(endpoint: Endpoint) -> None:
    for status in (0, 408, 425, 429, 500, 503, 599):
        endpoint.answers = [Answer(status)]
        result = called(relay("http", url=endpoint.url), batch())
        assert (result.end, result.named, result.seconds) == ("later", (), 30.0), status


def test_an_answer_is_waited_for_as_long_as_the_timeout(endpoint: Endpoint) -> None:
    endpoint.answers = [Answer(-1)]
    result = called(relay("http", url=endpoint.url, timeout="100ms"), Batch.of_rows(ROWS[:1]))
    assert (result.end, "within 100ms" in str(result.error)) == ("raised", True)


DRIPS = (
    b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nX-Slow: ",
    b"HTTP/1.1 200 OK\r\n\r\n",
    b"H",
)


@pytest.mark.guarantee(
    "Delivery",
    "No endpoint of the relay `http` holds a tick beyond its `timeout`, and one that is too slow for a batch gets "
    "smaller ones",
)
def test_an_answer_that_drips_ends_at_the_timeout(endpoint: Endpoint) -> None:
    """Each byte comes long before the timeout; the answer as a whole does not."""
    for begin in DRIPS:
        endpoint.answers = [Answer(0, drips=begin)]
        result = called(relay("http", url=endpoint.url, timeout="200ms"), Batch.of_rows(ROWS[:1]))
        assert (result.end, "within 200ms" in str(result.error)) == ("raised", True), begin


def test_an_endpoint_too_slow_for_a_batch_gets_smaller_ones(endpoint: Endpoint, tmp_path: Path) -> None:
    """Also if each tick has a process of its own, which knows nothing of the requests before."""
    url = f"sqlite:///{tmp_path}/shop.db"
    execute(
        url, "CREATE TABLE orders (id INTEGER PRIMARY KEY NOT NULL)", "INSERT INTO orders VALUES (1), (2), (3), (4)"
    )
    endpoint.answers = [Answer(-1)] * 2
    store, keys = MemoryStore(), {"cursor_column": "id", "cursor_kind": "integer+pk", "pk_columns": ["id"]}
    options: dict[str, Any] = {"max_attempts": 2, "retry_backoff": "1ms", "retry_backoff_max": "1ms"}

    def delivered() -> bool:
        made = relay("http", url=endpoint.url, timeout="100ms")
        source = SqlSource(url, table="orders", bound="none", **keys)  # type: ignore[arg-type]
        with Poller("orders", source=source, store=store, app_name="shop", **options) as poller:
            return poller.tick(made).outcome == "delivered"

    wait_until(delivered, seconds=20)
    assert [len(request.rows) for request in endpoint.requests[:3]] == [4, 4, 2]
    assert [row["id"] for request in endpoint.requests[2:] for row in request.rows] == [1, 2, 3, 4]


@pytest.mark.parametrize("mode", ["batch", "single"])
def test_a_row_that_takes_too_long_holds_up_no_other(mode: str, endpoint: Endpoint, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/shop.db"
    execute(
        url, "CREATE TABLE orders (id INTEGER PRIMARY KEY NOT NULL)", "INSERT INTO orders VALUES (1), (2), (3), (4)"
    )
    endpoint.hangs = lambda request: {"id": 2} in request.rows
    keys = {"cursor_column": "id", "cursor_kind": "integer+pk", "pk_columns": ["id"]}
    options: dict[str, Any] = {"on_poison": "quarantine", "max_attempts": 1, "retry_backoff": "1ms"}
    source = SqlSource(url, table="orders", bound="none", **keys)  # type: ignore[arg-type]
    made = relay("http", url=endpoint.url, mode=mode, timeout="500ms")
    with Poller("orders", source=source, store=MemoryStore(), app_name="shop", **options) as poller:

        def arrived() -> bool:
            poller.tick(made)
            answered = [request for request in endpoint.requests if not endpoint.hangs(request)]
            return {row["id"] for request in answered for row in request.rows} == {1, 3, 4}

        wait_until(arrived, "the other rows", seconds=60)
        waiting = poller.quarantine.list()
        assert [one.pk for one in [*waiting.aside, *waiting.pending]] == [{"id": 2}]
    made.close()


def test_a_request_that_is_not_read_in_time_was_too_slow() -> None:
    """As a request whose answer does not come: fewer rows may be read in time."""
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        url = f"http://127.0.0.1:{deaf.getsockname()[1]}/rows"
        rows = [{"id": at, "name": "x" * 4_000_000} for at in range(4)]
        result = called(relay("http", url=url, timeout="200ms", max_request="100MB"), Batch.of_rows(rows))
    assert (result.end, "4 rows within 200ms" in str(result.error)) == ("raised", True)


def test_what_is_wrong_with_tls_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is an outage: an expired certificate is replaced by the operator of the endpoint."""
    files = certificates(tmp_path)
    with Endpoint(files).serving() as endpoint:
        result = called(relay("http", url=f"{endpoint.url}?code={SECRET}"), batch())
        assert result.end == "later"
        assert "TLS failed: " in str(result.error)
        assert "certificate" in str(result.error)
        assert SECRET not in str(result.error)
        monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(files.authority))
        assert called(relay("http", url=endpoint.url), batch()).error is None
        plain = endpoint.url.replace("127.0.0.1", "localhost")
        assert "TLS failed: " in str(called(relay("http", url=plain), batch()).error), "of another name"


def test_a_source_of_events_is_a_uri_reference(endpoint: Endpoint) -> None:
    for source in ("/shop", "https://example.com/shop?a=b#c", "urn:shop:orders", "shop/%20x"):
        assert called(relay("http", url=endpoint.url, event_source=source), batch()).error is None, source
        assert endpoint.requests[-1].body[0]["source"] == source
    for source in ("our shop", "/shop/ä", "http://[x", "a#b#c", "50%", "<shop>"):
        with pytest.raises(ConfigError, match=r"event_source.*URI reference"):
            relay("http", url="http://127.0.0.1/", event_source=source)


def test_nobody_there_is_an_outage() -> None:
    result = called(relay("http", url=f"http://127.0.0.1:{free_port()}/a?code={SECRET}"), batch())
    assert result.end == "later"
    assert SECRET not in str(result.error)


@pytest.mark.parametrize(
    ("said", "waited"),
    [
        ("7", 7.0),
        (format_datetime(datetime(2026, 1, 1, 0, 2, tzinfo=UTC)), 120.0),
        ("999999999", 3600.0),
        ("soon", 30.0),
        ("-5", 30.0),
    ],
    ids=["seconds", "date", "for-years", "nonsense", "negative"],
)
def test_retry_after_is_followed_within_bounds(endpoint: Endpoint, said: str, waited: float) -> None:
    now = format_datetime(datetime(2026, 1, 1, tzinfo=UTC))
    endpoint.answers = [Answer(503, {"Retry-After": said})]
    made = relay("http", url=endpoint.url)
    assert retry_later("down", wanted_pause({"Retry-After": said, "Date": now})).after == timedelta(seconds=waited)
    assert called(made, batch()).end == "later"


def test_a_refused_row_is_named_and_the_others_are_done(endpoint: Endpoint) -> None:
    for status in (400, 404, 409, 413, 422):
        endpoint.requests.clear()
        endpoint.answers = [Answer(), Answer(status, {}, b"the row says " + SECRET.encode())]
        result = called(relay("http", url=endpoint.url, mode="single"), batch())
        assert [one.position for one in result.failed] == [1], status
        assert str(status) in result.failed[0].text
        assert SECRET not in result.failed[0].text
        assert len(endpoint.requests) == 3


def test_a_wrong_address_or_key_names_no_row(endpoint: Endpoint) -> None:
    for status in (301, 302, 307, 308, 401, 403):
        for mode in ("batch", "single"):
            endpoint.requests.clear()
            endpoint.answers = [Answer(status, {"Location": "http://[nowhere" if status == 302 else endpoint.url})]
            result = called(relay("http", url=endpoint.url, mode=mode), batch())
            assert (result.end, result.named) == ("raised", ()), (status, mode)
            assert len(endpoint.requests) == 1, "redirects are not followed"
            assert ("redirects are not followed" in str(result.error)) == (status < 400)


def test_a_refused_batch_fails_as_a_whole(endpoint: Endpoint) -> None:
    endpoint.answers = [Answer(422)]
    result = called(relay("http", url=endpoint.url), batch())
    assert (result.end, result.named) == ("raised", ())
    assert "answered 422 to a request with 3 rows" in str(result.error)


def test_an_answer_may_name_events_that_failed(endpoint: Endpoint) -> None:
    made = relay("http", url=endpoint.url)
    made(batch())
    endpoint.answers = [Answer.failed(ids(endpoint)[1], error="no such customer")]
    result = called(made, batch())
    assert [(one.position, one.text) for one in result.failed] == [(1, "no such customer")]


def test_the_pages_answer_names_an_event(endpoint: Endpoint) -> None:
    made = relay("http", url=endpoint.url)
    made(batch())
    shown = next(block.text for block in blocks("docs/relays.md", "json"))
    body = shown.replace("the id of an event", ids(endpoint)[2]).encode()
    endpoint.answers = [Answer(200, {"Content-Type": "application/json"}, body)]
    assert [(one.position, one.text) for one in called(made, batch()).failed] == [(2, "no such customer")]


def _said(body: bytes) -> Answer:
    return Answer(200, {"Content-Type": "application/json"}, body)


def test_an_answer_that_cannot_be_read_is_no_success(endpoint: Endpoint) -> None:
    bodies = (b'{"batchItemFailures": "all"}', b" " * 1_000_001)
    not_utf_8 = b'{"batchItemFailures": [{"itemIdentifier": "caf\xe9"}]}'
    for answer in (Answer.failed("unknown"), *map(_said, (*bodies, not_utf_8))):
        endpoint.answers = [answer]
        assert called(relay("http", url=endpoint.url), batch()).end == "raised", answer
    for answer in (_said(b'{"ok": true}'), _said(b"[1]"), Answer(202, {"Content-Type": "text/html"}, b"<p>thanks")):
        endpoint.answers = [answer]
        assert called(relay("http", url=endpoint.url), batch()).error is None, "any other body means done"
    endpoint.answers = [Answer.failed()]
    assert called(relay("http", url=endpoint.url), batch()).error is None


def test_a_lost_lease_ends_it_between_two_requests(endpoint: Endpoint) -> None:
    made = batch()
    made.lost.set()
    result = called(relay("http", url=endpoint.url, mode="single"), made)
    assert type(result.error).__name__ == "LeaseLost"
    assert endpoint.requests == []


@pytest.mark.guarantee(
    "Delivery",
    "No secret of a relay's settings is shown, and none leaves this machine over plain HTTP",
)
def test_secrets_come_from_variables_and_are_shown_nowhere(
    endpoint: Endpoint, caplog: pytest.LogCaptureFixture
) -> None:
    environ = {"AUTH": f"Bearer {SECRET}", "URL": f"{endpoint.url}?code={SECRET}"}
    made = relay("http", url_env="URL", headers_env={"Authorization": "AUTH"}, environ=environ)
    endpoint.answers = [Answer(403)]
    with caplog.at_level(logging.DEBUG):
        result = called(made, batch())
    (request,) = endpoint.requests
    assert request.headers["Authorization"] == f"Bearer {SECRET}"
    assert request.path.endswith(f"?code={SECRET}")
    shown = f"{made!r} {made.settings!r} {made.settings.model_dump_json()} {result.error} {caplog.text} "
    assert SECRET not in shown + str(made.checkup())


@pytest.mark.parametrize(
    ("settings", "key", "words"),
    [
        ({}, "url", "is missing: give url or url_env"),
        ({"url": "https://a", "url_env": "URL"}, "url_env", "exclude each other"),
        ({"url": f"ftp://{SECRET}@a"}, "url", "begins with https:// or http://"),
        ({"url": f"https://a:{SECRET}/"}, "url", "begins with https:// or http://"),
        ({"url_env": "UNSET"}, "url_env", "UNSET, which is not set"),
        ({"url_env": "WRONG"}, "url_env", "begins with https:// or http://"),
        ({"url": f"http://u:{SECRET}@shop.example/"}, "url", "plain http to another machine"),
        ({"url": "http://shop.example/", "headers_env": {"A": "WRONG"}}, "url", "plain http to another machine"),
        ({"url": "https://a", "headers_env": {"A": "LINES"}}, "headers_env", "cannot be the value of a header"),
        ({"url": "https://a", "headers": {"A": "b\r\nC: d"}}, "headers", "HTTP does not allow"),
        ({"url": "https://a", "headers": {"Host": "b"}}, "headers", "which the relay sets itself"),
    ],
    ids=[
        "none", "both", "ftp", "no-port", "unset", "no-address", "password", "header", "lines", "line", "ours",
    ],
)  # fmt: skip
def test_a_wrong_setting_is_refused_without_its_value(settings: dict[str, Any], key: str, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        relay("http", environ={"WRONG": SECRET, "LINES": f"{SECRET}\nX: y"}, **settings)
    assert caught.value.key == key
    assert words in str(caught.value)
    assert SECRET not in str(caught.value)


def test_check_says_whether_somebody_listens(endpoint: Endpoint) -> None:
    (found,) = relay("http", url=endpoint.url).checkup()
    assert (found.severity, "accepts connections" in found.message) == ("ok", True)
    (found,) = relay("http", url=f"http://127.0.0.1:{free_port()}/").checkup()
    assert found.severity == "error"
    assert endpoint.requests == []


def test_a_relay_in_another_process_keeps_its_connections(endpoint: Endpoint) -> None:
    made = relay("http", url_env="URL", environ={"URL": endpoint.url})
    arrived = pickle.loads(pickle.dumps(made))
    assert pickle.loads(pickle.dumps(made)) is arrived
    assert called(arrived, batch()).error is None
    made.close()
    assert called(made, batch()).error is None, "it may be called again after close()"


@pytest.mark.parametrize("isolation", ["thread", "process"])
def test_a_poller_relays_and_its_checkpoint_moves(tmp_path: Path, endpoint: Endpoint, isolation: str) -> None:
    write_shop(tmp_path, "")
    file = tmp_path / "poller.toml"
    settings = f'handler = "poller.relays:http"\nrelay.url_env = "SHOP"\nisolation = "{isolation}"'
    file.write_text(file.read_text().replace('handler = "handlers:on_orders"', settings))
    endpoint.answers = [Answer(503)]
    with load_app(file, {"SHOP": endpoint.url}) as app:
        orders = app.pollers["orders"]
        assert [one.severity for one in orders.check() if one.check in ("handler", "relay")] == ["ok", "ok"]
        first = orders.tick()
        assert first.outcome == "handler_failed"
        assert "answered 503" in str(first.error)
        orders.resume()
        assert orders.tick().outcome == "delivered"
    assert [request.rows[0]["id"] for request in endpoint.requests] == [1, 1]
    assert endpoint.requests[0].body[0]["source"] == "/shop/orders"
    assert ids(endpoint)[0] == ids(endpoint)[1]
