"""Five lanes on PostgreSQL and Azurite, while rows move and change their ordering keys, under SIGKILL: nothing is lost,
nothing of one key is out of order, and a kill repeats no more than it may."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy.engine import make_url

from tests.resilience.lanes.laws import Found, judge
from tests.resilience.lanes.lives import Settings
from tests.support.azurite import Azurite
from tests.support.services import REPOSITORY, wait_until

LANES, BATCH, UNCOMMITTED = 5, 50, 10
OPTIONS = {
    "concurrency": LANES,
    "batch_size": BATCH,
    "max_uncommitted": UNCOMMITTED,
    "ordering_key": ["customer"],
    "lease_ttl": "3s",
    "heartbeat_interval": "750ms",
    "tick_timeout": "30s",
    "retry_backoff": "100ms",
    "retry_backoff_max": "200ms",
}
CUSTOMERS = 400


class Line:
    """A table, the lives of its poller, and somebody who changes rows."""

    def __init__(self, name: str, database: str, azurite: Azurite, container: str, folder: Path, **how: Any) -> None:
        folder.mkdir()
        self.name = name
        self.folder = folder
        self.log = folder / "log"
        self.errors = folder / "errors"
        self.url = make_url(database).set(drivername="postgresql").render_as_string(hide_password=False)
        self.settings = Settings(
            name=name,
            database=database,
            connection=azurite.connection_string,
            container=container,
            log=str(self.log),
            options=OPTIONS,
            **how,
        )
        self._stop = threading.Event()
        self._chance = random.Random(how.get("seed", 1))

    def begin(self, rows: int) -> None:
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(
                f"CREATE TABLE {self.name} (id int PRIMARY KEY, updated_at timestamptz NOT NULL, customer int NOT NULL)"
            )
            connection.execute(f"CREATE INDEX ON {self.name} (updated_at, id)")
            connection.execute(
                f"INSERT INTO {self.name} SELECT n, timestamptz '2026-04-01T00:00:00Z' + n / 3 * interval '1 ms', "
                f"n % {CUSTOMERS} FROM generate_series(1, {rows}) AS n"
            )
        self.rows = rows
        with self.errors.open("w") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.resilience.lanes.lives", self.settings.as_argument()],
                cwd=REPOSITORY,
                stderr=errors,
            )
        self.writer = threading.Thread(target=self._change_rows, daemon=True)
        self.writer.start()

    def _change_rows(self) -> None:
        """Rows move to the end, some of them under another ordering key, twenty at a time."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            while not self._stop.wait(0.02):
                chosen = [self._chance.randint(1, self.rows) for _ in range(20)]
                connection.execute(
                    f"UPDATE {self.name} SET updated_at = clock_timestamp(), "
                    f"customer = CASE WHEN random() < 0.5 THEN floor(random() * {CUSTOMERS}) ELSE customer END "
                    "WHERE id = ANY(%s)",
                    (chosen,),
                )

    def has_handled(self, versions: int) -> bool:
        """Whether its log is as long as that of so many versions, and its last life works."""
        assert self.process.poll() is None, self.errors.read_text()[-3000:]
        if not self.log.exists() or self.log.stat().st_size < versions * 28:
            return False
        with self.log.open("rb") as log:
            log.seek(-4096, 2)
            last = log.read().rpartition(b"\n")[0].rpartition(b"\n")[2].split(b" ")
        return int(last[1]) > self.settings.kills

    def end(self) -> Found:
        """Nothing is changed any more, and all that is left is handled."""
        self._stop.set()
        self.writer.join()
        (self.folder / "finished").touch()
        assert self.process.wait(300) == 0, self.errors.read_text()[-3000:]
        with self.log.open() as lines:
            found = judge(lines)
        with psycopg.connect(self.url) as connection:
            text = f"SELECT (extract(epoch FROM updated_at) * 1000000)::bigint, id FROM {self.name}"
            missing = set(connection.execute(text).fetchall()) - found.handled
        assert not missing, f"{len(missing)} lost: {sorted(missing)[:5]}"
        return found

    def close(self) -> None:
        self._stop.set()
        if self.process.poll() is None:
            self.process.terminate()
        self.process.wait()


def _run(
    database: str, azurite: Azurite, container: str, folder: Path, *, versions: int, lines: int, kills: int, fails: int
) -> list[Found]:
    began = time.monotonic()
    made = [
        Line(f"orders{at}", database, azurite, container, folder / str(at), kills=kills, fails=fails, seed=at)
        for at in range(1, lines + 1)
    ]
    try:
        for line in made:
            line.begin(versions // lines * 7 // 10)
        for line in made:
            wait_until(lambda: line.has_handled(versions // lines), f"{line.name}", seconds=1200)  # noqa: B023
        found = [line.end() for line in made]
    finally:
        for line in made:
            line.close()
    print(
        f"{sum(len(one.handled) for one in found):,} versions in {sum(one.calls for one in found):,} calls of "
        f"{sum(one.lives for one in found)} lives, {time.monotonic() - began:.0f} s: "
        f"{sum(len(one.inversions) for one in found)} out of order, {sum(one.repeated for one in found):,} repeated by "
        f"{sum(one.lives - 1 for one in found)} kills, {sum(len(one.again) for one in found)} without"
    )
    return found


def _hold(found: list[Found], *, kills: int) -> None:
    for one in found:
        assert (one.inversions[:5], one.again[:5]) == ([], [])
        assert one.lives == kills + 1
        assert one.repeated <= kills * UNCOMMITTED * BATCH


@pytest.mark.guarantee(
    "Rows that commit late",
    "With five lanes, rows that move and change their ordering keys, calls that fail and SIGKILL: nothing is lost, "
    "nothing of one key is out of order, and a kill repeats at most `max_uncommitted` batches",
)
@pytest.mark.soak
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("kills", "fails"), [(0, 0), (6, 0), (3, 20)], ids=["in peace", "killed", "failing and killed"]
)
def test_lanes_keep_the_order_of_each_key(
    postgres_db: str, azurite: Azurite, container: str, tmp_path: Path, kills: int, fails: int
) -> None:
    found = _run(postgres_db, azurite, container, tmp_path, versions=12_000, lines=1, kills=kills, fails=fails)
    _hold(found, kills=kills)


@pytest.mark.prove
@pytest.mark.timeout(1800)
def test_lanes_keep_the_order_of_a_million_versions(
    postgres_db: str, azurite: Azurite, container: str, tmp_path: Path
) -> None:
    found = _run(postgres_db, azurite, container, tmp_path, versions=1_000_000, lines=3, kills=30, fails=1)
    _hold(found, kills=30)


ORDERLY = ["b 1 1 1-0 1:10:7", "b 1 1 2-1 2:11:8", "e 1 2-1", "e 1 1-0", "b 1 1 3-0 3:12:7", "e 1 3-0"]
WRONG = {
    "a later row beside an earlier one": ["b 1 1 1-0 1:10:7", "b 1 1 2-1 2:11:7"],
    "a later version beside an earlier one": ["b 1 1 1-0 1:10:7", "b 1 1 2-1 1:12:8"],
    "an earlier row after a later one": ["b 1 1 1-0 2:11:7", "e 1 1-0", "b 1 1 2-0 1:10:7"],
    "an earlier row in the next life": ["b 1 1 1-0 2:11:7", "b 2 2 1-0 1:10:7"],
    "an earlier row after a failed call": ["b 1 1 1-0 2:11:7", "f 1 1-0", "b 1 1 2-0 1:10:7"],
}


def test_the_laws_pass_what_is_in_order() -> None:
    again = ["b 2 2 1-0 1:10:7 3:12:7", "f 2 1-0", "b 2 2 2-0 1:10:7 3:12:7", "e 2 2-0"]
    found = judge([*ORDERLY, *again])
    assert (found.inversions, found.again, found.repeated, found.lives, len(found.handled)) == ([], [], 2, 2, 3)


@pytest.mark.parametrize("wrong", WRONG)
def test_the_laws_see_what_is_out_of_order(wrong: str) -> None:
    assert judge(WRONG[wrong]).inversions


def test_the_laws_see_what_is_done_twice_in_one_life() -> None:
    assert judge([*ORDERLY, "b 1 1 4-1 2:11:8"]).again
