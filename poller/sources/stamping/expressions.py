"""The zone of the time that a SQL expression yields: a DEFAULT, an assignment in a trigger, a view's column.

Expressions are read by their words, which is enough for nearly all of them. One with a function that is not known here
is unknown, and never a reason to refuse.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Collection
from dataclasses import dataclass


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
class _Words:
    """How one family of databases writes the present time.

    Attributes:
        utc: in UTC. session: in the session's or the server's zone. fixed: in a zone that it names (group `zone`).
        known: functions that do not change the zone of their arguments.
        other: what makes the expression unknown.
    """

    utc: str
    session: str
    fixed: str = r"(?!)"
    known: str = ""
    other: str = r"(?!)"


LOCAL = "localtime"
"""SQLite's name for the zone of the machine that writes."""

_WORDS = {
    "postgresql": _Words(
        utc=r"(?!)",
        session=r"\b(?:now|clock_timestamp|statement_timestamp|transaction_timestamp|timeofday)\s*\(\s*\)"
        r"|\b(?:current_timestamp|localtimestamp|current_date)\b|'(?:now|today)'",
        fixed=r"\bat\s+time\s+zone\s*(?:\(|cast\s*\()*\s*'(?P<zone>[^']*)'|\btimezone\s*\(\s*'(?P<named>[^']*)'",
        known="now clock_timestamp statement_timestamp transaction_timestamp timeofday timezone date_trunc coalesce"
        " greatest least cast current_timestamp localtimestamp timestamp timestamptz nullif zone",
        other=r"\blocaltimestamp\b.*\b(?:at\s+time\s+zone|timezone)\b|\btimezone\b.*\blocaltimestamp\b"
        r"|\b(?:time\s+zone|timezone)\s*\(*\s*(?:interval\b|'[^']*'::interval\b)",  # ISO's sign, not POSIX'
    ),
    "mysql": _Words(
        utc=r"\butc_(?:timestamp|date)\b",
        session=r"\b(?:current_timestamp|current_date|localtime|localtimestamp)\b|\b(?:now|sysdate|curdate)\s*\(",
        known="utc_timestamp utc_date current_timestamp current_date localtime localtimestamp now sysdate curdate"
        " coalesce ifnull greatest least cast convert if timestamp date datetime date_add date_sub nullif",
    ),
    "sqlite": _Words(
        utc=r"\bcurrent_(?:timestamp|date)\b|'now'|\b(?:datetime|date|julianday|unixepoch)\s*\(\s*\)",
        session=r"(?!)",
        known="strftime datetime date time julianday unixepoch coalesce ifnull max min cast nullif",
        other=r"'utc'|'[+-]\d",
    ),
    "mssql": _Words(
        utc=r"\b(?:getutcdate|sysutcdatetime)\s*\(",
        session=r"\b(?:getdate|sysdatetime|sysdatetimeoffset)\s*\(|\bcurrent_timestamp\b",
        fixed=r"\bsysdatetimeoffset\s*\(\s*\)\s+at\s+time\s+zone\s*\(?\s*'(?P<zone>[^']*)'",
        known="getutcdate sysutcdatetime getdate sysdatetime sysdatetimeoffset convert cast isnull coalesce datetime2"
        " datetimeoffset nullif zone",
    ),
    "oracle": _Words(
        utc=r"\bsys_extract_utc\s*\(\s*(?:sys|current_)timestamp\s*(?:\(\d\)\s*)?\)",
        session=r"\bsysdate\b|(?<!sys_extract_utc\()\bsystimestamp\b",
        fixed=r"\bsystimestamp(?:\s*\(\d\))?\s+at\s+time\s+zone\s*\(?\s*'(?P<zone>[^']*)'",
        known="sys_extract_utc systimestamp cast timestamp trunc coalesce nvl greatest least zone",
        other=r"\b(?:current_timestamp|localtimestamp|current_date|from_tz)\b(?!\s*(?:\(\d\)\s*)?\))",
    ),
}  # fmt: skip
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
    words, text = _WORDS[family], " ".join(without_comments(sql).lower().split())
    calls = {name.strip('"[]`') for name in _CALL.findall(_TEXT.sub("''", text))}
    if re.search(words.other, text) or calls - _KEYWORDS - set(words.known.split()):
        return Reading.UNKNOWN, ""
    fixed = [next(filter(None, found.groups()), "") for found in re.finditer(words.fixed, text)]
    utc, session = len(re.findall(words.utc, text)), len(re.findall(words.session, text))
    if family == "sqlite" and utc:
        return Reading.FIXED, LOCAL if f"'{LOCAL}'" in text else "UTC"
    if fixed:
        one_each = len(set(fixed)) == 1 and not utc and len(fixed) == max(1, session)
        # The zone's case was lost: it matters to zoneinfo only.
        return (Reading.FIXED, _as_written(fixed[0], sql)) if one_each else (Reading.UNKNOWN, "")
    if utc and session:
        return Reading.UNKNOWN, ""
    if utc:
        return Reading.FIXED, "UTC"
    return (Reading.SESSION if session else Reading.NOTHING), ""


_EARLIER = {
    family: re.compile(words)
    for family, words in {
        "postgresql": r"\bdate_trunc\s*\(\s*'(?!(?:milli|micro)?seconds?')|\bcurrent_date\b|'today'|::date\b"
        r"|-\s*(?:interval\b|'[^']*'::interval)",
        "mysql": r"\b(?:current_date|utc_date)\b|\b(?:curdate|date|date_sub)\s*\(|-\s*interval\b",
        "sqlite": r"\bcurrent_date\b|\bdate\s*\(|'start of",
        "mssql": r"\bas\s+date\)|\bconvert\s*\(\s*date\b",
        "oracle": r"\btrunc\s*\(|-\s*interval\b",
    }.items()
}


_TIME_OF_DAY = re.compile(r"\b(?:current_time|localtime|curtime|utc_time)\b|\btime\s*\(")
"""A time of day that is added to a date, so that both are the present time."""


def is_earlier(sql: str, family: str) -> bool:
    """Whether an expression is the present time truncated by more than a second, or less an interval."""
    if read(sql, family)[0] not in {Reading.FIXED, Reading.SESSION}:
        return False
    text = " ".join(without_comments(sql).lower().split())
    return _EARLIER[family].search(text) is not None and not _TIME_OF_DAY.search(text)


def _as_written(zone: str, sql: str) -> str:
    found = re.search(re.escape(zone), sql, re.IGNORECASE)
    return zone if found is None else found[0]


def assigned(body: str, column: str, *, to_new: bool, tables: Collection[str] = ()) -> list[str] | None:
    """The expressions that a trigger's body sets a column to; empty where it does not set it, None where it may in an
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
    """Whether a trigger's body may do nothing."""
    return bool(re.search(r"\b(?:if|case|when)\b", without_comments(body), re.IGNORECASE))
