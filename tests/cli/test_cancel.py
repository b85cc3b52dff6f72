"""`poller cancel`: the handler that runs now is stopped, however it runs, and nothing of its batch is committed;
one that ignores it is outlived."""

from __future__ import annotations

import signal
from typing import Any

import psycopg
import pytest

from tests.cli.console import Console, at_work, ran
from tests.cli.project import Project, end
from tests.support.services import wait_until

HEADER = """
from pathlib import Path
import asyncio, os, time
HERE = Path(__file__).parent

def started():
    (HERE / "started").write_text(str(os.getpid()))

def waits():
    return (HERE / "wait").exists()

def note(batch):
    with (HERE / "seen").open("a") as out:
        out.writelines(f"{row['id']} {batch.fencing_token}\\n" for row in batch)
"""
LOOKS = """
def handle(batch):
    started()
    while waits():
        if batch.lost.wait(0.02):
            (HERE / "ended").write_text("looked")
            batch.check()
    note(batch)
"""
ASYNC = """
async def handle(batch):
    started()
    try:
        while waits():
            await asyncio.sleep(0.02)
    except asyncio.CancelledError:
        (HERE / "ended").write_text("cancelled")
        raise
    note(batch)
"""
HANGS = """
def handle(batch):
    started()
    while waits():
        time.sleep(0.02)
    note(batch)
"""
QUICK = 'lease_ttl = "60s"\nheartbeat_interval = "500ms"\nbatch_size = 2'
ROWS = 6


def configured(project: Project, handler: str, options: str = QUICK) -> Console:
    project.configure("orders", handlers=HEADER + handler, poller=options)
    project.insert(ROWS)
    return Console(project)


def begun(project: Project, *arguments: str) -> Any:
    """A worker that has a batch in hand."""
    (project.folder / "wait").touch()
    worker = project.start("run", *arguments)
    wait_until(lambda: project.lines("started"))
    return worker


def all_delivered_after_a_resume(project: Project) -> None:
    (project.folder / "wait").unlink(missing_ok=True)
    assert project.run("resume", "orders", "--yes").code == 0
    assert project.run("run", "--until-idle").code == 0


@pytest.mark.guarantee(
    "One worker at a time",
    "A cancelled handler is stopped as far as it can be; nothing of its batch is committed, the attempt does not "
    "count, and its lease is given back when it has ended",
)
@pytest.mark.parametrize(
    ("handler", "options", "ends"),
    [
        pytest.param(LOOKS, "", ["looked"], id="it looks at batch.lost"),
        pytest.param(ASYNC, "", ["cancelled"], id="it is async"),
        pytest.param(HANGS, 'isolation = "process"', [], id="it hangs in a process"),
    ],
)
def test_the_handler_stops_and_nothing_is_committed(
    project: Project, handler: str, options: str, ends: list[str]
) -> None:
    console = configured(project, handler, f"{QUICK}\n{options}")
    worker = begun(project, "--until-idle", "--json")
    project.environ["POLLER_OPERATOR"] = "ada@console"
    ended = project.run("cancel", "orders", "--reason", "the wrong warehouse", "--yes", "--json")
    assert ended.code == 0, ended.err
    output = ended.json
    assert (output["changed"], output["handler"], output["after"]["paused"]) == (True, "ended", True)
    assert (output["before"]["attempts"], output["after"]["attempts"]) == (1, 0)
    finished = end(worker)
    assert finished.code == 3, finished.err
    (tick,) = [event for event in finished.events if event["event"] == "tick"]
    assert (tick["outcome"], tick["rows"]) == ("paused", 0)
    assert tick["error"] == "cancelled by ada@console: the wrong warehouse"
    (lost,) = [event for event in finished.events if event["event"] == "lease_lost"]
    assert lost["reason"] == "cancelled"
    assert project.lines("ended") == ends
    state = console.state()
    assert (state["lease"]["owner_id"], state["checkpoint"]["cursor"]) == (None, None)
    assert (state["delivery"]["attempts"], state["delivery"]["last_error"]) == (0, None)
    assert (state["control"]["paused"], state["control"]["by"]) == (True, "ada@console")
    if options:
        child = int(project.lines("started")[0])
        with pytest.raises(ProcessLookupError):
            __import__("os").kill(child, 0)
    all_delivered_after_a_resume(project)
    assert [line.split()[0] for line in project.lines("seen")] == ["1", "2", "3", "4", "5", "6"]


@pytest.mark.guarantee(
    "One worker at a time",
    "A handler that ignores a cancel holds its poller no longer than its lease, and nothing else of that poller runs"
    " beside it in its process",
)
def test_a_handler_that_ignores_it_is_outlived_and_said_so(project: Project) -> None:
    """Its lease is renewed no longer; when it returns nothing is committed, and the lease is given back after all."""
    console = configured(project, HANGS)
    worker = begun(project, "--once")
    ended = project.run("cancel", "orders", "--yes")
    assert ended.code == 0, ended.err
    assert "orders is cancelled" in ended.err
    assert "outlived" in ended.out
    assert "no longer renewed" in ended.out
    heartbeat = console.state()["lease"]["heartbeat_at"]
    again = project.run("cancel", "orders", "--yes", "--json").json
    assert (again["changed"], again["handler"]) == (False, "running")
    assert 0 < again["handler_lease_seconds"] <= 65
    assert console.state()["lease"]["heartbeat_at"] == heartbeat
    (project.folder / "wait").unlink()
    finished = end(worker)
    assert finished.code == 3, finished.err
    assert "cancelled by" in finished.err
    assert console.state()["lease"]["owner_id"] is None
    assert project.run("cancel", "orders", "--yes", "--json").json["handler"] == "none"
    all_delivered_after_a_resume(project)
    assert [line.split()[0] for line in project.lines("seen")] == ["1", "2", "1", "2", "3", "4", "5", "6"]


def test_it_works_on_blobs_beside_a_worker_that_drains(servers: psycopg.Connection, project: Project) -> None:
    (project.folder / "handlers.py").write_text(HEADER + LOOKS)
    worker = begun(project, "--until-idle")
    ended = project.run("cancel", "orders", "--yes", "--json")
    assert ended.code == 0, ended.err
    assert ended.json["handler"] == "ended"
    assert end(worker).code == 3
    all_delivered_after_a_resume(project)
    assert [line.split()[0] for line in project.lines("seen")] == [str(n) for n in range(1, 10)]


def test_a_backfill_is_cancelled_by_its_name_with_its_parts(project: Project) -> None:
    console = configured(project, LOOKS)
    project.insert(20)
    (project.folder / "wait").touch()
    range_ = ("--from", "2026-01-01 00:00:00", "--to", "2026-01-01 00:00:02", "--as", "replay", "--yes")
    command = ("backfill", "orders", *range_, "--parallel", "2")
    worker = project.start(*command)
    documents = [f"state/shop/replay-{part}of2.json" for part in (1, 2)]
    wait_until(lambda: project.lines("started"))
    wait_until(lambda: all(console.state(name)["lease"]["owner_id"] for name in documents))
    output = console.done("cancel", "replay", "--yes", "--reason", "the wrong warehouse")
    assert (output["changed"], output["handler"]) == (True, "ended")
    assert [part["handler"] for part in output["parts"]] == ["ended"] * 2
    ended = end(worker)
    assert ended.code == 3, ended.err
    assert "the wrong warehouse" in ended.err
    assert project.lines("seen") == []
    (project.folder / "wait").unlink()
    assert console.run("resume", "replay", "--yes").code == 0
    assert console.run(*command).code == 0
    assert sorted(int(line.split()[0]) for line in project.lines("seen")) == list(range(1, 20))
    assert "nothing to cancel" in console.run("cancel", "replay", "--yes").out


def test_without_a_worker_it_is_a_pause(project: Project) -> None:
    console = ran(project)
    output = console.done("cancel", "orders", "--yes", "--reason", "night")
    assert (output["changed"], output["handler"], output["after"]["paused"]) == (True, "none", True)
    assert "only paused" in output["notes"][0]
    before = console.everything()
    again = console.done("cancel", "orders", "--yes")
    assert (again["changed"], again["handler"], console.everything()) == (False, "none", before)
    assert "night" in console.run("cancel", "orders").out
    assert console.run("run", "--once").code == 3


def test_what_a_pause_lets_finish_can_still_be_cancelled(project: Project) -> None:
    console = ran(project)
    at_work(console)
    console.done("pause", "orders", "--yes", "--reason", "night")
    output = console.done("cancel", "orders", "--yes", "--no-wait", "--reason", "at once")
    assert (output["changed"], output["handler"]) == (True, "unknown")
    assert console.state()["control"]["reason"] == "at once"
    assert console.state()["control"]["cancelled"] == output["after"]["fencing_token"]


def test_a_lease_that_an_operator_keeps_is_nobodys_work(project: Project) -> None:
    console = ran(project)
    at_work(console, "operator/ada/1", kept=True)
    output = console.done("cancel", "orders", "--yes")
    assert (output["changed"], output["handler"]) == (True, "none")
    assert console.state()["control"].get("cancelled") is None


def test_ctrl_c_only_ends_the_wait(project: Project) -> None:
    console = configured(project, HANGS, QUICK.replace("500ms", "20s"))
    worker = begun(project, "--once")
    command = project.start("cancel", "orders", "--yes", "--json")
    wait_until(lambda: console.state()["control"]["paused"])
    assert command.stderr is not None
    assert "Ctrl-C only ends the wait" in command.stderr.readline()
    command.send_signal(signal.SIGINT)
    ended = end(command)
    assert ended.code == 0, ended.err
    assert (ended.json["changed"], ended.json["handler"]) == (True, "unknown")
    (project.folder / "wait").unlink()
    assert end(worker).code == 3
