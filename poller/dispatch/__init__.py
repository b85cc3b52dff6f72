"""Many pollers in one app: who is due, and a message for each that has rows. Leases are the truth, messages are hints.

A *round* looks who is due (`round.Dispatcher`): one LIST of the state documents, and then of the pollers whose schedule
fell due, or whose failed call may be made again, a question to the database whether rows wait. Each that has rows gets
one message. The function that takes the message (`work`) does one tick of that poller under the poller's own lease.

Nothing depends on a message. A duplicate finds the lease held; a lost one is sent again after five minutes; one that
came too late costs a conditional GET and a query. A dispatcher that stops loses no row: documents and databases say the
same to the next one, and `dispatch/{app}.json` which moments of the schedules were looked at.

    open_dispatcher(app, os.environ).round()    # what `poller dispatch --once` does
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from poller.doors import door

if TYPE_CHECKING:
    from poller.dispatch.messages import WorkMessage
    from poller.dispatch.queues import StorageQueue
    from poller.dispatch.result import DispatchOutput
    from poller.dispatch.round import Dispatcher, Pollers
    from poller.dispatch.wiring import findings, open_dispatcher

__all__ = [
    "DispatchOutput",
    "Dispatcher",
    "Pollers",
    "StorageQueue",
    "WorkMessage",
    "findings",
    "open_dispatcher",
]

_HOMES = {
    "DispatchOutput": "result",
    "Dispatcher": "round",
    "Pollers": "round",
    "StorageQueue": "queues",
    "WorkMessage": "messages",
    "findings": "wiring",
    "open_dispatcher": "wiring",
}

__getattr__, __dir__ = door(__name__, _HOMES)
