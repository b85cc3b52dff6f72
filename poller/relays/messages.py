"""How a row becomes a message: its JSON, its id, and what is said of a row that a target does not take.

Nothing of a value is lost. JSON has texts, truth values, null and numbers; everything else is a text:

| value | in JSON |
|---|---|
| whole number | number, of any length |
| floating point | number that reads back as the same one; `"NaN"`, `"Infinity"`, `"-Infinity"` |
| decimal | text with all its digits: `"12.50"` |
| date, time, moment | ISO 8601, with its offset where it has one: `"2026-04-07T01:23:45.123456+00:00"` |
| interval | ISO 8601 in seconds: `"PT93784.500000S"`, negative `"-PT1.000000S"`; with months the database's text |
| bytes | base64 |
| UUID | text |
| list, set, object | list or object of these |
| anything else (a range, an address of a network) | its text |
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from poller.errors import PollerError
from poller.handler.batch import Batch
from poller.handler.reports import RetryLater
from poller.model.captured import Op
from poller.model.durations import format_duration
from poller.model.row_changes import op_of
from poller.ports import Row

LONGEST_PAUSE = 3600.0
"""The most seconds that a target's own word on when to come again (`Retry-After`) is followed."""
USUAL_PAUSE = 30.0
"""Seconds until a target that was down is tried again, if it does not say when."""


@dataclass(frozen=True, slots=True)
class Message:
    """A row as it is sent.

    Attributes:
        row: of the batch. id: see `message_id`. body: the row as JSON, in UTF-8. op: of a captured table, which
            operation (`poller.model.captured.Op`).
    """

    row: Row
    id: str
    body: bytes
    op: Op | None = None


def message_id(batch: Batch, row: Row) -> str:
    """64 hexadecimal digits for this version of a row: the same in every delivery by this poller, and another for
    another version, another poller or another application (a backfill is another poller)."""
    named = json.dumps([batch.standing.app_name, batch.poller_name, batch.key(row)])
    return hashlib.sha256(named.encode()).hexdigest()


def operation(batch: Batch, row: Row) -> Op | None:
    """Which operation a row of a captured table is; None, if the table is not captured. Raises: ValueError, for one
    that is not known."""
    return op_of(row) if batch.is_captured else None


def readable(
    batch: Batch, columns: Mapping[str, str], *, besides: Iterable[str] = ()
) -> Iterator[tuple[Row, dict[str, Any]]]:
    """Each row with its values as JSON has them; a row with a value that has no text is rejected by name.

    Args:
        columns: of the relay: only the columns that they choose are looked at; all, if there are none.
        besides: further ones that are needed.
    """
    wanted = {*columns.values(), *besides}
    for row in batch.rows:
        try:
            values = plain({name: value for name, value in row.items() if name in wanted} if columns else row)
        except Exception as error:  # noqa: BLE001 - a type of the driver's, or of the user's own
            batch.reject(row, f"a value of the row has no form in JSON ({type(error).__name__})")
        else:
            yield row, values


def json_bytes(value: Any) -> bytes:
    """What `plain` gave, as JSON in UTF-8 and on one line."""
    try:
        return json_text(value).encode()
    except UnicodeEncodeError:  # half of a surrogate pair, which JSON can escape and UTF-8 does not have
        return json_text(value, ascii_only=True).encode()


def json_text(value: Any, *, ascii_only: bool = False) -> str:
    """The same as text; `ascii_only`: with all other characters escaped."""
    return json.dumps(value, ensure_ascii=ascii_only, separators=(",", ":"), allow_nan=False)


def plain(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row of what JSON has. Raises: what a value raises that is asked for its text."""
    return {str(name): plain_value(value) for name, value in row.items()}


def plain_value(value: Any) -> Any:
    """A value of what JSON has. Raises: as `plain`."""
    kind = type(value)
    if value is None or kind in (str, int, bool):
        return value
    if kind is float:
        return value if math.isfinite(value) else _not_finite(value)
    if isinstance(value, str):  # of these a subclass: an enumeration, say
        return str.__str__(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return plain_value(float(value))
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(bytes(value)).decode("ascii")
    if isinstance(value, Mapping):
        return plain(value)
    if isinstance(value, list | tuple | set | frozenset):
        return [plain_value(one) for one in value]
    return _text(value)


def _text(value: Any) -> str:
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, timedelta):
        sign, length = ("-", -value) if value < timedelta(0) else ("", value)
        seconds = length.days * 86_400 + length.seconds
        return f"{sign}PT{seconds}.{length.microseconds:06d}S"
    if isinstance(value, Decimal | UUID):
        return str(value)
    return str.__str__(str(value))


def _not_finite(value: float) -> str:
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


class TookTooLong(PollerError):
    """The target did not finish within the relay's `timeout`. A failure and no outage: it may be down, but as well the
    batch, or one row of it, may take too long each time. The attempts are counted, in the state document; then the
    batch is divided, until the row that takes too long is alone.

    Args:
        place: which target. what: was to be taken, such as a batch. timeout: of the relay. said: by the driver.
    """

    def __init__(self, place: str, what: str, timeout: timedelta, said: str = "") -> None:
        super().__init__(
            f"{place} did not take {what} within {format_duration(timeout)}{said and f' ({said})'}.",
            next_step="If it always takes longer, raise the relay's `timeout`, or lower `batch_size`.",
        )


def retry_later(why: str, seconds: float | None = None) -> RetryLater:
    """An outage of the target: no row is at fault, and the batch comes again. To be raised.

    Args:
        why: what is down, without secrets. seconds: when the target itself wants to be tried again, if it says so; at
            most `LONGEST_PAUSE` are waited.
    """
    pause = USUAL_PAUSE if seconds is None or not math.isfinite(seconds) else min(max(seconds, 1.0), LONGEST_PAUSE)
    return RetryLater(why, timedelta(seconds=pause))
