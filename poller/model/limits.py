"""How large a state document and its parts may be, and JSON read within such limits (security.md, "Documents, rows,
errors").

Others may be able to write the container. What is within these limits can be processed, shown and written back without
a RecursionError, a MemoryError or an OverflowError.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

LARGEST_BODY = 1024 * 1024
"""Bytes of a document. Stores read at most one byte more, so that the caller sees that it is too large."""
HELD_EVERYWHERE = LARGEST_BODY - 8 * 1024
"""Bytes of a document that every store holds: an entity of Table Storage has 1 MiB with its keys and names."""
MOST_VALUES = 400_000
"""Values of a JSON text: objects, lists and what is in them. An empty list takes 64 bytes of memory and three of a
document. No text of `LARGEST_BODY` bytes that this library writes has as many."""
LONGEST_LINE = 16 * 1024
"""Characters of a trail's line that are read; its writer shortens a longer record."""
LARGEST_TRAIL = 4 * 1024 * 1024
"""Characters of a trail that are read at once: its newest lines."""
HIGHEST_COUNT = 2**53
"""The highest fencing token, generation or number of attempts: beyond it JSON numbers are not exact everywhere."""
HIGHEST_TOKEN = HIGHEST_COUNT // 2
"""The highest token or generation that may be typed, or read from a file or a trail: a document's must be able to grow
from there."""
LONGEST_NAME = 1024
"""Characters of a name: a poller's, an owner's, a batch's, an operator's, of a kind of change or of error."""
LONGEST_REASON = 4096
"""Characters of a reason or message."""
LONGEST_CURSOR = 100_000
"""Bytes of a cursor with its key: the document holds it up to five times, and each record of a change does."""
DEEPEST = 64
"""The most levels of objects and lists."""
LONGEST_INTEGER = 100
"""Digits of an integer. Keys are integers of up to 64 bits (Oracle: 38 digits), so they may exceed 2^53; this library's
own counts may not (`HIGHEST_COUNT`)."""


class NotBoundedJson(ValueError):
    """The text is not JSON, or exceeds the limits; the message does not quote it."""


def read_json(body: bytes, largest: int = LARGEST_BODY) -> Any:
    """Parse JSON.

    Raises: NotBoundedJson for more than `largest` bytes, `MOST_VALUES` values, `DEEPEST` levels or `LONGEST_INTEGER`
    digits; for a name that occurs twice in one object, numbers that are not finite and halves of surrogate pairs, which
    could not be written back unchanged; and for other text than JSON.
    """
    if len(body) > largest:
        raise NotBoundedJson(f"is larger than {largest:,} bytes")
    if values_of(body) > MOST_VALUES:
        raise NotBoundedJson(f"holds more than {MOST_VALUES:,} values")
    try:
        data = json.loads(
            body,
            object_pairs_hook=_object,
            parse_int=_integer,
            parse_float=_number,
            parse_constant=_constant,
        )
        if _deeper_than(data, DEEPEST):
            raise NotBoundedJson(f"is nested deeper than {DEEPEST} levels")
        json.dumps(data, ensure_ascii=False).encode()
    except NotBoundedJson:
        raise
    except RecursionError:
        raise NotBoundedJson(f"is nested deeper than {DEEPEST} levels") from None
    except ValueError:  # its message quotes the text
        raise NotBoundedJson("is not JSON") from None
    return data


_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)', re.DOTALL)
"""One without an end goes to the end of the text: else each quote in it would be searched for an end once more."""


def values_of(body: bytes) -> int:
    """The number of values that a JSON text has at most: text in it counts only where there would be too many."""
    found = _values(body)
    return found if found <= MOST_VALUES else _values(_STRING.sub(b"", body))


def _values(text: bytes) -> int:
    """The number of values that a JSON text has at most: each but the first follows one of these."""
    return 1 + text.count(b",") + text.count(b"[") + text.count(b"{")


def newest_lines(newest_first: Iterable[str], limit: int | None) -> list[str]:
    """What is read of a log, oldest first. With a limit, of a trail that people may look at: each line up to
    `LONGEST_LINE`, and the newest up to `LARGEST_TRAIL`. Without one each line up to `LARGEST_BODY`."""
    found: list[str] = []
    left = LARGEST_TRAIL
    longest = longest_line(limit)
    if limit == 0:
        return found
    for line in newest_first:
        found.append(line[:longest])
        left -= len(found[-1])
        if limit is not None and (len(found) == limit or left <= 0):
            break
    return found[::-1]


def longest_line(limit: int | None) -> int:
    """The most characters of a line that are read."""
    return LARGEST_BODY if limit is None else LONGEST_LINE


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise NotBoundedJson("names a field twice in one object")
    return found


def _integer(text: str) -> int:
    if len(text) > LONGEST_INTEGER:
        raise NotBoundedJson(f"holds an integer of more than {LONGEST_INTEGER} digits")
    return int(text)


def _number(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise NotBoundedJson("holds a number that is not finite")
    return value


def _constant(_text: str) -> float:
    raise NotBoundedJson("holds a number that is not finite")


def _deeper_than(data: Any, levels: int) -> bool:
    """Level by level: a recursive function would exceed Python's stack."""
    level = [data]
    for _ in range(levels + 1):
        inner = [one for one in level if isinstance(one, (dict, list))]
        if not inner:
            return False
        level = [each for one in inner for each in (one.values() if isinstance(one, dict) else one)]
    return True
