"""Every fault of one write, on every write that a tenure makes: none is lost, none is taken for done that was not.

A real tenure over a real `BlobStore`, the proxy, and a real Azurite, which is asked in the end.
"""

from __future__ import annotations

import pytest

from poller.errors import StoreUnavailable
from poller.model.document import State
from tests.resilience.faults import fault
from tests.resilience.faults.bench import NAME, Bench, commit, cursor
from tests.resilience.faults.fault import Fault
from tests.resilience.faults.operations import OPERATIONS, Operation
from tests.resilience.faults.plan import STATE_READS, NoFaults, Script
from tests.resilience.faults.proxy import FaultProxy
from tests.support.azurite import Azurite

FAULTS: dict[str, Fault] = {
    "reset-before": fault.reset_before(),
    "reset-after": fault.reset_after(),
    "dropped-before": fault.drop_before(),
    "dropped-after": fault.drop_after(),
    "500-before": fault.error_before(500),
    "500-after": fault.error_after(500),
    "503": fault.error_before(503, retry_after=30),
    "408-after": fault.error_after(408),
    "429": fault.error_before(429, retry_after=30),
    "late": fault.late(seconds=0.02, answer="reset"),
    "later-than-the-resend": fault.late("late", answer="error"),
    "delivered-twice": fault.duplicate(),
    "delivered-twice-second-answer": fault.duplicate(second_answer=True),
    "black-hole": fault.black_hole(),
    "silence-after": fault.silence_after(),
    "head-cut-to-nothing": fault.truncated(0.0),
    "head-cut-late": fault.truncated(0.9),
    "dribbling": fault.dribble(0.1),
    "slow-there": fault.hold_before(seconds=0.1),
    "slow-back": fault.hold_after(seconds=0.1),
    "date-off": fault.date_off(7200),
    "no-etag": fault.without("ETag"),
    "no-date": fault.without("Date", "Last-Modified"),
}


ANY_WRITE = {"reset-after", "503", "later-than-the-resend", "delivered-twice", "silence-after"}
"""Tried with every operation; each other one with a commit, and in the soak with all."""


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
    tenure = bench.acquire()
    before = bench.truth()
    bench.proxy.reset()
    bench.proxy.plan = script = Script([FAULTS[kind]])
    operation.act(tenure)
    assert not script.left
    bench.proxy.release("late")
    bench.proxy.settle()
    _happened_once(bench, operation, before)
    if operation.ends:
        assert tenure.released
        assert bench.acquire(bench.file(direct=True), "shop/second/1").fencing_token == before.lease.fencing_token + 1
    else:
        tenure.check()
        commit(tenure, cursor(8), batch_id="batch_2", release=True)
        assert bench.truth().checkpoint.cursor == cursor(8)


def _happened_once(bench: Bench, operation: Operation, before: State) -> None:
    now = bench.truth()
    assert operation.shows(before, now)
    writes = len(now.write_ids) - len(before.write_ids)
    most = 2 if operation.ends else 1  # a release that landed late is stamped anew
    assert 1 <= writes <= most, "one write, whatever became of its copies"
    assert sum(len(record.etags) for record in bench.proxy.requests.select("PUT", NAME)) == writes
    assert now.lease.fencing_token == before.lease.fencing_token
    assert bench.emitted("lease_lost") == 0


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
    bench = Bench(azurite, proxy, container)
    bench.store(direct=True).write("other", b"{}", if_tag=None)  # the container
    proxy.plan = script = Script([FAULTS[kind]])
    tenure = bench.acquire()
    assert not script.left
    proxy.release("late")
    proxy.settle()
    assert bench.truth().lease.fencing_token == tenure.fencing_token == 1
    tenure.release(give_back=False)
    bench.close()


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
