"""The bound in force of one source: chosen per connection, kept across connections and, by memory, across processes."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, timedelta
from typing import Any

from sqlalchemy.engine import Connection

from poller.model.cursor import Cursor
from poller.ports import Bound
from poller.sources import bounds, stamping
from poller.sources.columns import Column, Family
from poller.sources.connection import Database
from poller.sources.options import Options
from poller.sources.reading.inspection import Inspection
from poller.sources.reading.page import Statements

ZONE_EVERY = 60.0
"""Seconds from one look at the zone in which the database stamps to the next: its setting may be changed under way."""
USUAL_MARGIN = timedelta(seconds=1)
_FIRST_PAUSE, _LONGEST_PAUSE = 0.001, 0.1


class CurrentBound:
    """Takes the bound before each page. A new connection may lead to another server (a fail-over) or carry other
    privileges, so the strategy is then chosen anew; what the former one knew goes on."""

    def __init__(self, database: Database, options: Options, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._zone_seen = 0.0
        self._database = database
        self._options = options
        self._keeper: bounds.MonotonicBound | None = None
        self._seat: tuple[Column, Connection] | None = None
        self._memory: dict[str, Any] = {}

    def sample(self, known: Inspection, statements: Statements, after: Cursor | None = None) -> Bound:
        """The bound now, in statements of its own, before the page that begins at the checkpoint `after`."""
        connection = self._database.connection()
        if (
            self._keeper is None
            or self._seat is None
            or self._seat[0] != known.cursor
            or self._seat[1] is not connection
        ):
            self._refuse_other_stamps(known)
            self._zone_seen = self._monotonic()
            context = self.context(known, statements)
            keeper = bounds.MonotonicBound(bounds.choose(self._options.bound, context, connection), context)
            memory = self.remember() or {}
            self._keeper, self._seat = keeper, (known.cursor, connection)
            self.recall(memory)
        elif self._monotonic() - self._zone_seen >= ZONE_EVERY:
            self._refuse_other_stamps(known)  # again with every page, while it is so
            self._zone_seen = self._monotonic()
        self._database.dialect.before(self._database.driver_connection(), self._database.timeout)
        return self._keeper.sample(connection, after)

    def _refuse_other_stamps(self, known: Inspection) -> None:
        """Before anything is read below a bound: the database must stamp with the moment, and in the configured zone.

        Raises: ConfigError naming `cursor_time_zone` or `bound_margin`.
        """
        o = self._options
        if o.bound == "none" or o.stamped_by == "application" or o.cursor_kind != "timestamp+pk":
            return
        family = self._database.dialect.family
        cursor = stamping.watched(family, o)
        found = stamping.origin(self._database, cursor)
        by_days = known.cursor.family is Family.DATE or (
            known.cursor.form is not None and not known.cursor.form.separator
        )
        taken_off = o.bound_margin > USUAL_MARGIN  # by whoever knows how much
        before = (
            None
            if by_days or taken_off or o.bound == "heuristic"
            else stamping.earlier(o.what, o.cursor_column, family, found)
        )
        if before is not None:
            raise before
        if not stamping.needs_zone(o, known.cursor):
            return
        told = stamping.stamps(self._database, cursor, found)
        other = stamping.difference(o.what, o.cursor_column, o.zone or UTC, told, found.hidden)
        if other is not None:
            raise other

    def wait(self, bound: Bound, known: Inspection, statements: Statements, waiting: Callable[[], bool]) -> Bound:
        """For a process that has just begun to look: more samples, for up to `bound_wait`, where rows wait for it.
        A guess by age is not waited for: that would take as long as the guess."""
        if not bound.cold:
            return bound
        if not waiting():
            return replace(bound, cold=False)
        end, pause = time.monotonic() + self._options.bound_wait.total_seconds(), _FIRST_PAUSE
        while bound.kind != "heuristic" and time.monotonic() < end:
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
            bound = self.sample(known, statements)
            if bound.value is not None or not bound.cold:
                break
        return bound

    def remember(self) -> dict[str, Any] | None:
        """See `ports.Source.remember`."""
        known = None if self._keeper is None else self._keeper.remember()
        if known and "reset" in self._memory:
            known["reset"] = self._memory["reset"]
        return known or self._memory or None

    def recall(self, memory: Mapping[str, Any]) -> None:
        """See `ports.Source.recall`. After an operator's reset nothing of what was known before it goes on: a clock
        that was wrong would hold the bound for ever, in this process if not in the document."""
        if memory.get("reset") != self._memory.get("reset"):
            self._keeper = self._seat = None
        self._memory = dict(memory)
        if self._keeper is not None:
            with contextlib.suppress(ValueError, TypeError, KeyError, AttributeError, OverflowError):  # not ours
                self._keeper.recall(memory)

    def close(self) -> None:
        """Leave the samples that are shared; what is known goes on with the next connection."""
        self._memory = self.remember() or {}
        self._keeper = self._seat = None

    def begin_anew(self) -> None:
        """In a child process: as after `close`, but without a look at what other threads of the parent may hold."""
        self._keeper = self._seat = None

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
            margin=o.bound_margin,
            commit_delay=o.commit_delay,
            extra_delay=o.extra_delay,
            ignore_users=o.bound_ignore_users,
            clock=statements.clock(),
            highest=statements.highest(),
            highest_below=statements.highest(below=True),
            stamped_by=o.stamped_by,
        )
