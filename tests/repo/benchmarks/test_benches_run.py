"""The benches run, on sizes that take seconds, and what they say of a run is so."""

from __future__ import annotations

import json
import re
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from benchmarks.arrow import __main__ as arrow
from benchmarks.bound_cost import __main__ as bound_cost
from benchmarks.bound_cost.delay import WAYS, Way
from benchmarks.capture.__main__ import measure as cost_of_capture
from benchmarks.latency import woken
from benchmarks.peers import mysql_trigger
from benchmarks.peers.bench import Run, Setup, compare, judge
from benchmarks.replicas.counting import count
from benchmarks.torture import __main__ as torture
from benchmarks.torture import tables
from poller.stores import MemoryStore
from tests.support.azurite import Azurite
from tests.support.postgres import PostgresServer

BENCHMARKS = Path(tables.__file__).parents[1]


def test_what_never_came_is_lost_and_what_came_late_is_not() -> None:
    reported = {"version": "1", "during": [1, 2, 2, 3, 3, 3], "after": [3, 4], "polls": 1}
    found = judge(Setup("one"), reported, rows={1, 2, 3, 4, 5, 6}, took=60.0)
    assert (found["lost"], found["lost_percent"], found["rows"]) == (2, 33.3, 6)
    assert found["duplicates"] == 3, "what comes again after the writers ended depends on how long one waits"
    assert found["rows_per_minute"] == 6


@pytest.mark.parametrize("kind", woken.TABLES)
def test_each_row_comes_by_the_workers_loop(kind: str, postgres_db: str) -> None:
    found = woken.measure(postgres_db, MemoryStore(), kind, "auto", 0.05, 2.5)
    assert found["rows"] > 0
    assert found["missing"] == 0


@pytest.mark.parametrize("name", ["postgres_db", "mariadb_db", "sqlite"])
def test_a_change_without_old_values_is_smaller(name: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/shop.db" if name == "sqlite" else request.getfixturevalue(name)
    lines = cost_of_capture(url, rows=5000, rounds=1)
    assert [line["write"] for line in lines] == ["many", "one"]
    assert 0 < lines[0]["bytes"]["no_old"] < lines[0]["bytes"]["old"]


@pytest.mark.soak
@pytest.mark.parametrize("name", ["postgres_db", "mariadb_db"])
def test_our_own_reader_is_compared(
    name: str, request: pytest.FixtureRequest, azurite: Azurite, container: str
) -> None:
    url = request.getfixturevalue(name)
    run = Run(url, azurite.connection_string, container, {}, seconds=1.0, longest=0.3, quiet=2.0)
    found = compare(run, Setup("poller", {"bound": "exact"}))
    assert found["rows"] == 3 * found["transactions"] > 0
    assert (found["lost"], found["duplicates"]) == (0, 0)


@pytest.mark.soak
def test_a_peer_is_compared_by_its_own_library(postgres_db: str, azurite: Azurite, container: str) -> None:
    run = Run(postgres_db, azurite.connection_string, container, {}, seconds=1.0, longest=0.0, quiet=2.0)
    found = compare(run, Setup("azure-functions-db", {"batch_size": 1000, "store": "memory"}))
    assert found["rows"] == 3 * found["transactions"] > 0
    assert found["reads"] > 0
    assert found["version"] == version("azure-functions-db")
    assert found["lost"] < found["rows"], "it read the table"


@pytest.mark.soak
@pytest.mark.parametrize(
    ("case", "lost", "older"), [("late", 1, 0), ("second", 1, 0), ("version", 0, 1)], ids=lambda value: str(value)
)
def test_azures_mysql_trigger_loses_what_we_do_not(mariadb_db: str, case: str, lost: int, older: int) -> None:
    found = mysql_trigger.measure(mariadb_db, case, rounds=1)
    assert (found["trigger"], found["poller"]) == ({"lost": lost, "older": older}, {"lost": 0, "older": 0})


@pytest.mark.soak
def test_busy_writers_are_followed_beside_azures_mysql_trigger(mariadb_db: str) -> None:
    found = mysql_trigger.measure(mariadb_db, "busy", rounds=1)
    assert found["rows"] > 0
    assert found["poller"] == {"lost": 0, "older": 0}


def test_a_reader_that_fails_ends_the_run(postgres_db: str, azurite: Azurite, container: str) -> None:
    run = Run(postgres_db, azurite.connection_string, container, {}, seconds=1.0)
    with pytest.raises(RuntimeError, match="poller did not start"):
        compare(run, Setup("poller", {"bound": "no such bound"}))


def printed(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_the_torture_prints_what_was_asked_and_what_came_of_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    line = "torture --database sqlite --seconds 1 --longest 0.02 --writers 3 --poll 0.05 --burners 0 --seed 4"
    monkeypatch.setattr(sys, "argv", line.split())
    torture.main()
    (reported,) = printed(capsys)
    assert (reported["database"], reported["seed"], reported["lost"]) == ("sqlite", 4, 0)
    assert set(reported["done"]) > {"connections", "idle", "burst", "savepoints"}
    assert set(reported["bounds"]) <= {"exact", "exact held"}


def test_tables_are_measured_beside_a_page_by_hand(postgres_db: str) -> None:
    pytest.importorskip("pyarrow")
    pytest.importorskip("adbc_driver_postgresql")
    found = arrow.measure(postgres_db, rows=1200, rounds=1, batch=600, payload=True)
    assert set(found["times_raw"]) == {"rows", "arrow", "arrow_ticks"}


def test_twenty_replicas_look_little_more_than_one() -> None:
    """And at each moment somebody looks at each poller."""
    one, twenty = (count(replicas, 200, interval=10, minutes=3) for replicas in (1, 20))
    assert (one["looks"], twenty["unshared"]) == (1200, 24_000)
    assert twenty["looks"] <= 1.3 * one["looks"]
    assert twenty["moments_without_a_look"] == 0


@pytest.mark.parametrize("what", ["sample", "delay"])
def test_what_a_bound_costs_is_printed_line_by_line(
    what: str, postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if what == "sample":
        bound_cost.sample({"postgresql": postgres_server}, many=2, beside=((0, 0), (2, 1)))
        reported = [(line["sessions"], line["bound"], line["samples"]) for line in printed(capsys)]
        assert reported == [(many, bound, 2) for many in (0, 3) for bound in ("none", "exact", "observed")]
    else:
        monkeypatch.setitem(WAYS, "postgresql", [Way("none"), Way("exact", "0s")])
        bound_cost.delay({"postgresql": postgres_server}, ["idle"], seconds=0.2, rounds=1, every=0.01)
        assert [(line["bound"], line["load"]) for line in printed(capsys)] == [("none", "idle"), ("exact", "idle")]


def test_the_results_name_the_versions_that_are_pinned() -> None:
    pinned = dict(
        re.findall(r"^([\w-]+)(?:\[.*\])?==(.+)$", (BENCHMARKS / "requirements.txt").read_text(), re.MULTILINE)
    )
    results = (BENCHMARKS / "RESULTS.md").read_text()
    for name in ("azure-functions-db", "dlt"):
        assert f"{name} {pinned[name]}" in results
