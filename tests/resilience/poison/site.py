"""A table with rows that fail, workers that are killed, a target, and what must hold of all calls in the end."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from poller.model.document import State, decode
from poller.ports import Found
from poller.stores import BlobStore
from tests.resilience.kills.fleet import Fleet, Worker

STATE = "state/shop/orders.json"


@dataclass(frozen=True)
class Bad:
    """Ids of rows that the handler cannot do: it raises (or names them, with `reports`), its process ends, it hangs."""

    fails: tuple[int, ...]
    exits: tuple[int, ...]
    hangs: tuple[int, ...]
    reports: bool = False
    hangs_in_thread: bool = False

    @property
    def ids(self) -> set[int]:
        """All of them."""
        return {*self.fails, *self.exits, *self.hangs}


@dataclass(frozen=True)
class Call:
    """One call of the handler. `again`: with a row aside, by itself. `ended`: it returned."""

    place: int
    token: int
    batch_id: str
    again: bool
    ids: tuple[int, ...]
    ended: bool


class Site(Fleet):
    """Workers at one table with bad rows.

    Attributes:
        kills: how many workers were killed. ended: tokens of tenures that did not end in order: their worker was
            killed, or ended by a row, or lost the lease. killed: those of them that were ended by `kill_one`.
    """

    def __init__(self, folder: Path, database: str, *, bad: Bad, workers: int, **options: Any) -> None:
        super().__init__(folder, database, handler="tests.resilience.poison.handler:handle", **options)
        self.bad, self.size = bad, workers
        self.store = BlobStore.from_connection_string(self.connection, options["container"])
        self.rows = self.kills = 0
        self.killed: set[int] = set()
        self._delivered = 0
        (folder / "bad.json").write_text(json.dumps(vars(bad)))
        self.execute(
            "CREATE TABLE calls (place bigserial, token bigint, batch_id text, retry bool, replay bool, ids int[], "
            "began timestamptz DEFAULT clock_timestamp(), ended timestamptz)"
        )
        self.execute("CREATE TABLE arrived (id int)")

    def grow(self, rows: int) -> None:
        """So many more rows."""
        self.insert(self.rows + 1, self.rows + rows)
        self.rows += rows

    # --- workers

    def drain(self, *, kills: int, every: tuple[float, float], chance: random.Random, seconds: float) -> None:
        """Until every row was delivered or waits for a person, and so many workers were killed: each a while after
        something was delivered, `every` of so many seconds at least and at most. Else on a busy machine none would ever
        have started. Whoever ended is replaced. Rows follow where all arrived before: more for the kills, and in the
        end single ones, which tell the last rows that fail from an outage."""
        ends = time.monotonic() + seconds
        while self.kills < kills or not self.is_drained():
            assert time.monotonic() < ends, f"not drained: {self.seen()}"
            alive = [worker for worker in self.workers if worker.process.poll() is None]
            for _ in range(self.size - len(alive)):
                self.start()
            if self.kills < kills:
                self.kill_one(chance, wait=chance.uniform(*every))
            if self.behind() == 0:
                self.grow(1 if self.kills >= kills else 100)
            time.sleep(1.0 if self.kills >= kills else 0.2)

    def kill_one(self, chance: random.Random, *, wait: float) -> None:
        """Kill whoever works, so long after something was delivered since the last kill, where it was."""
        if len(self._emitted("batch_committed")) == self._delivered:
            return
        time.sleep(wait)
        working = [worker for worker in self.workers if worker.process.poll() is None and worker.tenure is not None]
        if not working:
            return
        victim: Worker = chance.choice(working)
        victim.kill()
        self.kills += 1
        self._delivered = len(self._emitted("batch_committed"))
        if victim.tenure is not None:
            self.killed.add(victim.tenure)

    def _emitted(self, name: str) -> list[dict[str, Any]]:
        return [event for worker in self.workers for event in worker.emitted(name)]

    def ended(self) -> set[int]:
        """Tokens of tenures that did not end in order. All workers have ended."""
        lost = {event["fencing_token"] for event in self._emitted("lease_lost")}
        dead = {worker.tenure for worker in self.workers if worker.process.returncode != 0 and worker.tenure}
        return self.killed | lost | dead

    def command(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """A command, to its end."""
        return subprocess.run(
            [sys.executable, "-m", "poller_cli.main", *arguments],
            cwd=self.folder,
            env=self.environ(),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def close(self) -> None:
        """End all, and leave what they did beside the test: `calls.txt`, and `NAME.events` of each worker."""
        super().close()
        for worker in self.workers:
            (self.folder / f"{worker.name}.events").write_text(
                "".join(f"{json.dumps(event)}\n" for event in worker.events)
            )
        (self.folder / "calls.txt").write_text("".join(f"{call}\n" for call in self.calls()))

    # --- what came out

    @property
    def state(self) -> State:
        """The state document. There is one."""
        found = self.store.read(STATE)
        assert isinstance(found, Found)
        return decode(found.body, location=STATE)

    def is_drained(self) -> bool:
        """Whether all rows are delivered, or pending."""
        if self.behind() > 0 or not isinstance(self.store.read(STATE), Found):
            return False
        state = self.state
        return not state.aside and len(state.quarantine) >= len(self.bad.ids)

    def seen(self) -> str:
        """What stands there, for the message of a test."""
        state = self.state
        last = [event["event"] for worker in self.workers for event in worker.events[-3:]]
        return f"{self.behind()} rows behind, aside {state.aside}, pending {len(state.quarantine)}, events {last}"

    def behind(self) -> int:
        """How many good rows did not arrive."""
        [(arrived,)] = self.execute("SELECT count(DISTINCT id) FROM arrived")
        return self.rows - len(self.bad.ids) - int(arrived)

    def arrived(self) -> Counter[int]:
        """How often each row was applied."""
        return Counter(dict(self.execute("SELECT id, count(*) FROM arrived GROUP BY id")))

    def calls(self) -> list[Call]:
        """All calls, in the order in which they began."""
        found = self.execute(
            "SELECT place, token, batch_id, retry OR replay, ids, ended IS NOT NULL FROM calls ORDER BY place"
        )
        return [Call(place, token, batch, again, tuple(ids), ended) for place, token, batch, again, ids, ended in found]

    def pending(self) -> dict[int, str]:
        """The rows that wait for a person, by their ids, as their records hold them; and how each failed. Where a
        worker was killed after the write that says so, the record still says that the row is aside: the document
        counts."""
        found = {}
        for row in self.state.quarantine:
            kept = self.store.read(f"quarantine/shop/orders/{row.id}.json")
            assert isinstance(kept, Found), f"no record of {row}"
            record = json.loads(kept.body)
            assert record["status"] in ("pending", "aside"), record
            found[int(record["row"]["id"])] = (record["error"] or {}).get("type") or ""
        return found

    def handed_over_twice(self) -> dict[str, set[int]]:
        """Good rows that were handed over again, by what became of the call before: it was in the hand of a tenure
        that was `killed` or lost, it `failed` because of a bad row in it, took too long without one (`slow`: the
        machine is busy), was `done`, or is `unexplained`."""
        calls, ended = self.calls(), self.ended()
        failures = self._emitted("handler_failed")
        slow = {(event["fencing_token"], event["batch_id"]) for event in failures if "HandlerTimeout" in event["error"]}
        fail = self.bad.ids - set(self.bad.fails if self.bad.reports else ())
        last = {call.token: call.place for call in calls}
        of_row: dict[int, list[Call]] = defaultdict(list)
        for call in calls:
            for id_ in call.ids:
                of_row[id_].append(call)
        found: dict[str, set[int]] = defaultdict(set)
        for id_, handed in of_row.items():
            for call in handed[:-1] if id_ not in self.bad.ids else []:
                if call.token in ended and call.place == last[call.token]:
                    found["killed"].add(id_)
                elif call.ended:
                    found["done"].add(id_)
                elif fail.intersection(call.ids):
                    found["failed"].add(id_)
                else:
                    found["slow" if (call.token, call.batch_id) in slow else "unexplained"].add(id_)
        return found

    def calls_to_find(self, id_: int, *, attempts: int) -> int | None:
        """How many calls it took to find a bad row, once its batch had failed so often; None where a kill fell between
        them."""
        calls = [call for call in self.calls() if not call.again]
        mine = [index for index, call in enumerate(calls) if id_ in call.ids]
        between = calls[mine[0] : mine[-1] + 1]
        last = between[-1].token  # killed later, if at all: else the row would have come once more
        if self.killed.intersection(call.token for call in between).difference({last}):
            return None
        return max(0, len(between) - attempts)
