"""What a handler's error says of itself, as far as it may be stored, logged and shown."""

from __future__ import annotations

from dataclasses import dataclass

from poller.handler.call import HandlerFailure
from poller.handler.traces import shown, trace_of, users_frames
from poller.model import escape
from poller.model.limits import LONGEST_NAME
from poller.model.redact import error_line


@dataclass(frozen=True, slots=True)
class Failure:
    """A handler's failure.

    Attributes:
        kind: the type of what it raised. text: its first line. trace: its traceback, without secrets; None, and `text`
            empty, where `error_text` is off.
    """

    kind: str
    text: str
    trace: str | None

    @property
    def line(self) -> str:
        """Kind and text in one line."""
        return f"{self.kind}: {self.text}" if self.text else self.kind

    @classmethod
    def of(cls, error: BaseException, *, error_text: bool) -> Failure:
        """Describe what a handler raised. The exception itself loses the frames that called the handler: raised
        again, it shows its author where to look."""
        if isinstance(error, HandlerFailure):
            kind, trace = error.kind, error.trace
        else:
            BaseException.with_traceback(error, users_frames(error.__traceback__))
            kind, trace = type(error).__name__, trace_of(error) if error_text else ""
        kind = escape.shown(kind, LONGEST_NAME)
        return cls(kind, error_line(error), shown(trace) or None) if error_text else cls(kind, "", None)
