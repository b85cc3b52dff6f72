"""Database connections that sources, SQL stores and sinks share.

`urls` reads and checks URLs, says which database they mean, and opens engines; `pools` lend connections to sources;
`errors` reads what drivers raise; `samplers` take samples of a server's open transactions, once for all pollers of a
process.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from poller.doors import door

if TYPE_CHECKING:
    from poller.databases.capture import CapturePlan, CaptureRefusal
    from poller.databases.kinds import KINDS
    from poller.databases.urls import identify, place

__all__ = [
    "KINDS",
    "CapturePlan",
    "CaptureRefusal",
    "identify",
    "place",
]

_HOMES = {
    "KINDS": "kinds",
    "CapturePlan": "capture",
    "CaptureRefusal": "capture",
    "identify": "urls",
    "place": "urls",
}

__getattr__, __dir__ = door(__name__, _HOMES)
