"""What works under one lease, in one value: the parts of a tick that hand rows over share it."""

from __future__ import annotations

from dataclasses import dataclass

from poller.lease.tenure import Tenure
from poller.tick.calls import Calls
from poller.tick.committer import Committer
from poller.tick.context import Context
from poller.tick.leased import LeasedDelivery
from poller.tick.progress import Progress
from poller.tick.reader import Reader
from poller.tick.recorder import Recorder


@dataclass(frozen=True, slots=True)
class UnderLease:
    """The parts of one tick, from when it has the lease."""

    context: Context
    delivery: LeasedDelivery
    calls: Calls
    recorder: Recorder
    committer: Committer
    progress: Progress
    reader: Reader

    @property
    def tenure(self) -> Tenure:
        """The lease that was taken."""
        return self.delivery.tenure
