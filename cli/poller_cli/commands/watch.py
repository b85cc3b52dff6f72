"""`poller watch`: the status screen, live."""

from __future__ import annotations

import os
import sys
from collections import defaultdict
from typing import TYPE_CHECKING, Annotated

import typer

from poller_cli import exits
from poller_cli.session import NamedArguments, Session

if TYPE_CHECKING:
    from rich.console import RenderableType

    from poller_cli.terminal.watch_screen import Keyboard
    from poller_cli.watching import Sample, Sampler, Watcher


def watch(
    session: Session,
    names: NamedArguments = None,
    interval: Annotated[
        str, typer.Option("--interval", metavar="DURATION", help="How often to look, such as 500ms, 2s or 1m.")
    ] = "2s",
    count: Annotated[
        int | None, typer.Option("--count", metavar="N", min=1, help="End after so many looks. [default: at q]")
    ] = None,
) -> int:
    """Show where each poller stands, again and again, with rows per second and lag as lines of bars; after each poller
    its backfills that are not finished.

    q quits; p pauses and r resumes the chosen poller or backfill, and asks as those commands do. Where there is no
    terminal, --json writes one object per look.

    Example: poller watch orders --interval 1s
    """
    from poller_cli.terminal.printing import is_terminal
    from poller_cli.watching import Watcher

    seconds = _seconds(interval)
    on_screen = is_terminal(sys.stdout) and os.environ.get("TERM") != "dumb"
    if not session.json and not on_screen:
        raise typer.BadParameter("watch needs a terminal; without one, add --json.")
    with session.app() as app:
        pollers, documents = app.several(names)
        watcher = Watcher(app, pollers, documents)
        try:
            if session.json:
                return _lines(watcher, seconds, count)
            return _Screen(session, watcher, seconds, count).run()
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
    import time

    from poller_cli.output.models import as_json
    from poller_cli.terminal.printing import print_json

    taken = 0
    while True:
        began = time.monotonic()
        sample = watcher.sample()
        print_json(as_json(sample.output), indent=None)
        taken += 1
        if count is not None and taken >= count:
            return sample.code
        time.sleep(max(0.0, began + interval - time.monotonic()))


class _Screen:
    """The live screen, and what its keys do."""

    def __init__(self, session: Session, watcher: Watcher, interval: float, count: int | None) -> None:
        from rich.console import Console

        from poller_cli.watching import History

        self._session = session
        self._watcher = watcher
        self._interval = interval
        self._count = count
        self._console = Console()
        self._histories: dict[str, History] = defaultdict(History)
        self._chosen = ""
        """The name of a poller or backfill."""
        self._last: Sample | None = None

    def run(self) -> int:
        """Until q, or until the last look."""
        from poller_cli.terminal.watch_screen import Keyboard
        from poller_cli.watching import Ended, Sampler

        keyboard, sampler = Keyboard(), Sampler(self._watcher, self._interval, self._count)
        sampler.start()
        try:
            while True:
                key = self._until_key(keyboard, sampler)
                if key == "q":
                    return exits.DONE
                self._change(key, keyboard)
        except Ended:
            return exits.DONE if self._last is None else self._last.code
        finally:
            sampler.stop()

    def _until_key(self, keyboard: Keyboard, sampler: Sampler) -> str:
        """Show samples until a key is pressed that leaves the screen. Raises: Ended after the last sample."""
        from rich.live import Live

        with keyboard.listening(), Live(self._shown(keyboard), console=self._console, screen=True) as live:
            while True:
                sample = sampler.next(0 if keyboard.waiting else 0.05 if keyboard.there else 0.5)
                if sample is not None:
                    self._take(sample)
                key = keyboard.pressed(0.05)
                if key == "q" or (key in ("p", "r") and self._chosen):
                    return key
                if key in ("up", "down"):
                    self._move(1 if key == "down" else -1)
                if key is not None or sample is not None:
                    live.update(self._shown(keyboard), refresh=True)

    def _take(self, sample: Sample) -> None:
        from poller_cli.watching import in_order

        self._last = sample
        shown = in_order(sample.output)
        for one in shown:
            self._histories[one.status.name].add(one)
        names = [one.status.name for one in shown]
        if self._chosen not in names:  # a backfill that is finished now
            self._chosen = names[0] if names else ""

    def _move(self, steps: int) -> None:
        """Choose another."""
        from poller_cli.watching import in_order

        names = [] if self._last is None else [one.status.name for one in in_order(self._last.output)]
        if self._chosen in names:
            self._chosen = names[(names.index(self._chosen) + steps) % len(names)]

    def _shown(self, keyboard: Keyboard) -> RenderableType:
        from poller_cli.terminal.watch_screen import screen

        return screen(
            None if self._last is None else self._last.output,
            self._histories,
            chosen=self._chosen,
            console=self._console,
            keys=keyboard.there,
        )

    def _change(self, key: str, keyboard: Keyboard) -> None:
        """Pause or resume the chosen one on the ordinary screen, as the command of that name does."""
        from poller.errors import PollerError
        from poller_cli.commands.pause import pause
        from poller_cli.commands.resume import resume
        from poller_cli.terminal.printing import complain

        name = self._chosen
        try:
            if key == "p":
                why = typer.prompt(f"Why is {name} paused? (others see it)", default="", show_default=False)
                pause(self._session, name, reason=why)
            else:
                resume(self._session, name)
        except typer.Abort:
            complain("Not confirmed; nothing was changed.")
        except PollerError as error:
            complain(str(error))
        print("Press a key to go on watching.", flush=True)
        with keyboard.listening():
            while keyboard.pressed(60.0) is None:
                pass
