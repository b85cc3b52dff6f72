"""A document, a worker that commits on demand, and an operator. No real time passes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from poller.admin import Applied, Operator
from poller.lease import Copy
from poller.model import transitions
from poller.model.cursor import Cursor
from poller.model.document import State, decode, encode
from poller.model.timing import Timing
from poller.ports import Found
from poller.stores import MemoryStore
from tests.integration.runner.clockwork import Clockwork
from tests.integration.runner.wire import STATE, Wire
from tests.support.documents import SOURCE
from tests.support.operators import reset

TIMING = Timing(60.0, 15.0)


def at(number: int) -> Cursor:
    return Cursor(kind="timestamp+pk", value=f"2026-04-01T00:{number:02d}:00.000000Z", tiebreaker={"id": number})


class World:
    """A document at row 5 with token 3, a worker that commits on demand, and an operator."""

    def __init__(self) -> None:
        self.runtime = Clockwork()
        self.memory = MemoryStore(self.runtime)
        self.wire = Wire(self.memory)
        start = transitions.create("orders", SOURCE, at(5), now=self.runtime.utcnow())
        self.put(start.model_copy(update={"lease": start.lease.model_copy(update={"fencing_token": 3})}))
        self.operator = Operator(
            self.wire, app_name="shop", poller_name="orders", runtime=self.runtime, timing=TIMING, by="ada"
        )
        self.seen: list[Copy] = []

    def put(self, state: State) -> None:
        found = self.memory.read(STATE)
        tag = found.tag if isinstance(found, Found) else None
        self.memory.write(STATE, encode(state.with_write_id(self.runtime.new_id())), if_tag=tag)

    @property
    def state(self) -> State:
        found = self.memory.read(STATE)
        assert isinstance(found, Found)
        return decode(found.body, location=STATE)

    def change(self, change: Callable[[State], State]) -> None:
        self.put(change(self.state))

    def hold(self) -> None:
        """A worker takes the lease."""
        now = self.runtime.utcnow()
        self.change(lambda state: transitions.acquire(state, owner_id="shop/worker", ttl=60, now=now))

    def commit(self, number: int, *, release: bool = False) -> None:
        now = self.runtime.utcnow()
        self.change(
            lambda state: transitions.commit(
                state, cursor=at(number), batch_id=f"b{number}", metadata={}, release=release, now=now
            )
        )

    def reset(self, **more: Any) -> Applied:
        return reset(self.operator, None, review=self.seen.append, **more)

    def backups(self) -> list[State]:
        names = self.memory.names("backups/")
        found = [self.memory.read(name) for name in names]
        return [decode(one.body, location="") for one in found if isinstance(one, Found)]
