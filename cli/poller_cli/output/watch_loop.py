"""`poller watch` at a terminal: the live screen, and what its keys do."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from poller.admin.counts import rows
from poller.backfill.ranges import in_words
from poller.backfill.status import BackfillStatus
from poller.backfill.watch import WatchedBackfill, WatchedPoller, WatchOutput
from poller.model.when import clock, span
from poller_cli import exits
from poller_cli.output.sparkline import History, sparkline
from poller_cli.output.status_words import cursor_text, lease_text, state_word
from poller_cli.terminal.keyboard import Keyboard
from poller_cli.terminal.layout import clipped, shortened, wrapped
from poller_cli.terminal.printing import printable
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


HELP = "q quit   p pause   r resume   up/down choose"
_HANG = 12
"""Columns before what a line says."""
_FIGURE = 28
"""Columns of a figure that has bars behind it."""
NARROW = 60
"""Below so many columns the bars have lines of their own."""


def screen(
    output: WatchOutput | None, histories: Mapping[str, History], *, chosen: str, console: Console, keys: bool
) -> RenderableType:
    """All pollers and backfills, the one of the chosen name marked; as many around it as there is room for."""
    if output is None:
        return Text("looking ...")
    plain = not (console.encoding or "").lower().startswith("utf")
    title = f"poller watch   {clock(output.at)}" + (f"   {HELP}" if keys else "")
    head = Text(clipped(title, console.width), style="dim")
    head.no_wrap, head.overflow = True, "ellipsis"
    shown = in_order(output)
    blocks = [
        _block(one, histories[one.status.name], console.width, keys and one.status.name == chosen, plain=plain)
        for one in shown
    ]
    at = next((n for n, one in enumerate(shown) if one.status.name == chosen), 0)
    first, end = _window([str(block).count("\n") + 1 for block in blocks], at, console.height - 1)
    above = [Text(f"  {first} more above", style="dim")] * (first > 0)
    below = [Text(f"\n  {len(blocks) - end} more below", style="dim")] * (end < len(blocks))
    return Group(head, *above, *blocks[first:end], *below)


def _window(heights: Sequence[int], chosen: int, room: int) -> tuple[int, int]:
    """Which blocks of these heights fit into so many lines, the chosen one among them: the first, and the one after
    the last. How many are left out takes one line above, and two below."""

    def fits(first: int, end: int) -> bool:
        return sum(heights[first:end]) + (first > 0) + 2 * (end < len(heights)) <= room

    first, end = 0, chosen + 1
    while first < chosen and not fits(first, end):
        first += 1
    while end < len(heights) and fits(first, end + 1):
        end += 1
    return first, end


def _block(
    watched: WatchedPoller | WatchedBackfill, history: History, width: int, chosen: bool, *, plain: bool
) -> Text:
    status = watched.status
    word, colour = state_word(status)
    text = Text(no_wrap=True, overflow="ellipsis")
    text.append(f"\n{'>' if chosen else ' '} ", style="bold")
    text.append(shortened(status.name, max(8, width - len(word) - 5)), style="bold")
    text.append(f"  {word}", style=colour)
    narrow = width < NARROW
    bars = max(8, width - 13 if narrow else min(60, width - 44))
    behind = "unknown"
    if status.pending is not None:
        age = f", {span(status.lag_seconds)}" if status.pending and status.lag_seconds is not None else ""
        behind = f"{rows(status.pending, status.pending_capped)}{age}"
    rate = watched.rows_per_second
    if isinstance(watched, WatchedBackfill):
        by = f", begun by {watched.status.begun_by}" if watched.status.begun_by else ""
        _wide(text, width, "of", f"{watched.status.poller}, {_range(watched.status)}{by}")
    _wide(text, width, "cursor", cursor_text(status))
    if isinstance(watched, WatchedBackfill):
        _wide(text, width, "left", behind)
    else:
        _barred(text, "behind", behind, sparkline(history.lags, bars, plain=plain), narrow=narrow)
    speed = "" if rate is None else f"{rate:,.0f}"
    _barred(text, "rows/s", speed, sparkline(history.rates, bars, plain=plain), narrow=narrow)
    _wide(text, width, "lease", lease_text(status))
    if status.bound is not None:
        held = f", held by {status.bound.held_by}" if status.bound.held_by else ""
        age = f", {span(status.bound.age_seconds)} back" if status.bound.age_seconds is not None else ""
        _wide(text, width, "bound", f"{status.bound.kind}{age}{held}")
    for one in status.conditions:
        if one.severity != "well":
            _wide(text, width, "why", f"{one.sentence} {one.detail}" if one.detail else one.sentence)
    return text


def _range(status: BackfillStatus) -> str:
    if status.begins_key is None and status.ends_key is None:
        return f"from {status.begins} to {status.ends}"
    return in_words(status.begins, status.begins_key, status.ends, status.ends_key)


def _wide(text: Text, width: int, name: str, value: str) -> None:
    """What it says, in as many lines as it takes. What a row or an error holds must not steer the terminal."""
    for line in wrapped(f"    {name:<8}{printable(value)}", width, hang=_HANG):
        text.append(f"\n{line}")


def _barred(text: Text, name: str, value: str, bars: str, *, narrow: bool) -> None:
    """A figure and its bars; beneath it where it is long, or the terminal narrow."""
    text.append(f"\n    {name:<8}{value}")
    beneath = narrow or len(value) > _FIGURE
    between = f"\n{'':<{_HANG}}" if beneath else " " * (_FIGURE + 1 - len(value))
    text.append(f"{between}{bars}" if bars else "", style="cyan")


def in_order(output: WatchOutput) -> list[WatchedPoller | WatchedBackfill]:
    """Each poller with its backfills after it, and last the backfills of pollers that are not watched."""
    backfills = output.backfills or []
    shown: list[WatchedPoller | WatchedBackfill] = []
    for one in output.pollers:
        shown += [one, *(inner for inner in backfills if inner.status.poller == one.status.name)]
    watched = {one.status.name for one in output.pollers}
    return shown + [one for one in backfills if one.status.poller not in watched]
