"""What a document remembers reaches the samples of every poller of that server: one that is wrong must not hold the
others up, nor promise them too much. The server is pretended: two looks at what is open."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from poller.databases.samplers import ReadingConnection, Samplers, SharedSampler
from poller.sources.mysql import bound as mysql_bound
from poller.sources.mysql import look as mysql_look
from poller.sources.mysql import look as mysql_turn
from poller.sources.mysql.bound import Tracked
from poller.sources.mysql.look import Sighting
from poller.sources.postgresql.bound import Observed

NOON = datetime(2026, 7, 1, 12, tzinfo=UTC)
HERE = ReadingConnection("server", "", "app", "")
WRITER = 5


def at(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


class PostgreSql:
    """Shows, one after another, when it is and whose transactions are open."""

    def __init__(self) -> None:
        self.now = 0.0
        self.open: list[str] = []
        self.info: dict[str, Any] = {}
        self.connection = SimpleNamespace(dbapi_connection=None)

    def execute(self, statement: Any, params: Any = None) -> Any:
        left_out = "etl" in (params or {}).get("ignored", ())
        row = SimpleNamespace(
            clock=at(self.now), open=[] if left_out else list(self.open), standby=False, prepares=False
        )
        return SimpleNamespace(one=lambda: row, one_or_none=lambda: None)

    def tracker(self, ignored: tuple[str, ...]) -> Observed:
        return Observed(ignored, "s")

    def begin(self) -> None:
        self.open = [f"3/{WRITER}@{WRITER}"]


class MariaDb(PostgreSql):
    def look(self, *_: object) -> Sighting:
        rows = [SimpleNamespace(session=WRITER, trx_id=7, trx_started="x") for _ in self.open]
        return Sighting(at(self.now), {WRITER: "etl"}, {}, {}, rows, True, [], False)

    def tracker(self, ignored: tuple[str, ...]) -> Any:
        return Tracked("s", mysql_look.MYSQL, self.look(), mariadb=False, ignored=ignored)


@pytest.fixture(params=[PostgreSql, MariaDb])
def server(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> PostgreSql:
    made: PostgreSql = request.param()
    if isinstance(made, MariaDb):
        monkeypatch.setattr(mysql_bound, "look", made.look)
        monkeypatch.setattr(mysql_bound, "APART", 0.0)
        monkeypatch.setattr(mysql_turn.TrackerTurns, "_ask", lambda *_: ("", mysql_turn.Turn.AT_ONCE))
        monkeypatch.setattr(mysql_turn, "_release", lambda *_: None)
    return made


def reader(samplers: Samplers, server: PostgreSql, *ignored: str) -> SharedSampler:
    connection: Any = server
    return samplers.join(
        HERE, lambda _: server.tracker(ignored), connection, kind="observed", ignored=ignored, numbers=True
    )


def memory(seconds: float, **more: Any) -> dict[str, Any]:
    return {"server": "s", "sampled_at": at(seconds).isoformat(), "open": {}, **more}


def test_a_document_from_the_future_holds_no_other_poller(server: PostgreSql) -> None:
    """The database's clock was wrong, and only one poller was reset since: the other's document still says so."""
    connection: Any = server
    samplers = Samplers()
    one, other = reader(samplers, server), reader(samplers, server)
    one.take(connection)
    server.begin()
    for second in (1, 2):
        server.now = second
        other.recall(memory(3600))
        assert one.take(connection).oldest == at(0)


def test_samples_that_left_out_more_users_are_not_gone_on_from(server: PostgreSql) -> None:
    """`bound_ignore_users` named one that writes, and was corrected: its transaction was open all the time."""
    connection: Any = server
    server.begin()
    before = reader(Samplers(), server, "etl")
    before.take(connection)
    remembered = before.remember()
    assert remembered is not None
    server.now = 10
    after = reader(Samplers(), server)
    after.recall(remembered)
    assert after.take(connection).oldest is None
    again = reader(Samplers(), server, "etl", "backup")
    again.recall(memory(1, ignored=["etl"]))
    assert again.take(connection).oldest is not None


def test_what_is_remembered_meanwhile_is_of_one_moment(server: PostgreSql) -> None:
    """An older memory that is taken in just then replaces what is open and since when that is known, both at once."""
    connection: Any = server
    samplers = Samplers()
    server.begin()
    one = reader(samplers, server)
    one.take(connection)
    tracker: Any = samplers.line(one._key).tracker

    seen: list[Any] = []

    class Watched(type(tracker)):  # type: ignore[misc]
        def __setattr__(self, name: str, value: Any) -> None:
            super().__setattr__(name, value)
            seen.append(self.remember())

    tracker.__class__ = Watched
    one.recall(memory(-3600))
    assert seen
    for remembered in seen:
        assert remembered is None or (remembered["sampled_at"] == at(0).isoformat()) == bool(remembered["open"])


def test_what_will_not_do_once_more_is_looked_for_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """MariaDB's view is not looked at twice within 0.11 s, nor without a turn: for numbers that sample says nothing."""
    server, connection = MariaDb(), None
    looks: list[float] = []

    def look(*_: object) -> Sighting:
        looks.append(server.now)
        return server.look()

    turn = mysql_turn.Turn.AT_ONCE
    monkeypatch.setattr(mysql_bound, "look", look)
    monkeypatch.setattr(mysql_turn.TrackerTurns, "_ask", lambda *_: ("", turn))
    monkeypatch.setattr(mysql_turn, "_release", lambda *_: None)
    tracked: Any = server.tracker(())
    monkeypatch.setattr(mysql_bound, "APART", 60.0)
    monkeypatch.setattr("time.sleep", lambda _: None)
    assert tracked.take(connection, (), later=False).again
    assert looks == []
    assert not tracked.take(connection, (), later=True).again
    assert looks == [0.0]
    turn = mysql_turn.Turn.MISSED
    clock = SimpleNamespace(scalar_one=lambda: at(9))
    connection = SimpleNamespace(exec_driver_sql=lambda _: clock)
    assert tracked.take(connection, (), later=True).oldest is None
    assert looks == [0.0]
    monkeypatch.setattr(mysql_bound, "APART", 0.0)
    kept = tracked.take(connection, (), later=False)
    assert (kept.oldest, kept.clock, kept.again) == (at(0), at(9), True)
