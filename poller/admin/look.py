"""One look at one poller: its document by one read, a page of one row, and two counts. It writes nothing and takes no
lease. Status, health, the status page and `poller check` all rest on it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Generic

from poller.admin.facts import ended, facts_of, limits_of, with_page
from poller.admin.failing import with_row
from poller.admin.quick import QuickLooks
from poller.admin.status import PollerStatus, S, with_document
from poller.admin.wired import WiredPoller, operator_of
from poller.errors import SourceError, SourceUnavailable
from poller.lease.state_file import Copy
from poller.model.conditions import view
from poller.model.cursor import Cursor
from poller.model.memory import PollerMemory, remembered
from poller.model.view import PollerFacts, PollerLimits
from poller.ports import InspectableSource, Lag, Page, Source
from poller.tick.ordering import check_ordering_key
from poller.tick.preflight import check_fingerprint, reads_of
from poller.tick.result import BoundOutput
from poller.tick.watches import PENDING_CAP


@dataclass(frozen=True, slots=True)
class Looked(Generic[S]):
    """What one look found, before it is judged.

    Attributes:
        status: all but the picture. failure: what ended the look; None if it is complete.
    """

    status: S
    facts: PollerFacts
    limits: PollerLimits
    failure: Exception | None = None

    def judged(self, before: PollerMemory | None = None) -> tuple[S, PollerMemory]:
        """The status with its picture, and what to remember of this look. `before`: what is remembered of earlier
        ones."""
        seen, facts = remembered(before, self.facts)
        status = self.status.pictured(view(facts, self.limits, seen.moments()))
        return (status if self.failure is None else status.failed(self.failure)), seen

    def ended(self, error: Exception) -> Looked[S]:
        """The same, and why it is not complete."""
        return replace(self, facts=ended(self.facts, error), failure=error)


class Look:
    """One check of one poller. Its caller may leave it before it has ended: what it has found until then is `so_far`.

    Args:
        source: which is asked; default: one of its own, which is neither the one of a tick that runs in this process
            nor waits for it. quick: what knows whether surely nothing waits.
        beside: another configuration that works under the name of its app, in a sentence. copy: the document, if it was
            read a moment ago.
    """

    def __init__(
        self,
        poller: WiredPoller,
        source: Source | None = None,
        quick: QuickLooks | None = None,
        beside: str | None = None,
        copy: Copy | None = None,
    ) -> None:
        self._poller = poller
        self._source = source
        self._quick = quick
        self._beside = beside
        self._copy = copy
        self.name = poller.name
        self.so_far: Looked[PollerStatus] | None = None
        self.ended = False
        self._spared: SourceUnavailable | None = None

    def spare(self, why: SourceUnavailable) -> None:
        """Read the document alone: the database does not answer."""
        self._spared = why

    def __call__(self) -> Looked[PollerStatus]:
        """Look. Raises nothing that is an Exception: what ended the look is its `failure`."""
        poller = self._poller
        file = operator_of(poller, "look").file
        status = PollerStatus(name=poller.name, app_name=poller.app_name, document=file.location)
        facts = PollerFacts(name=poller.name, now=file.clock.now(), two_apps=self._beside)
        looked = Looked(status, facts, limits_of(poller))
        try:
            copy = self._copy or file.read()
            if copy is None:
                looked = replace(looked, status=status.model_copy(update={"exists": False}))
                copy = file.read_unless_deleted()
        except Exception as error:  # noqa: BLE001 - one poller's trouble must not hide another's
            return replace(looked, facts=replace(facts, now=file.clock.now())).ended(error)
        self.so_far = looked = self._with_document(looked, copy, file.clock.now())
        try:
            if self._spared is not None and copy is not None:
                check_fingerprint(poller.name, copy.state, poller.source)
            if self._spared is not None:
                return looked.ended(self._spared)
            nulls = None if copy is None or self._quick is None else self._quick.nothing_waits(poller, copy.state)
            if nulls is not None:
                return _with_nothing(looked, poller.source, nulls)
            with self._asked() as source:
                looked = self._with_rows(looked, source, copy)
            # With a source that went back, it would be no good news that nothing waits.
            back = looked.facts.below_checkpoint or looked.facts.clock_back is not None
            self._noted(looked, complete=copy is not None and not back)
            return looked
        except Exception as error:  # noqa: BLE001
            self._noted(looked, complete=False)
            return self.so_far.ended(error)

    def unanswered(self, error: SourceUnavailable) -> Looked[PollerStatus]:
        """What there is of it if the database did not answer in time."""
        if self.so_far is not None:
            return self.so_far.ended(error)
        file = operator_of(self._poller, "look").file
        status = PollerStatus(name=self.name, app_name=self._poller.app_name, document=file.location)
        return Looked(status, PollerFacts(name=self.name, now=file.clock.now()), limits_of(self._poller)).ended(error)

    def _with_document(self, looked: Looked[PollerStatus], copy: Copy | None, now: datetime) -> Looked[PollerStatus]:
        if copy is None:
            facts = replace(looked.facts, document="none", now=now)
            return replace(looked, status=looked.status.unborn(starts_now=looked.limits.starts_now), facts=facts)
        now = copy.server_time or now
        facts = replace(facts_of(self.name, copy, self._poller, now), two_apps=self._beside)
        return replace(looked, status=with_document(looked.status, copy, self._poller, facts), facts=facts)

    def _with_rows(self, looked: Looked[PollerStatus], source: Source, copy: Copy | None) -> Looked[PollerStatus]:
        """What waits, and what will never be read. Raises: SourceError, FingerprintMismatch, ConfigError."""
        poller, cursor = self._poller, looked.status.cursor
        state = None if copy is None else copy.state
        if state is None:
            cursor = source.start()
            looked = replace(looked, status=looked.status.model_copy(update={"cursor": cursor}))
        else:
            check_fingerprint(poller.name, state, source)
            check_ordering_key(poller.name, state, source, poller.options.ordering_key)
            source.recall(state.bound or {})
        with reads_of(poller.name, state, source):
            try:
                page = source.page(cursor, 1)
            except SourceUnavailable:
                raise
            except SourceError:  # what can be counted is shown all the same
                with contextlib.suppress(SourceError):
                    self.so_far = _counted(looked, _lag(source, cursor), _null_cursors(source))
                raise
            looked = self.so_far = _counted(looked, _lag(source, cursor), _null_cursors(source))
        if state is not None:  # by now the server was asked what the names in the configuration mean
            check_fingerprint(poller.name, state, source)
        return _with_page(looked, page, poller)

    def _noted(self, looked: Looked[PollerStatus], *, complete: bool) -> None:
        if self._quick is not None:
            self._quick.looked(self.name, looked.facts.null_cursors if complete else None)

    @contextmanager
    def _asked(self) -> Iterator[Source]:
        """Raises: LeaseHeld, if there can be no source of its own and a tick runs."""
        if self._source is not None:
            yield self._source
            return
        source = self._poller.source.another()
        if source is None:
            with self._poller.alone():
                yield self._poller.source
            return
        try:
            yield source
        finally:
            source.close()


def look(
    poller: WiredPoller,
    *,
    silent: SourceUnavailable | None = None,
    seen: dict[str, PollerMemory] | None = None,
    beside: str | None = None,
    copy: Copy | None = None,
) -> PollerStatus:
    """The status of one poller, whose source is not used meanwhile. Raises nothing that is an Exception: what ended the
    look is in `error` and `failure`, and what was found before it is beside them.

    Args:
        silent: why the database is not asked. seen: what looks remember of each poller; this one's is added.
        beside, copy: as of `Look`.
    """
    one = Look(poller, poller.source, beside=beside, copy=copy)
    if silent is not None:
        one.spare(silent)
    looked = one()
    known = {} if seen is None else seen
    status, known[poller.name] = looked.judged(known.get(poller.name))
    return status


def _counted(looked: Looked[PollerStatus], lag: Lag | None, nulls: int | None) -> Looked[PollerStatus]:
    known = {
        "lag_seconds": None if lag is None else lag.seconds,
        "pending": None if lag is None else lag.pending,
        "pending_capped": lag is not None and lag.pending_capped,
        "null_cursors": None if nulls is None else min(nulls, PENDING_CAP),
        "null_cursors_capped": nulls is not None and nulls > PENDING_CAP,
    }
    facts = replace(
        looked.facts,
        pending=0 if lag is None else lag.pending,
        capped=lag is not None and lag.pending_capped,
        age=None if lag is None or not lag.pending else lag.seconds,
        null_cursors=nulls or 0,
    )
    return replace(looked, status=looked.status.model_copy(update=known), facts=facts)


def _with_page(looked: Looked[PollerStatus], page: Page, poller: WiredPoller) -> Looked[PollerStatus]:
    status = looked.status
    first = page.cursors[0] if page.cursors else None
    alone, most = status.pending == 1 or poller.options.batch_size == 1, poller.options.max_attempts
    failing = with_row(status.failing, first, alone=alone, max_attempts=most)
    known = {
        "bound": BoundOutput.model_validate(page.bound, from_attributes=True),
        "above_bound": not page.rows and bool(status.pending),
        "failing": failing,
    }
    return replace(looked, status=status.model_copy(update=known), facts=with_page(looked.facts, page, failing.row))


def _with_nothing(looked: Looked[PollerStatus], source: Source, nulls: int) -> Looked[PollerStatus]:
    lag = 0.0 if source.describe().cursor_kind == "timestamp+pk" else None
    found = looked.status.model_copy(update={"pending": 0, "lag_seconds": lag, "null_cursors": nulls})
    return replace(looked, status=found, facts=replace(looked.facts, null_cursors=nulls))


def _lag(source: Source, cursor: Cursor | None) -> Lag | None:
    """None if what waits cannot be counted in time, although a page could be read."""
    try:
        return source.lag(cursor, cap=PENDING_CAP)
    except SourceUnavailable:
        return None


def _null_cursors(source: Source) -> int | None:
    """The number of rows that have no value in the cursor column, up to one more than `PENDING_CAP`; None if that is
    not known: too many to count in time, or a source that cannot say."""
    if isinstance(source, InspectableSource):
        with contextlib.suppress(SourceError):
            return source.null_cursors(PENDING_CAP + 1)
    return None
