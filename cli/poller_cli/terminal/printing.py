"""Writing to people and to programs: one line per error on stderr, JSON alone on stdout, colours only where wanted."""

from __future__ import annotations

import errno
import io
import json
import os
import re
import shlex
import sys
import traceback
from collections.abc import Callable
from functools import partial
from typing import IO, TYPE_CHECKING, Any

from poller.model.escape import cut, escape, escape_lines
from poller.model.redact import redact
from poller_cli.terminal.layout import columns, is_terminal, wrapped

if TYPE_CHECKING:
    from pydantic import BaseModel

LONGEST_LINE = 5_000
"""The most characters of an error that are shown."""
_COLOURS = {"red": 31, "green": 32, "yellow": 33, "blue": 34, "dim": 2, "bold": 1}


class ClosedStdout(io.TextIOBase):
    """Stands where a process was started with its stdout closed (`>&-`): what is printed there is not lost silently."""

    def write(self, _: str) -> int:
        """Raises: OSError, always."""
        raise OSError(errno.EBADF, "it is closed")

    def flush(self) -> None:
        """Raises: OSError, always."""
        raise OSError(errno.EBADF, "it is closed")


def _nowhere() -> IO[str]:
    return os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", encoding="utf-8")


def fix_streams() -> None:
    """For a process that was started with some of its three streams closed: another file that it opens must not get
    their numbers, or what is printed would be written into it. And for one whose stdout is not UTF-8."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)
    if sys.stderr is None:
        sys.stderr = _nowhere()
    if sys.stdout is None:
        sys.stdout = ClosedStdout()
    if isinstance(sys.stdout, io.TextIOWrapper):  # what its encoding cannot hold is no reason to end
        sys.stdout.reconfigure(errors="backslashreplace")


def do_without_stdout() -> None:
    """For a command that prints nothing there: a closed one is not an error, and what a handler prints is lost."""
    if isinstance(sys.stdout, ClosedStdout):
        sys.stdout = _nowhere()


_UNWRITTEN = frozenset({errno.EBADF, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})


def fault_of_stdout(error: Exception) -> str | None:
    """Why what was printed on stdout did not get there, where `error` says that. Nothing more is then written there.
    Code that writes to a file of its own reports its faults itself, with the file's name."""
    if not isinstance(error, OSError) or error.filename is not None or error.errno not in _UNWRITTEN:
        return None
    sys.stdout = None  # flushing at exit would fail again
    return error.strerror or str(error)


def coloured(text: str, colour: str, stream: IO[str]) -> str:
    """The text in a colour, if the stream is a terminal that wants colours (https://no-color.org)."""
    if not is_terminal(stream) or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return text
    return f"\x1b[{_COLOURS[colour]}m{text}\x1b[0m"


def printable(text: str, *, indent: str = "") -> str:
    """The text as one line, without anything that could steer a terminal."""
    flat = " ".join(part.strip() for part in text.splitlines() if part.strip())
    return indent + escape(flat)


def folded(text: str, *, hang: int, stream: IO[str]) -> str:
    """A line as it is; on a terminal that is narrower, broken between words, with `hang` blanks before what follows.

    A word that is longer than a line stays whole, so that it can be copied.
    """
    width = columns(stream)
    return "\n".join(wrapped(text, width, hang=hang if width is None else min(hang, width // 3)))


def one_line(text: str) -> str:
    """An error's text as one line, without any known shape of a secret."""
    return cut(printable(redact(text)), LONGEST_LINE)


def of_poller(name: str, text: str) -> str:
    """A message about a poller. A text that begins with its table's name says so where both are called alike."""
    return f"{name}: table {text}" if text.startswith(f"{name}: ") else f"{name}: {text}"


_COMMAND = re.compile(
    r"\bpoller (?=(?:run|status|watch|health|check|peek|history|dashboard|pause|cancel|resume|reset|undo|checkpoint|"
    r"rebind|recheck|backfill|dispatch|init|quarantine|capture|prune)\b|(?:clone|export)-)"
)
_options = ""


def copy_with(*options: str) -> None:
    """The commands that an error names are to be copied with these options, in the whole process."""
    global _options
    _options = "".join(f"{one} " for one in map(shlex.quote, options))


def copyable(text: str) -> str:
    """The text with this process's options in the commands that it names."""
    return _COMMAND.sub(lambda found: found[0] + _options, text)


_said_as: Callable[[str, str], str] | None = None


def say_as(form: Callable[[str, str], str] | None) -> None:
    """What goes to stderr has this form from now on, made of a level and a text; None: lines for people."""
    global _said_as
    _said_as = form


def to_stderr(line: str) -> None:
    """Write a line in one piece: `print` writes its end separately, and another thread's line would come between.

    Raises: OSError, ValueError: its reader is gone.
    """
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def form_of_signals() -> Callable[[str], str]:
    """The form of what a signal handler says, which writes it itself."""
    form = _said_as
    return "poller: {}".format if form is None else partial(form, "WARNING")


def _said(level: str, text: str) -> bool:
    """True if it was said in another form."""
    if _said_as is None:
        return False
    to_stderr(_said_as(level, text))
    return True


def complain(text: str) -> None:
    """One line on stderr, beginning with the program's name."""
    if _said("ERROR", one_line(copyable(text))):
        return
    lines = folded(f"poller: {one_line(copyable(text))}", hang=8, stream=sys.stderr)
    to_stderr(lines.replace("poller:", coloured("poller:", "red", sys.stderr), 1))


def show_trace(of: BaseException | str) -> None:
    """An error's traceback on stderr, for `--debug`, secrets removed; or one that was kept as text."""
    trace = of if isinstance(of, str) else "".join(traceback.format_exception(of))
    if _said("ERROR", escape_lines(redact(trace))):
        return
    to_stderr(escape_lines(redact(trace)).removesuffix("\n"))


def notice(text: str) -> None:
    """One line on stderr that is not an error."""
    if _said("INFO", one_line(copyable(text))):
        return
    to_stderr(folded(f"poller: {one_line(copyable(text))}", hang=8, stream=sys.stderr))


def json_text(data: BaseModel | dict[str, Any], *, indent: int | None = 2) -> str:
    """JSON in printable ASCII, whatever its texts hold."""
    return json.dumps(data if isinstance(data, dict) else data.model_dump(mode="json"), indent=indent)


def print_json(data: BaseModel | dict[str, Any], stream: IO[str] | None = None, *, indent: int | None = 2) -> None:
    """One JSON document on stdout, or on one line with `indent=None`."""
    print(json_text(data, indent=indent), file=stream or sys.stdout, flush=True)


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
