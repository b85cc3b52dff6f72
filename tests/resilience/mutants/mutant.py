"""What a mutant is, and which schedules there are for it."""

from __future__ import annotations

from dataclasses import dataclass

ANY = range(3000)
ENDLESS = range(7, 3000, 50)
"""Seeds whose workers never run out of rows (`tests.resilience.simulation.plan.draw`)."""
SLOW = range(13, 6000, 20)
"""Seeds with long handlers, slow answers."""
BREAKS = range(3, 6000, 20)
"""Seeds in which operators break leases of workers that hang."""
MEDDLED = range(24, 12000, 25)
"""Seeds in which somebody changes the document beside all rules."""
SPECIAL = (ENDLESS, SLOW, BREAKS, MEDDLED)


@dataclass(frozen=True, slots=True)
class Edit:
    """Replace `old` by `new` in `poller/{file}`."""

    file: str
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class Mutant:
    """A wrong change.

    Attributes:
        name: what is wrong with it.
        edits: how it is made.
        dies_of: a pattern of the law that is broken; another end is no proof.
        seeds: the schedules it is tried on, in this order, but `first` before them: one that it died of.
        test: which test it dies of, where schedules are of no use; empty otherwise.
        line: which of the protocol's own mutants it is, in the protocol's words; empty where it is another.
    """

    name: str
    edits: tuple[Edit, ...]
    dies_of: str
    seeds: range = ANY
    first: int | None = None
    test: str = ""
    line: str = ""


def dying_of(name: str, file: str, old: str, new: str, test: str) -> Mutant:
    """A mutant of one edit that dies of a test of its own."""
    law = test.partition("::")[2].partition("[")[0]
    return Mutant(name, (Edit(file, old, new),), law, test=f"tests/{test}")


BOTH = "are both believed to be held"
