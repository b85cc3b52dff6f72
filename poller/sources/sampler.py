"""Who takes samples: what a dialect is asked (`Asked`), and what it answers with (`Sampler`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from poller.databases.pools import Session
from poller.databases.samplers import Maker, Reading, Remembering, Sample, SharedSampler, join
from poller.errors import SourceError
from poller.ports import Bound
from poller.sources.bound import Marked, Rule, Sampled
from poller.sources.columns import Column
from poller.sources.options import Options

BLOCKS = "an application may take a block of numbers and write the lower ones later"
"""Why a step other than 1 is a guess: Hibernate and others ask the sequence once for many rows."""


@dataclass(frozen=True)
class Asked:
    """What a sampler may know of the source.

    Attributes:
        column: the cursor's. clock: a SELECT of the server's clock in UTC as text; highest: a SELECT of the greatest
            cursor as text; highest_below: the same, of those below `:below`.
    """

    options: Options
    column: Column
    clock: sa.Executable
    highest: sa.Executable
    highest_below: sa.Executable


@dataclass(frozen=True)
class Sampler:
    """How samples are taken on connections that lead to one place, and what the bound of them rests on.

    Attributes:
        take: one or more statements on an autocommit connection, BEFORE the page, each transaction ended. May raise
            what the driver raises; the source translates it.
        memory: what earlier samples showed, beside `bound.Memory`.
    """

    rule: Rule
    take: Callable[[Connection], Sampled]
    memory: Remembering | None = None


def no_bound(asked: Asked, reason: str) -> Sampler:
    """Every committed row is read: for tables with a single writer, and for measuring what a bound costs."""
    rule = Rule("none", f"{reason}; rows that commit late are missed", asked.column)
    return Sampler(rule, lambda _: Bound(kind="none", reason=rule.reason))


def delayed(asked: Asked, reason: str) -> Sampler:
    """The fallback: what is older than `settle`. Safe only while no transaction stays open longer."""
    reason, delay = f"{reason}; rows of transactions open longer than `settle` are missed", asked.options.delay
    if not asked.options.is_timed:
        return greatest(asked, Rule("heuristic", reason, asked.column, delay, "seen"))
    return Sampler(Rule("heuristic", reason, asked.column, delay), lambda c: _now(asked, c))


def greatest(asked: Asked, rule: Rule, handed_out: Callable[[Connection], int] | None = None) -> Sampler:
    """For cursors that are not times, or come in order: up to the greatest value that was there long enough ago.
    `handed_out`: the greatest number that the database has handed out, where it keeps count."""

    def take(connection: Connection) -> Marked:
        following = None if handed_out is None else handed_out(connection) + 1
        now = _now(asked, connection)
        value = connection.execute(asked.highest).scalar()
        return Marked(None if value is None else str(value), now, following)

    return Sampler(rule, take)


def _now(asked: Asked, connection: Connection) -> Sample:
    """The server's clock, as if nothing were open."""
    clock = datetime.fromisoformat(connection.execute(asked.clock).scalar_one())
    return Sample(clock, clock, clock)


def shared(
    asked: Asked, kind: str, reading_of: Callable[[Connection], Reading | None], make: Maker, connection: Connection
) -> SharedSampler:
    """Samples of what is open on a server, shared by all sources of this process. `reading_of`: see `Reading`."""
    session, o = Session.of(connection), asked.options
    return join(
        reading_of(connection) if session is None else session.reading,
        make,
        connection,
        kind=kind,
        ignored=o.bound_ignore_users,
        numbers=not o.is_timed,
        table=o.table or "",
    )


def on_copy(kind: str, table: str | None) -> SourceError:
    """The error for a copy of a database, such as `a standby`, which does not show transactions of its primary."""
    return SourceError(
        f"The database is {kind}: transactions that are open on its primary cannot be seen here.",
        table=table or "",
        next_step='Connect to the primary, or accept the risk with bound = "delay".',
    )
