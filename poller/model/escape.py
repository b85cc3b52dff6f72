r"""Making text fit for an observer: a log, a terminal, a span, a line of JSON (security.md, "Documents, rows, errors").

Keys, names and errors come from rows and documents that others write. A line break in one would make a line of its own
in a log, ESC and C1 steer a terminal, bidi controls show another text than is there, and U+2028 ends a line in a
browser. So whatever is not printable is shown as Python writes it: `\n`, `\x1b`, `\u202e`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

LONGEST_VALUE = 300
"""At most so many characters of a value are shown."""
LONGEST_SENTENCE = 2_000
"""At most so many of what this library says itself: why, and what to do."""
_SENTENCES = frozenset({"error", "reason", "message"})


def escape(text: str) -> str:
    """The text in one line: what is not printable as Python writes it. What is done twice changes nothing more."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def escape_lines(text: str, prefix: str = "") -> str:
    """The same for a text of several lines, such as a traceback: its line feeds and tabs stay. `prefix`: what each of
    its lines begins with, so that none looks like somebody else's."""
    return "\n".join(prefix + "\t".join(map(escape, line.split("\t"))) for line in text.split("\n"))


def cut(value: str, limit: int = LONGEST_VALUE) -> str:
    """Its beginning, where it is longer than is shown."""
    return value if len(value) <= limit else value[: limit - 1] + "…"


def shown(value: str, limit: int = LONGEST_VALUE) -> str:
    """A value that others chose: escaped, and cut."""
    return cut(escape(value[: limit + 1]), limit)


def each_text(data: Any, shape: Callable[[str, int], str], limit: int = LONGEST_VALUE) -> Any:
    """A structure with each of its texts in another shape: `shown` for people, `cut` for JSON, which escapes itself."""
    if isinstance(data, str):
        return shape(data, limit)
    if isinstance(data, Mapping):
        return {
            shape(str(name), limit): each_text(value, shape, LONGEST_SENTENCE if name in _SENTENCES else limit)
            for name, value in data.items()
        }
    if isinstance(data, (list, tuple)):
        return [each_text(value, shape, limit) for value in data]
    return data
