"""The bound in force of one source: its sampler is chosen per connection, what is known goes across connections and
processes."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Hashable, Mapping
from dataclasses import replace
from datetime import UTC, timedelta
from typing import Any

from sqlalchemy.engine import Connection

from poller import once
from poller.errors import ConfigError
from poller.model.cursor import Cursor
from poller.ports import Bound
from poller.sources import stamping
from poller.sources.bound import Memory, as_json, bound_of, recalled
from poller.sources.columns import Family
from poller.sources.connection import Database
from poller.sources.database import Asked, Dialect, Sampler, delayed, no_bound
from poller.sources.facts import Inspection, TableChanged
from poller.sources.options import ReadOptions
from poller.sources.page import Statements

ZONE_EVERY = 60.0
"""Seconds between two looks at the zone in which the database stamps: the setting may change."""
AGAIN_FOR = 1.0
"""Seconds from just before its sample for which a bound may serve again (throughput.md, "Reader")."""
SAMPLED_BEFORE = 0.2
"""The most seconds by which a sample may have begun before it was asked for: another reader's, or MariaDB's last
one."""
_HOLDS = "holds_session"
USUAL = timedelta(seconds=1)
"""`settle`, if it is not set."""
WAIT = 5.0
"""Seconds in all for which a process that has just begun samples, if rows wait."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.001, 0.1


class CurrentBound:
    """Determines the bound before each page. Another connection may lead to another server (a fail-over) or have other
    privileges: where its place is another, the sampler is chosen again, and continues from what the former one knew."""

    def __init__(
        self, database: Database, options: ReadOptions, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._monotonic = monotonic
        self.patience = WAIT
        self._left = 0.0
        """Of `patience`, for the present sampler."""
        self._zone_seen = 0.0
        self._database = database
        self._options = options
        self._sampler: Sampler | None = None
        self._known = Memory()
        self._made_for: tuple[Inspection, Hashable] | None = None
        """What was known of the table, and the connection's place."""
        self._memory: dict[str, Any] = {}
        """What was remembered before the present sampler, by another process or place."""
        self._last: tuple[Bound, float, object] | None = None
        """The last bound, when its sample may have begun, and on which loan of a connection; None once anything
        happened that it may not outlive."""

    def again(self, known: Inspection) -> Bound | None:
        """The last bound, if it may serve for another page: it is younger than `AGAIN_FOR`, of this connection to
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
        """True if the connection surely leads to one session of one server; asked once per session."""
        facts = self._database.facts()
        if _HOLDS not in facts:
            facts[_HOLDS] = self._database.dialect.holds_session(self._database.connection())
        return bool(facts[_HOLDS])

    def drop(self) -> None:
        """The last bound serves no other page: something failed, or was looked at again."""
        self._last = None

    def sample(self, known: Inspection, statements: Statements, after: Cursor | None = None) -> Bound:
        """The present bound, in its own statements, before the page that begins at the checkpoint `after`."""
        try:
            return self._sampled(known, statements, after)
        except TableChanged:  # what its counter rests on
            self.close()
            return self._sampled(known, statements, after)

    def _sampled(self, known: Inspection, statements: Statements, after: Cursor | None) -> Bound:
        self.drop()
        connection, place = self._database.connection(), self._database.place()
        if self._sampler is None or self._made_for != (known, place):
            with once.command():  # both follow the cursor's column to its table
                self._refuse_other_stamps(known)
                self._zone_seen = self._monotonic()
                sampler, memory = self.choose(known, statements), self.remember() or {}
            self._sampler, self._known, self._made_for = sampler, Memory(), (known, place)
            self._left = self.patience
            self.recall(memory)
        elif self._monotonic() - self._zone_seen >= ZONE_EVERY:
            with once.command():
                self._refuse_other_stamps(known)  # a refusal is repeated at every page
                kind = self.choose(known, statements).rule.kind
            if kind != self._sampler.rule.kind:
                self.close()
                return self._sampled(known, statements, after)
            self._zone_seen = self._monotonic()
        sampler = self._sampler
        self._database.dialect.before(self._database.driver_connection(), self._database.timeout)
        began = self._monotonic() - SAMPLED_BEFORE
        taken, self._known = bound_of(sampler.rule, self._options, sampler.take(connection), self._known, after)
        self._last = taken, began, self._database.lent()
        return taken

    def _refuse_other_stamps(self, known: Inspection) -> None:
        """The database must stamp with the present time, in the configured zone, before rows are read below a bound.

        Raises: ConfigError naming `cursor_time_zone` or `settle`.
        """
        o = self._options
        if o.bound in ("delay", "none") or not o.is_timed:
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
        """For a process that has just begun to sample: more samples, for up to `WAIT` in all, if rows wait. Not for a
        delay, which would take as long as it is; and not again for a transaction that stays open."""
        if not bound.cold:
            return bound
        if not waiting():
            return replace(bound, cold=False)
        pause = _FIRST_PAUSE
        while bound.kind != "heuristic" and self._left > 0:
            began = time.monotonic()
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
            bound = self.sample(known, statements)
            self._left -= time.monotonic() - began
            if bound.value is not None or not bound.cold:
                break
        return bound

    def remember(self) -> dict[str, Any] | None:
        """See `ports.Source.remember`."""
        known, sampler = None, self._sampler
        if sampler is not None:
            samples = None if sampler.memory is None else sampler.memory.remember()
            known = as_json(sampler.rule, self._known, samples)
        if known and "reset" in self._memory:
            known["reset"] = self._memory["reset"]
        return known or self._memory or None

    def recall(self, memory: Mapping[str, Any]) -> None:
        """See `ports.Source.recall`. After an operator's reset, earlier knowledge is dropped: a clock that was wrong
        would hold the bound for ever, in this process if not in the document."""
        self.drop()
        if memory.get("reset") != self._memory.get("reset"):
            self._sampler = self._made_for = None
        self._memory = dict(memory)
        if self._sampler is not None:
            # In whole or, if no such process wrote it, not at all.
            with contextlib.suppress(ValueError, TypeError, KeyError, AttributeError, OverflowError):
                known, samples = recalled(self._sampler.rule, self._options, self._known, memory)
                if self._sampler.memory is not None and samples:
                    self._sampler.memory.recall(samples)
                self._known = known

    def close(self) -> None:
        """Leave the shared samples, and choose again for the next page, which continues from what is known: what
        decides which kind of bound is available may have changed."""
        self._memory = self.remember() or {}
        self.reset_after_fork()

    def reset_after_fork(self) -> None:
        """In a child process: as after `close`, but without reading what other threads of the parent may hold."""
        self._sampler = self._made_for = self._last = None

    def choose(self, known: Inspection, statements: Statements) -> Sampler:
        """See `choose`; with the present connection."""
        asked = Asked(
            self._options, known.cursor, statements.clock(), statements.highest(), statements.highest(below=True)
        )
        return choose(self._database.dialect, asked, self._database.connection())


def choose(dialect: Dialect, asked: Asked, connection: Connection) -> Sampler:
    """How samples are taken for the bound that is asked for. One that was asked for by name is never replaced by a
    delay.

    Raises: as `Dialect.sampler`; ConfigError naming `bound` (not available here).
    """
    o = asked.options
    if o.bound == "none":
        return no_bound(asked, "asked for")
    if o.bound == "delay":
        return delayed(asked, "asked for")
    found = dialect.sampler(asked, connection)
    if not isinstance(found, str):
        return found
    if o.bound != "auto":
        raise ConfigError(
            f"`bound` is {o.bound}, which is not available here: {found}.",
            key="bound",
            next_step='Fix that, or set bound = "auto", which then falls back to a delay.',
        )
    return delayed(asked, found)
