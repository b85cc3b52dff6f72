"""One connection, in autocommit, its session set up for reading pages: borrowed from the process's pool, or held.

Then the engines and pools that it comes from, with each dialect's own arguments; and how a source sets up a session,
adjusts one that another source set up, and gives one its settings back.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Hashable, Iterator, Mapping
from datetime import timedelta
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy.engine import URL, Connection, Engine
from sqlalchemy.exc import OperationalError
from sqlalchemy.pool import NullPool

from poller import forks
from poller.databases import pools, tokens, urls
from poller.databases.pools import Loan, Pool, PooledSession
from poller.databases.urls import identify, place
from poller.entra import Identity
from poller.errors import SourceUnavailable
from poller.sources.database import Dialect, Form, Records, ServerPlace
from poller.sources.user_sql import escape_colons

_TEXTS_KEPT = 64
_Opened = TypeVar("_Opened")

PATIENCE = 5.0
"""The most seconds that a fork waits for a page that another thread reads from a SQLite file."""


class Database:
    """A source's connection. Used by one thread at a time.

    With a `pool` it is borrowed at the first statement of a piece of work, and given back by `end_work`. Without one it
    is held until `close`. `patience`: how long it waits for one of the pool; default: `timeout`.
    """

    def __init__(
        self,
        engine: Engine,
        dialect: Dialect,
        timeout: timedelta,
        *,
        form: Form = "parsed",
        pool: Pool | None = None,
        patience: timedelta | None = None,
    ) -> None:
        self.engine = engine
        self.dialect = dialect
        self.timeout = timeout
        self.pool = pool
        self._patience = (timeout if patience is None else patience).total_seconds()
        self._setup = SessionSetup(engine, dialect, timeout, form)
        self._usual: Form = form
        self.may_set = False
        """True if what is read may call functions of the users', which may change settings of the session."""
        self.lenient = False
        """True if values that the driver cannot convert are read as text: after a failure, while pages hold such
        text."""
        self.page_held_text: bool | None = None
        """True if a page of the present work held such text; None if no page was read."""
        self._connection: Connection | None = None
        self._driver: Any = None
        self._session: PooledSession | None = None
        self._loan: Loan | None = None
        self._kept = False
        """True if another source may take the borrowed connection."""
        self._lasting = 0
        self.rested = False
        """True if the connection in use was used before this piece of work: it may have died since."""
        self._texts: dict[str, sa.TextClause] = {}
        """Statements that ran before: one that is kept is not compiled again."""
        self._file: Hashable = None
        self._thread = 0
        """The one that opened the connection."""
        self.using = threading.RLock()
        """Held while a thread uses the connection: the tick's, or the one that reads ahead for it."""

    @property
    def exact(self) -> bool:
        """True if JSON and intervals are read as marked text."""
        return self._setup.form == "exact"

    @exact.setter
    def exact(self, wanted: bool) -> None:
        form: Form = "exact" if wanted else self._usual
        if form == self._setup.form:
            return
        with self.using:
            if self.dialect.sets_values:
                self._let_go()
            self._setup.form = form

    def before_fork(self) -> None:
        """Close a SQLite file: its locks are per process, and are lost when it is open across a fork. Where another
        thread is using it, the one that opened it waits a while for that; any other leaves it alone."""
        if not self.dialect.is_file or self._setup.in_memory:
            return
        opened = self._thread == threading.get_ident()
        if self.using.acquire(timeout=PATIENCE) if opened else self.using.acquire(blocking=False):
            try:
                self.close()
            finally:
                self.using.release()

    def reset_after_fork(self) -> None:
        """In a child process: leave the parent's connection alone, and send nothing on it."""
        self.using = threading.RLock()
        if self._setup.in_memory:
            return  # this process has its own copy of it
        forks.keep(self._connection, self._driver)
        self._connection = self._driver = self._session = self._loan = None
        self._kept = False
        if self.pool is None:  # a pool resets itself
            urls.abandon(self.engine)

    @property
    def is_open(self) -> bool:
        """True if a connection is held or borrowed."""
        return self._connection is not None

    def connection(self) -> Connection:
        """The connection in use, borrowed or opened and set up when there is none. Raises what the driver raises (where
        SQLite's file was replaced too), SourceUnavailable where SQLite's file is missing or all connections of the pool
        are in use."""
        if self.pool is not None:
            return self._borrowed(self.pool)
        if self._connection is not None and self._file != self.dialect.file(self.engine):
            self.close()
            # Like a broken connection: the source then forgets what it learned of the table, and reads again.
            raise OperationalError(None, None, Exception("the database file was replaced"))
        if self._connection is None:
            self._file = self.dialect.file(self.engine)
            connection = self._opened(self.engine.connect)
            try:
                connection = connection.execution_options(isolation_level="AUTOCOMMIT")
                self._driver = connection.connection.driver_connection  # a detached connection no longer names it
                if not self._setup.in_memory:
                    connection.detach()
                self._session = self._setup.of_held(connection, self._driver)
            except BaseException:
                connection.close()
                raise
            self._connection, self._thread = connection, threading.get_ident()
            self.rested = False
        return self._connection

    def lent(self) -> object:
        """The loan of the connection in use, or the connection that is held: the same one as before if no other
        source used it meanwhile. A pool lends one connection many times. Raises: as `connection`."""
        connection = self.connection()
        return connection if self._loan is None else self._loan

    def place(self) -> Hashable:
        """Where the connection in use leads: what was learned on another connection is true here where its place was
        the same. Raises: as `connection`."""
        self.connection()
        return None if self._session is None else self._session.place

    def facts(self) -> dict[str, Any]:
        """What was learned of the one session in use, by anybody; what has a `close` is closed with it. Raises: as
        `connection`."""
        self.connection()
        return {} if self._session is None else self._session.facts

    def _borrowed(self, pool: Pool) -> Connection:
        if self._kept and self._loan is not None:
            self._kept = False
            if not pool.resume(self._loan):
                self._forget_connection()
        if self._loan is None:
            pool.join(self)
            loan = self._opened(lambda: pool.borrow(self._setup.of_pooled, self._patience))
            self._loan, self._session, self._connection = loan, loan.session, loan.connection
            self._driver, self.rested = loan.connection.connection.driver_connection, not loan.session.fresh
            self._setup.adjust(loan.connection, self._driver, loan.session)
            if self.may_set:
                self._setup.note_settings(loan.connection, loan.session)
        assert self._connection is not None  # noqa: S101 - as the loan
        return self._connection

    def _opened(self, opening: Callable[[], _Opened]) -> _Opened:
        try:
            return opening()
        except OSError as error:  # a driver that reads the files of TLS itself, before it connects
            raise SourceUnavailable(
                f"No connection can be made: {error.strerror or type(error).__name__}.",
                next_step="Check that this process may read the files that the options of `url` name, such as ssl_ca,"
                " and that the files are valid.",
            ) from None

    def run(self, sql: str | sa.Executable, params: Mapping[str, Any] | None = None) -> Records:
        """One statement in its own snapshot: see `Runner`. Raises what the driver raises."""
        connection = self.connection()
        self.dialect.before(self._driver, self.timeout)
        lenient = self.dialect.lenient(self._driver) if self.lenient else contextlib.nullcontext()
        with lenient, self.dialect.keeping() as documents:
            statement = self._text(sql) if isinstance(sql, str) else sql
            result = connection.execute(statement, dict(params or {}))
            description = getattr(result.cursor, "description", None) or ()
            names = tuple(str(column[0]) for column in description)
            origins = self.dialect.origins(result.cursor)
            if not self.lenient:  # the driver's own records, with its errors translated as SQLAlchemy's rows have them
                rows = result.cursor_strategy.fetchall(result, result.cursor)
                return Records(names, rows, description, documents=documents, origins=origins)
            read = self.dialect.fetch_leniently(result)
        return Records(names, read.rows, description, read.any_text, read.escaped, documents, origins)

    def _text(self, sql: str) -> sa.TextClause:
        kept = self._texts.get(sql)
        if kept is None:
            if len(self._texts) >= _TEXTS_KEPT:
                self._texts.clear()
            kept = self._texts[sql] = sa.text(sql)
        return kept

    def read_leniently(self, error: BaseException) -> bool:
        """Read values that the driver cannot convert as text from now on; False if it failed for another reason, or
        they are read so already."""
        if self.lenient or not self.dialect.unreadable(error):
            return False
        if self.dialect.conversion_breaks:
            self.discard()
        self.lenient = True
        return True

    def begin_work(self) -> None:
        """The beginning of a piece of work, after which a connection that is there has rested."""
        self.rested = self.is_open

    def end_work(self, *, failed: bool = False, keep: bool = False) -> None:
        """The end of a piece of work: the next one reads as usual, unless a page held such text. `keep`: as of
        `rest`."""
        if failed:
            self.lenient = False
        elif self.page_held_text is not None:
            self.lenient = self.page_held_text
        self.page_held_text = None
        self.rest(keep=keep)

    def rest(self, *, keep: bool = False) -> None:
        """A borrowed connection goes back; `keep`: unless no other borrower waits for one."""
        if self.pool is None or self._loan is None or self._lasting:
            return
        self._loan.soiled = self.may_set
        if keep and self.pool.keep(self._loan):
            self._kept = True
        elif not self._kept:
            self._give_back()

    @contextlib.contextmanager
    def lasting(self) -> Iterator[None]:
        """One connection for several pieces of work."""
        self._lasting += 1
        try:
            yield
        finally:
            self._lasting -= 1
            with self.using:
                self.rest()

    def driver_connection(self) -> Any:
        """The driver's connection, or None."""
        return None if self._connection is None else self._driver

    def discard(self) -> None:
        """Close the connection, broken or not: it is not used any more."""
        if self.pool is None:
            self._close_held()
        elif self._loan is not None and (not self._kept or self.pool.resume(self._loan)):
            loan = self._loan
            self._forget_connection()
            self.pool.discard(loan)
        else:
            self._forget_connection()

    def renew(self) -> None:
        """A connection died while it rested: others that rested meanwhile are not trusted either."""
        if self.pool is not None:
            self.pool.renew()

    def close(self) -> None:
        """The source needs no connection for now."""
        if self.pool is None:
            self._close_held()
            return
        if self.using.acquire(blocking=False):
            try:
                self._let_go()
            finally:
                self.using.release()
        self.pool.leave(self)  # where another thread reads, it gives the connection back

    def _let_go(self) -> None:
        """Close the connection, or give it back to the pool."""
        if self.pool is None:
            self._close_held()
            return
        if self._loan is not None and (not self._kept or self.pool.resume(self._loan)):
            self._give_back()
        self._forget_connection()

    def _give_back(self) -> None:
        loan, driver = self._loan, self._driver
        self._forget_connection()
        if loan is None or self.pool is None:
            return
        if is_idle(loan.connection, driver) and (
            not self.may_set or self._setup.restore(loan.connection, loan.session)
        ):
            self.pool.give_back(loan)
        else:
            self.pool.discard(loan)

    def restore(self) -> None:
        """Give the session in use the settings back that what ran in it may have changed; where that cannot be, another
        is opened when it is needed."""
        connection, session = self._connection, self._session
        if connection is None or session is None or self.dialect.is_file:
            return
        if not self._setup.restore(connection, session):
            self.discard()

    def _forget_connection(self) -> None:
        self._connection = self._driver = self._session = self._loan = None
        self._kept = False

    def _close_held(self) -> None:
        held, self._connection = self._connection, None
        if held is not None:
            with contextlib.suppress(Exception):
                if self._setup.in_memory:
                    self._driver.set_progress_handler(None, 0)
            with contextlib.suppress(Exception):
                held.close()


# ---------------------------------------------------------------------------------------------------- engines and pools


def read_url(url: str | URL | Engine) -> URL:
    """The URL of a text, a URL or an engine.

    Raises: ConfigError naming `url`; it does not repeat the text, which may hold a password.
    """
    if isinstance(url, Engine):
        return url.url
    if isinstance(url, URL):
        return url
    return urls.read_url(url, key="url")


def make_engine(url: URL, dialect: Dialect, timeout: timedelta, identity: Identity | None = None) -> Engine:
    """An engine without a pool, for one connection that is held. `identity`: signs in, instead of a password.

    Raises: ConfigError naming `url`, if the driver is not installed, or `identity`, if it cannot be used there.
    """
    return _engine(url, dialect, timeout, identity, poolclass=NullPool)


def make_pool(
    url: URL,
    dialect: Dialect,
    timeout: timedelta,
    connections: int,
    identity: Identity | None = None,
    *,
    of: Hashable = (),
) -> Pool | None:
    """The process's pool for this URL; None for SQLite, whose connections cost nothing, and which locks per process.

    Args:
        of: whose pool it is, if it is not that of all sources.
    Raises: as `make_engine`.
    """
    if dialect.is_file:
        return None

    def make() -> Engine:
        return _engine(
            url,
            dialect,
            timeout,
            identity,
            poolclass=NullPool,  # they rest in ours
            pool_reset_on_return=None,
            isolation_level="AUTOCOMMIT",
            query_cache_size=pools.STATEMENTS_KEPT,
        )

    found = identify(url)
    server = found.dialect, found.host, found.port
    beside = identity, of
    return pools.pool_of(url, make, place=place(found), connections=connections, beside=beside, server=server)


def _engine(url: URL, dialect: Dialect, timeout: timedelta, identity: Identity | None, **options: Any) -> Engine:
    def connect_args(chosen: URL) -> dict[str, Any]:
        args = dialect.connect_args(chosen.get_driver_name(), timeout)
        return {name: value for name, value in args.items() if name not in chosen.query or name in dialect.forced}

    return tokens.open_engine(
        url,
        connect_args,
        key="url",
        identity=identity,
        hide_parameters=True,
        skip_autocommit_rollback=True,
        # SQLAlchemy would take `%(v)s` in a name or a text of the user's for a parameter, where it numbers them itself.
        **({"paramstyle": "named"} if dialect.is_file else {}),
        **options,
    )


def engine_of(
    url: URL | Engine, pool: Pool | None, dialect: Dialect, timeout: timedelta, identity: Identity | None
) -> Engine:
    """The one that was given, that of the pool, or one for a connection that is held. Raises: as `make_engine`."""
    if isinstance(url, Engine):
        return url
    return make_engine(url, dialect, timeout, identity) if pool is None else pool.engine


def quoter(engine: Engine) -> Callable[[str], str]:
    """Quotes a name where it needs it, ready for `sqlalchemy.text`, which doubles percents and reads colons itself."""
    preparer = engine.dialect.identifier_preparer
    doubles = bool(getattr(preparer, "_double_percents", False))

    def quote(name: str) -> str:
        quoted = preparer.quote(name)
        return escape_colons(quoted.replace("%%", "%") if doubles else quoted)

    return quote


# ------------------------------------------------------------------------------------------------------------- sessions


_SETTINGS = "settings"
_IN_TRANSACTION = 1
"""A flag of MySQL's protocol."""


class SessionSetup:
    """What a source needs of a session.

    Args:
        timeout: of each statement. form: how JSON and intervals are read; it may be set to another.
    """

    def __init__(self, engine: Engine, dialect: Dialect, timeout: timedelta, form: Form) -> None:
        self._engine = engine
        self._dialect = dialect
        self._timeout = timeout
        self.form: Form = form

    @property
    def in_memory(self) -> bool:
        """See `Dialect.in_memory`."""
        return self._dialect.in_memory(self._engine)

    def of_held(self, connection: Connection, driver: Any) -> PooledSession:
        """A new session of a connection that one source holds. Raises what the driver raises."""
        self._begin(connection, driver)
        return self._session(ServerPlace(object(), None))

    def of_pooled(self, connection: Connection) -> PooledSession:
        """A new session of a connection of the pool. Raises what the driver raises."""
        driver = connection.connection.driver_connection
        self._begin(connection, driver)
        self._dialect.limit(connection, driver, self._timeout)  # the driver's: the engine was made for another source
        return self._session(self._dialect.place(connection))

    def _begin(self, connection: Connection, driver: Any) -> None:
        self._dialect.adopt(driver, self._timeout)
        self._dialect.read_values(driver, self.form)
        self._dialect.set_up(connection, self._timeout)

    def _session(self, found: ServerPlace) -> PooledSession:
        return PooledSession(found.place, found.reading, self._timeout.total_seconds(), form=self.form)

    def adjust(self, connection: Connection, driver: Any, session: PooledSession) -> None:
        """What another source set up otherwise. Raises what the driver raises."""
        if not session.fresh:
            self._dialect.resume(connection)
        if session.form != self.form:
            self._dialect.read_values(driver, self.form)
            session.form = self.form
        seconds = self._timeout.total_seconds()
        if session.timeout != seconds:
            session.timeout = -1.0  # until it is known that it was set
            for statement in self._dialect.limit(connection, driver, self._timeout):
                connection.execute(sa.text(statement))
            session.timeout = seconds

    def note_settings(self, connection: Connection, session: PooledSession) -> None:
        """Before anything of the users' runs in it: for `restore`. Raises what the driver raises."""
        if _SETTINGS not in session.facts:
            session.facts[_SETTINGS] = self._dialect.settings(connection)

    def restore(self, connection: Connection, session: PooledSession) -> bool:
        """True if the session has its settings again, for its next borrower."""
        session.close_facts()
        try:
            if self._dialect.is_pooled(connection):
                return True  # the settings are of a session that another user has by now
            session.timeout = -1.0
            return self._dialect.restore(connection, self._timeout, session.facts.get(_SETTINGS))
        except Exception:  # noqa: BLE001 - it is not used again
            return False


def is_idle(connection: Connection, driver: Any) -> bool:
    """True if the session is in no transaction and awaits a statement, as far as the driver knows."""
    if connection.closed or connection.invalidated:
        return False
    psycopg = int(getattr(getattr(driver, "info", None), "transaction_status", 0))
    pymysql = int(getattr(driver, "server_status", 0)) & _IN_TRANSACTION
    return not psycopg and not pymysql
