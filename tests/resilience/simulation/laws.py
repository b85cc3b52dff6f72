"""What may never happen (protocol 14), checked against the truth after every step.

The laws see what no process can: true time, every version of the document, and what each tenure believes. They judge
effects: what was sent and when, what landed, what a process was notified of. They do not ask how the code came to it.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeAlias

from poller.lease import Tenure
from poller.lease.tenure import CANCELLED
from poller.observability import PollerEvent
from poller.ports import Row
from poller.tick import KEPT_FOR
from tests.resilience.simulation.lanes import LaneLaws
from tests.resilience.simulation.plan import Plan
from tests.resilience.simulation.source import Table
from tests.resilience.simulation.world import Process, World

if TYPE_CHECKING:
    from poller import Batch
    from tests.resilience.simulation.store import Client

Document: TypeAlias = dict[str, Any]

WRITE_IDS = 8
"""The document names so many writes, the newest (protocol, "write id"). A process that was stopped while more landed
takes its own for lost: nothing is skipped by that, and no row comes again."""


@dataclass(frozen=True, slots=True)
class Sent:
    """A write on its way; `document` is what it writes, `owner` the tenure it is sent by (None for an acquire, a halt
    and an operator). `remembers`: it only keeps what is known of the bound; `stamps`: it only stamps a late release;
    `rewrites`: it is the weekly rewrite."""

    client: str
    role: str
    scope: int
    name: str
    body: bytes
    if_tag: str | None
    label: str
    document: Document = field(default_factory=dict)
    owner: str | None = None
    remembers: bool = False
    stamps: bool = False
    rewrites: bool = False


class Laws:
    """Everything known about one schedule, and the laws about it."""

    def __init__(self, world: World, table: Table, plan: Plan) -> None:
        self.plan = plan
        self.timed = plan.timed
        self.lanes = LaneLaws(table, plan, self._fail)
        self._world = world
        self._table = table
        self.document: Document | None = None
        self.versions: dict[str | None, Document] = {}
        self.meddled = False
        """Somebody changed the document beside all rules: what rests on its history is not claimed any more."""
        self.handled: defaultdict[str, set[int]] = defaultdict(set)
        self.landed_writes = 0
        self.rewrites = 0
        self.late: set[str | None] = set()
        """Tags of releases that landed long after their stamp, and of changes that carry such a one along."""
        self._freed_by: dict[str, tuple[str, int]] = {}
        """By the stamp of a release: the process, and its tick or command, whose write it is of. Others carry it along
        when they change something else."""
        self.skipped: set[int] = set()
        """Rows that an operator's reset passed."""
        self.delivered: set[int] = set()
        self._tenures: list[tuple[Process, Tenure]] = []
        self._by_owner: dict[str, tuple[Process, Client, int, Tenure]] = {}
        self._reached: dict[str, int] = {}
        self._batches: defaultdict[str, dict[str, set[int]]] = defaultdict(dict)
        """By owner: the rows of each batch that was begun and did not fail."""
        self._made: Counter[str] = Counter()
        self._failing: set[str] = set()
        """Owners of which a call in one of several lanes failed."""
        self._remembered = float("-inf")
        self._write_ids: set[str] = set()
        self._highest_token = 0
        self._acquired: set[str] = set()
        self._released: set[str] = set()
        self._committed: dict[tuple[str, str], int] = {}
        self._committed_to: dict[str, int] = {}
        """By owner and batch: how many writes had landed when its commit did, itself among them."""
        self._landed: defaultdict[str, set[int]] = defaultdict(set)
        """By owner: the rows that its writes passed, or said to be done."""
        self._refused: set[tuple[str, str]] = set()

    # --- beliefs ---------------------------------------------------------------------------------------------------

    def tenure_began(self, process: Process, client: Client, tenure: Tenure) -> None:
        """A process believes from now on that it holds the lease."""
        self._tenures.append((process, tenure))
        self._by_owner[tenure.owner_id] = (process, client, client.scope, tenure)

    def after_step(self) -> None:
        """At most one process believes that its deadline is ahead, at any true time."""
        tenures = self._tenures
        if len(tenures) < 2:
            return
        if any(process.dead or tenure._over is not None for process, tenure in tenures):
            tenures[:] = [(p, t) for p, t in tenures if not p.dead and t._over is None]
        now = self._world.now
        believers = [t.fencing_token for process, t in tenures if not t._ending and process.clock(now) < t._deadline]
        if len(believers) > 1:
            self._fail(f"tokens {believers} are both believed to be held")

    # --- writes ----------------------------------------------------------------------------------------------------

    def sending(self, client: Client, name: str, body: bytes, if_tag: str | None) -> Sent:
        """Judge a write of the state document when it leaves."""
        document = json.loads(body)
        tenure = self._sender(client, document, if_tag)
        kind = self._kind(document, if_tag)
        label = f"write {document['write_ids'][-1][:6]} on tag {if_tag} ({kind})"
        owner = tenure.owner_id if tenure is not None else None
        base = self.versions.get(if_tag) or document
        own = self._freed_by.get(base["lease"]["released_at"]) == (client.name, client.scope)
        remembers = kind == "remembers"
        stamps = kind == "release" and if_tag in self.late and own  # another tick's or process's: the weekly rewrite
        sent = Sent(
            client.name, client.role, client.scope, name, body, if_tag, label, document, owner, remembers, stamps,
            rewrites=kind == "release" and tenure is None and not stamps,
        )  # fmt: skip
        self._world.say(client.name, "sends %s", label)
        if client.role == "worker" and document["lease"]["fencing_token"] < client.highest_token:
            self._fail(f"{client.name} goes on under a lower token than {client.highest_token}, which it had")
        if client.in_flight is not None:
            self._fail(f"{client.name} has two writes in flight: {client.in_flight.label}; {label}")
        open_write = client.unresolved
        again = open_write is None or (open_write.body, open_write.if_tag) == (body, if_tag)
        if not again and open_write is not None and open_write.scope == client.scope:
            self._fail(f"{client.name} starts {label} while {open_write.label} is unresolved")
        if tenure is not None and (tenure._over != CANCELLED or document["lease"]["owner_id"] is not None):
            # A cancelled tenure gives its lease back however late; only the tag guards that. And a thread that was held
            # up right after its look at the clock cannot know better: then the tag refuses.
            known = self._world.me().known
            if tenure._over not in (None, "deadline"):
                self._fail(f"{client.name} starts {label} although its tenure is over: {tenure._over}")
            elif known is None or known >= tenure._deadline:
                self._fail(f"{client.name} starts {label} without knowing its deadline to be ahead")
        return sent

    def landed(self, sent: Sent, tag: str, modified_at: datetime | None) -> None:
        """Judge a version of the state document when it stands."""
        before, after = self.document, sent.document
        if self._is_late(sent, modified_at):
            self.late.add(tag)
        if before == {} and sent.role == "worker":
            self._fail(f"{sent.label} overwrites a document that cannot be read")
            return
        self.document = self.versions[tag] = after
        if after["lease"]["released_at"] is not None:
            self._freed_by.setdefault(after["lease"]["released_at"], (sent.client, sent.scope))
        self.landed_writes += 1
        write_id = after["write_ids"][-1]
        if write_id in self._write_ids:
            self._fail(f"two copies of {sent.label} landed")
        self._write_ids.add(write_id)
        if not before:
            if sent.role == "operator":
                self._remembered = float("-inf")
                self._judge_recovery(sent, after)
                return
            if self.meddled:
                self._fail(f"{sent.label} begins a deleted document anew")
            if after["checkpoint"]["cursor"] is not None:
                self._fail(f"{sent.label} creates a document that begins elsewhere than at the start")
            before = {**after, "lease": {**after["lease"], "fencing_token": 0, "owner_id": None}}
            before["delivery"] = {"attempts": 0}
        self._judge_token(sent, before, after)
        if after["bound"] is None:
            self._remembered = float("-inf")
        self.judge_kept(before, after, sent.owner)
        if sent.role == "worker":
            self._judge_worker(sent, before, after)
        else:
            self._judge_operator(sent, before, after)

    def _is_late(self, sent: Sent, modified_at: datetime | None) -> bool:
        """Whether a write gave the lease back so late that its stamp says little (protocol 3): one more stamps it, and
        that may be late as well."""
        released = sent.document["lease"]["released_at"]
        base = self.versions.get(sent.if_tag)
        before = base["lease"]["released_at"] if base else None
        if modified_at is None or released is None or sent.stamps:
            return False
        if released == before:  # an operator's change beside it: the release is as late as it was
            return sent.if_tag in self.late
        return (modified_at - datetime.fromisoformat(released)).total_seconds() > 1.0

    def replaced(self, body: bytes | None, tag: str | None) -> None:
        """Somebody else changed or removed the document."""
        try:
            document = None if body is None else json.loads(body)
        except ValueError:
            document = {}
        if document != self.document:
            self.meddled = True
            self._remembered = float("-inf")
            self._highest_token = document["lease"]["fencing_token"] if document else 0
        elif document and document["lease"]["released_at"]:
            self.late.add(tag)  # touched: what was released before is modified now
        self.document = document
        if tag is not None and document is not None:
            self.versions[tag] = document

    def _judge_token(self, sent: Sent, before: Document, after: Document) -> None:
        token, owner = after["lease"]["fencing_token"], after["lease"]["owner_id"]
        if token < self._highest_token:
            self._fail(f"{sent.label} takes the token back from {self._highest_token} to {token}")
        self._highest_token = max(token, self._highest_token)
        if owner is not None and owner != before["lease"]["owner_id"] and token <= before["lease"]["fencing_token"]:
            self._fail(f"{sent.label} gives the lease to {owner} without a new token")
        if after.get("foreign") != before.get("foreign"):
            self._fail(f"{sent.label} loses a field that others put there")

    def _judge_worker(self, sent: Sent, before: Document, after: Document) -> None:
        old, new = before["lease"], after["lease"]
        old_control, new_control = before["control"], after["control"]
        halts = new_control["halted"] and not old_control["halted"]
        if new_control["paused"] != old_control["paused"] or (old_control["halted"] and not new_control["halted"]):
            self._fail(f"{sent.label} undoes an operator's pause or resume")
        if new_control["last_change"] != old_control["last_change"]:
            self._fail(f"{sent.label} loses the record of an operator's change")
        if after["checkpoint"]["generation"] != before["checkpoint"]["generation"]:
            self._fail(f"{sent.label} undoes a reset")
        attempts = after["delivery"]["attempts"]
        started = before["delivery"]["attempts"]
        moved = after["checkpoint"]["cursor"] != before["checkpoint"]["cursor"]
        if new["owner_id"] is not None and new["owner_id"] != old["owner_id"]:
            if moved:
                self._fail(f"{sent.label} moves the checkpoint while it takes the lease")
            nothing_left = (started,) if self.lanes.covered(before) else ()  # of a page that lanes have done
            if not self.counts(attempts, (started + 1, *nothing_left), after):
                self._fail(f"{sent.label} takes the lease without counting the attempt")
            if old_control["paused"] or old_control["halted"]:
                self._fail(f"{sent.label} takes the lease of a paused or halted poller")
            self._acquired.add(new["owner_id"])
            return
        if new["fencing_token"] != old["fencing_token"]:
            self._fail(f"{sent.label} changes the token without taking the lease")
        if sent.remembers:
            self._judge_memory(sent, before, after)
            return
        if sent.rewrites:
            self._judge_rewrite(sent, before, after)
            return
        if old["owner_id"] != sent.owner and not halts:
            self._fail(f"{sent.label} by {sent.owner} changes the document under the lease of {old['owner_id']}")
            return
        if sent.owner is not None:
            self.note_landed(sent.owner, after)
        if moved:
            self._judge_commit(sent, before, after)
            expected: tuple[int, ...] = (0,) if new["owner_id"] is None else (1,)
            if sent.owner in self._failing:  # a call of rows behind them failed meanwhile: that attempt counts
                expected = (*expected, 1)
        else:
            expected = (started, max(0, started - 1)) if new["owner_id"] is None else (started,)
        if not self.counts(attempts, expected, after):
            self._fail(f"{sent.label} counts {attempts} attempts after {started}")
        if new["owner_id"] is None and sent.owner is not None:
            self._released.add(sent.owner)

    def _judge_rewrite(self, sent: Sent, before: Document, after: Document) -> None:
        """A document that nobody writes is written once more as it is, while nobody believes to hold its lease."""
        if any(after[part] != before[part] for part in after if part not in ("lease", "write_ids")):
            self._fail(f"{sent.label} changes the document that it only writes once more")
        self.rewrites += 1
        for process, tenure in self._tenures:
            over = process.dead or tenure._over is not None or tenure._ending
            if not over and process.clock(self._world.now) < tenure._deadline:
                self._fail(f"{sent.label} writes once more what {tenure.owner_id} holds")

    def _judge_memory(self, sent: Sent, before: Document, after: Document) -> None:
        """What is known of the bound is kept while nobody is at work, at most once a minute."""
        if any(after[part] != before[part] for part in ("checkpoint", "delivery")):
            self._fail(f"{sent.label} changes more than what is known of the bound")
        since = self._world.now - self._remembered
        kept, keeps = ((one["bound"] or {}).get("kept_at") for one in (before, after))
        if kept and keeps:  # the server's time in an answer that took a minute to arrive is a minute old
            since = max(since, (datetime.fromisoformat(keeps) - datetime.fromisoformat(kept)).total_seconds())
        if since < 50.0 and self.timed:  # else the wall clocks of processes judge it, and they differ
            self._fail(f"{sent.label} comes {since:.0f} s after the last of its kind")
        self._remembered = self._world.now

    def _judge_commit(self, sent: Sent, before: Document, after: Document) -> None:
        owner = before["lease"]["owner_id"]
        was = self._table.position(before["checkpoint"]["cursor"])
        now = self._table.position(after["checkpoint"]["cursor"])
        if now <= was:
            self._fail(f"{sent.label} moves the checkpoint back from row {was} to row {now}")
        missing = self.passed_unhandled(owner, before, now)
        if missing:
            self._fail(f"{sent.label} passes rows {missing}, whose handler did not succeed under {owner}")
        batch = (owner, after["checkpoint"]["last_successful_batch_id"])
        if batch in self._refused:
            self._fail(f"{sent.label} landed after its tenure learned that it is lost")
        self._committed[batch] = self.landed_writes
        self._committed_to[owner] = now

    def passed_unhandled(self, owner: str, before: Document, now: int) -> list[int]:
        """Which of the rows that its commit passes neither this tenure's handler did, nor the lanes of an earlier one,
        as the document says."""
        done = self.handled[owner] | self.lanes.covered(before)
        was = self._table.position(before["checkpoint"]["cursor"])
        return [number for number in range(was + 1, now + 1) if number not in done]

    def note_landed(self, owner: str, after: Document) -> None:
        """A tenure's write landed: which rows it passed, or says to be done."""
        now = self._table.position(after["checkpoint"]["cursor"])
        self._landed[owner].update(range(1, now + 1), self.lanes.covered(after))

    def judge_kept(self, before: Document, after: Document, owner: str | None) -> None:
        """What the document says of lanes is true."""
        self.lanes.kept(before, after, self.handled[owner] if owner else set())

    def counts(self, attempts: int, expected: tuple[int, ...], after: Document) -> bool:
        """Whether so many attempts are right; while the row that fails is searched for, none count (failures 2)."""
        return attempts in expected or (attempts == 0 and bool(after["delivery"].get("window")))

    def _judge_operator(self, sent: Sent, before: Document, after: Document) -> None:
        moved = after["checkpoint"] != before["checkpoint"]
        if moved and after["checkpoint"]["generation"] <= before["checkpoint"]["generation"]:
            self._fail(f"{sent.label} moves the checkpoint without a new generation")
        if moved and after["lease"]["fencing_token"] <= before["lease"]["fencing_token"]:
            self._fail(f"{sent.label} resets without fencing whoever is at work")
        taken = before["lease"]["owner_id"] != after["lease"]["owner_id"]
        if taken and after["lease"]["fencing_token"] <= before["lease"]["fencing_token"]:
            self._fail(f"{sent.label} takes the lease away without a new token")
        was = self._table.position(before["checkpoint"]["cursor"])
        now = self._table.position(after["checkpoint"]["cursor"])
        self.skipped.update(range(was + 1, now + 1))

    def _judge_recovery(self, sent: Sent, after: Document) -> None:
        """Where the document was gone or unreadable, nobody can tell whether somebody is at work."""
        self._highest_token = after["lease"]["fencing_token"]
        if self._highest_token < max(d["lease"]["fencing_token"] for d in self.versions.values() if d):
            self._fail(f"{sent.label} goes on under a lower token than there was")

    def stands_beside(self, name: str, body: bytes | None) -> None:
        """Another document than the state was written, or removed. No law of the lease is about it."""

    def asked_beside(self, client: Client, name: str, *, answered: bool) -> None:
        """A process has written another document than the state, or got no usable answer to a write or a read of it."""

    def _has_landed(self, owner: str, event: PollerEvent) -> bool:
        """A write may commit several batches; the document names the last one."""
        if (owner, getattr(event, "batch_id", "")) in self._committed:
            return True
        if self.plan.lanes > 1:
            return self.lanes_landed(owner, getattr(event, "batch_id", ""))
        return self._table.place_of(getattr(event, "cursor", "")) <= self._committed_to.get(owner, 0)

    def lanes_landed(self, owner: str, batch_id: str) -> bool:
        """Whether all rows of a batch were passed, or are said to be done."""
        return self._batches[owner].get(batch_id, set()) <= self._landed[owner]

    # --- what processes reported ----------------------------------------------------------------------------------

    def observe(self, process: Process, event: PollerEvent) -> None:
        """Judge what a process believes to have happened."""
        owner: str = getattr(event, "owner_id", "")
        if event.name in ("lease_acquired", "lease_taken_over") and owner not in self._acquired:
            self._fail(f"{process.name} believes in an acquire that never landed")
        elif event.name == "lease_released" and owner not in self._released:
            self._fail(f"{process.name} believes in a release that never landed")
        elif event.name == "batch_committed" and not self._has_landed(owner, event):
            self._fail(f"{process.name} believes in a commit that never landed")
        elif event.name == "stale_commit_refused":
            batch = (owner, getattr(event, "batch_id", ""))
            since = self.landed_writes - self._committed.get(batch, self.landed_writes - WRITE_IDS)
            one = (
                self.plan.lanes == 1
            )  # with several, a write is named for a call of which another may have passed a part
            if one and since < WRITE_IDS and not self.meddled:  # the document names so many writes, then forgets them
                self._fail(f"{process.name} was refused a commit that had landed")
            self._refused.add(batch)
        elif event.name == "lease_lost":
            self._judge_loss(process, owner, getattr(event, "reason", ""))

    def _judge_loss(self, process: Process, owner: str, reason: str) -> None:
        if reason != "deadline":
            lease = (self.document or {}).get("lease")
            held = lease is not None and lease["owner_id"] == owner
            if held and not self.meddled and not (reason == CANCELLED and self._is_cancelled(self.document)):
                self._fail(f"{process.name} reports its lease lost, and it is not")
        elif owner in self._by_owner:
            _, client, _, tenure = self._by_owner[owner]
            if client.unresolved is None and process.clock(self._world.now) < tenure._deadline:
                self._fail(f"{process.name} gives its lease up although its deadline is ahead")

    def _is_cancelled(self, document: Document | None) -> bool:
        return document is not None and document["control"].get("cancelled") == document["lease"]["fencing_token"]

    def delivering(self, owner: str, batch: Batch, rows: list[int]) -> None:
        """A handler is given a batch: the rows right behind the cursor, and right behind this tenure's last batch; in
        one of several lanes the next ones of that lane."""
        process, _, _, tenure = self._by_owner[owner]
        self._made[owner] += 1
        if 0 < self.plan.max_batches < self._made[owner]:
            self._fail(f"{owner} makes {self._made[owner]} calls, and {self.plan.max_batches} are allowed")
        held_up = self.plan.stalls or self.plan.gil or self.plan.stops  # after it was looked whether the lease is ours
        if not held_up and (tenure._over or tenure._ending or process.clock(self._world.now) >= tenure._deadline):
            self._fail(f"{owner} begins rows {rows} although its tenure is over: {tenure._over}")
        self._judge_uncommitted(owner, batch.batch_id, rows)
        self.judge_age(process, batch.rows)
        cursor_from = None if batch.cursor_from is None else batch.cursor_from.model_dump(mode="json")
        begin = self._table.position(cursor_from)
        if self.plan.lanes > 1:
            self.lanes.given(owner, tenure.state.model_dump(mode="json"), begin, rows, batch.standing)
            return
        if rows != list(range(begin + 1, begin + 1 + len(rows))):
            self._fail(f"{owner} is given rows {rows} behind row {begin}")
        if self._reached.get(owner, begin) not in (begin, rows[0] - 1):
            self._fail(f"{owner} is given rows {rows} after row {self._reached[owner]}")
        self._reached[owner] = rows[-1]

    def judge_age(self, process: Process, rows: Sequence[Row]) -> None:
        """A handler is given no row whose page arrived more than five seconds before the call, by the process's clock.
        So each version was in the table at most five seconds and one page before the call: one that was superseded or
        deleted earlier is not handed over. A process that is held up may have looked at its clock before: for it the
        five seconds count from when it goes on. Rows that were set aside come from their records, and are not judged.
        """
        for row in rows:
            age = self.age(process, row["read"])
            if age > KEPT_FOR:
                self._fail(f"row {row['id']} is handed over {age:.1f} s after it was read")

    def age(self, process: Process, moment: float) -> float:
        """The seconds since a true time, or since the process went on if it was held up later; by its own clock, to a
        microsecond."""
        return (self._world.now - max(moment, process.held_up_until)) * process.rate - 1e-6

    def _judge_uncommitted(self, owner: str, batch_id: str, rows: list[int]) -> None:
        """So many batches at most are begun beyond what has landed; what an operator put back since did land."""
        plan, document = self.plan, self.document
        batches = self._batches[owner]
        batches[batch_id] = set(rows)
        most = (max(plan.uncommitted, plan.lanes) if plan.uncommitted else 4 * plan.lanes) if plan.lanes > 1 else 0
        at = self._table.position(document["checkpoint"]["cursor"]) if document else 0
        done = self.lanes.covered(document) | self._landed[owner]
        begun = [name for name, given in batches.items() if any(row > at and row not in done for row in given)]
        if len(begun) > (most or plan.uncommitted or 1) and not self.meddled:
            self._fail(f"{owner} begins {batch_id} while {begun} have not landed")

    def succeeded(self, owner: str, rows: list[int]) -> None:
        """A handler returned: these rows may be passed by this tenure's commit."""
        self.handled[owner].update(rows)
        self.delivered.update(rows)

    def failed(self, owner: str, batch_id: str, rows: list[int]) -> None:
        """A handler failed: the same rows, or some of them, come again."""
        self._reached.pop(owner, None)
        self._batches[owner].pop(batch_id, None)
        self.lanes.failed(owner, rows)
        if self.plan.lanes > 1:
            self._failing.add(owner)

    def at_the_end(self) -> None:
        """The checkpoint stands behind the last row, so every row was delivered, or skipped by an operator."""
        lost = set(range(1, len(self._table.rows) + 1)) - self.delivered - self.skipped
        if lost and not self.meddled:
            self._fail(f"rows {sorted(lost)} were never delivered")

    def idle(self, client: Client, writes: int) -> None:
        """A tick that found no row writes nothing."""
        if writes:
            self._fail(f"{client.name} found no row and sent {writes} writes")

    def _sender(self, client: Client, document: Document, if_tag: str | None) -> Tenure | None:
        """The tenure a worker's write is sent under: that of the version it builds on."""
        if client.role != "worker" or if_tag is None:
            return None
        base = self.versions[if_tag]
        owner = base["lease"]["owner_id"] if base else None
        if owner is None or document["lease"]["owner_id"] not in (None, owner):
            return None
        if owner not in self._by_owner:
            return None
        _, holder, scope, tenure = self._by_owner[owner]
        return tenure if holder is client and scope == client.scope else None

    def _kind(self, document: Document, if_tag: str | None) -> str:
        if if_tag is None:
            return "create"
        base = self.versions[if_tag]
        if not base:
            return "recovery"
        change = document["control"]["last_change"]
        if change is not None and change != base["control"]["last_change"]:
            return str(change["kind"])
        lease, old = document["lease"], base["lease"]
        if lease["owner_id"] not in (None, old["owner_id"]):
            return f"acquire, token {lease['fencing_token']}"
        if document["checkpoint"]["cursor"] != base["checkpoint"]["cursor"]:
            done = self._table.position(document["checkpoint"]["cursor"])
            return f"commit up to row {done}" + ("" if lease["owner_id"] else " and release")
        if lease["owner_id"]:
            return "beat"
        return "release" if document["bound"] == base["bound"] else "remembers"

    def _fail(self, message: str) -> None:
        self._world.fail(message)
