"""The one word of `poller status`: nobody is said to work who does not, and the other way round."""

from __future__ import annotations

import pytest

from tests.cli.console import Console, at_work, ran, word
from tests.cli.project import NOTING, Project, end, wait_until


def test_a_lease_that_an_operator_keeps_is_nobodys_work(project: Project) -> None:
    console = ran(project)
    at_work(console)
    assert word(console) == "working"
    project.environ["POLLER_OPERATOR"] = "ada@desk"
    console.done("reset-to-beginning", "orders", "--yes", "--break-lease")
    assert word(console) == "waiting"
    screen = console.run("status").out
    assert "kept for ada@desk, no worker starts for " in screen
    assert "operator/" not in screen
    console.edit(lease=console.state()["lease"] | {"ttl_seconds": 1e300})
    assert "no worker starts for more than 1,000 years" in console.run("status").out


@pytest.mark.parametrize(("kept", "expected"), [(False, "pausing"), (True, "paused")])
def test_a_paused_poller_is_pausing_while_its_batch_is_in_hand(project: Project, kept: bool, expected: str) -> None:
    console = ran(project)
    console.done("pause", "orders", "--yes")
    assert word(console) == "paused"
    at_work(console, "operator/ada@desk/1234abcd", kept=kept)
    assert word(console) == expected


def test_a_pause_under_a_real_batch(project: Project) -> None:
    project.configure("orders", handlers=NOTING)
    project.insert(3)
    (project.folder / "wait").touch()
    worker = project.start("run", "--once")
    wait_until((project.folder / "started").exists)
    console = Console(project)
    console.done("pause", "orders", "--yes")
    assert word(console) == "pausing"
    (project.folder / "wait").unlink()
    assert end(worker).code == 0
    assert word(console) == "paused"
