"""What a driver's error means, in one line and without secrets."""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass, field

from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError

from poller.databases import tokens
from poller.databases.errors import codes
from poller.errors import SourceError, SourceUnavailable


class Fault(enum.Enum):
    """Kinds of failure with different next steps."""

    TIMEOUT = "timeout"
    DISCONNECTED = "disconnected"
    UNREACHABLE = "unreachable"
    LOGIN = "login"
    NO_DATABASE = "no database"
    NO_TABLE = "no table"
    NO_COLUMN = "no column"
    FORBIDDEN = "forbidden"
    WRITES = "writes"
    VALUE = "value"
    RANGE = "range"
    BUSY = "busy"
    OTHER = "other"


SCHEMA_FAULTS = frozenset({Fault.NO_TABLE, Fault.NO_COLUMN, Fault.OTHER})
"""After these, what was learned about the table may be out of date: inspect it again and try once more."""


QUOTING_FAULTS = frozenset({Fault.VALUE, Fault.RANGE, Fault.OTHER})
"""With these a database may quote what a row holds: conversions, ranges, errors raised by functions, unknown ones."""


def driver_code(error: BaseException) -> str:
    """A driver's error without its text: the SQLSTATE (except MySQL's general one) or number, else its type."""
    original = getattr(error, "orig", None) or error
    state, _ = codes(original)
    args: tuple[object, ...] = getattr(original, "args", ())
    if state and state != "HY000":
        return f"SQLSTATE {state}"
    if len(args) >= 2 and (isinstance(args[0], int) or re.fullmatch(r"[0-9A-Z]{5}", str(args[0]))):
        return f"error {args[0]}"
    return type(original).__name__


@dataclass(frozen=True)
class Scrubber:
    """Removes a URL's secrets from a driver's text."""

    secrets: tuple[str, ...] = field(repr=False, default=())

    @classmethod
    def of(cls, url: URL) -> Scrubber:
        """The password, also as the URL writes it, and the value of every option that may hold one."""
        found = {str(url.password)} if url.password else set()
        rendered = url.render_as_string(hide_password=False).partition("://")[2].rpartition("@")[0]
        if ":" in rendered:
            found.add(rendered.partition(":")[2])
        for name, value in url.query.items():
            if re.search(r"pass|pwd|secret|token|odbc_connect|key", name, re.IGNORECASE):
                found.update([value] if isinstance(value, str) else value)
                found.update(re.findall(r"(?i)(?:pwd|password)\s*=\s*(\{[^}]*\}|[^;]*)", str(value)))
        return cls(tuple(sorted((s for s in found if s), key=len, reverse=True)))

    def __call__(self, text: str) -> str:
        """The first line of a driver's text, bounded, without the secrets."""
        line = next((part.strip() for part in text.splitlines() if part.strip()), "")
        for secret in self.secrets:
            line = line.replace(secret, "***")
        line = re.sub(r"(?i)\b(pwd|password)\s*=\s*(\{[^}]*\}|[^;\s]*)", r"\1=***", line)
        return re.sub(r"://[^/@\s]*@", "://***@", line)[:300]


def driver_text(error: DBAPIError) -> str:
    """What the driver said, without SQLAlchemy's statement and parameters."""
    original = error.orig
    if original is None:
        return str(error)
    args: tuple[object, ...] = getattr(original, "args", ())
    if len(args) >= 2 and isinstance(args[0], int | str) and isinstance(args[1], str):
        return args[1]  # (number, text) of MySQL's drivers, (sqlstate, text) of ODBC's
    return str(original)


@dataclass(frozen=True)
class Where:
    """What the error messages name. `identity`: whose token was given, empty for a password."""

    what: str
    place: str
    timeout: str
    identity: str = ""


def to_error(fault: Fault, detail: str, where: Where) -> SourceError:
    """The error for the caller: what happened, to which table, and the next step."""
    happened, step = _described(fault, detail, where)
    raised = SourceUnavailable if fault in _UNAVAILABLE else SourceError
    said = f": {detail}" if detail and fault is not Fault.TIMEOUT else ""
    return raised(f"{where.what}: {happened}{said}.", table=where.what, next_step=step)


_UNAVAILABLE = frozenset(
    {Fault.TIMEOUT, Fault.UNREACHABLE, Fault.DISCONNECTED, Fault.BUSY, Fault.LOGIN, Fault.NO_DATABASE}
)


def _described(fault: Fault, detail: str, where: Where) -> tuple[str, str]:
    """What happened, and the next step."""
    place = where.place
    match fault:
        case Fault.TIMEOUT:
            step = "Check that an index on the cursor column and the key exists, or raise `query_timeout`."
            return f"the database did not answer within {where.timeout} (key `query_timeout`)", step
        case Fault.UNREACHABLE:
            return f"{place} cannot be reached", _REACH
        case Fault.DISCONNECTED | Fault.BUSY:
            return f"{place} gave no answer", _REACH
        case Fault.LOGIN:
            return _refused(where)
        case Fault.NO_DATABASE if "not a database" in detail:
            return f"{place} cannot be read", "Check the path in `url`."
        case Fault.NO_DATABASE:
            return f"{place} has no such database", "Check the database's name in `url`."
        case Fault.FORBIDDEN:
            privilege = "SHOW VIEW" if "SHOW VIEW" in detail else "SELECT"
            return "not permitted", f"Grant the poller's database user {privilege} on it."
        case Fault.WRITES:
            step = "remove what writes (nextval, a function that inserts, FOR UPDATE) from `filter` and `query`."
            return "the query writes", f"A poller only reads: {step}"
        case Fault.NO_TABLE:
            return "a table is missing", "Check `schema`, `table` and `query`."
        case Fault.NO_COLUMN:
            return "a column is missing", "Check `filter`, `query` and the columns that are configured."
        case Fault.RANGE:
            step = "Check the cursor and its key; a reset replaces one that a checkpoint holds."
            return "a value is out of the column's range", step
        case _:
            return "the database refused the query", "Check `filter` and `query`, and run `poller check`."


def _refused(where: Where) -> tuple[str, str]:
    if where.identity:
        return f"{where.place} refused the token of {where.identity}", tokens.REFUSED
    return f"{where.place} refused the login", "Check the user and the password in `url`."


_REACH = "Check that it runs, and the host and port in `url`."
