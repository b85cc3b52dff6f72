"""The second connection to PostgreSQL, over which pages come as Arrow's columns.

Rows are only read below a bound where the bound's server is: behind an address with several hosts, a proxy or a pooler,
another connection may lead to another server, or later to another session. So this connection is made to the very host
that the first one reached, and each page carries the session that it was read in: the server, its start, database,
user, the settings that names and texts depend on, and the process. A page of any other session is not used.

Nothing that the driver says is shown: its errors quote the statement.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from datetime import timedelta
from queue import SimpleQueue
from typing import Any, TypeAlias
from weakref import finalize

from sqlalchemy.exc import OperationalError

from poller import forks
from poller.sources.arrow import adbc

CONNECT_TIMEOUT = 10
"""Seconds, if the first connection has no limit."""
_CANCELED = "57014"
SERVER = """concat_ws('/', coalesce(host(inet_server_addr()), 'local'), current_setting('port'),
 date_part('epoch', pg_postmaster_start_time()), current_database(), current_user, session_user,
 current_setting('search_path'), current_setting('TimeZone'), current_setting('DateStyle'),
 current_setting('IntervalStyle'), current_setting('lc_monetary'), current_setting('row_security'),
 current_setting('server_encoding'))"""
"""What must be the same on both connections."""
HERE = f"(SELECT hashtextextended(concat_ws('/', {SERVER}, pg_backend_pid()), 0))"
"""The session, as a number: computed once per statement."""
_SETTINGS = {
    "row_security": "off",
    "default_transaction_read_only": "on",
    "standard_conforming_strings": "on",
    "datestyle": "ISO",
    "intervalstyle": "postgres",
    "extra_float_digits": "1",
    "client_encoding": "UTF8",
}


_Job: TypeAlias = tuple[Callable[[], Any], "Future[Any]"]
"""A piece of work on another thread, and its end."""


class Unusable(Exception):
    """A page cannot be read so; it says why, without a value of a row or a secret. Another way must be taken."""


class _TimedOut(Exception):
    sqlstate = _CANCELED


def _ended() -> OperationalError:
    """As psycopg says it: the dialect recognises it."""
    return OperationalError(None, None, _TimedOut("canceling statement due to statement timeout"))


class _Worker:
    """A thread that does one job after the other. It is kept: Arrow's memory is kept per thread, and costs a fifth of a
    page if each page has a new one. Raises (here): RuntimeError, if no thread can be started."""

    def __init__(self) -> None:
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        threading.Thread(target=_work, args=(self._jobs,), name="poller-adbc", daemon=True).start()

    def begin(self, work: Callable[[], Any]) -> Future[Any]:
        end: Future[Any] = Future()
        self._jobs.put((work, end))
        return end

    def end(self) -> None:
        """When what was begun is done."""
        self._jobs.put(None)


def _work(jobs: SimpleQueue[_Job | None]) -> None:
    while (job := jobs.get()) is not None:
        work, end = job
        try:
            end.set_result(work())
        except BaseException as error:  # noqa: BLE001 - raised where it was asked for
            end.set_exception(error)
        del job, work, end  # what it read is not kept until the next one


class AdbcSession:
    """One session of ADBC's driver, beside a connection of psycopg, and closed with it. Used by one thread at a
    time."""

    def __init__(self) -> None:
        self._seconds = self._told = 0.0
        """The timeout of a query in force, and the one that the server knows."""
        self._connection: Any = None
        self._beside: Any = None
        self._here: int | None = None
        self._worker: _Worker | None = None

    def read(self, beside: Any, server: Callable[[], str], sql: str, timeout: timedelta) -> Any:
        """The table that the statement returns, whose last column must be `HERE`; that one is left out.

        Args:
            beside: psycopg's connection. server: what `SERVER` is there. timeout: the server ends the
                query then, and a little later this side.
        Raises: Unusable; OperationalError where the query took too long.
        """
        self._seconds = timeout.total_seconds()
        if self._connection is None or self._beside is not beside:
            self.close()
            self._open(beside, server())
        elif self._told != self._seconds:
            self._asked(f"SELECT set_config('statement_timeout', '{self._limit()}', false)")
            self._told = self._seconds
        table = self._asked(sql)
        last = table.num_columns - 1
        here = table.column(last)
        if table.num_rows and (here[0].as_py() != self._here or here[table.num_rows - 1].as_py() != self._here):
            self.close()
            raise Unusable("it was read in another session than was opened")
        return table.remove_column(last)

    def close(self) -> None:
        """Close the connection, broken or not."""
        held, self._connection, self._beside = self._connection, None, None
        if held is not None:
            with contextlib.suppress(Exception):
                held.close()
        if self._worker is not None:
            self._worker.end()
            self._worker = None

    def _open(self, beside: Any, server: str) -> None:
        address, driver = _address(beside), adbc()
        self._connection = self._bounded(lambda: driver.connect(address, autocommit=True), "connect")
        settings = {"statement_timeout": self._limit(), **_SETTINGS}
        chosen = ", ".join(f"set_config('{name}', '{value}', false)" for name, value in settings.items())
        self._asked(f"SELECT {chosen}")
        found = self._asked(f"SELECT {SERVER}, {HERE}")
        said, self._here = found.column(0)[0].as_py(), found.column(1)[0].as_py()
        if said != server:
            self.close()
            raise Unusable("the driver's connection leads to another server, database or user, or has other settings")
        self._beside, self._told = beside, self._seconds

    def _limit(self) -> str:
        return str(max(1, round(self._seconds * 1000)))

    def _asked(self, sql: str) -> Any:
        """One statement in its own snapshot. Its cursor is closed at once: an open one blocks `close`, and a second
        statement would end its stream."""

        def work() -> Any:
            with connection.cursor() as cursor:
                cursor.execute(sql)
                return cursor.fetch_arrow_table()

        connection = self._connection
        return self._bounded(work, "read")

    def _bounded(self, work: Callable[[], Any], what: str) -> Any:
        """Do it on this session's own thread, and give up a little later than the server should: one that acknowledges
        and never answers (stopped, or behind a pooler) must not hold up a tick for ever. What is given up is never used
        again."""
        limit = CONNECT_TIMEOUT + 5.0 if what == "connect" else self._seconds + min(5.0, self._seconds)
        until = time.monotonic() + limit
        try:
            if self._worker is None:
                self._worker = _Worker()
                finalize(self, self._worker.end).atexit = False
            job = self._worker.begin(work)
        except RuntimeError:
            raise Unusable("no thread could be started") from None
        done = False
        try:
            done = bool(wait([job], max(0.0, until - time.monotonic())).done)
        finally:
            if not done:  # too late, or interrupted
                self._abandon()
        if not done:
            if what == "connect":
                raise Unusable("the driver did not connect in time")
            raise _ended()
        if (error := job.exception()) is not None:
            self._raise(error, what)
        return job.result()

    def _abandon(self) -> None:
        """Another user of the connection is still there: a thread that may hang, or the parent of this process."""
        forks.keep(self._connection)
        self._connection = self._beside = self._worker = None

    def _raise(self, error: BaseException, what: str) -> None:
        self.close()
        if not isinstance(error, Exception):
            raise error
        state = getattr(error, "sqlstate", None)
        if state == _CANCELED:
            raise _ended() from None
        raise Unusable(
            f"the driver failed to {what}: {type(error).__name__}{f', SQLSTATE {state}' if state else ''}"
        ) from None


def _address(beside: Any) -> str:
    """Where psycopg's connection leads, with all that its URL, a service file or the environment said: user, password,
    TLS, timeouts. Of several hosts the one that was reached."""
    from psycopg.conninfo import make_conninfo

    info = beside.info
    given: dict[str, Any] = {**info.get_parameters(), "host": info.host, "port": str(info.port)}
    if info.password:
        given["password"] = info.password
    if info.hostaddr:
        given["hostaddr"] = info.hostaddr
    given.setdefault("connect_timeout", str(CONNECT_TIMEOUT))
    for unused in ("service", "target_session_attrs", "load_balance_hosts"):
        given.pop(unused, None)
    return make_conninfo("", **{name: value for name, value in given.items() if value not in (None, "")})
