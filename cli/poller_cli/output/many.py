"""What a screen of many pollers ends with: how many stand how, and which of them are the exception."""

from __future__ import annotations

from collections.abc import Mapping

MANY = 20
"""With more pollers than that, a block for each is too long to read."""
_NAMED = 5


def total(words: Mapping[str, str]) -> str:
    """One line; `words`: how each stands, by its name. Whatever most of them are is only counted."""
    having: dict[str, list[str]] = {}
    for name, word in words.items():
        having.setdefault(word, []).append(name)
    most, *others = sorted(having.items(), key=lambda one: -len(one[1]))
    parts = [f"{len(most[1]):,} {most[0]}"]
    for word, names in others:
        more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
        parts.append(f"{len(names):,} {word} ({', '.join(names[:_NAMED])}{more})")
    return f"{len(words):,} pollers: {'; '.join(parts)}"
