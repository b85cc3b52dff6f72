"""Documents beyond the limits: one line that names the way out, which then works; and none of ours ever gets there."""

from __future__ import annotations

import json
import re

from poller.model.escape import LONGEST_VALUE
from poller.model.limits import LARGEST_BODY, LONGEST_CURSOR
from tests.cli.console import Console, again, exported
from tests.cli.project import Project
from tests.support.cases import each

BEYOND = {
    "nested": lambda text: text.replace("{", '{"x": ' + "[" * 300 + "]" * 300 + ", ", 1),
    "large": lambda text: text.replace("{", '{"x": "' + "x" * (2 * LARGEST_BODY) + '", ', 1),
    "token": lambda text: text.replace('"fencing_token": 1', '"fencing_token": 1' + "0" * 300),
}


@each("kind", BEYOND)
def test_what_is_beyond_the_limits_is_reported_and_put_back(project: Project, kind: str) -> None:
    console = again(project)
    file = exported(console)
    console.put(BEYOND[kind](console.document()))
    for command in (
        ["run", "--once"],
        ["pause", "orders", "--yes"],
        ["status"],
        ["reset-to-beginning", "orders", "--yes"],
    ):
        ended = console.run(*command)
        assert ended.code == 1
        assert "poller reset-to-checkpoint orders FILE" in ended.err
        assert len(ended.err) < 2000
    assert console.done("reset-to-checkpoint", "orders", file, "--yes")["after"]["fencing_token"] > 1
    assert len(console.document()) < LARGEST_BODY


def test_rows_whose_key_no_document_can_hold_reach_no_handler(project: Project) -> None:
    project.configure("orders", handlers="def handle(batch): raise SystemExit('called')\n")
    project.execute("DROP TABLE orders")
    project.execute("CREATE TABLE orders (id TEXT PRIMARY KEY NOT NULL, updated_at TEXT NOT NULL)")
    project.execute("INSERT INTO orders VALUES (?, '2026-01-01 00:00:00')", ("k" * (LONGEST_CURSOR + 1),))
    console = Console(project)
    ended = console.run("run", "--once")
    assert ended.code == 1
    assert "called" not in ended.err
    assert "orders: cursor and key of the row after the beginning have 100," in ended.err
    assert json.loads(console.document())["delivery"]["attempts"] == 0


def test_a_long_key_is_cut_in_what_run_prints(project: Project) -> None:
    project.configure("orders", handlers="def handle(batch): pass\n")
    project.execute("DROP TABLE orders")
    project.execute("CREATE TABLE orders (id TEXT PRIMARY KEY NOT NULL, updated_at TEXT NOT NULL)")
    for number, options in enumerate(((), ("--json",))):
        project.execute("INSERT INTO orders VALUES (?, '2026-01-01 00:00:00')", (f"{number}" + "k" * 50_000,))
        ended = Console(project).run("run", "--once", *options)
        assert ended.code == 0, ended.err
        assert 0 < max(map(len, re.findall("kk+", ended.out + ended.err))) < LONGEST_VALUE
