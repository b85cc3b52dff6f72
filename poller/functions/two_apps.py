"""Which configuration the timers of an app have, so that two apps under one `app_name` are noticed."""

from __future__ import annotations

import logging
from threading import Lock

from poller.app import App
from poller.journal.configurations import Configurations
from poller.observability import log_events

logger = logging.getLogger("poller")


class TwoAppsWatch:
    """Keeps the hint of the app's configuration while its timers fire, and warns of another's. May be called from
    several threads."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._made: Configurations | None = None
        self._busy = Lock()

    def look(self) -> None:
        """Renew the hint, and look at the others, if it is time: on a thread of its own, so that no tick waits for it.
        Raises nothing."""
        if not self._busy.acquire(blocking=False):
            return
        try:
            if self._made is None or self._made.due():
                self._app.runtime.spawn(self._keep, "poller-configurations")
                return  # that thread lets go
        except RuntimeError:  # no room for a thread: the next tick tries
            pass
        self._busy.release()

    def _keep(self) -> None:
        try:
            if self._made is None:
                self._made = Configurations(self._app.store, self._app.config, self._app.runtime)
            self._made.keep(log_events)
        except Exception as error:  # noqa: BLE001 - no tick is worse off for it
            logger.info("Whether another configuration works under this name is not known: %s", type(error).__name__)
        finally:
            self._busy.release()
