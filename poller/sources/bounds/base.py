"""What all bound strategies have in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any, Protocol

from sqlalchemy.engine import Connection

from poller.databases.samplers import Remembering
from poller.errors import SourceError
from poller.model.cursor import CursorKind
from poller.model.limits import LONGEST_CURSOR
from poller.ports import Bound
from poller.sources.columns import Column, Family
from poller.sources.columns.moments import floor_to, iso_text, to_zone, unit_of


class BoundStrategy(Remembering, Protocol):
    """Determines the current bound.

    `sample` runs one or more statements on an autocommit connection, BEFORE the page, and ends every transaction that
    it begins. It may raise what the driver raises; the source translates it.
    """

    @property
    def kind(self) -> str:
        """`exact`, `observed`, `heuristic`, `none`, ...: what `Bound.kind` says."""
        ...

    def sample(self, connection: Connection) -> Bound:
        """The bound now; `value` is None while it is not known, with a `reason`."""
        ...


class Stateless:
    """A strategy or sampler whose every sample is complete: there is nothing to remember."""

    def remember(self) -> dict[str, Any] | None:
        """None."""
        return None

    def recall(self, memory: Mapping[str, Any]) -> None:
        """Ignores it."""


def on_copy(kind: str, table: str | None) -> SourceError:
    """The error for a copy of a database, such as `a standby`, which does not show transactions of its primary."""
    return SourceError(
        f"The database is {kind}: transactions that are open on its primary cannot be seen here.",
        table=table or "",
        next_step='Connect to the primary, or accept the risk with bound = "delay".',
    )


@dataclass(frozen=True)
class BoundContext:
    """What a strategy may know of the source.

    Attributes:
        family: postgresql, mysql, sqlite, mssql; mariadb: whether a mysql server is a MariaDB.
        kind: the cursor's kind; column: the cursor's column; zone: what naive values of it mean (None: it is zoned).
        schema, table: the table, None for a query; query: the user's SQL, None for a table.
        settle: the longest time between taking a timestamp and becoming visible. delay: what a bound that is a delay
            subtracts; extra_delay: what one subtracts that needs none, if `settle` is set (else zero).
        ignore_users: users that only read.
        clock: a SELECT of the server's clock in UTC as text; highest: a SELECT of the greatest cursor as text;
            highest_below: the same, of those below `:below`.
    """

    family: str
    mariadb: bool
    kind: CursorKind
    column: Column
    zone: tzinfo | None
    schema: str | None
    table: str | None
    query: str | None
    settle: timedelta
    delay: timedelta
    extra_delay: timedelta
    ignore_users: Sequence[str]
    clock: str
    highest: str
    highest_below: str

    def render(self, moment: datetime) -> str:
        """An instant in the column's own form: rounded down to the column's precision and one unit less, because a
        column that holds fewer digits rounds to the nearest (sources.md)."""
        form = self.column.form
        if form is not None:
            offset = form.offset()
            local = (
                (moment.astimezone(UTC) + offset).replace(tzinfo=None) if offset is not None else self._local(moment)
            )
            return form.below(local)
        if self.column.family is Family.DATE:
            return self._local(moment).date().isoformat()  # a row of today may come until midnight
        zoned = self.column.family is Family.TIMESTAMPTZ
        local = moment.astimezone(UTC) if zoned else self._local(moment)
        unit = unit_of(self.column.digits)
        return iso_text(floor_to(local, unit) - unit, self.column.digits, zoned=zoned)

    def remembered(self, value: Any) -> str:
        """A bound's text that an earlier process remembered. Raises: ValueError where it is not one."""
        if not isinstance(value, str) or len(value) > LONGEST_CURSOR or "\0" in value:
            raise ValueError("not the text of a bound")
        if self.kind in ("integer+pk", "xid8+pk"):
            int(value)
        return value

    def bound(
        self, at: datetime, clock: datetime, *, kind: str, held_by: str | None = None, reason: str | None = None
    ) -> Bound:
        """A `Bound` at an instant, given the server's clock; both zone-aware."""
        return Bound(
            kind=kind,
            value=self.render(at),
            at=at.astimezone(UTC),
            age_seconds=max(0.0, (clock - at).total_seconds()),
            held_by=held_by,
            clock=iso_text(clock.astimezone(UTC), 6, zoned=True),
            reason=reason,
        )

    def _local(self, moment: datetime) -> datetime:
        return to_zone(moment, self.zone or UTC)
