"""A file that is touched while the loop of `poller run` goes round: for liveness probes and HEALTHCHECK.

It says that this process's loop is alive, and nothing of handlers, databases or the store: a handler that hangs does
not stop it, a loop that is dead does. A worker that is late is not killed for it (scale.md, "Never silently dead").
"""

from __future__ import annotations

import logging
import os
import secrets
from contextlib import suppress
from pathlib import Path

from poller import files
from poller.errors import ConfigError
from poller.ports import Runtime
from poller.runtime import SystemRuntime

logger = logging.getLogger("poller")

EVERY = 5.0
"""Seconds between two touches."""


class AliveFile:
    """The file. It is replaced as a whole each time, may be read by its owner alone, and is never written through a
    link.

    Args:
        path: of the file; its folder must exist. runtime: its clocks.
    Raises: ConfigError, if it cannot be written now.
    """

    def __init__(self, path: str | os.PathLike[str], runtime: Runtime | None = None) -> None:
        self.path = Path(path)
        self._runtime: Runtime = runtime or SystemRuntime()
        self._failed = False
        try:
            if self.path.is_symlink():
                raise OSError("it is a link")
            if self.path.is_dir():
                raise OSError("it is a folder")
            if self.path.exists() and not self.path.is_file():  # /dev/null would be replaced for the whole machine
                raise OSError("it is a device, pipe or socket")
            self._write()
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise ConfigError(
                f"--alive-file: {self.path} cannot be written: {reason}.",
                key="alive_file",
                next_step="Name a file in a folder that this process may write to, such as /tmp/poller-alive.",
            ) from None
        self._next = self._runtime.monotonic() + EVERY

    def touch(self) -> None:
        """Write it, if it is time. What goes wrong is logged once, and tried again."""
        now = self._runtime.monotonic()
        if now < self._next:
            return
        self._next = now + EVERY
        try:
            self._write()
            self._failed = False
        except (OSError, ValueError) as error:
            if not self._failed:
                logger.warning(
                    "%s could not be touched, so a liveness probe may end this process: %s", self.path, error
                )
            self._failed = True

    def left(self) -> float:
        """Seconds until it is time again."""
        return max(0.0, self._next - self._runtime.monotonic())

    def remove(self) -> None:
        """The loop has ended normally: no old file stays for the next process."""
        with suppress(OSError):
            self.path.unlink()

    def _write(self) -> None:
        part = self.path.with_name(f".{self.path.name}.{secrets.token_hex(8)}.part")
        try:
            files.write_new(part, f"{self._runtime.utcnow().isoformat()} {os.getpid()}\n")
            part.replace(self.path)  # of a link it replaces the link, not what that leads to
        finally:
            with suppress(OSError):
                part.unlink(missing_ok=True)
