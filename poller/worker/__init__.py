"""Pollers in a process of your own: once, until no row is left, or for ever on their schedules.

    from poller.worker import run, stopped_by_signals

    with stopped_by_signals() as stop, load_app("poller.toml") as app:
        ends = run(app.pollers.values(), "forever", stop)

`poller run` is this with a console around it.

loops.py      `run`: the one loop, which gives turns and says how each poller ended
turns.py      whose turn it is: oldest due first, at most half for one server, slices; pure
course.py     what one poller does with its turn, and when the next is due; slices.py: the `stop` of a tick
wake.py       the looks between two moments of a schedule, after a row; pure
crew.py       threads, as many as there are ticks at once
replicas.py   hints of other processes that run the same pollers; ranking.py: who looks first; pure
alive.py      a file for liveness probes
signals.py    SIGTERM and Ctrl-C finish the batch in hand
ends.py       how a poller ended

Several processes may run the same pollers: leases decide who works, and hints only save requests.
"""

from __future__ import annotations

from poller.worker.alive import AliveFile
from poller.worker.course import Mode
from poller.worker.ends import Ended, Ticking, tick_failed
from poller.worker.loops import run
from poller.worker.replicas import Replicas
from poller.worker.signals import BatchesInHand, stopped_by_signals

__all__ = [
    "AliveFile",
    "BatchesInHand",
    "Ended",
    "Mode",
    "Replicas",
    "Ticking",
    "run",
    "stopped_by_signals",
    "tick_failed",
]
