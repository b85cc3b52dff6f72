"""`poller recheck --redeliver`: what is shown before anything is asked, and what is recorded and told afterwards."""

from __future__ import annotations

import os

import pexpect
import pytest

from tests.cli.conftest import COMMAND, Project
from tests.cli.test_recheck_errors import FAILS


@pytest.fixture
def late(project: Project) -> Project:
    """Three rows that appeared under the cursor."""
    project.configure("orders", poller='audit_window = "1h"\nbatch_size = 2', handlers="def handle(batch): pass\n")
    project.insert(10)
    assert project.run("run", "--once").code == 0
    for row in (500, 501, 502):
        project.execute(f"INSERT INTO orders VALUES ({row}, '2025-01-01 00:00:00')")
    return project


def test_the_rows_are_shown_before_the_question(late: Project) -> None:
    environ = {**os.environ, "NO_COLOR": "1", "TERM": "xterm"}
    with pexpect.spawn(
        COMMAND[0],
        [*COMMAND[1:], "recheck", "orders", "--redeliver"],
        cwd=str(late.folder),
        env=environ,
        encoding="utf-8",
        timeout=30,
    ) as child:
        child.expect("3 never delivered")
        child.expect("id=500")
        child.expect("Type orders to go on")
        child.sendline("orders")
        child.expect("3 of 3 went to the handler")
        child.expect(pexpect.EOF)


def test_a_dry_run_says_so(late: Project) -> None:
    ended = late.run("recheck", "orders", "--redeliver", "--dry-run")
    assert ended.code == 0
    assert "A dry run: nothing was delivered" in ended.out
    assert "Deliver them" not in ended.out


def test_the_trail_names_the_operator_how_many_and_why(late: Project) -> None:
    late.environ["POLLER_OPERATOR"] = "ada"
    assert late.run("recheck", "orders", "--redeliver", "--yes", "--reason", "the restore").code == 0
    records = [one for one in late.run("history", "orders", "--json").json["records"] if one["kind"] == "recheck"]
    assert [(one["by"], one["reason"]) for one in records] == [("ada", "3 of 3 late rows delivered: the restore")]


def test_after_a_failure_the_next_step_is_a_command_to_copy_and_the_trail_tells_how_many(late: Project) -> None:
    fails = FAILS + "def handle(batch):\n    if batch.rows[0]['id'] > 501: raise ValueError('no such customer')\n"
    (late.folder / "handlers.py").write_text(fails)
    config = str(late.folder / "poller.toml")
    ended = late.run("-c", config, "recheck", "orders", "--since", "1h", "--redeliver", "--yes")
    assert ended.code == 1
    step = f"Mend it, then run: poller -c {config} recheck orders --since 1h --redeliver"
    assert ended.error.endswith(f"no such customer. {step}")
    assert "2 of 3 went to the handler" in ended.out
    record = late.run("history", "orders", "--json").json["records"][-1]
    assert record["reason"] == "2 of 3 late rows delivered"


def test_what_is_to_be_done_is_a_command_to_copy(late: Project) -> None:
    config = str(late.folder / "poller.toml")
    ended = late.run("-c", config, "recheck", "orders", "--since", "30m")
    assert f"Deliver them: poller -c {config} recheck orders --since 30m --redeliver\n" in ended.out


def test_a_reason_that_would_be_cut_is_refused(late: Project) -> None:
    for command in (("recheck", "orders", "--redeliver"), ("pause", "orders")):
        ended = late.run(*command, "--yes", "--reason", "x" * 501)
        assert (ended.code, "501 characters" in ended.error) == (2, True)


def test_production_wants_the_name_only_where_a_checkpoint_moves(late: Project) -> None:
    late.write('environment = "production"\n' + (late.folder / "poller.toml").read_text())
    assert late.run("recheck", "orders", "--redeliver", "--yes").code == 0
    range_ = ("--from", "2026-01-01 00:00:00", "--to", "2026-01-01 00:00:01")
    assert late.run("backfill", "orders", *range_, "--yes").code == 0
    assert late.run("pause", "orders", "--yes").code == 0
    assert late.run("reset-to-beginning", "orders", "--yes").code == 3
    for command in ("recheck", "backfill", "pause", "resume"):
        assert "needed with" not in late.run(command, "--help").out
