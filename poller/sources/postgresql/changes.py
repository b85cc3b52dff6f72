"""Change tables in PostgreSQL: the server makes rows of the table's own types of the JSON."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC
from decimal import Decimal
from typing import Any, ClassVar

from sqlalchemy.engine import Connection

from poller.databases.capture import CaptureRequest, Quoter, named
from poller.databases.postgresql.capture import row_of
from poller.databases.postgresql.site import LONGEST, PostgreSqlSite, literal
from poller.sources.changes import ROW, ChangeTable, Head, Installed, Same, ValuedChange, Values, one, ordered
from poller.sources.user_sql import escape_colons

_NEW, _OLD, _KEY = "new{}", "old{}", "key{}"
_KIND = re.compile(r"[a-z_.]+")
_EXACT = frozenset(
    {"smallint", "integer", "bigint", "oid", "uuid", "text", "name", "character", "boolean", "bytea", "date", "time"}
) | {"timestamp", "inet", "cidr", "macaddr"}  # fmt: skip
"""The first words of types whose equal values are written alike in the sessions that capture; time zones aside."""


def _number(text: str) -> str:
    number = Decimal(text)
    return f"{number.normalize():f}" if number else "0"


def _same(kind: str) -> Same | None:
    """How equal values of a type are found; None if they are written alike."""
    word = _KIND.match(kind)
    first = "" if word is None else word[0]
    if first in _EXACT and "[" not in kind and not kind.startswith("time with time zone"):
        return None
    if first in ("numeric", "real", "double"):
        return _number
    return str.casefold if first.endswith(".citext") or first == "citext" else one


class PostgreSqlChanges(ChangeTable):
    """See `ChangeTable`."""

    json_is_text: ClassVar[bool] = False
    made_at: ClassVar[str] = "to_char(made_at AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24\\:MI\\:SS.US\"Z\"')"

    @staticmethod
    def named(table: str) -> str:
        """At most 63 bytes."""
        return named("poller_{}_changes", table, LONGEST, lambda text: len(text.encode()))

    def look(self, connection: Connection) -> Installed | None:
        """The catalog is open to every role."""
        site = PostgreSqlSite(
            connection, CaptureRequest(self.poller, self.schema, self.table), Quoter(connection, literal)
        )
        before = site.registered
        if before is None:
            return None
        columns = {name: before.columns[name] for name in site.columns if name in before.columns}
        installed = Installed(
            what=site.what,
            key=before.key,
            columns={name: kind for name, kind in columns.items() if name not in before.excluded},
            source=escape_colons(site.source),
            captures=escape_colons(site.captures),
            trouble=self._trouble(site, before.columns),
            row=escape_colons(row_of(site, ROW)),
            read_as={} if site.read_as == site.columns else site.read_as,
            same={
                name: rule
                for name in before.key
                if (rule := one if name in site.loose else _same(site.read_as.get(name, ""))) is not None
            },
        )
        return self._installed(connection, installed)

    def _trouble(self, site: PostgreSqlSite, columns: dict[str, str]) -> tuple[str, str] | None:
        standing, why = site.standing()
        known = () if site.registered is None else site.registered.partitions
        if standing == "removed":
            return self.damaged("capture was removed")
        if why is not None:
            return self.damaged(why)
        if attached := [name for oid, _, name in site.partitions if oid not in known]:
            return self.damaged(f"partition {attached[0]} was attached")
        return self.differs(columns, site.columns) or self.unfit(site.what, site.check)

    def selects(self, relation: str, installed: Installed) -> tuple[str, Sequence[str]]:
        """Exact for every type of the server's: see docs/capture.md."""
        new, old = f"coalesce({relation}.new, {relation}.old)", f"{relation}.old"
        if not installed.read_as:
            row = f"jsonb_populate_record(CAST(NULL AS {installed.source}), "
            joined = f" LEFT JOIN LATERAL {row}{new}) AS poller_new ON true"
            joined += f" LEFT JOIN LATERAL {row}{old}) AS poller_old ON true"
        else:
            names = [self.quote(name) for name in installed.columns]
            kinds = (escape_colons(installed.read_as[name]) for name in installed.columns)
            row = ", ".join(f"{name} {kind}" for name, kind in zip(names, kinds, strict=True))
            none = ", ".join(f"(CAST(NULL AS {installed.source})).{name}" for name in names)  # fails if one is gone
            joined = f" LEFT JOIN LATERAL jsonb_to_record({new}) AS poller_new ({row}) ON true"
            joined += f" LEFT JOIN LATERAL jsonb_to_record({old}) AS poller_old ({row}) ON true"
            joined += f" LEFT JOIN LATERAL (SELECT {none}) AS poller_none ON true"
        chosen = [
            f"CAST({relation}.op AS text) AS op",
            f"CAST({relation}.xid AS text) AS tx",
            f"{relation}.at",
            f"{relation}.old IS NOT NULL AS has_old",
        ]
        for at, name in enumerate(installed.key):
            of = escape_colons(literal(name))
            chosen.append(
                f"jsonb_extract_path_text(coalesce({relation}.new, {relation}.old), {of}) AS {_KEY.format(at)}"
            )
        for alias, pattern in (("poller_new", _NEW), ("poller_old", _OLD)):
            chosen += [
                f"{alias}.{self.quote(name)} AS {pattern.format(at)}" for at, name in enumerate(installed.columns)
            ]
        return joined, chosen

    def head(self, found: Values, installed: Installed) -> Head:
        """By the key's texts, which the server made."""
        key = tuple(found[_KEY.format(at)] for at in range(len(installed.key)))
        whole = found["op"] in "IUD" and None not in key
        return Head(found["id"], found["op"], key, ordered(key, installed), whole)

    def change(self, found: Values, installed: Installed) -> ValuedChange:
        """As the driver made the values."""
        new = {name: found[_NEW.format(at)] for at, name in enumerate(installed.columns)}
        old = {name: found[_OLD.format(at)] for at, name in enumerate(installed.columns)}
        op = found["op"]
        return ValuedChange(
            id=found["id"],
            op=op,
            new=new if op in "IUR" else None,
            old=old if op in "UD" and found["has_old"] else None,
            tx=found["tx"],
            at=found["at"].astimezone(UTC),
        )

    read: ClassVar[str] = "CAST(NULL AS text) AS xid, clock_timestamp() AS at, CAST(NULL AS jsonb) AS old"

    def _bound(self, parameter: str, name: str, value: Any, installed: Installed) -> tuple[str, Any]:
        return f"CAST(:{parameter} AS {escape_colons(installed.columns[name])})", value

    def place(self, found: Values, installed: Installed) -> dict[str, Any]:
        """As the server wrote the key, as text."""
        return {name: found[_KEY.format(at)] for at, name in enumerate(installed.key)}
