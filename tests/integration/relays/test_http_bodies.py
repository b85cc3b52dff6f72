"""What `poller.relays:http` sends besides events in batches: plain JSON, subjects and times, compressed bodies."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from standardwebhooks.webhooks import Webhook

from poller import Batch, ConfigError
from poller.relays import relay
from tests.integration.relays.endpoint import Answer, Endpoint, called

ROWS: list[dict[str, Any]] = [{"id": 1, "name": "Zoë"}, {"id": 2, "name": None}, {"id": 3, "name": "x" * 300}]
HOUR = timezone(timedelta(hours=1))


def test_plain_json_is_rows_and_nothing_else(endpoint: Endpoint) -> None:
    relay("http", url=endpoint.url, format="json")(Batch.of_rows(ROWS))
    (request,) = endpoint.requests
    assert request.body == ROWS
    assert request.headers["Content-Type"] == "application/json; charset=utf-8"


def test_plain_json_and_events_have_the_same_keys(endpoint: Endpoint) -> None:
    for mode in ("single", "batch"):
        for format_ in ("json", "cloudevents"):
            relay("http", url=endpoint.url, mode=mode, format=format_)(Batch.of_rows(ROWS))
    assert [request.body for request in endpoint.requests[:3]] == ROWS
    keys = [request.headers["Idempotency-Key"] for request in endpoint.requests]
    assert (keys[:3], keys[6]) == (keys[3:6], keys[7])
    assert keys[:3] == [event["id"] for event in endpoint.requests[7].events]


def test_an_answer_names_plain_rows_by_position(endpoint: Endpoint) -> None:
    endpoint.answers = [Answer.failed("1", error="no such customer"), Answer.failed("3")]
    made = relay("http", url=endpoint.url, format="json")
    result = called(made, Batch.of_rows(ROWS))
    assert [(one.position, one.text) for one in result.failed] == [(1, "no such customer")]
    assert called(made, Batch.of_rows(ROWS)).end == "raised", "there is no fourth"


def test_a_large_row_of_plain_json_is_rejected(endpoint: Endpoint) -> None:
    result = called(relay("http", url=endpoint.url, format="json", max_request=100), Batch.of_rows(ROWS))
    assert [request.body for request in endpoint.requests] == [ROWS[:2]]
    assert [one.position for one in result.rejected] == [2]


def test_subject_and_time_come_from_columns(endpoint: Endpoint) -> None:
    rows: list[dict[str, Any]] = [
        {"id": 1, "who": "customer/7", "at": datetime(2026, 4, 7, 1, 23, 45, 600, HOUR)},
        {"id": 2, "who": 7, "at": "2026-04-07 01:23:45.5"},
        {"id": 3, "who": None, "at": None},
        {"id": 4, "who": "", "at": datetime(2026, 4, 7, tzinfo=UTC)},
    ]
    made = relay("http", url=endpoint.url, subject_column="who", time_column="at")
    assert called(made, Batch.of_rows(rows)).error is None
    found = [(event.get("subject"), event.get("time")) for event in endpoint.requests[0].events]
    assert found == [
        ("customer/7", "2026-04-07T00:23:45.000600+00:00"),
        ("7", "2026-04-07T01:23:45.500000+00:00"),
        (None, None),
        (None, "2026-04-07T00:00:00+00:00"),
    ]


def test_a_row_that_makes_no_event_holds_up_no_other(endpoint: Endpoint) -> None:
    rows: list[dict[str, Any]] = [
        {"id": 1, "who": "a\nb", "at": None},
        {"id": 2, "who": "a", "at": "yesterday"},
        {"id": 3, "who": "a", "at": 7},
        {"id": 4, "who": "a", "at": datetime(1, 1, 1, tzinfo=HOUR)},
        {"id": 5, "who": "a", "at": None},
    ]
    result = called(relay("http", url=endpoint.url, subject_column="who", time_column="at"), Batch.of_rows(rows))
    assert [one.position for one in result.rejected] == [0, 1, 2, 3]
    assert 'who" cannot be the subject' in result.rejected[0].text
    assert 'at" cannot be the time' in result.rejected[1].text
    assert "yesterday" not in result.rejected[1].text
    assert [row["id"] for row in endpoint.requests[0].rows] == [5]


def test_a_compressed_body_is_the_same_each_time(endpoint: Endpoint) -> None:
    secret = f"whsec_{base64.b64encode(bytes(32)).decode()}"
    made = relay("http", url=endpoint.url, compression="gzip", signing_env="HOOK", environ={"HOOK": secret})
    for _ in range(2):
        made(Batch.of_rows(ROWS))
    one, other = endpoint.requests
    assert one.rows == ROWS
    assert one.headers["Content-Encoding"] == "gzip"
    assert int(one.headers["Content-Length"]) < len(one.raw)
    assert one.headers["Content-Length"] == other.headers["Content-Length"]
    assert Webhook(secret).verify(one.raw, one.headers) == one.body, "the signature is of the body unpacked"


@pytest.mark.parametrize("key", ["subject_column", "time_column"])
def test_a_column_that_rows_lack_is_said_with_its_key(endpoint: Endpoint, key: str) -> None:
    named: dict[str, Any] = {key: "nobody"}
    made = relay("http", url=endpoint.url, **named)
    (found,) = made.check_columns(("id", "name"))
    assert (found.severity, f"relay.{key}` names nobody" in found.message) == ("error", True)
    assert made.check_columns(("id", "nobody")) == []
    result = called(made, Batch.of_rows(ROWS))
    assert isinstance(result.error, ConfigError)
    assert (result.error.key, endpoint.requests) == (key, [])


@pytest.mark.parametrize("key", ["event_type", "event_source", "subject_column", "time_column"])
def test_plain_json_with_what_an_event_has_is_refused(key: str) -> None:
    with pytest.raises(ConfigError, match='is of CloudEvents, and format is "json"') as caught:
        relay("http", **{"url": "https://a", "format": "json", key: "name"})  # type: ignore[arg-type]
    assert caught.value.key == key


def test_a_coding_of_ones_own_does_not_go_with_gzip() -> None:
    with pytest.raises(ConfigError, match="which the relay sets itself") as caught:
        relay("http", url="https://a", compression="gzip", headers={"Content-Encoding": "br"})
    assert caught.value.key == "headers"
