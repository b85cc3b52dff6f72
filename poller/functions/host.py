"""The host of a function app: where its files are, when it ends an invocation, what it forgets, what it logs."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

from poller.config.host_file import read_host
from poller.errors import ConfigError
from poller.model.durations import format_duration
from poller.poller import Poller
from poller.ports import StateStore

logger = logging.getLogger("poller")

_SPAN = re.compile(r"(?:(\d+)\.)?(\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.\d+)?)?")


def folders_of(caller: Mapping[str, Any]) -> tuple[Path, ...]:
    """Where the app's files are looked for: beside the file that calls us, then in the working directory."""
    file = caller.get("__file__")
    here = Path.cwd()
    return (Path(file).resolve().parent, here) if isinstance(file, str) else (here,)


def find_file(path: Path, folders: tuple[Path, ...]) -> Path:
    """The configuration file, in the first folder that has it. Raises: ConfigError."""
    for folder in folders:
        if (folder / path).is_file():
            return folder / path
    looked = " nor in ".join(str(folder) for folder in dict.fromkeys(folders))
    raise ConfigError(
        f"There is no configuration file {path} in {looked}." if not path.is_absolute() else f"There is no {path}.",
        file=str(path),
        next_step="Put it beside function_app.py, see that .funcignore does not leave it out, "
        "or name another one with the app setting POLLER_CONFIG.",
    )


def check_timeout(poller: Poller, folders: tuple[Path, ...], *, file: str = "") -> None:
    """A tick that outlives `functionTimeout` is ended together with the whole worker, in the middle of a batch."""
    limit, origin = _function_timeout(folders)
    took = poller.options.tick_timeout
    if limit is not None and took >= limit:
        key = f"pollers.{poller.name}.tick_timeout" if file else "tick_timeout"
        raise ConfigError(
            f"{f'{file}: ' if file else ''}{key}: {format_duration(took)} is not below {origin}, "
            f"{format_duration(limit)}: the host would end the worker in the middle of a batch.",
            key=key,
            file=file,
            next_step="Lower tick_timeout or raise functionTimeout; leave at least 15 s between them.",
        )


def _function_timeout(folders: tuple[Path, ...]) -> tuple[timedelta | None, str]:
    """The host's limit for an invocation and what sets it; None where nothing does, or it is unbounded (-1)."""
    setting = "AzureFunctionsJobHost__functionTimeout"
    if setting in os.environ:
        return _span(os.environ[setting]), f"the app setting {setting}"
    file, said = read_host(folders)
    if file is None or said is None:  # the host itself says what is wrong with it
        return None, ""
    return _span(said.get("functionTimeout")), f"functionTimeout in {file}"


def _span(text: object) -> timedelta | None:
    """A .NET time span such as `00:05:00` or `1.00:00:00`."""
    match = _SPAN.fullmatch(text.strip()) if isinstance(text, str) else None
    if match is None:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)


def refuse_what_a_worker_forgets(store: StateStore, *, file: str = "") -> None:
    """In Azure a worker's memory and disk end with it; a checkpoint kept there begins again at every restart."""
    if "WEBSITE_SITE_NAME" not in os.environ:
        return
    from poller.stores import MemoryStore, SqlStore

    embedded = isinstance(store, SqlStore) and store.backend == "sqlite"
    if embedded or isinstance(store, MemoryStore):
        key = "store" if not file else "state.url" if embedded else "state.store"
        raise ConfigError(
            f"{f'{file}: ' if file else ''}{key}: {'SQLite' if embedded else 'memory'} does not outlive a worker in "
            "Azure: the pollers would begin again with every restart, and in every instance.",
            key=key,
            file=file,
            next_step='Set state.store = "blob" or "table", or name a database server.'
            if file
            else "Give it a BlobStore.",
        )


def quiet_requests() -> None:
    """The worker logs everything at INFO and above, and the storage client each request's headers."""
    requests = logging.getLogger("azure.core.pipeline.policies.http_logging_policy")
    if requests.level == logging.NOTSET:
        requests.setLevel(logging.WARNING)


def log_wrong(wrong: Mapping[str, ConfigError]) -> None:
    """Each error once, however many pollers have it from one template."""
    having: dict[str, list[str]] = {}
    for name, why in wrong.items():
        having.setdefault(str(why), []).append(name)
    for text, names in having.items():
        others = f" and {len(names) - 1} more" if len(names) > 1 else ""
        logger.error("%s%s: %s", names[0], others, text)
