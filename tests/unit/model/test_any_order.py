"""Every transition in every order: the laws that hold through any sequence of them."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from poller.model import transitions
from poller.model.cursor import Cursor
from poller.model.document import OperatorChange, State, decode, encode
from tests.support.documents import SOURCE
from tests.unit.model.example import change, strange, unknown

NOW = datetime(2026, 4, 7, 2, 0, tzinfo=UTC)
cursors = st.builds(
    Cursor,
    kind=st.just("timestamp+pk"),
    value=st.integers(1, 28).map(lambda day: f"2026-05-{day:02d}T00:00:00.000000Z"),
    tiebreaker=st.none() | st.fixed_dictionaries({"id": st.integers(0, 10**12)}),
)


class Document(RuleBasedStateMachine):
    """Every transition in every order. Each step is written and read back, as a store would.

    What we do not know survives everything but the replacement of the whole that it stands in: a cursor that an
    operator sets, an error that is over, the record of a newer change, the description of another source.
    """

    def __init__(self) -> None:
        super().__init__()
        self.state = strange()
        self.before = self.state
        self.now = NOW
        self.changes = 0
        self.strangers = unknown(json.loads(encode(self.state)))

    def to(self, state: State) -> None:
        self.before = self.state
        body = encode(state)
        self.state = decode(body, location="blob", poller_name="orders")
        assert self.state == state
        assert encode(self.state) == body

    def change(self, kind: str) -> OperatorChange:
        self.changes += 1
        return change(self.changes, kind)

    @property
    def held(self) -> bool:
        return self.state.lease.owner_id is not None

    @initialize(fresh=st.booleans(), at=st.none() | cursors)
    def begin(self, fresh: bool, at: Cursor | None) -> None:
        if fresh:
            self.state = self.before = transitions.create("orders", SOURCE, at, now=self.now)
            self.strangers = {}
            assert self.state.checkpoint.cursor == at
            assert self.state.lease.fencing_token == 0

    @rule(seconds=st.integers(0, 3600))
    def wait(self, seconds: int) -> None:
        self.now += timedelta(seconds=seconds)
        self.before = self.state

    @rule()
    def acquire(self) -> None:
        attempts = self.state.delivery.attempts
        self.to(transitions.acquire(self.state, owner_id=f"shop/host/{self.now}", ttl=60.0, now=self.now))
        assert self.state.lease.fencing_token == self.before.lease.fencing_token + 1
        assert self.state.delivery.attempts == attempts + 1
        assert self.state.lease.released_at is None
        assert self.state.lease.ttl_seconds == 60.0
        assert self.state.lease.expires_at == self.now + timedelta(seconds=60)
        assert self.state.checkpoint == self.before.checkpoint

    @precondition(lambda self: self.held)
    @rule()
    def renew(self) -> None:
        self.to(transitions.renew(self.state, now=self.now))
        assert self.state.lease.heartbeat_at == self.now
        assert transitions.still_held(self.before, self.state)
        assert (self.state.checkpoint, self.state.delivery) == (self.before.checkpoint, self.before.delivery)

    @precondition(lambda self: self.held)
    @rule(at=cursors, release=st.booleans())
    def commit(self, at: Cursor, release: bool) -> None:
        self.to(
            transitions.commit(
                self.state, cursor=at, batch_id="b", metadata={"row_count": 5}, release=release, now=self.now
            )
        )
        self.strangers.pop("delivery.last_error.x_error", None)
        moved = self.state.checkpoint.cursor
        assert moved is not None
        assert (moved.value, moved.tiebreaker) == (at.value, at.tiebreaker)
        assert self.state.checkpoint.metadata["row_count"] == 5
        assert self.state.checkpoint.generation == self.before.checkpoint.generation
        assert self.state.delivery.attempts == (0 if release else 1)
        assert self.state.delivery.last_error is None
        assert self.held is not release

    @precondition(lambda self: self.held)
    @rule(give_back=st.booleans())
    def release(self, give_back: bool) -> None:
        self.to(transitions.release(self.state, give_back=give_back, now=self.now))
        expected = max(0, self.before.delivery.attempts - give_back)
        assert self.state.delivery.attempts == expected
        assert self.state.checkpoint == self.before.checkpoint
        assert not self.held

    @rule()
    def halt(self) -> None:
        self.to(transitions.halt(self.state, reason="five times", now=self.now))
        assert self.state.control.halted
        assert self.state.control.paused == self.before.control.paused
        assert not self.held

    @rule()
    def pause(self) -> None:
        record = self.change("pause")
        self.to(transitions.pause(self.state, by="ann", reason="deploy", change=record, now=self.now))
        self.strangers.pop("control.last_change.x_change", None)
        assert self.state.control.paused
        assert self.state.control.last_change == record
        self.beside_a_tenure()

    @rule()
    def resume(self) -> None:
        record = self.change("resume")
        self.to(transitions.resume(self.state, change=record, now=self.now))
        self.strangers.pop("control.last_change.x_change", None)
        assert not self.state.control.paused
        assert not self.state.control.halted
        assert self.state.control.by is None
        assert self.state.delivery.attempts == 0
        assert self.state.control.last_change == record
        self.beside_a_tenure()

    def beside_a_tenure(self) -> None:
        """An operator's switch neither moves the checkpoint nor ends a live tenure."""
        assert self.state.checkpoint == self.before.checkpoint
        assert self.state.lease.fencing_token == self.before.lease.fencing_token
        if self.before.lease.owner_id is not None:
            assert transitions.still_held(self.before, self.state)

    @rule(at=st.none() | cursors, hold=st.booleans())
    def reset(self, at: Cursor | None, hold: bool) -> None:
        record = self.change("reset")
        state = transitions.reset(self.state, cursor=at, change=record, now=self.now)
        if hold:
            state = transitions.hold(state, owner_id="operator/ann/1", ttl=60.0, now=self.now)
        self.to(state)
        for gone in ("checkpoint.cursor.x_cursor", "checkpoint.metadata.x_metadata"):
            self.strangers.pop(gone, None)
        for gone in ("delivery.last_error.x_error", "control.last_change.x_change"):
            self.strangers.pop(gone, None)
        assert self.state.checkpoint.cursor == at
        assert self.state.checkpoint.generation == self.before.checkpoint.generation + 1
        assert self.state.lease.fencing_token == self.before.lease.fencing_token + 1
        assert self.state.delivery.attempts == 0
        assert self.state.delivery.last_error is None
        assert not self.state.control.halted
        assert self.state.control.paused == self.before.control.paused
        assert self.held is hold
        assert not transitions.still_held(self.before, self.state)

    @rule(hold=st.booleans())
    def rebind(self, hold: bool) -> None:
        record = self.change("rebind")
        state = transitions.rebind(self.state, source=SOURCE, change=record, now=self.now)
        if hold:
            state = transitions.hold(state, owner_id="operator/ann/2", ttl=60.0, now=self.now)
        self.to(state)
        for gone in ("source.x_source", "source.database.x_database", "control.last_change.x_change"):
            self.strangers.pop(gone, None)
        assert self.state.source_fingerprint == SOURCE.fingerprint()
        assert self.state.checkpoint == self.before.checkpoint
        assert self.state.lease.fencing_token == self.before.lease.fencing_token + 1
        assert self.held is hold
        assert not transitions.still_held(self.before, self.state)

    @invariant()
    def the_token_never_decreases(self) -> None:
        assert self.state.lease.fencing_token >= self.before.lease.fencing_token

    @invariant()
    def the_generation_never_decreases(self) -> None:
        assert self.state.checkpoint.generation >= self.before.checkpoint.generation

    @invariant()
    def what_we_do_not_know_survives(self) -> None:
        assert unknown(json.loads(encode(self.state))) == self.strangers

    @invariant()
    def a_lease_is_either_held_or_released_by_the_write_that_left_it(self) -> None:
        lease = self.state.lease
        assert (lease.owner_id is None) == (lease.released_at is not None)
        if lease.owner_id is None and self.state is not self.before:
            assert lease.released_at == self.now

    @invariant()
    def attempts_are_never_negative(self) -> None:
        assert self.state.delivery.attempts >= 0


Document.TestCase.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
TestDocument = Document.TestCase
