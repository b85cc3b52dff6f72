"""What a round does next, as a table over what it sees (throughput.md, "Lanes")."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class Step(Enum):
    """A step of a round: write what is done, read the rows behind, read rows again that are too old, begin a batch,
    wait until something is over, or write what is done and end."""

    LAND = "land"
    READ = "read"
    REFRESH = "refresh"
    START = "start"
    WAIT = "wait"
    CLOSE = "close"


class Seen(NamedTuple):
    """What the round sees between two steps; what cannot be, it leaves out.

    Attributes:
        wanted: another call may begin: there is time, and the tick is not to stop. failed: a call failed.
        due: a row aside is due, and a batch has begun in this round. ready: rows wait for a lane that is idle.
        stale: they were read too long ago. room: further rows may be in hand. full: as many batches have begun beyond
            those that were written as may.
        in_hand: calls run. waiting: none does, and rows were dealt that no lane has begun.
        behind: the rows behind those that were dealt may be read, and no step was made since something was over.
        reading: that is under way. writing: no call runs, and what is done is on its way into the document, or goes
            there before the round waits. unwritten: there is one lane, and what it did is written before it goes on.
    """

    wanted: bool = False
    failed: bool = False
    due: bool = False
    ready: bool = False
    stale: bool = False
    room: bool = False
    full: bool = False
    waiting: bool = False
    in_hand: bool = False
    behind: bool = False
    reading: bool = False
    writing: bool = False
    unwritten: bool = False


def decide(seen: Seen) -> Step:
    """The next step. Idle lanes are fed before anything is written, but one lane writes first; rows that are too old
    are read again instead."""
    feeds = seen.wanted and not seen.failed and not seen.due
    if feeds and seen.behind and not seen.reading:
        return Step.LAND if seen.unwritten else Step.READ
    if feeds and seen.ready and seen.room and not seen.full:
        return Step.LAND if seen.unwritten else Step.REFRESH if seen.stale else Step.START
    if seen.in_hand or (feeds and (seen.reading or (seen.waiting and seen.writing))):
        return Step.WAIT
    return Step.CLOSE
