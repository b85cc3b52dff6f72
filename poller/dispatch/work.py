"""The other end of the queue: one tick per message, under the poller's own lease."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from poller.dispatch.messages import NotAWorkMessage, WorkMessage, read
from poller.dispatch.queues import Queue
from poller.errors import ConfigError, StoreDenied, StoreError
from poller.poller import Poller
from poller.ports import Runtime
from poller.tick.result import TickResult

logger = logging.getLogger("poller")

PAUSES = (0.5, 2.0, 5.0)
"""Seconds after which a message for the rows that are left is sent again: without it they wait for their schedule,
which may be the next night's."""


class Work:
    """Does what messages ask for. May be called from several threads; one poller's ticks run one at a time.

    Args:
        app_name: of the app; messages of others are dropped. pollers: makes one of its pollers, and remembers it.
        wrong: why others of them cannot be made. queue: where a tick that ends with rows left sends its successor.
    """

    def __init__(
        self,
        app_name: str,
        pollers: Callable[[str], Poller | None],
        wrong: Mapping[str, ConfigError],
        *,
        queue: Queue,
        runtime: Runtime,
    ) -> None:
        self._app_name = app_name
        self._pollers = pollers
        self._wrong = wrong
        self._queue = queue
        self._runtime = runtime

    def do(self, body: bytes) -> tuple[Poller, TickResult] | None:
        """One tick of the poller that a message's JSON names; None if it is none of ours, which is logged.

        Raises: ConfigError, if the configuration of that poller is wrong; as `Poller.tick`.
        """
        message = self._read(body)
        if message is None:
            return None
        wrong = self._wrong.get(message.poller)
        if wrong is not None:
            raise ConfigError(wrong.message, key=wrong.key, file=wrong.file, next_step=wrong.next_step)
        poller = self._pollers(message.poller)
        if poller is None:
            logger.warning(
                "A work message for the poller %s was dropped: this configuration of the app %s does not have it. If "
                "it was removed, that is right. If it was renamed, its checkpoint has the former name, and the new one "
                "begins where its start_from says, unless you copy it with the former file: poller checkpoint clone %s "
                "NEW_NAME. If another app has that name too, give one of them another app_name; if this one runs in "
                "several processes, deploy one configuration to all. A dispatcher that has the poller sends it again.",
                message.poller,
                self._app_name,
                message.poller,
            )
            return None
        result = poller.tick()
        if result.left:
            self._go_on(poller)
        return poller, result

    def _read(self, body: bytes) -> WorkMessage | None:
        try:
            message = read(body)
        except NotAWorkMessage as why:
            logger.warning("A work message was dropped: %s.", why)
            return None
        if message.app != self._app_name:
            logger.warning("A work message was dropped: it is of the app %s.", message.app)
            return None
        return message

    def _go_on(self, poller: Poller) -> None:
        """Rows are left: another tick, behind the messages of others."""
        message = WorkMessage(self._app_name, poller.name, self._runtime.utcnow())
        for pause in (*PAUSES, None):
            try:
                self._queue.send(message)
            except StoreError as error:
                if pause is not None and not isinstance(error, StoreDenied):
                    self._runtime.sleep(pause)
                    continue
                logger.warning("%s: rows are left, and the next tick waits for its schedule: %s", poller.name, error)
            return
