r"""Making text safe to show: in a log, a terminal, a span, a line of JSON (security.md, "Documents, rows, errors").

Keys, names and errors come from rows and documents that others write. A line break would start a new line in a log,
ESC and C1 control a terminal, bidi controls change the displayed text, and U+2028 ends a line in a browser. So
unprintable characters are shown as Python writes them: `\n`, `\x1b`, `\u202e`.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Mapping
from typing import Any

LONGEST_VALUE = 300
"""The most characters of a value that are shown."""
LONGEST_SENTENCE = 2_000
"""The most characters of this library's own messages that are shown."""
_SENTENCES = frozenset({"error", "reason", "message", "sentence"})


def escape(text: str) -> str:
    """The text in one line, unprintable characters as Python writes them. Idempotent."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


_BLANK = frozenset("\u115f\u1160\u2800\u3164\uffa0")
"""Characters that are printable to Python and shown as nothing."""


def is_visible(text: str) -> bool:
    """True if a person sees any of it: not only spaces, zero-width and other invisible characters, or marks without a
    letter."""
    return any(
        c.isprintable() and not c.isspace() and c not in _BLANK and not unicodedata.category(c).startswith("M")
        for c in text
    )


def escape_lines(text: str, prefix: str = "") -> str:
    """The same for a text of several lines, such as a traceback: its line feeds and tabs stay. `prefix`: before each
    line, so that none looks like another record."""
    return "\n".join(prefix + "\t".join(map(escape, line.split("\t"))) for line in text.split("\n"))


def cut(value: str, limit: int = LONGEST_VALUE) -> str:
    """The value, cut to `limit` characters."""
    return value if len(value) <= limit else value[: limit - 1] + "…"


def shown(value: str, limit: int = LONGEST_VALUE) -> str:
    """A value from outside: escaped, and cut."""
    return cut(escape(value[: limit + 1]), limit)


def each_text(data: Any, shape: Callable[[str, int], str], limit: int = LONGEST_VALUE) -> Any:
    """A structure with `shape` applied to each of its texts: `shown` for people, `cut` for JSON, which is escaped."""
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
