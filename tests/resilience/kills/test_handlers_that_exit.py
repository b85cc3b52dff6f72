"""A handler that calls sys.exit, or raises what no `except Exception` takes, failed as any other; with
`error_text = false` nobody prints what it said."""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from poller import Batch, Handler, TickResult
from poller.stores import MemoryStore
from tests.resilience.faults.shop import Shop

SAID = "row of Jane Doe"


class Timeout(BaseException):
    """As of libraries that want to be caught by themselves only."""


class Lying(Exception):
    """It fails at saying of which class it is."""

    def __getattribute__(self, name: str) -> object:
        if name == "__class__":
            raise RuntimeError("no")
        return super().__getattribute__(name)


def lies(batch: Batch) -> None:
    raise Lying(SAID)


def exits(batch: Batch) -> None:
    sys.exit(SAID)


async def exits_in_a_loop(batch: Batch) -> None:
    await asyncio.sleep(0)
    sys.exit(SAID)


def raises_apart(batch: Batch) -> None:
    raise Timeout(SAID)


def _ticked(tick: Callable[[], TickResult], in_a_loop: bool) -> TickResult:
    async def within() -> TickResult:
        return tick()

    return asyncio.run(within()) if in_a_loop else tick()


@pytest.mark.soak
@pytest.mark.parametrize("in_a_loop", [False, True], ids=["", "beside a loop"])
def test_an_async_handler_that_exits_failed_and_asyncio_is_silent(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str], in_a_loop: bool
) -> None:
    shop = Shop(tmp_path, 5)
    poller = shop.poller(MemoryStore(), error_text=False)
    result = _ticked(lambda: poller.tick(exits_in_a_loop), in_a_loop)
    assert (result.outcome, result.error) == ("handler_failed", "SystemExit")
    del result
    gc.collect()  # a task that nobody asked for its exception shows it when it is collected
    assert SAID not in caplog.text
    assert SAID not in "".join(capfd.readouterr())


def test_an_async_handlers_exit_is_reported_as_any_error(tmp_path: Path) -> None:
    result = Shop(tmp_path, 5).poller(MemoryStore()).tick(exits_in_a_loop)
    assert result.error == f"SystemExit: {SAID}"


@pytest.mark.parametrize(
    ("handler", "kind"),
    [(exits, "SystemExit"), (exits_in_a_loop, "SystemExit"), (raises_apart, "Timeout"), (lies, "Lying")],
)
def test_in_a_child_process_it_failed_by_type_and_printed_nothing(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], handler: Handler, kind: str
) -> None:
    shop = Shop(tmp_path, 5)
    poller = shop.poller(MemoryStore(), isolation="process", error_text=False)
    result = poller.tick(handler)
    shop.close()
    assert (result.outcome, result.error) == ("handler_failed", kind)
    assert SAID not in "".join(capfd.readouterr())
