"""One tick on one page: from "may I work?" to "what came of it".

**In a sentence.** A tick reads the rows behind the checkpoint, takes the lease by the compare-and-swap that also proves
that the checkpoint still is there, hands the rows to the handler, and moves the checkpoint to the last row before
which everything is done.

**The loop** (`tick`)::

    read the document; refused (`preflight`), or backing off? -> result
    read a page behind the checkpoint (`reader`); plan it
    nothing to do? -> idle: no lease, and no write but the few of `idle_writes`
    acquire: the PUT names what is handed over first (`leased`)
    while a row aside is due, or the plan passes rows:
        no time left, asked to stop, paused, or the lease lost? -> end
        a row aside is due:  a PUT names it; call; PUT                                             (`retries`)
        else a round:                                                                              (`rounds`)
            one lane: records of the rows that wait behind others; a PUT, if it says something new (`BeforeCall`)
            deal the page, then step after step until nothing begins               (`round`: `one_lane`, `lanes`)
            records of the rows that are listed; the last PUT                                      (`ends`)
        plan the rows behind the checkpoint again
    the last PUT gives the lease back

A round is a loop of its own: look (`step.Seen`), decide (`step.decide`), and write, read, read again, begin, wait or
close. What was dealt, what is in hand and what is done is on the `board`; `slots` call the handler. In several lanes
idle ones are fed before anything is written. In one lane nothing runs beside, what is done is written first, and a plan
that concerns listed rows or a search is carried out as a whole by one call, whose verdict alone passes it.

**Pure.** What is handed over (`model.handover.plan`), what follows from a call (`model.judging.judge`), what comes next
in a round (`step.decide`), and the document that a write makes (`model.put.written`) are functions of values. They ask
no source, no store and no clock; the jitter of a delay is drawn before and is part of the verdict. The board changes in
place and asks no source once a page is dealt.

**What one write says.** All of it is one `Put`: the rows that are passed, those that are listed, what lanes did above
the checkpoint, what failed, whether the lease is given back. If an operator's write comes between, the same `Put` is
applied to their document. Records of rows (`recorder`) are written before the PUT that lists the rows, and settled
after the one that lists them no more.

**Threads.** The tick's own thread does all but this: the `committer`'s makes PUTs, one at a time, while the handler
goes on; the reader's reads one page ahead; each of several lanes' calls the handler; the heartbeat's renews the lease.

**Promised.** A row is passed only once it is done, or the document lists it and its record is written. No row is
handed over more than `KEPT_FOR` after it was read. Rows of one ordering key come in order. What fails in one
lane is retried from the checkpoint on, alone.

**Not promised.** A call whose PUT did not land comes again, and so do up to `max_uncommitted` batches. Rows of
different ordering keys may overtake each other in lanes.

Beside a tick: `redeliver` and `replay` hand over rows that are behind the checkpoint or were set aside, as errands
under a lease of their own (`errands`); `recheck` finds the former. `runner` starts ticks one at a time; `context` is
what all share, `watches` what is known of the source from tick to tick, `result` what the caller gets.

The names of the package are what `Poller` takes and returns, and the limits that docs state.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from poller.doors import door

if TYPE_CHECKING:
    from poller.tick.reader import KEPT_FOR
    from poller.tick.recheck import Recheck
    from poller.tick.replay import Replay
    from poller.tick.result import BoundOutput, Outcome, TickResult
    from poller.tick.watches import PENDING_CAP

__all__ = [
    "KEPT_FOR",
    "PENDING_CAP",
    "BoundOutput",
    "Outcome",
    "Recheck",
    "Replay",
    "TickResult",
]

_HOMES = {
    "KEPT_FOR": "reader",
    "PENDING_CAP": "watches",
    "BoundOutput": "result",
    "Outcome": "result",
    "Recheck": "recheck",
    "Replay": "replay",
    "TickResult": "result",
}

__getattr__, __dir__ = door(__name__, _HOMES)
