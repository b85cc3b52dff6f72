"""What crosses between a poller and the process of its handler: a batch there, and back what the call came to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from poller.handler.batch import Batch, LeaseView
from poller.handler.call import HandlerFailure, reportable
from poller.handler.result import CallResult, End, RowError, kind_of
from poller.handler.traces import trace_of
from poller.model.redact import said

_SAID = (
    "poller_name",
    "batch_id",
    "_rows",
    "_table",
    "fencing_token",
    "attempt",
    "cursor_from",
    "cursor_to",
    "standing",
    "retry",
    "replay",
)
"""What a batch says of itself."""


@dataclass(frozen=True, slots=True)
class Payload:
    """A batch as it crosses to the child: everything but the parent's tenure and source."""

    fields: dict[str, Any]
    keys: list[str]

    @classmethod
    def of(cls, batch: Batch) -> Payload:
        return cls({name: getattr(batch, name) for name in _SAID}, batch.keys())

    def batch(self, lease: LeaseView) -> Batch:
        return Batch(
            **self.fields,
            _key_at=lambda position, _: self.keys[position],
            _lease=lease,
        )


@dataclass(frozen=True, slots=True)
class CallAnswer:
    """What a call came to. It holds texts and numbers, and no object of a user: pickling one could do
    anything.

    Attributes:
        end: of the result; None if the handler failed as a whole. seconds, failed, rejected: as there.
        failure: type, text and traceback of the error, None where every row is done.
    """

    end: End | None
    seconds: float = 0.0
    failed: tuple[RowError, ...] = ()
    rejected: tuple[RowError, ...] = ()
    failure: tuple[str, str, str] | None = None

    @classmethod
    def of(cls, result: CallResult) -> CallAnswer:
        failure = None if result.error is None else _described(result.error)
        return cls(result.end, result.seconds, result.failed, result.rejected, failure)

    @classmethod
    def of_error(cls, error: BaseException) -> CallAnswer:
        """The handler failed as a whole."""
        return cls(None, failure=_described(error))

    def result(self) -> CallResult:
        """In the parent. Raises: HandlerFailure where the handler failed as a whole."""
        error = None if self.failure is None else HandlerFailure(*self.failure)
        if self.end is None:
            raise error or HandlerFailure("HandlerDied", "its process gave no reason")
        return CallResult(self.end, self.failed, self.rejected, self.seconds, error)


def _described(error: BaseException) -> tuple[str, str, str]:
    """Type, text and traceback of an error."""
    error = reportable(error)
    if isinstance(error, HandlerFailure):
        return error.kind, str(error), error.trace
    return kind_of(error), said(error), trace_of(error)
