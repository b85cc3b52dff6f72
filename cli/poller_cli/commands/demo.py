"""`poller demo`: a self-contained show on embedded SQLite; it fails when a single row is missing."""

from __future__ import annotations

import signal
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from poller_cli import exits
from poller_cli.session import Session

if TYPE_CHECKING:
    from poller_cli.output.models import DemoOutput


def demo(session: Session) -> int:
    """See it work: flights arrive while two workers compete, and one of them is killed in mid-batch.

    Needs nothing but Python and takes about half a minute. Everything stays in a temporary folder.

    Example: poller demo
    """
    from poller_cli.demo.play import Play
    from poller_cli.demo.scene import Scene
    from poller_cli.terminal.printing import print_json

    def say(seconds: float, line: str) -> None:
        print(f"{seconds:5.1f} s  {line}", file=sys.stderr if session.json else sys.stdout, flush=True)

    temporary = tempfile.TemporaryDirectory(prefix="poller-demo-", ignore_cleanup_errors=True)
    with _signalled() as stop, temporary as folder:
        output = Play(Scene(Path(folder)), say, stop).perform()
    if session.json:
        print_json(output)
    else:
        print(_table(output))
    return exits.DONE if output.ok else exits.FAILED


@contextmanager
def _signalled() -> Iterator[threading.Event]:
    """Set by Ctrl-C, SIGTERM, and a terminal that goes away. Not an exception: one that came while a process is being
    started would leave that behind."""
    stop = threading.Event()
    numbers = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
    if threading.current_thread() is not threading.main_thread():
        numbers = []
    former = [(number, signal.signal(number, lambda *_: stop.set())) for number in numbers]
    try:
        yield stop
    finally:
        for number, handler in former:
            signal.signal(number, handler)


def _table(output: DemoOutput) -> str:
    rows = [
        ("flights that arrived", f"{output.rows_written:,}"),
        ("flights that reached a handler", f"{output.rows_delivered:,}"),
        ("missing", f"{output.missing:,}"),
        ("delivered twice", f"{output.delivered_twice:,}"),
        ("  of these in the killed batch", f"{output.delivered_twice - output.twice_outside_killed_batch:,}"),
        ("  for any other reason", f"{output.twice_outside_killed_batch:,}"),
        ("fencing token", f"{output.token_before_kill} -> {output.token_after_takeover}"),
        ("from the kill to the takeover", f"{output.takeover_seconds:.1f} s (lease of 3 s, and 2 s of caution)"),
        ("whole show", f"{output.elapsed_seconds:.1f} s"),
    ]
    verdict = (
        "Every flight was delivered; twice only what the killed worker had in hand."
        if output.ok
        else "This is NOT as it must be."
    )
    return "\n".join(["", *(f"  {name:<34}{value}" for name, value in rows), "", verdict])
