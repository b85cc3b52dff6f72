"""Connection pools: one per server, database and user in a process, however many sources read there (scale.md).

A source borrows a connection for a sample and its page, and gives it back after a page that was not full. One that may
read the next page below the same bound *keeps* its connection: it stays the source's until another one waits for it. So
a handler that runs for long holds none, and sources that are alone lose nothing.

Connections are made when they are needed, and rest here, the last used on top. How many there may be is decided first
come, first served: who finds all in use waits, and is refused after a while. A connection is not tested before it is
lent: that would cost a statement each time. The source reads again, once, if its connection died while it rested;
with it all that rested are replaced.

A server takes so many connections, to whatever databases. So all pools of one server have a share of it together: half
of what others leave, and as many as one pool may have, as far as they are there. It is asked on a new connection (until
then there are `DEFAULT` at most), and again after `ASKED_FOR`, or when connections died: it may have been started again
with another number. Where nothing is left, what rested longest in another pool is closed for one that waits;
those that need one connection do not pass one that needs two, for `FIRST_FOR`. What a server refuses all the same (a
pooler's own limit, say) is found out by its refusals.

This does NOT hold for engines that a program made itself, nor for SQLite, whose connections cost nothing: those sources
have a connection of their own.
"""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, TypeAlias
from weakref import WeakSet, WeakValueDictionary, finalize

import sqlalchemy as sa
from sqlalchemy.engine import URL, Connection, Engine

from poller import forks
from poller.databases import samplers, urls
from poller.databases.kinds import kind_of
from poller.databases.room import Room, Scope, refused_for_room, room_of
from poller.errors import SourceUnavailable

DEFAULT = 4
"""Connections of a pool, unless a caller asks for more."""
MOST = 1_000
"""No pool has more: see `connections` in poller.toml."""
STATEMENTS_KEPT = 4_000
"""Compiled statements of all sources of a pool, about five each."""
ASKED_FOR = 300.0
"""Seconds after which a server is asked again how many connections it takes, when one is made."""
BRAKE = 60.0
"""Seconds for which there are no more connections than a server refused to exceed."""
FIRST_FOR = 2.0
"""Seconds for which no connection is made for those behind one that needs the room of several. After that they pass it:
queries that hang may keep that room from it for long."""
RETRY = 0.1
"""Seconds after which a refused connection is tried again: a server needs a moment for those that were closed."""
Scoped: TypeAlias = tuple[Scope, str | None]
"""The server's connections, a user's, or those to a database."""
_SESSION = "poller_session"


class PooledSession:
    """What is known of one session of the server, for as long as it is open.

    Attributes:
        place: equal for two sessions that are alike in all that a source learns: server and its start, database, user,
            settings, privileges. reading: for sharing samples; None if they are not.
        timeout, form: how it is set up at present: seconds, and how values are read. fresh: it was never given back.
        facts: what its users learned of this one session.
    """

    def __init__(
        self, place: Hashable, reading: samplers.ReadingConnection | None, timeout: float, *, form: str
    ) -> None:
        self.place = place
        self.reading = reading
        self.timeout = timeout
        self.form = form
        self.fresh = True
        self.facts: dict[str, Any] = {}
        self.generation = 0
        self._left: Callable[[], None] | None = None

    @staticmethod
    def of(connection: Connection) -> PooledSession | None:
        """The session of a connection that a source uses; None for any other."""
        found = connection.info.get(_SESSION)
        return found if isinstance(found, PooledSession) else None

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
        soiled: what its borrower runs may have changed settings of the session: no other borrower gets it while it is
            kept.
    """

    def __init__(self, connection: Connection, session: PooledSession) -> None:
        self.connection = connection
        self.session = session
        self.ended = self.soiled = False


@dataclass(frozen=True, slots=True)
class _Rest:
    """A connection that rests. `since`: on the monotonic clock."""

    connection: Connection
    session: PooledSession
    since: float


@dataclass(frozen=True, slots=True)
class _Place:
    """Leave to use one connection: `rest`, or a new one, once `closes` are closed."""

    rest: _Rest | None = None
    closes: tuple[Connection, ...] = ()


@dataclass(eq=False, slots=True)
class _Waiter:
    """`place`: set before `woken` is. `first`: since when those behind it are held up, if it needs the room of
    several."""

    pool: Pool
    first: float = math.inf
    woken: threading.Event = field(default_factory=threading.Event)
    place: _Place | None = None


class PooledServer:
    """What the pools of this process have of one server, by its address."""

    def __init__(self) -> None:
        self.pools: WeakSet[Pool] = WeakSet()
        self._serves = self._serves_again = False
        self._start()
        forks.in_child(self._start)

    def _start(self) -> None:
        self.lock = threading.RLock()  # re-entrant: a garbage-collected source leaves in any thread, at any point
        self.waiting: deque[_Waiter] = deque()
        self.pools = WeakSet(self.pools)
        self._serves = self._serves_again = False
        self._limits: dict[Scoped, int] = {}
        self._brakes: dict[Scoped, tuple[int, float]] = {}
        self.asked = False
        """True if it said how many it takes, or does not say it; until then there are few connections."""
        self.tight = False
        """True if there may be more connections than there should be."""

    def open_in(self, scope: Scoped) -> int:
        """The number of connections that are open, or about to be: of all users, of one, or to one database."""
        return sum(pool.open for pool in self.pools if scope in pool.scopes)

    def limit(self, scope: Scoped) -> float:
        """The number that may be open."""
        most, until = self._brakes.get(scope, (0, -math.inf))
        asked = self._limits.get(scope, math.inf if self.asked else DEFAULT)
        return min(asked, most) if time.monotonic() < until else asked

    def is_over(self, pool: Pool, more: int = 0) -> list[Scoped]:
        """In what there are too many, with so many more of this pool. One pool may always have one."""
        return [
            scope
            for scope in pool.scopes
            if (found := self.open_in(scope)) + more > self.limit(scope) and (found or not more)
        ]

    def doubt(self) -> None:
        """Ask again with the next new connections."""
        for pool in self.pools:
            pool.asked = -math.inf

    def learn(self, pool: Pool, connection: Connection) -> None:
        """Ask over a new connection, if that has its time. Raises: what the driver raises where that broke."""
        now = time.monotonic()
        if now < pool.asked + ASKED_FOR:
            return
        pool.asked = now
        found = room_of(connection, pool.family)
        with self.lock:
            self.asked = True
            for scope in pool.scopes:
                self._limits.pop(scope, None)
            for name, room in found.items():
                self._limits[pool.scope(name)] = self._share(pool.scope(name), room)
            self.tight = True
            self.serve()

    def _share(self, scope: Scoped, room: Room) -> int:
        mine = [pool for pool in self.pools if scope in pool.scopes]
        left = room.most - max(0, room.in_use - sum(pool.open for pool in mine))
        return max(1, min(left, max(left // 2, *(pool.connections * pool.each for pool in mine))))

    def refused(self, pool: Pool, name: Scope, *, closed: bool) -> bool:
        """The server made no connection, since there are so many. Whether this process has others that can make room
        for it. `closed`: one was closed for it just now, which the server may not have noticed."""
        scope = pool.scope(name)
        found = self.open_in(scope)
        if found and not closed:
            self._brakes[scope] = found, time.monotonic() + BRAKE
            self.tight = True
        self.doubt()
        return bool(found)

    def place(self, pool: Pool) -> _Place | None:
        """A place for this pool, if there is one."""
        if pool.lent >= pool.connections:
            return pool.taken_back()
        rest = _popped(pool.rests)
        if rest is not None:
            pool.lent += 1
            return _Place(rest)
        closes: list[Connection] = []
        while over := self.is_over(pool, pool.each):
            kept = None if closes else pool.taken_back()
            if kept is not None:
                return kept
            closed = self._closed_for(pool, over)
            if closed is None:
                for one in closes:  # each needs the room of several, and there was that of one
                    _drop(one)
                return None
            closes.append(closed)
        pool.lent += 1
        return _Place(closes=tuple(closes))

    def _closed_for(self, pool: Pool, scopes: list[Scoped]) -> Connection | None:
        """What rested for the longest in another pool that counts in all of these; else what a source keeps."""
        others = [one for one in self.pools if one is not pool and all(scope in one.scopes for scope in scopes)]
        for one in sorted(others, key=lambda one: one.rests_since):
            rest = _popped(one.rests, 0)
            if rest is not None:
                return rest.connection
        for one in others:
            kept = one.taken_back()
            if kept is not None:
                one.lent -= 1
                return kept.closes[0] if kept.rest is None else kept.rest.connection
        return None

    def serve(self) -> None:
        """Give what places there are to those that wait, the first first. Also while it is at work, if the garbage
        collector closes a source."""
        self._serves_again = True
        if self._serves:
            return
        self._serves = True
        try:
            while self._serves_again:
                self._serves_again = False
                taken: set[Scoped] = set()
                for waiter in list(self.waiting):
                    if not taken.isdisjoint(waiter.pool.scopes):
                        continue
                    waiter.place = self.place(waiter.pool)
                    if waiter.place is not None:
                        self.waiting.remove(waiter)
                        waiter.woken.set()
                    elif waiter.pool.each > 1 and waiter.pool.lent < waiter.pool.connections:
                        waiter.first = min(waiter.first, time.monotonic())
                        if time.monotonic() < waiter.first + FIRST_FOR:
                            taken.update(self.is_over(waiter.pool, waiter.pool.each))
        finally:
            self._serves = False


class Pool:
    """The connections to one database as one user. Safe to use from several threads.

    Args:
        engine: without a pool of its own. place: for messages, without a secret. server: that of its database.

    Attributes:
        connections: how many it may have. dispatched: whether a dispatcher has one more, in a pool of its own: a check
            must not wait for a page. looks: whether this is the pool of such looks.
        each: so many sessions each may have: a source of tables may open a second one beside it.
        scopes: in what its connections count: among those of the server, of its user, and of its database.
        lent, rests: those in use, or kept by a source, or about to be opened; those that rest. asked: when the server
            was asked, on the monotonic clock.
    """

    def __init__(self, engine: Engine, place: str, server: PooledServer) -> None:
        self.engine = engine
        self.connections = 0
        self.dispatched = self.looks = False
        self.each = 1
        self.server = server
        self.family = urls.family_of(engine.url)
        self.scopes: tuple[Scoped, ...] = (
            ("server", None),
            ("user", engine.url.username),
            ("database", engine.url.database),
        )
        self._place = place
        self._generation = 0
        self._users: dict[int, finalize[[int], object]] = {}
        self.rests: list[_Rest] = []
        self.asked = -math.inf
        self._start()
        with server.lock:
            server.pools.add(self)
        sa.event.listen(engine, "close", _closed)
        forks.in_child(self._reset_after_fork)

    def _start(self) -> None:
        self._kept: dict[Loan, None] = {}
        self.rests = []
        self.lent = 0
        self.asked = -math.inf

    def _reset_after_fork(self) -> None:
        """In a child process: the connections are the parent's."""
        forks.keep(*self._kept, *(rest.connection for rest in self.rests))
        self._start()
        urls.abandon(self.engine)

    @property
    def open(self) -> int:
        """The number of sessions that it has, or is about to have."""
        return (self.lent + len(self.rests)) * self.each

    @property
    def rests_since(self) -> float:
        """The moment since which the longest unused one is unused."""
        return next((rest.since for rest in self.rests), math.inf)

    def scope(self, name: Scope) -> Scoped:
        """That of its scopes."""
        return next(scope for scope in self.scopes if scope[0] == name)

    def allow(self, connections: int) -> None:
        """Let it have so many connections; the most that a source allows counts."""
        self.connections = max(self.connections, min(connections, MOST))

    def join(self, user: object) -> None:
        """One more user of the pool, until `leave` or the end of its life."""
        with self.server.lock:
            if id(user) not in self._users:
                self._users[id(user)] = ended = finalize(user, self._leave, id(user))
                ended.atexit = False

    def leave(self, user: object) -> None:
        """It holds no connection and needs none for now. After the last one what rests is closed."""
        self._leave(id(user))

    def _leave(self, user: int) -> None:
        with self.server.lock:
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
        self._close_rests()

    def _close_rests(self) -> None:
        while (rest := _popped(self.rests)) is not None:
            _drop(rest.connection)
        with self.server.lock:
            self.server.serve()

    # ----------------------------------------------------------------------------------------------------- lending

    def borrow(self, opened: Callable[[Connection], PooledSession], patience: float) -> Loan:
        """A connection, with its session set up.

        Args:
            opened: sets up a new session. patience: the most seconds that it waits for one.
        Raises: SourceUnavailable, if all are in use during that time; what the driver and `opened` raise.
        """
        ends = time.monotonic() + patience
        place = self._admit(patience)
        while True:
            try:
                return self._lend(place, opened)
            except BaseException as error:
                if not self._may_come_again(error, ends, closed=bool(place.closes)):
                    raise
                time.sleep(RETRY)
                try:
                    place = self._admit(ends - time.monotonic())
                except SourceUnavailable:
                    raise error from None

    def _may_come_again(self, error: BaseException, ends: float, *, closed: bool) -> bool:
        """No connection was made; whether one may be, once others of this process make room for it."""
        name = refused_for_room(error)
        with self.server.lock:
            self.lent -= 1
            again = name is not None and self.server.refused(self, name, closed=closed)
            again = again and time.monotonic() + RETRY < ends
            self.server.serve()
        return again

    def give_back(self, loan: Loan) -> None:
        """Keep it open for the next user."""
        if not self._ends(loan):
            return
        loan.session.fresh = False
        with self.server.lock:
            rests = bool(self._users)  # else it was closed by another thread meanwhile
            if rests and self.server.tight:
                rests = not self.server.is_over(self)
                self.server.tight = not rests
            if rests:
                self.lent -= 1
                self.rests.append(_Rest(loan.connection, loan.session, time.monotonic()))
                self.server.serve()
        if not rests:
            self._let_go(loan)

    def discard(self, loan: Loan) -> None:
        """Close it: it is broken, or its state is unknown."""
        if self._ends(loan):
            self._let_go(loan)

    def _let_go(self, loan: Loan) -> None:
        _drop(loan.connection)
        with self.server.lock:
            self.lent -= 1
            self.server.serve()

    def keep(self, loan: Loan) -> bool:
        """Leave it with the borrower, who does not use it now, until another one wants it; False if one waits for
        it already, and it must be given back."""
        with self.server.lock:
            if self.server.waiting or loan.ended or not self._users:
                return False
            self._kept[loan] = None
            return True

    def resume(self, loan: Loan) -> bool:
        """Use a kept one again; False where another one has it now."""
        with self.server.lock:
            if loan not in self._kept:
                return False
            del self._kept[loan]
            return True

    def taken_back(self) -> _Place | None:
        """The place of a connection that a source keeps, the longest kept first."""
        for kept in list(self._kept):
            if self.resume(kept):
                kept.ended, kept.session.fresh = True, False
                if kept.soiled:
                    return _Place(closes=(kept.connection,))
                return _Place(_Rest(kept.connection, kept.session, 0.0))
        return None

    def renew(self) -> None:
        """One died while it rested: all others that rest now are replaced when they are wanted."""
        with self.server.lock:
            self._generation += 1
            self.server.doubt()

    def _admit(self, patience: float) -> _Place:
        with self.server.lock:
            if not self.server.waiting:
                place = self.server.place(self)
                if place is not None:
                    return place
            waiter = _Waiter(self)
            self.server.waiting.append(waiter)
            self.server.serve()
        ends = time.monotonic() + patience
        try:
            while not waiter.woken.wait(max(0.0, min(FIRST_FOR, ends - time.monotonic()))) and time.monotonic() < ends:
                with self.server.lock:
                    self.server.serve()
        except BaseException:
            place = self._given(waiter)
            if place is not None:
                self._give_up(place)
            raise
        place = self._given(waiter)
        if place is None:
            raise self._all_in_use(patience)
        return place

    def _given(self, waiter: _Waiter) -> _Place | None:
        """Wait no longer; the place that it got, also in this very moment."""
        with self.server.lock:
            if waiter.place is None:
                self.server.waiting.remove(waiter)
            return waiter.place

    def _give_up(self, place: _Place) -> None:
        for connection in (*place.closes, *(() if place.rest is None else (place.rest.connection,))):
            _drop(connection)
        with self.server.lock:
            self.lent -= 1
            self.server.serve()

    def _all_in_use(self, patience: float) -> SourceUnavailable:
        with self.server.lock:
            mine = self.lent >= self.connections
            open_ones = self.server.open_in(self.scopes[0])
        if mine:
            return SourceUnavailable(
                f"All {self.connections} connections of this process to {self._place} are in use, for {patience:g} s.",
                next_step="Raise `connections` in poller.toml, run fewer pollers at once, or find out why their queries"
                " take so long.",
            )
        return SourceUnavailable(
            f"All {open_ones} connections that this process may have to the server of {self._place} are in use, for"
            f" {patience:g} s.",
            next_step="Raise the server's max_connections, or the limit of this user or database; run fewer pollers at"
            " once, or find out why their queries take so long.",
        )

    def _ends(self, loan: Loan) -> bool:
        """True if it ends now; False if it has ended, as where a source is closed while it reads."""
        with self.server.lock:
            before, loan.ended = loan.ended, True
            return not before

    def _lend(self, place: _Place, opened: Callable[[Connection], PooledSession]) -> Loan:
        for closed in place.closes:
            _drop(closed)
        rest = place.rest
        if rest is not None:
            if rest.session.generation == self._generation:
                return Loan(rest.connection, rest.session)
            _drop(rest.connection)
        generation = self._generation
        connection = self.engine.connect()
        try:
            session = opened(connection)
            session.generation = generation
            connection.info[_SESSION] = session
            self.server.learn(self, connection)
            session.enter()
        except BaseException:
            _drop(connection)
            raise
        return Loan(connection, session)


def _popped(rests: list[_Rest], at: int = -1) -> _Rest | None:
    """In one step: the garbage collector may close a source, and what rests, at any point."""
    try:
        return rests.pop(at)
    except IndexError:
        return None


def _drop(connection: Connection) -> None:
    with contextlib.suppress(Exception):
        connection.invalidate()
    with contextlib.suppress(Exception):
        connection.close()


def _closed(_: Any, record: Any) -> None:
    """SQLAlchemy closes a connection."""
    session = record.info.pop(_SESSION, None)
    if isinstance(session, PooledSession):
        session.close()


class _Pools:
    """This process's pools, as long as they are in use."""

    def __init__(self) -> None:
        self._start()
        self.known: WeakValueDictionary[Hashable, Pool] = WeakValueDictionary()
        self.servers: WeakValueDictionary[Hashable, PooledServer] = WeakValueDictionary()
        forks.in_child(self._start)

    def _start(self) -> None:
        self.lock = threading.Lock()


_POOLS = _Pools()


def pool_of(
    url: URL,
    make: Callable[[], Engine],
    *,
    place: str,
    connections: int,
    beside: Hashable,
    server: Hashable,
) -> Pool:
    """The pool for a URL: the same for all that name the same driver, server, database, user, password and options.

    Args:
        make: makes its engine, if there is none. place: for messages. connections: how many it may have.
        beside: what else distinguishes its sessions. server: the same for all databases of one server.
    Raises: what `make` raises.
    """
    key = (_key(urls.with_installed_driver(url)), beside)
    with _POOLS.lock:
        pool = _POOLS.known.get(key)
        if pool is None:
            shared = _POOLS.servers.get(server)
            if shared is None:
                shared = _POOLS.servers[server] = PooledServer()
            pool = _POOLS.known[key] = Pool(make(), place, shared)
        pool.allow(connections)
        return pool


def _key(url: URL) -> Hashable:
    kind = kind_of(url.get_backend_name())
    port = url.port or (None if url.query or kind is None else kind.port)  # an option may name one
    options = tuple(sorted((name, str(value)) for name, value in url.query.items()))
    return url.drivername, (url.host or "").lower(), port, url.database, url.username, url.password, options
