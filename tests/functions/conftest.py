"""An app on disk, in a process that forgets what it imported."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.functions.folder import Folder, add_rows
from tests.functions.queue_app import write_host
from tests.support.azurite import Azurite


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Folder]:
    """The folder of an app without pollers yet. What its import leaves in this process is undone."""
    for setting in ("POLLER_CONFIG", "WEBSITE_SITE_NAME", "AzureFunctionsJobHost__functionTimeout"):
        monkeypatch.delenv(setting, raising=False)
    monkeypatch.chdir("/")
    path, level = list(sys.path), logging.getLogger("poller").level
    yield Folder(tmp_path)
    sys.path[:] = path
    logging.getLogger("poller").setLevel(level)
    for module in ("handlers", "function_app"):
        sys.modules.pop(module, None)


@pytest.fixture
def shop(folder: Folder) -> Folder:
    """An app with one poller over five orders."""
    add_rows(folder.database, 5)
    folder.poller(options="batch_size = 2")
    return folder


@pytest.fixture
def one_by_one(folder: Folder) -> Folder:
    """An app with one poller over five orders, handed over singly; a call that failed is made again at once."""
    add_rows(folder.database, 5)
    folder.poller(options='batch_size = 1\nretry_backoff = "1ms"')
    return folder


@pytest.fixture
def queued(folder: Folder, azurite: Azurite, container: str, monkeypatch: pytest.MonkeyPatch) -> Folder:
    """An app in queue mode with two pollers, each over five orders, and a state of its own."""
    monkeypatch.setenv("Storage", azurite.connection_string_with_queues)
    monkeypatch.delenv("PYTHON_THREADPOOL_THREAD_COUNT", raising=False)
    add_rows(folder.database, 5)
    add_rows(folder.database, 5, table="refunds")
    queue = f"q{container.removeprefix('test-')}"
    folder.state = f'store = "blob"\nconnection = "Storage"\ncontainer = "{container}"'
    folder.defaults = f'[functions]\nmode = "queue"\nqueue = "{queue}"'
    folder.poller("orders")
    folder.poller("refunds", "refunds")
    write_host(folder)
    return folder
