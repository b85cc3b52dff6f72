"""What a handler says of single rows, and what it leaves open: neither passes for done."""

from __future__ import annotations

import pytest

from poller.handler.batch import Batch
from poller.handler.call import HandlerFailure, call
from poller.handler.result import CallResult

ROWS = [{"id": 1}, {"id": 2}, {"id": 3}]


class Transaction:
    """A fence of a sink: what it would say, and which rows it has noted as applied."""

    def __init__(self, problem: str | None = None, noted: frozenset[int] = frozenset()) -> None:
        self.said, self.noted = problem, noted

    def problem(self) -> str | None:
        return self.said

    def remembers(self, position: int) -> bool:
        return position in self.noted


def run(batch: Batch, handler: object) -> CallResult:
    return call(handler, batch, batch._lease)  # type: ignore[arg-type]


def test_named_rows_are_kept_in_the_order_of_the_batch() -> None:
    batch = Batch.of_rows(ROWS)
    batch.reject(batch.rows[2], "no address")
    batch.fail(batch.rows[0], ValueError("5"))
    assert [(one.position, str(one.error), one.rejected) for one in batch.failures] == [
        (0, "5", False),
        (2, "no address", True),
    ]


def test_a_row_that_is_poison_stays_poison() -> None:
    batch = Batch.of_rows(ROWS)
    batch.reject(batch.rows[0], "no address")
    batch.fail(batch.rows[0], "again")
    assert [one.rejected for one in batch.failures] == [True]


@pytest.mark.parametrize("name", ["fail", "reject"])
def test_only_a_row_of_the_batch_can_be_named(name: str) -> None:
    with pytest.raises(ValueError, match="takes a row of this batch"):
        getattr(Batch.of_rows(ROWS), name)({"id": 1}, "why")


def test_a_batch_with_a_row_that_failed_is_not_done() -> None:
    """Nothing sets rows aside yet: were it done, the checkpoint would pass them."""
    error = run(Batch.of_rows(ROWS), lambda batch: batch.fail(batch.rows[1], ValueError("5"))).error
    assert isinstance(error, HandlerFailure)
    assert (error.kind, str(error)) == ("RowsFailed", "1 of 3 rows failed, the first with ValueError: 5")


def test_a_handler_that_leaves_a_transaction_open_has_failed() -> None:
    with pytest.raises(HandlerFailure, match="still open") as failure:
        run(Batch.of_rows(ROWS), lambda batch: batch.fences.append(Transaction("still open")))
    assert failure.value.kind == "FenceNotCommitted"


def test_a_handler_whose_transactions_are_committed_is_done() -> None:
    assert run(Batch.of_rows(ROWS), lambda batch: batch.fences.append(Transaction())) == CallResult()


def test_a_row_that_a_sink_noted_as_applied_can_no_longer_fail() -> None:
    batch = Batch.of_rows(ROWS)
    batch.fences.append(Transaction(noted=frozenset({1})))
    batch.fail(batch.rows[0], "why")
    for name in (batch.fail, batch.reject):
        with pytest.raises(ValueError, match="before the sink's block ends"):
            name(batch.rows[1], "why")
