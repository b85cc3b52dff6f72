"""Changes that a page of ours asks for: pause, resume, and replay or discard of one row that waits.

A request that may look is judged here further, from its headers alone before its body is read:

1. its type: `application/json`, which no form of another page can send;
2. its `Origin`: the very page that this server served (`same_origin`);
3. its token, which ties it to the session that the page was served to (`sessions`);
4. its key: that for changes, in `Authorization: Bearer` (`keys`);
5. its body: known fields and no others, the poller's name typed once more, and who asks;
6. whether a change of this poller is under way, and how many were made in the last minute.

Then the change is made as the console makes it (`making`), and answered within 8 s; one that takes longer goes on.
"""

from __future__ import annotations

import logging
import math
import re
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from poller.app import App
from poller.http.hosts import PLACE, is_loopback
from poller.http.keys import ChangesKey
from poller.http.making import CALLER, MadeChange, WantedChange, make
from poller.http.messages import FAULT, Answer, Request, answer, refusal
from poller.http.sessions import Sessions
from poller.http.ticks import Ticks
from poller.journal.quarantine.record import is_id
from poller.model.escape import escape, is_visible
from poller.model.limits import NotBoundedJson, read_json
from poller.observability.events import log_failure

logger = logging.getLogger("poller")

PATIENCE = 8.0
"""Seconds after which a change is answered whether it is made or not."""
PER_MINUTE = 10
"""Changes that this process begins in a minute at most."""
LONGEST_TYPED = 200
"""Characters of a name that are kept; the address of the caller follows it."""
LONGEST_WHY = 1_000
"""Characters of a reason, as the page's field takes them; a longer one is refused."""
_HOST = re.compile(PLACE)
_ORIGIN = re.compile(r"(?P<scheme>https?)://" + PLACE)
_PORTS = {"http": 80, "https": 443}


class ChangeRequest(BaseModel):
    """The body of a change."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    change: Literal["replay", "discard", "pause", "resume"]
    name: str
    """The poller's, as a person has typed it."""
    by: str
    """Who asks."""
    id: str | None = None
    """The row's id, for a replay or a discard."""
    reason: Annotated[str | None, Field(max_length=LONGEST_WHY)] = None


class RateLimit:
    """So many beginnings a minute.

    Args:
        now: seconds on a clock that only goes forward.
    """

    def __init__(self, most: int, now: Callable[[], float]) -> None:
        self._begun: deque[float] = deque(maxlen=most)
        self._now = now

    def wait(self) -> float:
        """Seconds until another may begin; with 0 it has begun."""
        now = self._now()
        if len(self._begun) == self._begun.maxlen and (left := self._begun[0] + 60.0 - now) > 0:
            return left
        self._begun.append(now)
        return 0.0


class PageChanges:
    """Makes the changes that pages ask for, one of a poller at a time.

    Args:
        app: whose pollers. key: the key for changes. patience: seconds until an answer.

    Attributes:
        ticks: those that programs ask for with the same key.
        made: called with the name of a poller when a change of it has ended, before it is answered.
    """

    def __init__(self, app: App, key: ChangesKey, *, patience: float = PATIENCE) -> None:
        self.sessions = Sessions(key, app.runtime.utcnow)
        self.made: Callable[[str], object] = lambda _: None
        self._app = app
        self._key = key
        self.ticks = Ticks(app)
        self._patience = patience
        self._pace = RateLimit(PER_MINUTE, app.runtime.monotonic)
        self._lock = threading.Lock()
        self._under_way: dict[str, Future[MadeChange]] = {}
        self._ending = False

    def __call__(self, request: Request, name: str) -> Answer:
        """The answer to a change of the poller `name`, asked for by a caller who may look."""
        refused = self._refused(request)
        if refused is not None:
            return refused
        wanted = _wanted(request, name)
        if isinstance(wanted, Answer):
            return wanted
        begun = self._begin(wanted)
        return begun if isinstance(begun, Answer) else _answered(wanted, begun, self._patience)

    def allow(self, request: Request) -> bool:
        """True if the request has the key for changes."""
        return self._key.allow(request)

    def settle(self, seconds: float) -> None:
        """Begin none any more, no tick either, and wait at most `seconds` for those under way."""
        with self._lock:
            self._ending = True
            left = list(self._under_way.values())
        deadline = time.monotonic() + seconds
        wait(left, seconds)
        self.ticks.settle(max(0.0, deadline - time.monotonic()))

    def _refused(self, request: Request) -> Answer | None:
        """What is wrong, before a byte of the body counts."""
        if request.values("content-type") != ["application/json"]:
            return refusal(415, "the Content-Type must be application/json")
        origins = request.values("origin")
        if len(origins) != 1 or not same_origin(origins[0], request.values("host")[0]):
            return refusal(403, "a change is asked for by the page of this very server alone: its Origin must be ours")
        if not self.sessions.allow(request):
            return refusal(403, "the page is of another session, or too old: load it again")
        if not self._key.allow(request):
            return refusal(403, "changes need their own key")
        return None

    def _begin(self, wanted: WantedChange) -> Future[MadeChange] | Answer:
        future: Future[MadeChange] = Future()
        with self._lock:
            if self._ending:
                return refusal(503, "this process is ending")
            if wanted.poller in self._under_way:
                return refusal(409, "another change of this poller is under way: look at it again in a moment")
            seconds = self._pace.wait()
            if seconds > 0:
                after = [("Retry-After", str(math.ceil(seconds)))]
                return refusal(429, f"at most {PER_MINUTE} changes a minute are made", after)
            self._under_way[wanted.poller] = future
        thread = threading.Thread(target=self._run, args=(wanted, future), name="poller-http-change", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # no more threads
            self._ended(wanted)
            return refusal(503, "this process has no thread left")
        return future

    def _run(self, wanted: WantedChange, future: Future[MadeChange]) -> None:
        try:
            made = make(self._app, wanted)
        except BaseException as error:  # noqa: BLE001 - a driver's SystemExit ends no server
            log_failure(wanted.poller, f"A {wanted.change} over HTTP failed.", error)
            made = MadeChange(500, FAULT)
        else:  # also for one whose caller was answered before
            level = logging.INFO if made.status == 200 else logging.WARNING
            end = "" if made.status == 200 else " was refused" if made.status < 500 else " failed"
            facts = wanted.poller, wanted.change, wanted.by, end, made.message
            logger.log(level, "%s: %s asked for by %s%s: %s", *facts)
        self.made(wanted.poller)
        self._ended(wanted)
        future.set_result(made)

    def _ended(self, wanted: WantedChange) -> None:
        """Before its answer is given: the reader of that may ask for the next one at once."""
        with self._lock:
            self._under_way.pop(wanted.poller, None)


def _wanted(request: Request, name: str) -> WantedChange | Answer:
    """What the body asks for; nothing of it is repeated in a refusal."""
    try:
        asked = ChangeRequest.model_validate(read_json(request.body))
    except NotBoundedJson:
        return refusal(400, "the body must be JSON")
    except ValidationError:
        return refusal(
            422, "the body must have change, name and by; id for a replay or a discard; it may have reason, and no more"
        )
    if asked.name != name:
        return refusal(422, "the name that was typed is not the poller's")
    one_row = asked.change in ("replay", "discard")
    if one_row != (asked.id is not None) or (asked.id is not None and not is_id(asked.id)):
        return refusal(422, "a replay and a discard need the id of one row, 16 hexadecimal digits; others take none")
    typed = escape(" ".join(asked.by.split()))[:LONGEST_TYPED]
    if not is_visible(asked.by):
        return refusal(422, "who asks must be given")
    by = CALLER.format(typed=typed, place=f", {escape(request.remote)[:100]}" if request.remote else "")
    return WantedChange(asked.change, name, asked.id, by, asked.reason)


def _answered(wanted: WantedChange, future: Future[MadeChange], patience: float) -> Answer:
    said = {"change": wanted.change, "name": wanted.poller}
    try:
        made = future.result(patience)
    except TimeoutError:
        if not future.done():
            return answer(202, {**said, "changed": None, "message": "It is under way. Look at the poller again."})
        made = future.result()
    if made.status != 200:
        return refusal(made.status, made.message)
    return answer(200, {**said, "changed": made.changed, "message": made.message})


def same_origin(origin: str, host: str) -> bool:
    """True if a page of this `Origin` was served under this `Host`: the same name and port.

    A proxy that speaks TLS before us does not say so in `Host`, so the scheme is the page's own, with its usual port.
    Only on this machine may it be `http`: elsewhere a machine on the way could have written such a page.
    """
    page, ours = _ORIGIN.fullmatch(origin), _HOST.fullmatch(host)
    if page is None or ours is None or page["name"].lower() != ours["name"].lower():
        return False
    usual = _PORTS[page["scheme"]]
    if int(page["port"] or usual) != int(ours["port"] or usual):
        return False
    return page["scheme"] == "https" or is_loopback(page["name"].lower())
