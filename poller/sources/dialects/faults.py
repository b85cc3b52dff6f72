"""What a driver's error means, said in one line and without a secret."""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass, field

from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError

from poller.errors import SourceError, SourceUnavailable
from poller.sources.dialects.read_only import NEXT_STEP


class Fault(enum.Enum):
    """Kinds of failure that call for different next steps."""

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
"""After these, what was learned about the table may be out of date: learn it anew and try once more."""


QUOTING_FAULTS = frozenset({Fault.VALUE, Fault.RANGE, Fault.OTHER})
"""With these a database may quote what a row holds: conversions, ranges, what functions raise, what we do not know."""


def driver_code(error: BaseException) -> str:
    """What a driver's error is, without a word of its text: the SQLSTATE (not the general one of MySQL's, which says
    nothing) or number, else its type."""
    original = getattr(error, "orig", None) or error
    state = getattr(original, "sqlstate", None) or getattr(original, "pgcode", None)
    args: tuple[object, ...] = getattr(original, "args", ())
    if state and state != "HY000":
        return f"SQLSTATE {state}"
    if len(args) >= 2 and (isinstance(args[0], int) or re.fullmatch(r"[0-9A-Z]{5}", str(args[0]))):
        return f"error {args[0]}"
    return type(original).__name__


@dataclass(frozen=True)
class Scrubber:
    """Takes a URL's secrets out of a driver's text."""

    secrets: tuple[str, ...] = field(repr=False, default=())

    @classmethod
    def of(cls, url: URL) -> Scrubber:
        """All that must never be shown: the password, also as the URL writes it, and every option that may hold one."""
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
    """What the error messages name."""

    what: str
    place: str
    timeout: str


def to_error(fault: Fault, detail: str, where: Where) -> SourceError:
    """The error for the caller: what happened, to which table, and the next step."""
    what, said = where.what, f": {detail}" if detail else ""
    if fault is Fault.TIMEOUT:
        return SourceUnavailable(
            f"{what}: the database did not answer within {where.timeout} (key `query_timeout`).",
            table=what,
            next_step="See that an index on the cursor column and the key exists, or raise `query_timeout`.",
        )
    if fault in {Fault.UNREACHABLE, Fault.DISCONNECTED, Fault.BUSY}:
        happened = "cannot be reached" if fault is Fault.UNREACHABLE else "gave no answer"
        return SourceUnavailable(
            f"{what}: {where.place} {happened}{said}.",
            table=what,
            next_step="Check that it runs, and the host and port in `url`.",
        )
    if fault is Fault.LOGIN:
        return SourceUnavailable(
            f"{what}: {where.place} refused the login{said}.",
            table=what,
            next_step="Check the user and the password in `url`.",
        )
    if fault is Fault.NO_DATABASE and "not a database" in detail:
        return SourceUnavailable(
            f"{what}: {where.place} cannot be read{said}.", table=what, next_step="Check the path in `url`."
        )
    if fault is Fault.NO_DATABASE:
        return SourceUnavailable(
            f"{what}: {where.place} has no such database{said}.",
            table=what,
            next_step="Check the database's name in `url`.",
        )
    if fault is Fault.FORBIDDEN:
        return SourceError(
            f"{what}: not permitted{said}.",
            table=what,
            next_step=f"Grant the poller's database user {'SHOW VIEW' if 'SHOW VIEW' in said else 'SELECT'} on it.",
        )
    if fault is Fault.WRITES:
        return SourceError(f"{what}: the query writes{said}.", table=what, next_step=NEXT_STEP)
    if fault is Fault.NO_TABLE:
        step = "Check `schema`, `table` and `query`."
        return SourceError(f"{what}: a table is missing{said}.", table=what, next_step=step)
    if fault is Fault.NO_COLUMN:
        step = "Check `filter`, `query` and the columns that are configured."
        return SourceError(f"{what}: a column is missing{said}.", table=what, next_step=step)
    if fault is Fault.RANGE:
        return SourceError(
            f"{what}: a value is out of the column's range{said}.",
            table=what,
            next_step="Check the cursor and its key; one that a checkpoint holds is replaced by a reset.",
        )
    return SourceError(
        f"{what}: the database refused the query{said}.",
        table=what,
        next_step="Check `filter` and `query`, and `poller check`.",
    )
