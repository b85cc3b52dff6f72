"""Another poller's document under a poller's name, as after a copy of the wrong blob: the step that is named works."""

from __future__ import annotations

from tests.cli.console import exported, ran
from tests.cli.project import Project


def test_the_command_that_the_error_names_mends_it(project: Project) -> None:
    console = ran(project)
    file = exported(console)
    project.execute(
        'UPDATE poller_documents SET body = replace(body, \'"poller_name": "orders"\', \'"poller_name": "others"\')'
        " WHERE name = 'state/shop/orders.json'",
        database="state.db",
    )
    refused = console.run("run", "--once")
    assert refused.code == 1
    assert "belongs to the poller 'others'" in refused.err
    assert "poller reset-to-checkpoint orders FILE" in refused.err
    assert console.run("reset-to-checkpoint", "orders", file, "--yes").code == 0
    project.insert(2)
    assert console.run("run", "--once").code == 0
