"""Fitting text into a terminal's width: lines break between words, long names lose their middle, tables keep columns.

What goes to a file or a program is not fitted: there a line is as long as what it says.
"""

from __future__ import annotations

import re
import shutil
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import IO

ELLIPSIS = "…"
_WORD = re.compile(
    r"( *)("
    r"\d{4}-\d\d-\d\d \d\d:\d\d:\S+"  # a moment
    r"|(?:\d\S* (?:ms|s|min|h|d)\b[^ \d]* ?)+(?<! )(?:(?<=[a-z]) ago\b\S*)?"  # an age
    r"|\S+)"
)
_QUOTED = re.compile(r"""'[^']{,60}'|"[^"]{,60}\"""")
_BLANK = "\x00"
"""Stands for a non-breaking space."""
GAP = 2
"""Blanks between the columns of a table."""


def columns(stream: IO[str]) -> int | None:
    """How wide a line may be; None: as wide as it likes, since no person sees the stream."""
    return shutil.get_terminal_size().columns if is_terminal(stream) else None


def is_terminal(stream: IO[str]) -> bool:
    """True if a person sees this stream."""
    try:
        return stream.isatty()
    except ValueError:  # closed
        return False


def cells(text: str) -> int:
    """The number of columns that a text takes on a terminal."""
    if text.isascii():
        return len(text)
    wide = sum(unicodedata.east_asian_width(one) in "WF" for one in text)
    return len(text) + wide - sum(unicodedata.combining(one) > 0 for one in text)


def wrapped(text: str, width: int | None, *, hang: int = 0, statement: bool = False) -> list[str]:
    """The text in lines that break at blanks, with `hang` blanks before those that follow. A word that is longer than a
    line stays whole, so that it can be copied, and stands as far to the left as it must. `statement`: a quoted text is
    a word, since a line break in it would be part of the value."""
    if width is None or cells(text) <= width:
        return [text]
    if statement:
        whole = _QUOTED.sub(lambda found: found[0].replace(" ", _BLANK), text)
        return [line.replace(_BLANK, " ") for line in wrapped(whole, width, hang=hang)]
    first = text[: len(text) - len(text.lstrip(" "))]
    lines, line = list[str](), first
    for gap, word in _words(text[len(first) :]):
        if not line.strip():
            line += word
        elif cells(line) + len(gap) + cells(word) <= width:
            line += gap + word
        else:
            lines.append(line)
            line = " " * min(hang, max(0, width - cells(word))) + word
    return [*lines, line]


def fitted(text: str, stream: IO[str], *, hang: int = 2) -> str:
    """Lines that may hold commands and statements, each as the stream's terminal has room for it."""
    width = columns(stream)
    return "\n".join(part for line in text.split("\n") for part in wrapped(line, width, hang=hang, statement=True))


def _words(text: str) -> Iterator[tuple[str, str]]:
    """Each with the blanks before it; a number and its unit are one, and a moment is."""
    for found in _WORD.finditer(text):
        yield found[1], found[2]


def shortened(text: str, width: int, *, head: int | None = None) -> str:
    """The text without its middle where it is longer than `width`; `head`: so many columns of its beginning stay."""
    if cells(text) <= width:
        return text
    if width <= 1:
        return ELLIPSIS[:width]
    kept = (width - 1) // 2 if head is None else min(head, width - 1)
    end = _fill(text[::-1], width - 1 - kept)[::-1]
    return _fill(text, kept) + ELLIPSIS + end


def _fill(text: str, width: int) -> str:
    """As many of its characters as so many columns hold: a wide one takes two."""
    used = 0
    for place, one in enumerate(text):
        used += cells(one)
        if used > width:
            return text[:place]
    return text


def distinct(names: Sequence[str], width: int) -> list[str] | None:
    """Names, shortened to `width` so that different ones stay different; None if they cannot."""
    for head in (None, width * 3 // 4, width // 4, 0, width - 1):
        short = [shortened(name, width, head=head) for name in names]
        if len(set(short)) == len(set(names)):
            return short
    return None


def clipped(text: str, width: int | None) -> str:
    """The text, or as many of its whole words as fit, and an ellipsis; where none fits, the ends of the first."""
    if width is None or cells(text) <= width:
        return text
    kept = ""
    for gap, word in _words(text):
        if cells(kept) + len(gap) + cells(word) + 2 > width:
            break
        kept += gap + word
    if kept:
        return f"{kept.rstrip(',;:')} {ELLIPSIS}"
    first = next((word for _, word in _words(text)), "")
    return shortened(first.rstrip(",;:"), width)


@dataclass(frozen=True, slots=True)
class Column:
    """The column of a table. `right`: its texts are figures, which are aligned to the right."""

    head: str
    right: bool = False


def widths_of(table: Sequence[Column], rows: Iterable[Sequence[str]]) -> list[int]:
    """What each column needs."""
    needed = [cells(column.head) for column in table]
    for row in rows:
        needed = [max(width, cells(cell)) for width, cell in zip(needed, row, strict=True)]
    return needed


def padded(table: Sequence[Column], widths: Sequence[int], row: Sequence[str]) -> str:
    """A row, each cell in its column; the last one as it is."""
    parts = []
    for column, width, cell in zip(table, widths, row, strict=True):
        blanks = " " * max(0, width - cells(cell))
        parts.append(blanks + cell if column.right else cell + blanks)
    return (" " * GAP).join(parts).rstrip()
