"""When a call that failed may be made again (failures 1): doubling delays, half of each chosen by chance."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from poller.model.document import State
from poller.model.durations import LONGEST_PAUSE
from poller.model.stamps import later

SLACK = 60.0
"""The seconds by which the store's clock may seem to differ between two reads."""


@dataclass(frozen=True, slots=True)
class Backoff:
    """Delays in seconds: `first` after one failure, then doubling up to `most`."""

    first: float = 1.0
    most: float = 300.0

    def delay(self, failures: int, jitter: float) -> float:
        """The time to wait after so many failures in a row; `jitter` from 0 to 1 chooses within the upper half."""
        return self._full(failures) * (0.5 + 0.5 * jitter)

    def exhausted(self, failures: int) -> bool:
        """True if waiting longer is not foreseen: the delay after so many failures has reached `most`."""
        return self._full(failures) >= self.most

    @property
    def longest(self) -> float:
        """No wait is longer, one that a handler asks for included."""
        return max(self.most, LONGEST_PAUSE.total_seconds())

    def _full(self, failures: int) -> float:
        return min(self.most, self.first * 2.0 ** min(max(failures, 1) - 1, 64))


def failures_of(state: State) -> int:
    """The calls of the batch in hand that failed in a row. An older version's commit or reset leaves the count and
    clears `last_error`: then it is of another batch."""
    return state.delivery.failures if state.delivery.last_error is not None else 0


def waits_until(state: State, now: datetime, backoff: Backoff) -> datetime | None:
    """The moment until which no call is made, None if one may be made now."""
    retry_at, error = state.delivery.retry_at, state.delivery.last_error
    if retry_at is None or retry_at <= now or error is None:
        return None
    asked = 0.0 if error.at is None else (retry_at - error.at).total_seconds()
    longest = max(backoff.most, min(asked, LONGEST_PAUSE.total_seconds()))
    return retry_at if is_near(retry_at, now, longest) else None


def is_near(retry_at: datetime, now: datetime, longest: float) -> bool:
    """True if so long a wait can be meant. A time farther off is of a clock that was ahead and came back; that may be
    years from now."""
    return (retry_at - now).total_seconds() <= longest + SLACK


def waits(state: State) -> bool:
    """True if a failed call says when the next may be made, be that over or not."""
    return state.delivery.retry_at is not None and state.delivery.last_error is not None


def fails(state: State) -> bool:
    """True if the pending batch failed, or the row in it that fails is searched for."""
    delivery = state.delivery
    return bool(failures_of(state) or waits(state) or delivery.window)


def failed(state: State, *, failures: int, backoff: Backoff, jitter: float, now: datetime) -> State:
    """The current batch failed, `failures` times in a row. The caller writes `last_error` as well."""
    return _delivery(state, failures=failures, retry_at=later(now, backoff.delay(failures, jitter)))


def wait(state: State, *, seconds: float, now: datetime) -> State:
    """What the handler calls is down (`RetryLater`): no call before, and the one that said so does not count."""
    return _delivery(state, failures=failures_of(state), retry_at=later(now, seconds))


def at_once(state: State) -> State:
    """A row was delivered, or a person wants an attempt now: no failure counts, and nothing waits."""
    return _delivery(state, failures=0, retry_at=None)


def _delivery(state: State, **fields: Any) -> State:
    return state.model_copy(update={"delivery": state.delivery.model_copy(update=fields)})
