"""Bugs that the simulation found in rare schedules only, each in the few steps that matter."""

from __future__ import annotations

import json
from datetime import timedelta

from poller.admin import Operator
from poller.model import transitions
from poller.model.document import encode
from poller.model.stamps import stamp
from tests.resilience.simulation.plan import Plan
from tests.resilience.simulation.runtime import SimRuntime
from tests.resilience.simulation.schedule import Schedule, play
from tests.resilience.simulation.source import DESCRIPTION
from tests.resilience.simulation.store import Client
from tests.support.operators import pause, resume


def test_pause_and_resume_do_not_free_an_older_copy_put_back() -> None:
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
        pause(operator)
        resume(operator)

    world.start(process, work, "main")
    world.run(60.0, lambda: None, lambda: False)
    assert world.violation is None
    document = json.loads(server.body() or b"")
    assert document["control"]["last_change"]["kind"] == "resume"
    assert document["lease"]["released_at"] == stamp(released)


def test_a_late_release_that_a_pause_carries_is_stamped_when_idle() -> None:
    """The one write more that even a tick without rows may send (protocol 3)."""
    plan = Plan(
        seed=464, processes=2, ttl=6.0, beats=3, rows=0, batch_size=1, max_batches=0, max_attempts=1, period=0.5,
        trouble=5.125, faults=0.0, dribbles=0.25, latency=0.1640625, lateness=1.25, denied=0.0, outages=2, timed=True,
        skew=0.0, source_faults=0.25, work=0.0, handler_fails=0.0, overstays=0.0, crashes=2, crash_at_step=True,
        stops=3, operators=1, touches=4,
    )  # fmt: skip
    report = play(plan)
    assert report.violation is None
    assert report.seen["operator pause"]
