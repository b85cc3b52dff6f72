"""The screen of `watch`, and the keys that it heeds."""

from __future__ import annotations

import contextlib
import os
import select
import sys
from collections.abc import Iterator, Mapping
from types import ModuleType

from rich.console import Console, Group, RenderableType
from rich.text import Text

from poller.model.transitions import times
from poller_cli.commands.status import cursor_text, kept_for, state_word
from poller_cli.pace import span
from poller_cli.terminal import printable
from poller_cli.watching import History, in_order, sparkline
from poller_cli.work_outputs import WatchedBackfill, WatchedPoller, WatchOutput

HELP = "q quit   p pause   r resume   up/down choose"
_KEYS = {b"\x1b[A": "up", b"\x1bOA": "up", b"k": "up", b"\x1b[B": "down", b"\x1bOB": "down", b"j": "down"}


def screen(
    output: WatchOutput | None, histories: Mapping[str, History], *, chosen: str, console: Console, keys: bool
) -> RenderableType:
    """All pollers and backfills, the one of the chosen name marked."""
    if output is None:
        return Text("looking ...")
    plain = not (console.encoding or "").lower().startswith("utf")
    head = Text(f"poller watch   {output.at.astimezone():%H:%M:%S}" + (f"   {HELP}" if keys else ""), style="dim")
    blocks = [
        _block(
            watched, histories[watched.status.name], console.width, keys and watched.status.name == chosen, plain=plain
        )
        for watched in in_order(output)
    ]
    return Group(head, *blocks)


def _block(
    watched: WatchedPoller | WatchedBackfill, history: History, width: int, chosen: bool, *, plain: bool
) -> Text:
    status = watched.status
    word, colour = state_word(status)
    text = Text(no_wrap=True, overflow="ellipsis")
    text.append(f"\n{'>' if chosen else ' '} ", style="bold")
    text.append(status.name, style="bold")
    text.append(f"  {word}", style=colour)
    bars = max(8, min(60, width - 44))
    behind = "unknown"
    if status.pending is not None:
        age = f", {span(status.lag_seconds)}" if status.pending and status.lag_seconds is not None else ""
        behind = f"{status.pending:,}{'+' if status.pending_capped else ''} rows{age}"
    rate = watched.rows_per_second
    if isinstance(watched, WatchedBackfill):
        by = f", begun by {watched.status.begun_by}" if watched.status.begun_by else ""
        _line(text, "of", f"{watched.status.poller}, from {watched.status.begins} to {watched.status.ends}{by}")
    _line(text, "cursor", cursor_text(status))
    if isinstance(watched, WatchedBackfill):
        _line(text, "left", behind)
    else:
        _line(text, "behind", behind, sparkline(history.lags, bars, plain=plain))
    _line(text, "rows/s", "" if rate is None else f"{rate:,.0f}", sparkline(history.rates, bars, plain=plain))
    lease = status.lease
    left = f", {span(lease.expires_in_seconds)} left" if lease.expires_in_seconds is not None else ""
    kept = kept_for(lease)
    owner = f"kept for {kept}" if kept else lease.owner_id if lease.live else "free"
    known = f"{owner}, token {lease.fencing_token}{left}"
    _line(text, "lease", "not known" if lease.fencing_token is None else known)
    if status.bound is not None:
        held = f", held by {status.bound.held_by}" if status.bound.held_by else ""
        age = f", {span(status.bound.age_seconds)} back" if status.bound.age_seconds is not None else ""
        _line(text, "bound", f"{status.bound.kind}{age}{held}")
    if status.control.by or status.control.reason:
        _line(text, "stopped", f"by {status.control.by or 'unknown'}: {status.control.reason or 'no reason given'}")
    if status.last_error is not None and status.attempts:
        _line(text, "failed", f"{times(status.attempts)}: {status.last_error.type}: {status.last_error.message}")
    if status.error is not None:
        _line(text, "error", status.error)
    return text


def _line(text: Text, name: str, told: str, bars: str = "") -> None:
    # What a row or an error holds must not steer the terminal.
    text.append(f"\n    {name:<8}")
    text.append(printable(told) if not bars else f"{printable(told):<28}")
    text.append(f" {bars}" if bars else "", style="cyan")


def _termios() -> ModuleType | None:
    try:
        import termios
    except ImportError:  # not on Windows: a screen without keys
        return None
    return termios


class Keyboard:
    """Keys, one by one, where stdin is a terminal; none where it is not."""

    def __init__(self) -> None:
        self._termios = _termios()
        self.there = self._termios is not None and sys.stdin is not None and sys.stdin.isatty()

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        """Keys arrive without Return and are not echoed; Ctrl-C stays what it is."""
        if not self.there or self._termios is None:
            yield
            return
        import tty

        descriptor = sys.stdin.fileno()
        former = self._termios.tcgetattr(descriptor)
        tty.setcbreak(descriptor)
        try:
            yield
        finally:
            self._termios.tcsetattr(descriptor, self._termios.TCSADRAIN, former)

    def pressed(self, timeout: float) -> str | None:
        """The next key within `timeout` seconds: a letter, `up`, `down`; None for none. Only while listening."""
        if not self.there:
            return None
        ready, _, _ = select.select([sys.stdin], [], [], timeout)
        if not ready:
            return None
        typed = os.read(sys.stdin.fileno(), 16)
        if not typed:  # the terminal has gone
            return "q"
        return _KEYS.get(typed) or typed.decode("utf-8", "replace")[:1].lower()
