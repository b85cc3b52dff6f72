"""`poller watch` of more pollers than a screen has room for, on narrow screens, and keys that arrive together."""

from __future__ import annotations

import re

import pexpect
import pytest

from tests.cli.conftest import NOTING, Project, wait_until
from tests.cli.console import Console
from tests.cli.test_watch import terminal

NAMES = [f"p{n}" for n in range(8)]


@pytest.fixture
def many(project: Project) -> Project:
    project.configure(*NAMES, handlers=NOTING)
    for name in NAMES:
        project.insert(3, table=name)
    return project


def plain(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)


def chosen(name: str) -> str:
    """What marks it, colours between."""
    return rf">(?: |\x1b\[[0-9;]*m)+{name}"


def test_the_chosen_one_is_on_the_screen_and_the_others_are_counted(many: Project) -> None:
    assert Console(many).run("run", "--once").code == 0
    with terminal(many.folder, columns=80, rows=24) as child:
        child.expect(chosen("p0"))
        child.expect("[456] more below")
        child.send("jjjjj")
        child.expect("[1-5] more above")
        child.expect(chosen("p5"))
        child.expect("[12] more below")
        child.send("p")
        child.expect("Why is p5 paused")
        child.sendline("")
        child.expect(r"\[y/N\]")
        child.sendline("n")
        child.expect("Not confirmed")
        child.send(" ")
        child.expect(chosen("p5"))
        child.send("\x1b[B\x1b[B")
        child.expect(chosen("p7"))
        child.send("\x1b[Ajq")
        child.expect(pexpect.EOF)
        child.close()
        assert child.exitstatus == 0
        assert "more below" not in plain(child.before)


def test_a_narrow_screen_has_its_bars_on_lines_of_their_own(many: Project) -> None:
    with terminal(many.folder, "p0", "--count", "2", columns=40, rows=24) as child:
        child.expect(pexpect.EOF)
    assert re.search(r"^ +[▁▂▃▄▅▆▇█]+", plain(child.before), re.MULTILINE)


def test_who_holds_the_lease_since_when_and_his_last_heartbeat(many: Project) -> None:
    (many.folder / "wait").touch()
    worker = many.start("run", "p0", "--once")
    wait_until(lambda: many.lines("started"))
    with terminal(many.folder, "p0", "--count", "1", columns=80, rows=24) as child:
        child.expect(pexpect.EOF)
    (many.folder / "wait").unlink()
    worker.wait(30)
    shown = " ".join(plain(child.before).split())
    assert re.search(r"lease \S+, fencing token 1, since 20\S+ \S+Z, last heartbeat \S+ s ago, expires in", shown)


def test_one_row_is_one_row_and_the_time_names_its_zone(project: Project) -> None:
    project.configure("orders")
    project.insert(1)
    with terminal(project.folder, "--count", "1") as child:
        child.expect(pexpect.EOF)
    assert re.search(r"poller watch +\d\d:\d\d:\d\dZ", plain(child.before))
    assert "1 row, " in plain(child.before)
