"""docs/inside/rules.md names each change that the laws of sources try, and says what the poller does then."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from poller import ConfigError, SourceError
from poller.errors import SourceUnavailable
from tests.contract.sources.follower import End, Follower
from tests.contract.sources.laws.changes import meets
from tests.contract.sources.mariadb import MariaDb
from tests.contract.sources.place import Change, Moment, Place, Reading, Weakening
from tests.contract.sources.postgresql import PostgreSql
from tests.contract.sources.sqlite import Sqlite
from tests.repo.docs.blocks import ROOT
from tests.support.mariadb import MariaDbServer
from tests.support.postgres import PostgresServer

PAGE = (ROOT / "docs/inside/rules.md").read_text()
KINDS: dict[str, type[Place]] = {"PostgreSQL": PostgreSql, "MariaDB": MariaDb, "SQLite": Sqlite}
OUTCOMES = ("goes on", "begins the tie again", "waits", "refuses")
NEEDS_A_BOUND = "engine to MyISAM"
SHOWN_BY_A_SECOND = ("table partitioned", NEEDS_A_BOUND)
"""MariaDB shows that such a table is another one only by the second of its creation."""
RUNNING: Moment = "between two pages"
RESTARTED: Moment = "across a restart"


@dataclass(frozen=True)
class Row:
    """A line of the page's tables: of a law's change in a database, what a running poller does, and a new process."""

    database: str
    name: str
    running: str
    restarted: str


def rows(section: str) -> list[Row]:
    found = []
    for line in PAGE.partition(f"\n## {section}\n")[2].partition("\n## ")[0].splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        outcomes = re.findall(r"\*\*(.+?)\*\*", cells[1]) if len(cells) > 1 else []
        if not outcomes:
            continue
        assert set(outcomes) <= {*OUTCOMES}, line
        for part in cells[-1].split(";"):
            database, _, names = part.strip().partition(": ")
            found += [Row(database, name, outcomes[0], outcomes[-1]) for name in re.findall(r"`(.+?)`", names)]
    return found


CHANGES, LOSSES = rows("Changes of the table"), rows("Changes of the bound")


def test_each_change_that_a_law_tries_is_on_the_page_once() -> None:
    tried = [(database, change.name) for database, kind in KINDS.items() for change in kind.changes]
    assert sorted((row.database, row.name) for row in CHANGES) == sorted(tried)
    lost = [(database, one.name) for database, kind in KINDS.items() for one in kind.weakenings]
    assert sorted((row.database, row.name) for row in LOSSES) == sorted(lost)


@pytest.fixture(scope="module")
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """A place of the database that the test names."""
    opened: dict[str, Callable[[], AbstractContextManager[Place]]] = {
        "PostgreSQL": lambda: _on_server(PostgreSql, request.getfixturevalue("postgres_server")),
        "MariaDB": lambda: _on_server(MariaDb, request.getfixturevalue("mariadb_server")),
        "SQLite": lambda: Sqlite(f"sqlite:///{Path(tmp_path_factory.mktemp('changes'))}/laws.sqlite3"),
    }
    with opened[request.param]() as made:
        yield made


@contextmanager
def _on_server(kind: Callable[[str], Place], server: PostgresServer | MariaDbServer) -> Iterator[Place]:
    url = server.new_database()
    try:
        with kind(url) as made:
            yield made
    finally:
        server.drop_database(url)


def _cases(found: list[Row]) -> list[object]:
    """Those of SQLite are fast; the others run under `make soak`."""
    found_with_marks = [(row, [] if row.database == "SQLite" else [pytest.mark.soak]) for row in found]
    return [
        pytest.param(row.database, row, id=f"{row.database}: {row.name}", marks=marks)
        for row, marks in found_with_marks
    ]


@pytest.mark.parametrize(("place", "row"), _cases(CHANGES), indirect=["place"])
def test_a_change_ends_as_the_page_says(place: Place, row: Row) -> None:
    (change,) = (one for one in place.changes if one.name == row.name)
    assert (_met(place, change, RUNNING), _met(place, change, RESTARTED)) == (row.running, row.restarted)


@pytest.mark.parametrize(("place", "row"), _cases(LOSSES), indirect=["place"])
def test_a_guarantee_lost_ends_as_the_page_says(place: Place, row: Row) -> None:
    (lost,) = (one for one in place.weakenings if one.name == row.name)
    assert (_weakened(place, lost, again=False), _weakened(place, lost, again=True)) == (row.running, row.restarted)


def _met(place: Place, change: Change, moment: Moment) -> str:
    place.clear()
    place.make(change.layout)
    if change.name in SHOWN_BY_A_SECOND:
        time.sleep(1.1)
    bound = "auto" if change.name == NEEDS_A_BOUND else "none"
    with meets(place, Reading(bound=bound), moment, lambda: place.change(change.made, "table")) as met:
        return _outcome(met.drain(), repeated=len(met.numbers) > len(set(met.numbers)))


def _weakened(place: Place, lost: Weakening, *, again: bool) -> str:
    place.clear()
    place.make_filled(lost.cursor)
    place.run(place.added(lost.cursor, 1))
    follower = Follower(place, place.reading_filled(lost.cursor))
    assert follower.drain() == End()
    place.change(lost.made, "table")
    try:
        place.cut()
        place.run(place.added(lost.cursor, 2))
        with follower.again() if again else follower as met:
            return _outcome(met.drain(), repeated=False)
    finally:
        place.change(lost.undone, "table")


def _outcome(end: End, *, repeated: bool) -> str:
    refused: SourceError | ConfigError | None = end.refused
    if end.waits is not None or isinstance(refused, SourceUnavailable):
        return "waits"
    if refused is not None:
        return "refuses"
    return "begins the tie again" if repeated else "goes on"
