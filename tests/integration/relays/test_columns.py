"""`columns` of the relays that need no server, and columns that rows do not have. With a server: beside their tests."""

from __future__ import annotations

import json
from typing import Any

import pytest

from poller import Batch, ConfigError
from poller.relays import relay
from tests.integration.relays.endpoint import Endpoint, called

COLUMNS = {"order": "id", "who": "name", "again": "id"}


class Formless:
    """A value that has no text."""

    def __str__(self) -> str:
        raise ValueError("no text")


ROWS: list[dict[str, Any]] = [{"id": 1, "name": "Zoë", "shape": Formless()}, {"id": 2, "name": None, "shape": 1}]
SENT = [{"order": 1, "who": "Zoë", "again": 1}, {"order": 2, "who": None, "again": 2}]


@pytest.mark.parametrize("envelope", [False, True])
def test_lines_have_the_chosen_columns(envelope: bool, capsys: pytest.CaptureFixture[str]) -> None:
    result = called(relay("stdout", columns=COLUMNS, envelope=envelope), Batch.of_rows(ROWS))
    assert result.named == (), "what is not sent needs no form"
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["row"] if envelope else line for line in lines] == SENT
    assert list(lines[0]["row"] if envelope else lines[0]) == list(COLUMNS)


@pytest.mark.parametrize("format_", ["json", "cloudevents"])
def test_requests_have_the_chosen_columns(format_: str, endpoint: Endpoint) -> None:
    more = {} if format_ == "json" else {"subject_column": "name"}
    result = called(relay("http", url=endpoint.url, format=format_, columns=COLUMNS, **more), Batch.of_rows(ROWS))  # type: ignore[arg-type]
    assert result.named == ()
    (request,) = endpoint.requests
    assert (request.body if format_ == "json" else request.rows) == SENT
    assert format_ == "json" or request.body[0]["subject"] == "Zoë"


def test_a_column_that_rows_lack_is_an_error_of_its_key(endpoint: Endpoint) -> None:
    for made in (relay("stdout", columns={"a": "nobody"}), relay("http", url=endpoint.url, columns={"a": "nobody"})):
        (found,) = made.check_columns(("id", "name"))
        assert (found.severity, found.message) == ("error", "`relay.columns` names nobody, which the rows do not have.")
        result = called(made, Batch.of_rows(ROWS))
        assert isinstance(result.error, ConfigError)
        assert (result.error.key, bool(result.error.next_step)) == ("columns", True)
    assert endpoint.requests == []


def test_an_ordering_key_that_rows_lack_is_found_by_check() -> None:
    settings: dict[str, Any] = {"queue": "orders", "connection_env": "A", "senders": 2, "ordering_key": ["id", "no"]}
    made = relay("queue", environ={"A": "UseDevelopmentStorage=true"}, **settings)
    assert [one.message for one in made.check_columns(("id",))] == [
        "`relay.ordering_key` names no, which the rows do not have."
    ]
    made.close()
