"""What a row or an error holds makes no line of its own, steers no terminal and fills no log, whoever observes."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poller.errors import SourceError
from poller.model.escape import LONGEST_VALUE, each_text, escape, escape_lines, shown
from poller.model.redact import first_line
from poller.observability import BatchCommitted, Emitter, HandlerFailed, TickFailed, log_events
from poller_cli.terminal.printing import json_text, printable
from tests.integration.runner.fakes import World, raising

FORGED = "a\nFAKE ERROR shop: all rows lost"
HOSTILE = f"{FORGED}\r\x1b[2J\x9b2J\x7f\u2028\u2029\u202e\u2066\x00\x85\x0b\ufeff\ud800"
NOW = datetime(2026, 4, 7, tzinfo=UTC)


@pytest.mark.guarantee(
    "Hostile and broken input",
    "Text in a row, a name or an error starts no new line and controls no terminal",
)
@given(st.text(st.characters(), max_size=60) | st.just(HOSTILE))
def test_any_text_becomes_printable_and_stays_so(text: str) -> None:
    assert escape(text).isprintable()
    assert escape(escape(text)) == escape(text)
    assert len(shown(text * 20)) <= LONGEST_VALUE
    assert printable(text).isprintable()
    assert all(c.isprintable() for c in json_text({text: text}, indent=None))
    assert json.loads(json_text({"text": text}))["text"] == text
    assert all(line.startswith("orders: ") for line in escape_lines(text, "orders: ").splitlines())


def test_what_is_printable_is_left_as_it_is() -> None:
    text = "Zürich 東京 \U0001f680 C:\\new\\table"
    assert escape(text) == shown(text) == first_line(text) == text


def test_an_error_that_quotes_a_key_is_one_line() -> None:
    error = SourceError(f"orders: the row {HOSTILE} cannot be read.", next_step="Delete it.")
    assert str(error).isprintable()
    assert str(error).startswith("orders: the row a\\nFAKE ERROR")
    assert error.message.count("\n") == 1  # the fact itself stays as it is


def test_a_log_line_is_one_line_and_its_values_are_cut(caplog: pytest.LogCaptureFixture) -> None:
    facts = {"poller": "orders", "at": NOW, "owner_id": "x", "fencing_token": 1, "batch_id": "b", "rows": 1}
    with caplog.at_level(logging.DEBUG, "poller"):
        log_events(BatchCommitted(cursor=HOSTILE + "k" * 5_000, handler_seconds=0.1, **facts))  # type: ignore[arg-type]
        log_events(TickFailed(poller="orders", at=NOW, error_type="SourceError", error=HOSTILE))
    for record in caplog.records:
        assert record.getMessage().isprintable()
        assert len(record.getMessage()) < 600
        assert str(each_text(record.poller_event, shown)) == str(record.poller_event)  # type: ignore[attr-defined]


def test_each_line_of_a_traceback_begins_with_its_poller(caplog: pytest.LogCaptureFixture) -> None:
    world = World(rows=1)
    world.tick(raising(ValueError(HOSTILE)))
    with caplog.at_level(logging.DEBUG, "poller"):
        log_events(world.emitted(HandlerFailed)[0])
    lines = [line for record in caplog.records for line in record.getMessage().split("\n")]
    assert any("FAKE ERROR" in line for line in lines)
    assert [line for line in lines if not line.startswith("orders: ")] == []
    assert [line for line in lines if not line.replace("\t", "").isprintable()] == []


def test_the_document_keeps_an_error_escaped() -> None:
    world = World(rows=1)
    world.tick(raising(type("Odd\x1bError", (Exception,), {})(HOSTILE[1:])))
    error = world.state.delivery.last_error
    assert error is not None
    assert (error.type, error.message) == ("Odd\\x1bError", escape(FORGED[2:]))
    assert world.tick_when_due(raising(ValueError("x\x1b[2J"))).outcome == "handler_failed"
    assert "\\x1b[2J" in world.state.delivery.last_error.message  # type: ignore[union-attr]


def test_a_failing_observer_is_logged_line_by_line(caplog: pytest.LogCaptureFixture) -> None:
    def fails(_: object) -> None:
        raise ValueError(f"{FORGED} password=geheim-7")

    with caplog.at_level(logging.ERROR, "poller"):
        Emitter([fails])(TickFailed(poller="orders", at=NOW, error_type="x", error="y"))
    (record,) = caplog.records
    assert all(line.startswith("orders: ") for line in record.getMessage().split("\n"))
    assert record.exc_info is None
    assert "geheim-7" not in record.getMessage()
