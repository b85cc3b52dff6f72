"""An app in queue mode, and its host.json."""

from __future__ import annotations

import json
from typing import Any

from tests.functions.folder import Folder

HOST: dict[str, Any] = {
    "version": "2.0",
    "functionTimeout": "00:05:00",
    "extensionBundle": {"id": "Microsoft.Azure.Functions.ExtensionBundle", "version": "[4.*, 5.0.0)"},
    "extensions": {
        "queues": {"batchSize": 2, "newBatchThreshold": 0, "maxPollingInterval": "00:00:02", "maxDequeueCount": 1}
    },
}


def write_host(folder: Folder, **changes: Any) -> None:
    queues = {**HOST["extensions"]["queues"], **changes.pop("queues", {})}
    content = {**HOST, "extensions": {"queues": queues}, **changes}
    kept = {name: value for name, value in content.items() if value is not None}
    (folder.path / "host.json").write_text(json.dumps(kept))
