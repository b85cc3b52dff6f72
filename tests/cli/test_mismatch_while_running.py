"""`poller run` with a poller whose source was changed: the others go on, and a rebind is noticed."""

from __future__ import annotations

import signal
from subprocess import Popen

from tests.cli.console import Console
from tests.cli.project import NOTING, Project, end
from tests.support.services import wait_until

EVERY_SECOND = 'schedule = "* * * * * *"'


def changed(project: Project, *tables: str) -> Console:
    """Two pollers that have run, and of which these then got a filter."""
    project.configure("orders", "invoices", handlers=NOTING, poller=EVERY_SECOND)
    for table in ("orders", "invoices"):
        project.insert(3, table=table)
    console = Console(project)
    assert console.run("run", "--once").code == 0
    text = (project.folder / "poller.toml").read_text()
    for table in tables:
        text = text.replace(f'table = "{table}"', f'table = "{table}"\nfilter = "id > 0"')
    project.write(text)
    return console


def until_reported(worker: Popen[str]) -> None:
    """Until it has found the changed source."""
    assert worker.stdout is not None
    assert any("belongs to another source" in line for line in worker.stdout)


def test_a_rebind_is_noticed_by_the_process_that_runs(project: Project) -> None:
    console = changed(project, "orders")
    worker = project.start("run", "--json")
    until_reported(worker)
    assert console.run("rebind", "orders", "--yes").code == 0
    project.insert(1)
    project.insert(1, table="invoices")
    wait_until(lambda: {"orders 4", "invoices 4"} <= {line.rpartition(" ")[0] for line in project.lines("seen")})
    worker.send_signal(signal.SIGTERM)
    assert end(worker).code == 0


def test_it_ends_with_4_where_it_was_not_fixed(project: Project) -> None:
    changed(project, "orders")
    worker = project.start("run", "--json")
    project.insert(1, table="invoices")
    until_reported(worker)
    wait_until(lambda: any(line.startswith("invoices 4 ") for line in project.lines("seen")))
    worker.send_signal(signal.SIGTERM)
    ended = end(worker)
    assert ended.code == 4
    assert "poller rebind orders" in ended.err


def test_where_none_can_go_on_it_ends_by_itself(project: Project) -> None:
    changed(project, "orders", "invoices")
    ended = project.run("run")
    assert ended.code == 4
    assert "poller rebind orders" in ended.err
    assert "poller rebind invoices" in ended.err
    assert project.run("run", "orders").code == 4
