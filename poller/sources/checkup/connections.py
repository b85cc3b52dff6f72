"""How many connections a process may have, beside what the server takes; and whose sessions hold up the bound."""

from __future__ import annotations

import re
from dataclasses import dataclass

from sqlalchemy.exc import DBAPIError

from poller.model.finding import Finding, ok, warn
from poller.sources.checkup.subject import Subject

_POSTGRESQL = """
SELECT CAST(current_setting('max_connections') AS integer)
       - CAST(current_setting('superuser_reserved_connections') AS integer)
       - CAST(coalesce(current_setting('reserved_connections', true), '0') AS integer),
       (SELECT rolconnlimit FROM pg_roles WHERE rolname = current_user),
       (SELECT datconnlimit FROM pg_database WHERE datname = current_database()),
       (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend')
"""
_MYSQL = "SELECT @@global.max_connections, @@session.max_user_connections"
_MYSQL_IN_USE = "SHOW GLOBAL STATUS LIKE 'Threads_connected'"
_WRITES = """
SELECT current_user, (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) OR EXISTS (
         SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
          WHERE c.relkind IN ('r', 'p', 'v', 'f') AND n.nspname <> 'information_schema' AND n.nspname !~ '^pg_'
            AND (has_any_column_privilege(c.oid, 'INSERT, UPDATE') OR has_table_privilege(c.oid, 'DELETE')))
"""
_READING = frozenset({"SELECT", "USAGE", "PROCESS", "SHOW VIEW", "XA_RECOVER_ADMIN", "REPLICATION CLIENT",
                      "BINLOG MONITOR", "SHOW DATABASES"})  # fmt: skip
READER = "poller_reader"
"""The name of the user that is proposed."""


@dataclass(frozen=True)
class _Room:
    """How many connections the user may have, and how many clients of all users have one now."""

    most: int
    in_use: int


def connections(subject: Subject) -> list[Finding]:
    """Whether the pool fits into what the server takes, and how often."""
    pool = subject.session.database.pool
    room = None if pool is None else _room(subject)
    if pool is None or room is None:
        return []
    needs, each = pool.connections, ""
    if subject.family == "postgresql" and subject.options.format == "arrow":
        needs, each = 2 * needs, f' (2 for each of {pool.connections}: format = "arrow")'
    if pool.dispatched:
        needs, each = needs + 1, f"{each}, 1 of them for the dispatcher"
    facts = f"a process has at most {needs} to this database{each}, and the server takes {room.most} of this user"
    if needs > room.most:
        fits = max(1, (room.most - pool.dispatched) * pool.connections // (needs - pool.dispatched))
        return [warn("connections", f"{facts[0].upper()}{facts[1:]}: they do not fit.", f"connections = {fits}")]
    return [ok("connections", f"{facts}, {room.in_use} are in use by all: {room.most // needs} processes fit")]


def readers(subject: Subject) -> list[Finding]:
    """The pages of other processes hold up the bound as any transaction does, unless their user is known to only
    read."""
    o = subject.options
    if o.bound in {"heuristic", "none"} or o.stamped_by == "application" or o.cursor_kind == "xid8+pk":
        return []
    found = {"postgresql": _postgresql, "mysql": _mysql}.get(subject.family)
    if found is None:
        return []
    user, writes = found(subject)
    if user in o.bound_ignore_users:
        if writes:
            what = f"{user} is in `bound_ignore_users` and may write: rows that it writes late can be skipped."
            return [warn("readers", what, f"Let pollers read as a user that only reads, such as {READER}.")]
        return [ok("readers", f"{user} only reads: long pages of other processes do not hold the bound")]
    setting = f'bound_ignore_users = ["{READER if writes else user}"]'
    if not writes:
        return [ok("readers", f"{user} only reads: with {setting} long pages of other processes do not hold the bound")]
    made = _grants(subject)
    return [
        ok(
            "readers",
            f"long pages of other processes hold the bound, as {user} may write: let pollers read as a user of their"
            f" own ({made}) and set {setting}",
        )
    ]


def _room(subject: Subject) -> _Room | None:
    try:
        if subject.family == "postgresql":
            most, of_user, of_database, in_use = subject.fact(_POSTGRESQL).rows[0]
            limits = [int(one) for one in (of_user, of_database) if one is not None and int(one) >= 0]
        elif subject.family == "mysql":
            most, of_user = subject.fact(_MYSQL).rows[0]
            in_use = subject.fact(_MYSQL_IN_USE).rows[0][1]
            limits = [int(of_user)] if int(of_user) else []
        else:
            return None
    except DBAPIError as refused:
        if refused.connection_invalidated:
            raise
        return None  # a server that only has the protocol
    return _Room(min([int(most), *limits]), int(in_use))


def _postgresql(subject: Subject) -> tuple[str, bool]:
    user, writes = subject.fact(_WRITES).rows[0]
    return str(user), bool(writes)


def _mysql(subject: Subject) -> tuple[str, bool]:
    user = str(subject.fact("SELECT CURRENT_USER()").rows[0][0]).rpartition("@")[0]
    granted: set[str] = set()
    for (line,) in subject.fact("SHOW GRANTS").rows:
        before, on, _ = re.sub(r"\([^)]*\)", "", str(line)).partition(" ON ")  # without names of columns
        granted |= {one.strip() for one in before.removeprefix("GRANT ").split(",")} if on else {"a role"}
    return user, not granted <= _READING


def _grants(subject: Subject) -> str:
    table = subject.table if subject.options.table is not None else "its tables"
    if subject.family == "postgresql":
        return f"CREATE USER {READER}; GRANT SELECT ON {table}, and pg_read_all_stats, TO {READER};"
    needs = "PROCESS" if subject.mariadb else "PROCESS, XA_RECOVER_ADMIN"
    return f"CREATE USER {READER}; GRANT SELECT ON {table}, and {needs} ON *.*, TO {READER};"
