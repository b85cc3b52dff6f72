"""Rows that wait, put into a store as a tick would: records first, then the state document that lists them."""

from __future__ import annotations

from collections.abc import Sequence

from poller.journal import Entry, Quarantine
from poller.model import aside, transitions
from poller.model.aside import RowFacts
from poller.model.cursor import Cursor
from poller.model.document import DeliveryError, State, decode, encode
from poller.model.row_ids import id_of_key, id_of_values
from poller.model.timing import Timing
from poller.ports import Found, StateStore
from poller.runtime import SystemRuntime
from poller.sources.rows import idempotency_key

WHY = "no such customer"
SECRET_NAME = "Ada Lovelace"
"""What a row holds: personal data."""


def cursor_of(number: int) -> Cursor:
    """Of a row of `Project.insert`."""
    second = number // 10
    value = f"2026-01-01 {second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}"
    return Cursor(kind="timestamp+pk", value=value, tiebreaker={"id": number})


def facts_of(number: int, *, key: str | None = None, table: str = "orders") -> RowFacts:
    """`key`: what its ordering key is made of; default: its own."""
    at = cursor_of(number)
    return RowFacts(
        id=id_of_key(idempotency_key(table, at)),
        pk=id_of_values({"id": number}),
        key=id_of_values({"id": key or number}),
        cursor=at,
    )


def row_id(number: int) -> str:
    """The id of a row of `Project.insert`."""
    return facts_of(number).id


def waits(
    store: StateStore,
    *,
    failed: Sequence[int] = (),
    behind: Sequence[int] = (),
    pending: Sequence[int] = (),
    ahead: Sequence[int] = (),
    key: str | None = None,
    poller: str = "orders",
    records: bool = True,
) -> None:
    """Rows of `orders` by their numbers: they failed, follow, or wait for a person; `ahead`: the checkpoint has not
    passed them. `key`: all have this ordering key."""
    runtime = SystemRuntime()
    name = f"state/shop/{poller}.json"
    found = store.read(name)
    assert isinstance(found, Found)
    state = decode(found.body, location="there", poller_name=poller)
    opened = Quarantine(
        store, app_name="shop", poller_name=poller, runtime=runtime, timing=Timing(ttl=60.0, heartbeat=20.0)
    )
    now = runtime.utcnow()
    for number in (*failed, *behind, *pending, *ahead):
        facts = facts_of(number, key=key)
        if records:
            opened.open(_entry(facts, state, number, key, behind=number in behind), deadline=runtime.monotonic() + 30)
        at = None if number in ahead else number
        if number in behind:
            state = aside.follow(state, facts, at=number, now=now)
        elif number in pending:
            state = aside.reject(state, facts, at=at, now=now)
        else:
            state = aside.set_aside(state, facts, at=at, now=now, failures=2, delay=3600.0)
    state = transitions.restamped(state, now)
    store.write(name, encode(state), if_tag=found.tag)


def _entry(facts: RowFacts, state: State, number: int, key: str | None, *, behind: bool) -> Entry:
    return Entry(
        facts=facts,
        row={"id": number, "updated_at": facts.cursor.value, "customer": SECRET_NAME},
        row_key=idempotency_key("orders", facts.cursor),
        ordering_key={"id": key or number},
        behind=behind,
        failures=0 if behind else 2,
        error=None if behind else DeliveryError(type="ValueError", message=WHY),
        batch_id=None if behind else "batch_1",
        fencing_token=state.lease.fencing_token,
        generation=state.checkpoint.generation,
    )
