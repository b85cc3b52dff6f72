"""`poller watch`: the status screen, live."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from poller_cli import exits
from poller_cli.session import NamedArguments, Session

if TYPE_CHECKING:
    from poller.backfill.watch import Watcher


def watch(
    session: Session,
    names: NamedArguments = None,
    interval: Annotated[
        str, typer.Option("--interval", metavar="DURATION", help="How often to look, such as 500ms, 2s or 1m.")
    ] = "2s",
    count: Annotated[
        int | None, typer.Option("--count", metavar="N", min=1, help="End after N looks. [default: at q]")
    ] = None,
) -> int:
    """Show where each poller stands, again and again, with rows per second and lag as lines of bars; after each poller
    its backfills that are not finished.

    q quits; p pauses and r resumes the chosen poller or backfill, and asks as those commands do. Without a terminal,
    --json writes one object per look.

    Example: poller watch orders --interval 1s
    """
    from poller.admin.refusals import WrongArgument
    from poller.backfill.watch import Watcher
    from poller_cli.terminal.layout import is_terminal
    from poller_cli.terminal.sampler import IntervalSampler

    seconds = _seconds(interval)
    on_screen = is_terminal(sys.stdout) and os.environ.get("TERM") != "dumb"
    if not session.json and not on_screen:
        raise WrongArgument("watch needs a terminal.", next_step="Without one, add --json.")
    with session.app() as app:
        pollers, documents = app.several(names)
        watcher = Watcher(pollers, app.backfills, documents, seen=app.remembered(), utcnow=app.runtime.utcnow)
        try:
            if session.json:
                return _lines(watcher, seconds, count)
            from poller_cli.output.watch_loop import WatchLoop

            return WatchLoop(IntervalSampler(watcher.sample, seconds, count), partial(_change, session)).run()
        except KeyboardInterrupt:
            return exits.DONE


def _seconds(text: str) -> float:
    from poller.model.durations import parse_duration

    try:
        seconds = parse_duration(text).total_seconds()
    except ValueError as error:
        raise typer.BadParameter(f"--interval: {error}") from None
    if not 0.05 <= seconds <= 86_400:
        raise typer.BadParameter("--interval must be between 50ms and 1d.")
    return seconds


def _lines(watcher: Watcher, interval: float, count: int | None) -> int:
    """A JSON object per look. Returns the exit code of the last one."""
    import time

    from poller_cli.terminal.printing import print_json

    taken = 0
    while True:
        began = time.monotonic()
        sample = watcher.sample()
        print_json(sample.output, indent=None)
        taken += 1
        if count is not None and taken >= count:
            return exits.of_sample(sample)
        time.sleep(max(0.0, began + interval - time.monotonic()))


def _change(session: Session, key: str, name: str) -> None:
    """Pause or resume as the command of that name does; what it refuses is shown, and watching goes on."""
    from poller.errors import PollerError
    from poller_cli.commands.pause import pause
    from poller_cli.commands.resume import resume
    from poller_cli.terminal.confirmation import Consent
    from poller_cli.terminal.printing import complain

    try:
        if key == "p":
            why = typer.prompt(f"Why is {name} paused? (others see it)", default="", show_default=False)
            pause(replace(session, words="pause"), name, Consent(reason=why))
        else:
            resume(replace(session, words="resume"), name, Consent())
    except typer.Abort:
        complain("Not confirmed; nothing was changed.")
    except PollerError as error:
        complain(str(error))
