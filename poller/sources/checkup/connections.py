"""The connections that a process may have, beside what its server takes; whose sessions hold up the bound; views that
return only some rows, and prepared transactions."""

from __future__ import annotations

import os
import re

from sqlalchemy.exc import SQLAlchemyError

from poller import once, tls
from poller.databases import tokens
from poller.databases.pools import Pool
from poller.databases.room import room_of
from poller.model.finding import Finding, error, ok, warn
from poller.sources.checks import READER
from poller.sources.checkup.subject import Subject


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


_HEAD = re.compile(r"create\b.*?\bas\b\s*(?=select\b|with\b|\()", re.IGNORECASE | re.DOTALL)
"""The part of a view's definition in SQLite before the query."""


def transport(subject: Subject) -> list[Finding]:
    """Checks that a connection which leaves this machine verifies the server, by its URL; who signs in with a token."""
    engine = subject.session.database.engine
    return [*tls.of_database(engine.url, os.environ), *tokens.findings(engine)]


def limits(subject: Subject) -> list[Finding]:
    """A view that returns only some rows: the others are never read, as with a LIMIT in `query`, which is refused."""
    o = subject.options
    if o.table is None or subject.is_base_table:
        return []
    from poller.sources import user_sql  # loads a parser
    from poller.sources.user_sql.filters import limited_by

    try:
        sql = str(subject.inspector.get_view_definition(o.table, schema=o.schema_name) or "")
        sql = _HEAD.sub("", sql.strip().rstrip(";"))
        some = limited_by(sql, user_sql.tokens(sql, subject.family), subject.family, o.cursor_column)
    except (SQLAlchemyError, user_sql.Unreadable):
        return []
    if some is None:
        return []
    message = f"The view {o.table} returns only some rows ({some[:60]}): the others are never read."
    return [warn("relation", message, "Remove that from the view: every page has its own limit.")]


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
