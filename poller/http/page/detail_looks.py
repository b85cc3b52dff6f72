"""The details of pollers, each read once for all who look at its page meanwhile."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from functools import cache, partial
from typing import TYPE_CHECKING

from poller.errors import PollerError
from poller.http.looks import LookTimedOut, SharedLook
from poller.observability.events import log_failure

if TYPE_CHECKING:
    from poller.app import App
    from poller.http.page.details import Details

PATIENCE = 5.0
"""Seconds that a page waits for the details, after those for the health: the page's script gives up after 14."""
MOST = 64
"""Pollers whose readers are kept: those that were looked at last."""


class DetailLooks:
    """What the store says of the pollers that a person looks at.

    Args:
        reader: makes what reads the details of a poller, by its name. now: as of `SharedLook`.
    """

    def __init__(
        self, reader: Callable[[str], Callable[[], Details]], *, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._reader = reader
        self._now = now
        self._lock = threading.Lock()
        self._looks: OrderedDict[str, SharedLook[Details]] = OrderedDict()

    def take(self, name: str) -> Details | None:
        """The details of a configured poller, a second old at most; None if the store does not give them. Raises
        nothing that is an Exception."""
        try:
            return self._look(name).take()
        except (LookTimedOut, PollerError):  # the health says what is wrong with the store, or with the configuration
            return None
        except Exception as error:  # noqa: BLE001 - the rest of the page is shown all the same
            log_failure("http", "The details of a poller could not be read.", error)
            return None

    def forget(self, name: str) -> None:
        """What was read before counts no longer: it was changed."""
        with self._lock:
            self._looks.pop(name, None)

    def settle(self, seconds: float) -> None:
        """Wait at most `seconds` for each read that is under way."""
        with self._lock:
            looks = list(self._looks.values())
        for one in looks:
            one.settle(seconds)

    def _look(self, name: str) -> SharedLook[Details]:
        with self._lock:
            look = self._looks.get(name)
            if look is None:
                reader = cache(partial(self._reader, name))

                def read() -> Details:
                    """On the look's thread: a store that cannot be made, or a slow import, holds up no other poller."""
                    return reader()()

                look = self._looks[name] = SharedLook(read, patience=PATIENCE, now=self._now)
            self._looks.move_to_end(name)
            while len(self._looks) > MOST:
                self._looks.popitem(last=False)
            return look


def details_of(app: App) -> DetailLooks:
    """The details of the configured pollers of an application."""

    def reader(name: str) -> Callable[[], Details]:
        from poller.app import Named
        from poller.http.page.details import DetailReader

        return DetailReader(app.without_source(Named(name, name)))

    return DetailLooks(reader, now=app.runtime.monotonic)
