"""Every kind of fault, and what holds after one of them, in whichever store."""

from __future__ import annotations

from poller.model.document import State
from tests.resilience.faults import fault
from tests.resilience.faults.bench import NAME, PATIENT, Bench, commit, cursor
from tests.resilience.faults.fault import Fault
from tests.resilience.faults.operations import Operation
from tests.resilience.faults.plan import Script

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


def one_fault(bench: Bench, operation: Operation, kind: Fault) -> None:
    """It neither loses the lease, nor the write, nor does the write happen twice."""
    tenure = bench.acquire()
    before = bench.truth()
    bench.proxy.reset()
    bench.proxy.plan = script = Script([kind])
    operation.act(tenure)
    assert not script.left
    bench.proxy.release("late", PATIENT.read)
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


def one_fault_of_the_create(bench: Bench, kind: Fault) -> None:
    """A copy that landed answers the resend with a conflict, which is no loss either."""
    # Makes the container or table, and is what a store tries at its first write.
    bench.store().write("other", b"{}", if_tag=None, timeout=PATIENT)
    bench.proxy.plan = script = Script([kind])
    tenure = bench.acquire()
    assert not script.left
    bench.proxy.release("late", PATIENT.read)
    bench.proxy.settle()
    assert bench.truth().lease.fencing_token == tenure.fencing_token == 1
    tenure.release(give_back=False)
    bench.close()
