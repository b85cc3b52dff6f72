"""The dispatcher and the work of a configuration file, wired. Nothing is opened before it is needed."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from poller.config import AppConfig
from poller.config.host_file import read_host
from poller.config.types import LONGEST_QUEUE
from poller.dispatch.probes import DatabaseProber
from poller.dispatch.queues import StorageQueue
from poller.dispatch.round import Dispatcher, Pollers
from poller.errors import ConfigError, StoreError
from poller.journal.configurations import Configurations
from poller.model import queue_host
from poller.model.finding import Finding, error, ok
from poller.model.queue_host import QueueRefusal
from poller.ports import ListingStore

if TYPE_CHECKING:
    from poller.app import App


def queue_name(config: AppConfig, *, file: str = "") -> str:
    """The queue of the app's work messages. Raises: ConfigError, if its default is too long a name."""
    name = config.functions.queue or f"poller-{config.app_name}"
    if len(name) > LONGEST_QUEUE or "--" in name or name.endswith("-"):
        raise ConfigError(
            f"{file}: functions.queue: is not set, and its default {name!r} cannot be the name of a queue: at most "
            f"{LONGEST_QUEUE} lower-case letters, digits and single hyphens.",
            key="functions.queue",
            file=file,
            next_step='Set one, such as queue = "orders-work".',
        )
    return name


def check_store(app: App) -> None:
    """Refuse a store without listings. Raises: ConfigError."""
    if not app.config.state.lists or not isinstance(app.store, ListingStore):
        raise ConfigError(
            f'{app.path}: functions.mode: "queue" needs state.store = "blob" or "table", and it is '
            f'"{app.config.state.store}": the dispatcher lists all documents by one request.',
            key="functions.mode",
            file=str(app.path),
            next_step='Set state.store = "blob" or "table", or functions.mode = "timer"; containers use poller run.',
        )


def open_queue(app: App, environ: Mapping[str, str]) -> StorageQueue:
    """The queue of an app. Raises: ConfigError."""
    check_store(app)
    name = queue_name(app.config, file=str(app.path))
    try:
        return StorageQueue.from_settings(app.config.state.connection, name, environ)
    except ModuleNotFoundError as error:
        raise ConfigError(
            f'{app.path}: functions.mode: "queue" needs the package {error.name}, which is not installed.',
            key="functions.mode",
            file=str(app.path),
            next_step="Install what poller depends on: pip install azure-storage-queue.",
        ) from None


def open_dispatcher(app: App, environ: Mapping[str, str], *, wrong: Mapping[str, str] | None = None) -> Dispatcher:
    """The dispatcher of an app. `wrong`: the schedules of pollers whose configuration is wrong. Raises: ConfigError."""
    config = app.config
    options = {name: own for name, own in config.pollers.items() if name not in (wrong or {})}
    pollers = Pollers(config.app_name, options, app.poller, wrong or {})
    queue = open_queue(app, environ)
    return Dispatcher(
        pollers,
        store=app.store,
        queue=queue,
        prober=DatabaseProber(app.runtime),
        runtime=app.runtime,
        configurations=Configurations(app.store, config, app.runtime),
    )


def threads_of(environ: Mapping[str, str]) -> int:
    """The number of functions that a worker runs side by side."""
    usual = min(32, (os.cpu_count() or 1) + 4)
    try:
        threads = int(environ["PYTHON_THREADPOOL_THREAD_COUNT"])
    except (KeyError, ValueError):
        return usual
    return threads if threads > 0 else usual


def host_refusals(folders: tuple[Path, ...], environ: Mapping[str, str]) -> list[QueueRefusal]:
    """What `host.json` in the first folder that has one says against `mode = "queue"`; where there is none, as if it
    said nothing."""
    _, said = read_host(folders)
    if said is None:
        return [
            QueueRefusal("what stands", "is not a JSON object that can be read", "Correct it: the host does not start.")
        ]
    return queue_host.refusals(said, environ, threads=threads_of(environ))


def findings(app: App, environ: Mapping[str, str]) -> list[Finding]:
    """What `poller check` says of `[functions] mode = "queue"`."""
    try:
        queue = open_queue(app, environ)
    except ConfigError as refused:
        return [error("functions", refused.message, refused.next_step)]
    refused_by_host = host_refusals((app.path.resolve().parent,), environ)
    found = [error("functions", f"{one.key} in host.json {one.message}.", one.next_step) for one in refused_by_host]
    try:
        queue.check()
    except StoreError as refused:
        found.append(error("functions", refused.message, refused.next_step))
    finally:
        queue.close()
    return found or [ok("functions", f"one dispatcher and the queue {queue_name(app.config)}")]
