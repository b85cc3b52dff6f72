"""Somebody who changes the document beside all rules: touches, deletes, corrupts it, or puts an older copy back."""

from __future__ import annotations

import json
from datetime import datetime
from typing import TYPE_CHECKING, Any

from poller.model import transitions
from poller.model.document import encode
from tests.resilience.simulation.source import DESCRIPTION

if TYPE_CHECKING:
    from tests.resilience.simulation.schedule import Schedule


class Outsider:
    """What no protocol can forbid; the laws then claim less (`Laws.meddled`), but never that two may hold the lease."""

    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule
        self._best: bytes | None = None

    def set_up(self) -> None:
        """Plan what will happen. A document that may be deleted was there before, of a version that left no trace."""
        schedule = self._schedule
        server, world, plan = schedule.server, schedule.world, schedule.plan
        for _ in range(plan.touches):
            world.at(schedule.later(schedule.calm_at), self._touch)
        if plan.meddling == "none":
            return
        first = transitions.create("orders", DESCRIPTION, None, ttl=plan.ttl, now=server.utcnow())
        server.replace(encode(first.with_write_id("0" * 32)), "begins the document")
        schedule.laws.meddled = False
        when = schedule.later(schedule.calm_at)
        if schedule.rng.random() < 0.5:  # so shortly before it is fixed that somebody may still be at work
            when = max(0.0, schedule.calm_at - schedule.rng.random() * plan.ttl)
        world.at(when, getattr(self, f"_{plan.meddling}"))

    def _touch(self) -> None:
        """Metadata is edited in a portal: another tag, another Last-Modified, the same bytes."""
        body = self._schedule.server.body()
        if body is not None:
            self._schedule.seen["touch"] += 1
            self._schedule.server.replace(body, "touches the document")

    def _deleted(self) -> None:
        """A document of which no process has left a trace yet is one of which nothing is known: then there is one."""
        memory = self._schedule.server.memory
        traced = bool(memory.lines("audit/sim/orders.jsonl"))
        self._schedule.seen["deleted, traced" if traced else "deleted, not traced"] += 1
        if not traced:
            memory.append("audit/sim/orders.jsonl", "{}")
        self._schedule.seen["deleted"] += 1
        self._schedule.server.delete()

    def _corrupted(self) -> None:
        body = self._schedule.server.body()
        if body is not None:
            self._schedule.seen["corrupted"] += 1
            self._schedule.server.replace(body[: len(body) // 2], "truncates the document")

    def _older(self) -> None:
        """A backup is put back by hand, without raising the token. Nobody is quicker at that than the two seconds for
        which a release counts."""
        now = self._schedule.server.utcnow()
        older = [
            document
            for document in self._schedule.laws.versions.values()
            if document and not _released_within(document, now, 4.0)
        ]
        free = [document for document in older if document["lease"]["owner_id"] is None]
        if older:
            self._schedule.seen["older"] += 1
            chosen = self._schedule.rng.choice(free or older)
            if self._schedule.rng.random() < 0.7:  # and restarts something, so that somebody knows no other version
                self._schedule.rng.choice(self._schedule.workers).crash()
            self._schedule.server.replace(
                json.dumps(chosen).encode(), f"puts back the version with token {chosen['lease']['fencing_token']}"
            )


def _released_within(document: dict[str, Any], now: datetime, seconds: float) -> bool:
    released = document["lease"]["released_at"]
    return released is not None and abs((now - datetime.fromisoformat(released)).total_seconds()) < seconds
