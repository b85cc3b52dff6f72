"""Bugs that the simulation found in rare schedules only, each in the few steps that matter."""

from __future__ import annotations

import json
from datetime import timedelta

from poller.admin.editor import Operator
from poller.model import transitions
from poller.model.document import encode
from poller.model.stamps import stamp
from tests.resilience.simulation.plan import Plan
from tests.resilience.simulation.runtime import SimRuntime
from tests.resilience.simulation.schedule import Schedule
from tests.resilience.simulation.source import DESCRIPTION
from tests.resilience.simulation.store import Client


def test_an_operators_pause_and_resume_do_not_free_an_older_copy_that_was_put_back() -> None:
    """Its owner may be at work and hung; a fresh release would let another in at once (protocol 3)."""
    schedule = Schedule(Plan(seed=1))
    world, server = schedule.world, schedule.server
    released = server.utcnow() - timedelta(seconds=30)
    older = transitions.create("orders", DESCRIPTION, None, now=released).with_write_id("0")
    server.replace(encode(older), "puts back an older copy")
    process = schedule.process("operator")

    def work() -> None:
        operator = Operator(
            Client(server, process, "operator"),
            app_name="sim",
            poller_name="orders",
            runtime=SimRuntime(world, process),
            timing=schedule.timing(0),
            by="ann",
        )
        operator.pause()
        operator.resume()

    world.start(process, work, "main")
    world.run(60.0, lambda: None, lambda: False)
    assert world.violation is None
    document = json.loads(server.body() or b"")
    assert document["control"]["last_change"]["kind"] == "resume"
    assert document["lease"]["released_at"] == stamp(released)
