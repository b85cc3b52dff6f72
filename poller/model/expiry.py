"""When a lease may be taken (protocol 3). No agreement between clocks is needed: both times are the server's."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from poller.model.document import Lease
from poller.model.timing import Timing

RELEASE_WINDOW = 2.0
"""Seconds: `released_at` counts while the document's modification time is this close to it."""


@dataclass(frozen=True, slots=True)
class Availability:
    """The answer whether the lease may be taken, and if not yet, in how many seconds (None if that is unknown)."""

    free: bool
    takeover: bool = False
    expires_in: float | None = None


def availability(
    lease: Lease,
    *,
    server_time: datetime | None,
    modified_at: datetime | None,
    unchanged_for: float,
    timing: Timing,
) -> Availability:
    """Judge a lease by the server's two times from one read.

    Args:
        lease: as it was read.
        server_time: the server's clock at the answer; modified_at: when this version was written. None if the
            store has no clock: then `unchanged_for` (seconds since we first saw this version) decides.
        timing: our own; its ttl is used where another program's document has neither ttl nor expiry.
    """
    ttl = lease.ttl_seconds
    if lease.released_at is not None:
        near = modified_at is None or abs((modified_at - lease.released_at).total_seconds()) <= RELEASE_WINDOW
        if near:
            return Availability(free=True)
    elif lease.owner_id is None:
        return Availability(free=True)
    if ttl is None and lease.expires_at is not None and server_time is not None:
        left = (lease.expires_at - server_time).total_seconds() + timing.margin
    elif server_time is not None and modified_at is not None:
        age = (server_time - modified_at).total_seconds()
        left = (ttl or timing.ttl) + timing.margin - age
    else:
        left = (ttl or timing.ttl) + timing.margin - unchanged_for
    held = lease.owner_id is not None
    return Availability(free=left <= 0, takeover=left <= 0 and held, expires_in=max(left, 0.0))
