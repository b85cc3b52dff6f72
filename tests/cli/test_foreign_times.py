"""The console over a document whose times no calendar of Python's holds."""

from __future__ import annotations

import pytest

from tests.cli.console import ran
from tests.cli.project import Project

EXTREMES = ("0001-01-01T00:00:00+05:00", "9999-12-31T23:59:59.9999999-05:00")


@pytest.mark.parametrize("text", EXTREMES)
def test_every_command_bears_any_time_in_the_document(project: Project, text: str) -> None:
    console = ran(project)
    state = console.state()
    times = dict.fromkeys(("acquired_at", "heartbeat_at", "expires_at"), text)
    console.edit(
        lease=state["lease"] | times | {"owner_id": "funcapp/x", "ttl_seconds": None, "released_at": None},
        checkpoint=state["checkpoint"] | {"updated_at": text},
        control=state["control"] | {"paused": True, "at": text, "by": "ada"},
    )
    shown = console.run("status")
    assert shown.code == 0
    assert ("0001-01-01 00:00:00Z" if text.startswith("0001") else "9999-12-31 23:59:59Z") in shown.out
    assert console.run("peek", "orders").code == 0
    console.done("resume", "orders", "--yes")
    assert console.state()["checkpoint"]["updated_at"] == text
    output = console.done("reset-to-beginning", "orders", "--yes", "--break-lease")
    assert output.get("starts_after_seconds", 0) <= 65
