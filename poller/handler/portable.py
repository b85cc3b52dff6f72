"""Why a batch cannot be brought to another process or thread: what surrounds it is at fault, not the batch."""

from __future__ import annotations

from poller.errors import ConfigError, PollerError


class NotPortable(PollerError):
    """The batch could not be brought to another process: what surrounds it is at fault, not the batch."""


class NotSendable(NotPortable, ConfigError):
    """The handler or a row cannot be sent to another process: no later tick can."""


class NoRoom(NotPortable):
    """No process or thread is available now; a later tick may find one."""


START_LIMIT = 60.0
"""Seconds that a child process may take to start and to import the handler's module."""
SPARE = START_LIMIT + 10.0
"""So many seconds longer than its limit a call in a child process may take: a child is started, and one that hangs is
ended."""
