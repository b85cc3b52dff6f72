"""SQL Server's bound: `rowversion+pk` from MIN_ACTIVE_ROWVERSION(). Experimental: only the text of its SQL is
tested, on no server."""

from __future__ import annotations

import re

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from poller.errors import SourceError
from poller.ports import Bound
from poller.sources.bound import Rule
from poller.sources.sampler import Asked, Sampler, on_copy

_STANDING = sa.text("SELECT CAST(DATABASEPROPERTYEX(DB_NAME(), 'Updateability') AS varchar(20))")
_ROWVERSION = sa.text("""
SELECT LOWER(CONVERT(varchar(18), MIN_ACTIVE_ROWVERSION(), 2)) AS least, LOWER(CONVERT(varchar(18), @@DBTS, 2)) AS used
""")
_TABLE = sa.text("SELECT COUNT(*) FROM sys.tables WHERE object_id = OBJECT_ID(:name) AND is_external = 0")
_DIRTY = re.compile(r"\b(nolock|readpast|readuncommitted)\b", re.IGNORECASE)
_NOT_SEEN = "open transactions of SQL Server are not looked at: use a rowversion column, which needs no look"
_ANY_ROWS = "a view or a query may read another database's rows, whose versions are not counted here: name the table"


def sampler(asked: Asked, connection: Connection) -> Sampler | str:
    """The lowest rowversion that an open transaction has taken; or the reason (a `str`) why only a delay is left.

    Raises: SourceError on a readable secondary, and for a query that reads uncommitted rows or skips locked ones.
    """
    o = asked.options
    if connection.execute(_STANDING).scalar() == "READ_ONLY":
        raise on_copy("read-only, as a secondary is", o.table)
    dirty = _DIRTY.search(o.query or "")
    if dirty is not None:
        raise SourceError(
            f"`query` reads with {dirty.group().upper()}: rows that are locked would be skipped, or rows that are"
            " rolled back delivered.",
            next_step="Remove the hint.",
        )
    if o.cursor_kind != "rowversion+pk":
        return _NOT_SEEN
    name = ".".join(f"[{part.replace(']', ']]')}]" for part in (o.schema_name, o.table) if part)
    if not name or not connection.execute(_TABLE, {"name": name}).scalar():
        return _ANY_ROWS
    rule = Rule("exact", "MIN_ACTIVE_ROWVERSION()", asked.column)

    def take(connection: Connection) -> Bound:
        row = connection.execute(_ROWVERSION).one()  # needs no privilege
        following = f"{int(row.used, 16) + 1:016x}"
        return Bound(kind=rule.kind, value=row.least, reason=rule.reason, next=following)

    return Sampler(rule, take)
