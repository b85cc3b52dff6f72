"""A row that is named after the call is over, by a thread or task of the handler: an error there, and never silence."""

from __future__ import annotations

import itertools
import threading
from typing import Any

import pytest

from poller import Batch
from poller.handler import ThreadExecutor
from tests.support import sayings
from tests.support.sayings import NamesLate
from tests.unit.handler.calls import Run, end_of

MANY = 2000


@pytest.mark.guarantee(
    "Delivery",
    "A row that a handler names as failed counts, or the code that names it gets an error, also in a thread or task "
    "that outlives the call and in a child process",
)
def test_a_row_named_after_the_call_is_an_error_there(run: Run) -> None:
    for method, end in itertools.product(("fail", "reject"), sayings.ENDS):
        handler = NamesLate(method, end)
        end_of(run, handler)
        (named,) = run(handler).failed
        assert (named.position, named.kind) == (1, "RuntimeError"), end
        assert named.text.startswith(f"batch.{method}: the call with batch_test_0001 of test is over"), end
        assert "Wait in the handler" in named.text


def test_each_row_that_a_thread_names_counts_or_is_an_error() -> None:
    """The call ends while a thread names row after row."""
    batch = Batch.of_rows([{"id": number} for number in range(MANY)])
    accepted: list[int] = []
    begun = threading.Event()

    def names() -> None:
        for position, row in enumerate(batch):
            try:
                batch.fail(row, "no")
            except RuntimeError:
                return
            accepted.append(position)
            begun.set()

    thread = threading.Thread(target=names)

    def handle(_: Batch) -> Any:
        thread.start()
        begun.wait()

    result = ThreadExecutor().run(handle, batch, batch._lease, 60)
    thread.join()
    assert [row.position for row in result.failed] == accepted
