"""`error_text = false`: what a database or a driver quotes of a row in its errors is nobody's to see."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from pymysql.err import OperationalError

from poller import Poller
from poller.errors import SourceError
from poller.observability import PollerEvent, log_events
from poller.sources import SqlSource
from poller.sources.faults import driver_code
from poller.stores import MemoryStore
from tests.integration.sources.tables import closing, execute, make_orders, orders
from tests.support.cases import each

SECRET = "Jane-Doe-4711"


def _shown(source: SqlSource, caplog: pytest.LogCaptureFixture, *, error_text: bool) -> tuple[SourceError, str]:
    """What a tick raises, and all that is shown of it: the error, the events, the log, and what `check` finds."""
    caplog.clear()
    events: list[PollerEvent] = []
    with caplog.at_level(logging.DEBUG, "poller"), closing(source):
        poller = Poller(
            "orders",
            app_name="shop",
            source=source,
            store=MemoryStore(),
            observers=[events.append, log_events],
            error_text=error_text,
        )
        with pytest.raises(SourceError) as raised:
            poller.tick(lambda batch: None)
        found = source.checkup(None, lambda: datetime.now(UTC)).findings
    texts = [str(raised.value), repr(raised.value), str(vars(raised.value)), caplog.text, str(found)]
    return raised.value, "\n".join(texts + [str(event.as_json()) for event in events])


@each(
    ("condition", "state"),
    [
        ("status\\:\\:int > 0", "22P02"),
        ("cast(status as timestamptz) > now()", "22007"),
        ("(length(status) * 1000000)\\:\\:smallint > 0", "22003"),
        ("said(status)", "P0001"),
        ("said_as_a_duplicate(status)", "23505"),
    ],
)
def test_what_postgresql_quotes_is_shown_only_where_it_may_be(
    postgres_db: str, caplog: pytest.LogCaptureFixture, condition: str, state: str
) -> None:
    make_orders(postgres_db, ["2026-01-01 00:00:00"])
    raises = "create function {}(text) returns bool language plpgsql immutable as $$ begin raise {}; end $$"
    execute(
        postgres_db,
        f"update orders set status = '{SECRET}'",
        raises.format("said", "exception 'no such person\\: %', $1"),
        raises.format(
            "said_as_a_duplicate",
            "unique_violation using message = 'duplicate key', detail = 'Key (who)=(' || $1 || ') already exists.'",
        ),
    )
    condition = condition.replace("\\:", ":")
    error, shown = _shown(orders(postgres_db, filter=condition), caplog, error_text=False)
    assert SECRET not in shown
    assert state in error.message, "what the database says without a word of the row"
    error, _ = _shown(orders(postgres_db, filter=condition), caplog, error_text=True)
    assert state not in error.message
    assert len(error.message) < 400


def _other_form(url: str) -> None:
    make_orders(url, ["2026-01-01 00:00:00", SECRET, "2026-01-02 00:00:00"])


def _other_form_in_the_key(url: str) -> None:
    execute(
        url,
        "create table orders (id integer, updated_at text not null, primary key (updated_at, id))",
        f"insert into orders values (1, '2026-01-01'), (2, '2026-01-02 {SECRET}'), (3, '2026-01-03')",
    )


def _other_form_on_top(url: str) -> None:
    make_orders(url, ["2026-01-01 00:00:00", SECRET])


def _in_the_condition(url: str) -> None:
    make_orders(url, ["2026-01-01 00:00:00"])
    execute(url, f"update orders set status = '{SECRET}'")


def _no_utf_8(url: str) -> None:
    odd = (SECRET.encode() + b"\xe9").hex()
    execute(
        url,
        "create table orders (id text not null primary key, updated_at text not null)",
        f"insert into orders values (cast(x'{odd}' as text), '2026-01-01')",
    )


@each("make", [_other_form, _other_form_in_the_key, _other_form_on_top, _in_the_condition, _no_utf_8])
def test_what_sqlite_or_we_quote_is_shown_only_where_it_may_be(
    sqlite_url: str, caplog: pytest.LogCaptureFixture, make: Callable[[str], None]
) -> None:
    make(sqlite_url)
    keys: dict[str, Any] = {"filter": "json_extract('{}', status) is null"} if make is _in_the_condition else {}
    if make is _other_form_in_the_key:
        keys["pk_columns"] = ["updated_at", "id"]
    _, shown = _shown(orders(sqlite_url, **keys), caplog, error_text=False)
    assert SECRET not in shown
    error, _ = _shown(orders(sqlite_url, **keys), caplog, error_text=True)
    assert SECRET in error.message


@pytest.mark.parametrize(
    ("state", "code"), [("HY000", "error 1105"), ("22003", "SQLSTATE 22003"), (None, "error 1105")]
)
def test_mysqls_general_state_gives_way_to_the_number(state: str | None, code: str) -> None:
    assert driver_code(OperationalError(1105, f"XPATH syntax error: '{SECRET}'", sqlstate=state)) == code
