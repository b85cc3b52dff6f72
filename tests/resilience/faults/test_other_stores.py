"""Every fault of one write, with the state in a table, in S3 and in Cosmos DB: the same laws as for blobs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from poller.errors import StoreUnavailable
from tests.resilience.faults import fault
from tests.resilience.faults.bench import NAME, PATIENT, Bench
from tests.resilience.faults.laws import ANY_WRITE, FAULTS, one_fault, one_fault_of_the_create
from tests.resilience.faults.operations import OPERATIONS, Operation
from tests.resilience.faults.other_stores import STORES, elsewhere
from tests.resilience.faults.plan import STATE_READS, NoFaults, Script

CONFLICT = {"409": fault.conflict()}
"""What S3 says of a write while another was under way, and moto never does."""
KINDS = {**FAULTS, **CONFLICT}
QUICK = ANY_WRITE | {*CONFLICT}
PAIRS = [(store, kind) for store in STORES for kind in KINDS if kind not in CONFLICT or store == "s3"]


@pytest.fixture
def empty(request: pytest.FixtureRequest) -> Iterator[Bench]:
    """Of the store that the test names; no document is there yet."""
    with elsewhere(request.param, request) as made:
        yield made


def quick(kind: str, *, also: bool = True) -> Any:
    """The mark of a case: the others are of the soak."""
    return () if kind in QUICK and also else pytest.mark.soak


@pytest.mark.parametrize(
    ("empty", "operation", "kind"),
    [
        pytest.param(
            store,
            operation,
            kind,
            marks=quick(kind, also=str(operation).startswith("commit")),
            id=f"{store}-{operation}-{kind}",
        )
        for store, kind in PAIRS
        for operation in OPERATIONS
    ],
    indirect=["empty"],
)
def test_elsewhere_one_fault_loses_neither_lease_nor_write(empty: Bench, operation: Operation, kind: str) -> None:
    empty.acquire().release(give_back=True)
    empty.events.clear()
    one_fault(empty, operation, KINDS[kind])


@pytest.mark.parametrize(
    ("empty", "kind"),
    [pytest.param(store, kind, marks=quick(kind), id=f"{store}-{kind}") for store, kind in PAIRS],
    indirect=["empty"],
)
def test_elsewhere_one_fault_of_the_create_is_one_document(empty: Bench, kind: str) -> None:
    one_fault_of_the_create(empty, KINDS[kind])


@pytest.mark.parametrize("empty", ["s3", "cosmos"], indirect=True)
def test_a_read_and_a_write_are_one_request_each(empty: Bench) -> None:
    empty.acquire().release(give_back=True)
    found = empty.store().read(NAME, timeout=PATIENT)
    empty.proxy.reset()
    empty.store().read(NAME, unless=found.tag, timeout=PATIENT)  # type: ignore[union-attr]
    empty.store().write(NAME, b"{}", if_tag=found.tag, timeout=PATIENT)  # type: ignore[union-attr]
    assert empty.proxy.counts() == {"GET": 1, "PUT": 1}


@pytest.mark.parametrize("empty", ["s3"], indirect=True)
def test_an_idle_read_of_s3_is_answered_without_the_document(empty: Bench) -> None:
    empty.acquire().release(give_back=True)
    found = empty.store().read(NAME, timeout=PATIENT)
    empty.proxy.reset()
    empty.store().read(NAME, unless=found.tag, timeout=PATIENT)  # type: ignore[union-attr]
    (asked,) = empty.proxy.requests
    assert (asked.request.method, asked.status) == ("GET", 304)


@pytest.mark.parametrize("empty", ["s3"], indirect=True)
def test_a_409_is_sure_that_nothing_was_written(empty: Bench) -> None:
    store = empty.store()
    tag = store.write(NAME, b"{}", if_tag=None, timeout=PATIENT).tag
    empty.proxy.plan = Script([fault.conflict()])
    with pytest.raises(StoreUnavailable) as refused:
        store.write(NAME, b"1", if_tag=tag, timeout=PATIENT)
    assert not refused.value.sent
    assert "may or may not" not in str(refused.value)
    store.write(NAME, b"1", if_tag=tag, timeout=PATIENT)


@pytest.mark.parametrize("empty", ["s3"], indirect=True)
def test_an_answer_of_s3_cut_inside_its_head_is_no_answer(empty: Bench) -> None:
    store, tag = empty.store(), None
    for step in range(0, 100, 10):
        empty.proxy.plan = Script([fault.truncated(step / 100)])
        with pytest.raises(StoreUnavailable):
            store.write("state/shop/cut.json", b"{}", if_tag=tag, timeout=PATIENT)
        [tag] = empty.proxy.requests[-1].etags
    empty.proxy.plan = NoFaults()
    empty.proxy.plan = Script([fault.truncated(0.5)], STATE_READS)
    with pytest.raises(StoreUnavailable):
        store.read("state/shop/cut.json", timeout=PATIENT)
