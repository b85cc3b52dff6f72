"""What the console shows, for docs/cli.md: `make docs` renders it, of a prepared shop at a moment that is given.

`python -m scripts.captures demo` runs `poller demo` on two terminals and keeps what they showed: it takes a minute, and
is never twice the same, so that `make docs` leaves those pictures alone.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pexpect
from rich.console import Console
from rich.text import Text

from poller_cli.main import execute
from poller_cli.output.watch_loop import screen
from poller_cli.session import Session
from scripts import captures_scene as scene

PAGE = Path("docs") / "cli.md"
IMAGES = Path("docs") / "images"
NARROW, WIDE = 80, 200
COMMANDS = {"status": ("status",), "one": ("status", "invoices"), "check": ("check",), "help": ("--help",)}
"""By the name of their pictures."""
_LINES = 40
_FONTS = re.compile(r"\s*@font-face \{.*?\}", re.DOTALL)

_TEXT = """\
## What the commands print

Of a shop with seven pollers, at 80 columns. Every screen answers in this order: does it work, is it behind, why, and
what to do next. Lines break between words; long names lose their middle. In a pipe or a file nothing is fitted: a line
is as long as what it says.

### Several pollers

A line for each, the worst first. The last column is who works, or why no worker does.

```text
{status}
```

The same [at 200 columns](images/console-status-200.svg).

### One poller

`-v` adds its cursor, lease, bound and document.

```text
{one}
```

The same [at 200 columns](images/console-one-200.svg).

### Live

![poller watch: three pollers with bars for lag and rows per second](images/console.svg)

The same [at 200 columns](images/console-watch-200.svg). `q` quits, `p` pauses and `r` resumes the chosen poller.

### What is wrong, and what fixes it

What is well is one line; `-v` shows each finding.

```text
{check}
```

The same [at 200 columns](images/console-check-200.svg).

### All commands

```text
{help}
```

The same [at 200 columns](images/console-help-200.svg).

### The demo

`poller demo` takes half a minute and is never twice the same: this is one of its runs, at 80 columns and
[at 200](images/console-demo-200.svg).

![poller demo: one of two workers is killed, and nothing is lost](images/console-demo-80.svg)
"""


class _Screen(io.StringIO):
    """A stream that a person sees."""

    def isatty(self) -> bool:
        return True


class _Shop:
    """Stands for the configured application."""

    app_name = scene.APP
    config = SimpleNamespace(functions=SimpleNamespace(mode="timers"))

    def __enter__(self) -> _Shop:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def status(self, names: Sequence[str] | None) -> Any:
        return scene.survey(names)

    def check(self, names: Sequence[str] | None, *, latency: object = None) -> Any:  # noqa: ARG002
        return scene.checked(names)


@contextlib.contextmanager
def _terminal(columns: int, *, colours: bool) -> Iterator[_Screen]:
    shown = _Screen()
    environ = {"COLUMNS": str(columns), "LINES": str(_LINES), "TERM": "xterm", "NO_COLOR": "" if colours else "1"}
    with (
        patch.dict(os.environ, environ),
        contextlib.redirect_stdout(shown),
        contextlib.redirect_stderr(shown),
        patch.object(Session, "app", lambda *_, **__: _Shop()),
    ):
        yield shown


def printed(command: Sequence[str], columns: int, *, colours: bool = False) -> str:
    """What a command prints on a terminal that is so wide."""
    with _terminal(columns, colours=colours) as shown:
        execute(list(command))
    return f"$ {' '.join(['poller', *command])}\n{shown.getvalue().rstrip()}"


def _picture(text: Text, columns: int, name: str, title: str) -> str:
    console = Console(
        record=True, width=columns, height=_LINES, file=io.StringIO(), force_terminal=True, color_system="truecolor"
    )
    console.print(text, soft_wrap=True)
    console.print()
    # Without the fonts that it would load from elsewhere: a page shows it with its reader's own.
    return _FONTS.sub("", console.export_svg(title=title, unique_id=name))


def watch(columns: int) -> Text:
    """The screen of `poller watch`."""
    output, histories = scene.watched()
    console = Console(record=True, width=columns, height=_LINES, file=_Screen(), force_terminal=True, _environ={})
    console.print(screen(output, histories, chosen="orders", console=console, keys=True))
    return Text.from_ansi(console.export_text(styles=True).rstrip())


def text() -> str:
    """The section of the page."""
    return _TEXT.format(**{name: printed(command, NARROW) for name, command in COMMANDS.items()})


def captures() -> dict[Path, str]:
    """The pictures, but for those of the demo."""
    files = {}
    for name, command in COMMANDS.items():
        shown = Text.from_ansi(printed(command, WIDE, colours=True))
        files[IMAGES / f"console-{name}-{WIDE}.svg"] = _picture(shown, WIDE, name, "poller")
    files[IMAGES / "console.svg"] = _picture(watch(NARROW), NARROW, "watch", "poller watch")
    files[IMAGES / f"console-watch-{WIDE}.svg"] = _picture(watch(WIDE), WIDE, "watch-wide", "poller watch")
    return files


def demo(columns: int) -> str:
    """A run of `poller demo`, as a picture."""
    environ = {**os.environ, "TERM": "xterm"}
    for name in ("COLUMNS", "LINES", "NO_COLOR"):
        environ.pop(name, None)
    arguments: dict[str, Any] = {"dimensions": (_LINES, columns), "encoding": "utf-8", "timeout": 120, "env": environ}
    child = pexpect.spawn(sys.executable, ["-m", "poller_cli.main", "demo"], **arguments)
    child.expect(pexpect.EOF)
    text = f"$ poller demo\n{(child.before or '').replace(chr(13), '').rstrip()}"
    return _picture(Text.from_ansi(text), columns, f"demo-{columns}", "poller demo")


def main(arguments: Sequence[str]) -> int:
    """Write the pictures of the demo. Returns the exit code."""
    if list(arguments) != ["demo"]:
        print("python -m scripts.captures demo; the others are made by: make docs", file=sys.stderr)
        return 2
    for columns in (NARROW, WIDE):
        path = IMAGES / f"console-demo-{columns}.svg"
        path.write_text(demo(columns), encoding="utf-8")
        print(f"wrote {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
