"""One look at one poller for its health: its document by one read, a page of one row, one count. Writes nothing, takes
no lease, and uses neither the connection nor the lock of a tick that runs in this process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime

from poller.admin import health_words
from poller.admin.health import HealthBound, PollerHealth
from poller.admin.health_facts import facts_of, rows_of, rule_of, worker_of
from poller.admin.health_quick import QuickLooks
from poller.admin.wired import WiredPoller, operator_of
from poller.delivery.ordering import check_ordering_key
from poller.delivery.preflight import check_fingerprint, reads_of
from poller.delivery.watches import PENDING_CAP
from poller.errors import SourceError, SourceUnavailable
from poller.lease.state_file import Copy
from poller.model import aside, backoff
from poller.model.cursor import Cursor
from poller.model.escape import shown
from poller.model.health import Rule, judge
from poller.model.health_memory import Facts, Rows, Seen, remembered
from poller.model.schedule import Schedule
from poller.ports import Bound, Lag, Source

_ANY = Schedule("* * * * * *")


@dataclass(frozen=True, slots=True)
class Looked:
    """What one look found, before it is judged.

    Attributes:
        found: what is shown of it. paused_by: who paused it. failures: calls that failed in a row.
        failure: what ended the look; None where it is complete.
    """

    facts: Facts
    rule: Rule
    found: PollerHealth
    paused_by: str | None = None
    failures: int = 0
    failure: Exception | None = None


class Look:
    """A look at one poller, which may be left alone before it has ended: what it has found until then is `so_far`."""

    def __init__(self, poller: WiredPoller, quick: QuickLooks | None = None) -> None:
        self._poller = poller
        self._quick = quick or QuickLooks()
        self.name = poller.name
        self.so_far: Looked | None = None
        self.ended = False
        self._spared: SourceError | None = None

    def spare(self, why: SourceError) -> None:
        """Read the document alone: the database does not answer."""
        self._spared = why

    def __call__(self) -> Looked:
        """Look. Raises nothing that is an Exception: what ended the look is its `failure`."""
        poller, rule = self._poller, rule_of(self._poller)
        file = operator_of(poller, "health").file
        try:
            copy = file.read() or file.read_unless_deleted()
        except Exception as error:  # noqa: BLE001 - one poller's trouble must not hide another's
            return failed(poller.name, error, file.clock.now(), rule)
        self.so_far = looked = _with_document(rule, copy, poller, file.clock.now())
        if self._spared is not None:
            return _ended(looked, self._spared, trouble=False)
        try:
            if copy is not None and self._nothing_waits(copy):
                return _with_none(looked, poller.source)
            with _own_source(poller) as source:
                looked = _with_rows(looked, source, copy, poller)
            self._quick.looked(poller.name, complete=copy is not None)
            return looked
        except Exception as error:  # noqa: BLE001
            self._quick.looked(poller.name, complete=False)
            return _ended(looked, error, trouble=not isinstance(error, SourceError))

    def _nothing_waits(self, copy: Copy) -> bool:
        """Whether surely no row waits; a document of another source is none to ask by."""
        state, described = copy.state, self._poller.source.describe()
        if not described.belongs(state.source_fingerprint, state.source):
            return False
        return self._quick.nothing_waits(self._poller, state)

    def unanswered(self, error: SourceError, now: datetime) -> Looked:
        """What there is of it where the database did not answer in time."""
        return failed(self.name, error, now) if self.so_far is None else _ended(self.so_far, error, trouble=False)


def failed(name: str, error: Exception, now: datetime, rule: Rule | None = None) -> Looked:
    """A look that found nothing: a poller that cannot be made, or a document that cannot be read."""
    facts = Facts(now=now, trouble=True)
    return Looked(facts, rule or Rule(schedule=_ANY), PollerHealth(name=name, healthy=True), failure=error)


def judged(looked: Looked, before: Seen | None) -> tuple[PollerHealth, Seen]:
    """What the rule says, and what to remember of this look. `before`: what was remembered of earlier ones."""
    facts, rule = looked.facts, looked.rule
    seen = remembered(before, facts)
    verdict = judge(facts, rule, seen)
    found = looked.found.model_copy(
        update={
            "healthy": verdict.healthy,
            "late_seconds": verdict.late,
            "bound": looked.found.bound and looked.found.bound.model_copy(update={"held_seconds": verdict.held}),
        }
    )
    error = looked.failure
    wrong = None if error is None else health_words.what_is_wrong(error, found.name)
    if not verdict.healthy:
        reason, next_step = wrong if verdict.kind == "trouble" and wrong else health_words.reason(verdict, found, rule)
        found = found.model_copy(update={"reason": reason, "next_step": next_step})
    waits = health_words.waiting_for(verdict, found, paused_by=looked.paused_by, failures=looked.failures)
    found = found.model_copy(update={"waiting_for": waits, "error": None if wrong is None else wrong[0]})
    return (found if error is None else found.because_of(error)), seen


def _ended(looked: Looked, error: Exception, *, trouble: bool) -> Looked:
    """`trouble`: it is the document's, or the configuration's, which a pause does not excuse."""
    return replace(looked, facts=replace(looked.facts, trouble=trouble, rows=None), failure=error)


def _with_document(rule: Rule, copy: Copy | None, poller: WiredPoller, now: datetime) -> Looked:
    found = PollerHealth(name=poller.name, healthy=True)
    if copy is None:
        return Looked(Facts(now=now, exists=False), rule, found.model_copy(update={"exists": False}))
    state, facts = copy.state, facts_of(copy, poller, now)
    listed = aside.parking_ended(state)
    ahead = facts.retry_at is not None and facts.retry_at > now
    known = {
        "exists": True,
        "paused": state.control.paused,
        "halted": state.control.halted,
        "backing_off_until": facts.retry_at if ahead else None,
        "aside": len(listed.aside),
        "aside_due": facts.aside_due,
        "quarantined": len(listed.quarantine),
        "owner_id": worker_of(copy, poller),
        "last_commit": state.checkpoint.updated_at,
    }
    shown_of_it = found.model_copy(update=known)
    return Looked(facts, rule, shown_of_it, paused_by=state.control.by, failures=backoff.failures_of(state))


def _with_rows(looked: Looked, source: Source, copy: Copy | None, poller: WiredPoller) -> Looked:
    """Raises: SourceError, FingerprintMismatch, ConfigError."""
    if copy is None:
        cursor = source.start()
    else:
        check_fingerprint(poller.name, copy.state, source)
        check_ordering_key(poller.name, copy.state, source, poller.options.ordering_key)
        source.recall(copy.state.bound or {})
        cursor = copy.state.checkpoint.cursor
    with reads_of(poller.name, None if copy is None else copy.state, source):
        page = source.page(cursor, 1)
    if copy is not None:  # by now the server was asked what the names in the configuration mean
        check_fingerprint(poller.name, copy.state, source)
    lag = _lag(source, cursor)
    rows = rows_of(page, lag)
    known = {
        "bound": _bound(page.bound, rows),
        "lag_seconds": None if lag is None else lag.seconds,
        "pending": None if lag is None else lag.pending,
        "pending_capped": lag is not None and lag.pending_capped,
    }
    return replace(looked, facts=replace(looked.facts, rows=rows), found=looked.found.model_copy(update=known))


def _with_none(looked: Looked, source: Source) -> Looked:
    lag = 0.0 if source.describe().cursor_kind == "timestamp+pk" else None
    found = looked.found.model_copy(update={"pending": 0, "lag_seconds": lag})
    return replace(looked, facts=replace(looked.facts, rows=Rows(readable=False)), found=found)


def _lag(source: Source, cursor: Cursor | None) -> Lag | None:
    """None where what waits cannot be counted in time, although a page could be read."""
    try:
        return source.lag(cursor, cap=PENDING_CAP)
    except SourceUnavailable:
        return None


def _bound(bound: Bound, rows: Rows) -> HealthBound:
    return HealthBound(
        kind=bound.kind,
        age_seconds=bound.age_seconds,
        held_by=None if bound.held_by is None else shown(bound.held_by),
        below_checkpoint=rows.below_checkpoint,
    )


@contextmanager
def _own_source(poller: WiredPoller) -> Iterator[Source]:
    """A source for this look alone: that of the poller serves a tick, which may run at this moment.

    Raises: LeaseHeld, where there can be no other and a tick runs.
    """
    source = poller.source.another()
    if source is None:
        with poller.alone():
            yield poller.source
        return
    try:
        yield source
    finally:
        source.close()
