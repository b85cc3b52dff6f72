"""The handler that poller.toml names: it prints what it is given."""

from __future__ import annotations

from poller import Batch


def on_orders(batch: Batch) -> None:
    """Print one line per order. An exception here would leave the batch undelivered, to be tried again."""
    for order in batch:
        print(f"order {order['id']}: {order['status']}, {order['total']}", flush=True)
