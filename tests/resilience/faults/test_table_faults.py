"""Every fault of one write, with the state in Table Storage: the same laws as for blobs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.resilience.faults.bench import Bench
from tests.resilience.faults.laws import ANY_WRITE, FAULTS, one_fault, one_fault_of_the_create
from tests.resilience.faults.operations import OPERATIONS, Operation
from tests.resilience.faults.proxy import FaultProxy
from tests.support.azurite import Azurite

pytest.importorskip("azure.data.tables", reason="needs the extra table")


@pytest.fixture
def empty(azurite: Azurite) -> Iterator[Bench]:
    azurite.start_tables()
    with FaultProxy("127.0.0.1", azurite.table_port) as proxy:
        made = Bench(azurite, proxy, azurite.table_name(), tables=True)
        yield made
        made.close()


@pytest.mark.parametrize(
    ("operation", "kind"),
    [
        pytest.param(
            operation,
            kind,
            marks=() if kind in ANY_WRITE and str(operation).startswith("commit") else pytest.mark.soak,
            id=f"{operation}-{kind}",
        )
        for operation in OPERATIONS
        for kind in FAULTS
    ],
)
def test_on_tables_one_fault_loses_neither_lease_nor_write(empty: Bench, operation: Operation, kind: str) -> None:
    empty.acquire().release(give_back=True)
    empty.events.clear()
    one_fault(empty, operation, FAULTS[kind])


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=() if kind in ANY_WRITE else pytest.mark.soak) for kind in FAULTS]
)
def test_on_tables_one_fault_of_the_create_is_one_document(empty: Bench, kind: str) -> None:
    one_fault_of_the_create(empty, FAULTS[kind])
