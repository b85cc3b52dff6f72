"""The cause of an error of a target database: a row, an outage, the table, or the size of the batch."""

from __future__ import annotations

import re
import ssl
from typing import Any, Literal, TypeAlias

from sqlalchemy.exc import DataError, DBAPIError, IntegrityError, SQLAlchemyError, StatementError
from sqlalchemy.exc import TimeoutError as NoConnectionFree

from poller.databases.errors import codes
from poller.databases.tokens import NoToken

Fault: TypeAlias = Literal["row", "outage", "conflict", "table", "slow"]

_CONFLICT_STATES = frozenset({"40001", "40P01", "55P03"})
_TABLE_STATES = frozenset({"55000"})
"""A table in a state that does not allow what was asked: a key that is deferrable, say."""
_OUTAGE_CLASSES = frozenset({"08", "25", "28", "3D", "40", "53", "55", "57", "58", "XX"})
"""Classes of SQLSTATE: connection, read-only, authorisation, database, resources, a server that ends or is ended."""
_ROW_CLASSES = frozenset({"22", "23", "44", "P0"})
"""Data, constraints, a view's check, an exception of a trigger."""

_SLOW_STATES = frozenset({"57014"})
_SLOW_NUMBERS = frozenset({1969, 3024})
"""A statement that the server ended at its time limit. One that waits for a lock ends before that, as a conflict."""

_CONFLICT_NUMBERS = frozenset({1205, 1213, 1020, 3572})
_OUTAGE_NUMBERS = frozenset(
    {1021, 1026, 1030, 1037, 1038, 1040, 1041, 1044, 1045, 1047, 1049, 1053, 1077, 1079, 1114, 1129, 1130, 1152, 1158}
    | {
        1159,
        1160,
        1161,
        1180,
        1184,
        1194,
        1195,
        1203,
        1223,
        1226,
        1290,
        1317,
        1637,
        1792,
        1836,
        1927,
        3168,
        4031,
    }
)
"""Of MySQL and MariaDB: full, out of memory, a disk or table that is damaged, a cluster that is not ready, refused,
shutting down, interrupted, read-only; and the client's own."""
_LOST = 2013
_TABLE_NUMBERS = frozenset({1046, 1051, 1054, 1064, 1072, 1091, 1142, 1143, 1146, 1149, 1176, 1227, 1305, 1356, 1370})
"""No such table or column, no privilege, no such statement."""

_SQLITE_CONFLICTS = frozenset({5, 6})
_SQLITE_OUTAGES = frozenset({7, 8, 10, 11, 13, 14, 15, 23, 26})
"""Out of memory, read-only, I/O, damaged, full, cannot be opened, locking, not permitted, no database."""
_TLS_NUMBERS = frozenset({2026, 3159})
"""Of MySQL and MariaDB: the client's failure of TLS, and a server that takes no connection without it."""
_TLS = re.compile(
    r"SSL error: (?!unexpected eof)[^\n]+|server does not support SSL[^\n]*"
    r"|server certificate [^\n]+ does not match host name [^\n]+|root certificate file [^\n]+ does not exist"
    r"|could not (?:read|load|get) [^\n]*certificate[^\n]*",
    re.IGNORECASE,
)
"""libpq's words. Of a connection that was lost it says "SSL" too: that is nothing that anyone has to change."""
_LOST_IN_TLS = (ssl.SSLEOFError, ssl.SSLZeroReturnError, ssl.SSLSyscallError)
_CODE = re.compile(r"[A-Za-z0-9_]{1,63}", re.ASCII)


def fault_of(failed: SQLAlchemyError | OSError) -> Fault:
    """`row`: another row might be taken. `outage`: the same might be taken later. `conflict`: at once. `table`: what
    was asked cannot be done there, whatever the row. `slow`: it took too long; fewer rows, or others, might not."""
    if isinstance(failed, NoToken | NoConnectionFree | OSError):
        return "outage"
    if not isinstance(failed, DBAPIError):
        return "row" if isinstance(failed, StatementError) else "table"
    original: Any = failed.orig
    if failed.statement is not None and _waited_too_long(original):  # without one it is the server that does not greet
        return "slow"
    if failed.connection_invalidated or said_of_tls(failed):
        return "outage"
    state, number = codes(original)
    sqlite = getattr(original, "sqlite_errorcode", None)
    if sqlite is not None:
        return _of_sqlite(sqlite & 0xFF, failed)
    if number is not None:  # MySQL's says more than its SQLSTATE
        return _of_number(number, failed)
    if state is not None:
        return _of_state(state)
    if isinstance(failed, DataError | IntegrityError):
        return "row"
    # A driver's own word: that no connection can be made, or that a value has no form there.
    names = {kind.__name__ for kind in type(original).__mro__}
    return "outage" if names & {"OperationalError", "InterfaceError"} else "row"


def said_of_tls(failed: SQLAlchemyError | OSError) -> str:
    """What is wrong with TLS, if that is why there is no connection; else empty. Names and files, never a value."""
    original: Any = getattr(failed, "orig", None) or failed
    reason = getattr(original, "original_exception", original)
    if isinstance(reason, ssl.SSLError) and not isinstance(reason, _LOST_IN_TLS):
        return getattr(reason, "verify_message", "") or reason.reason or type(reason).__name__
    if isinstance(original, OSError):
        return ""
    state, number = codes(original)
    if number in _TLS_NUMBERS:
        return str(original.args[-1])
    if state is not None or type(original).__name__ != "OperationalError":
        return ""
    found = _TLS.search(str(original))
    return "" if found is None else found[0].removeprefix("SSL error: ")


def described(failed: SQLAlchemyError | OSError) -> str:
    """What may be said of it: the kind of error, its code, and which constraint or column it is about; never a
    value."""
    if isinstance(failed, NoToken):
        return failed.message
    said = said_of_tls(failed)
    if said:
        return f"TLS failed: {said}"
    if isinstance(failed, FileNotFoundError | PermissionError):
        return f"a file that the options of its URL name cannot be read ({type(failed).__name__})"
    original: Any = getattr(failed, "orig", None)
    if original is None:
        return type(failed).__name__
    state, number = codes(original)
    sqlite = getattr(original, "sqlite_errorname", None)
    code = next((str(one) for one in (number, sqlite, state) if one is not None), "")
    diagnosis = getattr(original, "diag", None)
    names = [getattr(diagnosis, f"{one}_name", None) for one in ("table", "column", "constraint")]
    about = ", ".join(name for name in names if isinstance(name, str) and _CODE.fullmatch(name))
    return " ".join(
        filter(None, [type(original).__name__, f"({code})" if code else "", f"of {about}" if about else ""])
    )


def _waited_too_long(original: Any) -> bool:
    """True if the driver gave up on the answer to a statement: MySQL has no time limit for statements that write."""
    return codes(original)[1] == _LOST and "timed out" in str(original)


def _of_state(state: str) -> Fault:
    if state in _SLOW_STATES:
        return "slow"
    if state in _CONFLICT_STATES:
        return "conflict"
    if state in _TABLE_STATES:
        return "table"
    if state[:2] in _OUTAGE_CLASSES:
        return "outage"
    return "row" if state[:2] in _ROW_CLASSES else "table"


def _of_number(number: int, failed: DBAPIError) -> Fault:
    if number in _SLOW_NUMBERS:
        return "slow"
    if number in _CONFLICT_NUMBERS:
        return "conflict"
    if number in _OUTAGE_NUMBERS or 2000 <= number < 3000 or number == 0:
        return "outage"
    if number in _TABLE_NUMBERS and not isinstance(failed, DataError | IntegrityError):
        return "table"
    return "row"


def _of_sqlite(code: int, failed: DBAPIError) -> Fault:
    if code in _SQLITE_CONFLICTS:
        return "conflict"
    if code in _SQLITE_OUTAGES:
        return "outage"
    return "row" if isinstance(failed, DataError | IntegrityError) or code in {18, 19, 20, 25} else "table"
