"""Ticks that a caller asks for: one now, whatever the schedule says.

A program asks, with the key for changes and nothing else: a tick does what a timer does, and the lease makes it safe
beside every other. The request is answered with 202 before the tick ends; what came of it is answered to a GET of the
same path, by the same process. Of one poller one tick runs at a time and at most one waits, which begins after the one
that runs has ended and so finds every row that was there when it was asked for.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, TypeAlias

from poller.app import App
from poller.errors import (
    ConfigError,
    FingerprintMismatch,
    PollerError,
    SourceError,
    SourceUnavailable,
    StoreDenied,
    StoreError,
    StoreUnavailable,
)
from poller.http.messages import FAULT, Answer, answer, refusal
from poller.observability.events import log_failure
from poller.tick.result import Outcome

logger = logging.getLogger("poller")

Standing: TypeAlias = Literal["running", "waiting", "resting"]

_SAID: Mapping[Outcome, str] = {
    "idle": "No row was to be delivered.",
    "delivered": "Rows were delivered.",
    "held_elsewhere": "Another worker holds the lease of {name}.",
    "paused": "{name} is paused: it delivers nothing before a resume. Run: poller resume {name}",
    "halted": "{name} is halted: it delivers nothing before a resume. Look first: poller status {name}",
    "handler_failed": "A call of the handler failed. See: poller status {name}",
    "backing_off": "A call of the handler failed, and the next one waits for its time. See: poller status {name}",
    "blocked": "As many rows wait as may. See: poller quarantine list {name}",
    "lease_lost": "The lease was lost meanwhile; what was in hand comes again.",
    "commit_unknown": "The state store did not answer. Whether the last batch was committed: the next tick sees it.",
}
TROUBLES: tuple[tuple[type[PollerError], int, str], ...] = (
    (FingerprintMismatch, 409, "The checkpoint of {name} belongs to another source. See: poller status {name}"),
    (StoreError, 409, "The state of {name} is not there, or cannot be read. See: poller status {name}"),
    (SourceUnavailable, 503, "The database of {name} did not answer. See: poller check {name}"),
    (SourceError, 409, "The source of {name} is not what its configuration says. See: poller check {name}"),
    (ConfigError, 409, "The configuration or the handler of {name} is wrong. See: poller check {name}"),
)
"""What is said of errors, of a tick and of a change, and the status of a change that ends so; the first that fits
counts. The library's own words quote what databases say, for operators alone."""
_FAILED: tuple[tuple[type[PollerError], str], ...] = (
    (StoreDenied, "The state store refuses this process."),
    (StoreUnavailable, "The state store did not answer."),
    *((kind, words) for kind, _, words in TROUBLES),
)


@dataclass(frozen=True, slots=True)
class EndedTick:
    """What came of a tick. `outcome`: of its result, or `failed` if it raised; `message`: the same as a sentence."""

    outcome: Outcome | Literal["failed"]
    rows: int
    message: str
    ended_at: datetime

    def as_json(self) -> dict[str, Any]:
        """As it is answered."""
        at = self.ended_at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        return {"outcome": self.outcome, "rows": self.rows, "message": self.message, "ended_at": at}


class Ticks:
    """Makes the ticks that callers ask for.

    Args:
        app: whose pollers, each with its configured handler.

    Attributes:
        made: called with the name of a poller when a tick of it has ended, before its outcome is answered.
    """

    def __init__(self, app: App) -> None:
        self.made: Callable[[str], object] = lambda _: None
        self._app = app
        self._lock = threading.Lock()
        self._asked: dict[str, int] = {}
        """By poller: 1 if a tick runs, 2 if another waits."""
        self._threads: dict[str, threading.Thread] = {}
        self._last: dict[str, EndedTick] = {}
        self._stop = app.runtime.event()

    def ask(self, name: str) -> Answer:
        """The answer to a caller who wants a tick of the poller `name` and may have it."""
        with self._lock:
            if self._stop.is_set():
                return refusal(503, "this process is ending")
            asked = self._asked.get(name, 0)
            if asked == 2:
                why = "one tick of this poller runs and one waits, which will find every row that is there now"
                return refusal(429, why, [("Retry-After", "1")])
            self._asked[name] = asked + 1
            if not asked:
                self._threads[name] = threading.Thread(
                    target=self._run, args=(name,), name="poller-http-tick", daemon=True
                )
                try:
                    self._threads[name].start()
                except RuntimeError:  # no more threads
                    del self._asked[name], self._threads[name]
                    return refusal(503, "this process has no thread left")
            return answer(202, self._seen(name, "waiting" if asked else "running"))

    def look(self, name: str) -> Answer:
        """The answer to a caller who wants to know what came of it."""
        with self._lock:
            asked = self._asked.get(name, 0)
            return answer(200, self._seen(name, "waiting" if asked == 2 else "running" if asked else "resting"))

    def settle(self, seconds: float) -> None:
        """Begin none any more, end those that run after the batch in hand, and wait at most `seconds` for that."""
        with self._lock:
            self._stop.set()
            left = list(self._threads.values())
        deadline = time.monotonic() + seconds
        for thread in left:
            thread.join(max(0.0, deadline - time.monotonic()))

    def _seen(self, name: str, standing: Standing) -> dict[str, Any]:
        last = self._last.get(name)
        return {"name": name, "state": standing, "last": None if last is None else last.as_json()}

    def _run(self, name: str) -> None:
        """On a thread of its own: one tick, and another if one was asked for meanwhile."""
        more = True
        while more:
            ended = self._tick(name)
            self.made(name)
            with self._lock:
                self._last[name] = ended
                self._asked[name] -= 1
                more = self._asked[name] > 0 and not self._stop.is_set()
                if not more:
                    del self._asked[name], self._threads[name]

    def _tick(self, name: str) -> EndedTick:
        """One tick, as soon as no other of this process runs. Raises nothing."""
        rows, words = 0, FAULT
        outcome: Outcome | Literal["failed"] = "failed"
        try:
            if name not in self._app.config.pollers:
                raise ConfigError("it cannot be made")
            result = self._app.poller(name).tick(stop=self._stop, wait=True)
            rows, outcome, words = result.rows, result.outcome, _SAID[result.outcome]
        except PollerError as error:
            words = next((words for kind, words in _FAILED if isinstance(error, kind)), f"{type(error).__name__}.")
        except BaseException as error:  # noqa: BLE001 - a driver's SystemExit ends no server
            log_failure(name, "A tick over HTTP failed.", error)
        logger.info("%s: a tick asked for over HTTP ended: %s, %d rows", name, outcome, rows)
        return EndedTick(outcome, rows, words.format(name=name), self._app.runtime.utcnow())
