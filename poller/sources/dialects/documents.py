"""Parsed JSON that can be given away once more: with its text, of which parsing makes another copy in less time than
copying does."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any


class Documents:
    """The lists and objects of one result that came as JSON.

    Args:
        parse: what a text means; it has parsed each of them before.
    """

    def __init__(self, parse: Callable[[bytes], Any] | None = None) -> None:
        self._parse = parse
        self._kept: list[Any] = []  # their ids are theirs as long as they are there
        self._untaken: dict[int, bytes] = {}
        self._taken: dict[int, bytes] = {}

    def add(self, value: Any, text: bytes) -> None:
        """It was parsed just now."""
        self._kept.append(value)
        self._untaken[id(value)] = text

    def join(self, others: Documents) -> None:
        """With those of another result, which nobody has taken yet."""
        self._parse = self._parse or others._parse
        self._kept += others._kept
        self._untaken |= others._untaken

    def take(self, value: Any) -> Any:
        """A value that the caller may change: this one, where it is a document that was not taken before; else another
        one of the same text, and of what is no document a copy."""
        place = id(value)
        text = self._untaken.pop(place, None)
        if text is not None:
            self._taken[place] = text
            return value
        text = self._taken.get(place)
        return deepcopy(value) if text is None or self._parse is None else self._parse(text)
