"""A write that cannot be resolved in time, and one that is refused outright: neither is taken for lost or done."""

from __future__ import annotations

import threading

import pytest

from poller.errors import CommitError, LeaseLost, StoreDenied, StoreUnavailable
from tests.resilience.faults import fault
from tests.resilience.faults.bench import Bench, Passing, commit, cursor
from tests.resilience.faults.fault import Fault
from tests.resilience.faults.operations import OPERATIONS, Operation
from tests.resilience.faults.plan import STATE_READS, STATE_WRITES, Always, FirstOf, Match, NoFaults, Script
from tests.resilience.faults.request import Request


class Ageing:
    """Each matching request gets the fault, and takes a third of the lease of the runtime's time."""

    def __init__(self, fault: Fault, runtime: Passing, match: Match = STATE_WRITES) -> None:
        self.fault = fault
        self.runtime = runtime
        self.match = match

    def __call__(self, request: Request, /) -> Fault | None:
        if not self.match(request):
            return None
        self.runtime.passes(200.0)
        return self.fault


@pytest.mark.parametrize("applied", [False, True])
def test_a_commit_without_any_answer_is_unknown_at_the_deadline(bench: Bench, applied: bool) -> None:
    """Nothing confirms it and nothing contradicts: the worker says so, and sends nothing more."""
    runtime = Passing()
    tenure = bench.acquire(bench.file(runtime=runtime))
    bench.proxy.reset()
    unanswered = fault.reset_after if applied else fault.reset_before
    bench.proxy.plan = FirstOf(Ageing(unanswered(), runtime), Ageing(fault.drop_before(), runtime, STATE_READS))
    with pytest.raises(CommitError):
        commit(tenure, cursor(7), release=True)
    assert tenure.remaining() == 0
    assert bench.emitted("commit_unknown") == 1
    assert bench.proxy.counts()["PUT"] > 1, "it did try again while there was time"
    bench.proxy.plan = NoFaults()
    bench.proxy.reset()
    with pytest.raises(LeaseLost):
        tenure.release(give_back=False)
    assert bench.proxy.counts() == {}
    now = bench.truth()
    assert now.checkpoint.cursor == (cursor(7) if applied else None)
    assert (now.lease.released_at is not None) is applied


def test_endless_answers_delay_neither_the_loss_nor_the_deadline(
    bench: Bench,
) -> None:
    bench.ttl = 1.5
    tenure = bench.acquire()
    bench.proxy.plan = Always(fault.dribble(0.1))
    ended: list[StoreUnavailable] = []

    def beat() -> None:
        try:
            tenure.renew()
        except StoreUnavailable as error:
            ended.append(error)

    beating = threading.Thread(target=beat)
    beating.start()
    assert tenure.lost.wait(30), "set by the clock, whatever the heartbeat's thread hangs in"
    beating.join(30)
    assert ["is not resolved" in one.message for one in ended] == [True]
    bench.proxy.plan = NoFaults()
    bench.proxy.reset()
    with pytest.raises(LeaseLost):
        commit(tenure, cursor(7), release=True)
    assert bench.proxy.counts() == {}
    assert bench.truth().checkpoint.cursor is None


def test_an_acquire_without_any_answer_gives_up_at_the_deadline(bench: Bench) -> None:
    runtime = Passing()
    bench.proxy.plan = Ageing(fault.error_before(503), runtime)
    with pytest.raises(StoreUnavailable, match="is not resolved"):
        bench.acquire(bench.file(runtime=runtime))
    assert bench.truth().lease.fencing_token == 1


# --- refused, not lost -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [401, 403])
@pytest.mark.parametrize("operation", OPERATIONS, ids=str)
def test_a_refused_permission_is_an_error_and_never_sent_again(bench: Bench, operation: Operation, status: int) -> None:
    tenure = bench.acquire()
    before = bench.truth()
    bench.proxy.reset()
    bench.proxy.plan = Always(fault.error_before(status), STATE_WRITES)
    with pytest.raises(StoreDenied) as denied:
        operation.act(tenure)
    assert str(status) in denied.value.message
    assert denied.value.next_step
    assert bench.proxy.counts() == {"PUT": 1}
    assert bench.truth() == before


def test_a_refusal_after_an_unanswered_copy_settles_nothing(bench: Bench) -> None:
    """The first copy may land yet: so the tenure is over, and nobody claims that nothing was written."""
    tenure = bench.acquire()
    bench.proxy.plan = Script([fault.late("late", answer="reset"), fault.error_before(403)])
    with pytest.raises(CommitError):
        commit(tenure, cursor(7), release=False)
    assert tenure.remaining() == 0
    bench.proxy.release("late")
    assert bench.truth().checkpoint.cursor == cursor(7)
