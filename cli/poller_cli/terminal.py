"""Writing to people and to programs: one line per error on stderr, JSON alone on stdout, colours only where wanted."""

from __future__ import annotations

import json
import os
import shutil
import sys
import textwrap
from typing import IO, Any

from poller.model.redact import redact

_COLOURS = {"red": 31, "green": 32, "yellow": 33, "blue": 34, "dim": 2, "bold": 1}


def is_terminal(stream: IO[str]) -> bool:
    """Whether a person sees this stream."""
    try:
        return stream.isatty()
    except ValueError:  # closed
        return False


def coloured(text: str, colour: str, stream: IO[str]) -> str:
    """The text in a colour, where the stream is a terminal that wants colours (https://no-color.org)."""
    if not is_terminal(stream) or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return text
    return f"\x1b[{_COLOURS[colour]}m{text}\x1b[0m"


def printable(text: str, *, indent: str = "") -> str:
    """The text as one line, without anything that could steer a terminal."""
    flat = " ".join(part.strip() for part in text.splitlines() if part.strip())
    return indent + "".join(c if c.isprintable() else "?" for c in flat)


def folded(text: str, *, hang: int, stream: IO[str]) -> str:
    """A line as it is; on a terminal that is narrower, broken between words, with `hang` blanks before what follows.

    A word that is longer than a line stays whole, so that it can be copied.
    """
    width = shutil.get_terminal_size().columns
    if not is_terminal(stream) or len(text) <= width:
        return text
    first = text[: len(text) - len(text.lstrip(" "))]
    hang = min(hang, width // 3)
    return textwrap.fill(
        text.lstrip(" "),
        width,
        initial_indent=first,
        subsequent_indent=" " * hang,
        break_long_words=False,
        break_on_hyphens=False,
    )


def one_line(text: str) -> str:
    """An error's text as one line, without any known shape of a secret."""
    return printable(redact(text))


def complain(text: str) -> None:
    """One line on stderr, beginning with the program's name."""
    print(f"{coloured('poller:', 'red', sys.stderr)} {one_line(text)}", file=sys.stderr, flush=True)


def tell(text: str) -> None:
    """One line on stderr that is no error."""
    print(f"poller: {one_line(text)}", file=sys.stderr, flush=True)


def print_json(data: Any, stream: IO[str] | None = None, *, indent: int | None = 2) -> None:
    """One JSON document on stdout, or on one line with `indent=None`."""
    print(json.dumps(data, indent=indent, ensure_ascii=False), file=stream or sys.stdout, flush=True)


def claim_stdout() -> IO[str]:
    """Keep stdout for JSON alone: returns a stream onto it, and sends everything else that is written there (a
    handler's `print`, a program it starts) to stderr."""
    sys.stdout.flush()
    try:
        mine: IO[str] = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8", errors="backslashreplace")
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    except (OSError, ValueError):  # not a real file, as under a test runner
        mine = sys.stdout
    sys.stdout = sys.stderr
    return mine
