"""The server's clock, as its answers show it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from poller.model.when import in_utc

_PLAUSIBLE = (2000, 9000)
"""The years in which a server's time may lie."""


def header_time(headers: Mapping[str, str], header: str) -> datetime | None:
    """The time in a header; None if there is none."""
    try:
        return plausible(parsedate_to_datetime(headers[header]))
    except (KeyError, ValueError, TypeError, IndexError, OverflowError):
        return None


def plausible(value: object) -> datetime | None:
    """A time in UTC ("-0000" means UTC too, but has no zone in Python); None if it is not a time, or an implausible
    one, as of a proxy without a clock: with it no lease would expire, or sums would overflow."""
    if not isinstance(value, datetime):
        return None
    at = in_utc(value if value.tzinfo is not None else value.replace(tzinfo=UTC))
    return at if _PLAUSIBLE[0] <= at.year <= _PLAUSIBLE[1] else None
