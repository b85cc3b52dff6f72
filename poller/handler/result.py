"""What a call of the handler came to, as plain values: it may come from another process, and it is stored and shown."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal, Self, TypeAlias

from poller.handler.batch import RowFailure
from poller.model.escape import shown
from poller.model.limits import LONGEST_NAME
from poller.model.redact import BEYOND, LIMIT, first_line, said

End: TypeAlias = Literal["returned", "raised", "rejected", "later"]
FAILED, REJECTED = "RowFailed", "RowRejected"
"""The kinds of error of rows that were named without an exception."""
_READ = LIMIT + BEYOND
_READ_IN_ALL = 1_000_000
"""So many characters of the errors of a call's rows are searched for secrets, which takes some seconds while the lease
is held. The rows after that are named without their error's text."""


@dataclass(frozen=True, slots=True)
class RowError:
    """A row that the handler named.

    Attributes:
        position: in its batch, from 0.
        kind: the type of its error, `RowFailed` or `RowRejected` where there was only a text.
        text: the error's first line, without secrets and bounded; empty if there is none, where `error_text` is
            off, and where the rows before it had too much of it.
    """

    position: int
    kind: str
    text: str = ""

    @property
    def line(self) -> str:
        """What is said of the row, in one line."""
        if not self.text:
            return self.kind
        return self.text if self.kind in (FAILED, REJECTED) else f"{self.kind}: {self.text}"


@dataclass(frozen=True, slots=True)
class CallResult:
    """A call of the handler that is over.

    Attributes:
        end: it `returned`; it `raised`, took too long or its process ended, and every row failed; it raised `Reject`
            (`rejected`), and only that row is decided; or it raised `RetryLater` (`later`), and no row failed.
        failed, rejected: rows that it named, in the order of the batch; none is in both. They count where it
            `returned`, and one is `rejected` where it raised `Reject`.
        seconds: for `later`: how long it wants not to be called.
        error: what is reported of a call that did not do every row; None if it did.
    """

    end: End = "returned"
    failed: tuple[RowError, ...] = ()
    rejected: tuple[RowError, ...] = ()
    seconds: float = 0.0
    error: BaseException | None = None

    @classmethod
    def of_error(cls, error: BaseException) -> Self:
        """The handler raised something else than `Reject` and `RetryLater`, took too long, or its process ended."""
        return cls("raised", error=error)

    @classmethod
    def of_rows(cls, named: Iterable[RowFailure], *, end: End = "returned", error: BaseException | None = None) -> Self:
        """The handler named these rows."""
        texts = _Texts()
        failed: list[RowError] = []
        rejected: list[RowError] = []
        for one in sorted(named, key=lambda failure: failure.position):
            (rejected if one.rejected else failed).append(texts.row(one))
        return cls(end, tuple(failed), tuple(rejected), error=error)

    @property
    def named(self) -> tuple[RowError, ...]:
        """The rows that failed and those that were rejected, in the order of the batch."""
        return tuple(sorted((*self.failed, *self.rejected), key=lambda row: row.position))

    def without_text(self) -> Self:
        """The same for `error_text = false`, as far as rows are concerned: of their errors only the kinds."""
        failed, rejected = ([replace(row, text="") for row in rows] for rows in (self.failed, self.rejected))
        return replace(self, failed=tuple(failed), rejected=tuple(rejected))


class _Texts:
    """The errors of one call's rows as they may be stored."""

    def __init__(self) -> None:
        self._left = _READ_IN_ALL
        self._known: dict[str, str] = {}

    def row(self, failure: RowFailure) -> RowError:
        error = failure.error
        text = issubclass(type(error), str)  # an exception may lie about its class, or raise when it is asked
        kind = (REJECTED if failure.rejected else FAILED) if text else kind_of(error)
        return RowError(failure.position, kind, self._line(said(error)))

    def _line(self, text: str) -> str:
        """Rows often fail with the same text, in an outage all of them: it is searched once."""
        begun = text.lstrip()[: _READ + 1]
        if begun not in self._known:
            if self._left <= 0:
                return ""
            self._left -= len(begun)
            self._known[begun] = first_line(begun)
        return self._known[begun]


def kind_of(error: object) -> str:
    """The name of an error's class, whatever the class makes of its own name."""
    name = type.__dict__["__name__"].__get__(type(error))
    return shown(str.__str__(name), LONGEST_NAME)
