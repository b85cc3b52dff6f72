"""Connection pools: one per server, database and user in a process, however many sources read there (scale.md).

A source borrows a connection for a sample and its page, and gives it back after a page that was not full. One that may
read the next page below the same bound *keeps* its connection: it stays the source's until another one waits for it. So
a handler that runs for long holds none, and sources that are alone lose nothing.

The connections rest in SQLAlchemy's `QueuePool`, the last used on top, and are made when they are needed. How many
there may be is decided here, first come, first served: who finds all in use waits, and is refused after a while. A
connection is not tested before it is lent: that would cost a statement each time. The source reads again, once, where
its connection died while it rested; with it all that rested are replaced.

This does NOT hold for engines that a program made itself, nor for SQLite, whose connections cost nothing: those sources
have a connection of their own.
"""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable, Hashable
from typing import Any
from weakref import WeakValueDictionary, finalize

import sqlalchemy as sa
from sqlalchemy.engine import URL, Connection, Engine

from poller import forks
from poller.databases import samplers, urls
from poller.errors import SourceUnavailable

DEFAULT = 4
"""Connections of a pool, where nobody asks for more."""
MOST = 1_000
"""No pool has more: see `connections` in poller.toml."""
STATEMENTS_KEPT = 4_000
"""Compiled statements of all sources of a pool, about five each."""
_PORTS = {"postgresql": 5432, "mysql": 3306, "mariadb": 3306, "mssql": 1433, "oracle": 1521}
_SESSION = "poller_session"


class Session:
    """What is known of one session of the server, for as long as it is open.

    Attributes:
        place: equal for two sessions that are alike in all that a source learns: server and its start, database, user,
            settings, privileges. reading: for sharing samples; None where they are not.
        timeout, form: how it is set up at present: seconds, and how values are read. fresh: nobody gave it back yet.
        facts: what its users learned of this one session.
    """

    def __init__(self, place: Hashable, reading: samplers.Reading | None, timeout: float, *, form: str) -> None:
        self.place = place
        self.reading = reading
        self.timeout = timeout
        self.form = form
        self.fresh = True
        self.facts: dict[str, Any] = {}
        self.generation = 0
        self._left: Callable[[], None] | None = None

    @staticmethod
    def of(connection: Connection) -> Session | None:
        """The session of a connection that a source uses; None for any other."""
        found = connection.info.get(_SESSION)
        return found if isinstance(found, Session) else None

    def settle(self, connection: Connection) -> None:
        """Keep it with the connection."""
        connection.info[_SESSION] = self

    def enter(self) -> None:
        """Samples of this process leave it out until it is closed."""
        reading = self.reading
        if reading is None:
            return
        shared, name, server = samplers.SHARED, reading.session, reading.server
        shared.enter(server, name)
        self.reading = reading._replace(session="")  # entered once, not by each source
        self._left = lambda: shared.leave(server, name)

    def close(self) -> None:
        """It ends now: close what was opened beside it. Raises nothing."""
        left, self._left = self._left, None
        if left is not None:
            left()
        self.close_facts()
        self.facts.clear()

    def close_facts(self) -> None:
        """Close what was opened beside it. Raises nothing."""
        for name, fact in list(self.facts.items()):
            if hasattr(fact, "close"):
                self.facts.pop(name, None)
                with contextlib.suppress(Exception):
                    fact.close()


class Loan:
    """A connection that is lent. Compared by identity.

    Attributes:
        soiled: what its borrower runs may have changed settings of the session: nobody else gets it while it is kept.
    """

    def __init__(self, connection: Connection, session: Session) -> None:
        self.connection = connection
        self.session = session
        self.ended = self.soiled = False


class Pool:
    """The connections to one database as one user. Safe to use from several threads.

    Args:
        engine: with a `QueuePool` of `MOST` connections. place: for messages, without a secret.

    Attributes:
        connections: how many it may have. dispatched: whether a dispatcher has one more, which it shares with nobody: a
            look must not wait for a page.
    """

    def __init__(self, engine: Engine, place: str) -> None:
        self.engine = engine
        self.connections = 0
        self.dispatched = False
        self._place = place
        self._generation = 0
        self._users: dict[int, finalize[[int], object]] = {}
        self._start()
        sa.event.listen(engine, "close", _closed)
        forks.in_child(self._reset_after_fork)

    def _start(self) -> None:
        self._lock = threading.RLock()  # re-entrant: a garbage-collected source leaves in any thread, at any point
        self._waiting: deque[threading.Event] = deque()
        self._kept: dict[Loan, None] = {}
        self._lent = 0

    def _reset_after_fork(self) -> None:
        """In a child process: the connections are the parent's."""
        forks.keep(*self._kept)
        self._start()
        urls.abandon(self.engine)

    def allow(self, connections: int) -> None:
        """Let it have so many connections; the most that a source allows counts."""
        self.connections = max(self.connections, min(connections, MOST))

    def join(self, user: object) -> None:
        """Somebody uses the pool, until `leave` or the end of its life."""
        with self._lock:
            if id(user) not in self._users:
                self._users[id(user)] = ended = finalize(user, self._leave, id(user))
                ended.atexit = False

    def leave(self, user: object) -> None:
        """It holds no connection and needs none for now. After the last one what rests is closed."""
        self._leave(id(user))

    def _leave(self, user: int) -> None:
        with self._lock:
            ended = self._users.pop(user, None)
            if ended is None:
                return
            ended.detach()
            if self._users:
                return
            forgotten = list(self._kept)  # of sources that were never closed
        for loan in forgotten:
            if self.resume(loan):
                self.give_back(loan)
        self.engine.pool.dispose()

    # ----------------------------------------------------------------------------------------------------- lending

    def borrow(self, opened: Callable[[Connection], Session], patience: float) -> Loan:
        """A connection, with its session set up.

        Args:
            opened: sets up a new session. patience: for so many seconds at most it waits for one.
        Raises: SourceUnavailable where all are in use for so long; what the driver and `opened` raise.
        """
        self._admit(patience)
        try:
            return self._lend(opened)
        except BaseException:
            self._pass_on()
            raise

    def give_back(self, loan: Loan) -> None:
        """It rests, for whoever comes next."""
        if self._ends(loan):
            loan.session.fresh = False
            _return(loan.connection)
            self._pass_on()
            if not self._users:  # it was closed by another thread meanwhile
                self.engine.pool.dispose()

    def discard(self, loan: Loan) -> None:
        """It is closed: it is broken, or nobody knows what state it is in."""
        if self._ends(loan):
            _drop(loan.connection)
            self._pass_on()

    def keep(self, loan: Loan) -> bool:
        """Leave it with the borrower, who does not use it now, until another one wants it; False where one waits for
        it already, and it must be given back."""
        with self._lock:
            if self._waiting or loan.ended or not self._users:
                return False
            self._kept[loan] = None
            return True

    def resume(self, loan: Loan) -> bool:
        """Use a kept one again; False where another one has it now."""
        with self._lock:
            if loan not in self._kept:
                return False
            del self._kept[loan]
            return True

    def renew(self) -> None:
        """One died while it rested: all others that rest now are replaced when they are wanted."""
        with self._lock:
            self._generation += 1

    def _admit(self, patience: float) -> None:
        with self._lock:
            if not self._waiting:
                if self._lent < self.connections:
                    self._lent += 1
                    return
                for kept in list(self._kept):  # the first is kept the longest
                    if self.resume(kept):
                        kept.ended, kept.session.fresh = True, False
                        _drop(kept.connection) if kept.soiled else _return(kept.connection)  # nobody is waited for
                        return
            turn = threading.Event()
            self._waiting.append(turn)
        try:
            if turn.wait(patience):
                return
        except BaseException:
            if self._gives_up(turn):
                self._pass_on()
            raise
        if self._gives_up(turn):
            return
        raise SourceUnavailable(
            f"All {self.connections} connections of this process to {self._place} are in use, for {patience:g} s.",
            next_step="Raise `connections` in poller.toml, run fewer pollers at once, or find out why their queries"
            " take so long.",
        )

    def _gives_up(self, turn: threading.Event) -> bool:
        """Wait no longer; whether it got a place in this very moment."""
        with self._lock:
            if turn.is_set():
                return True
            self._waiting.remove(turn)
            return False

    def _ends(self, loan: Loan) -> bool:
        """Whether it ends now; False where it has ended, as where a source is closed while it reads."""
        with self._lock:
            before, loan.ended = loan.ended, True
            return not before

    def _pass_on(self) -> None:
        """A place is free: for the one that waits the longest."""
        with self._lock:
            if self._waiting:
                self._waiting.popleft().set()
            else:
                self._lent -= 1

    def _lend(self, opened: Callable[[Connection], Session]) -> Loan:
        while True:
            connection = self.engine.connect()
            try:
                session = Session.of(connection)
                if session is not None and session.generation == self._generation:
                    return Loan(connection, session)
                if session is None:
                    generation = self._generation
                    session = opened(connection)
                    session.generation = generation
                    session.settle(connection)
                    session.enter()
                    return Loan(connection, session)
            except BaseException:
                _drop(connection)
                raise
            _drop(connection)


def _return(connection: Connection) -> None:
    with contextlib.suppress(Exception):
        connection.close()


def _drop(connection: Connection) -> None:
    with contextlib.suppress(Exception):
        connection.invalidate()
    _return(connection)


def _closed(_: Any, record: Any) -> None:
    """SQLAlchemy closes a connection."""
    session = record.info.pop(_SESSION, None)
    if isinstance(session, Session):
        session.close()


class _Pools:
    """This process's pools, as long as somebody has them."""

    def __init__(self) -> None:
        self._start()
        forks.in_child(self._start_again)

    def _start(self) -> None:
        self.lock = threading.Lock()
        self.known: WeakValueDictionary[Hashable, Pool] = WeakValueDictionary()

    def _start_again(self) -> None:
        self.lock = threading.Lock()


_POOLS = _Pools()


def pool_of(
    url: URL, make: Callable[[], Engine], *, place: str, connections: int = DEFAULT, beside: Hashable = ()
) -> Pool:
    """The pool for a URL: the same for all that name the same driver, server, database, user, password and options.

    Args:
        make: makes its engine, where there is none. place: for messages. connections: how many it may have.
        beside: what else distinguishes its sessions.
    Raises: what `make` raises.
    """
    key = (_key(urls.with_installed_driver(url)), beside)
    with _POOLS.lock:
        pool = _POOLS.known.get(key)
        if pool is None:
            pool = _POOLS.known[key] = Pool(make(), place)
        pool.allow(connections)
        return pool


def _key(url: URL) -> Hashable:
    family = url.get_backend_name()
    port = url.port or (None if url.query else _PORTS.get(family))  # an option may name one
    options = tuple(sorted((name, str(value)) for name, value in url.query.items()))
    return url.drivername, (url.host or "").lower(), port, url.database, url.username, url.password, options
