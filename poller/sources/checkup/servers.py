"""The connection, views that return only some rows, and prepared transactions."""

from __future__ import annotations

import os
import re

from sqlalchemy.exc import SQLAlchemyError

from poller import tls
from poller.databases import tokens
from poller.model.finding import Finding, error, ok, warn
from poller.sources.checkup.subject import Subject

_HEAD = re.compile(r"create\b.*?\bas\b\s*(?=select\b|with\b|\()", re.IGNORECASE | re.DOTALL)
"""The part of a view's definition in SQLite before the query."""


def transport(subject: Subject) -> list[Finding]:
    """Whether a connection that leaves this machine verifies the server, by its URL; who signs in with a token."""
    engine = subject.session.database.engine
    return [*tls.of_database(engine.url, os.environ), *tokens.findings(engine)]


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
