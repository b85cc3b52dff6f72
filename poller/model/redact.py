"""Making an error's text fit to be stored and shown: one line, bounded, without secrets (protocol 9).

What a handler raises may quote anything. Known shapes of secrets are cut out; what the shape does not tell cannot be
known, which is why `error_text = false` exists.
"""

from __future__ import annotations

import re

LIMIT = 300
"""At most so many characters are kept."""

_NAMES = (
    r"account[_-]?key|shared[_-]?access[_-]?(?:key|signature)|password|passwd|pwd|secret|token|api[_-]?key|"
    r"access[_-]?key|authorization"
)
_VALUE = r"(?:\"[^\"]*\"|'[^']*'|\{[^}]*\}|(?:bearer |basic )?[^\s;&]+)"
_SHAPES = (
    (re.compile(r"(?<=://)[^\s/@:]*:[^\s/]*@"), "***@"),
    # NAME=value, name: value, 'name': 'value', X-Name: value; what a separator ends is the least that is cut out.
    (re.compile(rf"(?i)(\b(?:[\w-]*(?:{_NAMES})|sig)[\"']?(?:\s*[=:]\s*|%3D)){_VALUE}"), r"\1***"),
    (re.compile(r"(?i)\b(bearer|basic)\s+[a-z0-9._~+/=-]{8,}"), r"\1 ***"),
    (re.compile(r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*"), "***"),
    (re.compile(r"(?<![A-Za-z0-9+/])[A-Za-z0-9+/]{86}=="), "***"),
)


def redact(text: str) -> str:
    """The text with every known shape of secret replaced by `***`: passwords in URLs, keys and signatures of
    connection strings, bearer tokens, storage account keys.

    Names of files may hold what no UTF-8 can say (lone surrogates); what is stored and logged is UTF-8.
    """
    for shape, instead in _SHAPES:
        text = shape.sub(instead, text)
    return text.encode("utf-8", "replace").decode()


def first_line(text: str, limit: int = LIMIT) -> str:
    """The first non-empty line, redacted and bounded."""
    line = next((part.strip() for part in text.splitlines() if part.strip()), "")
    line = redact(line)
    return line if len(line) <= limit else line[: limit - 1] + "…"


def error_line(error: BaseException) -> str:
    """What an error says, as `first_line`; empty where it fails even at that."""
    try:
        return first_line(str(error))
    except Exception:  # noqa: BLE001 - an exception's own __str__ may raise anything
        return ""
