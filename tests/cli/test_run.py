"""`poller run`: once, until idle, for ever; several pollers at once; stopping."""

from __future__ import annotations

import json
import os
import re
import signal

import pytest

from tests.cli.project import NOTING, Project, end
from tests.support.services import wait_until


def test_one_pollers_error_does_not_keep_the_others_from_working(project: Project) -> None:
    project.configure("orders", "invoices", handlers=NOTING)
    project.insert(2, table="invoices")
    project.execute("DROP TABLE orders")
    ended = project.run("run", "--once")
    assert ended.code == 1
    assert "orders" in ended.err
    assert len(project.lines("seen")) == 2


def test_json_lines_stand_alone_on_stdout_though_a_handler_prints(project: Project) -> None:
    handlers = """
import os, subprocess
def handle(batch):
    print("printed by the handler")
    os.write(1, b"written to the descriptor\\n")
    subprocess.run(["echo", "said by a child"])
"""
    project.configure("orders", handlers=handlers)
    project.insert(3)
    ended = project.run("run", "--once", "--json")
    assert ended.code == 0
    names = [event["event"] for event in ended.events]
    assert names.count("batch_committed") == 1
    assert names[-1] == "tick"
    for text in ("printed by the handler", "written to the descriptor", "said by a child"):
        assert text in ended.err
        assert text not in ended.out


def test_a_poller_follows_its_schedule_for_ever(project: Project) -> None:
    project.configure("orders", handlers=NOTING, poller='schedule = "* * * * * *"')
    project.insert(2)
    process = project.start("run", "--json")
    wait_until(lambda: len(project.lines("seen")) == 2)
    project.insert(3)
    wait_until(lambda: len(project.lines("seen")) == 5)
    process.send_signal(signal.SIGTERM)
    ended = end(process)
    assert ended.code == 0
    assert {json.loads(line)["event"] for line in ended.out.splitlines()} >= {"tick", "batch_committed"}


@pytest.mark.parametrize(
    ("number", "isolation"),
    [(signal.SIGTERM, "process"), (signal.SIGINT, "process"), (signal.SIGHUP, "thread")],
)
def test_a_signal_commits_the_batch_in_hand_and_starts_no_other(
    project: Project, number: signal.Signals, isolation: str
) -> None:
    if signal.getsignal(number) == signal.SIG_IGN:
        pytest.skip("these tests run under nohup, and so do their commands")
    options = f'schedule = "* * * * * *"\nbatch_size = 4\nisolation = "{isolation}"'
    project.configure("orders", handlers=NOTING, poller=options)
    project.insert(10)
    (project.folder / "wait").touch()
    process = project.start("run", "--json")
    wait_until(lambda: project.lines("started"))
    process.send_signal(number)  # as a terminal, a service manager and GNU timeout do: to the process,
    os.killpg(process.pid, number)  # and to every one of its group
    assert process.stderr is not None
    assert any("stopping" in line for line in process.stderr)
    (project.folder / "wait").unlink()
    ended = end(process)
    assert ended.code == 0, ended.err
    assert len(project.lines("seen")) == 4
    assert [event["rows"] for event in ended.events if event["event"] == "batch_committed"] == [4]
    status = project.run("status", "--json").json["pollers"][0]
    assert status["lease"]["owner_id"] is None
    assert status["lease"]["live"] is False
    assert status["cursor"]["tiebreaker"] == {"id": 4}
    assert status["attempts"] == 0


def test_until_idle_that_is_stopped_says_that_it_is_not_done(project: Project) -> None:
    project.configure("orders", handlers=NOTING, poller="batch_size = 2")
    project.insert(10)
    (project.folder / "wait").touch()
    process = project.start("run", "--until-idle")
    wait_until(lambda: project.lines("started"))
    process.send_signal(signal.SIGTERM)
    assert process.stderr is not None
    assert any("stopping" in line for line in process.stderr)
    (project.folder / "wait").unlink()
    assert end(process).code == 1
    assert len(project.lines("seen")) == 2


def test_a_poller_that_needs_a_fix_is_reported_and_others_go_on(project: Project) -> None:
    project.configure("orders", "invoices", handlers=NOTING, poller='schedule = "* * * * * *"')
    text = (project.folder / "poller.toml").read_text()
    project.write(text.replace("handlers:handle", "handlers:other", 1))
    project.insert(2, table="invoices")
    process = project.start("run")
    assert process.stderr is not None
    assert "pollers.orders.handler" in process.stderr.readline()
    wait_until(lambda: len(project.lines("seen")) == 2)
    process.send_signal(signal.SIGTERM)
    assert end(process).code == 2


@pytest.mark.parametrize("mode", ["--once", "--until-idle"])
def test_as_json_a_failed_handler_import_is_a_failed_tick(project: Project, mode: str) -> None:
    project.configure("orders", "invoices", handlers=NOTING)
    project.write((project.folder / "poller.toml").read_text().replace("handlers:handle", "handlers:other", 1))
    ended = project.run("run", mode, "--json")
    assert ended.code == 2
    (failed,) = [event for event in ended.events if event["event"] == "tick_failed"]
    assert (failed["poller"], failed["error_type"]) == ("orders", "ConfigError")
    assert "pollers.orders.handler" in failed["error"]
    assert "poller: orders: poller.toml: pollers.orders.handler" in ended.err


def test_handlers_logs_and_tracebacks_have_the_form_of_every_line(project: Project) -> None:
    handlers = """
import logging
def handle(batch):
    logging.getLogger("shipping").info("shipped to %s", "Oslo")
    raise ValueError("no")
"""
    project.configure("orders", handlers=handlers, poller="retry_backoff = '1ms'")
    project.insert(1)
    ended = project.run("run", "--once")
    assert ended.code == 1
    moment = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"
    assert re.search(rf"(?m)^{moment} INFO    shipping: shipped to Oslo$", ended.err)
    assert len(re.findall(r"(?m)^\S+ ERROR ", ended.err)) == 1, "one failure, one record"
    failed = rf"(?m)^{moment} ERROR   orders: handler_failed .*\norders: Traceback \(most recent call last\):\n"
    assert re.search(failed + r'orders:   File ".*/handlers\.py", line 5, in handle$', ended.err), (
        "the user's frame first"
    )
    assert ended.err.count("Traceback") == 1
    (event,) = [e for e in project.run("run", "--once", "--json").events if e["event"] == "handler_failed"]
    assert event["trace"].endswith("ValueError: no")
    assert re.search(rf"(?m)^{moment} INFO    orders: tick outcome=handler_failed", ended.err)


OUTAGE = "If every row fails, wait;"
FAILING = NOTING + "    if any(row['id'] == 3 for row in batch): raise ValueError('no such customer')\n"


def _failing(project: Project, *options: str) -> None:
    """Five rows, handed over singly; the third fails."""
    project.configure("orders", handlers=FAILING, poller="\n".join(("batch_size = 1", *options)))
    project.insert(5)


@pytest.mark.parametrize(
    ("mode", "step"),
    [
        ("block", f"{OUTAGE} else fix it, or set the row aside: poller quarantine add orders --pk id=3"),
        ("quarantine", "Look at them: poller quarantine list orders"),
    ],
)
def test_a_failing_row_is_named_with_the_next_command(project: Project, mode: str, step: str) -> None:
    _failing(project, f"on_poison = '{mode}'")
    ended = project.run("run", "--once")
    assert ended.code == 1
    assert re.fullmatch(
        rf"poller: orders: handler failed: row orders/id=3/\S+: ValueError: no such customer\. {re.escape(step)}",
        ended.err.splitlines()[-1],
    )
    command = step.partition("poller ")[2].split()
    assert project.run(*command, *(["--yes"] if mode == "block" else [])).code == 0, "it can be copied"


def test_until_idle_ends_and_counts_the_rows_left_aside(project: Project) -> None:
    """One row waits for a person, another is tried again in an hour: all others are delivered, and that is said."""
    _failing(project, "on_poison = 'quarantine'", "retry_backoff = '1h'", "retry_backoff_max = '1h'")
    (project.folder / "handlers.py").write_text(
        FAILING + "    if any(row['id'] == 4 for row in batch): batch.reject(batch.rows[0], 'a test order')\n"
    )
    ended = project.run("run", "--until-idle")
    assert ended.code == 0, ended.err
    assert ended.err.splitlines()[-1] == (
        "poller: orders: 1 row set aside, tried again automatically; 1 row for a person to look at. "
        "Look at them: poller quarantine list orders"
    )
    (tick,) = [e for e in project.run("run", "--until-idle", "--json").events if e["event"] == "tick"]
    assert (tick["outcome"], tick["aside"], tick["quarantined"]) == ("idle", 1, 1)
