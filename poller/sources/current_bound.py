"""The bound in force of one source: chosen per connection, kept across connections and, by memory, across processes."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Hashable, Mapping
from dataclasses import replace
from datetime import UTC, timedelta
from typing import Any

from poller.model.cursor import Cursor
from poller.ports import Bound
from poller.sources import bounds, stamping
from poller.sources.columns import Family
from poller.sources.connection import Database
from poller.sources.facts import TableChanged
from poller.sources.inspection import Inspection
from poller.sources.options import Options
from poller.sources.page import Statements

ZONE_EVERY = 60.0
"""Seconds between two looks at the zone in which the database stamps: the setting may change."""
AGAIN_FOR = 1.0
"""For so many seconds from just before its sample a bound may serve again (throughput.md, "Reader")."""
SAMPLED_BEFORE = 0.2
"""A sample may have begun so many seconds before it was asked for: another reader's, or MariaDB's last one."""
_HOLDS = "holds_session"
USUAL = timedelta(seconds=1)
"""`settle`, where it is not set."""
WAIT = 5.0
"""Seconds for which a process that has just begun samples, if rows wait."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.001, 0.1


class CurrentBound:
    """Determines the bound before each page. Another connection may lead to another server (a fail-over) or have other
    privileges: where its place is another, the strategy is chosen again, and continues from what the former one
    knew."""

    def __init__(self, database: Database, options: Options, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self.patience = WAIT
        self._zone_seen = 0.0
        self._database = database
        self._options = options
        self._bound: bounds.MonotonicBound | None = None
        self._made_for: tuple[Inspection, Hashable] | None = None
        """What was known of the table, and the connection's place."""
        self._memory: dict[str, Any] = {}
        self._last: tuple[Bound, float, object] | None = None
        """The last bound, when its sample may have begun, and on which loan of a connection; None once anything
        happened that it may not outlive."""

    def again(self, known: Inspection) -> Bound | None:
        """The last bound, where it may serve for another page: it is younger than `AGAIN_FOR`, of this connection to
        this one server, lent to no other source since, and nothing went wrong. Its age counts on. None: take another
        sample."""
        if self._last is None or self._made_for is None:
            return None
        (bound, began, lent), (made_for, _) = self._last, self._made_for
        passed = self._monotonic() - began
        if passed > AGAIN_FOR or made_for is not known or lent is not self._database.lent():
            return None
        if bound.clock_went_back or bound.below_checkpoint or (bound.value is None and bound.kind != "none"):
            return None
        if not self.holds_session():
            return None
        return (
            bound
            if bound.age_seconds is None
            else replace(bound, age_seconds=bound.age_seconds + passed - SAMPLED_BEFORE)
        )

    def holds_session(self) -> bool:
        """Whether the connection surely leads to one session of one server; asked once per session."""
        facts = self._database.facts()
        if _HOLDS not in facts:
            facts[_HOLDS] = self._database.dialect.holds_session(self._database.connection())
        return bool(facts[_HOLDS])

    def drop(self) -> None:
        """The last bound serves no other page: something failed, or was looked at anew."""
        self._last = None

    def choose_again(self) -> None:
        """What decides which kind of bound is available may have changed. What the last one knew is kept."""
        self._memory, self._bound, self._made_for, self._last = self.remember() or {}, None, None, None

    def sample(self, known: Inspection, statements: Statements, after: Cursor | None = None) -> Bound:
        """The present bound, in its own statements, before the page that begins at the checkpoint `after`."""
        try:
            return self._sampled(known, statements, after)
        except TableChanged:  # what its counter rests on
            self.choose_again()
            return self._sampled(known, statements, after)

    def _sampled(self, known: Inspection, statements: Statements, after: Cursor | None) -> Bound:
        self.drop()
        connection, place = self._database.connection(), self._database.place()
        if self._bound is None or self._made_for != (known, place):
            self._refuse_other_stamps(known)
            self._zone_seen = self._monotonic()
            context = self.context(known, statements)
            bound = bounds.MonotonicBound(bounds.choose(self._options.bound, context, connection), context)
            memory = self.remember() or {}
            self._bound, self._made_for = bound, (known, place)
            self.recall(memory)
        elif self._monotonic() - self._zone_seen >= ZONE_EVERY:
            self._refuse_other_stamps(known)  # a refusal is repeated at every page
            context = self.context(known, statements)
            if bounds.choose(self._options.bound, context, connection).kind != self._bound.kind:
                self.choose_again()
                return self._sampled(known, statements, after)
            self._zone_seen = self._monotonic()
        self._database.dialect.before(self._database.driver_connection(), self._database.timeout)
        began = self._monotonic() - SAMPLED_BEFORE
        taken = self._bound.sample(connection, after)
        self._last = taken, began, self._database.lent()
        return taken

    def _refuse_other_stamps(self, known: Inspection) -> None:
        """The database must stamp with the present time, in the configured zone, before rows are read below a bound.

        Raises: ConfigError naming `cursor_time_zone` or `settle`.
        """
        o = self._options
        if o.bound in ("delay", "none") or o.cursor_kind != "timestamp+pk":
            return
        family = self._database.dialect.family
        cursor = stamping.watched(family, o)
        found = stamping.origin(self._database, cursor)
        by_days = known.cursor.family is Family.DATE or (
            known.cursor.form is not None and not known.cursor.form.separator
        )
        covered = by_days or o.settle > USUAL
        refused = None if covered else stamping.earlier(o.what, o.cursor_column, family, found)
        if refused is None and stamping.needs_zone(o, known.cursor):
            stamps = stamping.stamps(self._database, cursor, found)
            refused = stamping.difference(o.what, o.cursor_column, o.zone or UTC, stamps, found.hidden)
        if refused is not None:
            raise refused

    def wait(self, bound: Bound, known: Inspection, statements: Statements, waiting: Callable[[], bool]) -> Bound:
        """For a process that has just begun to sample: more samples, for up to `WAIT`, if rows wait. Not for a delay,
        which would take as long as it is."""
        if not bound.cold:
            return bound
        if not waiting():
            return replace(bound, cold=False)
        end, pause = time.monotonic() + self.patience, _FIRST_PAUSE
        while bound.kind != "heuristic" and time.monotonic() < end:
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
            bound = self.sample(known, statements)
            if bound.value is not None or not bound.cold:
                break
        return bound

    def remember(self) -> dict[str, Any] | None:
        """See `ports.Source.remember`."""
        known = None if self._bound is None else self._bound.remember()
        if known and "reset" in self._memory:
            known["reset"] = self._memory["reset"]
        return known or self._memory or None

    def recall(self, memory: Mapping[str, Any]) -> None:
        """See `ports.Source.recall`. After an operator's reset, earlier knowledge is dropped: a clock that was wrong
        would hold the bound for ever, in this process if not in the document."""
        self.drop()
        if memory.get("reset") != self._memory.get("reset"):
            self._bound = self._made_for = None
        self._memory = dict(memory)
        if self._bound is not None:
            with contextlib.suppress(ValueError, TypeError, KeyError, AttributeError, OverflowError):  # not ours
                self._bound.recall(memory)

    def close(self) -> None:
        """Leave the shared samples; the next connection continues from what is known."""
        self._memory = self.remember() or {}
        self._bound = self._made_for = self._last = None

    def reset_after_fork(self) -> None:
        """In a child process: as after `close`, but without reading what other threads of the parent may hold."""
        self._bound = self._made_for = self._last = None

    def context(self, known: Inspection, statements: Statements) -> bounds.BoundContext:
        """What a strategy may know."""
        o = self._options
        return bounds.BoundContext(
            family=self._database.dialect.family,
            mariadb=bool(getattr(self._database.engine.dialect, "is_mariadb", False)),
            kind=o.cursor_kind,
            column=known.cursor,
            zone=o.zone,
            schema=o.schema_name,
            table=o.table,
            query=o.query,
            settle=o.settle,
            delay=o.delay,
            extra_delay=o.extra_delay,
            ignore_users=o.bound_ignore_users,
            clock=statements.clock(),
            highest=statements.highest(),
            highest_below=statements.highest(below=True),
        )
