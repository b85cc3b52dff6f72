"""What a screen of many pollers ends with: how many stand how, and which of them are the exception."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

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
        parts.append(f"{len(names):,} {word} ({some(names)})")
    return f"{len(words):,} pollers: {'; '.join(parts)}"


def some(names: Sequence[str]) -> str:
    """The first of these names, and how many more there are."""
    more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more
