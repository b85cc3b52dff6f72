"""At a terminal every event is shown in words."""

from __future__ import annotations

import re
from dataclasses import fields
from datetime import UTC, datetime
from typing import Any, get_args, get_type_hints

from poller import observability
from poller.observability import HandlerFailed, PollerEvent, TenureEvent
from poller_cli.output.event_words import _WORDS, words
from tests.support.cases import each

EVENTS = [
    kind
    for kind in vars(observability).values()
    if isinstance(kind, type) and issubclass(kind, PollerEvent) and kind not in (PollerEvent, TenureEvent)
]
VALUES: dict[Any, Any] = {
    str: "seven",
    int: 7,
    float: 7.5,
    bool: True,
    list[str]: ["seven"],
    datetime: datetime.now(UTC),
}
OWN = {"tick", "tick_failed"}
"""Shown in words of their own: of an outcome, of an error."""


def made(kind: type[PollerEvent], *, full: bool) -> PollerEvent:
    values: dict[str, Any] = {}
    hints = get_type_hints(kind)
    for item in fields(kind):
        hint = hints[item.name]
        values[item.name] = VALUES[hint] if hint in VALUES else VALUES[get_args(hint)[0]] if full else None
    return kind(**values)


@each("full", [True, False])
@each("kind", [one for one in EVENTS if one.name not in OWN])
def test_an_event_is_shown_in_words_of_its_own(kind: type[PollerEvent], full: bool) -> None:
    assert kind.name in _WORDS
    shown = words(made(kind, full=full))
    assert not re.search(r"\w_\w", shown), shown
    assert "None" not in shown


@each("error", ["ValueError: no", "row orders/17: ValueError: no"])
def test_a_failed_row_is_named_once(error: str) -> None:
    failed = HandlerFailed(
        poller="orders", at=datetime.now(UTC), owner_id="w", fencing_token=3, batch_id="b_1", attempt=2, error=error,
        key="orders/17", failed=1,
    )  # fmt: skip
    assert words(failed) == "the handler failed on b_1, which named 1 row, attempt 2: row orders/17: ValueError: no"


def test_there_are_words_for_no_event_that_is_not() -> None:
    assert set(_WORDS) == {kind.name for kind in EVENTS} - OWN
