"""Every error that `poller` raises on purpose.

Each carries its facts as attributes and names the next step, so that programs need not parse messages. `exit_code` is
what a command ends with (design, "The `poller` command").
No message may contain a secret: callers pass names and places, never connection strings or passwords.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from poller.model.escape import escape

__all__ = [
    "CaptureGap",
    "CommitError",
    "ConfigError",
    "Fenced",
    "FieldDifference",
    "FingerprintMismatch",
    "LeaseHeld",
    "LeaseLost",
    "PollerError",
    "SourceError",
    "SourceUnavailable",
    "StateCorrupt",
    "StoreDenied",
    "StoreError",
    "StoreUnavailable",
    "WriteConflict",
]


class PollerError(Exception):
    """The base class of all errors of this library.

    Attributes:
        message: what happened, and to what.
        next_step: what to run or change now; empty if the message says it.
        exit_code: what the `poller` command ends with.
    """

    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, *, next_step: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.next_step = next_step

    def __str__(self) -> str:
        """Message and next step in one line, with unprintable characters escaped."""
        return escape(f"{self.message} {self.next_step}".strip())


class ConfigError(PollerError):
    """The configuration, a setting or a handler's name is wrong.

    Attributes:
        key: the dotted key in `poller.toml` (or the keyword in Python), empty when the file itself is wrong.
        file: the file with that key, empty when it was given in Python.
    """

    exit_code = 2

    def __init__(self, message: str, *, key: str = "", file: str = "", next_step: str = "") -> None:
        super().__init__(message, next_step=next_step)
        self.key = key
        self.file = file


class StoreError(PollerError):
    """The state store's answer is an error, or unusable.

    Attributes:
        document: the name inside the store, such as `state/shop/orders.json`.
    """

    def __init__(self, message: str, *, document: str = "", next_step: str = "") -> None:
        super().__init__(message, next_step=next_step)
        self.document = document


class StoreUnavailable(StoreError):
    """No usable answer came: refused, reset, timed out, 408, 429 or 5xx. A write may or may not have been applied.

    Attributes:
        sent: False if the request cannot have reached the store (a refused connection): nothing was written.
    """

    def __init__(self, message: str, *, document: str = "", next_step: str = "", sent: bool = True) -> None:
        super().__init__(message, document=document, next_step=next_step)
        self.sent = sent


class StoreDenied(StoreError):
    """The store refused, and only a person can end that: credentials, permissions, an archived or locked blob. Never
    retried (protocol 2)."""


class WriteConflict(StoreError):
    """The document is not the one that the write was conditional on (412, or 409 on create). Nothing was written,
    unless an earlier copy of the same write was applied, which the tenure recognises by its write id."""


class StateCorrupt(StoreError):
    """The stored document is missing where it must exist, newer than this version, or not a state document.
    It is never overwritten.

    Attributes:
        what: `unreadable`, `newer` or `gone`.
    """

    def __init__(
        self,
        message: str,
        *,
        document: str = "",
        next_step: str = "",
        what: Literal["unreadable", "newer", "gone"] = "unreadable",
    ) -> None:
        super().__init__(message, document=document, next_step=next_step)
        self.what = what


class LeaseHeld(PollerError):
    """Another owner holds the lease.

    Attributes:
        owner_id: who; fencing_token: under which token; expires_in_seconds: until it may be taken, if known.
    """

    exit_code = 3

    def __init__(
        self,
        message: str,
        *,
        owner_id: str | None = None,
        fencing_token: int = 0,
        expires_in_seconds: float | None = None,
        next_step: str = "",
    ) -> None:
        super().__init__(message, next_step=next_step)
        self.owner_id = owner_id
        self.fencing_token = fencing_token
        self.expires_in_seconds = expires_in_seconds


class LeaseLost(PollerError):
    """This tenure is over: taken over, broken by an operator, or past its own deadline. It can commit nothing.

    Attributes:
        reason: `taken_over`, `deadline`, `broken`, `cancelled`, `deleted`, `replaced` (by another
            document) or `released`.
        fencing_token: the token of the tenure that was lost.
    """

    def __init__(self, message: str, *, reason: str, fencing_token: int = 0, next_step: str = "") -> None:
        super().__init__(message, next_step=next_step)
        self.reason = reason
        self.fencing_token = fencing_token


class Fenced(PollerError):
    """A later owner of the lease has written to a sink: what this one writes there counts no longer.

    Attributes:
        fencing_token: of this tenure; standing_token: the higher one that the sink knows.
    """

    def __init__(self, message: str, *, fencing_token: int, standing_token: int, next_step: str = "") -> None:
        super().__init__(message, next_step=next_step)
        self.fencing_token = fencing_token
        self.standing_token = standing_token


class CommitError(PollerError):
    """The outcome of a commit was not known before the tenure's deadline: it may or may not have been applied.

    Attributes:
        batch_id: the batch of that commit. The next tick reads whether it was applied.
    """

    def __init__(self, message: str, *, batch_id: str = "", next_step: str = "") -> None:
        super().__init__(message, next_step=next_step)
        self.batch_id = batch_id


class SourceError(PollerError):
    """The table, a column, a value in it, or the query is not what the configuration says.

    Attributes:
        table: the table or query as configured; column: the column at fault, if one is.

    Args:
        without_values: the message for `error_text = false`, where `message` quotes what a row holds.
    """

    def __init__(
        self, message: str, *, table: str = "", column: str = "", next_step: str = "", without_values: str = ""
    ) -> None:
        super().__init__(message, next_step=next_step)
        self.table = table
        self.column = column
        self._without_values = without_values

    def hide_values(self) -> None:
        """Replace the message by the one that quotes no row."""
        if self._without_values:
            self.message = self._without_values
            self.args = (self.message,)
            self.__context__ = None


class SourceUnavailable(SourceError):
    """The database could not be reached, or did not answer within `query_timeout`. It does not mean "no rows"."""


class CaptureGap(SourceError):
    """Changes of a captured table were missed, or may be: the poller stops before them until a person says how
    to go on (docs/capture.md).

    Attributes:
        change: the number of the change before which it stops; None if it is not one change.
    """

    def __init__(self, message: str, *, table: str = "", change: int | None = None, next_step: str = "") -> None:
        super().__init__(message, table=table, next_step=next_step)
        self.change = change


@dataclass(frozen=True, slots=True)
class FieldDifference:
    """One field in which the configured source differs from the one the checkpoint belongs to."""

    field: str
    stored: Any
    configured: Any

    def __str__(self) -> str:
        return f"{self.field}: {plain(self.stored)} -> {plain(self.configured)}"


def plain(value: Any) -> str:
    """A value of a source's description, for people."""
    if isinstance(value, list | tuple):
        return ", ".join(map(plain, value)) or "none"
    return "none" if value is None else str(value) if isinstance(value, str) and value else json.dumps(value)


class FingerprintMismatch(PollerError):
    """The checkpoint belongs to another source than the configured one; nothing runs (sources.md, "Fingerprint").

    Attributes:
        stored, configured: the two fingerprints; differences: field by field, empty if the document
            does not describe its source.
    """

    exit_code = 4

    def __init__(
        self,
        message: str,
        *,
        stored: str,
        configured: str,
        differences: Sequence[FieldDifference] = (),
        next_step: str = "",
    ) -> None:
        super().__init__(message, next_step=next_step)
        self.stored = stored
        self.configured = configured
        self.differences = tuple(differences)
