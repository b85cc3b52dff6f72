"""`poller demo`: the show that anybody can run; nothing of it stays behind."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.cli.project import Project, end
from tests.support.schemas import validator
from tests.support.services import wait_until


@pytest.mark.soak
def test_every_flight_arrives_and_only_a_killed_batch_comes_twice(project: Project) -> None:
    ended = project.run("demo", "--json", seconds=110)
    assert ended.code == 0, ended.err
    table = ended.json
    validator("demo").validate(table)
    assert table["rows_written"] == table["rows_delivered"] == 27_004
    assert table["missing"] == 0
    assert 0 < table["delivered_twice"] == table["killed_batch_rows"] <= 400
    assert table["twice_outside_killed_batch"] == 0
    assert table["token_after_takeover"] == table["token_before_kill"] + 1
    assert "SIGKILL" in ended.err
    assert list(project.folder.iterdir()) == [], "everything stays in a folder of its own"


@pytest.mark.soak
def test_one_bad_flight_stops_no_other_and_arrives_once_fixed(project: Project) -> None:
    ended = project.run("demo", "--poison", "--json", seconds=110)
    assert ended.code == 0, ended.err
    table = ended.json
    validator("demo-poison").validate(table)
    assert table["rows_written"] == table["rows_delivered"] == 27_004
    assert (table["missing"], table["delivered_twice"]) == (0, 0)
    assert (table["delivered_before_replay"], table["delivered_by_replay"]) == (26_997, 7)
    assert table["in_order_per_aircraft"] is True
    assert 0 < table["calls_to_find"] <= table["calls_to_find_at_most"] == 19
    assert "poller quarantine replay flights --all" in ended.err
    assert list(project.folder.iterdir()) == [], "everything stays in a folder of its own"


def begun_in(folder: Path) -> list[int]:
    """The processes whose command line names something in this folder."""
    found = []
    for one in Path("/proc").glob("[0-9]*"):
        try:
            line = (one / "cmdline").read_bytes()
        except OSError:
            continue
        if os.fsencode(folder) in line:
            found.append(int(one.name))
    return found


@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="there is no /proc to see processes in")
@pytest.mark.parametrize(
    "number", [pytest.param(one, marks=pytest.mark.soak) for one in (signal.SIGTERM, signal.SIGHUP)] + [signal.SIGINT]
)
def test_a_demo_that_is_ended_leaves_no_worker_and_no_folder(
    project: Project, tmp_path: Path, number: signal.Signals
) -> None:
    project.environ["TMPDIR"] = str(tmp_path)
    project.forge = None  # its command line is looked for
    demo = project.start("demo")
    wait_until(lambda: len(begun_in(tmp_path)) >= 3)
    demo.send_signal(number)
    ended = end(demo)
    left = begun_in(tmp_path)
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert left == []
    assert (ended.code, ended.error) == (1, "poller: Interrupted.")
    assert list(tmp_path.iterdir()) == []
