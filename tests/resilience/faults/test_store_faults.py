"""Every fault of one write, on every write that a tenure makes: none is lost, none is taken for done that was not.

A real tenure over a real `BlobStore`, the proxy, and a real Azurite, which is asked in the end.
"""

from __future__ import annotations

import pytest

from poller.errors import StoreUnavailable
from tests.resilience.faults import fault
from tests.resilience.faults.bench import Bench
from tests.resilience.faults.laws import ANY_WRITE, FAULTS, one_fault, one_fault_of_the_create
from tests.resilience.faults.operations import OPERATIONS, Operation
from tests.resilience.faults.plan import STATE_READS, NoFaults, Script
from tests.resilience.faults.proxy import FaultProxy
from tests.support.azurite import Azurite


@pytest.mark.guarantee("One worker at a time", "A lost answer is neither an error nor a second delivery")
@pytest.mark.parametrize(
    ("operation", "kind"),
    [
        pytest.param(
            operation,
            kind,
            marks=() if kind in ANY_WRITE or str(operation) == "commit" else pytest.mark.soak,
            id=f"{operation}-{kind}",
        )
        for operation in OPERATIONS
        for kind in FAULTS
    ],
)
def test_one_fault_of_a_write_loses_neither_lease_nor_write(bench: Bench, operation: Operation, kind: str) -> None:
    one_fault(bench, operation, FAULTS[kind])


@pytest.mark.parametrize("kind", FAULTS)
def test_one_fault_of_the_acquire_is_one_acquire(bench: Bench, kind: str) -> None:
    bench.proxy.plan = script = Script([FAULTS[kind]])
    tenure = bench.acquire()
    assert not script.left
    bench.proxy.release("late")
    bench.proxy.settle()
    tenure.check()
    assert bench.truth().lease.fencing_token == tenure.fencing_token == 2
    tenure.release(give_back=True)
    assert bench.truth().delivery.attempts == 0


@pytest.mark.parametrize("kind", FAULTS)
def test_one_fault_of_the_create_is_one_document(
    azurite: Azurite, proxy: FaultProxy, container: str, kind: str
) -> None:
    """If-None-Match: a copy that landed answers the resend with 409, which is no loss either."""
    one_fault_of_the_create(Bench(azurite, proxy, container), FAULTS[kind])


def test_an_answer_cut_anywhere_inside_its_head_is_no_answer(bench: Bench) -> None:
    """http.client takes a connection's end for the headers' end: the SDK would report a success with half an ETag."""
    store = bench.store()
    tag = None
    for step in range(0, 100, 2):
        bench.proxy.plan = Script([fault.truncated(step / 100)])
        with pytest.raises(StoreUnavailable):
            store.write("state/shop/cut.json", b"{}", if_tag=tag)
        [tag] = bench.proxy.requests[-1].etags
    bench.proxy.plan = NoFaults()
    bench.proxy.plan = Script([fault.truncated(0.8)], STATE_READS)  # a 304 has no body to be cut in
    with pytest.raises(StoreUnavailable):
        store.read("state/shop/cut.json", unless=tag)


def test_a_trickling_answer_costs_one_read_timeout(bench: Bench) -> None:
    """Each receive is quick, the whole never ends: it is given up, and the connection is not used again."""
    tenure = bench.acquire()
    bench.proxy.plan = Script([fault.dribble(0.1, "drip")])
    tenure.renew()
    assert bench.emitted("write_resent") == bench.emitted("write_resolved") == 1
    bench.proxy.plan = Script([fault.dribble(0.1)], STATE_READS)
    with pytest.raises(StoreUnavailable):
        bench.file().read()
    tenure.check()
