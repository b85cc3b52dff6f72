"""The bodies of the relay `http`: rows as CloudEvents or as plain JSON, in as many requests as it takes."""

from __future__ import annotations

import hashlib
import json
import unicodedata
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

from poller.handler.batch import Batch
from poller.model.captured import OLD, OP, Op
from poller.model.row_changes import values_of
from poller.ports import Row
from poller.relays.http_settings import HttpSettings
from poller.relays.messages import json_bytes, message_id, operation, readable
from poller.relays.ordering import chosen, key_value

_DONE: Mapping[Op, str] = {
    "I": "inserted",
    "U": "updated",
    "D": "deleted",
    "T": "truncated",
    "R": "read",
    "B": "begun",
    "E": "ended",
}
"""What was done, behind the type of an event."""


class OutgoingRequest(NamedTuple):
    """A request.

    Attributes:
        key: the same for the same rows. body: before it is compressed.
        rows: those in it, by what an answer calls them: the ids of their events, or with plain JSON their positions.
    """

    key: str
    body: bytes
    rows: Mapping[str, Row]


class _BodyPart(NamedTuple):
    id: str
    row: Row
    text: bytes


class _Unusable(ValueError):
    """A value from which an attribute of an event cannot be made. Its text says which, and why."""


def requests_of(batch: Batch, settings: HttpSettings) -> Iterator[OutgoingRequest]:
    """The batch as requests, in order; a row that is larger than one may be, or that makes no event, is rejected by
    name. Raises: ConfigError, if a setting names a column that rows do not have."""
    size, parts = 2, list[_BodyPart]()
    single, largest = settings.mode == "single", settings.max_request
    what = "event" if settings.format == "cloudevents" else "JSON"
    besides = [name for name in (settings.subject_column, settings.time_column) if name is not None]
    besides += [OP, OLD] if batch.is_captured else []
    for row, values in readable(batch, settings.columns, besides=besides):
        id_ = message_id(batch, row)
        try:
            text = _text(batch, id_, values, settings, operation(batch, row))
        except _Unusable as wrong:
            batch.reject(row, str(wrong))
            continue
        if len(text) + 2 > largest:
            batch.reject(row, f"the row's {what} has {len(text)} bytes, and max_request is {largest}")
            continue
        if parts and (single or size + len(text) + 1 > largest):
            yield _request(parts, settings)
            size, parts = 2, []
        parts.append(_BodyPart(id_, row, text))
        size += len(text) + 1
    if parts:
        yield _request(parts, settings)


def content_type(settings: HttpSettings) -> str:
    """Of all requests."""
    if settings.format == "json":
        return "application/json; charset=utf-8"
    kind = "cloudevents" if settings.mode == "single" else "cloudevents-batch"
    return f"application/{kind}+json; charset=utf-8"


def _request(parts: list[_BodyPart], settings: HttpSettings) -> OutgoingRequest:
    events = settings.format == "cloudevents"
    rows = {one.id if events else str(position): one.row for position, one in enumerate(parts)}
    if settings.mode == "single":
        return OutgoingRequest(parts[0].id, parts[0].text, rows)
    key = hashlib.sha256("".join(one.id for one in parts).encode()).hexdigest()
    return OutgoingRequest(key, b"[%s]" % b",".join(one.text for one in parts), rows)


def _text(batch: Batch, id_: str, values: Mapping[str, Any], settings: HttpSettings, op: Op | None) -> bytes:
    kind = settings.event_type if op is None else f"{settings.event_type}.{_DONE[op]}"
    data = chosen(values, settings.columns) if op is None else _change(values, settings.columns)
    if settings.format == "json":
        return json_bytes(data if op is None else {"type": kind, **data})
    event = {
        "specversion": "1.0",
        "id": id_,
        "source": settings.event_source or f"/{batch.standing.app_name}/{batch.poller_name}",
        "type": kind,
    }
    if settings.subject_column is not None:
        event |= _subject(key_value(values, settings.subject_column, key="subject_column"), settings.subject_column)
    if settings.time_column is not None:
        event |= _time(key_value(values, settings.time_column, key="time_column"), settings.time_column)
    return json_bytes({**event, "datacontenttype": "application/json", "data": data})


def _change(values: Mapping[str, Any], columns: Mapping[str, str]) -> dict[str, Any]:
    """The row of a change, without the reserved columns unless the setting `columns` names them, and the row before."""
    row, old = values_of(values), values[OLD]
    if columns:
        row = {**chosen(values, columns)} if row else {}
        old = old and {name: old[source] for name, source in columns.items() if source in old}
    return {"row": row or None, "old": old}


def _subject(value: Any, column: str) -> dict[str, str]:
    """The event's subject; none without a value, or with an empty one. Raises: _Unusable."""
    text = value if isinstance(value, str) else "" if value is None else json.dumps(value, ensure_ascii=False)
    if any(unicodedata.category(one) in {"Cc", "Cs"} for one in text):
        raise _Unusable(f'"{column}" cannot be the subject of an event: it has characters that CloudEvents forbids')
    return {"subject": text} if text else {}


def _time(value: Any, column: str) -> dict[str, str]:
    """The event's time in UTC, as RFC 3339 has it; none without a value. Raises: _Unusable."""
    if value is None:
        return {}
    try:
        read = datetime.fromisoformat(value)
        read = read.replace(tzinfo=UTC) if read.tzinfo is None else read.astimezone(UTC)
    except (ValueError, TypeError, OverflowError):
        raise _Unusable(f'"{column}" cannot be the time of an event: it is not a date and time') from None
    return {"time": read.isoformat()}
