"""Into which folder of a container a row goes: a pure function of the row."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from typing import Any

OF_POLLER = ("app", "poller")
OF_DATE = {"date": "%Y-%m-%d", "year": "%Y", "month": "%m", "day": "%d", "hour": "%H"}
NO_DATE = "__HIVE_DEFAULT_PARTITION__"
"""Where a row has no date in its column: what readers of partitions take for NULL."""
_PLACE = re.compile(r"\{([^{}]*)\}")
_REST = re.compile(r"[A-Za-z0-9][\w=.-]*(?:/[A-Za-z0-9][\w=.-]*)*", re.ASCII)


def placeholders(path: str) -> set[str]:
    """The names in braces."""
    return set(_PLACE.findall(path))


def fault(path: str) -> str | None:
    """What is wrong with a path, as a predicate; None: nothing."""
    known = (*OF_POLLER, *OF_DATE)
    unknown = sorted(placeholders(path) - {*known})
    if unknown:
        return f"has {{{unknown[0]}}}; there are: {', '.join(f'{{{name}}}' for name in known)}"
    if _REST.fullmatch(_PLACE.sub("x", path)) is None or ".." in path:
        return 'must be folders such as "{poller}/{date}": letters, digits, "-", "_", "=" and "." between slashes'
    return None


def folder(path: str, *, app: str, poller: str, value: Any = None) -> str:
    """The folder of a row. `value`: what is in its date column; a moment counts in UTC, one without a zone as it
    is."""
    moment = _moment(value) if placeholders(path) & {*OF_DATE} else None
    words = {"app": app, "poller": poller}
    words.update({name: _written(moment, form) if moment else NO_DATE for name, form in OF_DATE.items()})
    return path.format(**words)


def _written(moment: datetime, form: str) -> str:
    """By `strftime`, which on some systems writes years below 1000 with fewer digits."""
    return moment.strftime(form.replace("%Y", f"{moment.year:04}"))


def _moment(value: Any) -> datetime | None:
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            return None
    if isinstance(value, datetime):
        try:
            return value.astimezone(UTC) if value.tzinfo is not None else value
        except OverflowError:  # at either end of the calendar
            return value
    if isinstance(value, date):
        return datetime(value.year, value.month, value.day, tzinfo=UTC)
    return None
