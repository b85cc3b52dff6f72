"""Translates drivers' exceptions into this library's errors.

SQLAlchemy's text is never repeated, since it may hold the statement and its values; the server's first line is.
"""

from __future__ import annotations

import re
from typing import Any

from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from poller.databases import tokens
from poller.databases.errors import codes
from poller.errors import StoreDenied, StoreError, StoreUnavailable

# PostgreSQL's SQLSTATEs: https://www.postgresql.org/docs/current/errcodes-appendix.html
_DENIED_STATES = {"28000", "28P01", "42501"}
_LOGIN_STATES = {"28000", "28P01"}
_LOGIN_NUMBERS = {1045, 1698, 18456}
_LOGIN_TEXT = re.compile(r"password authentication failed|no pg_hba\.conf entry|login failed", re.IGNORECASE)
_PASSING_STATES = {"25006"}  # read-only: a standby, or a server that is failing over
# MariaDB's: https://mariadb.com/kb/en/mariadb-error-code-reference/ ; SQL Server's: 229, 18456
_DENIED_NUMBERS = {1044, 1045, 1130, 1142, 1143, 1227, 1698, 229, 18456}
_PASSING_NUMBERS = {1020, 1205, 1213, 1290, 1836}
# Drivers that report a failed connection, SQLite and Oracle give text only.
_DENIED_TEXT = re.compile(
    r"password authentication failed|no pg_hba\.conf entry|no password supplied|permission denied|login failed"
    r"|role .* does not exist|ORA-01017|ORA-01031|readonly database|unable to open database file",
    re.IGNORECASE,
)
_NO_DATABASE = re.compile(r"database \S+ does not exist|unknown database|cannot open database", re.IGNORECASE)
_NOT_SQLITE = re.compile(r"file is not a database|disk image is malformed", re.IGNORECASE)


UNSURE = " A write may or may not have been applied."


class NotConnected(SQLAlchemyError):
    """No connection was had, so nothing was sent. `failed`: why not."""

    def __init__(self, failed: SQLAlchemyError) -> None:
        super().__init__()
        self.failed = failed


def translate(
    error: SQLAlchemyError, place: str, name: str, *, secret: str | None, reading: bool = False
) -> StoreError:
    """The error to raise for what SQLAlchemy raised. `place`: what `locate` says; `secret`: the password, if any;
    `reading`: no document was sent."""
    if isinstance(error, NotConnected):
        return translate(error.failed, place, name, secret=secret, reading=True)
    original: Any = getattr(error, "orig", None)
    state, number = codes(original)
    said = _first_line(original if original is not None else error, secret)
    if state in _DENIED_STATES or number in _DENIED_NUMBERS or _DENIED_TEXT.search(said):
        return StoreDenied(
            f"Access to {place} was refused: {said}.",
            document=name,
            next_step="Check user and password of state.url, and its rights: SELECT, INSERT and UPDATE on the tables, "
            "DELETE for old records of rows, CREATE for the first use; for SQLite, who may write the file and its "
            "directory.",
        )
    if number == 1049 or state == "3D000" or _NO_DATABASE.search(said):
        return StoreError(f"{place} cannot be reached: {said}.", document=name, next_step="Create the database.")
    if _NOT_SQLITE.search(said):
        step = "Check the path in state.url; restore the file from a copy if it was damaged."
        return StoreError(f"{place} cannot be read: {said}.", document=name, next_step=step)
    if _passes(error, state, number):
        return StoreUnavailable(
            f"No usable answer came for {place}: {said}.",
            document=name,
            next_step=f"Check that the database is up and reachable.{'' if reading else UNSURE}",
            sent=not reading,
        )
    step = "If another program made its tables, set another prefix."
    return StoreError(f"The statement for {place} was not accepted: {said}.", document=name, next_step=step)


def without_access(error: SQLAlchemyError, place: str, name: str, identity: object) -> StoreUnavailable | None:
    """The error where no connection was made for want of a token, or since the server refused one; None for any other.
    The next connection takes a fresh one, so it is an outage. `identity`: whose token it is."""
    if isinstance(error, NotConnected):
        return without_access(error.failed, place, name, identity)
    if isinstance(error, tokens.NoToken):
        message, step = f"{place} cannot be reached: {error.message}.", error.next_step
    else:
        original: Any = getattr(error, "orig", None)
        state, number = codes(original)
        said = _first_line(original if original is not None else error, None)
        refused = state in _LOGIN_STATES or number in _LOGIN_NUMBERS or _LOGIN_TEXT.search(said)
        if not refused and not (isinstance(error, OperationalError) and tokens.speaks_of_token(said)):
            return None
        message, step = f"{place} refused the token of {identity}: {said}.", tokens.REFUSED
    return StoreUnavailable(message, document=name, next_step=step, sent=False)


def _passes(error: SQLAlchemyError, state: str | None, number: int | None) -> bool:
    if isinstance(error, OperationalError | InterfaceError | PoolTimeout):
        return True
    broken = isinstance(error, DBAPIError) and error.connection_invalidated
    return broken or state in _PASSING_STATES or number in _PASSING_NUMBERS


def _first_line(error: BaseException, secret: str | None) -> str:
    texts = [part for part in error.args if isinstance(part, str)]
    said = (texts[-1] if texts else type(error).__name__).strip().split("\n")[0].rstrip(". ")
    return said.replace(secret, "***") if secret else said
