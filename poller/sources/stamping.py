"""How the cursor's column gets its values: in which zone it is stamped, and whether an UPDATE changes it.

The bound is the server's clock in `cursor_time_zone`. A column without a zone that is stamped in another zone is hours
away from it: then rows wait for hours, or those that commit late are lost (sources.md, "Rows that commit late"). So
before the first page the zone in which the database stamps is compared with the configured one.

A database's folder has `stamps`, a module with `origin` (the table's column behind the cursor and what fills it),
`server` (the zones of the writers' sessions), `offsets` (a zone's distance from UTC) and `WORDS` (how it writes the
present time).
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, cast
from zoneinfo import ZoneInfo

from sqlalchemy.engine import Connection
from sqlalchemy.exc import DBAPIError

from poller.errors import ConfigError
from poller.sources import user_sql
from poller.sources.columns import CursorColumn, Family, has_daylight_saving
from poller.sources.connection import Database
from poller.sources.faults import Fault
from poller.sources.options import ReadOptions

if TYPE_CHECKING:
    from sqlglot import exp  # loaded if there is SQL to parse

EVERY = timedelta(days=5)
"""Shorter than any time for which two zones differ only because one changes its clocks earlier."""


@dataclass(frozen=True, slots=True)
class Stamp:
    """One zone in which the cursor's column gets its times.

    Attributes:
        zone: its name in the database; empty if it is unknown.
        source: where that is set, for people: `ALTER DATABASE shop SET timezone`, `the column's DEFAULT now()`.
        offsets: seconds ahead of UTC at some instants; None if they are unknown.
        assumed: nothing in the database stamps the column, so the writers may mean another zone.
        role: whose sessions have this zone; empty if it is the default of all roles.
    """

    zone: str
    source: str
    offsets: Mapping[datetime, int] | None
    assumed: bool = False
    role: str = ""

    def differs(self, zone: tzinfo) -> bool:
        """True if its offset ever differs from that of `zone`; False if that is unknown."""
        return self.offsets is not None and any(seconds(zone, at) != ahead for at, ahead in self.offsets.items())

    @property
    def iana(self) -> str | None:
        """A name that `cursor_time_zone` takes; None if none is known."""
        if self.offsets is None:
            return None
        offsets = set(self.offsets.values())
        if offsets == {0}:
            return "UTC"
        if _is_zone(self.zone) and not self.differs(ZoneInfo(self.zone)):
            return self.zone
        hours, rest = divmod(min(offsets), 3600)
        name = f"Etc/GMT{-hours:+d}"  # the sign of POSIX: west is positive
        return name if len(offsets) == 1 and not rest and _is_zone(name) else None

    def __str__(self) -> str:
        if self.offsets is None or _is_zone(self.zone):
            return self.zone or "an unknown zone"
        least, most = min(self.offsets.values()), max(self.offsets.values())
        offset = _offset(least) if least == most else f"{_offset(least)} to {_offset(most)}"
        return offset if self.zone[:1] in {"+", "-"} else f"{self.zone} ({offset})"


def instants(now: datetime) -> list[datetime]:
    """Instants throughout the year of `now`, in UTC."""
    first = datetime(now.year, 1, 1, tzinfo=UTC)
    return [first + number * EVERY for number in range(366 // EVERY.days)]


def seconds(zone: tzinfo, at: datetime) -> int:
    """The number of seconds that `zone` is ahead of UTC at an instant."""
    offset = at.astimezone(zone).utcoffset()
    return 0 if offset is None else round(offset.total_seconds())


def of_name(zone: str, at: Sequence[datetime]) -> dict[datetime, int] | None:
    """The offsets of a zone by its name (`UTC`, `Europe/Berlin`) or distance (`+02:00`); None for an unknown one."""
    found = re.fullmatch(r"([+-])(\d{1,2}):(\d\d)", zone)
    if found is not None:
        distance = (int(found[2]) * 60 + int(found[3])) * 60
        return dict.fromkeys(at, -distance if found[1] == "-" else distance)
    named = "UTC" if zone.upper() in {"UTC", "Z", "GMT"} else zone
    if not _is_zone(named):
        return None
    return {one: seconds(ZoneInfo(named), one) for one in at}


def _is_zone(name: str) -> bool:
    try:
        ZoneInfo(name)
    except (ValueError, OSError, KeyError):  # ZoneInfoNotFoundError is a KeyError
        return False
    return bool(name)


def _offset(ahead: int) -> str:
    minutes = abs(ahead) // 60
    return f"UTC{'-' if ahead < 0 else '+'}{minutes // 60:02d}:{minutes % 60:02d}"


@dataclass(frozen=True, slots=True)
class Watched:
    """The cursor's column as configured.

    Attributes:
        family: which family of databases. schema, table: None for a query; query: the user's SQL, None for a table.
        ignore_users: users that only read.
    """

    family: str
    schema: str | None
    table: str | None
    query: str | None
    column: str
    ignore_users: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class StampRule:
    """One thing that sets the column's value.

    Attributes:
        what: for people: `the column's DEFAULT now()`, `the trigger "touch"`.
        sql: the expression; None if it is not known.
        inserts, updates: when. firm: whether it always does.
        is_default: whether a trigger overrides it. zone: the session's zone while it runs, if it sets that itself.
    """

    what: str
    sql: str | None
    inserts: bool = False
    updates: bool = False
    firm: bool = True
    is_default: bool = False
    zone: str | None = None


@dataclass(frozen=True, slots=True)
class ColumnOrigin:
    """The table's column behind the cursor, and what fills it.

    Attributes:
        schema, table, column: None, None and empty if it cannot be followed (an expression, a UNION).
        rules: what sets its value. hidden: what this user may not see, with the privilege that shows it.
        kind: the database's name of its type.
    """

    schema: str | None
    table: str | None
    column: str
    rules: Sequence[StampRule] = ()
    hidden: str = ""
    kind: str = ""


def by_default(sql: str) -> StampRule:
    """A column's DEFAULT."""
    return StampRule(f"the column's DEFAULT {_short(sql)}", sql, inserts=True, is_default=True)


def by_generation(sql: str | None) -> StampRule:
    """A generated column: it changes with those that it is made from."""
    return StampRule("the column's generated expression", sql or None, inserts=True, updates=True)


def by_expression(what: str, sql: str | None) -> StampRule:
    """A view's or query's expression over other columns."""
    return StampRule(f"{what}{'' if sql is None else ' ' + _short(sql)}", sql, inserts=True, updates=True)


def by_trigger(
    name: str, body: str | None, column: str, events: str, *, to_new: bool, firm: bool = True, zone: str | None = None,
    tables: Collection[str] = (),
) -> list[StampRule]:  # fmt: skip
    """What one trigger does with the column; empty if it does not touch it.

    Args:
        body: None if it may not be read. events: a text that names INSERT, UPDATE or both.
        to_new, tables: see `assigned`. firm: whether it has no condition outside of its body.
    """
    inserts, updates = "INSERT" in events.upper(), "UPDATE" in events.upper()
    if not (inserts or updates):
        return []
    what = f'the trigger "{name}"'
    found = None if body is None else assigned(body, column, to_new=to_new, tables=tables)
    if found is None:
        return [StampRule(what, None, inserts, updates, firm=False)]
    firm = firm and not is_conditional(body or "")
    return [StampRule(what, sql, inserts, updates, firm=firm, zone=zone) for sql in found]


def _short(sql: str) -> str:
    text = " ".join(without_comments(sql).split())
    return text if len(text) <= 60 else text[:57] + "..."


class Reading(enum.Enum):
    """The result of reading an expression."""

    FIXED = "fixed"
    """The present time in one zone, whatever the session's or the server's is."""
    SESSION = "session"
    """The present time, in the zone of the session or the server."""
    NOTHING = "nothing"
    """Not the present time: a constant, NULL, another column."""
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Words:
    """How one family of databases writes the present time.

    Attributes:
        utc: in UTC. session: in the session's or the server's zone. fixed: in a zone that it names (group `zone`).
        known: functions that do not change the zone of their arguments.
        other: what makes the expression unknown. earlier: what makes it a time before the present one.
        local: a text in it by which UTC becomes the zone of the machine that writes.
    """

    utc: str
    session: str
    fixed: str = r"(?!)"
    known: str = ""
    other: str = r"(?!)"
    earlier: str = r"(?!)"
    local: str = ""


_TEXT = re.compile(r"'(?:[^']|'')*'")
_CALL = re.compile(r"([\w$.\"\[\]`]*[\w$\"\]`])\s*\(")
_KEYWORDS = frozenset(
    ("and", "or", "in", "not", "then", "when", "else", "end", "case", "interval", "as", "is", "null", "values", "set")
)
"""What may stand before a parenthesis and is not a function."""
_COMMENT = re.compile(r"--[^\n]*|/\*.*?\*/", re.DOTALL)


def without_comments(sql: str) -> str:
    """The SQL with a blank for each comment."""
    return _COMMENT.sub(" ", sql)


def read(sql: str, family: str) -> tuple[Reading, str]:
    """What an expression is, and the zone where that is fixed."""
    words, text = _words(family), " ".join(without_comments(sql).lower().split())
    calls = {name.strip('"[]`') for name in _CALL.findall(_TEXT.sub("''", text))}
    if re.search(words.other, text) or calls - _KEYWORDS - set(words.known.split()):
        return Reading.UNKNOWN, ""
    fixed = [next(filter(None, found.groups()), "") for found in re.finditer(words.fixed, text)]
    utc, session = len(re.findall(words.utc, text)), len(re.findall(words.session, text))
    if words.local and utc:
        return Reading.FIXED, words.local if f"'{words.local}'" in text else "UTC"
    if fixed:
        one_each = len(set(fixed)) == 1 and not utc and len(fixed) == max(1, session)
        # The zone's case was lost: it matters to zoneinfo only.
        return (Reading.FIXED, _as_written(fixed[0], sql)) if one_each else (Reading.UNKNOWN, "")
    if utc and session:
        return Reading.UNKNOWN, ""
    if utc:
        return Reading.FIXED, "UTC"
    return (Reading.SESSION if session else Reading.NOTHING), ""


_TIME_OF_DAY = re.compile(r"\b(?:current_time|localtime|curtime|utc_time)\b|\btime\s*\(")
"""A time of day that is added to a date, so that both are the present time."""


def is_earlier(sql: str, family: str) -> bool:
    """True if an expression is the present time truncated by more than a second, or less an interval."""
    if read(sql, family)[0] not in {Reading.FIXED, Reading.SESSION}:
        return False
    text = " ".join(without_comments(sql).lower().split())
    return re.search(_words(family).earlier, text) is not None and not _TIME_OF_DAY.search(text)


def _as_written(zone: str, sql: str) -> str:
    found = re.search(re.escape(zone), sql, re.IGNORECASE)
    return zone if found is None else found[0]


def assigned(body: str, column: str, *, to_new: bool, tables: Collection[str] = ()) -> list[str] | None:
    """The expressions that a trigger's body sets a column to; empty if it does not set it, None if it may in an
    unreadable way.

    Args:
        to_new: whether it changes the row before it is written (`NEW.column := ...`), or by another UPDATE.
        tables: the names of the table; an UPDATE that names none of them is of another table. Empty: any counts.
    """
    text = without_comments(body)
    if to_new and _DYNAMIC.search(text):
        return None
    name = rf"[\"`\[]?{re.escape(column)}[\"`\]]?"
    if not re.search(rf"(?<![\w$]){name}(?![\w$])", text, re.IGNORECASE):
        return []
    if to_new:
        new = rf"(?<![\w$\"]):?new\s*\.\s*{name}"
        # Code that compares it, passes it on or raises an error about it does not set it.
        handed_on = re.search(rf"\b(?:into|call)\b[^;]*?{new}", text, re.IGNORECASE)
        return _values(new, r";|\Z", text) or (None if handed_on else [])
    own = [one for one in text.split(";") if _UPDATE.search(one) and _names_any(one, tables)]
    found = [value for one in own for value in _values(rf"(?<![\w$\"]){name}", r"\bwhere\b|\bfrom\b|\Z", one)]
    return found or (None if own else [])


def _values(target: str, ends: str, text: str) -> list[str]:
    found = re.finditer(rf"{target}\s*:?=(?=\s*(.*?)(?:{ends}))", text, re.IGNORECASE | re.DOTALL)
    return [one[1] for one in found if not _COMPARED.search(text[: one.start()])]


def _names_any(text: str, tables: Collection[str]) -> bool:
    words = "|".join(map(re.escape, tables))
    return not tables or re.search(rf"(?<![\w$])(?:{words})(?![\w$])", text, re.IGNORECASE) is not None


_COMPARED = re.compile(r"(?:\b(?:if|elsif|elseif|when|where|on|and|or|not)|\()\s*\Z", re.IGNORECASE)
"""What stands before a comparison, and never before an assignment."""
_UPDATE = re.compile(r"\bupdate\b[^']*?\bset\b", re.IGNORECASE)


_DYNAMIC = re.compile(
    r"\bexecute\b|\btg_argv\b|\bset_config\b|\bset\s+(?:local|session)\b"
    r"|\bnew\s*:?=|\binto\s+new\b(?!\s*\.)|\breturn\s+(?!new\b|old\b|null\b)",
    re.IGNORECASE,
)
"""What may change the whole row, or a column that is not named, or the zone."""


def is_conditional(body: str) -> bool:
    """True if a trigger's body may do nothing."""
    return bool(re.search(r"\b(?:if|case|when)\b", without_comments(body), re.IGNORECASE))


DEEPEST = 20
"""The number of views over views that are followed."""


@dataclass(frozen=True, slots=True)
class Made:
    """Where a column comes from.

    Attributes:
        schema, table, column: None, None and empty if it is an expression. sql: that expression; None if it is
            unknown.
    """

    schema: str | None
    table: str | None
    column: str
    sql: str | None = None


def traced(
    watched: Watched,
    view: Callable[[str | None, str], str | None],
    table: Callable[[str | None, str, str], ColumnOrigin | None],
) -> ColumnOrigin:
    """The column behind the cursor. Raises what `view` and `table` raise.

    Args:
        view: as for `follow`. table: what fills a column, by its schema, table and name; None if there is none.
    """
    at = follow(watched, view)
    found = None if at.table is None else table(at.schema, at.table, at.column)
    return found or ColumnOrigin(None, None, "", [by_expression("the column's expression", at.sql)])


def follow(watched: Watched, view: Callable[[str | None, str], str | None]) -> Made:
    """Follow a column down to a table.

    Args:
        view: the SELECT of a view, empty if this user may not read it, None if it is a table.
    """
    family, at = watched.family, Made(watched.schema, watched.table, watched.column)
    if watched.query is not None:
        at = _behind(watched.query, watched.column, family, watched.schema)
    for _ in range(DEEPEST):
        if at.table is None:
            break
        sql = view(at.schema, at.table)
        if sql is None:
            return at
        at = _behind(sql, at.column, family, at.schema) if sql else Made(None, None, "")
    return Made(None, None, "", at.sql)


def made_of(sql: str, column: str, family: str) -> str | None:
    """The expression that a SELECT has for a column, as SQL; None if it is unknown."""
    return _behind(sql, column, family, None).sql


def _behind(sql: str, column: str, family: str, schema: str | None) -> Made:
    nothing = Made(None, None, "")
    try:
        tree = user_sql.parse(sql, family)
    except user_sql.Unreadable:
        return nothing
    from sqlglot import exp

    if isinstance(tree, exp.Create):  # SQLite and SQL Server keep the whole statement
        tree = tree.expression
    if not isinstance(tree, exp.Select) or tree.args.get("with_"):
        return nothing
    tables = {one.alias_or_name.lower(): one for one in user_sql.read_by(tree)}
    chosen = _chosen(tree, column)
    if isinstance(chosen, exp.Star):
        return _of(next(iter(tables.values())), column, schema) if len(tables) == 1 else nothing
    if isinstance(chosen, exp.Column):
        table = tables.get(chosen.table.lower()) if chosen.table else next(iter(tables.values()), None)
        if table is None or (not chosen.table and len(tables) > 1):
            return nothing
        return _of(table, column if isinstance(chosen.this, exp.Star) else chosen.name, schema)
    return nothing if chosen is None else Made(None, None, "", chosen.sql(dialect=user_sql.parser_of(family)))


def _of(table: exp.Expression, column: str, schema: str | None) -> Made:
    from sqlglot import exp

    if not isinstance(table, exp.Table) or not table.name:
        return Made(None, None, "")
    return Made(table.db or schema, table.name, column)


def _chosen(tree: exp.Select, column: str) -> Any:
    """The part of a SELECT's list that yields a column of that name; the one star, if none has that name."""
    from sqlglot import exp

    stars = []
    for one in tree.expressions:
        if isinstance(one, exp.Star) or (isinstance(one, exp.Column) and isinstance(one.this, exp.Star)):
            stars.append(one)
        elif one.alias_or_name.lower() == column.lower():
            return one.this if isinstance(one, exp.Alias) else one
    return stars[0] if len(stars) == 1 else None


class _Module(Protocol):
    WORDS: Words

    def origin(self, connection: Connection, watched: Watched) -> ColumnOrigin: ...

    def server(
        self, connection: Connection, watched: Watched, found: ColumnOrigin, at: Sequence[datetime]
    ) -> list[Stamp]: ...

    def offsets(self, connection: Connection, zone: str, at: Sequence[datetime]) -> dict[datetime, int] | None: ...


def _module(family: str) -> _Module:
    return cast(_Module, import_module(f"poller.sources.{family}.stamps"))


def _words(family: str) -> Words:
    return _module(family).WORDS


def watched(family: str, options: ReadOptions) -> Watched:
    """The cursor's column of a source."""
    o = options
    return Watched(family, o.schema_name, o.table, o.query, o.cursor_column, o.bound_ignore_users)


def promises_updates(column: str) -> bool:
    """True if a column's name promises that it changes with every change of its row, as `updated_at` does."""
    return _CHANGES.search(column) is not None


_CHANGES = re.compile(
    r"updat|modif|(?<!ex)changed|(?:^|_)change(?:_|$)|edited|touched|mtime|last_?(?:change|write|edit)", re.IGNORECASE
)


def needs_zone(options: ReadOptions, column: CursorColumn) -> bool:
    """True if the bound of this cursor rests on what its times mean."""
    if not options.is_timed:
        return False
    if column.form is not None:
        return not column.form.zone
    return column.family in {Family.TIMESTAMP, Family.DATE}


def origin(database: Database, cursor: Watched) -> ColumnOrigin:
    """The table's column behind the cursor, and what fills it. Raises what the driver raises."""
    try:
        return _module(cursor.family).origin(database.connection(), cursor)
    except DBAPIError as error:
        if database.dialect.classify(error) is not Fault.FORBIDDEN:
            raise
        return ColumnOrigin(
            None, None, "", [StampRule("its definition, which this user may not read", None, True, True)]
        )


def stamps(database: Database, cursor: Watched, found: ColumnOrigin) -> list[Stamp]:
    """The zones in which the column is stamped, as far as the database shows them. Raises what the driver raises."""
    try:
        return _stamps(database.connection(), cursor, found)
    except DBAPIError as error:
        if database.dialect.classify(error) is not Fault.FORBIDDEN:
            raise
        return [Stamp("", "the server's settings, which this user may not read", None)]


def _stamps(connection: Connection, cursor: Watched, found: ColumnOrigin) -> list[Stamp]:
    module, at = _module(cursor.family), instants(datetime.now(UTC))
    known, by_session = [], False
    readings = [(rule, *_read(rule, cursor.family, found)) for rule in found.rules]
    for rule, reading, zone in readings:
        if reading is Reading.NOTHING or (rule.is_default and any(_goes_before(*one[:2]) for one in readings)):
            continue
        if reading is Reading.SESSION:
            by_session = True
        else:
            offsets = module.offsets(connection, zone, at) if zone else None
            known.append(Stamp(zone, rule.what, offsets))
    if by_session or not known:
        known += module.server(connection, cursor, found, at)
    return list({(one.zone, one.source): one for one in known}.values())


def _read(rule: StampRule, family: str, found: ColumnOrigin) -> tuple[Reading, str]:
    if rule.sql is None:
        return Reading.UNKNOWN, ""
    reading, zone = read(rule.sql, family)
    if reading is Reading.SESSION and found.table is None:
        return Reading.UNKNOWN, ""  # a query's or view's expression: in the reader's session, not in a writer's
    if reading is Reading.NOTHING and not rule.is_default and (found.table is None or rule.updates):
        return Reading.UNKNOWN, ""  # from other columns, which may be of any zone
    if reading is Reading.SESSION and rule.zone is not None:
        return Reading.FIXED, rule.zone
    return reading, zone


def _goes_before(rule: StampRule, reading: Reading) -> bool:
    """True if a trigger's value replaces, or may replace, the default's."""
    return rule.inserts and not rule.is_default and (rule.firm or reading is Reading.UNKNOWN)


def earlier(what: str, column: str, family: str, found: ColumnOrigin) -> ConfigError | None:
    """The error where the database stamps with a time before the present; None if it is not known to."""
    rules = [rule for rule in found.rules if rule.sql is not None and found.table is not None]
    firm = any(rule.inserts and rule.firm and not rule.is_default for rule in rules)
    rule = next((r for r in rules if is_earlier(r.sql or "", family) and not (r.is_default and firm)), None)
    if rule is None:
        return None
    return ConfigError(
        f"{what}: {rule.what} sets {column} to a time before the present (truncated, or less an interval): rows would"
        " appear below the checkpoint, and be lost.",
        key="settle",
        next_step=f"Let the database set {column} to the present time, or set `settle` to a second more than the"
        " difference.",
    )


def difference(what: str, column: str, zone: tzinfo, stamps: Sequence[Stamp], hidden: str = "") -> ConfigError | None:
    """The error where a stamp's zone differs from the configured one; None if none is known to."""
    other = next((one for one in stamps if one.differs(zone) and not one.assumed), None)
    if other is None:
        return None
    name = other.iana
    ways = []
    if name is not None and not any(one.offsets not in (None, other.offsets) and not one.assumed for one in stamps):
        dst = name != "UTC" and has_daylight_saving(ZoneInfo(name))
        ways.append(f'set cursor_time_zone = "{name}"' + (" and allow_dst = true" if dst else ""))
    ways.append(f"let the database stamp {column} in {zone}")
    if other.role:
        ways.append(f'if that role never writes there, set bound_ignore_users = ["{other.role}"]')
    ways.append('or, if the application sets the times, set bound = "delay"')
    if hidden:
        ways.append(f"or let the poller's user see the {hidden}, if one stamps {column}")
    way = ", ".join(ways)
    return ConfigError(
        f"{what}: the database stamps {column} in {other} ({other.source}), and `cursor_time_zone` is {zone}: the bound"
        " would be hours off, and rows that commit late would be lost.",
        key="cursor_time_zone",
        next_step=f"{way[0].upper()}{way[1:]}.",
    )
