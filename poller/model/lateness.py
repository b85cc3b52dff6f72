"""The time that the rows of a poller have waited, by its schedule and by what made progress.

A row waits since the first moment of the schedule after it could be read: no earlier than the document was created, or
the checkpoint moved. It is *stalled* since the first moment after the last progress too: a commit, a resume or a reset.
The end of the pause after a failed call is not a progress. Rows that an interrupted tick left (`unfinished`) wait for
no schedule: `poller run` and the dispatcher look for them within 5 minutes of the lease's end.

All moments are the store's clock; ages are seconds of the database's own clock.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

BETWEEN = timedelta(minutes=5)
"""The time after a lease's end in which `poller run` and the dispatcher find the rows that were left."""


@dataclass(frozen=True, slots=True)
class Wait:
    """The time that something has waited.

    Attributes:
        since: the first moment of the schedule from which on a tick should have delivered it; None if nothing waits.
        late: seconds since then; None if that moment is to come, or nothing waits.
        stalled: the same, and nothing made progress since.
        due: that moment, if it is to come.
    """

    since: datetime | None = None
    late: float | None = None
    stalled: float | None = None
    due: datetime | None = None


def waited(
    now: datetime,
    since: datetime,
    progress: datetime | None,
    following: Callable[[datetime], datetime],
    *,
    left_until: datetime | None = None,
) -> Wait:
    """The time that what could be delivered `since` has waited.

    Args:
        progress: when the poller last made some. following: the schedule's first moment after one. left_until: when the
            lease of an interrupted tick ended or ends, if it left rows.
    """

    def moment(after: datetime) -> datetime:
        found = following(after)
        return found if left_until is None else min(found, max(after, min(left_until, now)) + BETWEEN)

    first, next_one = moment(since), moment(max(since, progress or since))
    return Wait(
        since=first,
        late=_passed(now, first),
        stalled=_passed(now, next_one),
        due=next_one if next_one > now else None,
    )


def _passed(now: datetime, moment: datetime) -> float | None:
    return None if moment > now else (now - moment).total_seconds()
