"""Somebody else writes between a write whose answer was lost and its resend: a real loss is one, and only that."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from poller.admin import Operator
from poller.errors import LeaseLost
from poller.lease import Conflict
from poller.model import transitions
from poller.model.document import State
from tests.resilience.faults import fault
from tests.resilience.faults.bench import Bench, Brisk, commit, cursor
from tests.resilience.faults.fault import Fault
from tests.resilience.faults.operations import OPERATIONS, Operation
from tests.resilience.faults.plan import STATE_WRITES
from tests.resilience.faults.request import Request
from tests.support.operators import pause


def _taken(bench: Bench) -> None:
    """Another owner, under the next token."""

    def take(state: State, now: object) -> State:
        return transitions.acquire(state, owner_id="shop/other/1", ttl=3.0, now=bench.file().clock.now())

    file = bench.file(direct=True)
    file.write(file.read(), take, deadline=file.runtime.monotonic() + 30)


class Between:
    """The first write gets a fault; before the next copy of it arrives, `happens`."""

    def __init__(self, first: Fault, happens: Callable[[], object]) -> None:
        self.first = first
        self.happens = happens
        self.writes = 0

    def __call__(self, request: Request, /) -> Fault | None:
        if not STATE_WRITES(request):
            return None
        self.writes += 1
        if self.writes == 2:
            self.happens()
        return self.first if self.writes == 1 else None


@pytest.mark.parametrize("operation", OPERATIONS, ids=str)
def test_a_write_lost_before_a_takeover_is_a_loss(bench: Bench, operation: Operation) -> None:
    tenure = bench.acquire()
    bench.proxy.plan = Between(fault.reset_before(), lambda: _taken(bench))
    with pytest.raises(LeaseLost) as lost:
        operation.act(tenure)
    assert lost.value.reason == "taken_over"
    assert tenure.lost.is_set()
    now = bench.truth()
    assert (now.lease.owner_id, now.checkpoint.cursor) == ("shop/other/1", None)
    with pytest.raises(LeaseLost):
        commit(tenure, cursor(9), batch_id="batch_9", release=False)
    assert bench.truth() == now


@pytest.mark.parametrize("operation", [one for one in OPERATIONS if one.ends], ids=str)
def test_a_write_that_landed_before_a_takeover_is_a_success(bench: Bench, operation: Operation) -> None:
    """Commit and release landed, the answer was lost, another acquired at once: our write id still stands there."""
    tenure = bench.acquire()
    before = bench.truth()
    bench.proxy.plan = Between(fault.reset_after(), lambda: _taken(bench))
    operation.act(tenure)
    assert tenure.released
    assert bench.emitted("write_resolved") == 1
    now = bench.truth()
    assert now.lease.owner_id == "shop/other/1"
    assert now.checkpoint.cursor == (None if "commit" not in operation.name else cursor(7))
    assert now.lease.fencing_token == before.lease.fencing_token + 1


@pytest.mark.parametrize("landed", [False, True])
@pytest.mark.parametrize("operation", OPERATIONS, ids=str)
def test_a_write_and_an_operators_change_in_its_midst_both_stand(
    bench: Bench, operation: Operation, landed: bool
) -> None:
    """The operator pauses while the worker waits to resend: ours is found, or made again on top; theirs is kept."""
    tenure = bench.acquire()
    before = bench.truth()
    operator = Operator(
        bench.store(direct=True),
        app_name="shop",
        poller_name="orders",
        runtime=Brisk(),
        timing=bench.file().timing,
        by="ann",
    )
    fate = fault.reset_after() if landed else fault.reset_before()
    bench.proxy.plan = Between(fate, lambda: pause(operator))
    operation.act(tenure)
    now = bench.truth()
    assert operation.shows(before, now)
    assert now.control.paused
    assert now.control.by == "ann"
    assert bench.emitted("write_resolved" if landed else "write_redone") == 1
    assert bench.emitted("lease_lost") == 0
    if not operation.ends:
        assert tenure.paused, "and the worker knows of it"
        tenure.release(give_back=True)


def test_an_acquire_lost_before_a_takeover_is_not_ours(bench: Bench) -> None:
    bench.proxy.plan = Between(fault.reset_before(), lambda: _taken(bench))
    with pytest.raises(Conflict):
        bench.acquire()
    assert bench.truth().lease.owner_id == "shop/other/1"
