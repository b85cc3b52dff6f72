"""Who may work, and how a write is made: the lease protocol on one page.

**Where.** One JSON document per poller holds the checkpoint *and* the lease. It is changed by compare-and-swap on its
ETag alone, so the write that moves the checkpoint also holds the lease.

**States**, as the document shows them:

- *released*: `released_at` is set. Anybody may acquire.
- *held*: an owner renews it every `heartbeat_interval`; each renewal or commit is one write.
- *expired*: no write for `ttl` + margin, by two times of one answer of the store (`Date` and `Last-Modified`). No
  clock of a worker is asked. Anybody may acquire.

Each acquire adds one to the *fencing token*; resets and rebinds add one as well. A token never goes down.

**States**, as the owner sees them (`tenure.Tenure`): *held* while its deadline is ahead. The deadline counts from
before the first send of the last write that was applied, `ttl` less a grace, on a clock that counts suspended time.
Then *lost*, or *ended* by a release. A tenure never goes back to held: a worker that wakes up late refuses its own
commit without asking anybody, and if its clock is wrong, the store refuses it for the ETag.

**Writes** (`state_file.StateFile`). The bytes are frozen with a fresh *write id* in them. No answer: the same bytes
go out again under the same condition, so a first copy that lands late is refused. Refused: the document is read; if
the write id is in it, the write has been written. A lost answer is neither an error nor a second delivery.

**Operators** (`state_file.YieldRequest`). A worker's writes may win every race against an operator's. The operator
leaves a request beside the document; the worker reads it every `heartbeat_interval`, however short its tenures are, and
yields after its batch. An operator may also break a lease: the token rises, and the owner's next write is refused.

**Promised.** A stale owner never moves the checkpoint. At most one tenure can commit at a time. A crash at any
instant loses no row; at worst the batch in hand comes again, under a higher token. An owner that died is replaced
after `ttl` + margin. An operator gets through within one heartbeat and one batch.

**Not promised.** A handler that runs on after its lease is lost is not stopped (unless it is async or in a child
process), so two handlers may work on the same rows for a while: a sink that must not see that compares fencing
tokens. No batch is delivered exactly once by the lease alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from poller.doors import door

if TYPE_CHECKING:
    from poller.lease.heartbeat import Heartbeat
    from poller.lease.sending import OutcomeUnknown
    from poller.lease.server_clock import ServerClock
    from poller.lease.state_file import Conflict, Copy, StateFile
    from poller.lease.tenure import YIELD_WITHIN, Tenure

__all__ = [
    "YIELD_WITHIN",
    "Conflict",
    "Copy",
    "Heartbeat",
    "OutcomeUnknown",
    "ServerClock",
    "StateFile",
    "Tenure",
]

_HOMES = {
    "YIELD_WITHIN": "tenure",
    "Conflict": "state_file",
    "Copy": "state_file",
    "Heartbeat": "heartbeat",
    "OutcomeUnknown": "sending",
    "ServerClock": "server_clock",
    "StateFile": "state_file",
    "Tenure": "tenure",
}

__getattr__, __dir__ = door(__name__, _HOMES)
