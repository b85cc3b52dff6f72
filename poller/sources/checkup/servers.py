"""What differs between servers: privileges, prepared transactions, replication."""

from __future__ import annotations

import os
import re

from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from poller import tls
from poller.databases import tokens
from poller.model.finding import Finding, error, ok, warn
from poller.sources.checkup.subject import Subject
from poller.sources.columns.uniqueness import quoted
from poller.sources.faults import Fault
from poller.sources.postgresql.bound import REFRESHED
from poller.sources.postgresql.origin import origin
from poller.sources.sampler import on_copy
from poller.sources.user_sql.literals import literal, mysql_account

_POSTGRESQL = """
SELECT current_user, version(), pg_is_in_recovery(), pg_has_role(current_user, 'pg_read_all_stats', 'usage')
"""
_RELATION = """
SELECT has_table_privilege(c.oid, 'SELECT') OR has_any_column_privilege(c.oid, 'SELECT')
  FROM pg_class c WHERE c.oid = to_regclass(:name)
"""
_PREPARED = """
SELECT gid, owner, to_char(now() - prepared, 'HH24:MI:SS') FROM pg_prepared_xacts
 WHERE database = current_database() ORDER BY prepared LIMIT 5
"""

_HEAD = re.compile(r"create\b.*?\bas\b\s*(?=select\b|with\b|\()", re.IGNORECASE | re.DOTALL)
"""The part of a view's definition in SQLite before the query."""


def privileges(subject: Subject) -> list[Finding]:
    """Which server and user; which privileges would make the bound better."""
    if subject.family == "postgresql":
        return _postgresql_privileges(subject)
    if subject.family == "mysql":
        return _mysql_privileges(subject)
    return [ok("database", f"reachable: {subject.family} {_version(subject)}".rstrip())]


def transport(subject: Subject) -> list[Finding]:
    """Whether a connection that leaves this machine verifies the server, by its URL; who signs in with a token."""
    engine = subject.session.database.engine
    return [*tls.of_database(engine.url, os.environ), *tokens.findings(engine)]


def _version(subject: Subject) -> str:
    return ".".join(map(str, subject.session.database.engine.dialect.server_version_info or ()))


def _postgresql_privileges(subject: Subject) -> list[Finding]:
    user, version, standby, sees_all = subject.fact(_POSTGRESQL).rows[0]
    name = subject.name(user)
    found = [ok("database", f"reachable: {str(version).split(' on ')[0]}, as user {user}")]
    if standby:
        refused = on_copy("a standby", None)
        found.append(error("replica", refused.message, refused.next_step))
    if subject.options.bound in {"auto", "exact"} and subject.options.cursor_kind != "xid8+pk":
        if sees_all:
            found.append(ok("privileges", f"{user} may see all sessions, as an exact bound needs"))
        else:
            found.append(
                warn(
                    "privileges",
                    f"{user} may not see other users' sessions: the bound is observed, and sessions that send several"
                    " transactions in one message, or COMMIT AND CHAIN, are not guarded.",
                    f"GRANT pg_read_all_stats TO {name};",
                )
            )
    return found


def _mysql_privileges(subject: Subject) -> list[Finding]:
    user = str(subject.fact("SELECT CURRENT_USER()").rows[0][0])
    account = mysql_account(user)
    subject.facts["user"] = account
    found = [ok("database", f"reachable: {_version(subject)}, as user {user}")]
    if subject.options.bound in {"heuristic", "none"}:
        return found
    needs = {"PROCESS": "SELECT COUNT(*) FROM information_schema.innodb_trx", "XA_RECOVER_ADMIN": "XA RECOVER"}
    lacks = ", ".join(name for name, sql in needs.items() if not _may(subject, sql))
    if lacks:
        what = f"{user} lacks {lacks}, so open transactions cannot be seen and the bound is a guess."
        return [*found, warn("privileges", what, f"GRANT {lacks} ON *.* TO {account};")]
    message = f"{user} may see all sessions"
    if not subject.mariadb and not _may(subject, "SELECT 1 FROM performance_schema.events_statements_current LIMIT 1"):
        message += "; GRANT SELECT ON performance_schema.* shows a statement's start to the microsecond, not to 2 s"
    return [*found, ok("privileges", message)]


def _may(subject: Subject, sql: str) -> bool:
    """Whether the user has the privilege for a statement; XA RECOVER needs one on MySQL 8 only."""
    try:
        subject.fact(sql)
    except DBAPIError as refused:
        if subject.session.database.dialect.classify(refused) is not Fault.FORBIDDEN:
            raise
        return False
    return True


def relation(subject: Subject) -> list[Finding]:
    """PostgreSQL: whether the table may be read at all."""
    if subject.family != "postgresql" or subject.options.table is None:
        return []
    rows = subject.run(_RELATION, {"name": subject.table}).rows
    if not rows or rows[0][0]:  # the check of the columns names a missing table
        return []
    user = str(subject.run("SELECT current_user").rows[0][0])
    fix = f"GRANT SELECT ON {subject.table} TO {subject.name(user)};"
    return [error("privileges", f"{user} may not read {subject.table}.", fix)]


def behind(subject: Subject) -> list[Finding]:
    """PostgreSQL: rows that this server's own transactions do not write straight into what is read."""
    if subject.family != "postgresql":
        return []
    o = subject.options
    table = None if o.table is None else quoted(o.table, o.schema_name)
    found = origin(subject.session.database.connection(), table, o.query, o.cursor_column)
    if found is None:
        return []
    if found.refreshed:
        return [warn("relation", f"{found.reason}: rows can be skipped.", REFRESHED)]
    message = f"{found.reason}: only the heuristic bound is available."
    return [warn("relation", message, "Read it where it is written.")]


def limits(subject: Subject) -> list[Finding]:
    """A view that returns only some rows: the others are never read, as with a LIMIT in `query`, which is refused."""
    o = subject.options
    if o.table is None or subject.is_base_table:
        return []
    from poller.sources import user_sql  # loads a parser
    from poller.sources.user_sql.row_limits import limited_by

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
    if subject.family == "postgresql":
        rows = subject.fact(_PREPARED.replace(":MI:SS", "\\:MI\\:SS")).rows
        names = [f"{str(gid)!r} of {owner}, {age} old" for gid, owner, age in rows]
        ends = [f"ROLLBACK PREPARED {literal(str(gid))};" for gid, _, _ in rows]
    elif subject.family == "mysql":
        if not _may(subject, "XA RECOVER"):
            return []  # the check of the privileges names it
        # as bytes in hexadecimal: transaction managers use binary names
        rows = subject.fact("XA RECOVER FORMAT='SQL'" if subject.mariadb else "XA RECOVER CONVERT XID").rows
        xids = [_xid(*row) for row in rows]
        names = [f"XA {xid}" for xid in xids]
        ends = [f"XA ROLLBACK {xid};" for xid in xids]
    else:
        return []
    if not names:
        return [ok("prepared", "no prepared transaction")]
    return [
        error(
            "prepared",
            f"Prepared transactions are not finished: {', '.join(names)}; no row after they began is read.",
            f"{' '.join(ends)} (or COMMIT)",
        )
    ]


def _xid(form: int, length: int, rest: int, data: str | bytes) -> str:
    """An XA transaction's name as XA ROLLBACK takes it: its two parts and its format; plain text where it is text."""
    text = data.decode() if isinstance(data, bytes) else data
    if not text.startswith("0x"):
        return text  # MariaDB returns it in this form
    name = bytes.fromhex(text[2:])
    return f"{_part(name[:length])},{_part(name[length : length + rest])},{form}"


def _part(name: bytes) -> str:
    text = name.decode("ascii", "replace")
    return f"'{text}'" if re.fullmatch(r"[\w .:-]*", text, re.ASCII) else f"X'{name.hex()}'"
