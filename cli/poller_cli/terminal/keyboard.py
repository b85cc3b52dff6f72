"""Keys as they are pressed, without Return."""

from __future__ import annotations

import contextlib
import os
import re
import select
import sys
from collections.abc import Iterator
from types import ModuleType

_KEY = re.compile(r"\x1b(?:\[[0-9;]*[@-~]|O[@-~])|.", re.DOTALL)
_KEYS = {"\x1b[A": "up", "\x1bOA": "up", "k": "up", "\x1b[B": "down", "\x1bOB": "down", "j": "down"}


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
        self._typed = ""
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
            self._typed = ""
            self._termios.tcsetattr(descriptor, self._termios.TCSADRAIN, former)

    @property
    def waiting(self) -> bool:
        """True if more keys have arrived than were asked for."""
        return bool(self._typed)

    def pressed(self, timeout: float) -> str | None:
        """The next key within `timeout` seconds: a letter, `up`, `down`; None for none. Only while listening."""
        if not self.there:
            return None
        if not self._typed and not self._read(timeout):
            return None
        while self._typed in ("\x1b", "\x1b[", "\x1bO") and self._read(0.02):  # the rest of an arrow
            pass
        found = _KEY.match(self._typed)
        key = found[0] if found else ""
        self._typed = self._typed[len(key) :]
        return _KEYS.get(key) or key[:1].lower()

    def _read(self, timeout: float) -> bool:
        """True if more was typed."""
        ready, _, _ = select.select([sys.stdin], [], [], timeout)
        if not ready:
            return False
        typed = os.read(sys.stdin.fileno(), 64)
        self._typed = self._typed + typed.decode("utf-8", "replace") if typed else "q"  # or the terminal has gone
        return True
