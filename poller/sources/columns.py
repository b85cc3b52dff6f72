"""The columns that a cursor is made of: which family of values each holds, the CAST from a text to it, the texts
that are made here, what keeps a key unique, and how moments are written.

A cursor's text comes from the database and is never recomputed here (sources.md, "Cursor fidelity"), but for values
that a driver returns with nothing lost. Only the *bound* and the *age* are computed: from the database's clock in UTC
to the column's own form.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta, tzinfo
from functools import cache
from operator import itemgetter
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection, Inspector


class Family(enum.StrEnum):
    """Kinds of values that differ in how a database writes them as text and reads them back."""

    TIMESTAMP = "timestamp"
    TIMESTAMPTZ = "timestamp with a zone"
    DATE = "date"
    INTEGER = "integer"
    NUMERIC = "numeric"
    TEXT = "text"
    UUID = "uuid"
    BYTES = "bytes"
    OTHER = "other"
    """Anything whose text the database casts back to the same value (an enum, an address)."""
    UNFIT = "unfit"
    """Floating point, JSON and the like: no exact text, or comparison and sorting order differently."""


MOMENTS = frozenset({Family.TIMESTAMP, Family.TIMESTAMPTZ, Family.DATE})
NUMBERS = frozenset({Family.INTEGER, Family.NUMERIC})

RENDERED_BY_DATABASE = MOMENTS | {Family.OTHER}
"""Key parts whose text only the database writes without loss; drivers return the others exactly."""


@dataclass(frozen=True, slots=True)
class Odd:
    """A row whose text has another form than the column's first.

    Attributes:
        form: the first row's. value: this row's, as text. key: of this row, by column.
    """

    form: TextForm
    value: str
    key: tuple[tuple[str, Any], ...]


@dataclass(frozen=True, slots=True)
class CursorColumn:
    """One column that the cursor rests on.

    Attributes:
        name: as in the database.
        family: which kind of values.
        sql_type: the type of a CAST back to it; empty if a value is bound as it is.
        digits: how many fractional digits of a second the type can hold.
        nullable: whether it may be NULL; None if that is unknown (a view, a query).
        form: SQLite only: how its stored text is written; None where `odd` is set.
        odd: a row whose text has another form than the first one's, if there is one.
        collation: of a key's text, by which the database sorts it, with its version; None if it has none, or it is not
            known.
    """

    name: str
    family: Family
    sql_type: str = ""
    digits: int = 6
    nullable: bool | None = None
    form: TextForm | None = None
    odd: Odd | None = None
    collation: str | None = None


# --------------------------------------------------------------------------------------------------------- exact values
# Where a driver returns a column's value with nothing lost, its text is made here, as the database would write it.
# A page then has no second column for the cursor's text, and the text is made of the rows whose cursor is asked for:
# mostly the last one. Values that Python cannot hold, or that the database writes in another form, it renders itself.


@dataclass(frozen=True, slots=True)
class ValueFormat:
    """How the values of a column are written.

    Attributes:
        kind: the only type that they may have. text: of one value, as `Dialect.render` has it written.
        zoned: whether the values are times with a zone (of any zone: instants); None where they are no times.
        alike: whether the driver gives all values of the column this type, or fails.
    """

    kind: type
    text: Callable[[Any], str]
    zoned: bool | None = None
    alike: bool = False

    def covers(self, records: Sequence[Sequence[Any]], place: int) -> bool:
        """True if the text of each of these, in the column's order, can be made here. The ends of Python's calendar are
        left to the database: an instant of them may be of another year in UTC."""
        if not records:
            return True
        first, last = records[0][place], records[-1][place]
        looked_at = (records[0], records[-1]) if self.alike else records
        if set(map(type, map(itemgetter(place), looked_at))) != {self.kind}:
            return False
        if not isinstance(first, date):
            return True
        return first.year > 1 and last.year < 9999 and self.zoned == (getattr(first, "tzinfo", None) is not None)


_UNZONED = len("2026-01-01T00:00:00.000000")


def _instant(value: datetime) -> str:
    return value.astimezone(UTC).isoformat(timespec="microseconds")[:_UNZONED] + "Z"


def _naive(value: datetime) -> str:
    return value.isoformat(timespec="microseconds")


NAIVE_UTC = ValueFormat(datetime, lambda value: _naive(value) + "Z", zoned=False)
"""Instants that the driver returns without a zone, in a session in UTC."""
_EXACT = {
    Family.TIMESTAMPTZ: ValueFormat(datetime, _instant, zoned=True),
    Family.TIMESTAMP: ValueFormat(datetime, _naive, zoned=False),
    Family.DATE: ValueFormat(date, date.isoformat, zoned=False),
    Family.INTEGER: ValueFormat(int, str),
    Family.TEXT: ValueFormat(str, str),
}


def exact_of(column: CursorColumn) -> ValueFormat | None:
    """Of times, dates, integers and texts in the form of sources.md, "Cursor fidelity"; None for the other families."""
    return _EXACT.get(column.family)


# ----------------------------------------------------------------------------------------------------------- uniqueness
# Which constraints and indexes really keep a key unique and NOT NULL.


@dataclass(frozen=True, slots=True)
class Reflected:
    """What the catalog says of a table or view.

    Attributes:
        columns: by name, in order, in SQLAlchemy's words; `nullable` is None where NOT NULL is declared and not
            enforced in all that a SELECT of the table reads.
        is_base: True if it is a table. inherited: True if others inherit from it: no index spans them all.
        version: as `Dialect.watch` asks for it again, where no result and no time shows that a key was changed.
        primary: the primary key's columns, and index: the number of its index, if the database has such numbers.
    """

    columns: dict[str, dict[str, Any]]
    is_base: bool
    inherited: bool = False
    version: str | None = None
    primary: tuple[str, ...] = ()
    index: int | None = None


@dataclass(frozen=True, slots=True)
class Proof:
    """What constraints prove of a key; without it rows would be skipped or repeated without any error.

    Attributes:
        unique: whether a constraint or full index covers it. others: the sets of columns that are unique, for a person.
        nullable: its columns that may be NULL.
    """

    unique: bool
    others: str
    nullable: Sequence[str]


def proof_of(
    sets: tuple[Sequence[str], Sequence[Sequence[str]]], key: Sequence[str], columns: Mapping[str, Mapping[str, Any]]
) -> Proof:
    """True if a key is unique and NOT NULL, given `Dialect.unique_sets` and `Dialect.reflected`."""
    primary, unique = sets
    return Proof(
        unique=any(names and set(names) <= set(key) for names in unique),
        others="; ".join(", ".join(names) for names in unique if names),
        # SQLite reports primary keys as nullable; rows are checked instead.
        nullable=[name for name in key if columns[name].get("nullable") and name not in primary],
    )


def reflected_sets(inspector: Inspector, table: str, schema: str | None) -> tuple[list[str], list[list[str]]]:
    """`Dialect.unique_sets`, as SQLAlchemy says it."""
    primary = list(inspector.get_pk_constraint(table, schema=schema).get("constrained_columns") or [])
    unique = [primary] if primary else []
    unique += [list(c["column_names"]) for c in inspector.get_unique_constraints(table, schema=schema)]
    for index in inspector.get_indexes(table, schema=schema):
        of_columns = None not in index["column_names"] and not index.get("expressions")
        if index["unique"] and of_columns and not limits_of(index):
            unique.append([str(name) for name in index["column_names"]])
    return primary, unique


def quoted(table: str, schema: str | None = None) -> str:
    """A name quoted as in standard SQL: for SQLite's statements, and for PostgreSQL's `to_regclass`, which takes it as
    a value."""
    parts = [table] if schema is None else [schema, table]
    return ".".join('"' + part.replace('"', '""') + '"' for part in parts)


def connection_of(inspector: Inspector) -> Connection:
    """The held connection that it inspects over."""
    from sqlalchemy.engine import Connection  # who only reads moments loads no SQLAlchemy

    assert isinstance(inspector.bind, Connection)  # noqa: S101 - no engine is ever inspected
    return inspector.bind


def limits_of(index: Any) -> list[str]:
    """The condition of a partial index."""
    options = dict(index.get("dialect_options") or {})
    return [str(sql) for name, sql in options.items() if name.endswith("_where") and sql is not None]


# ---------------------------------------------------------------------------------------------- moments and their texts

_MINUTE = timedelta(minutes=1)
_FORM = re.compile(
    r"\d{4}-\d\d-\d\d(?:(?P<sep>[T ])\d\d:\d\d(?P<sec>:\d\d(?:\.(?P<frac>\d+))?)?(?P<zone>Z|[+-]\d\d(?::?\d\d)?)?)?",
    re.ASCII,
)


@dataclass(frozen=True, slots=True)
class TextForm:
    """How a text column writes its timestamps; all rows must agree, because text is compared as text.

    Attributes:
        separator: `T`, a space, or empty for a date alone.
        seconds: whether seconds are written; digits: fractional digits of the row it was seen in.
        zone: the suffix (`Z`, `+00:00`), empty for none.
    """

    separator: str
    seconds: bool
    digits: int
    zone: str

    @classmethod
    def of(cls, text: str) -> TextForm | None:
        """The form of one stored text; None if it is not an ISO 8601 timestamp."""
        found = _FORM.fullmatch(text)
        if found is None:
            return None
        return cls(
            separator=found["sep"] or "",
            seconds=found["sec"] is not None,
            digits=len(found["frac"] or ""),
            zone=found["zone"] or "",
        )

    def pattern(self) -> re.Pattern[str]:
        """What every other row must match. Where `varies`, the fraction may be missing or have any length, as Python's
        isoformat and .NET write it; `below` allows for writers that cut it off."""
        if not self.separator:
            return re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
        text = rf"\d{{4}}-\d\d-\d\d{self.separator}\d\d:\d\d"
        if self.seconds:
            text += r":\d\d"
            if self.varies:
                text += r"(?:\.\d+)?"
            elif self.digits:
                text += rf"\.\d{{{self.digits}}}"
        return re.compile(text + re.escape(self.zone), re.ASCII)

    @property
    def varies(self) -> bool:
        """True if fractions may differ in length: the shorter text then sorts first, as it should. An offset's sign
        sorts before a point and a digit, a `Z` after them."""
        return self.seconds and self.zone != "Z"

    def __str__(self) -> str:
        if not self.separator:
            return "YYYY-MM-DD"
        seconds = ":SS" if self.seconds else ""
        return f"YYYY-MM-DD{self.separator}HH:MM{seconds}{'.' if self.digits else ''}{'f' * self.digits}{self.zone}"

    def render(self, moment: datetime) -> str:
        """A moment of the column's own zone (naive) as the column would write it, truncated, never rounded up."""
        text = f"{moment:%Y-%m-%d}".rjust(10, "0")
        if not self.separator:
            return text
        text += f"{self.separator}{moment:%H:%M}"
        if self.seconds:
            text += f":{moment:%S}"
            if self.digits:
                text += "." + f"{moment:%f}".ljust(self.digits, "0")[: self.digits]
        return text + self.zone

    def below(self, moment: datetime) -> str:
        """The greatest text that no row written at `moment` (naive, of the column's zone) or later sorts below: rounded
        down and, if a writer may round to seconds or less, one unit less. All writers truncate dates and minutes.

        Where fractions may differ in length, one writer may cut them off (CURRENT_TIMESTAMP) and another not, so that a
        later row may sort first: only seconds that are over are complete."""
        if not self.seconds:
            return self.render(floor_to(moment, self.unit))
        if self.digits and self.varies:
            whole = replace(self, digits=0)
            return whole.render(floor_to(moment - self.unit, whole.unit))
        return self.render(floor_to(moment, self.unit) - self.unit)

    def complete(self, text: str) -> str:
        """The same for a row's text: without its fraction, where those may differ in length."""
        return re.sub(r"\.\d+", "", text) if self.varies else text

    def offset(self) -> timedelta | None:
        """What the suffix means; None without one."""
        if not self.zone:
            return None
        return datetime.fromisoformat(f"2000-01-01T00:00:00{_full(self.zone)}").utcoffset()

    @property
    def unit(self) -> timedelta:
        """The smallest step between two texts of this form."""
        if not self.separator:
            return timedelta(days=1)
        return unit_of(self.digits) if self.seconds else timedelta(minutes=1)


def _full(zone: str) -> str:
    return zone + ":00" if len(zone) == 3 else zone


def unit_of(digits: int) -> timedelta:
    """The smallest step of a type with this many fractional digits, at least Python's microsecond."""
    return timedelta(microseconds=10 ** (6 - min(digits, 6)))


def iso_text(moment: datetime, digits: int, *, zoned: bool) -> str:
    """`YYYY-MM-DDTHH:MM:SS.ffffff`, with all the column's digits and at least six, and `Z` for zoned columns."""
    text = moment.replace(tzinfo=None).isoformat(timespec="microseconds")
    return text + "0" * max(0, digits - 6) + ("Z" if zoned else "")


def floor_to(moment: datetime, unit: timedelta) -> datetime:
    """The latest multiple of `unit` that is not after `moment`, counted from the year's first day."""
    start = datetime(moment.year, 1, 1, tzinfo=moment.tzinfo)
    return start + (moment - start) // unit * unit


def parse_utc(text: str, zone: tzinfo | None) -> datetime | None:
    """The instant that a cursor's text means, in UTC; naive ones are of `zone`. None for what Python cannot hold
    (infinities, years before 1 or after 9999) and for naive ones of an unknown zone."""
    try:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is None:
            if zone is None:
                return None
            moment = moment.replace(tzinfo=zone)
        return moment.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def lowest_from(moment: datetime, zone: tzinfo) -> datetime:
    """The lowest time that the clocks of `zone` show at that instant or later, naive. While they show an hour for the
    first time that will come a second time, that is the beginning of this hour."""
    local = moment.astimezone(zone)
    shown = local.replace(tzinfo=None)
    if local.fold or not _comes_twice(shown, zone):
        return shown
    shown = shown.replace(second=0, microsecond=0)
    while _comes_twice(shown - _MINUTE, zone):
        shown -= _MINUTE
    return shown


def _comes_twice(shown: datetime, zone: tzinfo) -> bool:
    first, second = (shown.replace(tzinfo=zone, fold=fold).utcoffset() for fold in (0, 1))
    return first is not None and second is not None and first > second


@cache
def has_daylight_saving(zone: ZoneInfo) -> bool:
    """True if the zone's clocks are ever set back from 2020 on: local times then repeat."""
    first = datetime(2020, 1, 1, tzinfo=UTC)
    offsets = {(first + timedelta(days=10 * i)).astimezone(zone).utcoffset() for i in range(650)}
    return len(offsets) > 1


def plain_text(value: object) -> str:
    """A value from TOML or Python (a text, a number, a date) as text for the database to read."""
    if isinstance(value, datetime | date):
        return value.isoformat()
    return str(value)
