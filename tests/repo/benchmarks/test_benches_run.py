"""The benches run, on sizes that take seconds, and what they say of a run is so."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from benchmarks.arrow import __main__ as arrow
from benchmarks.bound_cost import __main__ as bound_cost
from benchmarks.bound_cost.crowd import crowd
from benchmarks.bound_cost.delay import WAYS, Way, delays
from benchmarks.bound_cost.sample import sample_ms, sessions
from benchmarks.dispatch import __main__ as dispatch
from benchmarks.full_page import __main__ as full_page
from benchmarks.latency import woken
from benchmarks.overhead import __main__ as overhead
from benchmarks.pages import __main__ as pages
from benchmarks.pages.__main__ import measure
from benchmarks.pages.table import Size
from benchmarks.peers import mysql_trigger
from benchmarks.peers.bench import Run, Setup, compare, judge
from benchmarks.replicas import __main__ as replicas
from benchmarks.replicas.counting import count
from benchmarks.scale import __main__ as scale
from benchmarks.torture import __main__ as torture
from benchmarks.torture import tables, writers
from benchmarks.torture.plan import Plan
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


def test_a_thread_of_the_writers_that_ends_early_is_reported(tmp_path: Path) -> None:
    plan = Plan(url=f"sqlite:///{tmp_path}/no/such.db", writers=1, seconds=0.1, features=("idle",))
    ended = subprocess.run(writers.arguments(plan), capture_output=True, text=True, cwd=BENCHMARKS.parent, check=True)
    died = json.loads(ended.stdout)["died"]
    assert set(died) == {"writer 0", "idle"}
    assert "unable to open" in died["idle"]


@pytest.mark.parametrize("kind", woken.TABLES)
def test_each_row_comes_by_the_workers_loop(kind: str, postgres_db: str) -> None:
    found = woken.measure(postgres_db, MemoryStore(), kind, "auto", 0.05, 2.5)
    assert found["rows"] > 0
    assert found["missing"] == 0


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


def test_the_pages_are_measured_by_the_command_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    line = "pages --database sqlite --rows 2000 --tie 400 --limit 50 --repeat 2"
    monkeypatch.setattr(sys, "argv", line.split())
    pages.main()
    (reported,) = printed(capsys)
    assert (reported["database"], reported["rows"], reported["tie"], reported["limit"]) == ("sqlite", 2000, 400, 50)


def test_tables_are_measured_beside_a_page_by_hand(postgres_db: str) -> None:
    pytest.importorskip("pyarrow")
    pytest.importorskip("adbc_driver_postgresql")
    found = arrow.measure(postgres_db, rows=1200, rounds=1, batch=600, payload=True)
    assert set(found["times_raw"]) == {"rows", "arrow", "arrow_ticks"}


def test_full_pages_are_measured_by_the_command_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["full_page", "--database", "sqlite", "--rows", "2000", "--rounds", "2"])
    full_page.main()
    without, with_json = printed(capsys)
    assert (without["database"], without["rows"], without["json"], with_json["json"]) == ("sqlite", 2000, False, True)
    assert set(without["ms"]) == {"raw", "sampled", "reused"}


@pytest.mark.soak
@pytest.mark.parametrize(
    ("what", "measured"),
    [
        (
            "start",
            ["nothing", "--help", "status of one SQLite poller", "history with a blob store", "libraries of --help"],
        ),
        ("index", ["libraries", "function_app.py"]),
    ],
)
def test_starts_are_measured_against_the_first(
    what: str, measured: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["overhead", what, "--rounds", "1"])
    overhead.main()
    versions, first, *others = printed(capsys)
    assert "sqlalchemy" in versions
    assert (first["ratio_wall"], first["ratio_cpu"]) == (1, 1)
    assert [one["what"].partition(":")[0] for one in (first, *others)][: len(measured)] == measured


@pytest.mark.soak
def test_what_many_pollers_take_is_measured_beyond_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["scale", "build", "--rounds", "1", "--pollers", "3"])
    scale.main()
    ways = printed(capsys)
    assert [(line["way"], line["pollers"]) for line in ways] == [("load_app", 3), ("create_app", 3)]
    assert all(len(line[key]) == 1 for line in ways for key in ("seconds", "cpu_s", "mb"))


def test_a_dispatchers_idle_round_is_measured(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["dispatch", "--rounds", "1", "--pollers", "3", "--database", "sqlite"])
    dispatch.main()
    (line,) = printed(capsys)
    assert (line["pollers"], line["asked"], line["requests_per_round"]) == (3, 3, {"LIST": 1.0})


def test_twenty_replicas_look_little_more_than_one() -> None:
    """And at each moment somebody looks at each poller."""
    one, twenty = (count(replicas, 200, interval=10, minutes=3) for replicas in (1, 20))
    assert (one["looks"], twenty["unshared"]) == (1200, 24_000)
    assert twenty["looks"] <= 1.3 * one["looks"]
    assert twenty["moments_without_a_look"] == 0


@pytest.mark.soak
def test_a_look_at_a_resting_poller_is_measured(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["replicas", "look", "--pollers", "5", "--interval", "1", "--seconds", "2"]
    monkeypatch.setattr(sys, "argv", arguments)
    replicas.main()
    (found,) = printed(capsys)
    assert found["looks"] > 0
    assert min(found["statements"], found["bytes_sent"], found["bytes_received"], found["cpu_ms"]) > 0
    assert found["threads"] < 20


@pytest.mark.soak
def test_an_idle_tick_is_measured_beside_the_raw_pair(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["overhead", "tick", "--rounds", "1", "--ticks", "3"])
    overhead.main()
    _, found = printed(capsys)
    assert found["statements"] > 0
    assert min(found["ours_ms"], found["raw_ms"], found["ratio"]) > 0


@pytest.mark.parametrize("what", ["sample", "delay"])
def test_what_a_bound_costs_is_printed_line_by_line(
    what: str,
    postgres_server: PostgresServer,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if what == "sample":
        bound_cost.sample({"postgresql": postgres_server}, many=2, beside=((0, 0), (2, 1)))
        reported = [(line["sessions"], line["bound"], line["samples"]) for line in printed(capsys)]
        assert reported == [(many, bound, 2) for many in (0, 3) for bound in ("none", "exact", "observed")]
    else:
        monkeypatch.setitem(WAYS, "postgresql", [Way("none"), Way("exact", "0s")])
        bound_cost.delay({"postgresql": postgres_server}, ["idle"], seconds=0.2, rounds=1, every=0.01)
        assert [(line["bound"], line["load"]) for line in printed(capsys)] == [("none", "idle"), ("exact", "idle")]


@pytest.mark.soak
@pytest.mark.parametrize("processes", [False, True])
def test_a_crowd_of_pollers_shows_how_old_its_bounds_are(mariadb_db: str, processes: bool) -> None:
    found = crowd(mariadb_db, pollers=2, processes=processes, seconds=0.5, every=0.1)
    assert (found["pollers"], found["processes"]) == (2, 2 if processes else 1)
    assert found["bounds"] > found["unknown"]
    assert found["age_p99_s"] >= found["age_p50_s"] >= 1, "a margin of a second is waited for"


@pytest.mark.soak
@pytest.mark.parametrize("name", ["postgres_db", "mariadb_db"])
@pytest.mark.parametrize("load", ["idle", "busy"])
def test_every_commit_of_the_probe_has_a_delay(name: str, load: str, request: pytest.FixtureRequest) -> None:
    found = delays(request.getfixturevalue(name), Way("exact", "50ms"), load, seconds=1.0, seed=1)
    reported = found.summary()
    assert reported["missing"] == 0
    assert reported["commits"] == len(found.ms) > 0
    assert min(found.in_all_ms) >= 50, "a margin is waited for"
    assert reported["median_ms"] <= reported["p90_ms"] <= max(found.in_all_ms)
    assert (reported["load_transactions"] > 0) == (load == "busy")


@pytest.mark.soak
def test_samples_are_taken_beside_sessions_of_others(postgres_db: str) -> None:
    tables.make(postgres_db, "timestamp+pk")
    engine = sa.create_engine(postgres_db, poolclass=sa.NullPool)
    count = sa.text("select count(*), count(xact_start) from pg_stat_activity where datname = current_database()")
    with sessions(postgres_db, 3, 2), engine.connect() as connection:
        assert tuple(connection.execute(count).one()) == (6, 3)
    with engine.begin() as connection:
        connection.execute(sa.text("insert into torture (id) values (1)"))
    for bound in ("exact", "observed"):
        found = sample_ms(postgres_db, bound, 3, idle=3, in_transaction=2)
        assert (found["kind"], found["known"], found["samples"]) == (bound, True, 3)
        assert 0 < found["least_ms"] <= found["median_ms"] <= found["p90_ms"]


@pytest.mark.soak
def test_pages_are_measured_at_every_place(any_db: str) -> None:
    found = measure(any_db, Size(rows=2_000, tie=400, limit=50), repeat=2)
    for reported in (found["ms_median"], found["work"]):
        assert list(reported) == ["start", "middle", "tie", "end"]
        assert min(reported.values()) > 0


def test_the_results_name_the_versions_that_are_pinned() -> None:
    pinned = dict(
        re.findall(r"^([\w-]+)(?:\[.*\])?==(.+)$", (BENCHMARKS / "requirements.txt").read_text(), re.MULTILINE)
    )
    results = (BENCHMARKS / "RESULTS.md").read_text()
    for name in ("azure-functions-db", "dlt"):
        assert f"{name} {pinned[name]}" in results
