"""Who takes samples: what a dialect is asked (`Asked`), and what it answers with (`Sampler`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from poller.databases.samplers import Remembering, Sample
from poller.errors import SourceError
from poller.ports import Bound
from poller.sources.bound import Greatest, Rule, Sampled
from poller.sources.columns import Column
from poller.sources.options import Options

MISSED = "rows of transactions open longer than commit_delay are missed"
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
    clock: str
    highest: str
    highest_below: str


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
    """The fallback: what is older than `commit_delay`. Safe only while no transaction stays open longer."""
    o = asked.options
    if o.cursor_kind != "timestamp+pk":
        return greatest(asked, Rule("heuristic", f"{reason}; {MISSED}", asked.column, o.commit_delay, "seen"))

    def take(connection: Connection) -> Sample:
        clock = read_clock(asked, connection)
        return Sample(clock, clock, clock)

    return Sampler(Rule("heuristic", f"{reason}; {MISSED}", asked.column, o.commit_delay), take)


def greatest(asked: Asked, rule: Rule, handed_out: Callable[[Connection], int] | None = None) -> Sampler:
    """For cursors that are not times, or come in order: up to the greatest value that was there long enough ago.
    `handed_out`: the greatest number that the database has handed out, where it keeps count."""

    def take(connection: Connection) -> Greatest:
        following = None if handed_out is None else handed_out(connection) + 1
        clock = read_clock(asked, connection)
        value = connection.execute(sa.text(asked.highest)).scalar()
        return Greatest(clock, None if value is None else str(value), following)

    return Sampler(rule, take)


def read_clock(asked: Asked, connection: Connection) -> datetime:
    """The server's clock."""
    return datetime.fromisoformat(connection.execute(sa.text(asked.clock)).scalar_one())


def on_copy(kind: str, table: str | None) -> SourceError:
    """The error for a copy of a database, such as `a standby`, which does not show transactions of its primary."""
    return SourceError(
        f"The database is {kind}: transactions that are open on its primary cannot be seen here.",
        table=table or "",
        next_step='Connect to the primary, or accept the risk with bound = "heuristic".',
    )
