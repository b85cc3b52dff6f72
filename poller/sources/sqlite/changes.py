"""Change tables in SQLite: a value is what its JSON says, since types belong to values."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any, ClassVar

from sqlalchemy.engine import Connection

from poller.databases.capture import CaptureRequest, Quoter
from poller.databases.sqlite.capture import SqliteSite, literal
from poller.sources.changes import ROW, ChangeTable, Installed, ValuedChange, Values, captured_row, one
from poller.sources.user_sql import escape_colons


class SqliteChanges(ChangeTable):
    """See `ChangeTable`."""

    @staticmethod
    def named(table: str) -> str:
        """Names have no limit."""
        return f"poller_{table}_changes"

    def look(self, connection: Connection) -> Installed | None:
        """The file says all."""
        quote = Quoter(connection, literal)
        site = SqliteSite(connection, CaptureRequest(self.poller, self.schema, self.table), quote)
        before = site.registered
        if before is None:
            return None
        standing, why = site.standing()
        if standing == "removed":
            trouble: tuple[str, str] | None = self.damaged("capture was removed")
        elif why is not None:
            trouble = self.damaged(why)
        else:
            trouble = self.differs(before.columns, site.columns) or self.unfit(site.table, site.check)
        installed = Installed(
            what=site.table,
            key=before.key,
            columns={name: kind for name, kind in before.columns.items() if name not in before.excluded},
            source=escape_colons(quote(site.table)),
            captures="main.poller_captures",
            trouble=trouble,
            row=escape_colons(site.row(ROW, [name for name in before.columns if name not in before.excluded])),
            same={name: _alike if by in _OURS else one for name, by in site.alike.items()},
        )
        return self._installed(connection, installed)

    def change(self, found: Values, installed: Installed) -> ValuedChange:  # noqa: ARG002
        """As it was stored."""
        at = datetime.fromisoformat(found["at"])
        return ValuedChange(found["id"], found["op"], _row(found["new"]), _row(found["old"]), None, at)

    read: ClassVar[str] = "strftime('%Y-%m-%dT%H\\:%M\\:%fZ', 'now') AS at, NULL AS old"

    def _bound(self, parameter: str, name: str, value: Any, installed: Installed) -> tuple[str, Any]:  # noqa: ARG002
        return f":{parameter}", _value(value)


_OURS = frozenset({"BINARY", "NOCASE", "RTRIM"})
_REAL = re.compile(r'\{"real": "(.*)"\}')


def _alike(text: str) -> str:
    """The same for what is equal by any of SQLite's own collations, and as numbers."""
    found = _REAL.fullmatch(text)
    try:
        number = float(text if found is None else found[1])
    except ValueError:
        return text.rstrip(" ").lower()
    return str(int(number)) if number.is_integer() else repr(number)


def _row(text: Any) -> Mapping[str, Any] | None:
    row = captured_row(text)
    return None if row is None else {name: _value(value) for name, value in row.items()}


def _value(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    return bytes.fromhex(value["hex"]) if "hex" in value else float(value["real"])
