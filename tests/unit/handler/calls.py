"""A handler called wherever one may run: sync, async, within a running event loop, in a process of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import pytest

from poller import Batch
from poller.handler import CallResult, HandlerFailure, InvalidReport, ProcessExecutor, ThreadExecutor
from poller.runtime import SystemRuntime
from tests.support.sayings import Awaited, Unawaited

ROWS = [{"id": 1}, {"id": 2}, {"id": 3}]
Run: TypeAlias = Callable[[Any], CallResult]


def of(batch: Batch | None = None) -> Batch:
    return batch or Batch.of_rows(ROWS)


def in_thread(handler: Any, batch: Batch | None = None) -> CallResult:
    batch = of(batch)
    return ThreadExecutor().run(handler, batch, batch._lease, 60)


def in_loop(handler: Any) -> CallResult:
    async def main() -> CallResult:
        return in_thread(Awaited(handler))

    return asyncio.run(main())


@pytest.fixture(scope="module")
def process() -> Iterator[Run]:
    executor = ProcessExecutor(SystemRuntime())

    def run(handler: Any) -> CallResult:
        batch = of()
        return executor.run(handler, batch, batch._lease, 60)

    yield run
    executor.close()


PLACES = ("sync", "async", "unawaited", "in a loop", "process", "async process")


@pytest.fixture(params=PLACES)
def run(request: pytest.FixtureRequest, process: Run) -> Run:
    return {
        "sync": in_thread,
        "async": lambda handler: in_thread(Awaited(handler)),
        "unawaited": lambda handler: in_thread(Unawaited(handler)),
        "in a loop": in_loop,
        "process": process,
        "async process": lambda handler: process(Awaited(handler)),
    }[request.param]


def end_of(run: Run, handler: Any) -> tuple[str, tuple[int, ...], tuple[int, ...], float]:
    """How the call ends, as `LeasedDelivery` sees it: what is raised failed as a whole."""
    try:
        result = run(handler)
    except (ValueError, InvalidReport, HandlerFailure) as error:
        result = CallResult.of_error(error)
    every_row_done = result.end == "returned" and not result.named
    assert (result.error is None) == every_row_done, "no row may pass for done unless all are"
    failed, rejected = (tuple(row.position for row in rows) for rows in (result.failed, result.rejected))
    return result.end, failed, rejected, result.seconds
