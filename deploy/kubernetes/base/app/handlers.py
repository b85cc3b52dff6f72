"""The handlers that poller.toml names: replace them by your own."""

from __future__ import annotations

import logging

from poller import Batch

logger = logging.getLogger("orders")


def on_orders(batch: Batch) -> None:
    """Ship each order. Rows come at least once: pass `batch.key(order)` on, so that a receiver drops repetitions."""
    for order in batch:
        batch.check()  # a worker that lost its lease stops here instead of shipping beside the new owner
        logger.info("order %s, key %s", order["id"], batch.key(order))
