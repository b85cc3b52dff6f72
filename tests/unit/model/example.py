"""The document that the design shows, and one that has unknown fields wherever a document may have them."""

from __future__ import annotations

import json
from typing import Any

from poller.model.document import OperatorChange, State, decode

EXAMPLE = b"""{
  "version": 1,
  "poller_name": "orders",
  "source_fingerprint": "sha256:...",
  "checkpoint": {
    "cursor": {"kind": "timestamp+pk", "value": "2026-04-07T01:23:45.123456Z", "tiebreaker": {"id": 12093}},
    "last_successful_batch_id": "batch_20260407_012346_0001",
    "updated_at": "2026-04-07T01:23:46.020000Z",
    "metadata": {"row_count": 100}
  },
  "lease": {
    "owner_id": "funcapp/instance-abc123", "fencing_token": 42,
    "acquired_at": "2026-04-07T01:23:00Z", "heartbeat_at": "2026-04-07T01:23:20Z", "expires_at": "2026-04-07T01:25:00Z"
  }
}
"""
"""As it stands in the design, to the letter."""
STRANGE: dict[str, Any] = {
    "version": 1,
    "poller_name": "orders",
    "source_fingerprint": "sha256:...",
    "checkpoint": {
        "cursor": {
            "kind": "timestamp+pk",
            "value": "2026-04-07T01:23:45.123456Z",
            "tiebreaker": {"id": 12093},
            "x_cursor": 1,
        },
        "last_successful_batch_id": "b",
        "updated_at": "2026-04-07T01:23:46.020000Z",
        "metadata": {"row_count": 100, "x_metadata": "m"},
        "x_checkpoint": [1, 2.5, None],
    },
    "lease": {
        "owner_id": "funcapp/1",
        "fencing_token": 42,
        "acquired_at": "2026-04-07T01:23:00Z",
        "heartbeat_at": "2026-04-07T01:23:20Z",
        "expires_at": "2026-04-07T01:25:00Z",
        "x_lease": {"deep": {"er": ["é", "\u0000", 123456789012345678901234567890]}},
    },
    "delivery": {
        "attempts": 2,
        "last_error": {"type": "ValueError", "message": "no", "x_error": True},
        "x_delivery": "kept",
    },
    "control": {
        "paused": False,
        "last_change": {"id": "c1", "kind": "pause", "by": "ann", "x_change": 0.1},
        "x_control": False,
    },
    "source": {"table": "orders", "x_source": 1, "database": {"dialect": "postgresql", "x_database": ""}},
    "write_ids": ["w1"],
    "x_top": {"a": [{"b": None}]},
}
"""Every part carries one field more than we know; unknown names begin with `x_`."""


def example() -> State:
    """The design's document, read."""
    return decode(EXAMPLE, location="blob state/shop/orders.json", poller_name="orders")


def strange() -> State:
    """The document full of unknown fields, read."""
    return decode(json.dumps(STRANGE).encode(), location="blob state/shop/orders.json", poller_name="orders")


def unknown(data: Any, path: str = "") -> dict[str, Any]:
    """Every field whose name begins with `x_`, by its dotted path."""
    found: dict[str, Any] = {}
    if isinstance(data, dict):
        for name, value in data.items():
            here = f"{path}.{name}".lstrip(".")
            if name.startswith("x_"):
                found[here] = value
            else:
                found.update(unknown(value, here))
    return found


def change(number: int = 1, kind: str = "pause") -> OperatorChange:
    return OperatorChange(id=f"change-{number}", kind=kind, by="ann")
