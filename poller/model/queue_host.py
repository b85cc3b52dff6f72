"""What `host.json` must say where work comes by a queue (`[functions] mode = "queue"`). Pure.

Facts: https://learn.microsoft.com/azure/azure-functions/functions-bindings-storage-queue#host-json and
https://learn.microsoft.com/azure/azure-functions/functions-concurrency#dynamic-concurrency
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

MOST_SECONDS = 2.0
"""The longest `maxPollingInterval`: so long a message may wait before the host sees it."""
BATCH_SIZE = 16
"""The host's own `batchSize`; its `newBatchThreshold` is half of the batch size."""
MOST_AT_ONCE = 32
"""The largest `batchSize` with which the host starts."""
QUEUES = ("extensions", "queues")
"""Where host.json has the settings of queue triggers."""
DYNAMIC = ("concurrency", "dynamicConcurrencyEnabled")
_SPAN = re.compile(r"(?:(\d+)\.)?(\d{1,2}):(\d{1,2}):(\d{1,2}(?:\.\d+)?)")
EXAMPLE = (
    '"extensions": {"queues": {"batchSize": 4, "newBatchThreshold": 0, "maxPollingInterval": "00:00:02", '
    '"maxDequeueCount": 1}}'
)


@dataclass(frozen=True, slots=True)
class QueueRefusal:
    """What would not work. `key`: in host.json; `next_step`: what to do."""

    key: str
    message: str
    next_step: str


def refusals(host: Mapping[str, Any], environ: Mapping[str, str], *, threads: int) -> list[QueueRefusal]:
    """What would not work.

    Args:
        host: what host.json says. environ: the app settings, which may override it. threads: of the worker's pool.
    """
    found = []
    if not isinstance(host.get("extensionBundle"), Mapping):
        found.append(
            QueueRefusal(
                "extensionBundle",
                "is missing: without it the host knows no queue trigger",
                '"extensionBundle": {"id": "Microsoft.Azure.Functions.ExtensionBundle", "version": "[4.*, 5.0.0)"}',
            )
        )
    encoding = _setting(host, environ, (*QUEUES, "messageEncoding"), "base64")
    if str(encoding).lower() != "base64":
        found.append(
            QueueRefusal(
                "extensions.queues.messageEncoding",
                f"is {encoding!r}, and the dispatcher writes base64",
                'Remove it, or set "base64".',
            )
        )
    batch = _number(_setting(host, environ, (*QUEUES, "batchSize"), BATCH_SIZE))
    more = _number(_setting(host, environ, (*QUEUES, "newBatchThreshold"), None if batch is None else batch // 2))
    if batch is not None and more is not None and not (0 < batch <= MOST_AT_ONCE and more >= 0):
        found.append(
            QueueRefusal(
                "extensions.queues.batchSize",
                f"is {batch}, with a newBatchThreshold of {more}: the host takes 1 to {MOST_AT_ONCE}, and at least 0",
                EXAMPLE,
            )
        )
    elif batch is None or more is None or batch + more > threads:
        found.append(
            QueueRefusal(
                "extensions.queues.batchSize",
                f"and newBatchThreshold make {_sum(batch, more)} ticks at once, and the worker has {threads} threads: "
                "the others would wait for one with their message taken",
                f"{EXAMPLE}, or raise the app setting PYTHON_THREADPOOL_THREAD_COUNT.",
            )
        )
    if str(_setting(host, environ, DYNAMIC, False)).lower() == "true":
        found.append(
            QueueRefusal(
                ".".join(DYNAMIC),
                "is true: the host then ignores batchSize and newBatchThreshold, and may take more messages than the "
                "worker has threads",
                'Remove it, or set "concurrency": {"dynamicConcurrencyEnabled": false}.',
            )
        )
    pause = _seconds(_setting(host, environ, (*QUEUES, "maxPollingInterval"), "00:01:00"))
    if pause is None or pause > MOST_SECONDS:
        found.append(
            QueueRefusal(
                "extensions.queues.maxPollingInterval",
                "is not at most 2 s (a minute where it is not set): so long a message waits in an idle app",
                EXAMPLE,
            )
        )
    return found


def _setting(host: Mapping[str, Any], environ: Mapping[str, str], path: Sequence[str], default: object) -> object:
    name = "__".join(("AzureFunctionsJobHost", *path)).lower()
    for setting, value in environ.items():
        if setting.lower() == name:
            return value
    inner: object = host
    for part in path:
        inner = inner.get(part) if isinstance(inner, Mapping) else None
    return default if inner is None else inner


def _number(said: object) -> int | None:
    try:
        return int(str(said))
    except ValueError:
        return None


def _sum(batch: int | None, more: int | None) -> str:
    return "an unknown number of" if batch is None or more is None else str(batch + more)


def _seconds(said: object) -> float | None:
    parts = _SPAN.fullmatch(str(said))
    if parts is None:
        return None
    days, hours, minutes, seconds = parts.groups()
    return int(days or 0) * 86400 + int(hours) * 3600 + int(minutes) * 60 + float(seconds)
