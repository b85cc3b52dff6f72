"""A range of a table delivered once more, or for the first time, beside the live poller.

A backfill is one part, or several that are delivered at once. Each part is a poller of its own, with a state document
of its own and the live poller's store, options and handler: leases, attempts and commits are those of every poller, so
it goes on where it was killed. Its document is made before its first row is read and says whose range it is, so that it
can be found, paused and resumed by its name; when every row was delivered, that is written there too.

`run` is the use case behind `Poller.backfill` and `poller backfill`, `parts` one part and its document. `ranges` cuts a
range and reads its rows. `documents` is what a document says of its backfill, `listing` finds the backfills of an
application, `changes` pauses and resumes them by name, `status` says where one stands, `survey` where pollers and their
backfills do, and `watch` how fast they move.

The names of the package are what programs use of it (docs/python.md); each is imported when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from poller.doors import door

if TYPE_CHECKING:
    from poller.backfill.changes import pause, resume
    from poller.backfill.ranges import Range
    from poller.backfill.result import BackfillOutput
    from poller.backfill.run import Backfill, BackfillRequest
    from poller.backfill.survey import Survey

__all__ = [
    "Backfill",
    "BackfillOutput",
    "BackfillRequest",
    "Range",
    "Survey",
    "pause",
    "resume",
]

_HOMES = {
    "Backfill": "run",
    "BackfillOutput": "result",
    "BackfillRequest": "run",
    "Range": "ranges",
    "Survey": "survey",
    "pause": "changes",
    "resume": "changes",
}

__getattr__, __dir__ = door(__name__, _HOMES)
