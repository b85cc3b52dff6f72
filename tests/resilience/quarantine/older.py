"""A process of a version that knows none of these rules: fields that it does not know survive its writes."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime

from poller.model import transitions
from poller.model.document import State
from tests.resilience.quarantine.handler import Call, Cancelled, Handler
from tests.resilience.quarantine.laws import Laws
from tests.resilience.quarantine.tick import FAILED, Change, Lost, Settings, Steps, Writer
from tests.resilience.quarantine.world import TTL, Version, World


class OlderTick(Writer):
    """One tick of it."""

    older = True

    def __init__(
        self, name: str, world: World, laws: Laws, settings: Settings, handler: Handler, *, lost_answers: float
    ) -> None:
        super().__init__(name, world, laws, settings, lost_answers=lost_answers)
        self.handler = handler

    def run(self) -> Steps:
        world, state, most = self.world, self.state, self.settings.limits.max_attempts
        if state.control.paused or state.control.halted or not world.free():
            return
        if state.delivery.attempts >= most:
            self.deadline = world.now + TTL
            with suppress(Lost):
                yield from self.put(
                    older(lambda state, now: transitions.halt(state, reason="attempts", now=now)), "old", redo=False
                )
            return
        rows = self._page()
        if not rows or not (yield from self.acquire(lambda state, now: state)):
            return
        world.seen["older version"] += 1
        try:
            while rows:
                call = Call(tuple(row.facts for row in rows), self.state, 0)
                yield from self.handler.run(self, call, older=True)
                if call.report.end != "returned":
                    yield from self.put(older(lambda state, now: _failed(state, most, now)), "old")
                    return
                cursor = rows[-1].facts.cursor
                yield from self.put(
                    older(
                        lambda state, now, cursor=cursor: transitions.commit(  # type: ignore[misc]
                            state, cursor=cursor, batch_id="o", metadata={}, release=False, now=now
                        )
                    ),
                    "old",
                    call,
                )
                rows = self._page()
            yield from self.put(older(lambda state, now: transitions.release(state, give_back=True, now=now)), "old")
        except Lost:
            world.seen["lost"] += 1
        except Cancelled:
            yield from self.give_up_cancelled()

    def _page(self) -> list[Version]:
        return self.world.table.page(self.state.checkpoint.cursor, self.settings.batch_size)


def older(change: Change) -> Change:
    """A change as a version makes it that keeps the fields of failing rows without knowing them."""

    def unknowing(state: State, now: datetime) -> State:
        bare = state.model_copy(
            update={
                "checkpoint": state.checkpoint.model_copy(update={"position": 0}),
                "delivery": state.delivery.model_copy(update={"retry_at": None, "failures": 0, "window": None}),
                "control": state.control.model_copy(update={"cancelled": None}),
                "aside": (),
                "quarantine": (),
                "retrying": None,
                "delivered": 0,
            }
        )
        after = change(bare, now)
        known = state.delivery
        return after.model_copy(
            update={
                "checkpoint": after.checkpoint.model_copy(update={"position": state.checkpoint.position}),
                "delivery": after.delivery.model_copy(
                    update={"retry_at": known.retry_at, "failures": known.failures, "window": known.window}
                ),
                "control": after.control.model_copy(update={"cancelled": state.control.cancelled}),
                "aside": state.aside,
                "quarantine": state.quarantine,
                "retrying": state.retrying,
                "delivered": state.delivered,
            }
        )

    return unknowing


def _failed(state: State, most: int, now: datetime) -> State:
    """A failure as the version before windows wrote it: released, and halted after so many starts."""
    state = transitions.release(state, give_back=False, now=now)
    state = state.model_copy(update={"delivery": state.delivery.model_copy(update={"last_error": FAILED})})
    return transitions.halt(state, reason="attempts", now=now) if state.delivery.attempts >= most else state
