"""What is tortured, and how hard."""

from __future__ import annotations

from dataclasses import dataclass

from poller.model.cursor import CursorKind

ALL = ("messages", "chain", "locks", "connections", "prepared", "idle", "burst", "savepoints", "long-select")
"""messages: several transactions in one message. chain: COMMIT AND CHAIN. locks: table locks that statements wait for.
connections: a new one per transaction. prepared: a detached prepared or XA transaction. idle: one session that stays
idle in a transaction. burst: autocommit inserts as fast as they go. savepoints: and rollbacks. long-select: a
statement that takes its time before it writes."""

DEFEAT_OBSERVED = frozenset({"messages", "chain"})
"""What `observed` says plainly that it does not survive; `exact` and `observed-strict` must."""

NOT_HAD = {"mysql": DEFEAT_OBSERVED, "sqlite": frozenset({"messages", "chain", "locks", "prepared", "long-select"})}
"""By the database's family: features that its writers do not have, and pass over."""


@dataclass(frozen=True)
class Plan:
    """One run.

    Attributes:
        url: of an empty database; kind: the cursor's kind; writers: how many.
        seconds: how long the writers write; longest: how long a transaction stays open at most.
        features: of `ALL`; poll: seconds between two ticks; burners: processes that eat processor time.
        bound: the kind of bound, of which `observed` is that of a role that may not see all sessions; settle: as in the
            configuration, empty: as it is by itself; control: instead of a bound, a reader that must lose rows.
        rest: how long a writer rests between two transactions at most; while somebody is always open, the clock that
            a sample reads hardly matters.
        batch_size, page_size: of the poller; small ones make full pages, below a bound that serves again.
        pooler: the port of a pooler on this machine that the readers go through; 0: none.
        beside: other pollers of the same process and database, which take samples all the time and share them.
    """

    url: str
    bound: str = "auto"
    kind: CursorKind = "timestamp+pk"
    writers: int = 8
    seconds: float = 60.0
    longest: float = 2.0
    features: tuple[str, ...] = ALL
    poll: float = 0.2
    burners: int = 0
    settle: str = ""
    control: str = ""
    seed: int = 1
    rest: float = 0.0
    batch_size: int = 1000
    page_size: int = 1000
    pooler: int = 0
    beside: int = 0
