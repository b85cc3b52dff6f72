"""SQL Server's bound: `rowversion+pk` from MIN_ACTIVE_ROWVERSION(). Experimental: only the text of its SQL is
tested, on no server."""

from __future__ import annotations

import re

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from poller.errors import SourceError
from poller.ports import Bound
from poller.sources.bounds.base import BoundContext, BoundStrategy, Stateless, on_copy

_STANDING = sa.text("SELECT CAST(DATABASEPROPERTYEX(DB_NAME(), 'Updateability') AS varchar(20))")
_ROWVERSION = sa.text("""
SELECT LOWER(CONVERT(varchar(18), MIN_ACTIVE_ROWVERSION(), 2)) AS least, LOWER(CONVERT(varchar(18), @@DBTS, 2)) AS used
""")
_TABLE = sa.text("SELECT COUNT(*) FROM sys.tables WHERE object_id = OBJECT_ID(:name) AND is_external = 0")
_DIRTY = re.compile(r"\b(nolock|readpast|readuncommitted)\b", re.IGNORECASE)
_NOT_SEEN = "open transactions of SQL Server are not looked at: use a rowversion column, which needs no look"
_ANY_ROWS = "a view or a query may read another database's rows, whose versions are not counted here: name the table"


class Rowversion(Stateless):
    """The lowest rowversion that an open transaction has taken."""

    kind = "exact"

    def __init__(self, reason: str) -> None:
        self._reason = reason

    def sample(self, connection: Connection) -> Bound:
        """One statement. Needs no privilege."""
        row = connection.execute(_ROWVERSION).one()
        following = f"{int(row.used, 16) + 1:016x}"
        return Bound(kind=self.kind, value=row.least, reason=self._reason, next=following)


def choose(wanted: str, context: BoundContext, connection: Connection) -> BoundStrategy | str:  # noqa: ARG001
    """The strategy, or the reason (a `str`) why only a delay is left.

    Raises: SourceError on a readable secondary, and for a query that reads uncommitted rows or skips locked ones.
    """
    if connection.execute(_STANDING).scalar() == "READ_ONLY":
        raise on_copy("read-only, as a secondary is", context.table)
    dirty = _DIRTY.search(context.query or "")
    if dirty is not None:
        raise SourceError(
            f"`query` reads with {dirty.group().upper()}: rows that are locked would be skipped, or rows that are"
            " rolled back delivered.",
            next_step="Remove the hint.",
        )
    if context.kind != "rowversion+pk":
        return _NOT_SEEN
    name = ".".join(f"[{part.replace(']', ']]')}]" for part in (context.schema, context.table) if part)
    if not name or not connection.execute(_TABLE, {"name": name}).scalar():
        return _ANY_ROWS
    return Rowversion("MIN_ACTIVE_ROWVERSION()")
