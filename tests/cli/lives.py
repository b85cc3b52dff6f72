"""A poller that sets rows aside, at a place where its ticks and commands are killed by SIGKILL: what must hold at each
moment, and in the end."""

from __future__ import annotations

import json
import re
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from poller.model.document import State, WaitingRow, decode
from poller.ports import Found
from tests.cli.crashes import Embedded, OnAzurite, Place, placed
from tests.cli.forge import Forge
from tests.cli.project import Project

TICK = ("run", "orders", "--once")
CUSTOMERS = {1: "a", 2: "b", 3: "b", 4: "c", 5: "c", 6: "d", 7: "d", 8: "e", 9: "a"}
"""The rows and their ordering keys. Row 2 fails, row 4 is rejected, row 6 kills the process; 3, 5 and 7 follow them."""
PENDING, FOLLOWING = {2, 4, 6}, {3, 5, 7}
OPTIONS = """on_poison = "quarantine"
batch_size = 4
max_attempts = 1
retry_backoff = "100ms"
retry_backoff_max = "200ms"
ordering_key = ["customer"]"""
HANDLERS = """
import json, os, signal
from pathlib import Path
from poller import Reject

def note(**what):
    with (Path(__file__).parent / "calls").open("a") as out:
        out.write(json.dumps(what) + "\\n")

def handle(batch):
    ids = [row["id"] for row in batch]
    note(tick=os.environ["TICK"], ids=ids, again=batch.retry)
    bad = {2, 4, 6} if not (Path(__file__).parent / "mended").exists() else set()
    for row in batch:
        if row["id"] not in bad:
            continue
        if row["id"] == 6:
            os.kill(os.getpid(), signal.SIGKILL)
        elif row["id"] == 2:
            FAIL
        elif row["id"] == 4:
            REJECT
    note(done=[one for one in ids if one not in bad])
"""
PASSING = re.compile(r'\d{4}-\d\d-\d\dT[\d:.]+Z|batch_\d+_\d+_|shop/[^/"]+/[0-9a-f]{8}|"write_ids": \[[^\]]*\]')
"""What every run makes anew: moments and random ids."""
WAYS = {
    "raises": ('raise ValueError("no")', 'raise Reject(row, "no")'),
    "reports": ('batch.fail(row, "no")', 'batch.reject(row, "no")'),
}


@dataclass
class Call:
    """One call of the handler: under which tick, with which rows, and which of them it reported done."""

    tick: int
    ids: list[int]
    done: tuple[int, ...] = ()


class Life:
    """A poller at a place, tick after tick; at most one of its ticks is killed from outside."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.ticks = 0
        self.killed: int | None = None
        self.ahead = 0
        """By how many seconds the server's clock was set ahead, so that leases ended."""
        self.kept = (0, "", "", 0)

    # --- ticks

    def tick(self, *command: str) -> list[str]:
        """One tick, or another command, that nobody disturbs but row 6. Its steps."""
        self._begin()
        if isinstance(self.place, OnAzurite):
            self.place._proxy.reset()
        self.place.forge.run(*(command or TICK))
        steps = self.place.forge.steps
        if isinstance(self.place, OnAzurite):
            self.place._proxy.settle()
            steps = [f"{r.request.method} {r.request.blob}" for r in self.place._proxy.requests]
        self.holds()
        return steps

    def kill(self, step: int, when: str, *command: str) -> bool:
        """A tick, or another command, that is killed there; False where it came to its end before."""
        command = command or TICK
        self._begin()
        self.killed = self.ticks
        if isinstance(self.place, Embedded):
            return self.place.forge.run(*command, step=step, when=when) == -signal.SIGKILL
        try:
            process = self.place._hold(step, when, *command)
        except AssertionError:
            return False
        return self.place._kill(process) == -signal.SIGKILL

    def _begin(self) -> None:
        """Whoever was killed left a lease: it is over."""
        state = self.state
        if state is not None and state.lease.owner_id is not None:
            if isinstance(self.place, OnAzurite):
                self.place._proxy.clock.step(120)
                self.ahead += 120
            else:
                with closing(sqlite3.connect(self.place.project.folder / "state.db")) as db, db:
                    db.execute(
                        "UPDATE poller_documents SET modified_at = "
                        "strftime('%Y-%m-%dT%H:%M:%f', modified_at, '-120 seconds') WHERE name LIKE 'state/%'"
                    )
        self.ticks += 1
        self.place.project.environ["TICK"] = str(self.ticks)

    def drain(self) -> None:
        """Until only rows wait that a person must see to. Single rows that follow tell the last ones that fail from an
        outage."""
        for _ in range(60):
            self.tick()
            if self.is_settled():
                return
            state = self.state
            if state is not None and self.at(state) == self.rows()[-1] and not state.delivery.last_error:
                self.insert(self.rows()[-1] + 1, "z")
        raise AssertionError(f"{self.place.body('orders')!r}")

    def mend(self) -> None:
        """From now on the handler can do every row."""
        (self.place.project.folder / "mended").touch()

    # --- the table, and what is kept

    def insert(self, number: int, customer: str) -> None:
        at = f"2026-01-01 00:00:{number:02d}"
        self.place.project.execute("INSERT INTO orders VALUES (?, ?, ?)", (number, at, customer))

    def rows(self) -> list[int]:
        return [number for (number,) in self.place.project.execute("SELECT id FROM orders ORDER BY id")]

    def keep(self) -> None:
        self.place.keep()
        calls = self.place.project.folder / "calls"
        self.kept = (self.ticks, calls.read_text() if calls.exists() else "", json.dumps(self.rows()), self.ahead)

    def restore(self) -> None:
        self.ticks, calls, rows, self.ahead = self.kept
        if isinstance(self.place, OnAzurite):
            self.place._proxy.clock.reset()
            self.place._proxy.clock.step(self.ahead)  # what is put back was written under that clock
        self.place.restore()
        self.killed = None
        (self.place.project.folder / "calls").write_text(calls)
        self.place.project.execute(f"DELETE FROM orders WHERE id > {json.loads(rows)[-1]}")

    # --- what holds

    @property
    def state(self) -> State | None:
        body = self.place.body("orders")
        return None if body is None else decode(body, location="orders")

    def at(self, state: State) -> int:
        """The last row before the checkpoint."""
        cursor = state.checkpoint.cursor
        return 0 if cursor is None else int((cursor.tiebreaker or {})["id"])

    def calls(self) -> list[Call]:
        found: list[Call] = []
        for line in self.place.project.lines("calls"):
            noted: dict[str, Any] = json.loads(line)
            if "done" in noted:
                found[-1].done = tuple(noted["done"])
            else:
                found.append(Call(int(noted["tick"]), noted["ids"]))
        return found

    def listed(self, entries: tuple[WaitingRow, ...]) -> set[int]:
        """The rows of these entries, as their records hold them."""
        found = []
        for entry in entries:
            kept = self.place.store.read(f"quarantine/shop/orders/{entry.id}.json")
            assert isinstance(kept, Found), f"there is no record of {entry}"
            row = json.loads(kept.body)["row"]
            assert row["customer"] == CUSTOMERS.get(row["id"], "z")
            found.append(row["id"])
        assert len(found) == len(set(found)), f"a row is listed twice: {found}"
        return set(found)

    def holds(self) -> None:
        """At each moment: what the checkpoint passed is done, or listed; what was done comes again only from the call
        that was killed."""
        state, calls = self.state, self.calls()
        done = {one for call in calls for one in call.done}
        if state is not None:
            listed = self.listed((*state.aside, *state.quarantine))
            passed = {number for number in self.rows() if number <= self.at(state)}
            assert passed <= done | listed, f"passed, and neither done nor listed: {passed - done - listed}"
        last = [call for call in calls if call.tick == self.killed][-1:]
        for index, call in enumerate(calls):
            again = {one for other in calls[index + 1 :] for one in other.ids}
            assert call in last or not again.intersection(call.done), f"{call} was done, and came again"

    def sight(self) -> str:
        """All that a later tick can see, but for moments and random ids."""
        store = self.place.store
        names = sorted([*store.names("state/"), *store.names("quarantine/")])
        bodies = "".join(f"{name} {(self.place.stored(name) or b'').decode()}" for name in names)
        return PASSING.sub("", f"{self.ticks} {self.rows()} {self.place.project.lines('calls')} {bodies}")

    def is_done(self) -> bool:
        """Whether no row waits, and each is done."""
        state = self.state
        done = {one for call in self.calls() for one in call.done}
        return state is not None and not state.aside and not state.quarantine and set(self.rows()) <= done

    def is_settled(self) -> bool:
        """Whether all is as if nobody had been killed: bad rows are pending, rows that follow one wait behind it unless
        they were in one call with it, and all others are done."""
        state = self.state
        if state is None or self.at(state) != self.rows()[-1]:
            return False
        waiting = self.listed(state.aside)
        if not waiting <= FOLLOWING or self.listed(state.quarantine) != PENDING:
            return False
        return set(self.rows()) - PENDING - waiting <= {one for call in self.calls() for one in call.done}


@contextmanager
def begun(request: pytest.FixtureRequest, project: Project, forge: Forge) -> Iterator[Life]:
    """A life at the place that the parameter names, `embedded` or `azurite`, with a handler that `raises` or `reports`,
    as in `embedded-raises`."""
    where, way = request.param.split("-")
    fail, reject = WAYS[way]
    project.execute(
        "CREATE TABLE orders (id INTEGER PRIMARY KEY NOT NULL, updated_at TEXT NOT NULL, customer TEXT NOT NULL)"
    )
    project.configure(
        "orders",
        handlers=HANDLERS.replace("FAIL", fail).replace("REJECT", reject),
        poller=OPTIONS,
        source='bound = "none"',
    )
    with placed(request, project, forge, where) as place:
        if isinstance(place, OnAzurite):
            place._blobs.create_container()
        life = Life(place)
        for number, customer in CUSTOMERS.items():
            life.insert(number, customer)
        yield life
