"""The show about a poison row, in order, and the count afterwards that proves it."""

from __future__ import annotations

import math
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from poller_cli.demo.play import PATIENCE, DemoFailed
from poller_cli.demo.poison_scene import BATCH_SIZE, MAX_ATTEMPTS, PoisonScene, poison_flight, same_aircraft
from poller_cli.demo.scene import POLLER, flights, key_of
from poller_cli.demo.workers import Event, Worker, wait_for
from poller_cli.output.models import PoisonDemoOutput

ARRIVAL_SECONDS = 8.0
"""The time in which the flights arrive."""
CALLS_TO_FIND_AT_MOST = int(2 * math.log2(BATCH_SIZE) + 4)
"""So many calls at most find one bad row, once halving has begun (failures 2)."""


@dataclass(slots=True)
class PoisonPlay:
    """One show. `say` is given each line of it, with the seconds since the beginning; `stop` ends it."""

    scene: PoisonScene
    say: Callable[[float, str], None]
    stop: threading.Event = field(default_factory=threading.Event)
    _began: float = field(default_factory=time.monotonic)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _in_hand: int = 0
    _failed: int = 0
    _calls: int = 0
    _strikes: int | None = None
    _aside: bool = False
    _worker: Worker | None = None
    _replay: Worker | None = None

    def perform(self) -> PoisonDemoOutput:
        """Everything, from the first flight to the closing count. Raises: DemoFailed; KeyboardInterrupt (stopped)."""
        self.scene.build()
        rows = list(flights())
        held = {key_of(row) for row in same_aircraft(rows, poison_flight())}
        self._say(f"{len(rows):,} flights of January 2013 begin to arrive in a SQLite table.")
        writer = subprocess.Popen(
            [sys.executable, "-m", "poller_cli.demo.writer", str(self.scene.folder), str(ARRIVAL_SECONDS)]
        )
        self._worker = worker = Worker("A", self.scene, self._observe)
        try:
            worker.start()
            self._say(
                f'A worker begins, on_poison = "quarantine": the handler gets up to {BATCH_SIZE} flights a call, and '
                "there is one that it cannot handle."
            )
            self._wait("the poison row", lambda: self._strikes is not None)
            self._wait(
                "all others", lambda: writer.poll() is not None and len(self._delivered()) >= len(rows) - len(held)
            )
            self._say(f"All others are delivered, {len(rows) - len(held):,}; {len(held)} wait.")
            while_waiting = len(self._delivered())
            self._replay_all()
            self._wait("the replay", lambda: len(self._delivered()) >= len(rows))
            if worker.stop(PATIENCE) != 0:
                raise DemoFailed(f"The worker did not end well: {worker.last_error}")
        finally:
            for one in (worker, self._replay):
                if one is not None and hasattr(one, "process"):
                    one.kill()
            writer.kill()
            writer.wait()
        return self._count(rows, while_waiting)

    def _say(self, line: str) -> None:
        self.say(time.monotonic() - self._began, line)

    def _observe(self, _worker: Worker, event: Event) -> None:
        with self._lock:
            match event["event"]:
                case "batch_started":
                    self._in_hand = event["rows"]
                    self._calls += self._failed >= MAX_ATTEMPTS and not self._aside
                case "handler_failed":
                    self._fails(event["error"])
                case "batch_committed" if self._failed and not self._aside:
                    self._say(f"A part of it, {self._in_hand}, works.")
                case "row_set_aside":
                    self._sets_aside(behind=event["behind"])
                case "row_quarantined":
                    self._strikes = event["strikes"]
                    self._say(
                        f"{event['strikes']} of its {event['failures']} failures came after others had worked: it is "
                        "poison, and waits for a person."
                    )

    def _fails(self, error: str) -> None:
        if self._aside:
            self._say("It is retried alone, and fails again; the others go on.")
            return
        self._failed += 1
        if self._failed <= MAX_ATTEMPTS:
            self._say(f"A call with {self._in_hand} flights fails, attempt {self._failed}: {error}")
        else:
            part = f"A part of it, {self._in_hand}, fails."
            self._say(part if self._in_hand > 1 else "One fails alone: this is the row.")

    def _sets_aside(self, *, behind: bool) -> None:
        if not behind and not self._aside:
            self._aside = True
            self._say(f"Found in {self._calls} calls, recorded and set aside. The checkpoint moves on.")
        elif behind:
            self._say("A later flight of the same aircraft waits behind it, unhandled.")

    def _replay_all(self) -> None:
        """What a person does, once the handler is fixed."""
        self.scene.fixed.touch()
        self._say(f"The handler is fixed. You type: poller quarantine replay {POLLER} --all")
        words = ("quarantine", "replay", POLLER, "--all", "--reason", "the handler is fixed", "--yes", "--json")
        self._replay = replay = Worker("replay", self.scene, lambda *_: None)
        replay.start(words)
        self._wait("the command", lambda: replay.process.poll() is not None)
        if replay.process.returncode != 0:
            raise DemoFailed(f"The replay ended with {replay.process.returncode}: {replay.last_error}")
        self._say("It is delivered, and then those behind it, oldest first.")

    def _delivered(self) -> list[str]:
        """The keys that reached the handler, in order: tenure by tenure."""
        found: list[tuple[int, str]] = []
        for worker in (self._worker, self._replay):
            path = None if worker is None else self.scene.deliveries(worker.name)
            if path is not None and path.exists():
                lines = path.read_text(encoding="utf-8").splitlines()
                found += [(int(line.rpartition("\t")[2]), line.partition("\t")[0]) for line in lines]
        return [key for _, key in sorted(found, key=lambda one: one[0])]

    def _wait(self, what: str, condition: Callable[[], bool]) -> None:
        done = wait_for(lambda: self.stop.is_set() or condition(), PATIENCE)
        if self.stop.is_set():
            raise KeyboardInterrupt
        if not done:
            error = self._worker.last_error if self._worker is not None else ""
            raise DemoFailed(f"Waited {PATIENCE:.0f} s for {what} without success. {error}")

    def _count(self, rows: list[dict[str, str]], while_waiting: int) -> PoisonDemoOutput:
        """Compare what arrived with what the handler recorded."""
        delivered = self._delivered()
        seen = Counter(delivered)
        expected = [key_of(row) for row in rows]
        aircraft = [key_of(row) for row in same_aircraft(rows, poison_flight())]
        own = set(aircraft)
        missing = len(set(expected) - seen.keys())
        twice = sum(1 for count in seen.values() if count > 1)
        in_order = [key for key in delivered if key in own] == aircraft
        return PoisonDemoOutput(
            rows_written=self.scene.count(),
            rows_delivered=len(seen),
            missing=missing,
            delivered_twice=twice,
            calls_to_find=self._calls,
            calls_to_find_at_most=CALLS_TO_FIND_AT_MOST,
            strikes=self._strikes or 0,
            delivered_before_replay=while_waiting,
            delivered_by_replay=len(seen) - while_waiting,
            in_order_per_aircraft=in_order,
            elapsed_seconds=round(time.monotonic() - self._began, 1),
            ok=not missing
            and not twice
            and in_order
            and self._calls <= CALLS_TO_FIND_AT_MOST
            and self._strikes == MAX_ATTEMPTS
            and while_waiting == len(expected) - len(aircraft),
        )
