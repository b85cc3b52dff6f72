"""How the cursor's column gets its values: in which zone it is stamped, and whether an UPDATE changes it.

The bound is the server's clock in `cursor_time_zone`. A column without a zone that is stamped in another zone is hours
away from it: then rows wait for hours, or those that commit late are lost (sources.md, "Rows that commit late"). So
before the first page the zone in which the database stamps is compared with the configured one.

One module per family of databases has `origin` (the table's column behind the cursor and what fills it), `server` (the
zones of the writers' sessions) and `offsets` (a zone's distance from UTC).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime, tzinfo
from importlib import import_module
from typing import Protocol, cast
from zoneinfo import ZoneInfo

from sqlalchemy.engine import Connection
from sqlalchemy.exc import DBAPIError

from poller.errors import ConfigError
from poller.sources.columns import Column, Family
from poller.sources.columns.moments import has_daylight_saving
from poller.sources.connection import Database
from poller.sources.dialects.faults import Fault
from poller.sources.options import Options
from poller.sources.stamping.expressions import Reading, is_earlier, read
from poller.sources.stamping.rules import Origin, Rule, Watched
from poller.sources.stamping.zones import Stamp, instants

__all__ = [
    "Origin",
    "Rule",
    "Stamp",
    "Watched",
    "difference",
    "earlier",
    "needs_zone",
    "origin",
    "promises_updates",
    "stamps",
    "watched",
]


class _Module(Protocol):
    def origin(self, connection: Connection, watched: Watched) -> Origin: ...

    def server(
        self, connection: Connection, watched: Watched, found: Origin, at: Sequence[datetime]
    ) -> list[Stamp]: ...

    def offsets(self, connection: Connection, zone: str, at: Sequence[datetime]) -> dict[datetime, int] | None: ...


def _module(family: str) -> _Module:
    return cast(_Module, import_module(f"{__name__}.{family}"))


def watched(family: str, options: Options) -> Watched:
    """The cursor's column of a source."""
    o = options
    return Watched(family, o.schema_name, o.table, o.query, o.cursor_column, o.bound_ignore_users)


def promises_updates(column: str) -> bool:
    """Whether a column's name promises that it changes with every change of its row, as `updated_at` does."""
    return _CHANGES.search(column) is not None


_CHANGES = re.compile(
    r"updat|modif|(?<!ex)changed|(?:^|_)change(?:_|$)|edited|touched|mtime|last_?(?:change|write|edit)", re.IGNORECASE
)


def needs_zone(options: Options, column: Column) -> bool:
    """Whether the bound of this cursor rests on what its times mean."""
    if options.cursor_kind != "timestamp+pk":
        return False
    if column.form is not None:
        return not column.form.zone
    return column.family in {Family.TIMESTAMP, Family.DATE}


def origin(database: Database, cursor: Watched) -> Origin:
    """The table's column behind the cursor, and what fills it. Raises what the driver raises."""
    try:
        return _module(cursor.family).origin(database.connection(), cursor)
    except DBAPIError as error:
        _refuse_but_forbidden(database, error)
        return Origin(None, None, "", [Rule("its definition, which this user may not read", None, True, True)])


def stamps(database: Database, cursor: Watched, found: Origin) -> list[Stamp]:
    """The zones in which the column is stamped, as far as the database shows them. Raises what the driver raises."""
    try:
        return _stamps(database.connection(), cursor, found)
    except DBAPIError as error:
        _refuse_but_forbidden(database, error)
        return [Stamp("", "the server's settings, which this user may not read", None)]


def _refuse_but_forbidden(database: Database, error: DBAPIError) -> None:
    if database.dialect.classify(error) is not Fault.FORBIDDEN:
        raise error


def _stamps(connection: Connection, cursor: Watched, found: Origin) -> list[Stamp]:
    module, at = _module(cursor.family), instants(datetime.now(UTC))
    known, by_session = [], False
    readings = [(rule, *_read(rule, cursor.family, found)) for rule in found.rules]
    for rule, reading, zone in readings:
        if reading is Reading.NOTHING or (rule.is_default and any(_goes_before(*one[:2]) for one in readings)):
            continue
        if reading is Reading.SESSION:
            by_session = True
        else:
            offsets = module.offsets(connection, zone, at) if zone else None
            known.append(Stamp(zone, rule.what, offsets))
    if by_session or not known:
        known += module.server(connection, cursor, found, at)
    return list({(one.zone, one.source): one for one in known}.values())


def _read(rule: Rule, family: str, found: Origin) -> tuple[Reading, str]:
    if rule.sql is None:
        return Reading.UNKNOWN, ""
    reading, zone = read(rule.sql, family)
    if reading is Reading.SESSION and found.table is None:
        return Reading.UNKNOWN, ""  # a query's or view's expression: in the reader's session, not in a writer's
    if reading is Reading.NOTHING and not rule.is_default and (found.table is None or rule.updates):
        return Reading.UNKNOWN, ""  # from other columns, which may be of any zone
    if reading is Reading.SESSION and rule.zone is not None:
        return Reading.FIXED, rule.zone
    return reading, zone


def _goes_before(rule: Rule, reading: Reading) -> bool:
    """Whether a trigger's value replaces, or may replace, the default's."""
    return rule.inserts and not rule.is_default and (rule.firm or reading is Reading.UNKNOWN)


def earlier(what: str, column: str, family: str, found: Origin) -> ConfigError | None:
    """The error where the database stamps with a time before the present; None where it is not known to."""
    rules = [rule for rule in found.rules if rule.sql is not None and found.table is not None]
    firm = any(rule.inserts and rule.firm and not rule.is_default for rule in rules)
    rule = next((r for r in rules if is_earlier(r.sql or "", family) and not (r.is_default and firm)), None)
    if rule is None:
        return None
    return ConfigError(
        f"{what}: {rule.what} sets {column} to a time before the present (truncated, or less an interval): rows would"
        " appear below the checkpoint, and be lost.",
        key="bound_margin",
        next_step=f"Let the database set {column} to the present time, or set `bound_margin` to a second more than the"
        " difference.",
    )


def difference(what: str, column: str, zone: tzinfo, stamps: Sequence[Stamp], hidden: str = "") -> ConfigError | None:
    """The error where a stamp's zone differs from the configured one; None where none is known to."""
    other = next((one for one in stamps if one.differs(zone) and not one.assumed), None)
    if other is None:
        return None
    name = other.iana
    ways = []
    if name is not None and not any(one.offsets not in (None, other.offsets) and not one.assumed for one in stamps):
        dst = name != "UTC" and has_daylight_saving(ZoneInfo(name))
        ways.append(f'set cursor_time_zone = "{name}"' + (" and allow_dst = true" if dst else ""))
    ways.append(f"let the database stamp {column} in {zone}")
    if other.role:
        ways.append(f'if that role never writes there, set bound_ignore_users = ["{other.role}"]')
    ways.append('or, if the application sets the times, set stamped_by = "application"')
    if hidden:
        ways.append(f"or let the poller's user see the {hidden}, if one stamps {column}")
    way = ", ".join(ways)
    return ConfigError(
        f"{what}: the database stamps {column} in {other} ({other.source}), and `cursor_time_zone` is {zone}: the bound"
        " would be hours off, and rows that commit late would be lost.",
        key="cursor_time_zone",
        next_step=f"{way[0].upper()}{way[1:]}.",
    )
