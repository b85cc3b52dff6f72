"""What a tick has done so far."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from poller.model.cursor import Cursor, KeyValue
from poller.tick.failure import Failure


@dataclass(frozen=True, slots=True)
class Culprit:
    """The row that a failed call was about: it was handed over alone, or is the first that was named.

    Attributes:
        id: of this version of the row. key: what `batch.key` says of it. pk: its primary key, as far as a person can
            name it.
    """

    id: str
    key: str
    pk: Mapping[str, KeyValue]


@dataclass
class Progress:
    """Counts of one tick.

    Attributes:
        rows, batches: how much was delivered and committed. calls: how often the handler was called.
        cursor: where the checkpoint stands. reached: the cursor behind the last row that is done.
        token: of the tenure, or of the document.
        longest: seconds of the longest call.
        calling: since when the tick does nothing but wait for calls, on the runtime's monotonic clock.
        failed: the last call that failed; error: what is said of it in one line; exception: what it raised;
            culprit: the row that failed, if it is known.
        unwritten: whether the state document does not say that it failed.
        blocked: why nothing more can be passed.
        left: whether it ended for lack of time, or after as many batches as it may make, with rows left.
    """

    rows: int = 0
    batches: int = 0
    calls: int = 0
    cursor: Cursor | None = None
    reached: Cursor | None = None
    token: int | None = None
    longest: float = field(default=float("-inf"))
    calling: float | None = None
    failed: Failure | None = None
    error: str | None = None
    exception: BaseException | None = None
    culprit: Culprit | None = None
    unwritten: bool = False
    blocked: str | None = None
    left: bool = False

    def calls_left(self, most: int, *, begun: int = 0) -> int | None:
        """The number of calls that may still be made of a limit (0: none), less those that begin now; None: no
        limit."""
        return None if most == 0 else most - self.calls - begun

    def fails(
        self, failure: Failure, error: str, exception: BaseException | None, culprit: Culprit | None = None
    ) -> None:
        """A call failed."""
        self.failed, self.error, self.exception, self.culprit = failure, error, exception, culprit
