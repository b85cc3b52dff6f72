"""`isolation = "process"` on a machine that has no room for one more process just now."""

from __future__ import annotations

import threading
from multiprocessing.context import SpawnProcess
from pathlib import Path

import pytest

from poller import Poller
from poller.errors import ConfigError
from poller.stores import MemoryStore
from poller.worker import Ended, run
from tests.resilience.faults.shop import Shop
from tests.resilience.kills import children
from tests.support.services import wait_until

NO_PROCESS = BlockingIOError(11, "Resource temporarily unavailable")


def test_poller_run_goes_on_once_there_is_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(children.FOLDER, str(tmp_path))
    shop = Shop(tmp_path, 5)
    poller = shop.poller(
        MemoryStore(), isolation="process", handler="tests.resilience.kills.children:fine", schedule="* * * * * *"
    )
    start, refused = SpawnProcess.start, threading.Event()

    def refuse_once(self: SpawnProcess) -> None:
        if not refused.is_set():
            refused.set()
            raise NO_PROCESS
        start(self)

    monkeypatch.setattr(SpawnProcess, "start", refuse_once)
    stop, ends = threading.Event(), list[Ended[Poller]]()
    loop = threading.Thread(target=lambda: ends.extend(run([poller], "forever", stop)), daemon=True)
    loop.start()
    try:
        wait_until(lambda: bool(shop.emitted("batch_committed") or ends), "the batch is delivered")
        assert refused.is_set()
        assert not ends
    finally:
        stop.set()
        loop.join(30)
        shop.close()
    assert [end.error for end in ends] == [None]
    (failed,) = shop.emitted("tick_failed")
    assert "room for one more process" in failed["error"]


def test_a_handler_that_cannot_be_sent_is_a_configuration_error(tmp_path: Path) -> None:
    shop = Shop(tmp_path, 5)
    with pytest.raises(ConfigError, match=r"isolation = \"thread\"") as refused:
        shop.poller(MemoryStore(), isolation="process").tick(lambda batch: None)
    assert refused.value.key == "isolation"
