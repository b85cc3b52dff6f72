"""The laws of the lease, and those of failing rows, on what the real code wrote."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from poller.model import window
from poller.model.document import State
from poller.model.ruling import Report
from tests.resilience.failures.plan import FailurePlan
from tests.resilience.failures.table import ChangingTable
from tests.resilience.quarantine.handler import Call
from tests.resilience.quarantine.laws import Laws as Rules
from tests.resilience.quarantine.tick import Settings
from tests.resilience.quarantine.truth import Truth
from tests.resilience.quarantine.world import Table, Target, Version, place
from tests.resilience.simulation.laws import Document, Laws, Sent
from tests.resilience.simulation.runtime import EPOCH
from tests.resilience.simulation.store import Client
from tests.resilience.simulation.world import World

RECORDS = "quarantine/sim/orders/"
BEGINNING = State(poller_name="orders")


@dataclass(frozen=True)
class Kept:
    """A record in the store."""

    status: str


@dataclass(frozen=True)
class Tenant:
    """Who writes, as the laws of failing rows ask."""

    token: int
    settings: Settings
    older: bool = False


class SimTruth(Truth):
    """What the simulation knows, as the laws of failing rows ask."""

    def __init__(self, world: World, plan: FailurePlan, table: ChangingTable, seen: Counter[str]) -> None:
        self.table: Table = table.versions
        self.target = Target()
        self.seen = seen
        self.known = BEGINNING
        self.kept: dict[str, Kept] = {}
        self.skew, self.rate = 0.0, 1.0
        self._world = world
        self._plan = plan

    @property
    def state(self) -> State:
        return self.known

    @property
    def records(self) -> Mapping[str, Kept]:
        return self.kept

    def moment(self) -> datetime:
        """The server's clock, and by how much a process may take it for later: it sees whole seconds, and counts on
        with a clock of its own."""
        slack = 1.0 + self._plan.ttl * (0.05 + self._plan.latency)
        return EPOCH + timedelta(seconds=self.skew + self.rate * self._world.now + slack)

    def fail(self, message: str) -> None:
        self._world.fail(message)


class RealRules(Rules):
    """The same laws, for a tick that read its rows some time ago."""

    read: tuple[Version, ...] = ()
    """What the process read whose write is judged."""

    def _rows_left(self, state: State) -> bool:
        table = self.world.table
        known = {row.id for row in self.read}
        # What came since it read is not its fault, nor what went.
        page = table.page(state.checkpoint.cursor, self.settings.batch_size)
        return all(row.id in known for row in page) and super()._rows_left(state)


class FailureLaws(Laws):
    """Both kinds of laws. `rules` are those of failing rows."""

    def __init__(self, world: World, table: ChangingTable, plan: FailurePlan, settings: Settings, seen: Counter[str]):
        super().__init__(world, table, timed=plan.timed)
        self.truth = SimTruth(world, plan, table, seen)
        self.settings = settings
        self.rules = RealRules(self.truth, settings)
        self.rules.strict = settings.mode == "quarantine" and not plan.operators
        self._calls: dict[str, tuple[Call, ...]] = {}
        """By owner: the calls that it made, until something came of them."""
        self._of_write: dict[str, tuple[Call, ...]] = {}
        self._read: dict[str, tuple[Version, ...]] = {}

    # --- calls -----------------------------------------------------------------------------------------------------

    def calling(self, call: Call, token: int) -> None:
        """A handler is called."""
        self.rules.handing(Tenant(token, self.settings), call, older=False)

    def called(self, owner: str, call: Call, token: int) -> None:
        """It returned or raised."""
        self.rules.returned(Tenant(token, self.settings), call)
        self._calls[owner] = (*self._calls.get(owner, ()), call)
        self.delivered.update(self.truth.table.history[id_].pk for id_ in call.done)

    def looked(self, process: str, rows: tuple[Version, ...]) -> None:
        """A process read a page."""
        self._read[process] = rows

    # --- writes ----------------------------------------------------------------------------------------------------

    def sending(self, client: Client, name: str, body: bytes, if_tag: str | None) -> Sent:
        sent = super().sending(client, name, body, if_tag)
        if self._calls.get(sent.owner or ""):
            self._of_write[sent.document["write_ids"][-1]] = self._calls[sent.owner or ""]
        return sent

    def landed(self, sent: Sent, tag: str, modified_at: datetime | None) -> None:
        before = self.truth.state
        super().landed(sent, tag, modified_at)
        if self._world.violation is not None:
            return
        after = self.truth.known = State.model_validate(sent.document)
        if sent.role == "worker":
            self._judge_rules(sent, before, after)
        else:
            change = after.control.last_change
            self.rules.person("" if change is None else change.kind, before, after)

    def replaced(self, body: bytes | None, tag: str | None) -> None:
        super().replaced(body, tag)
        self.truth.known = BEGINNING if body is None else State.model_validate(json.loads(body))

    def stands_beside(self, name: str, body: bytes | None) -> None:
        if not name.startswith(RECORDS):
            return
        id_ = name.removeprefix(RECORDS).removesuffix(".json")
        if body is None:
            self.truth.kept.pop(id_, None)
        else:
            self.truth.kept[id_] = Kept(json.loads(body)["status"])
        self.rules.records_changed()

    def _judge_rules(self, sent: Sent, before: State, after: State) -> None:
        tenant = Tenant(after.lease.fencing_token, self.settings)
        what, call = self._what(sent, before, after), None
        if what == "ended":
            call = self._settled(sent, before, after) or self._killed(before)
            if call is not None and call.retries is not None:
                what = "tried"
        self._count(before, after)
        self.rules.read = self._read.get(sent.client, ())
        self.rules.landed(tenant, before, after, what, call)

    def _settled(self, sent: Sent, before: State, after: State) -> Call | None:
        """The call that the write is about. One write may commit several that did every row: they count as one."""
        calls, reached = self._of_write.get(sent.document["write_ids"][-1], ()), after.checkpoint.cursor
        if reached is not None and reached != before.checkpoint.cursor and len(calls) > 1:
            calls = tuple(call for call in calls if place(call.rows[-1].cursor) <= place(reached)) or calls
        settled, made = set(map(id, calls)), self._calls.get(sent.owner or "", ())
        self._calls[sent.owner or ""] = tuple(one for one in made if id(one) not in settled)
        if len(calls) < 2:
            return calls[0] if calls else None
        self.truth.seen["several batches by one write"] += 1
        if any(len(call.done) < len(call.rows) for call in calls):
            self.truth.fail("a write commits several calls, and not all of their rows were done")
        return replace(calls[0], rows=tuple(row for call in calls for row in call.rows), through=calls[-1].through)

    def _what(self, sent: Sent, before: State, after: State) -> str:
        """Which write of a tick this is: by what it changed, and whether a call waited for it."""
        if after.lease.fencing_token != before.lease.fencing_token:
            return "acquire"
        if after.control.halted and not before.control.halted and _told(before) == _told(after):
            return "halt"
        if _told(before) == _told(after):
            return "beat"
        calls = self._of_write.get(sent.document["write_ids"][-1], ())
        if after.lease.owner_id is None and _same_place(before, after) and any(not call.done for call in calls):
            return "release"  # nothing is ruled: a record could not be written in time
        if calls or after.checkpoint.cursor != before.checkpoint.cursor:
            return "ended"
        if after.retrying != before.retrying:
            return "name" if after.retrying is not None else "release"
        if self._killed(before) is not None and after.delivery.failures > before.delivery.failures:
            return "ended"
        return "begin" if after.lease.owner_id is not None else "release"

    def _killed(self, before: State) -> Call | None:
        """The call with a row alone whose process was killed: what an earlier tenure named."""
        standing = window.standing(before)
        if standing is None or standing.piece is None or standing.piece != standing.suspect:
            return None
        found = [row for row in self.truth.table.history.values() if row.facts.cursor == standing.piece]
        return Call((found[0].facts,), before, 0, report=Report("raised")) if found else None

    def _count(self, before: State, after: State) -> None:
        seen = self.truth.seen
        seen["aside"] += len(after.aside) > len(before.aside)
        seen["condemned"] += len(after.quarantine) > len(before.quarantine)
        seen["named"] += after.retrying is not None and before.retrying is None
        seen["searched"] += after.delivery.window is not None and before.delivery.window is None

    # --- what the lease's laws ask otherwise -----------------------------------------------------------------------

    def passed_unhandled(self, owner: str, was: int, now: int) -> list[int]:
        """The laws of failing rows judge that: rows may be listed instead."""
        return []

    def counts(self, attempts: int, expected: tuple[int, ...], after: Document) -> bool:
        """A tenure may begin with a row aside, which is no attempt of the batch."""
        return super().counts(attempts, (*expected, max(0, expected[0] - 1)), after)

    def idle(self, client: Client, writes: int) -> None:
        """A tick that finds no row may try one that is aside."""

    def at_the_end(self) -> None:
        """The schedule judges the end."""


def _same_place(before: State, after: State) -> bool:
    """Whether nothing was passed, and no failure stored: each has its own time."""
    return (before.checkpoint, before.delivery.last_error) == (after.checkpoint, after.delivery.last_error)


def _told(state: State) -> object:
    """What a tick says of rows; a hang is reported by a heartbeat."""
    delivery = state.delivery.model_copy(update={"attempts": 0, "last_error": None})
    return state.checkpoint, delivery, state.aside, state.quarantine, state.retrying
