"""The user's function: how it is found, called and ended.

`batch` is what it gets, `load` finds it, `call` runs it; `subprocess` runs it in a child process, and `messages` cross
between the two. `reports` is what it can say, `result` what a call came to; `traces` keeps its failures
and its output from doing harm.

The names of the package are those that a handler and its caller meet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from poller.doors import door

if TYPE_CHECKING:
    from poller.handler.batch import Batch, Standing
    from poller.handler.call import Handler, HandlerFailure, ThreadExecutor
    from poller.handler.reports import InvalidReport, Reject, RetryLater
    from poller.handler.result import CallResult, RowError
    from poller.handler.subprocess import ProcessExecutor

__all__ = [
    "Batch",
    "CallResult",
    "Handler",
    "HandlerFailure",
    "InvalidReport",
    "ProcessExecutor",
    "Reject",
    "RetryLater",
    "RowError",
    "Standing",
    "ThreadExecutor",
]

_HOMES = {
    "Batch": "batch",
    "CallResult": "result",
    "Handler": "call",
    "HandlerFailure": "call",
    "InvalidReport": "reports",
    "ProcessExecutor": "subprocess",
    "Reject": "reports",
    "RetryLater": "reports",
    "RowError": "result",
    "Standing": "batch",
    "ThreadExecutor": "call",
}

__getattr__, __dir__ = door(__name__, _HOMES)
