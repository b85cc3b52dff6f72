"""The writes that a tenure makes, each as one object, so that every fault meets every write."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from poller.lease import Tenure
from poller.model.document import State
from tests.resilience.faults.bench import commit, cursor, fail


@dataclass(frozen=True)
class Operation:
    """One write. `ends`: afterwards the lease is free. `shows`: whether the document says that it was done."""

    name: str
    act: Callable[[Tenure], object]
    shows: Callable[[State, State], bool]
    ends: bool

    def __str__(self) -> str:
        return self.name


OPERATIONS = [
    Operation("heartbeat", Tenure.renew, lambda was, now: was.checkpoint == now.checkpoint, ends=False),
    Operation(
        "commit",
        lambda tenure: commit(tenure, cursor(7), release=False),
        lambda was, now: now.checkpoint.cursor == cursor(7) and now.lease.owner_id == was.lease.owner_id,
        ends=False,
    ),
    Operation(
        "commit-and-release",
        lambda tenure: commit(tenure, cursor(7), release=True),
        lambda was, now: now.checkpoint.cursor == cursor(7) and now.lease.released_at is not None,
        ends=True,
    ),
    Operation(
        "release",
        lambda tenure: tenure.release(give_back=True),
        lambda was, now: was.checkpoint == now.checkpoint and now.lease.released_at is not None,
        ends=True,
    ),
    Operation(
        "fail",
        fail,
        lambda was, now: now.delivery.last_error is not None and now.lease.released_at is not None,
        ends=True,
    ),
]
