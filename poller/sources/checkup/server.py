"""The server: zones, its clock and this machine's, rows from the future, the bound in force, and connections."""

from __future__ import annotations

import os
import re
from datetime import UTC, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

from poller import once, tls
from poller.databases import tokens
from poller.databases.pools import Pool
from poller.databases.room import room_of
from poller.model.cursor import Cursor
from poller.model.finding import Finding, error, ok, warn
from poller.model.when import span, took
from poller.ports import Bound
from poller.sources import stamping
from poller.sources.bound import render
from poller.sources.checks import READER
from poller.sources.checkup.subject import Subject
from poller.sources.columns import has_daylight_saving
from poller.sources.facts import Inspection

APART = 5.0
"""Seconds by which two clocks may differ without a warning."""
OLD = 60.0
"""Seconds that a bound may lie behind without a warning."""
CAP = 10_000


def time_zone(subject: Subject) -> list[Finding]:
    """What naive times mean, and whether the database stamps them so; and zones in which an hour repeats."""
    known, zone = subject.session.table.learn(), subject.options.zone
    if known is None or not subject.options.is_timed:
        return []
    name = known.cursor.name
    if not stamping.needs_zone(subject.options, known.cursor):
        return [ok("time_zone", f"{name} is stored with a zone")]
    found = _stamped(subject, zone or UTC)
    if isinstance(zone, ZoneInfo) and has_daylight_saving(zone):
        found.append(
            warn(
                "time_zone",
                f"{name} has no zone and holds times of {zone.key} (allow_dst): rows written in the hour that repeats"
                f" each autumn {'can be skipped' if subject.options.bound == 'none' else 'wait until it repeats'}.",
                f"Store UTC in {name}, or use a type with a zone.",
            )
        )
    return found


def _stamped(subject: Subject, zone: tzinfo) -> list[Finding]:
    """The zone in which the database stamps the column, compared with the configured one."""
    o, name = subject.options, subject.options.cursor_column
    stamps = stamping.stamps(subject.session.database, subject.cursor, subject.origin)
    other = stamping.difference(o.what, name, zone, stamps, subject.origin.hidden)
    if other is not None:
        if o.bound == "delay":  # then rows are read all the same: the application may set the times
            return [warn("time_zone", other.message, other.next_step)]
        subject.other_zone = True
        return [error("time_zone", other.message, other.next_step)]
    # One that still differs here is assumed: nothing in the database stamps the column.
    unknown = next((one for one in stamps if one.offsets is None or one.differs(zone)), None)
    if unknown is not None:
        by = "nothing in the database stamps it" if unknown.assumed else unknown.source
        return [
            warn(
                "time_zone",
                f"{name} has no zone, and the zone in which it is stamped is unknown ({by}); its values are"
                f" taken as {zone}. With another zone the bound is hours off, and rows that commit late are lost.",
                f"Make sure that it is {zone}, or use a type with a zone.",
            )
        ]
    return [ok("time_zone", f"{name} has no zone; its values are {zone}, as {stamps[0].source} stamps them")]


def clock(subject: Subject) -> list[Finding]:
    """The database's clock, which makes the timestamps, compared with this machine's."""
    ahead = subject.ahead
    if abs(ahead.seconds) <= max(APART, ahead.asked_for):
        return [ok("clock", f"the database's clock is within {span(APART)} of this machine's")]
    where = "ahead of" if ahead.seconds > 0 else "behind"
    return [
        warn(
            "clock",
            f"The database's clock is {span(abs(ahead.seconds))} {where} this machine's: if applications set"
            f" {subject.options.cursor_column} by their own clocks, rows can be skipped.",
            "Synchronise both (NTP), or let the database set the column.",
        )
    ]


def future(subject: Subject) -> list[Finding]:
    """Rows dated after now: the bound holds them back until their time has come."""
    session = subject.session
    known = session.table.learn()
    if known is None or not subject.options.is_timed:
        return []
    statements = session.table.statements()
    now = subject.utcnow() + timedelta(seconds=subject.ahead.seconds)
    zone = timezone(now.astimezone(subject.options.zone or UTC).utcoffset() or timedelta())
    text = render(now + timedelta(seconds=APART), known.cursor, zone)
    count = 0
    for interval in statements.ranges(Cursor(kind=subject.options.cursor_kind, value=text), None):
        count += int(subject.run(*statements.lag(interval, CAP)).rows[0][0])
    if not count:
        return [ok("future", "no row is dated after now")]
    highest = subject.run(statements.highest()).rows[0][0]
    many = f"{'at least ' if count >= CAP else ''}{count:,} row{'s are' if count != 1 else ' is'}"
    waits = "read at once: bound = none" if subject.options.bound == "none" else "held back until their time has come"
    return [
        warn(
            "future",
            f"{many} dated after now, up to {highest}; they are {waits}.",
            f"Correct {subject.options.cursor_column} in them, or leave them out with a `filter`.",
        )
    ]


def bound(subject: Subject) -> list[Finding]:
    """The bound in force: its kind, its age, what holds it."""
    if subject.other_zone:
        return []  # the check of the time zone names it
    known, found = _found(subject)
    if not known and not found.below_checkpoint:
        return [ok("bound", f"{found.kind}, once there is a row")]
    why = f" ({found.reason})" if found.reason else ""
    age = "" if found.age_seconds is None else f", {took(found.age_seconds)} behind the database's clock"
    if found.kind == "none":
        return [warn("bound", "none: rows that commit late are lost, silently.", 'Set bound = "auto" in the source.')]
    if found.below_checkpoint:
        moves = "Set the checkpoint: poller reset-to-cursor, or poller reset-to-beginning."
        timed = subject.options.is_timed
        return [(warn if timed else error)("bound", f"{found.kind}: {found.reason}.", moves)]
    if found.clock_went_back:
        return [warn("bound", f"{found.kind}: the database's clock is lower than it was{why}; rows wait for it.")]
    above = None if known is None else _above_counter(subject, known, found)
    if above is not None:
        return [above]
    held = f" It is held by {found.held_by}." if found.held_by else ""
    if found.value is None:
        text = f"{found.kind}: not known yet, so no row is read{why}.{held}"
        return [warn("bound", text, "Run it again: a process that just began knows little." if found.cold else "")]
    if found.kind == "heuristic":
        delay = subject.options.delay.total_seconds()
        timed = subject.options.is_timed
        text = f"heuristic: now less `settle` ({delay:g} s){why}." if timed else f"heuristic{why}."
        return [warn("bound", text, _grant(subject, found.reason or ""))]
    if held and (found.age_seconds or 0) > OLD:
        return [error("bound", f"{found.kind}{age}.{held}", "End that transaction: no row after it began is read.")]
    if held:
        return [warn("bound", f"{found.kind}{age}.{held}")]
    if (found.age_seconds or 0) > OLD:
        return [warn("bound", f"{found.kind}{age}{why}; what holds it cannot be seen.")]
    return [ok("bound", f"{found.kind}{age}{why}")]


def _above_counter(subject: Subject, known: Inspection, found: Bound) -> Finding | None:
    """Rows with numbers that the database's counter has not reached: they were set by others, and are not read yet."""
    session, free = subject.session, found.next or ""
    if subject.options.cursor_kind != "integer+pk" or found.kind == "heuristic" or not free.isdigit():
        return None
    rows = subject.run(session.table.statements().highest()).rows
    highest = str(rows[0][0]) if rows else ""
    free = session.sample(known, subject.after).next or ""  # after the rows: they may have come since
    if not highest.isdigit() or not free.isdigit() or int(highest) < int(free):
        return None
    name = subject.options.cursor_column
    return error(
        "bound",
        f"there are rows up to {name} = {highest}, and the next value that the database hands out is {free}: their"
        " numbers were set by others, and they are not read until the database has passed them.",
        f"Set the counter to {int(highest) + 1} (PostgreSQL: setval) where rows were loaded. Where the application"
        ' sets the numbers, set bound = "delay".',
    )


def _found(subject: Subject) -> tuple[Inspection | None, Bound]:
    """What is known of the table, once it has a row, and the bound."""
    session = subject.session
    known = session.table.learn()
    if known is None:
        return None, session.to_come(subject.after)
    found = session.sample(known, subject.after)
    if found.value is None and found.kind != "none":
        found = session.bounding.wait(found, known, session.table.statements(), lambda: True)
    return known, found


def _grant(subject: Subject, reason: str) -> str:
    lacks = re.search(r"lacks (\w+)", reason)
    if lacks:
        return f"GRANT {lacks[1]} ON *.* TO {subject.facts.get('user', 'the poller user')};"
    if "AUTOINCREMENT" in reason:
        column = subject.name(subject.options.cursor_column)
        return f"Create the table again with {column} INTEGER PRIMARY KEY AUTOINCREMENT, if rows are ever deleted."
    return "Set `settle` to more than the longest transaction that writes, or grant what the reason names."


# ---------------------------------------------------------------------------------------------------------- connections
# The connections that a process may have, beside what its server takes; whose sessions hold up the bound, and prepared
# transactions.


def connections(subject: Subject) -> list[Finding]:
    """Check that the pools fit into what the server takes, and how often."""
    database = subject.session.database
    pool = database.pool
    if pool is None:
        return []
    room = once.ask((database.place(), "room"), lambda: room_of(database.connection(), subject.family))
    if not room:
        return []
    with pool.server.lock:
        pools = [one for one in pool.server.pools if not one.looks]
    in_use = f"{room['server'].in_use} are in use by all"
    counted = {scope: [one for one in pools if pool.scope(scope) in one.scopes] for scope in room}
    tightest = min(room, key=lambda scope: room[scope].most / _needs(counted[scope]))
    mine, most = counted[tightest], room[tightest].most
    whom = " of this user" if len({one.scope("user") for one in mine}) == 1 else ""
    if len({one.scope("database") for one in mine}) > 1:
        return [_of_several(mine, f"{most}{whom}", most, in_use)]
    needs, asking, each = _needs(mine), sum(one.dispatched for one in mine), ""
    if pool.each > 1:
        each = f' ({pool.each} for each of {pool.connections}: format = "arrow")'
    if asking:
        each = f"{each}, {asking} of them for the dispatcher"
    facts = f"a process has at most {needs} to this database{each}, and the server takes {most}{whom}"
    if needs > most:
        fits = max(1, (most - asking) * pool.connections // (needs - asking))
        return [warn("connections", f"{facts[0].upper()}{facts[1:]}: they do not fit.", f"connections = {fits}")]
    return [ok("connections", f"{facts}, {in_use}: {most // needs} processes fit")]


def _needs(pools: list[Pool]) -> int:
    """So many connections these have at most, with a dispatcher's."""
    return sum(one.connections * one.each + one.dispatched for one in pools)


def _of_several(mine: list[Pool], takes: str, most: int, in_use: str) -> Finding:
    """Of several databases of the server."""
    needs = _needs(mine)
    databases = len({one.scope("database") for one in mine})
    facts = f"a process has at most {needs} to {databases} databases of this server, and it takes {takes}"
    if needs <= most:
        return ok("connections", f"{facts}, {in_use}: {most // needs} processes fit")
    facts += f"; a process has at most {max(1, most // 2)} of them at once and leaves as many to others"
    if databases <= most // 2:
        return ok("connections", f"{facts}: what rests in one database is closed for another; {in_use}")
    return warn(
        "connections",
        f"{facts[0].upper()}{facts[1:]}: most looks at a database need a new connection.",
        "Raise max_connections, put a pooler such as PgBouncer before the server, or look less often (`schedule`).",
    )


def readers(subject: Subject) -> list[Finding]:
    """The pages of other processes hold up the bound as any transaction does, unless their user is known to only
    read."""
    o = subject.options
    if o.bound in {"delay", "none"} or o.cursor_kind == "xid8+pk":
        return []
    found = subject.checks.reader(subject)
    if found is None:
        return []
    user, writes = found
    if user in o.bound_ignore_users:
        if writes:
            what = f"{user} is in `bound_ignore_users` and may write: rows that it writes late can be skipped."
            return [warn("readers", what, f"Let pollers read as a user that only reads, such as {READER}.")]
        return [ok("readers", f"{user} only reads: long pages of other processes do not hold the bound")]
    setting = f'bound_ignore_users = ["{READER if writes else user}"]'
    if not writes:
        return [ok("readers", f"{user} only reads: with {setting} long pages of other processes do not hold the bound")]
    made = subject.checks.reader_made(subject)
    return [
        ok(
            "readers",
            f"long pages of other processes hold the bound, as {user} may write: let pollers read as a user of their"
            f" own ({made}) and set {setting}",
        )
    ]


def transport(subject: Subject) -> list[Finding]:
    """Checks that a connection which leaves this machine verifies the server, by its URL; who signs in with a token."""
    engine = subject.session.database.engine
    return [*tls.of_database(engine.url, os.environ), *tokens.findings(engine)]


def prepared(subject: Subject) -> list[Finding]:
    """Transactions that were prepared and never finished hold the bound for ever."""
    found = subject.checks.unfinished(subject)
    if found is None:
        return []
    names, ends = found
    if not names:
        return [ok("prepared", "no prepared transaction")]
    return [
        error(
            "prepared",
            f"Prepared transactions are not finished: {', '.join(names)}; no row after they began is read.",
            f"{' '.join(ends)} (or COMMIT)",
        )
    ]
