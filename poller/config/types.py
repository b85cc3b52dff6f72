"""The kinds of values that are in `poller.toml`: durations, names, schedules. None repeats its input in an error,
because the input may have come out of a setting and be secret."""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta
from functools import lru_cache
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, WithJsonSchema
from pydantic_core import PydanticCustomError

from poller.model.durations import TooLong, format_duration, parse_duration
from poller.model.schedule import Schedule

NAME_PATTERN = r"^[a-z0-9][a-z0-9-]{0,62}$"
"""What names of apps and pollers look like: they are parts of blob names (design, "The state document")."""

_HANDLER = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")
_NAME = re.compile(NAME_PATTERN[1:-1])


def _duration(value: Any) -> timedelta:
    if isinstance(value, (str, timedelta)):
        try:
            return parse_duration(value)
        except TooLong as error:
            raise PydanticCustomError("duration", "{reason}", {"reason": str(error)}) from None
        except ValueError:
            pass
    raise PydanticCustomError("duration", 'is not a duration; write it like "750ms", "15s", "4m30s" or "2h"')


_LARGEST_SIZE = 1000 * 1000**3
_UNITS = {"B": 1, "KB": 1000, "MB": 1000**2, "GB": 1000**3}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)(B|KB|MB|GB)", re.ASCII)


def _size(value: Any) -> int:
    found = _SIZE.fullmatch(value) if isinstance(value, str) else None
    if found is not None:
        value = int(float(found[1]) * _UNITS[found[2]])
    if type(value) is not int:
        raise PydanticCustomError("size", 'is not a size; write it like "750KB", "8MB" or "1GB"')
    if not 0 < value <= _LARGEST_SIZE:
        raise PydanticCustomError("size", "must be greater than 0 and at most 1000GB")
    return value


def size_text(value: int) -> str:
    """As it is written in a file."""
    unit = next((unit for unit in ("GB", "MB", "KB") if value % _UNITS[unit] == 0), "B")
    return f"{value // _UNITS[unit]}{unit}"


def _longer_than_nothing(value: timedelta) -> timedelta:
    if value <= timedelta(0):
        raise PydanticCustomError("duration", "must be greater than 0")
    return value


def is_name(value: object) -> bool:
    """True if it may be the name of an app or a poller."""
    return isinstance(value, str) and _NAME.fullmatch(value) is not None


def _name(value: Any) -> str:
    if is_name(value):
        return str(value)
    raise PydanticCustomError(
        "name", "is not a valid name: 1 to 63 lower-case letters, digits and hyphens, beginning with a letter or digit"
    )


_QUEUE = re.compile(r"[a-z0-9](?:-?[a-z0-9])+", re.ASCII)
LONGEST_QUEUE = 56
"""The queue of what failed has seven letters more, and Azure allows 63."""


QUEUE_RULE = f"3 to {LONGEST_QUEUE} lower-case letters, digits and single hyphens, none at either end"


def is_queue(value: object) -> bool:
    """True if it may be the name of a queue of Azure Storage, and that of its poison queue too."""
    return isinstance(value, str) and 3 <= len(value) <= LONGEST_QUEUE and _QUEUE.fullmatch(value) is not None


def _queue(value: Any) -> str:
    if is_queue(value):
        return str(value)
    raise PydanticCustomError("queue", "{reason}", {"reason": f"is not the name of a queue: {QUEUE_RULE}"})


def _handler(value: Any) -> str:
    if isinstance(value, str) and _HANDLER.fullmatch(value):
        return value
    raise PydanticCustomError("handler", 'must be "module:function"')


def _schedule(value: Any) -> str:
    if not isinstance(value, str):
        raise PydanticCustomError("schedule", 'must be a text of six fields, such as "*/10 * * * * *"')
    try:
        _parsed_schedule(value)
    except ValueError as error:
        raise PydanticCustomError("schedule", "{reason}", {"reason": str(error)}) from error
    return value


@lru_cache(maxsize=256)  # a thousand pollers have a few schedules
def _parsed_schedule(text: str) -> Schedule:
    return Schedule(text)


def _start_from(value: Any) -> Any:
    if isinstance(value, str) and not value.strip():
        raise PydanticCustomError("start_from", 'is empty; write "beginning", "now" or a value')
    if isinstance(value, bool) or not isinstance(value, str | int | date):
        raise PydanticCustomError("start_from", "must be a text, a number or a date")
    return value


def _environment(value: str) -> str:
    if value != "production" and value.strip().lower().startswith("prod"):
        raise PydanticCustomError("environment", 'is almost "production"; write it exactly so, or another word')
    return value


Duration = Annotated[
    timedelta,
    BeforeValidator(_duration),
    PlainSerializer(format_duration, return_type=str, when_used="json"),
    WithJsonSchema(
        {"type": "string", "pattern": r"^(\d+(\.\d+)?(ms|[dhms]))+$", "examples": ["750ms", "15s", "4m30s", "2h"]}
    ),
]
"""A span of time, zero allowed; `"4m30s"` or a timedelta."""

Size = Annotated[
    int,
    BeforeValidator(_size),
    PlainSerializer(size_text, return_type=str, when_used="json"),
    WithJsonSchema({"type": "string", "pattern": r"^\d+(\.\d+)?(B|KB|MB|GB)$", "examples": ["750KB", "8MB"]}),
]
"""A number of bytes greater than 0: `"8MB"` (a thousand thousands each) or an int."""

PositiveDuration = Annotated[Duration, AfterValidator(_longer_than_nothing)]
"""A span of time greater than 0."""

Name = Annotated[str, BeforeValidator(_name), WithJsonSchema({"type": "string", "pattern": NAME_PATTERN})]
"""A name of an app or a poller."""

QueueName = Annotated[str, BeforeValidator(_queue), WithJsonSchema({"type": "string", "maxLength": LONGEST_QUEUE})]
"""A queue of Azure Storage."""

HandlerName = Annotated[
    str, BeforeValidator(_handler), WithJsonSchema({"type": "string", "examples": ["handlers:on_orders"]})
]
"""A function, as `module:function`."""

ScheduleText = Annotated[
    str, BeforeValidator(_schedule), WithJsonSchema({"type": "string", "examples": ["*/10 * * * * *"]})
]
"""An NCRONTAB expression of six fields, in UTC."""

BoundChoice: TypeAlias = Literal["auto", "exact", "strict", "delay", "none"]
"""How rows that commit late are waited for."""

StartFrom = Annotated[Annotated[str, Field(min_length=1)] | int | datetime | date, BeforeValidator(_start_from)]
"""Where a source starts: `beginning`, `now`, or a value of the cursor column."""

Environment = Annotated[str, AfterValidator(_environment)]
"""Where this runs; only `production` has a meaning."""
