"""Pollers in a process of your own: once, until no row is left, or for ever on their schedules.

    from poller.worker import run, stopped_by_signals

    with stopped_by_signals() as stop, load_app("poller.toml") as app:
        ends = run(app.pollers.values(), "forever", stop)

`poller run` is this with a console around it. `loops` runs one thread per poller and says how each ended; `signals`
lets SIGTERM and Ctrl-C finish the batch in hand. Several processes may run the same pollers: leases decide who works.
"""

from __future__ import annotations

from poller.worker.loops import Ended, Mode, Ticking, run, tick_failed
from poller.worker.signals import BatchesInHand, stopped_by_signals

__all__ = ["BatchesInHand", "Ended", "Mode", "Ticking", "run", "stopped_by_signals", "tick_failed"]
