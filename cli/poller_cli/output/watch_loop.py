"""`poller watch` at a terminal: the live screen, and what its keys do."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import TYPE_CHECKING

from rich.console import Console, RenderableType
from rich.live import Live

from poller_cli import exits
from poller_cli.output.sparkline import History
from poller_cli.output.watch_screen import in_order, screen
from poller_cli.terminal.keyboard import Keyboard
from poller_cli.terminal.sampler import IntervalSampler, NoMoreSamples

if TYPE_CHECKING:
    from poller.backfill.watch import BackfillSample


class WatchLoop:
    """Shows samples until `q`, or until the last one.

    Args:
        sampler: takes them. change: called on the ordinary screen with `p` or `r` and the name of the chosen poller
            or backfill.
    """

    def __init__(self, sampler: IntervalSampler[BackfillSample], change: Callable[[str, str], None]) -> None:
        self._sampler = sampler
        self._change = change
        self._keyboard = Keyboard()
        self._console = Console()
        self._histories: dict[str, History] = defaultdict(History)
        self._chosen = ""
        """The name of a poller or backfill."""
        self._last: BackfillSample | None = None

    def run(self) -> int:
        """The exit code."""
        try:
            with self._sampler:
                while (key := self._until_key()) != "q":
                    self._change(key, self._chosen)
                    print("Press a key to go on watching.", flush=True)
                    with self._keyboard.listening():
                        while self._keyboard.pressed(60.0) is None:
                            pass
            return exits.DONE
        except NoMoreSamples:
            return exits.DONE if self._last is None else exits.of_sample(self._last)

    def _until_key(self) -> str:
        """Show samples until a key is pressed that leaves the screen. Raises: Ended after the last sample."""
        keyboard = self._keyboard
        with keyboard.listening(), Live(self._shown(), console=self._console, screen=True) as live:
            while True:
                sample = self._sampler.next(0 if keyboard.waiting else 0.05 if keyboard.there else 0.5)
                if sample is not None:
                    self._take(sample)
                key = keyboard.pressed(0.05)
                if key == "q" or (key in ("p", "r") and self._chosen):
                    return key
                if key in ("up", "down"):
                    self._move(1 if key == "down" else -1)
                if key is not None or sample is not None:
                    live.update(self._shown(), refresh=True)

    def _take(self, sample: BackfillSample) -> None:
        self._last = sample
        shown = in_order(sample.output)
        for one in shown:
            self._histories[one.status.name].add(one)
        names = [one.status.name for one in shown]
        if self._chosen not in names:  # a backfill that is finished now
            self._chosen = names[0] if names else ""

    def _move(self, steps: int) -> None:
        """Choose another."""
        names = [] if self._last is None else [one.status.name for one in in_order(self._last.output)]
        if self._chosen in names:
            self._chosen = names[(names.index(self._chosen) + steps) % len(names)]

    def _shown(self) -> RenderableType:
        return screen(
            None if self._last is None else self._last.output,
            self._histories,
            chosen=self._chosen,
            console=self._console,
            keys=self._keyboard.there,
        )
