"""The dispatcher: round after round, a message for each poller that is due and has rows.

What it knows of former rounds is in this process, and may be lost: then messages are sent twice. Where a poller stands
is read off its document (`place_of`), in the order of a tick, which looks again (`poller.tick.preflight`).
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Literal, Protocol

from poller.config import PollerOptions
from poller.dispatch.documents import Documents, Known
from poller.dispatch.messages import NotAWorkMessage, WorkMessage, decode, read
from poller.dispatch.probes import Answer, Prober, Question
from poller.dispatch.queues import Queue
from poller.dispatch.result import DispatchOutput, SentOutput, Why
from poller.dispatch.schedules import Schedules
from poller.errors import PollerError, StoreError
from poller.journal.configurations import Configurations
from poller.model import aside, backoff
from poller.model.aside import Limits
from poller.model.changes import operators_change
from poller.model.document import State
from poller.model.schedule import schedule_of
from poller.observability import log_events
from poller.observability.otel import recorded
from poller.ports import Runtime, Source, StateStore

logger = logging.getLogger("poller")

RESEND = timedelta(minutes=5)
"""A message whose poller's document did not change is sent again after this time. If no message waits in the queue,
a worker took it: then after the time of a lease and its margin, since that worker was killed before it had the lease,
    or found no rows that it might read."""
UNKNOWN_EVERY = timedelta(minutes=1)
"""While the bound is not known, a poller whose rows wait gets a message so often."""
QUIET = timedelta(seconds=30)
"""A poller whose database did not answer is not asked again, and gets no other message, during that time."""
UNCHANGED_EVERY = timedelta(hours=1)
"""A poller whose document is old gets a message so often, until its worker has written it."""
POISON_EVERY = timedelta(minutes=1)
OPERATED = timedelta(minutes=1)
"""An operator's change this much before a message may have come after it, by another clock."""
_GUESSES = frozenset({"not known", "no answer"})
_REPORTS = frozenset({"configuration", "unreadable"})
"""Nothing but an error comes of such a message, until it is repaired."""
_AT_ONCE = 8
"""So many messages are sent side by side."""
Standing = Literal["paused", "halted", "held", "backing_off", "due", "ready"]
"""`paused`, `halted`: an operator decides. `held`: a worker is at work. `backing_off`: the next call waits for its
time. `due`: it has something to do, whatever its schedule says. `ready`: its schedule decides."""
RESTING = frozenset({"paused", "halted", "backing_off"})
"""A tick would do nothing, so a moment of the schedule that passes meanwhile is done with."""


class Wired(Protocol):
    """What the questions about a poller need."""

    @property
    def source(self) -> Source: ...


@dataclass(frozen=True)
class Pollers:
    """The pollers of one app.

    Args:
        app_name: of the app. options: of those that are configured rightly. wire: makes one of them; it may raise a
            PollerError. wrong: the schedules of those that are not.
    """

    app_name: str
    options: Mapping[str, PollerOptions]
    wire: Callable[[str], Wired]
    wrong: Mapping[str, str] = field(default_factory=dict)

    @property
    def schedules(self) -> dict[str, str]:
        """Of all of them."""
        return {name: own.schedule for name, own in self.options.items()} | dict(self.wrong)


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A poller that is due. `why`: for what no question to the database is needed, None if it is asked."""

    poller: str
    since: datetime
    state: State | None
    why: Why | None


@dataclass(frozen=True, slots=True)
class _Sent:
    """A message. `tag`: the document's when it was sent; `at`: by the wall clock; `moment`: by the monotonic one."""

    why: Why
    tag: str | None
    at: datetime
    moment: float


@dataclass
class _Counts:
    at_work: int = 0
    resting: int = 0


class Dispatcher:
    """One app's dispatcher. Used by one thread at a time.

    Args:
        store: of the state documents; it must have listings. queue: where messages go. prober: who is asked whether
            rows wait. configurations: by which another one under this name is noticed.
    Raises: TypeError, for a store without listings.
    """

    def __init__(
        self,
        pollers: Pollers,
        *,
        store: StateStore,
        queue: Queue,
        prober: Prober,
        runtime: Runtime,
        configurations: Configurations | None = None,
    ) -> None:
        self._configurations = configurations
        self._pollers = pollers
        self._queue = queue
        self._prober = prober
        self._runtime = runtime
        self._names = names = pollers.schedules
        self._documents = Documents(store, pollers.app_name, names, runtime)
        self._schedules = Schedules(store, f"dispatch/{pollers.app_name}.json", names)
        self._sent: dict[str, _Sent] = {}
        self._new: dict[str, datetime] = {}
        """Of pollers without a document, since when that is known."""
        self._quiet: dict[str, float] = {}
        self._silent: dict[str, float] = {}
        """Of pollers that got no answer when they were last asked about, when that was."""
        self._unchanged: dict[str, float] = {}
        """Of pollers whose document is old, when a message was last due because of that."""
        self._poison_at = float("-inf")
        self._all_taken: bool | None = None
        """True if no message waits in the queue; None until that was asked in this round."""
        self._drained: dict[str, str] = {}
        """The document's tag of pollers whose document says that rows are left, although none was found."""
        self._mismatch: dict[str, tuple[str, bool]] = {}

    def round(self) -> DispatchOutput:
        """Look once, and send what is to be sent.

        Raises: StoreUnavailable, StoreDenied (no listing; nothing was sent), or what the queue raised for a message,
            after all others were sent.
        """
        return measured(self._pollers.app_name, self._round)

    def _round(self) -> DispatchOutput:
        began, now = self._runtime.monotonic(), self._runtime.utcnow()
        self._all_taken = None
        self._documents.look()
        self._schedules.look(now)
        counts = _Counts()
        candidates = [one for name in self._names if (one := self._candidate(name, now, counts))]
        candidates.sort(key=lambda one: (one.since, self._runtime.jitter(0.0, 1.0)))
        asked = [one for one in candidates if one.why is None]
        answers = self._answers(asked, now)
        wanted = [(one, why) for one in candidates if (why := self._why(one, answers, now)) is not None]
        free = [(one, why) for one, why in wanted if self._may_send(one.poller, why)]
        could = [one for one in candidates if answers.get(one.poller) != "held"]
        sent, failure = self._send(free, now)
        kept = self._schedules.keep(now)
        poison = self._take_poison()
        if self._configurations is not None and self._configurations.due():
            self._configurations.keep(log_events)
        if sent:
            logger.info("dispatch: %d of %d due pollers got a message", len(sent), len(candidates))
        if failure is not None:
            raise failure
        return DispatchOutput(
            at=now,
            pollers=len(self._names),
            documents=sum(self._documents.tag(name) is not None for name in self._names),
            read=self._documents.reads,
            at_work=counts.at_work,
            resting=counts.resting,
            due=len(candidates),
            late_seconds=max(0.0, (now - could[0].since).total_seconds()) if could else 0.0,
            asked=len(answers),
            waiting=len(wanted) - len(free),
            sent=sent,
            poison=poison,
            kept=kept,
            duration_seconds=round(self._runtime.monotonic() - began, 6),
        )

    def close(self) -> None:
        """Close the connections to databases and the queue."""
        self._prober.close()
        self._queue.close()

    # --- who is due ------------------------------------------------------------------------------------------------

    def _candidate(self, name: str, now: datetime, counts: _Counts) -> _Candidate | None:
        """The poller, if it may work and is due."""
        look = self._documents.of(name)
        fell = self._schedules.due.get(name)
        if name in self._pollers.wrong:
            return None if fell is None else _Candidate(name, fell.since, None, "configuration")
        if look == "missing":
            since = self._new.setdefault(name, now)
            return _Candidate(name, since, None, "no document")
        self._new.pop(name, None)
        if not isinstance(look, Known):
            counts.at_work += look == "moving"
            return None
        if look.state is None:
            return None if fell is None else _Candidate(name, fell.since, None, "unreadable")
        options = self._pollers.options[name]
        free = look.is_free(options.timing, self._runtime.monotonic())
        place = place_of(look.state, free=free, now=self._documents.clock.now(), limits=options.limits)
        if place.standing == "held":
            counts.at_work += 1
            return None
        self._settle(name, look.tag, look.state)
        if place.standing in RESTING:
            counts.resting += 1
            self._schedules.done(name, now)
            return self._old(name, look.state, now)
        if place.standing == "due":
            return _Candidate(name, place.since or now, look.state, "waits")
        old = self._old(name, look.state, now)
        if old is not None:
            return old
        fell = self._schedules.due.get(name)
        if fell is None:
            return self._left(name, look, look.state, now)
        return _Candidate(name, fell.since, look.state, None)

    def _is_long(self, name: str) -> bool:
        """True if it would be due again only after more than a minute."""
        fell = self._schedules.due.get(name)
        return fell is None or fell.long

    def _old(self, name: str, state: State, now: datetime) -> _Candidate | None:
        """The poller, if its document is to be written once more and no worker is at work (design): its tick does
        that."""
        moment = self._runtime.monotonic()
        last = self._unchanged.get(name, float("-inf"))
        if not self._documents.is_old(name) or moment - last < UNCHANGED_EVERY.total_seconds():
            return None
        self._unchanged[name] = moment
        return _Candidate(name, now, state, "unchanged")

    def _left(self, name: str, look: Known, state: State, now: datetime) -> _Candidate | None:
        """The poller, if a tick ended with rows left, and no successor comes: its worker was killed, or failed."""
        if not state.unfinished or self._drained.get(name) == look.tag:
            return None
        rested, timing = look.rested(self._runtime.monotonic()), self._pollers.options[name].timing
        if rested < timing.ttl + timing.margin:
            return None
        if rested < RESEND.total_seconds() and not self._is_all_taken():
            return None
        return _Candidate(name, now - timedelta(seconds=rested), state, None)

    def _settle(self, name: str, tag: str, state: State) -> None:
        """No worker is at work. If the document changed since its message was sent, one was, and the moments up to
        then are done with; unless that was an operator, or who worked was killed, or left rows above a bound that is
        held back: the database is asked again."""
        sent = self._sent.get(name)
        if sent is None or sent.tag == tag:
            return
        del self._sent[name]
        change = operators_change(state)
        operated = change is not None and change.at is not None and change.at > sent.at - OPERATED
        if state.lease.owner_id is None and not operated and not self._held_up(name, state, sent):
            self._schedules.done(name, sent.at)

    def _held_up(self, name: str, state: State, sent: _Sent) -> bool:
        """True if a tick ended and did not say that it has seen all rows of its moment, as it does if no other follows
        soon."""
        schedule = schedule_of(self._pollers.options[name].schedule)
        return not state.unfinished and schedule.owed(state.looked_at, sent.at)

    # --- whether rows wait -----------------------------------------------------------------------------------------

    def _answers(self, asked: list[_Candidate], at: datetime) -> dict[str, Answer | Why]:
        """What the databases say of those that are asked, or why one of them cannot be. Who got no answer the last
        time is asked last: a table that is locked keeps no other from being asked, however many are."""
        now, questions, answers = self._runtime.monotonic(), [], dict[str, Answer | Why]()
        for one in sorted(asked, key=lambda one: self._silent.get(one.poller, float("-inf"))):
            if self._quiet.get(one.poller, now) > now or one.state is None:
                continue
            self._quiet.pop(one.poller, None)
            source = self._source(one.poller, one.state)
            if isinstance(source, str):
                answers[one.poller] = source
            else:
                fell = self._schedules.due.get(one.poller)
                since = one.since if fell is None else fell.seen
                questions.append(Question(one.poller, source, one.state, (at - since).total_seconds()))
        found = self._prober.ask(questions) if questions else {}
        for name, answer in found.items():
            if answer in ("failed", "away"):
                self._quiet[name] = now + QUIET.total_seconds()
            if answer == "failed":
                self._silent[name] = now
            elif answer not in ("away", "later"):
                self._silent.pop(name, None)
        return answers | dict(found)

    def _source(self, name: str, state: State) -> Source | Literal["configuration", "unreadable"]:
        """The poller's source; why not, if it cannot be made, or its document is of another: its worker says what is
        wrong."""
        try:
            source = self._pollers.wire(name).source
            key = f"{state.source_fingerprint}"
            known = self._mismatch.get(name)
            if known is None or known[0] != key:
                known = key, source.describe().belongs(state.source_fingerprint, state.source)
                self._mismatch[name] = known
        except Exception as error:  # noqa: BLE001 - no fault may take the other pollers along
            if not isinstance(error, PollerError):
                logger.warning("dispatch: %s could not be made: %s", name, type(error).__name__)
            return "configuration"
        return source if known[1] else "unreadable"

    def _why(self, one: _Candidate, answers: Mapping[str, Answer | Why], now: datetime) -> Why | None:
        """Why it gets a message; None if it does not."""
        if one.why is not None:
            return one.why
        match answers.get(one.poller):
            case "configuration" | "unreadable" | "rows" as why:
                return why
            case "unknown":
                return "not known"
            case "failed":
                return "no answer"
            case "held" if self._is_long(one.poller):
                pass  # it stays due
            case "none" | "held":
                self._sent.pop(one.poller, None)
                self._schedules.done(one.poller, now)
                tag = self._documents.tag(one.poller)
                if one.state is not None and one.state.unfinished and tag is not None:
                    self._drained[one.poller] = tag
        return None  # not asked, or in vain

    # --- the messages ----------------------------------------------------------------------------------------------

    def _may_send(self, name: str, why: Why) -> bool:
        """True if no message for it is under way."""
        sent = self._sent.get(name)
        if sent is None or sent.tag != self._documents.tag(name):
            return True
        guessed = sent.why in _GUESSES and why == "rows"  # there may have been none when its worker looked
        pause = UNKNOWN_EVERY if guessed or why == "not known" else RESEND
        passed = self._runtime.monotonic() - sent.moment
        if passed >= pause.total_seconds():
            return True
        if why in _REPORTS or (why == "no document" and sent.at - self._new.get(name, sent.at) > RESEND):
            return False
        options = self._pollers.options.get(name)
        return options is not None and passed >= options.timing.ttl + options.timing.margin and self._is_all_taken()

    def _is_all_taken(self) -> bool:
        """True if no message waits in the queue: asked once in a round."""
        if self._all_taken is None:
            try:
                self._all_taken = self._queue.all_taken()
            except StoreError as error:
                logger.warning("dispatch: %s", error)
                self._all_taken = False
        return self._all_taken

    def _send(self, wanted: list[tuple[_Candidate, Why]], now: datetime) -> tuple[list[SentOutput], StoreError | None]:
        """Send a message for each, side by side; what was sent, and a failure."""
        failed: list[StoreError] = []

        def send(one: _Candidate) -> StoreError | None:
            if len(failed) >= _AT_ONCE:
                return failed[-1]  # the queue is away, and each attempt takes seconds: the next round tries
            try:
                self._queue.send(WorkMessage(self._pollers.app_name, one.poller, one.since))
            except StoreError as error:
                failed.append(error)
                return error
            return None

        candidates = [one for one, _ in wanted]
        with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="poller-dispatch") as pool:  # it makes threads on demand
            failures = list(pool.map(send, candidates))
        sent = []
        for (one, why), failure in zip(wanted, failures, strict=True):
            if failure is None:
                sent.append(SentOutput(poller=one.poller, due=one.since, why=why))
                tag = self._documents.tag(one.poller)
                self._sent[one.poller] = _Sent(why, tag, now, self._runtime.monotonic())
        return sent, failed[0] if failed else None

    def _take_poison(self) -> int:
        """Log the messages whose invocation failed, and remove them: each is sent again, if it is due."""
        now = self._runtime.monotonic()
        if now - self._poison_at < POISON_EVERY.total_seconds():
            return 0
        self._poison_at = now
        try:
            texts = self._queue.take_poison()
        except StoreError as error:
            logger.warning("dispatch: %s", error)
            return 0
        for text in texts:
            try:
                message = read(decode(text))
            except NotAWorkMessage as why:
                logger.warning("dispatch: a message in the poison queue is not ours: %s", why)
            else:
                logger.warning("%s: its message of %s failed, as its invocation says", message.poller, message.due)
        return len(texts)


def measured(app_name: str, round_: Callable[[], DispatchOutput]) -> DispatchOutput:
    """Do a round, and count it. Raises: what it raises."""
    try:
        output = round_()
    except Exception:
        recorded().not_dispatched(app_name)
        raise
    recorded().dispatched(
        app_name,
        due=output.due,
        late_seconds=output.late_seconds,
        probes=output.asked,
        messages=Counter(one.why for one in output.sent),
        seconds=output.duration_seconds,
    )
    return output


@dataclass(frozen=True, slots=True)
class DueState:
    """Where a poller stands. `since`: for `due`, since when, on the store's clock."""

    standing: Standing
    since: datetime | None = None


def place_of(state: State, *, free: bool, now: datetime, limits: Limits) -> DueState:
    """Where it stands.

    Args:
        free: whether its lease may be taken. now: on the store's clock. limits: the poller's.
    """
    if state.control.paused:
        return DueState("paused")
    if state.control.halted:
        return DueState("halted")
    if not free:
        return DueState("held")
    if backoff.waits_until(state, now, limits.backoff) is not None:
        return DueState("backing_off")
    wanted = _tries(state, now, limits)
    return DueState("ready") if wanted is None else DueState("due", min(wanted, now))


def _tries(state: State, now: datetime, limits: Limits) -> datetime | None:
    """The moment since which a call that failed may be made again, or a row that is set aside may be tried; None if
    neither."""
    moments = []
    if backoff.waits(state) and state.delivery.retry_at is not None:
        moments.append(state.delivery.retry_at)
    if state.retrying is not None:  # the process that tried it was killed
        moments.append(state.lease.heartbeat_at or now)
    row = aside.due(aside.after_reset(state), now, limits=limits)
    if row is not None:
        moments.append(row.retry_at or row.since or now)
    return min(moments, default=None)
