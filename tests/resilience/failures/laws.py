"""The laws of the lease, and those of failing rows, on what the real code wrote."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import takewhile

from poller import Batch
from poller.model import aside, window
from poller.model.aside import RowFacts
from poller.model.document import State
from poller.model.verdict import Report
from poller.tick import KEPT_FOR
from tests.resilience.failures.call import Call
from tests.resilience.failures.plan import FailurePlan
from tests.resilience.failures.rules import Rules
from tests.resilience.failures.table import ChangingTable
from tests.resilience.failures.truth import Settings, Truth
from tests.resilience.failures.versions import Table, Version, place
from tests.resilience.simulation.laws import Document, Laws, Sent
from tests.resilience.simulation.runtime import EPOCH
from tests.resilience.simulation.source import Trouble
from tests.resilience.simulation.store import Client
from tests.resilience.simulation.world import Process, World

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


class SimTruth(Truth):
    """What the simulation knows, as the laws of failing rows ask."""

    def __init__(self, world: World, plan: FailurePlan, table: ChangingTable, seen: Counter[str]) -> None:
        self.table: Table = table.versions
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
    """The same laws, for a tick that read its rows some time ago, and whose lanes may leave behind what they did."""

    keys = False
    """Whether the poller has an ordering key of its own."""
    asks = True
    """Whether the source says where the cursor of another page stands. If not, a document may forget what lanes have
    done once a page passes that does not show it; the process that had read it goes on by it."""
    read: tuple[Version, ...] = ()
    """What the process read whose write is judged."""
    unwritten: frozenset[str] = frozenset()
    """Names of records that this process did not get to write in this tick, as far as it knows."""

    def _rows_left(self, state: State) -> bool:
        table = self.world.table
        known = {row.id for row in self.read}
        # What came since it read is not its fault, nor what went.
        page = table.page(state.checkpoint.cursor, self.settings.batch_size)
        return all(row.id in known for row in page) and super()._rows_left(state)

    def __init__(self, world: Truth, settings: Settings) -> None:
        super().__init__(world, settings)
        self._once: set[tuple[int, str]] = set()
        """Rows of which a document has said that lanes have done them, by generation."""

    def covered(self, state: State) -> set[str]:
        """The rows of the table of which the document says that lanes have done them, or listed."""
        covers = self.covers(state)
        return {row.id for row in self.world.table.rows.values() if covers(row.facts)}

    def covers(self, state: State) -> Callable[[RowFacts], bool]:
        """Whether the document says so of a row, which may have left the table: of each lane all up to a cursor."""
        known, begin = state.delivery.lanes, place(state.checkpoint.cursor)
        if known is None or known.generation != state.checkpoint.generation:
            return lambda row: False
        if known.ordering_key != (("customer",) if self.keys else ()):
            return lambda row: False
        ends = [begin if cursor is None else place(cursor) for cursor in known.done]
        return lambda row: begin < place(row.cursor) <= ends[int(row.key, 16) % len(ends)]

    def is_done(self, token: int, before: State, row: Version) -> bool:
        if super().is_done(token, before, row) or row.id in self.covered(before):
            return True
        return not self.asks and (before.checkpoint.generation, row.id) in self._once

    def lacks_record(self, id_: str) -> bool:
        lacks = f"{RECORDS}{id_}.json" in self.unwritten
        self.world.seen["held up without a record"] += lacks
        return lacks

    def settles(self, call: Call) -> list[RowFacts]:
        """The rows that it did, and that must not come again: not those behind one that lacks a record."""
        before = takewhile(lambda row: not self.lacks_record(row.id), call.rows)
        return [row for row in before if row.id in call.done]

    def given_back(self, call: Call) -> None:
        """The lease was given back after a call."""
        self._settled.update((call.generation, row.id) for row in self.settles(call))

    def judge_kept(self, before: State, after: State) -> None:
        """What the document says of lanes is true: whoever writes it did these rows, or listed them, or knew it."""
        same = before.checkpoint.generation == after.checkpoint.generation
        known = (self.covered(before) if same else set()) | aside.listed(after).keys()
        token = after.lease.fencing_token
        self._once |= {(after.checkpoint.generation, id_) for id_ in self.covered(after)}
        wrong = sorted(id_ for id_ in self.covered(after) - known if (token, id_) not in self._done_under)
        if wrong:
            self._fail(f"the document says that lanes have done {wrong}, which nobody did")


class FailureLaws(Laws):
    """Both kinds of laws. `rules` are those of failing rows."""

    def __init__(self, world: World, table: ChangingTable, plan: FailurePlan, settings: Settings, seen: Counter[str]):
        super().__init__(world, table, plan)
        self._failures = plan
        self._changing = table
        self.truth = SimTruth(world, plan, table, seen)
        self.settings = settings
        self.rules = RealRules(self.truth, settings)
        self.rules.lanes, self.rules.keys, self.rules.asks = plan.lanes, bool(plan.keys), plan.asks
        self.rules.strict = settings.mode == "quarantine" and not (plan.operators or plan.people)
        if plan.lanes > 1 and not plan.asks:  # then nobody can say which rows stand before a cursor of another page
            self.rules.strict = False
        self._calls: dict[str, tuple[Call, ...]] = {}
        """By owner: the calls that it made, until something came of them."""
        self._of_write: dict[str, tuple[Call, ...]] = {}
        self._read: dict[str, tuple[Version, ...]] = {}
        self._unwritten: defaultdict[tuple[str, int], set[str]] = defaultdict(set)
        """By process and tick: the names of records that it did not get to write, as far as it knows."""
        self._in_hand: defaultdict[str, dict[str, Call]] = defaultdict(dict)
        """By owner and batch: calls that have not ended."""
        self._told: defaultdict[str, set[str]] = defaultdict(set)
        """By owner: the rows that lanes did, and that a write of it passed or kept as done."""
        self._waiting: defaultdict[tuple[str, int], dict[str, float]] = defaultdict(dict)
        """By process and tick: since when it has known rows that it did not hand over."""
        self._done_by: dict[tuple[str, str], frozenset[str]] = {}
        """By owner and batch: the rows that a lane's call did."""

    # --- calls -----------------------------------------------------------------------------------------------------

    def calling(self, process: Process, owner: str, batch: Batch, call: Call, token: int) -> None:
        """A handler is called."""
        if not (batch.retry or batch.replay):
            self._judge_versions(process, batch, call)
        self._judge_beside(owner, call)
        self._in_hand[owner][batch.batch_id] = call
        self.rules.handing(Tenant(token, self.settings), call)

    def _judge_versions(self, process: Process, batch: Batch, call: Call) -> None:
        """Rows are handed over as they are, or were five seconds ago (`judge_age`)."""
        self.judge_age(process, batch.rows)
        self._count_waits(process, batch, call)
        for row in call.rows:
            left = self._changing.left.get(row.id)
            if left is not None and self.age(process, left) > KEPT_FOR + Trouble.slow:
                self.truth.fail(f"{row.id} is handed over {self._world.now - left:.1f} s after it left the table")

    def _count_waits(self, process: Process, batch: Batch, call: Call) -> None:
        """What happened to rows of several lanes that waited for longer than they may be old."""
        if call.lanes == 1:
            return
        seen, waiting = self.truth.seen, self._waiting[process.name, process.scope]
        for row, facts in zip(batch.rows, call.rows, strict=True):
            seen["waited in a lane, and was read again"] += row["read"] > waiting.pop(facts.id, row["read"]) + KEPT_FOR
        gone = [id_ for id_, shown in waiting.items() if shown < self._changing.left.get(id_, 0.0) < self._world.now]
        for id_ in gone:
            seen["waited in a lane, and left the table"] += self.age(process, waiting.pop(id_)) > KEPT_FOR

    def _judge_beside(self, owner: str, call: Call) -> None:
        """What is handled at once is of different keys, and different rows; and so many batches at most are begun."""
        others = self._in_hand[owner].values()
        if call.lanes == 1:
            if others:
                self.truth.fail(f"{[row.id for row in call.rows]} are handed over beside another batch")
            return
        for row in call.rows:
            beside = [one.id for other in others for one in other.rows if one.key == row.key or one.pk == row.pk]
            if beside:
                self.truth.fail(f"{row.id} is handed over beside {beside}, of its key or of its row")
        places = [place(row.cursor) for row in call.rows]
        lanes = {int(row.key, 16) % call.lanes for row in call.rows}
        if places != sorted(places) or len(lanes) > 1 or len({row.pk for row in call.rows}) < len(places):
            self.truth.fail(f"{[row.id for row in call.rows]} are no batch of one lane")
        plan = self._failures
        most = max(plan.uncommitted, plan.lanes) if plan.uncommitted else 4 * plan.lanes
        begun = 1 + len(others) + len(self._calls.get(owner, ()))
        if begun > most:
            self.truth.fail(f"{begun} batches are begun beyond what has landed")

    def called(self, owner: str, batch_id: str, call: Call, token: int) -> None:
        """It returned or raised."""
        self._in_hand[owner].pop(batch_id, None)
        if call.lanes > 1:
            self._done_by[owner, batch_id] = call.done
            if len(call.done) < len(call.rows):
                self._failing.add(owner)
        self.rules.returned(Tenant(token, self.settings), call)
        self._calls[owner] = (*self._calls.get(owner, ()), call)
        self.delivered.update(self.truth.table.history[id_].pk for id_ in call.done)

    def looked(self, process: Process, rows: tuple[Version, ...]) -> None:
        """A process read a page."""
        self._read[process.name] = rows
        shown = self._waiting[process.name, process.scope]
        for row in rows:
            shown.setdefault(row.id, self._world.now)

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
        self.rules.judge_kept(before, after)
        if sent.role == "worker":
            self._judge_rules(sent, before, after)
        else:
            self._judge_person(before, after)

    def _judge_person(self, before: State, after: State) -> None:
        change = after.control.last_change
        what = "" if change is None else change.kind.removeprefix("quarantine ")
        if what == "cancel" and after.control.cancelled != after.lease.fencing_token:
            what = "pause"  # no worker was at work
        gone = aside.listed(before).keys() - aside.listed(after).keys()
        self.rules.person(what, before, after, tuple(gone) if what == "discard" else ())

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

    def asked_beside(self, client: Client, name: str, *, answered: bool) -> None:
        unwritten = self._unwritten[client.name, client.scope]
        if answered:
            unwritten.discard(name)
        else:
            unwritten.add(name)

    def _judge_rules(self, sent: Sent, before: State, after: State) -> None:
        tenant = Tenant(after.lease.fencing_token, self.settings)
        self.rules.unwritten = frozenset(self._unwritten.get((sent.client, sent.scope), ()))
        what, call = self._what(sent, before, after), None
        if what == "ended":
            call = self._settled(sent, before, after) or self._killed(before)
            if call is not None and call.retries is not None:
                what = "tried"
        if sent.owner is not None and after.lease.owner_id is None:
            # Whatever was done under a lease that is given back stands in the document, or it comes again for nothing.
            for made in self._of_write.get(sent.document["write_ids"][-1], ()):
                if made.lanes > 1:
                    self.rules.given_back(made)
        self._count(before, after)
        self.rules.read = self._read.get(sent.client, ())
        self.rules.landed(tenant, before, after, what, call)

    def _settled(self, sent: Sent, before: State, after: State) -> Call | None:
        """The call that the write is about. One write may commit several that did every row: they count as one."""
        calls, reached = self._of_write.get(sent.document["write_ids"][-1], ()), after.checkpoint.cursor
        if any(call.lanes > 1 for call in calls):
            return self._settled_lanes(sent.owner or "", calls, before, after)
        if reached is not None and reached != before.checkpoint.cursor and len(calls) > 1:
            calls = tuple(call for call in calls if place(call.rows[-1].cursor) <= place(reached)) or calls
        settled, made = set(map(id, calls)), self._calls.get(sent.owner or "", ())
        self._calls[sent.owner or ""] = tuple(one for one in made if id(one) not in settled)
        if len(calls) < 2:
            return calls[0] if calls else None
        self.truth.seen["several batches by one write"] += 1
        if any(len(call.done) < len(call.rows) for call in calls):
            self.truth.fail("a write commits several calls, and not all of their rows were done")
        return replace(calls[0], rows=tuple(row for call in calls for row in call.rows))

    def _settled_lanes(self, owner: str, calls: tuple[Call, ...], before: State, after: State) -> Call:
        """What the write says of lanes: the rows that it passes or keeps as done, as one call. The one with which they
        stop says something of all calls; what failed then stands in the document."""
        kept, reached = self.rules.covers(after), place(after.checkpoint.cursor)
        ends = after.lease.owner_id is None or self._fails(before, after)
        failing = [call for call in calls if len(call.done) < len(call.rows)]
        if ends and failing and all(call.report.end == "later" for call in failing) and after.delivery.attempts:
            self.truth.fail("calls that asked for another time count as attempts")
        told: list[RowFacts] = []
        left: list[Call] = []
        for call in calls:
            done = [row for row in call.rows if row.id in call.done]
            fresh = [row for row in done if ends or place(row.cursor) <= reached or kept(row)]
            sure = self.rules.settles(call)
            told.extend(row for row in fresh if row in sure and row.id not in self._told[owner])
            self._told[owner].update(row.id for row in fresh)
            if not ends and len(fresh) < len(call.rows):
                left.append(call)
        settled = set(map(id, calls)) - set(map(id, left))
        self._calls[owner] = tuple(one for one in self._calls[owner] if id(one) not in settled)
        self.truth.seen["several lanes by one write"] += len(settled) > 1
        self.truth.seen["done above the checkpoint"] += bool(self.rules.covered(after))
        rejected = tuple(id_ for call in failing if ends for id_ in call.report.rejected)
        return replace(calls[0], rows=tuple(told), report=Report(rejected=rejected))

    def _fails(self, before: State, after: State) -> bool:
        """Whether a write stores that something failed."""
        old, new = before.delivery, after.delivery
        listed = aside.listed(after).keys() - aside.listed(before).keys()
        return bool(listed) or new.failures > old.failures or new.last_error not in (None, old.last_error)

    def _what(self, sent: Sent, before: State, after: State) -> str:
        """Which write of a tick this is: by what it changed, and whether a call waited for it."""
        if after.lease.fencing_token != before.lease.fencing_token:
            return "acquire"
        if before.control.cancelled == before.lease.fencing_token and after.lease.owner_id is None:
            return "cancelled" if _told(before) == _told(after) else "ended"
        if after.control.halted and not before.control.halted and _told(before) == _told(after):
            return "halt"
        if _told(before) == _told(after):
            return "beat"
        calls = self._of_write.get(sent.document["write_ids"][-1], ())
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
        return Call((found[0].facts,), before, report=Report("raised")) if found else None

    def _count(self, before: State, after: State) -> None:
        seen = self.truth.seen
        seen["aside"] += len(after.aside) > len(before.aside)
        seen["condemned"] += len(after.quarantine) > len(before.quarantine)
        seen["named"] += after.retrying is not None and before.retrying is None
        seen["searched"] += after.delivery.window is not None and before.delivery.window is None

    # --- what the lease's laws ask otherwise -----------------------------------------------------------------------

    def note_landed(self, owner: str, after: Document) -> None:
        """The laws of failing rows know that."""

    def judge_kept(self, before: Document, after: Document, owner: str | None) -> None:
        """The laws of failing rows judge that: rows may be listed instead."""

    def lanes_landed(self, owner: str, batch_id: str) -> bool:
        return self._done_by.get((owner, batch_id), frozenset()) <= self._told[owner]

    def passed_unhandled(self, owner: str, before: Document, now: int) -> list[int]:
        """The laws of failing rows judge that: rows may be listed instead."""
        return []

    def counts(self, attempts: int, expected: tuple[int, ...], after: Document) -> bool:
        """A tenure may begin with a row aside, which is no attempt of the batch."""
        return super().counts(attempts, (*expected, max(0, expected[0] - 1)), after)

    def idle(self, client: Client, writes: int) -> None:
        """A tick that finds no row may try one that is aside."""

    def at_the_end(self) -> None:
        """The schedule judges the end."""


def _told(state: State) -> object:
    """What a tick says of rows; a hang is reported by a heartbeat."""
    delivery = state.delivery.model_copy(update={"attempts": 0, "last_error": None})
    return state.checkpoint, delivery, state.aside, state.quarantine, state.retrying
