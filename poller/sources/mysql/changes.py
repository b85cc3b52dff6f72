"""Change tables in MariaDB and MySQL: the table's types say what the texts of a change are."""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import lru_cache
from typing import Any, ClassVar

from sqlalchemy.engine import Connection

from poller.databases.capture import CaptureRequest, Quoter, named
from poller.databases.mysql.capture import BYTES, LONGEST, SHAPES, MySqlSite, literal
from poller.errors import SourceError
from poller.sources.changes import ROW, ChangeTable, Head, Installed, ValuedChange, Values, captured_row
from poller.sources.mysql.database import JSON_COLUMN
from poller.sources.user_sql import escape_colons

_WEIGHT = "poller_weight_of_"
_TYPE = re.compile(r"(\w+)(?:\((\d+))?")
_TIME = re.compile(r"(-)?(\d+):(\d\d):(\d\d)(?:\.(\d{1,6}))?")
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - as the driver has a TIMESTAMP, in the session's UTC


class MySqlChanges(ChangeTable):
    """See `ChangeTable`."""

    sees_triggers: ClassVar[bool] = False
    made_at: ClassVar[str] = "DATE_FORMAT(made_at, '%Y-%m-%dT%H\\:%i\\:%s.%fZ')"

    @staticmethod
    def named(table: str) -> str:
        """At most 64 characters."""
        return named("poller_{}_changes", table, LONGEST)

    def look(self, connection: Connection) -> Installed | None:
        """A user who may only read sees no triggers: the table's time of creation shows that it is another one."""
        site = MySqlSite(connection, CaptureRequest(self.poller, self.schema, self.table), Quoter(connection, literal))
        before = site.registered
        if before is None:
            return None
        made = connection.exec_driver_sql(f"SHOW CREATE TABLE {site.source}").one()[1]
        documents = {name.replace("``", "`") for name in JSON_COLUMN.findall(str(made))}
        types = {name: "json" if name in documents else kind for name, kind in before.columns.items()}
        installed = Installed(
            what=site.what,
            key=before.key,
            columns={name: kind for name, kind in types.items() if name not in before.excluded},
            source=escape_colons(site.source),
            captures=escape_colons(site.captures),
            trouble=self._trouble(site),
            row=escape_colons(site.row(ROW, site.captured)),
            collations={name: site.collations[name] for name in before.key if name in site.collations},
        )
        return self._installed(connection, installed)

    def _trouble(self, site: MySqlSite) -> tuple[str, str] | None:
        before = site.registered
        if before is None or before.removed:
            return self.damaged("capture was removed")
        if site.triggers and not site.are_there:
            return self.damaged("triggers of poller are missing, or belong to another table")
        if (differs := self.differs(before.columns, site.columns)) is not None:
            return differs
        if before.made is not None and before.made != site.made:
            return (
                "the table was made again or rebuilt since it was installed: changes may not be written.",
                f"Run {self.install}: if triggers are gone it writes a gap, and if they are there the poller goes on.",
            )
        return self.unfit(site.what, site.check)

    def selects(self, relation: str, installed: Installed) -> tuple[str, Sequence[str]]:
        """With the weights by which the server compares the key's texts, shortened by a hash. Trailing spaces have one,
        and count under some collations only: keys that differ in them alone come in order too."""
        joined, chosen = super().selects(relation, installed)
        change = f"coalesce({relation}.new, {relation}.old)"
        weights = []
        for name, (characters, collation) in installed.collations.items():
            path = escape_colons(literal("$." + json.dumps(name, ensure_ascii=False)))
            text = f"CONVERT(JSON_UNQUOTE(JSON_EXTRACT({change}, {path})) USING {characters})"
            weight = f"MD5(WEIGHT_STRING(RTRIM({text}) COLLATE {collation}))"
            weights.append(f"{weight} AS {self.quote(_WEIGHT + name)}")
        return joined, [*chosen, *weights]

    def head(self, found: Values, installed: Installed) -> Head:
        """As `ChangeTable.head`; of equal texts the order is that of their weight."""
        head = super().head(found, installed)
        pairs = zip(installed.key, head.key, strict=True)
        return head._replace(order=tuple(found.get(_WEIGHT + name, text) for name, text in pairs))

    def change(self, found: Values, installed: Installed) -> ValuedChange:
        """As the driver has the values of these types."""
        at: datetime = found["at"]
        new, old = (_row(found[name], installed.columns) for name in ("new", "old"))
        return ValuedChange(found["id"], str(found["op"]), new, old, None, at.replace(tzinfo=UTC))

    read: ClassVar[str] = "UTC_TIMESTAMP(6) AS at, NULL AS old"

    @staticmethod
    def _greater(names: Sequence[str], values: Sequence[str]) -> str:
        """Without row values, for which the server reads no range of an index."""
        found = f"{names[-1]} > {values[-1]}"
        for name, value in zip(names[-2::-1], values[-2::-1], strict=True):
            found = f"{name} >= {value} AND ({name} > {value} OR ({name} = {value} AND {found}))"
        return found

    def _bound(self, parameter: str, name: str, value: Any, installed: Installed) -> tuple[str, Any]:
        return f":{parameter}", _reader(installed.columns[name])(value)

    def rows(self, relation: str, installed: Installed, after: Values | None, limit: int) -> tuple[str, dict[str, Any]]:
        """See `ChangeTable.rows`."""
        for name in installed.key:
            found = _TYPE.match(installed.columns[name].lower())
            if found is not None and found[1] in _OTHER_ORDER:
                raise SourceError(
                    f"{installed.what}: the key's column {name} is of the type {found[1]}, by whose values no snapshot"
                    " can go on.",
                    table=self.table,
                    column=name,
                    next_step='Copy the table once, and set start_from = "now".',
                )
        return super().rows(relation, installed, after, limit)


_OTHER_ORDER = frozenset({"float", "double", "enum", "set", "bit"})
"""Types that are not compared with a value as they are sorted."""


def _row(text: Any, columns: Mapping[str, str]) -> Mapping[str, Any] | None:
    row = captured_row(text)
    if row is None:
        return None
    found = {name: None if value is None else _reader(columns.get(name, ""))(value) for name, value in row.items()}
    if any(columns.get(name) == "json" and value is not None for name, value in found.items()):
        found |= {name: said for name, said in _members(text) if columns.get(name) == "json" and said != "null"}
    return found


def _members(text: str) -> Iterator[tuple[str, str]]:
    """The members of an object of JSON, each with the text of its value."""
    decoder, at = json.JSONDecoder(), text.index("{") + 1
    while True:
        at = _past_space(text, at)
        if text[at] == "}":
            return
        name, at = decoder.raw_decode(text, at)
        begin = _past_space(text, _past_space(text, at) + 1)
        _, end = decoder.raw_decode(text, begin)
        yield name, text[begin:end]
        at = _past_space(text, end)
        at += text[at] == ","


def _past_space(text: str, at: int) -> int:
    while text[at].isspace():
        at += 1
    return at


@lru_cache(maxsize=1024)
def _reader(column_type: str) -> Callable[[Any], Any]:
    """What makes the driver's value of the JSON of a column of this type."""
    found = _TYPE.match(column_type.lower())
    kind = "" if found is None else found[1]
    if kind == "bit":
        width = (int((found and found[2]) or 1) + 7) // 8
        return _or_as_it_is(lambda value: int(value).to_bytes(width, "big"))
    if kind in BYTES:
        return _or_as_it_is(base64.b64decode)
    if kind in SHAPES:
        return _or_as_it_is(binascii.unhexlify)
    return _or_as_it_is(_READERS[kind]) if kind in _READERS else lambda value: value


def _or_as_it_is(read: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A date that no calendar has stays text, as the driver leaves it; so does what an earlier type of the column left
    and the present one does not take."""

    def value(said: Any) -> Any:
        try:
            return read(said)
        except (ValueError, ArithmeticError, TypeError):
            return said

    return value


def _instant(text: str) -> Any:
    if float(text) == 0:
        return "0000-00-00 00:00:00"
    return _EPOCH + timedelta(microseconds=int(Decimal(text) * 1_000_000))


def _time(text: str) -> timedelta:
    found = _TIME.fullmatch(text)
    if found is None:
        raise ValueError("not a time")
    sign, hours, minutes, seconds, part = found.groups()
    span = timedelta(
        hours=int(hours), minutes=int(minutes), seconds=int(seconds), microseconds=int((part or "").ljust(6, "0") or 0)
    )
    return -span if sign else span


_READERS: Mapping[str, Callable[[Any], Any]] = {
    "decimal": Decimal,
    "float": float,
    "double": float,
    "year": int,
    "date": date.fromisoformat,
    "datetime": datetime.fromisoformat,
    "timestamp": _instant,
    "time": _time,
}
