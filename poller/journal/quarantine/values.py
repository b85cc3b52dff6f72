"""A row's values as JSON, and back.

Exactly as they were come back: None, truth values, integers, floats, text, bytes, decimals, dates, times, moments
(with their offset or zone), intervals, UUIDs, addresses of networks, marked texts of the database's, and lists, tuples
and objects of these. A `memoryview` comes back as bytes. Everything else (a range, a value of a type of the driver's or
your own) comes back as its text, and so does what its type does not distinguish: a subclass of these types.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from ipaddress import (
    IPv4Address,
    IPv4Interface,
    IPv4Network,
    IPv6Address,
    IPv6Interface,
    IPv6Network,
)
from typing import Any, NamedTuple
from uuid import UUID
from zoneinfo import ZoneInfo

from poller.ports import IntervalText, JsonText, Row

TEXT = "text"
"""The kind of a value that comes back as text."""
NESTED, DEEP, JSON = "nested", "deep", "json"
"""Kinds of lists and objects: with marked values inside; the same as a text of JSON, if it has many levels; a text
of JSON without marks."""
DEEPEST_VALUE = 40
"""Levels of lists and objects within one value, so that the record stays within `limits.DEEPEST`."""
_LARGEST_BITS = 325
"""Integers of more bits have more digits than `limits.LONGEST_INTEGER`, or nearly."""
_INTERVAL = re.compile(r"(-?\d{1,9})d (\d{1,5})\.(\d{6})s", re.ASCII)
_ZONED = re.compile(r"(.+)\[([\w+/-]{1,64})\]", re.ASCII)


class NotRecordable(Exception):
    """A value has no form in JSON; the message names its type, never the value."""


class _Kind(NamedTuple):
    name: str
    write: Callable[[Any], str]
    read: Callable[[str], Any]


def _moment(value: datetime) -> str:
    zone = getattr(value.tzinfo, "key", None)
    return f"{value.isoformat()}[{zone}]" if isinstance(zone, str) else value.isoformat()


def _moment_of(text: str) -> datetime:
    zoned = _ZONED.fullmatch(text)
    if zoned is None:
        return datetime.fromisoformat(text)
    moment = datetime.fromisoformat(zoned[1])
    try:
        return moment.astimezone(ZoneInfo(zoned[2]))
    except (LookupError, OSError, ValueError, OverflowError):  # this machine does not know the zone
        return moment


def _interval(value: timedelta) -> str:
    return f"{value.days}d {value.seconds}.{value.microseconds:06d}s"


def _interval_of(text: str) -> timedelta:
    parts = _INTERVAL.fullmatch(text)
    if parts is None:
        raise ValueError("not an interval")
    return timedelta(days=int(parts[1]), seconds=int(parts[2]), microseconds=int(parts[3]))


def _hex(value: bytes | bytearray | memoryview) -> str:
    return bytes(value).hex()


_KINDS: dict[type, _Kind] = {
    int: _Kind("integer", lambda value: f"{value:#x}", lambda text: int(text, 16)),
    float: _Kind("float", repr, float),
    str: _Kind(
        "utf-8",
        lambda value: value.encode("utf-8", "surrogatepass").hex(),
        lambda text: bytes.fromhex(text).decode("utf-8", "surrogatepass"),
    ),
    Decimal: _Kind("decimal", str, Decimal),
    bytes: _Kind("bytes", _hex, bytes.fromhex),
    memoryview: _Kind("bytes", _hex, bytes.fromhex),
    bytearray: _Kind("bytearray", _hex, bytearray.fromhex),
    datetime: _Kind("datetime", _moment, _moment_of),
    date: _Kind("date", date.isoformat, date.fromisoformat),
    time: _Kind("time", time.isoformat, time.fromisoformat),
    timedelta: _Kind("interval", _interval, _interval_of),
    UUID: _Kind("uuid", str, UUID),
    IPv4Address: _Kind("ipv4", str, IPv4Address),
    IPv6Address: _Kind("ipv6", str, IPv6Address),
    IPv4Interface: _Kind("ipv4-interface", str, IPv4Interface),
    IPv6Interface: _Kind("ipv6-interface", str, IPv6Interface),
    IPv4Network: _Kind("ipv4-network", str, IPv4Network),
    IPv6Network: _Kind("ipv6-network", str, IPv6Network),
}
_MARKED: dict[type, str] = {JsonText: "json-text", IntervalText: "interval-text"}
"""Texts of the database's; those that are not Unicode are not among them."""
_READERS: dict[str, Callable[[str], Any]] = {kind.name: kind.read for kind in _KINDS.values()} | {TEXT: str}
_READERS |= {name: marked for marked, name in _MARKED.items()}


def to_json(row: Row) -> tuple[dict[str, Any], dict[str, str]]:
    """The row's values as JSON has them, by column, and the kinds of those that JSON does not have.

    Raises: NotRecordable.
    """
    values: dict[str, Any] = {}
    kinds: dict[str, str] = {}
    for column, value in row.items():
        if not _is_unicode(column):
            raise NotRecordable("A column's name is not Unicode.")
        try:
            kind, values[column] = _written(value)
        except RecursionError:
            raise NotRecordable("A value is nested too deeply.") from None
        if kind is not None:
            kinds[column] = kind
    return values, kinds


def from_json(values: Mapping[str, Any], kinds: Mapping[str, str]) -> dict[str, Any]:
    """The row again. Raises: ValueError where a value is not of its kind, or a kind is not known; it quotes neither."""
    return {column: _read(kinds.get(column), value) for column, value in values.items()}


def _written(value: Any) -> tuple[str | None, Any]:
    if _is_json(value):
        return None, value
    if type(value) not in {list, tuple, dict}:
        return _scalar(value)
    try:
        if _is_plain(value, DEEPEST_VALUE):
            return None, value
        marked = _marked(value)
        return (NESTED, marked) if _levels_within(marked, DEEPEST_VALUE) else (DEEP, json.dumps(marked))
    except RecursionError:
        if not _all_json(value):
            raise
        return JSON, json.dumps(value)


def _is_json(value: Any) -> bool:
    """True if JSON has this scalar, exactly."""
    kind = type(value)
    if kind is str:
        return _is_unicode(value)
    if kind is int:
        return bool(value.bit_length() <= _LARGEST_BITS)
    if kind is float:
        return math.isfinite(value)
    return value is None or kind is bool


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _scalar(value: Any) -> tuple[str, str]:
    if type(value) in _MARKED:
        return _MARKED[type(value)], str(value)
    kind = _KINDS.get(type(value))
    if kind is not None and (kind.name not in {"datetime", "time"} or _keeps_its_zone(value)):
        return kind.name, kind.write(value)
    try:
        return TEXT, str.__str__(str(value)).encode("utf-8", "backslashreplace").decode()
    except Exception:  # noqa: BLE001 - a type of the driver's or the user's own
        raise NotRecordable(f"A value of type {type(value).__name__[:100]} has no text.") from None


def _keeps_its_zone(value: datetime | time) -> bool:
    """True if the text says all of it: not for a `tzinfo` of the user's own without an offset."""
    return value.tzinfo is None or value.utcoffset() is not None


def _is_plain(value: Any, levels: int) -> bool:
    """True if JSON has a list or an object exactly, with no more levels than these."""
    if type(value) is list:
        return levels > 0 and all(_is_plain(one, levels - 1) for one in value)
    if type(value) is dict:
        names = all(type(name) is str and _is_unicode(name) for name in value)
        return levels > 0 and names and all(_is_plain(one, levels - 1) for one in value.values())
    return _is_json(value)


def _marked(value: Any) -> Any:
    """What JSON does not have, as an object with one name, `$` and the kind."""
    if type(value) is list:
        return [_marked(one) for one in value]
    if type(value) is tuple:
        return {"$tuple": [_marked(one) for one in value]}
    if type(value) is dict:
        if all(type(name) is str and _is_unicode(name) and not name.startswith("$") for name in value):
            return {name: _marked(one) for name, one in value.items()}
        return {"$object": [[_marked(name), _marked(one)] for name, one in value.items()]}
    if _is_json(value):
        return value
    kind, text = _scalar(value)
    return {f"${kind}": text}


def _levels_within(value: Any, levels: int) -> bool:
    level = [value]
    for _ in range(levels + 1):
        inner = [one for one in level if isinstance(one, (dict, list))]
        if not inner:
            return True
        level = [each for one in inner for each in (one.values() if isinstance(one, dict) else one)]
    return False


def _all_json(value: Any) -> bool:
    """`_is_plain` for any number of levels, which a recursive function would not bear."""
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if type(one) is list:
            waiting.extend(one)
        elif type(one) is dict:
            if not all(type(name) is str and _is_unicode(name) for name in one):
                return False
            waiting.extend(one.values())
        elif not _is_json(one):
            return False
    return True


def _read(kind: str | None, value: Any) -> Any:
    try:
        if kind is None:
            return value
        if kind == NESTED:
            return _unmarked(value)
        if kind == DEEP:
            return _unmarked(json.loads(value))
        if kind == JSON:
            return json.loads(value)
        return _READERS[kind](_text(value))
    except (ValueError, TypeError, LookupError, ArithmeticError, RecursionError):
        raise ValueError("a value is not of its kind") from None


def _text(value: Any) -> str:
    if type(value) is not str:
        raise ValueError("not a text")
    return value


def _unmarked(value: Any) -> Any:
    if isinstance(value, list):
        return [_unmarked(one) for one in value]
    if not isinstance(value, dict):
        return value
    mark = next(iter(value), "")
    if len(value) != 1 or not mark.startswith("$"):
        return {name: _unmarked(one) for name, one in value.items()}
    inner = value[mark]
    if mark == "$tuple":
        return tuple(_unmarked(one) for one in inner)
    if mark == "$object":
        return {_unmarked(name): _unmarked(one) for name, one in inner}
    return _READERS[mark[1:]](_text(inner))
